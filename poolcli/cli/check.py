"""The `check` command: the pooling layers of a model file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from typing import Annotated

from poolcli.cli.options import AllowExternal, MaxMemory, Reporting, To
from poolcli.cli.program import EXPLAIN, argument, command, option
from poolcli.cli.settings import data_options
from poolcli.dialects import DIALECTS
from poolcli.errors import FileError, RequestError
from poolcli.message_fields import field
from poolcli.models import check as check_model
from poolcli.models.run_and_convert import compare_data, convert_layer
from poolcli.report.check import findings_document, findings_view

WRONG = ("differs", "invalid")


# fmt: off
@dataclass(frozen=True, kw_only=True)
class CheckOptions(Reporting):
    """The arguments and options of `check`."""

    model: Annotated[str, argument(
        "MODEL", example="model.onnx", help="OpenVINO .xml, .onnx, .tflite or .pt2; weights are not needed.",
    )]
    input_shape: Annotated[list[str], option(
        "--input-shape", metavar="S", panel=EXPLAIN, example="x=1,3,640,640",
        help="Shape of an input: NAME=1,3,640,640; repeat it for several.",
    )] = dataclass_field(default_factory=list)
    against: Annotated[str | None, option(
        "--against", metavar="NAME", panel=EXPLAIN, choices=tuple(DIALECTS),
        help="Mark layers that this framework would compute differently.",
    )] = None
    to: To = None
    layer: Annotated[str | None, option(
        "--layer", metavar="NAME", panel=EXPLAIN, example="pool1", help="Only the layer of this name.",
    )] = None
    run: Annotated[str | None, option(
        "--run", metavar="DATA", panel=EXPLAIN, example="data.npz",
        help="Pool the input in an .npz or .h5 as --layer does; compare with its output.",
    )] = None
    allow_external: AllowExternal = False
    max_memory: MaxMemory = None
# fmt: on


def input_shapes(typed: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs by name, from texts such as `NAME=1,3,640,640`.

    >>> input_shapes(["x=1,3,640,640", "scale=2"])
    {'x': (1, 3, 640, 640), 'scale': (2,)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in typed:
        name, equals, lengths = text.rpartition("=")
        parts = [part.strip() for part in re.split("[,x]", lengths.strip("[] "))]
        if not equals or not name or not all(re.fullmatch("[0-9]{1,19}", part) for part in parts):
            raise RequestError(f"{field('input_shape')} is {text!r}; write NAME=1,3,640,640")
        found[name] = tuple(map(int, parts))
    return found


@command(
    "check",
    CheckOptions,
    "poolcli check samples/backbone.xml",
    "poolcli check samples/backbone.xml --against pytorch",
    "poolcli check samples/backbone.xml --to pytorch --json",
    exit_codes="Exit codes: 0 nothing is wrong, 1 a layer differs or is invalid, 2 the model cannot be read.",
)
def check(request: CheckOptions) -> int:
    """Prints a verdict for each layer; returns 1 if a declared shape, or the compared data, differs."""
    if request.run and request.layer is None:
        raise RequestError(f"{field('run')} compares the data of one layer; name it with {field('layer')}")
    if request.allow_external and request.run is None:
        raise RequestError(
            f"{field('allow_external')} applies to the data that {field('run', 'DATA')} reads; leave it out"
        )
    given = input_shapes(request.input_shape)
    options = data_options(request.allow_external, request.max_memory)
    found = check_model(
        request.model, input_shape=given, against=request.against, layer=request.layer, max_memory=request.max_memory
    )
    comparison = None
    if request.run:
        try:
            comparison = compare_data(found[0].layer, request.run, options)
        except FileError as error:  # its exit code 1 would mean that they differ
            raise RequestError(error.message) from error
    answers = [(finding, convert_layer(finding.layer, request.to) if request.to else None) for finding in found]
    result = (request.model, answers, comparison)
    request.answer(partial(findings_document, *result), partial(findings_view, *result))
    wrong = any(finding.verdict in WRONG for finding in found)
    return 1 if wrong or (comparison and comparison.off) else 0
