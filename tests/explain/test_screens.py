"""What `shape` prints beside what the documents show, and as JSON."""

from __future__ import annotations

from tests.conftest import Cli

TO = """\
the same in OpenVINO
AvgPool opset1: <data strides="3,3" pads_begin="0,0" pads_end="0,0" kernel="3,3" exclude-pad="false" \
rounding_type="floor" auto_pad="explicit"/>
"""
CEIL = ("avg", "1,3,4,7", "-k", "3", "-s", "2", "-p", "1", "--rounding-type", "ceil", "--include-pad")


def test_to_is_one_line_that_can_be_pasted(cli: Cli) -> None:
    assert cli("shape", "avg", "1,3,10,10", "-k", "3", "--like", "pytorch", "--to", "openvino").out.endswith(TO)
    assert cli("shape", "avg", "1,3,9", "-k", "2", "--to", "caffe").code == 2


def test_all_of_it_is_in_the_document(cli: Cli) -> None:
    document = cli("shape", *CEIL, "--explain", "--compare", "--to", "pytorch", "--json").json
    assert [axis["overhanging"] for axis in document["explain"]["axes"]] == [1, 0]
    assert [row["as"] for row in document["compare"]["rows"] if row["differs"]] == [
        "OpenVINO floor", "ONNX", "PyTorch", "TensorFlow",
    ]  # fmt: skip
    assert document["to"] == {
        "like": "pytorch",
        "text": "torch.nn.functional.avg_pool2d(torch.nn.functional.pad(x, (1, 2, 1, 2), value=0), 3, stride=2, "
        "padding=0, ceil_mode=False, count_include_pad=False)",
        "reason": None,
        "only_this_size": False,
    }


def test_a_call_for_one_input_size_says_so(cli: Cli) -> None:
    line = ("shape", "adaptive-max", "1,3,9", "--output-size", "3", "--to", "onnx")
    assert cli(*line).out.endswith("ceil_mode=0)\nfor this input size only\n")
    assert cli(*line, "--json").json["to"]["only_this_size"] is True
