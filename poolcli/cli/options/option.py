"""A row of the table of options: how something is typed, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

ELEMENTS = "{elements}"  # stands for what the operator picks: maxima


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its flags, its help, and what stands for its value there.

    `also` are the names that other frameworks have for it, `words` the values of one that takes no others, `example` a
    value for messages; `path` says what is completed: an `input`, an `output`, a `model`, an `array` inside a file. One
    that may stand alone is then `alone`; the next word is its value where it has the form of `value`.
    """

    flags: str
    text: str
    metavar: str = ""
    also: str = ""
    words: tuple[str, ...] = ()
    example: str = ""
    path: str = ""
    alone: str = ""
    value: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The flags, those that turn it off left out."""
        return tuple(flag for flag in self.flags.partition("/")[0].split())

    @property
    def shown_flags(self) -> tuple[str, ...]:
        """Its own flags, those that turn it off included."""
        return tuple(self.flags.replace("/", " ").split())

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Every flag, those of other frameworks included."""
        return (*self.shown_flags, *self.also.split())

    @property
    def turns_off(self) -> str:
        """The flag that turns it off; empty where there is none."""
        return self.flags.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that is given by its place."""

    metavar: str
    text: str
    words: tuple[str, ...] = ()
    example: str = ""
    path: str = ""
