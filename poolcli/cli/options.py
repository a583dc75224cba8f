"""Every option that commands share, one alias each, and the records of options that several commands have.

An option is `Annotated[type, typer.Option(...)]`, with a `Typed` beside it where its words need more than Typer does:
other names, a list of values, an example for messages. A hidden option is advanced: `--help-all` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from poolcli.arguments import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.cli.completion import arrays, inputs
from poolcli.cli.operators import OPERATOR_WORDS
from poolcli.cli.program import EXPLAIN, FILES, RESULT, RUN, USUAL, WINDOWS, Typed
from poolcli.dialects import DIALECTS
from poolcli.dtypes import DTYPES
from poolcli.ops import OPERATORS
from poolcli.suggestions import listed

_DIALECT = Typed("dialect framework", tuple(DIALECTS))
_TO, _AGAINST = Typed(words=tuple(DIALECTS)), Typed(words=tuple(DIALECTS))
_OP = Typed(words=tuple(OPERATOR_WORDS))
_AUTO_PAD, _ROUNDING = Typed(words=AUTO_PADS), Typed("rounding", ROUNDING_TYPES)
_DTYPE, _INPUT_DTYPE = Typed("output-dtype", tuple(DTYPES)), Typed(words=tuple(DTYPES))
_INDEX_TYPE, _ENGINE = Typed(words=tuple(INDEX_TYPES)), Typed(words=("auto", "numba", "numpy"))
_OTHER_DEFAULTS = [f"{name}: {record.like}" for name, record in OPERATORS.items() if record.like != "openvino"]

# fmt: off
Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help=".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy "
        "stream.",
        autocompletion=inputs,
        show_default=False,
    ),
    Typed(example="x.npy"),
]
Op = Annotated[
    str, typer.Argument(metavar="OP", help="Operator: avg, max, adaptive-avg, ...", autocompletion=_OP.complete), _OP
]

Kernel = Annotated[
    str | None,
    typer.Option("-k", "--kernel", metavar="K", help="Window size: 3, or 3,5 (order D,H,W).", rich_help_panel=USUAL),
    Typed("kernel-size kernel-shape ksize pool-size window-size", example="2", numbers=True),
]
OutputSize = Annotated[
    str | None,
    typer.Option("--output-size", metavar="S", help="Output size: 7, or 7,9 (order D,H,W).", rich_help_panel=USUAL),
    Typed("output-shape", example="7", numbers=True),
]
Strides = Annotated[
    str | None,
    typer.Option(
        "-s", "--strides", metavar="S", help="Step of the windows. Default: 1 (PyTorch: kernel).",
        rich_help_panel=USUAL,
    ),
    Typed("stride", example="2", numbers=True),
]
Pads = Annotated[
    str | None,
    typer.Option("-p", "--pads", metavar="P", help="Padding at both ends of each axis.", rich_help_panel=USUAL),
    Typed("padding pad", example="1", numbers=True),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="PATH", help="Output file or folder, or - for .npy on stdout.",
        rich_help_panel=USUAL,
    ),
    Typed("out", example="y.npy", writes=True),
]

PadsBegin = Annotated[
    str | None,
    typer.Option("--pads-begin", metavar="P", help="Padding before the first element.", rich_help_panel=WINDOWS,
                 hidden=True),
    Typed(example="1", numbers=True),
]
PadsEnd = Annotated[
    str | None,
    typer.Option("--pads-end", metavar="P", help="Padding after the last element.", rich_help_panel=WINDOWS,
                 hidden=True),
    Typed(example="1", numbers=True),
]
Dilations = Annotated[
    str | None,
    typer.Option("--dilations", metavar="D", help="Distance between the elements of a window. Default: 1.",
                 rich_help_panel=WINDOWS, hidden=True),
    Typed("dilation", example="2", numbers=True),
]
AutoPad = Annotated[
    str | None,
    typer.Option(
        "--auto-pad", metavar="W", rich_help_panel=WINDOWS, autocompletion=_AUTO_PAD.complete,
        help="explicit (default), same_upper, same_lower or valid.",
    ),
    _AUTO_PAD,
]
RoundingType = Annotated[
    str | None,
    typer.Option(
        "--rounding-type", metavar="W", rich_help_panel=WINDOWS, autocompletion=_ROUNDING.complete,
        help="floor (default), ceil, or ceil_torch (as PyTorch).",
    ),
    _ROUNDING,
]
ExcludePad = Annotated[
    bool | None,
    typer.Option(
        "--exclude-pad/--include-pad", rich_help_panel=WINDOWS, show_default=False,
        help="Leave padding out of the divisor (default), or count it.",
    ),
]
DivisorOverride = Annotated[
    int | None,
    typer.Option("--divisor-override", metavar="N", help="Divide every sum by N instead.", rich_help_panel=WINDOWS,
                 hidden=True),
    Typed(example="4"),
]
P = Annotated[
    float | None,
    typer.Option("--p", metavar="P", help="Power of the norm. Default: 2.", rich_help_panel=WINDOWS),
    Typed("norm-type", example="2"),
]
Axis = Annotated[
    int | None,
    typer.Option("--axis", metavar="N", rich_help_panel=RESULT, hidden=True,
                 help="First axis that indices count over: 0 (default, all) or 2 (one plane)."),
    Typed(example="2"),
]
IndexElementType = Annotated[
    str | None,
    typer.Option("--index-element-type", metavar="T", help="Type of the indices: i64 (default) or i32.",
                 rich_help_panel=RESULT, autocompletion=_INDEX_TYPE.complete, hidden=True),
    _INDEX_TYPE,
]
Like = Annotated[
    str | None,
    typer.Option(
        "--like", metavar="NAME", rich_help_panel=WINDOWS, autocompletion=_DIALECT.complete,
        help=f"Rules: {listed(DIALECTS)}.".replace("openvino", f"openvino (default; {', '.join(_OTHER_DEFAULTS)})"),
    ),
    _DIALECT,
]

Layout = Annotated[
    str | None,
    typer.Option("--layout", metavar="AXES", rich_help_panel=RESULT,
                 help="Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images are HWC."),
    Typed("data-format", example="NHWC"),
]
Dtype = Annotated[
    str | None,
    typer.Option("--dtype", metavar="T", rich_help_panel=RESULT, autocompletion=_DTYPE.complete,
                 help="Type of the result. Default: the input's; integers round half to even."),
    _DTYPE,
]
InputDtype = Annotated[
    str | None,
    typer.Option("--input-dtype", metavar="T", rich_help_panel=RESULT, autocompletion=_INPUT_DTYPE.complete,
                 hidden=True, help="Type of the input where only a shape is given. Default: float32 (mode: uint8)."),
    _INPUT_DTYPE,
]

To = Annotated[
    str | None,
    typer.Option("--to", metavar="NAME", rich_help_panel=EXPLAIN, autocompletion=_TO.complete,
                 help="The equivalent call in another framework."),
    _TO,
]
Against = Annotated[
    str | None,
    typer.Option("--against", metavar="NAME", rich_help_panel=EXPLAIN, autocompletion=_AGAINST.complete,
                 help="Mark layers that this framework would compute differently."),
    _AGAINST,
]

Dataset = Annotated[
    list[str],
    typer.Option("--dataset", metavar="NAME", rich_help_panel=FILES, autocompletion=arrays, hidden=True,
                 show_default=False,
                 help="Array inside HDF5, Zarr and .npz inputs; repeat it for several."),
    Typed(example="/data"),
]
Pages = Annotated[
    str | None,
    typer.Option("--pages", metavar="P", help="Pages or frames of images: all (default), 1, or 2-5.",
                 rich_help_panel=FILES, hidden=True),
    Typed(example="1"),
]
MaxPixels = Annotated[
    int | None,
    typer.Option("--max-pixels", metavar="N", help="Refuse larger images. Default: 178,956,970.",
                 rich_help_panel=FILES, hidden=True),
    Typed(example="200000000"),
]
AllowExternal = Annotated[
    bool,
    typer.Option("--allow-external", help="Let HDF5 inputs read the other files that they name.",
                 rich_help_panel=FILES, hidden=True),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace outputs that exist.", rich_help_panel=FILES)
]

MaxMemory = Annotated[
    str | None,
    typer.Option("--max-memory", metavar="SIZE", rich_help_panel=RUN, hidden=True,
                 help="Memory limit, such as 2G. Default: half of what is free. Larger inputs are pooled in parts."),
    Typed(example="2G"),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Report as JSON, one document for each input.", rich_help_panel=RUN),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No report, no notes; errors only.", rich_help_panel=RUN)]
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=RUN, hidden=True)
]
Help = Annotated[
    bool, typer.Option("-h", "--help", "--help-all", help="Show the usual options, or all.", rich_help_panel=RUN)
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="NAME", help="auto, numba or numpy; all give the same results.",
                 rich_help_panel=RUN, autocompletion=_ENGINE.complete, hidden=True),
    _ENGINE,
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help="At most N threads. Default: the cores this process may use.",
                 rich_help_panel=RUN, hidden=True),
    Typed(example="2"),
]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="WHERE", rich_help_panel=RUN, hidden=True,
                 help="Run on Dask: local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or dask."),
    Typed(example="local:2"),
]
DryRun = Annotated[
    bool,
    typer.Option("-n", "--dry-run", help="Plan and report only; write nothing.", rich_help_panel=RUN),
]
Missing = Annotated[
    list[str],
    typer.Option("--missing", metavar="VALUE", rich_help_panel=RESULT, hidden=True, show_default=False,
                 help="Nodata value, excluded from every window: a number or nan; repeat it for several. Default: "
                      "what the file names; none: nothing."),
    Typed(example="nan"),
]
Chunks = Annotated[
    str | None,
    typer.Option("--chunks", metavar="C", rich_help_panel=FILES, hidden=True,
                 help="Chunks of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20."),
    Typed(numbers=True),
]
Shards = Annotated[
    str | None,
    typer.Option("--shards", metavar="S", rich_help_panel=FILES, hidden=True,
                 help="Shards of .zarr outputs: a multiple of the chunks."),
    Typed(numbers=True),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume: write only missing or stale outputs.", rich_help_panel=FILES),
]
# fmt: on


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The attributes of all operators: an operator's command offers those that its record has a field for."""

    kernel: Kernel = None
    output_size: OutputSize = None
    strides: Strides = None
    pads: Pads = None
    pads_begin: PadsBegin = None
    pads_end: PadsEnd = None
    dilations: Dilations = None
    auto_pad: AutoPad = None
    rounding_type: RoundingType = None
    exclude_pad: ExcludePad = None
    divisor_override: DivisorOverride = None
    p: P = None
    like: Like = None
    axis: Axis = None
    index_element_type: IndexElementType = None


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """How a command reports."""

    json: Json = False
    quiet: Quiet = False
    debug: Debug = False
    help: Help = False


@dataclass(frozen=True, kw_only=True)
class Arrays(Reporting):
    """How arrays are read, pooled and written, by every command that makes arrays of arrays."""

    output: Output = None
    layout: Layout = None
    missing: Missing = field(default_factory=list)
    dataset: Dataset = field(default_factory=list)
    pages: Pages = None
    chunks: Chunks = None
    shards: Shards = None
    max_pixels: MaxPixels = None
    allow_external: AllowExternal = False
    overwrite: Overwrite = False
    resume: Resume = False
    engine: Engine = "auto"
    threads: Threads = None
    max_memory: MaxMemory = None
    cluster: Cluster = None
    dry_run: DryRun = False
