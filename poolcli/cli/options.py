"""The options that commands share, in records, and how values such as `2`, `2,2`, `2x2` or `[2,2]` are parsed."""

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from dataclasses import field as dataclass_field
from typing import Annotated, Any, get_args

import typer

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.cli.program import EXPLAIN, FILES, RESULT, RUN, USUAL, WINDOWS, option
from poolcli.dialects import DIALECTS
from poolcli.dtypes import DTYPES
from poolcli.errors import RequestError
from poolcli.layouts import fit_from
from poolcli.message_fields import BOTH_ENDS, field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes, expand_pads
from poolcli.suggestions import join_words

_OTHER_DEFAULTS = [f"{name}: {record.like}" for name, record in OPERATORS.items() if record.like != "openvino"]
_DIALECTS = join_words(DIALECTS).replace("openvino", f"openvino (default; {', '.join(_OTHER_DEFAULTS)})")
# Only names without characters that a shell interprets are completed, because a shell may evaluate completions.
_PLAIN = re.compile(r"[\w/.@%+=,-]+")


def complete_inputs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes `FILE:` with the names of the arrays in the file; completion of files is the shell's own."""
    placed = ctx.params.get("inputs") or [value for value in ctx.params.values() if isinstance(value, str)]
    words = [*placed, incomplete]
    if ":" in words[-2:]:  # bash splits words at colons
        at = len(words) - 1 - words[::-1].index(":")
        return [key for key in _array_names(words[at - 1]) if at and key.startswith(incomplete.removeprefix(":"))]
    path, colon, _ = incomplete.rpartition(":")
    found = (f"{path}:{key}" for key in _array_names(path)) if colon else ()
    return [word for word in found if word.startswith(incomplete) and _PLAIN.fullmatch(word.replace(":", ""))]


def complete_arrays(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes the names of arrays in the inputs that were typed before."""
    paths = ctx.params.get("inputs") or [ctx.params.get("source") or ctx.params.get("shape") or ""]
    return [key for path in paths for key in _array_names(path) if key.startswith(incomplete)]


def _array_names(path: str) -> Iterator[str]:
    """The names of the arrays in a file; none if it cannot be read."""
    if not os.path.exists(path):
        return
    from functools import partial

    from poolcli.errors import PoolError
    from poolcli.formats import list_arrays
    from poolcli.formats.recognise import in_subprocess_if_fragile

    try:
        headers = in_subprocess_if_fragile(path, partial(list_arrays, path))
    except PoolError:
        return
    yield from (header.key for header in headers if header.key and _PLAIN.fullmatch(header.key))


# fmt: off
Like = Annotated[str | None, option(
    "--like", metavar="NAME", panel=WINDOWS, choices=tuple(DIALECTS),
    help=f"Rules: {_DIALECTS}.",
)]
Layout = Annotated[str | None, option(
    "--layout", metavar="AXES", panel=RESULT, example="NHWC",
    help="Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images are HWC.",
)]
Dtype = Annotated[str | None, option(
    "--dtype", metavar="T", panel=RESULT, choices=tuple(DTYPES), example="float32",
    help="Type of the result. Default: the input's; integers round half to even.",
)]
To = Annotated[str | None, option(
    "--to", metavar="NAME", panel=EXPLAIN, choices=tuple(DIALECTS), help="The equivalent call in another framework.",
)]
Dataset = Annotated[list[str], option(
    "--dataset", metavar="NAME", panel=FILES, hidden=True, complete=complete_arrays, example="/data",
    help="Array inside HDF5, Zarr and .npz inputs; repeat it for several.",
)]
AllowExternal = Annotated[bool, option(
    "--allow-external", panel=FILES, hidden=True, help="Let HDF5 and Zarr inputs read other files that they refer to.",
)]
MaxMemory = Annotated[str | None, option(
    "--max-memory", metavar="SIZE", panel=RUN, hidden=True, example="2G",
    help="Memory limit, such as 2G. Default: half of what is free.",
)]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The attributes of all operators; the command of an operator has those that are fields of its record."""

    kernel: Annotated[str | None, option(
        "-k", "--kernel", metavar="K", panel=USUAL, example="2", per_axis=True,
        help="Window size: 3, or 3,5 (order D,H,W).",
    )] = None
    output_size: Annotated[str | None, option(
        "--output-size", metavar="S", panel=USUAL, example="7", per_axis=True,
        help="Output size: 7, or 7,9 (order D,H,W).",
    )] = None
    fit: Annotated[str | None, option(
        "--fit", metavar="WxH", panel=USUAL, example="200x150",
        help="Fit images into these pixels; aspect kept.",
    )] = None
    strides: Annotated[str | None, option(
        "-s", "--strides", metavar="S", panel=USUAL, example="2", per_axis=True,
        help="Stride of the windows. Default: 1 (PyTorch: kernel).",
    )] = None
    pads: Annotated[str | None, option(
        "-p", "--pads", metavar="P", panel=USUAL, example="1", per_axis=True,
        help="Padding at both ends of each axis. Default: 0.",
    )] = None
    pads_begin: Annotated[str | None, option(
        "--pads-begin", metavar="P", panel=WINDOWS, hidden=True, example="1", per_axis=True,
        help="Padding before the first element.",
    )] = None
    pads_end: Annotated[str | None, option(
        "--pads-end", metavar="P", panel=WINDOWS, hidden=True, example="1", per_axis=True,
        help="Padding after the last element.",
    )] = None
    dilations: Annotated[str | None, option(
        "--dilations", metavar="D", panel=WINDOWS, hidden=True, example="2", per_axis=True,
        help="Distance between the elements of a window. Default: 1.",
    )] = None
    auto_pad: Annotated[str | None, option(
        "--auto-pad", metavar="W", panel=WINDOWS, choices=AUTO_PADS,
        help="explicit (default), same_upper, same_lower or valid.",
    )] = None
    rounding_type: Annotated[str | None, option(
        "--rounding-type", metavar="W", panel=WINDOWS, choices=ROUNDING_TYPES,
        help="floor (default), ceil, or ceil_torch (as PyTorch).",
    )] = None
    exclude_pad: Annotated[bool | None, option(
        "--exclude-pad/--include-pad", panel=WINDOWS, help="Leave padding out of the divisor (default), or count it.",
    )] = None
    divisor_override: Annotated[int | None, option(
        "--divisor-override", metavar="N", panel=WINDOWS, hidden=True, example="4",
        help="Divide every sum by N instead.",
    )] = None
    p: Annotated[float | None, option(
        "--p", metavar="P", panel=WINDOWS, example="2", help="Power of the norm. Default: 2.",
    )] = None
    ddof: Annotated[float | None, option(
        "--ddof", metavar="N", panel=WINDOWS, example="1",
        help="Divide by count - N. Default: 0.",
    )] = None
    like: Like = None
    axis: Annotated[int | None, option(
        "--axis", metavar="N", panel=RESULT, hidden=True, example="2",
        help="First axis that indices count over: 0 (default, all) or 2 (one plane).",
    )] = None
    index_element_type: Annotated[str | None, option(
        "--index-element-type", metavar="T", panel=RESULT, hidden=True, choices=tuple(INDEX_TYPES),
        help="Type of the indices: i64 (default) or i32.",
    )] = None


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How a command reports."""

    json: Annotated[bool, option("--json", panel=RUN, help="Report as JSON.")] = False
    quiet: Annotated[bool, option("-q", "--quiet", panel=RUN, help="No report, no notes; errors only.")] = False
    debug: Annotated[bool, option("--debug", panel=RUN, hidden=True, help="Show the traceback of an error.")] = False
    help: Annotated[bool, option(
        "-h", "--help", "--help-all", panel=RUN, help="Show the usual options; --help-all shows every option.",
    )] = False

    def answer(self, document: Callable[[], Any], view: Callable[[], Any], quiet: str = "") -> None:
        """Prints the result of a command: a JSON document, a view, or with --quiet the text `quiet`."""
        if self.json:
            from poolcli.report.as_json import to_json

            print(to_json(document()))
        elif not self.quiet:
            from poolcli.report.console import show

            show(view(), sys.stdout)
        elif quiet:
            print(quiet)


@dataclass(frozen=True, kw_only=True)
class ReadsHeaders(Reporting):
    """How the headers of files are read."""

    pages: Annotated[str | None, option(
        "--pages", metavar="P", panel=FILES, hidden=True, example="1",
        help="Pages or frames of images: all (default), 1, or 2-5.",
    )] = None
    allow_external: AllowExternal = False


@dataclass(frozen=True, kw_only=True)
class ReadsArrays(ReadsHeaders):
    """How whole arrays are read."""

    max_memory: MaxMemory = None


@dataclass(frozen=True, kw_only=True)
class MakesArrays(ReadsArrays):
    """How arrays are read, pooled and written, by the commands that pool files and by `pyramid`."""

    output: Annotated[str | None, option(
        "-o", "--output", metavar="PATH", panel=USUAL, example="y.npy", is_output=True,
        help="Output file or folder, or - for .npy on stdout.",
    )] = None
    layout: Layout = None
    missing: Annotated[list[str], option(
        "--missing", metavar="VALUE", panel=RESULT, hidden=True, example="nan",
        help="Nodata value, excluded from every window: a number or nan; repeat it for several. Default: those of the "
             "file; none: no nodata value.",
    )] = dataclass_field(default_factory=list)
    min_count: Annotated[str | None, option(
        "--min-count", metavar="N", panel=RESULT, hidden=True, example="50%",
        help="Windows with fewer than N valid elements, or less than P%, give nodata.",
    )] = None
    dataset: Dataset = dataclass_field(default_factory=list)
    chunks: Annotated[str | None, option(
        "--chunks", metavar="C", panel=FILES, hidden=True, per_axis=True,
        help="Chunks of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20 elements.",
    )] = None
    shards: Annotated[str | None, option(
        "--shards", metavar="S", panel=FILES, hidden=True, per_axis=True,
        help="Shards of .zarr outputs: a multiple of the chunks.",
    )] = None
    overwrite: Annotated[bool, option("--overwrite", panel=FILES, help="Replace existing outputs.")] = False
    resume: Annotated[bool, option(
        "--resume", panel=FILES, help="Resume: write only missing or stale outputs.",
    )] = False
    engine: Annotated[str, option(
        "--engine", metavar="NAME", panel=RUN, hidden=True, choices=("auto", "numba", "numpy"),
        help="auto (default), numba or numpy; all give the same results.",
    )] = "auto"
    jobs: Annotated[int | None, option(
        "-j", "--jobs", metavar="N", panel=RUN, hidden=True, example="2",
        help="Cores to use, for files and for threads. Default: those that this process may use.",
    )] = None
    cluster: Annotated[str | None, option(
        "--cluster", metavar="WHERE", panel=RUN, hidden=True, example="local:2",
        help="Run on Dask: local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or dask.",
    )] = None
    dry_run: Annotated[bool, option("-n", "--dry-run", panel=RUN, help="Plan and report only; write nothing.")] = False
# fmt: on


_ITEM = re.compile(r"[^,xX×\s]+|[,xX×]")
_SEPARATORS = tuple(",xX×")
MAX_DIGITS = 20  # digits; 2**63 has 19
_LIST = re.compile(rf"\d{{1,{MAX_DIGITS}}}(,\d{{1,{MAX_DIGITS}}})*")
_OTHER_SEPARATORS = re.compile(r"\s*[\s;:/*+|,xX×]\s*")
UNKNOWN_LENGTHS = ("none", "null", "batch", "dynamic", "any")
PER_AXIS_OPTIONS = {name for name, hint in Windows.__annotations__.items() if get_args(hint)[1].declared.per_axis}
# The words that other libraries take as padding, and the setting for each.
PADDING_MODES: dict[str, tuple[str, object]] = {
    **{str(word): ("auto_pad", word) for word in AUTO_PADS},
    "same": ("auto_pad", "same_upper"),
    **dict.fromkeys(("zero", "zeros", "constant"), ("pads", 1)),
}


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """The integers in `text`; a bad element is shown with a caret under it."""
    inner_start, inner_stop = _inside_brackets(text)
    numbers: list[int] = []
    number_next = True
    for match in _ITEM.finditer(text, inner_start, inner_stop):
        item = match.group()
        if (item in _SEPARATORS) == number_next or (number_next and not _is_number(item)):
            raise _number_error(option, text, match.start(), item)
        if number_next:
            numbers.append(int(item))
        number_next = not number_next
    if number_next:
        raise _number_error(option, text, inner_stop, "")
    return tuple(numbers)


def refuse_shape(text: str) -> None:
    """Refuses text that looks like a shape but is none, such as one with names or spaces; accepts all other text."""
    items = [item for item in re.split(r"[,;:\sx*]+", text.strip("[](){} ")) if item]
    if len(items) > 1 and all(item.isascii() and item.isdigit() for item in items) and not all(map(_is_number, items)):
        raise RequestError(f"{text[:60]} is not a file, and as a shape it has a dimension above 2**63 - 1")
    numbers = [re.fullmatch(r"[-+]?\d*\.?\d*(e[-+]?\d+)?", item, re.IGNORECASE) for item in items]
    if len(items) > 1 and all(numbers) and not all(map(_is_number, items)):
        raise RequestError(
            f"{text} is neither a file nor a shape; write whole numbers separated by commas, such as 1,3,32,32"
        )
    if len(items) < 2 or not all(
        _is_number(item) or (item.isalpha() and (len(item) == 1 or item.lower() in UNKNOWN_LENGTHS)) or item == "?"
        for item in items
    ):
        return
    number = ",".join(item if _is_number(item) else "64" if i else "1" for i, item in enumerate(items))
    known = "" if number == ",".join(items) else " (for a dynamic axis use any positive number)"
    raise RequestError(
        f"{text} is neither a file nor a shape (whole numbers separated by commas); write {number}{known}"
    )


def is_number_list(text: str) -> bool:
    """Whether `parse_numbers` accepts `text`."""
    try:
        parse_numbers("", text)
    except RequestError:
        return False
    return True


def _inside_brackets(text: str) -> tuple[int, int]:
    start, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    if stop - start >= 2 and text[start] + text[stop - 1] in ("[]", "()"):
        return start + 1, stop - 1
    return start, stop


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS


def _number_error(option: str, text: str, at: int, item: str) -> RequestError:
    if item.isascii() and item.isdigit() and len(item) > MAX_DIGITS:
        return RequestError(f"{option} is above 2**63 - 1, the largest number that is read")
    found = "nothing" if not item else f"{item[:30]!r}"
    wrong = f"no comma before {found}" if _is_number(item) else f"{found} where a whole number is needed"
    joined = _OTHER_SEPARATORS.sub(",", text.strip().strip("[](){}")).removesuffix(",")
    meant = ",".join(map(_as_integer, joined.split(",")))
    example = "1,3,224,224" if option == "SHAPE" else "2 or 2,3 or 2x3"
    remedy = f"; write {meant}" if meant != text and _LIST.fullmatch(meant) else f", for example {example}"
    return RequestError(f"{option} has {wrong}{remedy}", pointed=(f"  {text[:70]}", f"  {' ' * at}^"))


def _as_integer(item: str) -> str:
    """A whole number in plain digits if the item is one, such as `2.0`, `1e1` or digits of another script."""
    try:
        number = float(unicodedata.normalize("NFKC", item))
    except ValueError:
        return item
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else item


def attribute_names(op: str) -> tuple[str, ...]:
    """The options of an operator: the fields of its record, `pads`, and `fit` if it has an output size."""
    own = [each.name for each in fields(OPERATORS[op])]
    fit = ("fit",) if "output_size" in own else ()
    return (*own, *fit, *(both for both, ends in BOTH_ENDS.items() if {*ends} <= {*own}))


def attributes_of(op: str | None, asked: Windows) -> dict[str, Any]:
    """The typed attributes of operator `op`, or of any operator if `op` is None; refuses those of other operators."""
    given = {own.name: value for own in fields(Windows) if (value := getattr(asked, own.name)) is not None}
    for name, value in given.items():
        if op and name not in attribute_names(op):
            raise _attribute_of_others(op, name, value)
    padding = str(given.get("pads", "")).lower().replace("-", "_")
    if padding in PADDING_MODES:
        name, value = PADDING_MODES[padding]
        write = f"{field(name, value)}{', which adds zeros' if name == 'pads' else ''}"
        raise RequestError(f"{field('pads')} takes numbers, not {given['pads']}; write {write}")
    fit = given.pop("fit", None)
    if fit is not None and "output_size" in given:
        raise RequestError(f"{field('fit')} sets the output size; give either {field('fit')} or {field('output_size')}")
    read = {
        name: parse_numbers(field(name), value) if name in PER_AXIS_OPTIONS else value for name, value in given.items()
    }
    return expand_pads(read | ({} if fit is None else {"output_size": fit_from(fit)}))


def make_operator(op: str, given: Mapping[str, Any]) -> Attributes:
    """The record of operator `op` with the given attributes; refuses a call without a required one."""
    record = OPERATORS[op]
    for own in fields(record):
        if own.default is MISSING and own.name not in given:
            raise RequestError(f"{op} needs {field(own.name)}, for example {field(own.name, 2)}")
    return record(**given)


def _attribute_of_others(op: str, name: str, value: object) -> RequestError:
    """The refusal of an attribute that only other operators have."""
    others = join_words([other for other in OPERATORS if name in attribute_names(other)], "and")
    own = next(each.name for each in fields(OPERATORS[op]) if each.default is MISSING)
    instead = f"; {op} uses {field(own)}" if own != "kernel" or name == "output_size" else ""
    named = field(name, value if isinstance(value, bool) else None)
    return RequestError(f"{op} has no {named}, which is for {others}{instead}")
