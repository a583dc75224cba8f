"""Options that ask why, and what else there is."""

from __future__ import annotations

from poolcli.cli.options.option import Option
from poolcli.dialects import DIALECTS

EXPLAIN = {
    "explain": Option("--explain", "Show the formula of each axis step by step."),
    "windows": Option("--windows", "List the windows, of many those at both ends: start, stop, divisor."),
    "compare": Option("--compare", "Show what each framework would answer, and why it differs."),
    "picture": Option(
        "--picture",
        "Draw input, windows and output as .svg, .png, or .html to point at.",
        "FILE",
        example="plan.svg",
        path="any",
    ),
    "theme": Option(
        "--theme",
        "Of a picture: auto (default; an .svg follows the reader), light, dark.",
        "NAME",
        words=("auto", "light", "dark"),
    ),
    "solve": Option(
        "--solve", "Which attributes give this output length? 28 or 28,28; given options stay.", "N", example="28"
    ),
    "to": Option("--to", "The same pooling for another framework, ready to paste.", "NAME", words=tuple(DIALECTS)),
    "input_shape": Option(
        "--input-shape",
        "Lengths of an input: NAME=1,3,640,640. Several times for several.",
        "S",
        example="x=1,3,640,640",
    ),
    "against": Option(
        "--against", "Mark layers that this framework would read differently.", "NAME", words=tuple(DIALECTS)
    ),
    "layer": Option("--layer", "Only the layer of this name.", "NAME", example="pool1"),
    "run": Option(
        "--run",
        "Pool `input` of an .npz or .h5 as --layer does; compare with its `output`.",
        "DATA",
        example="data.npz",
        path="any",
    ),
    "atol": Option("--atol", "Differences up to A are none. Default: 0.", "A", example="1e-6"),
    "rtol": Option("--rtol", "Nor are those up to R times the number of B. Default: 0.", "R", example="1e-5"),
}
