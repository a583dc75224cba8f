"""Options of windows: which elements each reads, and what becomes of them."""

from __future__ import annotations

from poolcli.arguments import AUTO_PADS, ROUNDING_TYPES
from poolcli.cli.options.option import Option
from poolcli.cli.words import OPERATOR_WORDS
from poolcli.dialects import DIALECTS
from poolcli.ops import LEVELLING
from poolcli.suggestions import listed

WINDOWS = {
    "pooling": Option(
        "--op --pooling",
        f"The operator, where it is known: {listed(OPERATOR_WORDS)}.",
        "OP",
        words=tuple(OPERATOR_WORDS),
    ),
    "operator": Option(
        "--op --operator",
        "What becomes of each window: avg (default), max, min, or mode for labels.",
        "OP",
        words=LEVELLING,
    ),
    "kernel": Option(
        "-k --kernel",
        "Window size: 3, or 3,5 (order D,H,W).",
        "K",
        "--kernel-size --kernel-shape --ksize --pool-size --window-size",
        example="2",
    ),
    "strides": Option(
        "-s --strides", "Step between windows. 1 if left out (PyTorch: the kernel).", "S", "--stride", example="2"
    ),
    "pads": Option("-p --pads", "Padding at both ends.", "P", "--padding --pad", example="1"),
    "pads_begin": Option("--pads-begin", "Padding before the first element.", "P", example="1"),
    "pads_end": Option("--pads-end", "Padding after the last element.", "P", example="1"),
    "dilations": Option(
        "--dilations", "Distance between the elements of a window. 1 if left out.", "D", "--dilation", example="2"
    ),
    "auto_pad": Option(
        "--auto-pad",
        "explicit (default), same_upper, same_lower or valid; all but explicit ignore given pads.",
        "W",
        words=AUTO_PADS,
    ),
    "rounding_type": Option(
        "--rounding-type",
        "floor (default), ceil, or ceil_torch (drops a window that starts past the input).",
        "W",
        "--rounding",
        words=ROUNDING_TYPES,
    ),
    "like": Option(
        "--like", f"Whose rules: {listed(DIALECTS)}.", "NAME", "--dialect --framework", words=tuple(DIALECTS)
    ),
    "exclude_pad": Option(
        "--exclude-pad/--include-pad", "Leave padding out of the divisor (default), or count it (PyTorch's default)."
    ),
    "divisor_override": Option("--divisor-override", "Divide every sum by N instead.", "N", example="4"),
    "p": Option("--p", "Power of the norm, 1 or more. 2 if left out.", "P", "--norm-type", example="2"),
    "output_size": Option(
        "--output-size", "Output length: 7, or 7,7 (order D,H,W).", "S", "--output-shape", example="7"
    ),
    "levels_from": Option(
        "--from --levels-from",
        "Compute each level from the previous one (default), or from the source: slower, rounded once.",
        "BASE",
        words=("previous", "source"),
    ),
    "edge": Option(
        "--edge",
        "Where a window finds only a part: ceil (default) keeps it, of what there is; floor drops it.",
        "W",
        words=("ceil", "floor"),
    ),
}
