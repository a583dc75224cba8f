"""Every option of the command line, written once: how it is typed and what is said of it.

Its type and default are those of the field of the same name in a request (`poolcli.cli.requests`) or in the record of
an operator (`poolcli.cli.register`). A field without a row here is a TypeError when its command is made.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import typer

from poolcli.cli.words import OPERATOR_WORDS, listed
from poolcli.dialects import DIALECTS

WINDOWS, RESULT, FILES, RUN = "Windows", "Result", "Files", "Run and report"
EXPLAIN = "Explain"
ELEMENTS = "{elements}"  # stands for what the operator picks: maxima
TYPED = {tuple[str, ...]: list[str]}  # what a field holds, where the command line collects something else


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its flags, the panel of the help that shows it, its help, and what stands for its value there."""

    flags: str
    panel: str
    text: str
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that is given by its place."""

    metavar: str
    text: str


OPTIONS: dict[str, Option | Argument] = {
    "inputs": Argument(
        "INPUT", ".npy, .npz[:key], .h5[:/dataset], an image, a folder, a quoted glob, or - for a .npy stream."
    ),
    "op": Argument("OP", f"{listed(OPERATOR_WORDS)}."),
    "shape": Argument("SHAPE|FILE", "A shape such as 1,3,32,32, or a file whose header is read."),
    "action": Argument("info|warm|clear", "Show the cache, compile all kernels into it, or empty it."),
    "files": Argument("FILE...", "Files to look into."),
    "kernel": Option("-k --kernel", WINDOWS, "Window size: 3, or 3,5 (order D,H,W). Needed.", "K"),
    "strides": Option("-s --strides", WINDOWS, "Step between windows. 1 if left out (PyTorch: the kernel).", "S"),
    "pads": Option("-p --pads", WINDOWS, "Padding at both ends.", "P"),
    "pads_begin": Option("--pads-begin", WINDOWS, "Padding before the first element.", "P"),
    "pads_end": Option("--pads-end", WINDOWS, "Padding after the last element.", "P"),
    "dilations": Option("--dilations", WINDOWS, "Distance between the elements of a window. 1 if left out.", "D"),
    "auto_pad": Option(
        "--auto-pad",
        WINDOWS,
        "explicit (default), same_upper, same_lower or valid; all but explicit ignore given pads.",
        "W",
    ),
    "rounding_type": Option(
        "--rounding-type",
        WINDOWS,
        "floor (default), ceil, or ceil_torch (drops a window that starts past the input).",
        "W",
    ),
    "exclude_pad": Option(
        "--exclude-pad/--include-pad",
        WINDOWS,
        "Leave padding out of the divisor (default), or count it (PyTorch's default).",
    ),
    "divisor_override": Option("--divisor-override", WINDOWS, "Divide every sum by N instead.", "N"),
    "p": Option("--p", WINDOWS, "Power of the norm, 1 or more. 2 if left out.", "P"),
    "output_size": Option("--output-size", WINDOWS, "Output length: 7, or 7,7 (order D,H,W). Needed.", "S"),
    "axis": Option("--axis", RESULT, "First axis that indices count over: 0 all (default), 2 inside a plane.", "N"),
    "index_element_type": Option("--index-element-type", RESULT, "Type of the indices: i64 (default) or i32.", "T"),
    "like": Option("--like", WINDOWS, f"Whose rules: {listed(DIALECTS)}.", "NAME"),
    "layout": Option(
        "--layout",
        RESULT,
        "Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images know theirs.",
        "AXES",
    ),
    "output_layout": Option("--output-layout", RESULT, "Axes of the output.", "AXES"),
    "dtype": Option("--dtype", RESULT, "Type of the result. Default: the input's; integers round half to even.", "T"),
    "missing": Option(
        "--missing",
        RESULT,
        "Number that stands for no value, or nan: such elements leave their windows. Several times for several. "
        "Default: what HDF5 files name; none: nothing.",
        "VALUE",
    ),
    "input_dtype": Option(
        "--input-dtype", RESULT, "Type of the input where only a shape is typed. Default: float32, for mode uint8.", "T"
    ),
    "output": Option(
        "-o --output", FILES, "Output file, folder (keeps names and tree), or - for .npy on stdout.", "PATH"
    ),
    "indices": Option("--indices", FILES, f"Write the positions of the {ELEMENTS} there as well.", "PATH"),
    "dataset": Option(
        "--dataset", FILES, "Dataset or key inside HDF5 and .npz inputs; several times for several.", "NAME"
    ),
    "all": Option("--all", FILES, "Pool every array of HDF5 and .npz inputs under its own name."),
    "format": Option("--format", FILES, "Suffix of the outputs in a folder: npy, png, ...", "SUFFIX"),
    "recursive": Option("-r --recursive", FILES, "Take the subfolders of folders too."),
    "overwrite": Option("--overwrite", FILES, "Replace outputs that exist."),
    "skip_existing": Option("--skip-existing", FILES, "Leave outputs that exist as they are."),
    "pages": Option("--pages", FILES, "Of several pages or frames: all (default), 1, or 2-5.", "P"),
    "quality": Option(
        "--quality",
        FILES,
        "Of .jpg and .webp outputs, 1 to 100. Default: a JPEG's own, else 95; .webp without loss.",
        "N",
    ),
    "linear_light": Option("--linear-light", RESULT, "Average pictures in linear light instead of sRGB values."),
    "max_pixels": Option("--max-pixels", FILES, "Refuse larger pictures. Default: 178,956,970.", "N"),
    "allow_external": Option("--allow-external", FILES, "Let HDF5 inputs read the other files that they name."),
    "resume": Option("--resume", FILES, "Go on where a run was stopped: make what is missing or out of date."),
    "files_from": Option("--files-from", FILES, "Take the inputs from a list, one a line, or - for stdin.", "LIST"),
    "fail_fast": Option("--fail-fast", RUN, "Stop at the first file that fails."),
    "jobs": Option("--jobs", RUN, "Files worked on at once. Default: as many as cores.", "N"),
    "engine": Option("--engine", RUN, "auto (default), numba or numpy; the results are the same.", "NAME"),
    "threads": Option("--threads", RUN, "At most N threads. Default: the cores this process may use.", "N"),
    "max_memory": Option(
        "--max-memory",
        RUN,
        "Memory that may be used, such as 2G. Default: half of what is free. Larger .npy and .h5 are pooled in parts.",
        "SIZE",
    ),
    "explain": Option("--explain", EXPLAIN, "Show the formula of each axis step by step."),
    "windows": Option("--windows", EXPLAIN, "List every window: start, stop, divisor."),
    "compare": Option("--compare", EXPLAIN, "Show what each framework would answer, and why it differs."),
    "picture": Option("--picture", EXPLAIN, "Draw input, windows and output to an .svg or .png.", "FILE"),
    "theme": Option(
        "--theme", EXPLAIN, "Of a picture: auto (default; an .svg follows the reader), light, dark.", "NAME"
    ),
    "solve": Option(
        "--solve", EXPLAIN, "Which attributes give this output length? 28 or 28,28; given options stay.", "N"
    ),
    "to": Option("--to", EXPLAIN, "The same pooling for another framework, ready to paste.", "NAME"),
    "model": Argument("MODEL", "An OpenVINO IR .xml or an .onnx file; weights are not needed."),
    "against": Option("--against", EXPLAIN, "Mark layers that this framework would read differently.", "NAME"),
    "layer": Option("--layer", EXPLAIN, "Only the layer of this name.", "NAME"),
    "run": Option(
        "--run", EXPLAIN, "Pool `input` of an .npz or .h5 as --layer does; compare with its `output`.", "DATA"
    ),
    "dry_run": Option("-n --dry-run", RUN, "Plan and report; read only headers, write nothing."),
    "json": Option("--json", RUN, "Report as JSON: one document, or one line for each of several inputs."),
    "quiet": Option("-q --quiet", RUN, "No report, no notes; errors only."),
    "verbose": Option("-v --verbose", RUN, "One report for each of several inputs."),
    "debug": Option("--debug", RUN, "Show the traceback of an error."),
}


def parameter(
    name: str, kind: Any, default: Any = inspect.Parameter.empty, elements: str = "", marked: str | None = None
) -> inspect.Parameter:
    """The parameter that typer reads an option from, with the word `marked` in its help as the default.

    A TypeError for a field that has no row.
    """
    annotation = _annotation(name, TYPED.get(kind, kind), elements, marked)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


@cache  # most options are those of several commands
def _annotation(name: str, kind: Any, elements: str, marked: str | None) -> Any:
    if name not in OPTIONS:
        raise TypeError(f"the field {name} has no row in OPTIONS")
    row = OPTIONS[name]
    if isinstance(row, Argument):
        return Annotated[kind, typer.Argument(metavar=row.metavar, help=row.text, show_default=False)]
    text = row.text.replace(ELEMENTS, elements)
    if marked:
        text = text.replace(marked, f"{marked} (default)", 1)
    return Annotated[
        kind,
        typer.Option(*row.flags.split(), help=text, rich_help_panel=row.panel, show_default=False, metavar=row.metavar),
    ]
