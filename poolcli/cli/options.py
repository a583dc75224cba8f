"""Every option of the command line, written once: how it is typed and what is said of it.

Its type and default are those of the field of the same name in a request (`poolcli.cli.requests`) or in the record of
an operator (`poolcli.cli.parameters`). A field without a row here is a TypeError when its command is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from poolcli.cli.words import OPERATOR_WORDS
from poolcli.core.dtypes import DTYPES
from poolcli.core.nearest import listed
from poolcli.core.values import AUTO_PADS, INDEX_TYPES, ROUNDING_TYPES
from poolcli.dialects import DIALECTS

WINDOWS, RESULT, FILES, RUN = "Windows", "Result", "Files", "Run and report"
EXPLAIN = "Explain"
TYPES = tuple(DTYPES)
ELEMENTS = "{elements}"  # stands for what the operator picks: maxima
# What `--help` shows, in this order; `--help-all` shows everything.
FIRST = (
    "operator", "kernel", "levels", "levels_from", "edge", "scale", "unit", "output_size", "strides", "pads",
    "output", "p", "rounding_type", "auto_pad", "exclude_pad", "like", "indices", "layout", "dtype", "explain",
    "windows", "compare", "picture", "solve", "to", "recursive", "format", "overwrite", "resume", "dry_run", "json",
    "quiet",
)  # fmt: skip
# What other frameworks call a setting, as an option without a value: the field, and how it is set.
SETTINGS = {
    "--ceil-mode": ("rounding_type", "--rounding-type=ceil"),
    "--count-include-pad": ("exclude_pad", "--include-pad"),
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its flags, the panel of the help that shows it, its help, and what stands for its value there.

    `also` are the names that other frameworks have for it, `words` the values of one that takes no others, `example` a
    value for messages; `path` says what is completed: an `input`, an `output`, a `model`, an `array` inside a file. One
    that may stand alone is then `alone`; the next word is its value where it has the form of `value`.
    """

    flags: str
    panel: str
    text: str
    metavar: str = ""
    also: str = ""
    words: tuple[str, ...] = ()
    example: str = ""
    path: str = ""
    alone: str = ""
    value: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The flags, those that turn it off left out."""
        return tuple(flag for flag in self.flags.partition("/")[0].split())

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Every flag, those of other frameworks included."""
        return (*self.flags.replace("/", " ").split(), *self.also.split())

    @property
    def turns_off(self) -> str:
        """The flag that turns it off; empty where there is none."""
        return self.flags.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Argument:
    """Something that is given by its place."""

    metavar: str
    text: str
    words: tuple[str, ...] = ()
    example: str = ""
    path: str = ""


OPTIONS: dict[str, Option | Argument] = {
    "inputs": Argument(
        "INPUT...",
        ".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy stream.",
        example="x.npy",
        path="input",
    ),
    "source": Argument(
        "INPUT", "A .npy, .npz[:key], .h5[:/dataset], .zarr[:/array] or an image.", example="x.zarr", path="input"
    ),
    "op": Argument("OP", f"{listed(OPERATOR_WORDS)}.", tuple(OPERATOR_WORDS), "avg"),
    "shape": Argument(
        "SHAPE|FILE", "A shape such as 1,3,32,32, or a file whose header is read.", example="1,3,32,32", path="input"
    ),
    "action": Argument(
        "info|warm|clear",
        "Show the cache, compile all kernels into it, or empty it.",
        ("info", "warm", "clear"),
        "info",
    ),
    "folder": Argument("FOLDER", "The output of all shards: a folder, or a .zarr.", example="pooled", path="any"),
    "first": Argument(
        "A", "A file, or an array in one: a.npy, a.h5:/data, a.npz:key, a picture.", example="a.npy", path="input"
    ),
    "second": Argument("B", "What it is compared with, of the same shape.", example="b.npy", path="input"),
    "atol": Option("--atol", EXPLAIN, "Differences up to A are none. Default: 0.", "A", example="1e-6"),
    "rtol": Option("--rtol", EXPLAIN, "Nor are those up to R times the number of B. Default: 0.", "R", example="1e-5"),
    "files": Argument("FILE...", "Files to look into.", example="x.npy", path="input"),
    "x": Argument(
        "INPUT", "The array before: .npy, .npz[:key], .h5[:/dataset], ..., an image.", example="x.npy", path="input"
    ),
    "y": Argument("OUTPUT", "The array after, read in the same way.", example="y.npy", path="input"),
    "pooling": Option(
        "--op --pooling",
        WINDOWS,
        f"The operator, where it is known: {listed(OPERATOR_WORDS)}.",
        "OP",
        words=tuple(OPERATOR_WORDS),
    ),
    "kernel": Option(
        "-k --kernel",
        WINDOWS,
        "Window size: 3, or 3,5 (order D,H,W).",
        "K",
        "--kernel-size --kernel-shape --ksize --pool-size --window-size",
        example="2",
    ),
    "strides": Option(
        "-s --strides",
        WINDOWS,
        "Step between windows. 1 if left out (PyTorch: the kernel).",
        "S",
        "--stride",
        example="2",
    ),
    "pads": Option("-p --pads", WINDOWS, "Padding at both ends.", "P", "--padding --pad", example="1"),
    "pads_begin": Option("--pads-begin", WINDOWS, "Padding before the first element.", "P", example="1"),
    "pads_end": Option("--pads-end", WINDOWS, "Padding after the last element.", "P", example="1"),
    "dilations": Option(
        "--dilations",
        WINDOWS,
        "Distance between the elements of a window. 1 if left out.",
        "D",
        "--dilation",
        example="2",
    ),
    "auto_pad": Option(
        "--auto-pad",
        WINDOWS,
        "explicit (default), same_upper, same_lower or valid; all but explicit ignore given pads.",
        "W",
        words=AUTO_PADS,
    ),
    "rounding_type": Option(
        "--rounding-type",
        WINDOWS,
        "floor (default), ceil, or ceil_torch (drops a window that starts past the input).",
        "W",
        "--rounding",
        words=ROUNDING_TYPES,
    ),
    "exclude_pad": Option(
        "--exclude-pad/--include-pad",
        WINDOWS,
        "Leave padding out of the divisor (default), or count it (PyTorch's default).",
    ),
    "divisor_override": Option("--divisor-override", WINDOWS, "Divide every sum by N instead.", "N", example="4"),
    "p": Option("--p", WINDOWS, "Power of the norm, 1 or more. 2 if left out.", "P", "--norm-type", example="2"),
    "output_size": Option(
        "--output-size", WINDOWS, "Output length: 7, or 7,7 (order D,H,W).", "S", "--output-shape", example="7"
    ),
    "axis": Option(
        "--axis", RESULT, "First axis that indices count over: 0 all (default), 2 inside a plane.", "N", example="2"
    ),
    "index_element_type": Option(
        "--index-element-type", RESULT, "Type of the indices: i64 (default) or i32.", "T", words=tuple(INDEX_TYPES)
    ),
    "like": Option(
        "--like", WINDOWS, f"Whose rules: {listed(DIALECTS)}.", "NAME", "--dialect --framework", words=tuple(DIALECTS)
    ),
    "layout": Option(
        "--layout",
        RESULT,
        "Axes of the input: NCHW, NHWC, HWC, HW, ... Default: NC and spatial; images know theirs.",
        "AXES",
        "--data-format",
        example="NHWC",
    ),
    "output_layout": Option("--output-layout", RESULT, "Axes of the output.", "AXES", example="NHWC"),
    "dtype": Option(
        "--dtype",
        RESULT,
        "Type of the result. Default: the input's; integers round half to even.",
        "T",
        "--output-dtype",
        words=TYPES,
    ),
    "missing": Option(
        "--missing",
        RESULT,
        "Number that stands for no value, or nan: such elements leave their windows. Several times for several. "
        "Default: what HDF5 files name; none: nothing.",
        "VALUE",
        example="nan",
    ),
    "input_dtype": Option(
        "--input-dtype",
        RESULT,
        "Type of the input where only a shape is typed. Default: float32, for mode uint8.",
        "T",
        words=TYPES,
    ),
    "output": Option(
        "-o --output",
        FILES,
        "Output file, folder (keeps names and tree), or - for .npy on stdout.",
        "PATH",
        "--out",
        example="y.npy",
        path="output",
    ),
    "indices": Option(
        "--indices",
        FILES,
        f"Write the positions of the {ELEMENTS} there as well.",
        "PATH",
        "--return-indices",
        example="where.npy",
        path="output",
    ),
    "dataset": Option(
        "--dataset",
        FILES,
        "Dataset or key inside HDF5, Zarr and .npz inputs; several times for several.",
        "NAME",
        example="/data",
        path="array",
    ),
    "all": Option("--all", FILES, "Pool every array of HDF5, Zarr and .npz inputs under its own name."),
    "format": Option("--format", FILES, "Suffix of the outputs in a folder: npy, png, ...", "SUFFIX", example="npy"),
    "recursive": Option("-r --recursive", FILES, "Take the subfolders of folders too."),
    "overwrite": Option("--overwrite", FILES, "Replace outputs that exist."),
    "skip_existing": Option("--skip-existing", FILES, "Leave outputs that exist as they are."),
    "pages": Option("--pages", FILES, "Of several pages or frames: all (default), 1, or 2-5.", "P", example="1"),
    "quality": Option(
        "--quality",
        FILES,
        "Of .jpg and .webp outputs, 1 to 100. Default: a JPEG's own, else 95; .webp without loss.",
        "N",
        example="90",
    ),
    "levels": Option(
        "--levels",
        RESULT,
        "Levels in all, the first of full size. Default: until no axis is longer than 256.",
        "N",
        example="5",
    ),
    "operator": Option(
        "--op --operator",
        WINDOWS,
        "What becomes of each window: avg (default), max, min, or mode for labels.",
        "OP",
        words=("avg", "max", "min", "mode"),
    ),
    "levels_from": Option(
        "--from --levels-from",
        WINDOWS,
        "Compute each level from the previous one (default), or from the source: slower, rounded once.",
        "BASE",
        words=("previous", "source"),
    ),
    "edge": Option(
        "--edge",
        WINDOWS,
        "Where a window finds only a part: ceil (default) keeps it, of what there is; floor drops it.",
        "W",
        words=("ceil", "floor"),
    ),
    "scale": Option("--scale", RESULT, "Distance of the elements: z=2,y=0.5,x=0.5. Default: the input's, or 1.", "A=S"),
    "unit": Option("--unit", RESULT, "Unit of that distance, such as micrometer.", "UNIT", example="micrometer"),
    "ngff": Option(
        "--ngff", RESULT, "Version of OME-Zarr: 0.5 (default, Zarr 3) or 0.4 (Zarr 2).", "V", words=("0.5", "0.4")
    ),
    "chunks": Option(
        "--chunks", FILES, "Of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20.", "C"
    ),
    "shards": Option("--shards", FILES, "Of .zarr outputs: so much in one file, a multiple of the chunks.", "S"),
    "linear_light": Option("--linear-light", RESULT, "Average pictures in linear light instead of sRGB values."),
    "rescale": Option(
        "--rescale",
        RESULT,
        "Float results into pictures: LOW becomes 0 and HIGH 255. Alone: the ends of each result.",
        "LOW,HIGH",
        example="0,1",
        alone="auto",
        value=r"auto|[-+.\deE]+,[-+.\deE]+",
    ),
    "preview": Option(
        "--preview",
        RUN,
        "Show input and output side by side; .png: into that file; text: into a pipe, too.",
        "FILE",
        example="seen.png",
        path="any",
        alone="terminal",
        value=r"terminal|text|.+\.(png|apng|jpe?g|svg|html|gif|webp|tiff?|bmp)",
    ),
    "max_pixels": Option(
        "--max-pixels", FILES, "Refuse larger pictures. Default: 178,956,970.", "N", example="200000000"
    ),
    "raw": Option(
        "--raw",
        FILES,
        "Read files without a header as this array: 1,3,64,64,uint8 (>f4: high bytes first).",
        "SHAPE,TYPE",
    ),
    "allow_external": Option("--allow-external", FILES, "Let HDF5 inputs read the other files that they name."),
    "resume": Option("--resume", FILES, "Go on where a run was stopped: make what is missing or out of date."),
    "files_from": Option(
        "--files-from",
        FILES,
        "Take the inputs from a list, one a line, or - for stdin.",
        "LIST",
        example="list.txt",
        path="any",
    ),
    "fail_fast": Option("--fail-fast", RUN, "Stop at the first file that fails."),
    "jobs": Option("--jobs", RUN, "Files worked on at once. Default: as many as cores.", "N", example="2"),
    "cluster": Option(
        "--cluster",
        RUN,
        "Run on a Dask cluster: local, local:4, or a scheduler's tcp://HOST:PORT.",
        "WHERE",
        example="local:2",
    ),
    "shard": Option(
        "--shard",
        RUN,
        "Do one of N parts of the inputs, as 1/8; `merge` sums up when all are done.",
        "I/N",
        example="1/8",
    ),
    "engine": Option(
        "--engine",
        RUN,
        "auto (default), numba or numpy; the results are the same.",
        "NAME",
        words=("auto", "numba", "numpy"),
    ),
    "threads": Option(
        "--threads", RUN, "At most N threads. Default: the cores this process may use.", "N", example="2"
    ),
    "max_memory": Option(
        "--max-memory",
        RUN,
        "Memory that may be used, such as 2G. Default: half of what is free. Larger .npy and .h5 are pooled in parts.",
        "SIZE",
        example="2G",
    ),
    "explain": Option("--explain", EXPLAIN, "Show the formula of each axis step by step."),
    "windows": Option("--windows", EXPLAIN, "List the windows, of many those at both ends: start, stop, divisor."),
    "compare": Option("--compare", EXPLAIN, "Show what each framework would answer, and why it differs."),
    "picture": Option(
        "--picture",
        EXPLAIN,
        "Draw input, windows and output as .svg, .png, or .html to point at.",
        "FILE",
        example="plan.svg",
        path="any",
    ),
    "theme": Option(
        "--theme",
        EXPLAIN,
        "Of a picture: auto (default; an .svg follows the reader), light, dark.",
        "NAME",
        words=("auto", "light", "dark"),
    ),
    "solve": Option(
        "--solve",
        EXPLAIN,
        "Which attributes give this output length? 28 or 28,28; given options stay.",
        "N",
        example="28",
    ),
    "to": Option(
        "--to", EXPLAIN, "The same pooling for another framework, ready to paste.", "NAME", words=tuple(DIALECTS)
    ),
    "model": Argument(
        "MODEL",
        "An OpenVINO .xml, an .onnx, a .tflite or a .pt2; weights are not needed.",
        example="model.onnx",
        path="model",
    ),
    "input_shape": Option(
        "--input-shape",
        EXPLAIN,
        "Lengths of an input: NAME=1,3,640,640. Several times for several.",
        "S",
        example="x=1,3,640,640",
    ),
    "against": Option(
        "--against",
        EXPLAIN,
        "Mark layers that this framework would read differently.",
        "NAME",
        words=tuple(DIALECTS),
    ),
    "layer": Option("--layer", EXPLAIN, "Only the layer of this name.", "NAME", example="pool1"),
    "run": Option(
        "--run",
        EXPLAIN,
        "Pool `input` of an .npz or .h5 as --layer does; compare with its `output`.",
        "DATA",
        example="data.npz",
        path="any",
    ),
    "dry_run": Option("-n --dry-run", RUN, "Plan and report; read only headers, write nothing."),
    "json": Option("--json", RUN, "Report as JSON: one document, or one line for each of several inputs."),
    "quiet": Option("-q --quiet", RUN, "No report, no notes; errors only."),
    "verbose": Option("-v --verbose", RUN, "One report for each of several inputs."),
    "debug": Option("--debug", RUN, "Show the traceback of an error."),
}
