"""How a message names a field, whoever reads it: `exclude_pad=True` in Python, `--exclude-pad` on the command line.

A message is written once, with `field(...)` where it names one. Both spellings are put there, between marks that no
text holds (noncharacters of Unicode); `in_python` and `on_command_line` keep the one that the reader can type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_START, _NEXT, _STOP, _MAYBE, _DONE = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_TEXT = f"([^{_START}{_NEXT}{_STOP}]*)"
_MARKED = re.compile(f"{_START}{_TEXT}{_NEXT}{_TEXT}{_NEXT}{_TEXT}{_STOP}")
_CLAUSE = re.compile(f"{_MAYBE}([^{_DONE}]*){_DONE}")
_MARKS = re.compile(f"[{_START}{_NEXT}{_STOP}{_MAYBE}{_DONE}]")

TURNED_OFF = {"exclude_pad": "--include-pad"}  # options whose opposite has a name of its own
BY_PLACE = {  # what the command line is given without an option
    "inputs": "INPUT", "op": "OP", "shape": "SHAPE", "action": "ACTION", "files": "FILE", "folder": "FOLDER",
    "model": "MODEL", "source": "INPUT", "first": "A", "second": "B", "x": "INPUT", "y": "OUTPUT",
}  # fmt: skip
BOTH_ENDS = {"pads": ("pads_begin", "pads_end")}  # options that stand for several fields


def field(name: str, value: object = None) -> str:
    """The field `name`, or the setting of it to `value`, for a message.

    >>> message = f"use {field('kernel', 2)}, {field('pads', 1)} or {field('exclude_pad', False)}"
    >>> print(in_python(message))
    use kernel=2, pads_begin=1, pads_end=1 or exclude_pad=False
    >>> print(on_command_line(message))
    use --kernel 2, --pads 1 or --include-pad
    """
    return f"{_START}{name}{_NEXT}{_keyword(name, value)}{_NEXT}{_option(name, value)}{_STOP}"


def or_another_dialect() -> str:
    """The end of a message about what a framework lacks; `settled` leaves it out, where the framework is not asked for.

    >>> message = f"PyTorch has no auto_pad same_lower; use explicit{or_another_dialect()}"
    >>> print(on_command_line(message))
    PyTorch has no auto_pad same_lower; use explicit, or another --like
    >>> print(on_command_line(settled(message)))
    PyTorch has no auto_pad same_lower; use explicit
    """
    return f"{_MAYBE}, or another {field('like')}{_DONE}"


def settled(message: str) -> str:
    """The message, as it is marked, for a reader who cannot choose the framework that it is about."""
    return _CLAUSE.sub("", marked(message))


class Worded(str):
    """A message as Python says it, which keeps how it is `marked` for whoever says it otherwise."""

    __slots__ = ("marked",)
    marked: str


def worded(message: str) -> str:
    """The message as a text for Python; `on_command_line` still finds its fields.

    >>> text = worded(f"use {field('kernel', 2)}")
    >>> print(text, "or", on_command_line(text))
    use kernel=2 or use --kernel 2
    """
    text = Worded(in_python(message))
    text.marked = marked(message)
    return text


def marked(message: str) -> str:
    """The message with the marks of its fields, to be made part of another."""
    return message.marked if isinstance(message, Worded) else message


def in_python(message: str) -> str:
    """The message with its fields as keywords."""
    return _CLAUSE.sub(r"\1", _MARKED.sub(r"\2", message))


def on_command_line(message: str) -> str:
    """The message with its fields as options."""
    return _CLAUSE.sub(r"\1", _MARKED.sub(r"\3", marked(message)))


def in_words(message: str, words: Mapping[str, str]) -> str:
    """The message with its fields as a model file has them: `words` by the name of a field, or by a whole setting.

    >>> message = f"use {field('pads', 1)} or {field('exclude_pad', False)}"
    >>> print(in_words(message, {"pads": "padding", "exclude_pad=False": "count_include_pad=True"}))
    use padding=1 or count_include_pad=True
    """

    def said(found: re.Match[str]) -> str:
        name, keyword = found[1], found[2]
        _, equals, value = keyword.rpartition("=")
        return words.get(keyword) or (f"{words[name]}{equals}{value if equals else ''}" if name in words else keyword)

    return _CLAUSE.sub(r"\1", _MARKED.sub(said, marked(message)))


def first_field(message: str) -> str | None:
    """The name of the first field in the message; None where it names none."""
    found = _MARKED.search(message)
    return found[1] if found else None


def _keyword(name: str, value: object) -> str:
    names = BOTH_ENDS.get(name, (name,))
    if value is None:
        return " and ".join(names)
    return ", ".join(f"{each}={_unmarked(repr(value))}" for each in names)


def _option(name: str, value: object) -> str:
    if value is False and name in TURNED_OFF:
        return TURNED_OFF[name]
    option = BY_PLACE.get(name) or "--" + name.replace("_", "-")
    if value is None or isinstance(value, bool):
        return option
    typed = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return f"{option} {_unmarked(typed)}"


def _unmarked(text: str) -> str:
    return _MARKS.sub("\N{REPLACEMENT CHARACTER}", text)
