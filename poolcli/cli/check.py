"""The `check` command: the pooling layers of a model file."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from poolcli.cli import options
from poolcli.cli.messages import answer
from poolcli.cli.options import EXPLAIN, Report, argument, array_options, option
from poolcli.cli.program import command
from poolcli.cli.values import numbers
from poolcli.dialects import DIALECTS
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.models import check as check_model
from poolcli.models.judge import compare_data, convert_layer
from poolcli.report.check import findings_document, findings_view


def input_shapes(typed: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs by name, from texts such as `NAME=1,3,640,640`; the only input needs no name."""
    found: dict[str, tuple[int, ...]] = {}
    for text in typed:
        name, _, lengths = text.rpartition("=" if "=" in text else ":")  # x:1x3x8x8 as trtexec has it
        found[name] = numbers("input_shape", lengths)
    return found


# fmt: off
@command(
    "poolcli check samples/backbone.xml",
    "poolcli check samples/backbone.xml --against pytorch",
    "poolcli check samples/backbone.xml --to pytorch --json",
    exit_codes="Exit codes: 0 nothing is wrong, 1 a layer differs or is invalid, 2 the model cannot be read.",
)
def check(
    model: Annotated[str, argument(
        "MODEL", "OpenVINO .xml, .onnx, .tflite or .pt2; weights are not needed.",
    )],
    report: Report,
    input_shape: Annotated[list[str] | None, option(EXPLAIN, "S", "--input-shape",
        help="Shape of the input: [NAME=]1,3,640,640; repeat it for several.")] = None,
    against: Annotated[str | None, option(EXPLAIN, "NAME", "--against", words=DIALECTS,
        help="Mark layers that this framework would compute differently.")] = None,
    to: options.To = None,
    layer: Annotated[str | None, option(EXPLAIN, "NAME", "--layer", help="Only the layer of this name.")] = None,
    run: Annotated[str | None, option(EXPLAIN, "DATA", "--run",
        help="Pool the array `input` of an .npz or .h5 as --layer does; compare with its `output`.")] = None,
    allow_external: options.AllowExternal = False,
    max_memory: options.MaxMemory = None,
) -> int:
    """Prints a verdict for each layer; returns 1 if a declared shape, or the compared data, differs."""
    # fmt: on
    given = input_shapes(input_shape or [])
    read_options = array_options(allow_external, max_memory)
    found = check_model(model, input_shape=given, against=against, layer=layer, max_memory=max_memory)
    if run and len(found) != 1:
        which = f"name it with {field('layer')}" if found else f"{model} has none"
        raise RequestError(f"{field('run')} compares the data of one pooling layer; {which}")
    comparison = compare_data(found[0].layer, run, read_options) if run else None
    answers = [(finding, convert_layer(finding.layer, to) if to else None) for finding in found]
    result = (model, answers, comparison)
    answer(partial(findings_document, *result), partial(findings_view, *result, against), report)
    wrong = any(finding.verdict in ("differs", "invalid") for finding in found)
    return 1 if wrong or (comparison and comparison.off) else 0
