"""The commands `shape` (output shape of one operator, with explanations) and `chain` (a sequence of layers)."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from poolcli.arguments import Numbers
from poolcli.cli import options, values
from poolcli.cli.messages import answer
from poolcli.cli.options import EXPLAIN, RESULT, UNLIMITED, Report, WindowOptions, argument, option
from poolcli.cli.pool import attribute_names, attributes_of, make_operator
from poolcli.cli.program import OPERATOR_HELP, command, find_operator, parse_operator
from poolcli.cli.values import numbers
from poolcli.dtypes import DTYPES
from poolcli.errors import RequestError
from poolcli.layouts import rank_of
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan import Fact, Plan, make_plan
from poolcli.plan.attributes import values_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from poolcli.formats import Source

Given = tuple[tuple[int, ...], str, str | None, tuple[str, ...]]  # shape, dtype, named axes and notes of the input


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ShapeOptions(Report, WindowOptions):
    """The arguments and options of `shape`."""

    op: Annotated[str, argument("OP", "Operator: avg, max, adaptive-avg, ...", parse_operator, OPERATOR_HELP)]
    shape: Annotated[str, argument("SHAPE|FILE", "A shape such as 1,3,32,32, or a file.")]
    layout: options.Layout = None
    input_dtype: Annotated[str | None, option(
        RESULT, "T", "--input-dtype", hidden=True, words=DTYPES, read=values.dtype,
        help="Type of the input where only a shape is given. Default: float32 (mode: uint8).")] = None
    dtype: options.Dtype = None
    explain: Annotated[bool, option(EXPLAIN, None, "--explain",
        help="Show the formula of each axis step by step.")] = False
    compare: Annotated[bool, option(EXPLAIN, None, "--compare", help="Compare all frameworks, with reasons.")] = False
    picture: Annotated[str | None, option(EXPLAIN, "FILE", "--picture",
        help="Draw input, windows and output as .svg or interactive .html.")] = None
    solve: Annotated[Numbers | None, option(EXPLAIN, "N", "--solve", read=numbers,
        help="Find the attributes that give this output length: 28 or 28,28; given options stay fixed.")] = None
    overwrite: Annotated[bool, option(EXPLAIN, None, "--overwrite", hidden=True,
        help="Replace an existing picture or model.")] = False
    to: options.To = None
    output: Annotated[str | None, option(EXPLAIN, "FILE", "-o", "--output", hidden=True,
        help="With --to onnx: write a model of this pooling, layer.onnx.")] = None
    pages: options.Pages = None
    allow_external: options.AllowExternal = False
    dataset: options.Dataset = None
# fmt: on

    @property
    def is_typed(self) -> bool:
        """Whether the argument is a shape rather than the name of a file."""
        with suppress(RequestError):
            return bool(numbers("shape", self.shape)) and not Path(self.shape).exists()
        return False


@command(
    "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
    "poolcli shape max samples/astronaut.png -k 3 -s 2 -p 1 --compare",
    "poolcli shape avg 1,3,56,56 --solve 28",
    "poolcli shape avg 1,3,56,56 -k 3 -s 2 --like pytorch --to openvino",
    exit_codes="",
)
def shape(request: ShapeOptions) -> int:
    """Prints the plan of an operator on a shape or a file's header, and what else is asked; returns the exit code."""
    if request.output and request.to != "onnx":
        meant = field("output_size" if "output_size" in attribute_names(request.op) else "solve", request.output)
        is_size = request.output.replace(",", "").isdigit()
        remedy = f"for a size, use {meant}" if is_size else f"add {field('to', 'onnx')}, or leave it out"
        raise RequestError(f"{field('output')} writes an ONNX model here; {remedy}")
    given = attributes_of(request.op, request)
    if request.solve:
        return _solve(request, given)
    op = make_operator(request.op, given)
    size, dtype, named, notes = _input_of(request, values_of(op))
    try:
        plan = make_plan(op, size, dtype, layout=request.layout, named=named, output_dtype=request.dtype)
    except RequestError as error:
        raise (error if request.is_typed else error.at(request.shape)) from None
    plan = replace(plan, facts=(*(Fact("file", note) for note in notes), *plan.layout_warnings, *plan.facts))
    _write_files(plan, request)

    def document() -> dict[str, Any]:
        from poolcli.report.as_json import plan_document

        found = plan_document(plan) | _explanations(plan, request)
        if not request.is_typed:
            source = _source_of(request)
            found["input"] |= {"path": source.path, "dataset": source.key}
        return found

    def view() -> "RenderableType":
        from poolcli.report.outcome import plan_view, spaced

        wrote = ", ".join(path for path in (request.picture, request.output) if path)
        report = plan_view(plan, [fact.message for fact in plan.facts], closing=wrote and f"wrote {wrote}")
        return spaced(report, *_explanations(plan, request).values())

    short = ",".join(map(str, plan.output_shape))
    if request.quiet and request.to and not request.output:  # the call is a result, too
        from poolcli.explain.export import convert

        short = "\n".join(filter(None, (short, convert(plan, request.to).text)))
    answer(document, view, request, short)
    return 0


def _input_of(request: ShapeOptions, values: int = 1) -> Given:
    """The input, as typed or from the header of a file; `values` is the number of values in the attributes' lists."""
    target = request.shape
    if request.is_typed:
        dtype = request.input_dtype or OPERATORS[request.op].reducer.example_dtype
        return numbers("shape", target), dtype, None, ()
    if not (re.search("[A-Za-z?]", target) or Path(target).exists()):
        numbers("shape", target)
    if re.fullmatch(r"[\w?*]+([,;] *[\w?*]+)+", target) and not Path(target).exists():
        raise RequestError(
            f"{target} is neither a file nor a shape; write whole numbers, and any positive one for a dynamic axis"
        )
    from poolcli.formats import ReadOptions, in_subprocess_if_fragile, read_header

    source = _source_of(request)
    read_options = ReadOptions(
        request.pages, request.allow_external, allowed=UNLIMITED,
        ndim=rank_of(request.layout), volume=request.layout is None and values == 3,
    )  # fmt: skip
    header = in_subprocess_if_fragile(source.path, partial(read_header, source, read_options))
    return header.shape, header.dtype, header.layout, header.notes


def _source_of(request: ShapeOptions) -> "Source":
    from poolcli.formats import parse_source

    return parse_source(request.shape, next(iter(request.dataset or ()), None))


def _write_files(plan: Plan, request: ShapeOptions) -> None:
    """Writes the picture and the model."""
    if request.picture:
        from poolcli.explain.svg import Picture

        Picture(plan).save(request.picture, request.overwrite)
    if request.output:
        from poolcli.explain.export.onnx_model import save_onnx

        save_onnx(plan, request.output, None, request.overwrite)


def _explanations(plan: Plan, request: ShapeOptions) -> dict[str, Any]:
    """What is printed beside the plan, by its key in JSON: documents with --json, else views."""
    if not (request.explain or request.compare or request.to):
        return {}
    from poolcli.explain import explain
    from poolcli.report import as_json, explain as views

    found, json = dict[str, Any](), request.json
    if request.explain:
        found["explain"] = asdict(explain(plan)) if json else views.explanation_view(plan)
    if request.compare:
        found["compare"] = as_json.comparison_document(plan) if json else views.comparison_view(plan)
    if request.to:
        found["to"] = as_json.conversion_document(plan, request.to) if json else views.conversion_view(plan, request.to)
    return found


def _solve(request: ShapeOptions, given: Mapping[str, Any]) -> int:
    """Prints the attributes that give the wanted length, and explains the first ones; returns 1 if there are none."""
    from poolcli.explain.solve import obstacle, solve

    size, _, named, _ = _input_of(request)
    wanted = request.solve or ()
    given = {**given, "layout": request.layout or named}
    found = solve(request.op, size, wanted, **given)
    if found:
        _write_files(found[0].plan, request)

    def document() -> dict[str, Any]:
        from poolcli.report.as_json import answers_document

        answers = answers_document(request.op, given.get("like", OPERATORS[request.op].like), size, wanted, found)
        return answers | (_explanations(found[0].plan, request) if found else {})

    def view() -> "RenderableType":
        from poolcli.report.explain import answers_view
        from poolcli.report.outcome import spaced

        explained = _explanations(found[0].plan, request).values() if found else ()
        why = "" if found else obstacle(request.op, size, wanted, given)
        return spaced(answers_view(found, why), *explained)

    answer(document, view, replace(request, quiet=False))
    return 0 if found else 1


@command(
    "poolcli chain 1,3,224,224 conv:k7,s2,p3,o64 max:k3,s2,p1 avg:k2",
    "poolcli chain 1,64,56,56 max:k3,s2,p1,ceil global-avg --like pytorch --json",
    "poolcli chain 8,8,3 avg:k2,s2 max:k2 --layout HWC",
    exit_codes="",
)
def chain(
    shape: Annotated[str, argument("SHAPE", "Shape of the input, such as 1,3,224,224.")],
    layers: Annotated[list[str], argument("LAYER",
        "NAME[:kK][,sS][,pP][,dD][,ceil][,oC]: conv:k7,s2,p3,o64, max:k3,s2,p1, adaptive-avg:7, global-avg.")],
    report: Report,
    like: options.Like = None,
    layout: options.Layout = None,
) -> int:  # fmt: skip
    """Prints shape, cumulative stride, receptive field and padding after each layer."""
    from poolcli.explain.chain import chain as follow

    words = (layer.partition(":") for layer in layers)
    named = ["".join((find_operator(name) or name, colon, rest)) for name, colon, rest in words]
    found = follow(numbers("shape", shape), named, like=like, layout=layout)
    from poolcli.report import as_json, explain

    last = ",".join(map(str, found.layers[-1].output))
    answer(partial(as_json.chain_document, found), partial(explain.chain_view, found), report, last)
    return 0
