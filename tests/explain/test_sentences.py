"""Sentences that `--explain`, `--compare`, `--to` and `--solve` print, whole and at any width."""

from __future__ import annotations

import pytest

from tests.conftest import Cli

HUGE = 2**62
CEIL = "--rounding-type ceil"
CASES = {
    "max 1,1,1 -k 1 --explain": ["window: 1 position (the kernel)", "receptive field: 1 position"],
    "max 1,1,30 -k 3 -s 1 --dilations 2 -p 2 --explain": [
        "window: (3 - 1) * 2 + 1 = 5 positions (kernel and dilation)", "padded size: 30 + 2 + 2 = 34",
        "last start: 34 - 5 = 29", "steps: 29 / 1 = 29", "outputs: 29 + 1 = 30",
        "receptive field: 3 of 5 positions, 2 apart",
        "W 29 [27, 32) 27 to 29 by 2 2",
    ],
    "max 1,1,8 -k 1 --dilations 3 -s 4 --rounding-type ceil_torch --explain": [
        "window: (1 - 1) * 3 + 1 = 1 position (kernel and dilation)",
        "steps: 7 / 4 = 1 and 3/4, rounded up (ceil_torch) to 2",
        "window 2 would start at 8, past the input of 8: dropped", "outputs: 2 + 1 - 1 = 2",
        "6 unused input elements", "W 1 [4, 5) 4 1",
        "i input, p padding, . past it; # read, + window outside the input",
    ],
    "max 1,1,6 -k 1 -s 2 --auto-pad same_upper --explain": [
        "same_upper pads for ceil(6 / 2) = 3 outputs", "padding in all: (3 - 1) * 2 + 1 - 6 = -1, at least 0",
        "split: 0 before, 0 after", "steps: 5 / 2 = 2 and 1/2, rounded down (floor) to 2",
    ],
    "max 1,1,6 -k 3 -s 2 --auto-pad same_upper --explain": ["split: 0 before, 1 after, the odd one after"],
    "max 1,1,8 -k 5 -s 1 --auto-pad same_upper --explain": ["split: 2 before, 2 after"],
    "max 1,1,6 -k 3 -s 2 --auto-pad same_lower --explain": ["split: 1 before, 0 after, the odd one before"],
    "max 1,1,8,8 -k 3 -s 2 --auto-pad valid --explain": [
        "valid: no padding", "receptive field: 3 positions", "1 unused input element",
        "axis W: as axis H",
    ],
    "max 1,1,3 -k 2 -p 3 -s 1 --explain": [
        "4 windows without any input element", "W 0 [-3, -1) nothing 0",
    ],
    f"avg 1,1,6 -k 3 -s 2 {CEIL} --include-pad --explain": [
        "1 window extends past the input", "window spans reads divides by",
    ],
    f"max 1,1,3 -k 2 -s 2 -p 1 {CEIL} --explain": [
        "1 window extends past the input and its pads", "1 window without any input element",
    ],
    "adaptive-avg 1,1,5 --output-size 3 --explain": [
        "bin i reads from floor(i * 5 / 3) to ceil((i + 1) * 5 / 3)",
        "bin 1: 5/3 = 1 and 2/3, down to 1; 10/3 = 3 and 1/3, up to 4: 3 long",
        "no fixed kernel and stride give these windows: 2 of length 2, 1 of length 3",
    ],
    f"avg 1,1,6 -k 3 -s 2 {CEIL} --compare": [
        "= chosen, * differs; divisors of the first and last window",
        "* OpenVINO floor: rounds down: a last window that does not fit is dropped (floor)",
        "* TensorFlow has no rounding_type ceil; use floor",
    ],
    "avg 1,1,6 -k 3 -s 2 --like pytorch --compare": [
        "* OpenVINO ceil, OpenVINO ceil_torch: rounds up: a last window that overhangs is kept (ceil)",
    ],
    "avg 1,1,8 -k 3 -s 2 -p 1 --like pytorch --compare": [
        "* ONNX leaves padding out of the divisor by default",
    ],
    f"avg 1,1,8 -k 3 -s 2 -p 1 --include-pad {CEIL} --like onnx --compare": [
        "* OpenVINO floor, OpenVINO ceil, OpenVINO ceil_torch, nGraph: it counts the whole window, overhang included, "
        "as soon as any pad is not 0",
    ],
    f"avg 1,1,7 -k 2 -s 3 -p 1 --include-pad {CEIL} --compare": [
        "* OpenVINO ceil_torch, ONNX, PyTorch: drops a last window that would start past the input (ceil_torch: "
        "PyTorch, ONNX, OpenVINO AvgPool-14 on)",
    ],
    f"avg 1,1,7 -k 2 -s 3 -p 1 --include-pad {CEIL} --like pytorch --compare": [
        "* OpenVINO ceil, nGraph: keeps a last window that starts past the input (ceil: OpenVINO AvgPool-1 on, nGraph)",
    ],
    "lp 1,1,6 -k 3 --p 3 -s 1 --like onnx --compare": [
        "as output pads divisors",
        "* PyTorch: it adds x**p with its sign, and multiplies the mean of a window by the kernel's size",
    ],
    "lp 1,1,6 -k 3 --p 3 -s 1 --like pytorch --compare": [
        "* ONNX: it adds abs(x)**p of the elements inside",
    ],
    f"avg 1,1,{HUGE} -k 3 -s 2 --explain": [
        f"steps: {HUGE - 3} / 2 = {HUGE // 2 - 2} and 1/2, rounded down (floor) to {HUGE // 2 - 2}",
    ],
    "adaptive-avg 1,1,7 --output-size 3 --explain": ["equals kernel 3, stride 2 exactly"],
    "max 1,1,9,9 -k 3 --dilations 2 --to ngraph": [
        "none: nGraph has no dilation in max pooling; use --dilations 1",
    ],
    "mode 1,1,9 -k 3 --to onnx": ["none: ONNX has no mode pooling"],
    "max 1,1,9 -k 3 -s 2 -p 1 --solve 7": [
        "no attributes give this size: the nearest is --solve 5",
        "searched, beside what is given: kernels up to 11 and those that cover the input, the strides that fit, pads "
        "shorter than the kernel, equal or one more at the end, same_upper, each rounding; no window of pads only",
    ],
    "max 1,1,27,27 -k 5 --dilations 2 --solve 27 --like pytorch": [
        "no attributes give this size: PyTorch allows pads of at most 2 for a kernel of 5: axis H has pads 4,4; "
        "--like openvino gives it, and --to pytorch then writes the call",
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_sentence_is_printed_whole_at_any_width(case: str, cli: Cli) -> None:
    wide = {" ".join(line.split()) for line in cli("shape", *case.split(), columns=400).out.splitlines()}
    assert set(CASES[case]) <= wide
    narrow = cli("shape", *case.split(), columns=80).out
    assert max(map(len, narrow.splitlines())) <= 80
    for sentence in CASES[case]:
        assert sentence.startswith("* TensorFlow") or sentence in " ".join(narrow.split())


def test_wrapped_steps_keep_their_indent(cli: Cli) -> None:
    lines = cli("shape", "max", f"1,1,{HUGE}", "-k", 3, "-s", 2, "--explain", columns=80).out.splitlines()
    at = lines.index(f"  steps: {HUGE - 3} / 2 = {HUGE // 2 - 2} and 1/2, rounded down")
    assert lines[at + 1] == f"  (floor) to {HUGE // 2 - 2}"
