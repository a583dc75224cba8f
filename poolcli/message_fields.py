"""How a message names a field, whoever reads it: `exclude_pad=True` in Python, `--exclude-pad` on the command line.

A message is written once, with `field(...)` where it names one. Both spellings are put there, between marks that no
text holds (noncharacters of Unicode); `for_python` and `for_cli` keep the one that the reader can type. What
only some commands have is an `hint(...)`, which is left out for whoever has no such field.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping

_START, _NEXT, _STOP, _OFFER, _END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
_TEXT = f"([^{_START}{_NEXT}{_STOP}]*)"
_MARKED = re.compile(f"{_START}{_TEXT}{_NEXT}{_TEXT}{_NEXT}{_TEXT}{_STOP}")
_OFFERED = re.compile(f"{_OFFER}([^{_OFFER}{_END}]*){_END}")
_MARKS = re.compile(f"[{_START}{_NEXT}{_STOP}{_OFFER}{_END}]")

LONGEST_WORD = 500  # characters; most paths are shorter
LONGEST = 3_000  # characters of a message
_WORD = re.compile(rf"[^\s{_START}{_NEXT}{_STOP}{_OFFER}{_END}]{{{LONGEST_WORD + 1},}}")

TURNED_OFF = {"exclude_pad": "--include-pad"}  # options whose opposite has a name of its own
BY_PLACE = {  # what the command line is given without an option
    "inputs": "INPUT", "op": "OP", "shape": "SHAPE", "action": "ACTION", "files": "FILE", "folder": "FOLDER",
    "model": "MODEL", "layers": "LAYER", "source": "INPUT", "first": "A", "second": "B", "x": "INPUT", "y": "OUTPUT",
}  # fmt: skip
SHORT = {"pooling": "--op", "operator": "--op", "levels_from": "--from"}  # shorter than their fields
OF_FILES = {"dataset", "all", "raw"}  # options about files, of which no function of Python has any
BOTH_ENDS = {"pads": ("pads_begin", "pads_end")}  # options that stand for several fields


def field(name: str, value: object = None) -> str:
    """The field `name`, or the setting of it to `value`, for a message.

    >>> message = f"use {field('kernel', 2)}, {field('pads', 1)} or {field('exclude_pad', False)}"
    >>> print(for_python(message))
    use kernel=2, pads=1 or exclude_pad=False
    >>> print(for_cli(message))
    use --kernel 2, --pads 1 or --include-pad
    >>> print(for_cli(f"did you mean {field('dataset', 'top level')}?"))
    did you mean --dataset 'top level'?
    """
    return f"{_START}{name}{_NEXT}{_keyword(name, value)}{_NEXT}{_option(name, value)}{_STOP}"


def hint(text: str) -> str:
    """A part of a message for those alone who have all fields that it names.

    >>> named, whole = field("dataset", "x"), field("all")
    >>> message = f"choose one: a.npz:x{hint(f' or {named}')}{hint(f', or take {whole}')}"
    >>> print(for_cli(message))
    choose one: a.npz:x or --dataset x, or take --all
    >>> print(for_cli(hints_for(["dataset"], message)))
    choose one: a.npz:x or --dataset x
    >>> print(for_python(message))
    choose one: a.npz:x
    """
    return f"{_OFFER}{text}{_END}"


def hint_other_dialect() -> str:
    """The end of a message about what a framework lacks; `without_hints` drops it where no framework was chosen.

    >>> message = f"PyTorch has no auto_pad same_lower; use explicit{hint_other_dialect()}"
    >>> print(for_cli(message))
    PyTorch has no auto_pad same_lower; use explicit, or another --like
    >>> print(for_cli(without_hints(message)))
    PyTorch has no auto_pad same_lower; use explicit
    """
    return hint(f", or another {field('like')}")


def hints_for(names: Collection[str], message: str) -> str:
    """The message, as it is marked, without what it offers to others than those who have the fields `names`."""
    return _OFFERED.sub(lambda found: found[1] if _named(found[1]) <= {*names} else "", marked(message))


def without_hints(message: str) -> str:
    """The message, as it is marked, for a reader who can choose nothing that it offers."""
    return hints_for((), message)


class MarkedMessage(str):
    """A message as Python says it, which keeps how it is `marked` for whoever says it otherwise."""

    __slots__ = ("marked",)
    marked: str


def marked_message(message: str) -> str:
    """The message as a text for Python; `for_cli` still finds its fields.

    >>> text = marked_message(f"use {field('kernel', 2)}")
    >>> print(text, "or", for_cli(text))
    use kernel=2 or use --kernel 2
    """
    text = MarkedMessage(for_python(message))
    text.marked = marked(message)
    return text


def marked(message: str) -> str:
    """The message with the marks of its fields, to be made part of another."""
    return message.marked if isinstance(message, MarkedMessage) else message


def for_python(message: str) -> str:
    """The message with its fields as keywords, printable."""
    offered = _OFFERED.sub(lambda found: "" if _named(found[1]) & OF_FILES else found[1], message)
    return printable(_MARKED.sub(r"\2", offered))


def for_cli(message: str) -> str:
    """The message with its fields as options, printable."""
    return printable(_OFFERED.sub(r"\1", _MARKED.sub(r"\3", marked(message))))


def for_model_file(message: str, words: Mapping[str, str]) -> str:
    """The message with its fields as a model file has them: `words` by the name of a field, or by a whole setting.

    >>> message = f"use {field('pads', 1)} or {field('exclude_pad', False)}"
    >>> print(for_model_file(message, {"pads": "padding", "exclude_pad=False": "count_include_pad=True"}))
    use padding=1 or count_include_pad=True
    """

    def said(found: re.Match[str]) -> str:
        name, keyword = found[1], found[2]
        _, equals, value = keyword.rpartition("=")
        return words.get(keyword) or (f"{words[name]}{equals}{value if equals else ''}" if name in words else keyword)

    return _OFFERED.sub(r"\1", _MARKED.sub(said, marked(message)))


def printable(text: str) -> str:
    """`text` on one line: control characters, line breaks, bidirectional marks and undecodable bytes as escapes, very
    long words and texts cut in the middle. Whatever holds a name from a file passes here before it is printed.

    >>> print(printable("a\\nb"), printable("a\\udcffb"), len(printable("n" * 90_000)))
    a\\x0ab a\\xffb 528
    """
    if len(text) <= LONGEST_WORD and text.isprintable():
        return text
    return _cut(one_line(_MARKS.sub("\N{REPLACEMENT CHARACTER}", text)), LONGEST)


def one_line(message: str) -> str:
    """As `printable`, for a message whose fields are still marked, of any length."""
    if len(message) <= LONGEST_WORD and message.isprintable():
        return message
    return _WORD.sub(lambda found: _cut(found[0], LONGEST_WORD), escaped(_cut(message, 100 * LONGEST)))


def escaped(text: str) -> str:
    """`text` without control characters, line breaks, bidirectional marks and undecodable bytes; marks stay."""
    return "".join(c if c.isprintable() or _MARKS.match(c) else _escape(c) for c in text)


def _cut(text: str, longest: int) -> str:
    """`text` as it is, or the start and the end of one that is longer."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters) ... {text[-half:]}"


def _escape(c: str) -> str:
    code = ord(c)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as the operating system handed it over
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def first_field(message: str) -> str | None:
    """The name of the first field in the message; None where it names none."""
    found = _MARKED.search(message)
    return found[1] if found else None


def _named(text: str) -> set[str]:
    """The fields that a text names."""
    return {name for name, _, _ in _MARKED.findall(text)}


def _keyword(name: str, value: object) -> str:
    return name if value is None else f"{name}={_unmarked(repr(value))}"


def _option(name: str, value: object) -> str:
    if value is False and name in TURNED_OFF:
        return TURNED_OFF[name]
    option = BY_PLACE.get(name) or SHORT.get(name) or "--" + name.replace("_", "-")
    if value is None or isinstance(value, bool):
        return option
    typed = option_value(value)
    return f"{option} {_unmarked(shlex.quote(typed) if isinstance(value, str) else typed)}"


def option_value(value: object) -> str:
    """A value as it is typed: several numbers with commas between them.

    >>> option_value((2, 3)), option_value("ceil")
    ('2,3', 'ceil')
    """
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _unmarked(text: str) -> str:
    return _MARKS.sub("\N{REPLACEMENT CHARACTER}", text)
