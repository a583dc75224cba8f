"""Names of fields in messages: `exclude_pad=True` in Python, `--exclude-pad` on the command line.

A message is written once, with `field(...)` for each field. The text then contains both spellings between marks, which
are noncharacters of Unicode; `for_python` and `for_cli` keep one of them. A part that proposes a field is a
`hint(...)`, which is dropped for callers that do not have the field. `AGAIN` stands behind settings for a second run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection

_START, _NEXT, _STOP, _HINT_START, _HINT_STOP, AGAIN = _SIGNS = "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4\ufdd5"
_FIELD = re.compile(f"{_START}([^{_SIGNS}]*){_NEXT}([^{_SIGNS}]*){_NEXT}([^{_SIGNS}]*){_STOP}")
_HINT = re.compile(f"{_HINT_START}([^{_HINT_START}{_HINT_STOP}]*){_HINT_STOP}")
_MARKS = re.compile(f"[{_SIGNS}]")

MAX_WORD, MAX_LENGTH = 500, 3_000  # characters of a word, which may be a path, and of a message
_WORD = re.compile(rf"[^\s{_SIGNS}]{{{MAX_WORD + 1},}}")

NEGATED = {"exclude_pad=False": "--include-pad"}  # settings that have an option of their own
POSITIONAL = {  # fields that are arguments on the command line
    "inputs": "INPUT", "op": "OP", "shape": "SHAPE", "action": "ACTION", "files": "FILE", "folder": "FOLDER",
    "model": "MODEL", "layers": "LAYER", "source": "INPUT", "first": "A", "second": "B", "x": "INPUT", "y": "OUTPUT",
}  # fmt: skip
SHORT_OPTIONS = {"pooling": "--op", "operator": "--op", "levels_from": "--from"}
FILE_FIELDS = {"dataset", "all", "fit", "recursive"}  # options that no function of an operator has
BOTH_ENDS = {"pads": ("pads_begin", "pads_end")}  # options that stand for several fields


def field(name: str, value: object = None) -> str:
    """The field `name`, or the setting of it to `value`, for a message.

    >>> message = f"use {field('kernel', (2, 3))}, {field('pads')} or {field('exclude_pad', False)}"
    >>> for_python(message), for_cli(message)
    ('use kernel=(2, 3), pads or exclude_pad=False', 'use --kernel 2,3, --pads or --include-pad')
    """
    if value is None:
        return f"{_START}{name}{_NEXT}{name}{_NEXT}{_STOP}"
    typed = "" if isinstance(value, bool) else shlex.quote(value) if isinstance(value, str) else option_value(value)
    return f"{_START}{name}{_NEXT}{name}={_unmarked(repr(value))}{_NEXT}{_unmarked(typed)}{_STOP}"


def hint(text: str) -> str:
    """A part of a message that only callers with all of its fields get.

    >>> message = "choose one: a.npz:x" + hint(f" or {field('dataset', 'x')}")
    >>> for_cli(message), for_python(message)
    ('choose one: a.npz:x or --dataset x', 'choose one: a.npz:x')
    """
    return f"{_HINT_START}{text}{_HINT_STOP}"


OTHER_DIALECT = hint(f", or another {field('like')}")  # of messages about what a framework lacks


def hints_for(names: Collection[str], message: str) -> str:
    """The message, still marked, with only the hints whose fields are all in `names`."""
    return _HINT.sub(lambda found: found[1] if _fields_in(found[1]) <= {*names} else "", marked(message))


def without_hints(message: str) -> str:
    """The message, still marked, without hints."""
    return hints_for((), message)


class MarkedMessage(str):
    """A message as a str for Python that keeps its marked form for other readers."""

    __slots__ = ("marked",)
    marked: str


def marked_message(message: str) -> str:
    """The message as a str for Python, which `for_cli` can still convert."""
    text = MarkedMessage(for_python(message))
    text.marked = marked(message)
    return text


def marked(message: str) -> str:
    """The message with its marks, as a part of another message."""
    return message.marked if isinstance(message, MarkedMessage) else message


def for_python(message: str) -> str:
    """The message with fields as keywords, printable."""
    text = _HINT.sub(lambda found: "" if _fields_in(found[1]) & FILE_FIELDS else found[1], message)
    return printable(_FIELD.sub(r"\2", text.replace(AGAIN, "")))


def for_cli(message: str, written: bool = False) -> str:
    """The message with fields as options, printable; a note on an output that is `written` says what replaces it."""
    text = marked(message).replace(AGAIN, " (and --overwrite)" * written)
    return printable(_HINT.sub(r"\1", _FIELD.sub(_as_option, text)))


def respelled(message: str, spelling: Callable[[str, str, str], str | None]) -> str:
    """The message, still marked, with fields as `spelling` writes name, keyword and value; None leaves one."""
    return _FIELD.sub(lambda found: spelling(*found.groups()) or found[0], marked(message))


def first_field(message: str) -> str | None:
    """The name of the first field in the message, or None."""
    found = _FIELD.search(message)
    return found[1] if found else None


def brief(value: object) -> str:
    """The repr of a value for a message, cut to 60 characters; the shape of an array."""
    shape = getattr(value, "shape", None)
    return f"an array of shape {(*shape,)}" if isinstance(shape, tuple) and shape else f"{value!r:.60}"


def option_value(value: object) -> str:
    """A value as it is typed on the command line: (2, 3) as 2,3."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _as_option(found: re.Match[str]) -> str:
    name, keyword, value = found.groups()
    option = NEGATED.get(keyword) or SHORT_OPTIONS.get(name) or POSITIONAL.get(name) or f"--{name.replace('_', '-')}"
    return f"{option} {value}" if value else option


def _fields_in(text: str) -> set[str]:
    return {found[1] for found in _FIELD.finditer(text)}


def printable(text: str) -> str:
    """`text` on one line, safe to print: control characters, line breaks, bidirectional marks and undecodable bytes are
    escaped, very long words and texts are shortened in the middle. Use it for all text with names from files.

    >>> print(printable("a\\nb"), printable("a\\udcffb"), len(printable("n" * 90_000)))
    a\\x0ab a\\xffb 528
    """
    if len(text) <= MAX_WORD and text.isprintable():
        return text
    return _cut(one_line(_unmarked(text)), MAX_LENGTH)


def one_line(message: str) -> str:
    """As `printable`, for a marked message of any length."""
    if len(message) <= MAX_WORD and message.isprintable():
        return message
    return _WORD.sub(lambda found: _cut(found[0], MAX_WORD), escaped(_cut(message, 100 * MAX_LENGTH)))


def escaped(text: str) -> str:
    """`text` with unprintable characters as escapes; marks stay."""
    return "".join(c if c.isprintable() or c in _SIGNS else _escape(ord(c)) for c in text)


def _cut(text: str, longest: int) -> str:
    """The text, or the start and the end of one that is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # the surrogate escape of a byte that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _unmarked(text: str) -> str:
    return _MARKS.sub("\N{REPLACEMENT CHARACTER}", text)
