"""Every refusal of a request: the whole message on standard error, and the exit code."""

from __future__ import annotations

import pytest

from poolcli.ops import OPERATORS
from tests.conftest import Cli

SHAPE = "1,3,32,32"

REFUSALS: list[tuple[str, list[str], str]] = [
    ("no kernel", ["avg", SHAPE], "avg needs --kernel, for example --kernel 2"),
    ("no output size", ["adaptive-max", SHAPE], "adaptive-max needs --output-size, for example --output-size 2"),
    ("kernel 0", ["avg", SHAPE, "-k", "0"], "--kernel is 0 on every axis; it must be at least 1"),
    ("stride 0", ["avg", SHAPE, "-k", "2", "-s", "1,0"], "--strides is 0 on axis W; it must be at least 1"),
    (
        "dilation 0",
        ["max", SHAPE, "-k", "2", "--dilations", "0"],
        "--dilations is 0 on every axis; it must be at least 1",
    ),
    ("negative pad", ["avg", SHAPE, "-k", "2", "--pads=-1"], "--pads is -1 on every axis; it must be at least 0"),
    (
        "list too long",
        ["avg", SHAPE, "-k", "2,2,2"],
        "--kernel has 3 numbers, but the input has 2 spatial axes (H,W); give 1 or 2, for example --kernel 2,2",
    ),
    (
        "list too long for one axis",
        ["avg", "1,3,32", "-k", "2,2"],
        "--kernel has 2 numbers, but the input has 1 spatial axis (W); give 1, for example --kernel 2",
    ),
    (
        "bad number",
        ["avg", SHAPE, "-k", "2,x"],
        "--kernel has 'x' where a whole number is needed, for example 2 or 2,3 or 2x3\n  2,x\n    ^",
    ),
    (
        "missing number",
        ["avg", SHAPE, "-k", "[2,]"],
        "--kernel has nothing where a whole number is needed; write 2\n  [2,]\n     ^",
    ),
    (
        "fraction",
        ["avg", SHAPE, "-k", "2.5"],
        "--kernel has '2.5' where a whole number is needed, for example 2 or 2,3 or 2x3\n  2.5\n  ^",
    ),
    (
        "number of many digits",
        ["avg", SHAPE, "-k", "9" * 5000],
        "--kernel is above 2**63 - 1, the largest number that is read",
    ),
    (
        "number above 64 bits",
        ["avg", SHAPE, "-k", str(2**63)],
        "--kernel on every axis is above 2**63 - 1, the largest number that is read",
    ),
    (
        "kernel larger than the input",
        ["avg", "1,1,2,9", "-k", "3"],
        "axis H is 2 long, kernel 3 without padding leaves no window; use --kernel 2 or --pads 1",
    ),
    (
        "dilated kernel larger than the padded input",
        ["max", "1,1,9", "-k", "6", "--dilations", "3", "-p", "2"],
        "axis W is 9 long, kernel 6 with dilation 3 spans 16 and with pads 2,2 leaves no window; "
        "use --kernel 5 or --pads 4",
    ),
    (
        "pads of a whole window with exclude_pad",
        ["avg", SHAPE, "-k", "2", "-p", "2"],
        "--exclude-pad needs pads smaller than the window: axis H has pads 2,2 and a window of 2; "
        "use pads of at most 1 or --include-pad",
    ),
    (
        "pads given twice",
        ["avg", SHAPE, "-k", "2", "-p", "1", "--pads-end", "0"],
        "--pads sets both ends; give either --pads or --pads-begin and --pads-end",
    ),
    (
        "output size 0",
        ["adaptive-avg", SHAPE, "--output-size", "0"],
        "--output-size is 0 on every axis; it must be at least 1",
    ),
    (
        "unknown auto_pad",
        ["avg", SHAPE, "-k", "2", "--auto-pad", "same"],
        "--auto-pad is 'same'; it must be one of explicit, same_upper, same_lower, valid; "
        "did you mean same_upper or same_lower?",
    ),
    (
        "unknown rounding",
        ["avg", SHAPE, "-k", "2", "--rounding-type", "up"],
        "--rounding-type is 'up'; it must be one of floor, ceil, ceil_torch; did you mean ceil?",
    ),
    (
        "unknown dialect",
        ["avg", SHAPE, "-k", "2", "--like", "caffe"],
        "--like is 'caffe'; it must be one of openvino, ngraph, onnx, pytorch, tensorflow",
    ),
    (
        "unknown operator",
        ["product", SHAPE],
        f"OP is 'product'; it must be one of {', '.join(OPERATORS)}",
    ),
    (
        "option of another operator",
        ["max", SHAPE, "-k", "2", "--include-pad"],
        "max has no --include-pad, which is for avg",
    ),
    (
        "ceil_torch outside OpenVINO",
        ["avg", SHAPE, "-k", "2", "--rounding-type", "ceil_torch", "--like", "onnx"],
        "ONNX has no rounding_type ceil_torch; use floor or ceil, or another --like",
    ),
    (
        "same pads in PyTorch",
        ["avg", SHAPE, "-k", "2", "--auto-pad", "same_upper", "--like", "pytorch"],
        "PyTorch has no auto_pad same_upper; use explicit, or another --like",
    ),
    (
        "dilated average in PyTorch",
        ["avg", SHAPE, "-k", "2", "--dilations", "2", "--like", "pytorch"],
        "PyTorch has no dilation in average pooling; use --dilations 1, or another --like",
    ),
    (
        "large pads in PyTorch",
        ["max", SHAPE, "-k", "3", "-p", "2", "--like", "pytorch"],
        "PyTorch allows pads of at most 1 for a kernel of 3: axis H has pads 2,2; use smaller pads, or another --like",
    ),
    (
        "uneven pads in PyTorch",
        ["max", SHAPE, "-k", "4", "--pads-begin", "1", "--like", "pytorch"],
        "PyTorch pads both ends equally: axis H has pads 1,0; use equal pads, or another --like",
    ),
    (
        "pads of a kernel in ONNX",
        ["max", SHAPE, "-k", "2", "-p", "2", "--like", "onnx"],
        "ONNX allows pads of at most 1 for a kernel of 2: axis H has pads 2,2; use smaller pads, or another --like",
    ),
    (
        "no strides in TensorFlow",
        ["max", SHAPE, "-k", "2", "--like", "tensorflow"],
        "TensorFlow needs strides; give --strides (Keras layers take the kernel by default)",
    ),
    (
        "counted padding in TensorFlow",
        ["avg", SHAPE, "-k", "2", "-s", "2", "--include-pad", "--like", "tensorflow"],
        "TensorFlow never counts padding; use --exclude-pad, or another --like",
    ),
    (
        "explicit pads in TensorFlow's average",
        ["avg", SHAPE, "-k", "2", "-s", "2", "-p", "1", "--like", "tensorflow"],
        "TensorFlow has no explicit pads in average pooling; use --auto-pad same_upper or valid",
    ),
    (
        "adaptive pooling in ONNX",
        ["adaptive-avg", SHAPE, "--output-size", "7", "--like", "onnx"],
        "ONNX has no adaptive pooling; use --like openvino, --like pytorch or --like tensorflow",
    ),
    (
        "divisor 0",
        ["avg", SHAPE, "-k", "2", "--divisor-override", "0"],
        "--divisor-override is 0; a whole number other than 0 and below 2**31 is needed",
    ),
    (
        "divisor too small for the type",
        ["avg", SHAPE, "-k", "2", "--divisor-override", "2", "--input-dtype", "uint8"],
        "--divisor-override 2 can give results from 0 to 510, outside uint8; "
        "use --dtype float64 or a wider integer type",
    ),
    (
        "rank 2",
        ["avg", "32,32", "-k", "2"],
        "the input has 2 axes; at least 3 (N, C and one spatial axis) are needed; "
        "name its axes with --layout, for example --layout HW",
    ),
    (
        "layout of another rank",
        ["avg", SHAPE, "-k", "2", "--layout", "HWC"],
        "layout HWC names 3 axes, but the input has 4; give one letter for each axis",
    ),
    (
        "layout that is none",
        ["avg", SHAPE, "-k", "2", "--layout", "NCHH"],
        "layout 'NCHH' must name each axis by its own letter, for example NCHW or HWC",
    ),
    (
        "empty axis",
        ["avg", "1,3,0,4", "-k", "2", "-p", "1"],
        "axis H of the input is 0 long, but a window needs at least 1 element",
    ),
    (
        "indices above i32",
        ["max", "1,1,50000,50000", "-k", "2", "-s", "2", "--index-element-type", "i32"],
        "--index-element-type i32 cannot hold indices up to 2499999999; use i64",
    ),
    (
        "axis outside the rank",
        ["max", SHAPE, "-k", "2", "-s", "2", "--axis", "4"],
        "--axis is 4; it must be from -4 to 3 for a tensor of rank 4",
    ),
    (
        "axis outside OpenVINO",
        ["max", SHAPE, "-k", "2", "--axis", "2", "--like", "pytorch"],
        "--axis is an attribute of OpenVINO; PyTorch fixes the axes that indices count over",
    ),
    (
        "average of bool",
        ["avg", SHAPE, "-k", "2", "--input-dtype", "bool"],
        "an average of bool needs a number type: add --dtype float32 (or an integer type, rounded)",
    ),
    (
        "type that cannot hold the result",
        ["avg", SHAPE, "-k", "2", "--dtype", "uint8"],
        "--dtype uint8 cannot hold every result of float32 input; use a float type or a wider integer type",
    ),
    (
        "unknown type",
        ["avg", SHAPE, "-k", "2", "--input-dtype", "complex64"],
        "--input-dtype is 'complex64'; it must be one of bool, uint8, uint16, uint32, uint64, int8, int16, int32, "
        "int64, float16, float32, float64, bfloat16",
    ),
    (
        "integer average of nothing",
        ["avg", "1,1,5", "-k", "2", "-s", "3", "--pads-begin", "1", "--rounding-type", "ceil", "--input-dtype", "int8"],
        "1 window holds no input element, and int8 has no value for the average of an empty window; "
        "use --rounding-type floor or ceil_torch, --include-pad with pads, or --dtype float32",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_a_wrong_request_is_refused_with_one_message_and_exit_code_2(
    cli: Cli, arguments: list[str], message: str
) -> None:
    result = cli("shape", *arguments)
    assert result.err == f"poolcli: {message}\n"
    assert (result.code, result.out) == (2, "")
