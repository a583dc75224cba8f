"""The options that commands share, as annotations of their functions' parameters, and records of their values."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

import typer

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES, one_of
from poolcli.cli.operators import OPERATOR_HELP, parse_operator
from poolcli.dialects import DIALECTS
from poolcli.dtypes import DTYPES, dtype_from_alias
from poolcli.ops import OPERATORS
from poolcli.suggestions import join_words

# Panels of options, in their order in the help.
USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN = (
    "Usual options", "Windows", "Result", "Explain", "Files", "Run and report",
)  # fmt: skip
_OTHER_DEFAULTS = [f"{name}: {record.like}" for name, record in OPERATORS.items() if record.like != "openvino"]
_DIALECTS = join_words(DIALECTS).replace("openvino", f"openvino (default; {', '.join(_OTHER_DEFAULTS)})")
# Only names without characters that a shell interprets are completed, because a shell may evaluate completions.
_PLAIN = re.compile(r"[\w/.@%+=,-]+")


def option(panel: str, metavar: str | None, *flags: str, help: str, hidden: bool = False, **more: Any) -> Any:  # noqa: A002  # as Typer calls it
    """An option as Typer declares it; only `--help-all` shows a hidden one."""
    return typer.Option(
        *flags, metavar=metavar, help=help, rich_help_panel=panel, hidden=hidden, show_default=False, **more
    )


def choice(panel: str, metavar: str, *flags: str, words: Collection[str], **more: Any) -> Any:
    """An option whose value is one of `words`, in any case or in a usual short form."""
    return option(panel, metavar, *flags, **one_of_words(words), **more)


def one_of_words(words: Collection[str]) -> dict[str, Any]:
    """The settings of a parameter that accepts and completes these words."""

    def read(param: typer.CallbackParam, value: str | None) -> str | None:
        if value is None:
            return None
        if words == OPERATOR_HELP.keys():
            return parse_operator(value, str(param.name))
        alias = dtype_from_alias(value) if words == DTYPES.keys() else None
        return alias or one_of(str(param.name), value, tuple(words))

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete.lower())]

    return {"callback": read, "autocompletion": complete}


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
    from poolcli.formats import in_subprocess_if_fragile, list_arrays

    try:
        headers = in_subprocess_if_fragile(path, partial(list_arrays, path))
    except PoolError:
        return
    yield from (header.key for header in headers if header.key and _PLAIN.fullmatch(header.key))


def file_argument(metavar: str, text: str) -> Any:
    """An argument that names an input."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete_inputs, show_default=False)


# fmt: off
# The attributes of operators.
Kernel = Annotated[str | None, option(USUAL, "K", "-k", "--kernel", help="Window size: 3, or 3,5 (order D,H,W).")]
OutputSize = Annotated[str | None, option(USUAL, "S", "--output-size", help="Output size: 7, or 7,9 (order D,H,W).")]
Fit = Annotated[str | None, option(USUAL, "WxH", "--fit", help="Fit images into these pixels; aspect kept.")]
Strides = Annotated[str | None, option(
    USUAL, "S", "-s", "--strides", help="Stride. Default: 1 (PyTorch: the kernel).",
)]
Pads = Annotated[str | None, option(USUAL, "P", "-p", "--pads", help="Padding at both ends of each axis. Default: 0.")]
PadsBegin = Annotated[str | None, option(
    WINDOWS, "P", "--pads-begin", hidden=True, help="Padding before the first element.",
)]
PadsEnd = Annotated[str | None, option(WINDOWS, "P", "--pads-end", hidden=True, help="Padding after the last element.")]
Dilations = Annotated[str | None, option(
    WINDOWS, "D", "--dilations", hidden=True, help="Distance between the elements of a window. Default: 1.",
)]
AutoPad = Annotated[str | None, choice(
    WINDOWS, "W", "--auto-pad", words=AUTO_PADS, help="explicit (default), same_upper, same_lower or valid.",
)]
RoundingType = Annotated[str | None, choice(
    WINDOWS, "W", "--rounding-type", words=ROUNDING_TYPES, help="floor (default), ceil, or ceil_torch (as PyTorch).",
)]
ExcludePad = Annotated[bool | None, option(
    WINDOWS, None, "--exclude-pad/--include-pad", help="Leave padding out of the divisor (default), or count it.",
)]
DivisorOverride = Annotated[int | None, option(
    WINDOWS, "N", "--divisor-override", hidden=True, help="Divide every sum by N instead.",
)]
P = Annotated[float | None, option(WINDOWS, "P", "--p", help="Power of the norm. Default: 2.")]
Ddof = Annotated[float | None, option(WINDOWS, "N", "--ddof", help="Divide by count - N. Default: 0.")]
Like = Annotated[str | None, choice(WINDOWS, "NAME", "--like", words=DIALECTS, help=f"Rules: {_DIALECTS}.")]
Axis = Annotated[int | None, option(
    RESULT, "N", "--axis", hidden=True, help="First axis that indices count over: 0 (default, all) or 2 (one plane).",
)]
IndexElementType = Annotated[str | None, choice(
    RESULT, "T", "--index-element-type", hidden=True, words=INDEX_TYPES,
    help="Type of the indices: i64 (default) or i32.",
)]

# What is read, and what becomes of it.
Layout = Annotated[str | None, option(
    RESULT, "AXES", "--layout",
    help="Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images are HWC.",
)]
Dtype = Annotated[str | None, choice(
    RESULT, "T", "--dtype", words=DTYPES.keys(),
    help="Type of the result. Default: the input's; integers round half to even.",
)]
Missing = Annotated[list[str], option(
    RESULT, "VALUE", "--missing", hidden=True,
    help="Value to ignore: a number or nan; repeatable. Default: the file's own; none: ignore nothing.",
)]
MinCount = Annotated[str | None, option(
    RESULT, "N", "--min-count", hidden=True,
    help="Windows with fewer than N valid elements, or less than P%, give nodata.",
)]
To = Annotated[str | None, choice(
    EXPLAIN, "NAME", "--to", words=DIALECTS, help="The equivalent call in another framework.",
)]
Atol = Annotated[float, option(
    EXPLAIN, "A", "--atol", help="Absolute tolerance (as numpy.isclose). Default: 0.",
)]
Rtol = Annotated[float, option(
    EXPLAIN, "R", "--rtol", help="Relative tolerance (as numpy.isclose). Default: 0.",
)]
Output = Annotated[str | None, option(
    USUAL, "PATH", "-o", "--output", help="Output file or folder, or - for .npy on stdout.",
)]
Pages = Annotated[str | None, option(
    FILES, "P", "--pages", hidden=True, help="Pages or frames of images: all (default), 1, or 2-5.",
)]
Dataset = Annotated[list[str], option(
    FILES, "NAME", "--dataset", hidden=True, autocompletion=complete_arrays,
    help="Array inside HDF5, Zarr and .npz inputs; repeat it for several.",
)]
Chunks = Annotated[str | None, option(
    FILES, "C", "--chunks", hidden=True,
    help="Chunks of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20 elements.",
)]
Shards = Annotated[str | None, option(
    FILES, "S", "--shards", hidden=True, help="Shards of .zarr outputs: a multiple of the chunks.",
)]
Overwrite = Annotated[bool, option(FILES, None, "--overwrite", help="Replace existing outputs.")]
Resume = Annotated[bool, option(FILES, None, "--resume", help="Resume: write only missing or stale outputs.")]
AllowExternal = Annotated[bool, option(
    FILES, None, "--allow-external", hidden=True, help="Let HDF5 and Zarr inputs read other files that they refer to.",
)]

# How a command runs and reports.
MaxMemory = Annotated[str | None, option(
    RUN, "SIZE", "--max-memory", hidden=True, help="Memory limit, such as 2G. Default: half of what is free.",
)]
Jobs = Annotated[int | None, option(
    RUN, "N", "-j", "--jobs", hidden=True,
    help="Cores to use, for files and for threads. Default: those that this process may use.",
)]
Cluster = Annotated[str | None, option(
    RUN, "WHERE", "--cluster", hidden=True,
    help="Run on Dask: local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or dask.",
)]
Engine = Annotated[str, choice(
    RUN, "NAME", "--engine", hidden=True, words=("auto", "numba", "numpy"),
    help="auto (default), numba or numpy; all give the same results.",
)]
DryRun = Annotated[bool, option(RUN, None, "-n", "--dry-run", help="Plan and report only; write nothing.")]
Json = Annotated[bool, option(RUN, None, "--json", help="Report as JSON.")]
Quiet = Annotated[bool, option(RUN, None, "-q", "--quiet", help="No report, no notes; errors only.")]
Debug = Annotated[bool, option(RUN, None, "--debug", hidden=True, help="Show the traceback of an error.")]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """The options about arrays that are read, pooled and written, by the commands that pool files and by `pyramid`."""

    output: str | None
    layout: str | None
    missing: list[str]
    min_count: str | None
    pages: str | None
    dataset: list[str]
    chunks: str | None
    shards: str | None
    overwrite: bool
    resume: bool
    allow_external: bool
    max_memory: str | None
    jobs: int | None
    cluster: str | None
    engine: str
    dry_run: bool
    json: bool
    quiet: bool


@dataclass(frozen=True, kw_only=True)
class PoolOptions(ArrayOptions):
    """The options of the commands that pool files, without the attributes of the operator."""

    inputs: list[str]
    output_size: str | None
    output_layout: str | None
    dtype: str | None
    linear_light: bool
    rescale: str | None
    indices: str | None
    axis: int | None
    index_element_type: str | None
    recursive: bool
    format: str | None
    all: bool
    raw: str | None
    files_from: str | None
    quality: int | None
    verbose: bool
    debug: bool


T = TypeVar("T")


def record_of(record: type[T], values: Mapping[str, Any]) -> T:
    """A record of the options that a command's function got."""
    return record(**{own.name: values[own.name] for own in fields(record)})  # type: ignore[arg-type]  # a dataclass
