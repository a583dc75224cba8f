"""Every option of the command line, written once. A command names the options that it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

WINDOWS, RESULT, FILES, RUN = "Windows", "Result", "Files", "Run and report"
EXPLAIN = "Explain"


TEXT, FLAG, COUNT = str | None, bool, int | None


def _option(kind: Any, flags: str, panel: str, text: str, default: Any = None, **more: Any) -> tuple[Any, Any]:
    if kind is FLAG:
        more["metavar"] = ""  # else typer shows a type where nothing is typed
    option = typer.Option(*flags.split(), help=text, rich_help_panel=panel, show_default=False, **more)
    return Annotated[kind, option], default


def _argument(kind: Any, name: str, text: str, default: Any = inspect.Parameter.empty) -> tuple[Any, Any]:
    return Annotated[kind, typer.Argument(metavar=name, help=text, show_default=False)], default


OPTIONS: dict[str, tuple[Any, Any]] = {
    "inputs": _argument(
        list[str],
        "INPUT",
        ".npy, .npz[:key], .h5[:/dataset], an image, a folder, a quoted glob, or - for a .npy stream.",
        (),
    ),
    "op": _argument(str, "OP", "avg, max, adaptive-avg or adaptive-max."),
    "shape": _argument(str, "SHAPE|FILE", "A shape such as 1,3,32,32, or a file whose header is read."),
    "action": _argument(str, "info|warm|clear", "Show the cache, compile all kernels into it, or empty it."),
    "files": _argument(list[str], "FILE...", "Files to look into."),
    "kernel": _option(
        TEXT, "-k --kernel", WINDOWS,
        "Window size: 3, or 3,5 (order D,H,W). Needed.", metavar="K",
    ),
    "strides": _option(
        TEXT, "-s --strides", WINDOWS,
        "Step between windows. 1 if left out (PyTorch: the kernel).", metavar="S",
    ),
    "pads": _option(TEXT, "-p --pads", WINDOWS, "Padding at both ends.", metavar="P"),
    "pads_begin": _option(TEXT, "--pads-begin", WINDOWS, "Padding before the first element.", metavar="P"),
    "pads_end": _option(TEXT, "--pads-end", WINDOWS, "Padding after the last element.", metavar="P"),
    "dilations": _option(
        TEXT, "--dilations", WINDOWS,
        "Distance between the elements of a window. 1 if left out.", metavar="D",
    ),
    "auto_pad": _option(
        TEXT, "--auto-pad", WINDOWS,
        "explicit (default), same_upper, same_lower or valid; all but explicit ignore given pads.", metavar="W",
    ),
    "rounding_type": _option(
        TEXT, "--rounding-type", WINDOWS,
        "floor (default), ceil, or ceil_torch (drops a window that starts past the input).", metavar="W",
    ),
    "exclude_pad": _option(
        bool | None, "--exclude-pad/--include-pad", WINDOWS,
        "Leave padding out of the divisor (default), or count it (PyTorch's default).", metavar="",
    ),
    "divisor_override": _option(
        COUNT, "--divisor-override", WINDOWS,
        "Divide every sum by N instead.", metavar="N",
    ),
    "output_size": _option(
        TEXT, "--output-size", WINDOWS,
        "Output length: 7, or 7,7 (order D,H,W). Needed.", metavar="S",
    ),
    "axis": _option(
        COUNT, "--axis", RESULT,
        "First axis that indices count over: 0 all (default), 2 inside a plane.", metavar="N",
    ),
    "index_element_type": _option(
        TEXT, "--index-element-type", RESULT,
        "Type of the indices: i64 (default) or i32.", metavar="T",
    ),
    "like": _option(
        TEXT, "--like", WINDOWS, "Whose rules: openvino (default), ngraph, onnx, pytorch or tensorflow.", metavar="NAME"
    ),
    "layout": _option(
        TEXT, "--layout", RESULT,
        "Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images know theirs.", metavar="AXES",
    ),
    "output_layout": _option(TEXT, "--output-layout", RESULT, "Axes of the output.", metavar="AXES"),
    "dtype": _option(
        TEXT, "--dtype", RESULT,
        "Type of the result. Default: the input's; integers round half to even.", metavar="T",
    ),
    "input_dtype": _option(
        str,
        "--input-dtype",
        RESULT,
        "Type of the input where only a shape is typed. Default: float32.",
        "float32",
        metavar="T",
    ),
    "output": _option(
        TEXT, "-o --output", FILES,
        "Output file, folder (keeps names and tree), or - for .npy on stdout.", metavar="PATH",
    ),
    "indices": _option(
        TEXT, "--indices", FILES,
        "Write the positions of the maxima there as well.", metavar="PATH",
    ),
    "dataset": _option(
        list[str], "--dataset", FILES,
        "Dataset or key inside HDF5 and .npz inputs; several times for several.", (), metavar="NAME",
    ),
    "all": _option(FLAG, "--all", FILES, "Pool every array of HDF5 and .npz inputs under its own name.", False),
    "format": _option(
        TEXT, "--format", FILES,
        "Suffix of the outputs in a folder: npy, png, ...", metavar="SUFFIX",
    ),
    "recursive": _option(FLAG, "-r --recursive", FILES, "Take the subfolders of folders too.", False),
    "overwrite": _option(FLAG, "--overwrite", FILES, "Replace outputs that exist.", False),
    "skip_existing": _option(FLAG, "--skip-existing", FILES, "Leave outputs that exist as they are.", False),
    "pages": _option(
        TEXT, "--pages", FILES,
        "Of several pages or frames: all (default), 1, or 2-5.", metavar="P",
    ),
    "quality": _option(
        COUNT, "--quality", FILES,
        "Of .jpg and .webp outputs, 1 to 100. Default: a JPEG's own, else 95; .webp without loss.", metavar="N",
    ),
    "linear_light": _option(
        FLAG, "--linear-light", RESULT, "Average pictures in linear light instead of sRGB values.", False
    ),
    "max_pixels": _option(
        COUNT, "--max-pixels", FILES,
        "Refuse larger pictures. Default: 178,956,970.", metavar="N",
    ),
    "allow_external": _option(
        FLAG, "--allow-external", FILES, "Let HDF5 inputs read the other files that they name.", False
    ),
    "resume": _option(
        FLAG, "--resume", FILES,
        "Go on where a run was stopped: make what is missing or out of date.", False,
    ),
    "files_from": _option(
        TEXT, "--files-from", FILES,
        "Take the inputs from a list, one a line, or - for stdin.", metavar="LIST",
    ),
    "fail_fast": _option(FLAG, "--fail-fast", RUN, "Stop at the first file that fails.", False),
    "jobs": _option(
        COUNT, "--jobs", RUN,
        "Files worked on at once. Default: as many as cores.", metavar="N",
    ),
    "engine": _option(
        str, "--engine", RUN,
        "auto (default), numba or numpy; the results are the same.", "auto", metavar="NAME",
    ),
    "threads": _option(
        COUNT, "--threads", RUN,
        "At most N threads. Default: the cores this process may use.", metavar="N",
    ),
    "max_memory": _option(
        TEXT, "--max-memory", RUN,
        "Memory that may be used, such as 2G. Default: half of what is free. Larger .npy and .h5 are pooled in parts.",
        metavar="SIZE",
    ),
    "explain": _option(FLAG, "--explain", EXPLAIN, "Show the formula of each axis step by step.", False),
    "windows": _option(FLAG, "--windows", EXPLAIN, "List every window: start, stop, divisor.", False),
    "compare": _option(FLAG, "--compare", EXPLAIN, "Show what each framework would answer, and why it differs.", False),
    "picture": _option(
        TEXT, "--picture", EXPLAIN,
        "Draw input, windows and output to an .svg or .png.", metavar="FILE",
    ),
    "solve": _option(
        TEXT, "--solve", EXPLAIN,
        "Which attributes give this output length? 28 or 28,28; given options stay.", metavar="N",
    ),
    "to": _option(
        TEXT, "--to", EXPLAIN,
        "The same pooling for another framework, ready to paste.", metavar="NAME",
    ),
    "model": _argument(str, "MODEL", "An OpenVINO IR .xml or an .onnx file; weights are not needed."),
    "against": _option(
        TEXT, "--against", EXPLAIN,
        "Mark layers that this framework would read differently.", metavar="NAME",
    ),
    "layer": _option(TEXT, "--layer", EXPLAIN, "Only the layer of this name.", metavar="NAME"),
    "run": _option(
        TEXT, "--run", EXPLAIN,
        "Pool `input` of an .npz or .h5 as --layer does; compare with its `output`.", metavar="DATA",
    ),
    "dry_run": _option(
        FLAG, "-n --dry-run", RUN,
        "Plan and report; read only headers, write nothing.", False,
    ),
    "json": _option(
        FLAG, "--json", RUN,
        "Report as JSON: one document, or one line for each of several inputs.", False,
    ),
    "quiet": _option(FLAG, "-q --quiet", RUN, "No report, no notes; errors only.", False),
    "verbose": _option(FLAG, "-v --verbose", RUN, "One report for each of several inputs.", False),
    "debug": _option(FLAG, "--debug", RUN, "Show the traceback of an error.", False),
}  # fmt: skip

FILE_OPTIONS = (
    "output", "dataset", "all", "format", "recursive", "files_from", "pages", "quality", "max_pixels", "allow_external",
    "overwrite", "skip_existing", "resume",
)  # fmt: skip
RESULT_OPTIONS = ("layout", "output_layout", "dtype")
EXPLAIN_OPTIONS = ("explain", "windows", "compare", "picture", "solve", "to")
RUN_OPTIONS = ("engine", "threads", "jobs", "max_memory", "fail_fast", "dry_run", "json", "quiet", "verbose", "debug")


def add_command(
    app: typer.Typer,
    name: str,
    body: Callable[[Mapping[str, Any]], None],
    options: Iterable[str],
    text: str,
    epilog: str,
) -> None:
    """Registers `body` as command `name`; it gets the values of `options` by name."""

    def command(**values: Any) -> None:
        body(values)

    parameters = [
        inspect.Parameter(
            option, inspect.Parameter.KEYWORD_ONLY, annotation=OPTIONS[option][0], default=OPTIONS[option][1]
        )
        for option in options
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    command.__annotations__ = {option: OPTIONS[option][0] for option in options}
    app.command(name, help=text, epilog=epilog)(command)
