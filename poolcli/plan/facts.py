"""What a person should know about a plan or a file: facts with fields to decide by, and the sentence that each is."""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.message_fields import field, in_python


@dataclass(frozen=True, slots=True)
class Fact:
    """Root of all facts. `message` is the sentence with its fields marked; `str` names them as Python does."""

    @property
    def message(self) -> str:
        """The sentence, for `poolcli.message_fields` to spell."""
        raise NotImplementedError

    def __str__(self) -> str:
        return in_python(self.message)


@dataclass(frozen=True, slots=True)
class Told(Fact):
    """What a file says of itself, as it was found."""

    text: str

    @property
    def message(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class AxesGuessed(Fact):
    """The axes of a file were read in the order of tensors, and may be others: `others` are layouts that are likely."""

    layout: str
    others: tuple[str, ...]

    @property
    def message(self) -> str:
        pooled = [letter for letter in self.layout if letter not in "NC"]
        only = f": only {pooled[0]} is pooled" if len(pooled) == 1 else ""
        remedies = " or ".join(field("layout", other) for other in self.others)
        return f"assuming layout {self.layout}{only}; otherwise use {remedies}"


@dataclass(frozen=True, slots=True)
class StridesNotGiven(Fact):
    """Windows move by 1 because nothing else was said."""

    @property
    def message(self) -> str:
        return f"strides not given: 1 on every axis; set them with {field('strides')}"


@dataclass(frozen=True, slots=True)
class PadsIgnored(Fact):
    """Pads were given that auto_pad replaces."""

    auto_pad: str

    @property
    def message(self) -> str:
        return f"the given pads are ignored: auto_pad {self.auto_pad} sets them"


@dataclass(frozen=True, slots=True)
class WindowDropped(Fact):
    """Rounding up would have made one window more."""

    axis: str

    @property
    def message(self) -> str:
        return f"axis {self.axis}: one window less, because the last one would start past the input"


@dataclass(frozen=True, slots=True)
class InputUnread(Fact):
    """Some of an axis lies in no window."""

    axis: str
    unread: int
    size: int

    @property
    def message(self) -> str:
        return f"axis {self.axis}: {self.unread} of {self.size} input elements are read by no window"


@dataclass(frozen=True, slots=True)
class WindowsEmpty(Fact):
    """Windows without any input, and what comes out of them."""

    count: int
    result: str

    @property
    def message(self) -> str:
        return f"{self.count} {'window holds' if self.count == 1 else 'windows hold'} no input element: {self.result}"


@dataclass(frozen=True, slots=True)
class ElementsMissing(Fact):
    """Which elements leave their windows, and what comes of a window that has no others."""

    missing: tuple[int | float, ...]
    result: str

    @property
    def message(self) -> str:
        numbers = " and ".join(f"{number:.9g}" if isinstance(number, float) else str(number) for number in self.missing)
        return f"elements equal to {numbers} are missing: they leave their windows; where none is left: {self.result}"
