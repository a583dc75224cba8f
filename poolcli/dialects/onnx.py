"""ONNX: AveragePool, MaxPool and LpPool up to opset 22, by their specification and ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from poolcli.arguments import AUTO_PADS
from poolcli.dialects.dialect import (
    Call,
    Dialect,
    Support,
    counts_pads,
    is_ceil,
    is_dilated,
    literal,
    numbers,
    too_many_axes,
)
from poolcli.dialects.steps import Gathered, Matrices, Negate, Pad, Pool, Power, Scale, Step, Whole, fold, side_by_side
from poolcli.message_fields import field

if TYPE_CHECKING:
    from poolcli.plan import Plan

WORDS = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


@dataclass(frozen=True, slots=True)
class Constant:
    """An array: rows of numbers, a number, or a function that makes them, and how numpy makes it."""

    values: Any
    dtype: str
    text: str


@dataclass(frozen=True, slots=True)
class Element:
    """An element type, by its name in poolcli."""

    dtype: str

    @property
    def name(self) -> str:
        """Its name in `onnx.TensorProto`."""
        return {"float32": "FLOAT", "float64": "DOUBLE"}.get(self.dtype, self.dtype.upper())


@dataclass(frozen=True, slots=True)
class Node:
    """An operator on values by their names."""

    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, object]


Nodes = tuple[Node, ...]


def _value(nodes: Nodes) -> str:
    """The name of what the nodes so far make."""
    return nodes[-1].output if nodes else "x"


def _then(nodes: Nodes, op_type: str, *inputs: str, **attributes: object) -> Nodes:
    return (*nodes, Node(op_type, inputs, f"x{len(nodes) + 1}", attributes))


def _with(nodes: Nodes, op_type: str, *constants: Constant, first: bool = False, **attributes: object) -> Nodes:
    """An operator on the value so far and on constants after it, or before it."""
    value, names = _value(nodes), []
    for constant in constants:
        nodes = _then(nodes, "Constant", value=constant)
        names.append(_value(nodes))
    return _then(nodes, op_type, *([*names, value] if first else [value, *names]), **attributes)


def _number(value: float, dtype: str) -> Constant:
    return Constant(value, dtype, literal(value))


def _listed(values: list[int]) -> Constant:
    return Constant(values, "int64", str(values))


def _pool(step: Pool, nodes: Nodes) -> Nodes:
    """The framework's own operator."""
    plan, auto_pad = step.plan, str(step.plan.attributes["auto_pad"])
    given: dict[str, object] = {"kernel_shape": numbers(plan, "kernel"), "strides": numbers(plan, "strides")}
    pads = numbers(plan, "pads_begin") + numbers(plan, "pads_end")
    if nodes and nodes[-1].op_type == "Pad" and not any(pads) and not is_ceil(plan):
        given["auto_pad"] = "VALID"  # ONNX Runtime 1.25 to 1.31 would move the padding here and refuse a long one
    elif auto_pad == "explicit":
        given["pads"] = pads
    else:
        given["auto_pad"] = WORDS[auto_pad]
    if is_dilated(plan):
        given["dilations"] = numbers(plan, "dilations")
    given["ceil_mode"] = int(is_ceil(plan))
    if plan.reducer.divides:
        given["count_include_pad"] = int(counts_pads(plan))
    if "p" in plan.attributes:
        given["p"] = plan.attributes["p"]
    return _then(nodes, ONNX.operators[plan.op].name, _value(nodes), **given)


def _whole(step: Whole, nodes: Nodes) -> Nodes:
    return _then(nodes, "GlobalMaxPool" if step.plan.reducer.picks else "GlobalAveragePool", _value(nodes))


def _pad(step: Pad, nodes: Nodes) -> Nodes:
    ends = [0, 0, *(begin for begin, _ in step.pads), 0, 0, *(end for _, end in step.pads)]
    return _with(nodes, "Pad", _listed(ends), _number(step.value, step.dtype))


def _power(step: Power, nodes: Nodes) -> Nodes:
    return _with(_then(nodes, "Abs", _value(nodes)), "Pow", _number(step.exponent, step.dtype))


def _matrices(step: Matrices, nodes: Nodes) -> Nodes:
    """One product for each axis: from the left for the last but one, from the right for the last; another axis changes
    places with the last before and after.

    Products of float32 would be off by 3 to 5 ulp for windows of 30 elements and more.
    """
    plan, rank = step.plan, len(step.plan.axes) + 2
    nodes = _then(nodes, "Cast", _value(nodes), to=Element("float64"))
    for number in range(len(plan.axes)):
        position = number + 2
        places = [*range(rank)]
        places[position], places[-1] = places[-1], places[position]
        left = position == rank - 2
        matrix = Constant(partial(_matrix, step, number, left), "float64", step.text(number, rows=left))
        turned = not left and position != rank - 1
        nodes = _then(nodes, "Transpose", _value(nodes), perm=places) if turned else nodes
        nodes = _with(nodes, "MatMul", matrix, first=left)
        nodes = _then(nodes, "Transpose", _value(nodes), perm=places) if turned else nodes
    return _then(nodes, "Cast", _value(nodes), to=Element(plan.dtype))


def _matrix(step: Matrices, number: int, rows: bool) -> list[list[float]]:
    """The matrix of an axis, which may be large: made where a model is saved, not where it is written as text."""
    found = step.rows(number)
    return found if rows else [*map(list, zip(*found, strict=True))]


def _gathered(step: Gathered, nodes: Nodes) -> Nodes:
    every = side_by_side(step.plan)
    for number, (_, chosen) in enumerate(every):
        nodes = _with(nodes, "Gather", _listed(chosen), axis=number + 2)
    longest = [length for length, _ in every]
    return _then(nodes, "MaxPool", _value(nodes), kernel_shape=longest, strides=longest)


def nodes_of(step: Step) -> Nodes:
    """The nodes that make `y` of `x`."""
    *before, last = fold(step, ONNX.writers, ())
    return *before, replace(last, output="y")


def _text(nodes: Nodes) -> str:
    """The calls of `onnx.helper` that make the nodes: one, or a list of them."""
    *before, last = nodes
    calls = [_call(node) for node in (*before, replace(last, output="y"))]
    return calls[0] if len(calls) == 1 else "\n".join(("[", *(f"    {call}," for call in calls), "]"))


def _call(node: Node) -> str:
    given = "".join(f", {name}={_argument(value)}" for name, value in node.attributes.items())
    inputs = ", ".join(f'"{name}"' for name in node.inputs)
    return f'onnx.helper.make_node("{node.op_type}", [{inputs}], ["{node.output}"]{given})'


def _argument(value: object) -> str:
    if isinstance(value, Constant):
        return f'onnx.numpy_helper.from_array(np.array({value.text}, "{value.dtype}"))'
    if isinstance(value, Element):
        return f"onnx.TensorProto.{value.name}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def refuses(call: Call) -> str | None:
    """Refuses fractions for the p of LpPool."""
    p = call.options.get("p", 1)
    return None if isinstance(p, int) else f"the p of LpPool is a whole number, not {p}; use {field('like', 'pytorch')}"


def cannot_write(plan: Plan) -> str | None:
    """ONNX Runtime deviates from the specification of SAME_* with dilation, and if the kernel is below the stride."""
    same = str(plan.attributes.get("auto_pad")).startswith("same")
    gaps = same and any(k < s for k, s in zip(numbers(plan, "kernel"), numbers(plan, "strides"), strict=True))
    if same and (gaps or is_dilated(plan)):
        return "ONNX Runtime reads SAME_* differently from the ONNX specification here"
    return too_many_axes(plan, "ONNX Runtime")


ONNX = Dialect(
    name="onnx",
    title="ONNX",
    operators={
        "avg": Support(name="AveragePool"),
        "max": Support(name="MaxPool"),
        "lp": Support(name="LpPool"),
    },
    writers={
        Pool: _pool,
        Whole: _whole,
        Pad: _pad,
        Scale: lambda step, nodes: _with(nodes, "Mul", _number(step.factor, step.dtype)),
        Negate: lambda _, nodes: _then(nodes, "Neg", _value(nodes)),
        Power: _power,
        Matrices: _matrices,
        Gathered: _gathered,
    },
    default_strides="one",
    default_exclude_pad=True,
    ceil="ceil_torch",
    rounding_types=("floor", "ceil"),
    auto_pads=AUTO_PADS,
    included="clipped",
    index_axis=0,
    pad_limit="below_kernel",
    refuses=refuses,
    cannot_write=cannot_write,
    start=(),
    text=_text,
)
