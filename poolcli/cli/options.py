"""The options that commands share, and the settings of jobs and of reading that their values become.

Each option is declared once, as the field of a record: a command whose function takes the record has its options, and
the function gets their values (`poolcli.cli.program.command`).
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poolcli import arguments
from poolcli.arguments import Missing, Numbers, Reader, fit_from, min_count_from, missing_from, word_of
from poolcli.cli import values
from poolcli.cli.program import PANELS
from poolcli.cli.values import numbers, whole
from poolcli.dialects import DIALECTS
from poolcli.dtypes import DTYPES
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import join_words
from poolcli.system.processes import memory_budget, parse_size

if TYPE_CHECKING:
    from poolcli.formats import ReadOptions
    from poolcli.pooling.outcome import Limits, Settings
else:
    Limits = Any  # its module is slow to import

UNLIMITED = 2**63 - 1  # bytes; reading a header decompresses nothing
USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN = PANELS


def option(
    panel: str, metavar: str | None, *flags: str, read: Reader | None = None, words: Collection[str] = (),
    repeatable: bool = False, **more: Any,
) -> Any:  # fmt: skip
    """An option as Typer declares it; only `--help-all` shows hidden ones.

    `read` reads its text, or its texts. The shell completes `words`; without `read` the value is one of them.
    """
    found: Any = typer.Option(*flags, metavar=metavar, rich_help_panel=panel, show_default=False, **more)
    found.read, found.text = read or (word_of(tuple(words)) if words else None), list[str] if repeatable else str | None
    if words:
        found.autocompletion = lambda incomplete: [word for word in words if word.startswith(incomplete.lower())]
    return found


def argument(metavar: str, text: str, read: Reader | None = None, words: Collection[str] = ()) -> Any:
    """An argument as Typer declares it; `read` and `words` as those of an option."""
    found = option("", metavar, read=read, words=words)
    made: Any = typer.Argument(metavar=metavar, help=text, show_default=False, autocompletion=found.autocompletion)
    made.read, made.text = found.read, str
    return made


# fmt: off
Like = Annotated[str | None, option(WINDOWS, "NAME", "--like", words=DIALECTS,
    help=f"Rules: {join_words(DIALECTS)}. Default: openvino (lp: onnx).")]
Layout = Annotated[str | None, option(RESULT, "AXES", "--layout",
    help="Input axes. Default: NC(D)HW; images HWC; 3 axes NCW, CHW, DHW by 1, 2, 3 numbers.")]
Dtype = Annotated[str | None, option(RESULT, "T", "--dtype", words=DTYPES, read=values.dtype,
    help="Type of the result. Default: the input's; integers round half to even.")]
To = Annotated[str | None, option(EXPLAIN, "NAME", "--to", words=DIALECTS,
    help="The equivalent call in another framework.")]
Atol = Annotated[float, option(EXPLAIN, "A", "--atol", read=values.decimal,
    help="Absolute tolerance (as numpy.isclose). Default: 0.")]
Rtol = Annotated[float, option(EXPLAIN, "R", "--rtol", read=values.decimal,
    help="Relative tolerance (as numpy.isclose). Default: 0.")]
Pages = Annotated[str | None, option(FILES, "P", "--pages", hidden=True,
    help="Pages or frames of images: all (default), 1, or 2-5.")]
Dataset = Annotated[list[str] | None, option(FILES, "NAME", "--dataset", hidden=True,
    help="Array inside HDF5, Zarr and .npz inputs; repeat it for several.")]
AllowExternal = Annotated[bool, option(FILES, None, "--allow-external", hidden=True,
    help="Let HDF5 and Zarr inputs read other files that they refer to.")]
MaxMemory = Annotated[int | None, option(RUN, "SIZE", "--max-memory", hidden=True, read=parse_size,
    help="Memory limit, such as 2G. Default: half of what is free.")]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a command prints."""

    json: Annotated[bool, option(RUN, None, "--json", help="Print the report as JSON.")] = False
    quiet: Annotated[bool, option(RUN, None, "-q", "--quiet", help="No report, no notes; errors only.")] = False
    debug: Annotated[bool, option(RUN, None, "--debug", hidden=True, help="Show the traceback of an error.")] = False


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """The attributes of all operators; None is the default of the operator."""

    kernel: Annotated[Numbers | None, option(USUAL, "K", "-k", "--kernel", read=numbers,
        help="Window: 3; stack 3,3; volume 3,3,3 (D,H,W).")] = None
    output_size: Annotated[Numbers | None, option(USUAL, "S", "--output-size", read=numbers,
        help="Output size: 7, or 7,9 (order D,H,W: height first; None keeps an axis).")] = None
    fit: Annotated[Any, option(USUAL, "WxH", "--fit", read=lambda name, text: fit_from(text),
        help="Fit images into these pixels: 800, or 800x600 (width first), or 50%; aspect kept.")] = None
    strides: Annotated[Numbers | None, option(USUAL, "S", "-s", "--strides", read=numbers,
        help="Stride. Default: 1 (PyTorch: the kernel).")] = None
    pads: Annotated[Numbers | None, option(USUAL, "P", "-p", "--pads", read=numbers,
        help="Padding at both ends of each axis. Default: 0.")] = None
    pads_begin: Annotated[Numbers | None, option(WINDOWS, "P", "--pads-begin", hidden=True, read=numbers,
        help="Padding before the first element.")] = None
    pads_end: Annotated[Numbers | None, option(WINDOWS, "P", "--pads-end", hidden=True, read=numbers,
        help="Padding after the last element.")] = None
    dilations: Annotated[Numbers | None, option(WINDOWS, "D", "--dilations", hidden=True, read=numbers,
        help="Distance between the elements of a window. Default: 1.")] = None
    auto_pad: Annotated[str | None, option(WINDOWS, "W", "--auto-pad", words=arguments.AUTO_PADS, read=values.auto_pad,
        help="explicit (default), same_upper, same_lower or valid.")] = None
    rounding_type: Annotated[str | None, option(WINDOWS, "W", "--rounding-type", words=arguments.ROUNDING_TYPES,
        help="floor (default), ceil, or ceil_torch (as PyTorch).")] = None
    exclude_pad: Annotated[bool | None, option(WINDOWS, None, "--exclude-pad/--include-pad",
        help="Leave padding out of the divisor (default), or count it.")] = None
    divisor_override: Annotated[int | None, option(WINDOWS, "N", "--divisor-override", hidden=True, read=whole(),
        help="Divide every sum by N instead.")] = None
    p: Annotated[float | None, option(WINDOWS, "P", "--p", read=values.decimal,
        help="Power of the norm. Default: 2.")] = None
    ddof: Annotated[float | None, option(WINDOWS, "N", "--ddof", read=values.decimal,
        help="Divide by count - N. Default: 0.")] = None
    like: Like = None
    axis: Annotated[int | None, option(RESULT, "N", "--axis", hidden=True, read=whole(),
        help="First axis that indices count over: 0 (default, all) or 2 (one plane).")] = None
    index_element_type: Annotated[str | None, option(
        RESULT, "T", "--index-element-type", hidden=True, words=arguments.INDEX_TYPES,
        help="Type of the indices: i64 (default) or i32.")] = None


@dataclass(frozen=True, kw_only=True)
class ArrayOptions(Report):
    """The options about arrays that are read, pooled and written, by the commands that pool files and by `pyramid`."""

    output: Annotated[str | None, option(USUAL, "PATH", "-o", "--output",
        help="Output file or folder, or - for .npy on stdout.")] = None
    layout: Layout = None
    missing: Annotated[Missing | None, option(
        RESULT, "VALUE", "--missing", hidden=True, repeatable=True,
        read=lambda name, texts: missing_from(texts[0] if len(texts) == 1 else texts),
        help="Value to ignore: a number or nan; repeatable. Default: the file's own; none: ignore nothing.")] = None
    min_count: Annotated[int | str | None, option(
        RESULT, "N", "--min-count", hidden=True, read=lambda name, text: min_count_from(text),
        help="Windows with fewer than N valid elements, or less than P%, give nodata.")] = None
    pages: Pages = None
    allow_external: AllowExternal = False
    dataset: Dataset = None
    chunks: Annotated[Numbers | None, option(
        FILES, "C", "--chunks", hidden=True, read=numbers,
        help="Chunks of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20 elements.",
    )] = None
    shards: Annotated[Numbers | None, option(FILES, "S", "--shards", hidden=True, read=numbers,
        help="Shards of .zarr outputs: a multiple of the chunks.")] = None
    overwrite: Annotated[bool, option(FILES, None, "--overwrite", help="Replace existing outputs.")] = False
    resume: Annotated[bool, option(FILES, None, "--resume", help="Write only missing or stale outputs.")] = False
    max_memory: MaxMemory = None
    engine: Annotated[str, option(RUN, "NAME", "--engine", hidden=True, words=("auto", "numba", "numpy"),
        help="auto (default), numba or numpy; all give the same results.")] = "auto"
    jobs: Annotated[int | None, option(RUN, "N", "-j", "--jobs", hidden=True, read=whole(1),
        help="Cores to use, for files and for threads. Default: those that this process may use.")] = None
    cluster: Annotated[str | None, option(RUN, "WHERE", "--cluster", hidden=True, read=values.cluster,
        help="Run on Dask: local, local:4, tcp://HOST:PORT, tls://HOST:PORT, or a scheduler file.")] = None
    dry_run: Annotated[bool, option(RUN, None, "-n", "--dry-run", help="Plan and report only; write nothing.")] = False


@dataclass(frozen=True, kw_only=True)
class PoolOptions(ArrayOptions, WindowOptions):
    """The arguments and options of the commands that pool files."""

    inputs: Annotated[list[str] | None, argument(
        "INPUT",
        ".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy stream.",
    )] = None
    output_layout: Annotated[str | None, option(RESULT, "AXES", "--output-layout",
        help="Axes of the output; 1-long ones can go. Default: the input's; NCHW for an image in .npy.")] = None
    dtype: Dtype = None
    linear_light: Annotated[bool, option(RESULT, None, "--linear-light", hidden=True,
        help="Average images in linear light instead of sRGB values.")] = False
    rescale: Annotated[Limits | None, option(
        RESULT, "LOW,HIGH", "--rescale", hidden=True, read=values.rescale_range,
        help="Write float results as an image: LOW becomes 0, HIGH 255. Without a value: the range of each result.",
    )] = None
    indices: Annotated[str | None, option(FILES, "PATH", "--indices",
        help="Also write the flat positions of the extremes (argmax, argmin), over N,C,H,W in any layout.")] = None
    recursive: Annotated[bool, option(FILES, None, "-r", "--recursive", help="Search folders recursively.")] = False
    format: Annotated[str | None, option(FILES, "SUFFIX", "--format",
        help="Format of outputs in a folder, such as png.")] = None
    all: Annotated[bool, option(FILES, None, "--all",
        help="Pool every array of HDF5, Zarr and .npz inputs under its own name.")] = False
    files_from: Annotated[str | None, option(FILES, "LIST", "--files-from", hidden=True,
        help="Read the names of inputs from a list, one per line, or - for stdin.")] = None
    quality: Annotated[int | None, option(
        FILES, "N", "--quality", hidden=True, read=whole(1, 100),
        help="Quality of .jpg and .webp outputs, 1 to 100. Default: 95; .webp is lossless.",
    )] = None
    verbose: Annotated[bool, option(RUN, None, "-v", "--verbose", hidden=True, help="Report each input.")] = False
# fmt: on


def array_settings(request: ArrayOptions, *exclusive: tuple[str, str]) -> "Settings":
    """The settings that pooling and pyramids share; fields of Settings that are options are taken as they are.

    Refuses two options of an `exclusive` pair.
    """
    from poolcli.pooling.outcome import Settings

    for one, other in (("overwrite", "resume"), *exclusive):
        if getattr(request, one) not in (None, False) and getattr(request, other) not in (None, False):
            raise RequestError(f"{field(one)} and {field(other)} contradict each other; give one")
    same: dict[str, Any] = {
        own.name: getattr(request, own.name) for own in fields(Settings) if hasattr(request, own.name)
    }
    limits = {"max_memory": memory_budget(request.max_memory), "allowed": request.max_memory}
    return Settings(**same | limits | {"threads": request.jobs})


def array_options(allow_external: bool, max_memory: int | None, pages: str | None = None) -> "ReadOptions":
    """How whole arrays are read."""
    from poolcli.formats import ReadOptions

    return ReadOptions(pages, allow_external, limit=memory_budget(max_memory), allowed=max_memory)
