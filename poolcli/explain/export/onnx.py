"""Writes expressions as ONNX nodes, and these as calls of `onnx.helper`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from poolcli.dialects import ONNX, ONNX_AUTO_PADS
from poolcli.explain.export import steps as st
from poolcli.plan import Plan


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant tensor: a number, rows of numbers or a function that returns them, and the same as numpy code."""

    values: Any
    dtype: str
    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an ONNX graph; inputs and output are names of values, the attribute `to` is a type of poolcli."""

    op_type: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, object]


Nodes = tuple[Node, ...]


def _append(nodes: Nodes, op_type: str, *constants: Constant, first: bool = False, **attributes: object) -> Nodes:
    """An operator on the value so far and on constants after it, or before it."""
    value, names = nodes[-1].output if nodes else "x", list[str]()
    for constant in constants:
        names.append(f"x{len(nodes) + 1}")
        nodes = (*nodes, Node("Constant", (), names[-1], {"value": constant}))
    inputs = (*names, value) if first else (value, *names)
    return (*nodes, Node(op_type, inputs, f"x{len(nodes) + 1}", attributes))


def _scalar(value: float, dtype: str) -> Constant:
    return Constant(value, dtype, st.literal(value))


def _int64s(values: list[int]) -> Constant:
    return Constant(values, "int64", str(values))


def _pool(step: st.Pool, nodes: Nodes) -> Nodes:
    plan, auto_pad = step.plan, str(step.plan.attributes["auto_pad"])
    is_ceil = plan.attributes["rounding_type"] == "ceil"
    given: dict[str, Any] = {"kernel_shape": st.numbers(plan, "kernel"), "strides": st.numbers(plan, "strides")}
    pads = st.numbers(plan, "pads_begin") + st.numbers(plan, "pads_end")
    if nodes and nodes[-1].op_type == "Pad" and not any(pads) and not is_ceil:
        given["auto_pad"] = "VALID"  # ONNX Runtime 1.25 to 1.31 would move the padding here and refuse a long one
    elif auto_pad == "explicit":
        given["pads"] = pads
    else:
        given["auto_pad"] = ONNX_AUTO_PADS[auto_pad]
    if st.is_dilated(plan):
        given["dilations"] = st.numbers(plan, "dilations")
    given["ceil_mode"] = int(is_ceil)
    if plan.reducer.divides:
        given["count_include_pad"] = int(not plan.attributes["exclude_pad"])
    if "p" in plan.attributes:
        given["p"] = plan.attributes["p"]
    return _append(nodes, ONNX.operators[plan.op].name, **given)


def _pad(step: st.Pad, nodes: Nodes) -> Nodes:
    ends = [0, 0, *(begin for begin, _ in step.pads), 0, 0, *(end for _, end in step.pads)]
    return _append(nodes, "Pad", _int64s(ends), _scalar(step.value, step.dtype))


def _matrix_product(step: st.MatrixProduct, nodes: Nodes) -> Nodes:
    """One MatMul for each axis, in float64 (float32 is off by 3 to 5 ulp): all but the last two axes are transposed."""
    plan, rank = step.plan, len(step.plan.axes) + 2
    nodes = _append(nodes, "Cast", to="float64")
    for number in range(len(plan.axes)):
        position = number + 2
        places = [*range(rank)]
        places[position], places[-1] = places[-1], places[position]
        left = position == rank - 2
        matrix = Constant(partial(_matrix, step, number, left), "float64", step.text(number, rows=left))
        transposed = not left and position != rank - 1
        nodes = _append(nodes, "Transpose", perm=places) if transposed else nodes
        nodes = _append(nodes, "MatMul", matrix, first=left)
        nodes = _append(nodes, "Transpose", perm=places) if transposed else nodes
    return _append(nodes, "Cast", to=plan.dtype)


def _matrix(step: st.MatrixProduct, number: int, rows: bool) -> list[list[float]]:
    """The matrix of an axis. It may be large, so it is built when a model is saved, not when text is written."""
    found = step.rows(number)
    return found if rows else [*map(list, zip(*found, strict=True))]


def _gather_pool(step: st.GatherPool, nodes: Nodes) -> Nodes:
    gathers = step.indices()
    for number, (_, chosen) in enumerate(gathers):
        nodes = _append(nodes, "Gather", _int64s(chosen), axis=number + 2)
    longest = [length for length, _ in gathers]
    return _append(nodes, "MaxPool", kernel_shape=longest, strides=longest)


def nodes_of(steps: st.Steps) -> Nodes:
    """The nodes that compute `y` from `x`."""
    return _named(ONNX_WRITER.after((), steps))


def _named(nodes: Nodes) -> Nodes:
    return (*nodes[:-1], replace(nodes[-1], output="y"))


def _text(nodes: Nodes) -> str:
    """The nodes as calls of `onnx.helper`: one, or a list of them."""
    calls = list(map(_call, _named(nodes)))
    return calls[0] if len(calls) == 1 else "\n".join(("[", *(f"    {call}," for call in calls), "]"))


def _call(node: Node) -> str:
    given = "".join(f", {name}={_argument(name, value)}" for name, value in node.attributes.items())
    inputs = ", ".join(f'"{name}"' for name in node.inputs)
    return f'onnx.helper.make_node("{node.op_type}", [{inputs}], ["{node.output}"]{given})'


def element_type(dtype: str) -> str:
    """The name of a type of poolcli in `onnx.TensorProto`."""
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())


def _argument(name: str, value: object) -> str:
    if isinstance(value, Constant):
        return f'onnx.numpy_helper.from_array(np.array({value.text}, "{value.dtype}"))'
    if name == "to":
        return f"onnx.TensorProto.{element_type(str(value))}"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _refuses(plan: Plan) -> str | None:
    """ONNX Runtime deviates from the specification of SAME_* with dilation, and if the kernel is below the stride."""
    if str(plan.attributes.get("auto_pad")).startswith("same") and (st.has_gaps(plan) or st.is_dilated(plan)):
        return "ONNX Runtime reads SAME_* differently from the ONNX specification here, or refuses it"
    return None


ONNX_WRITER = st.Writer(
    title="ONNX Runtime",
    writers={
        st.Pool: _pool,
        st.GlobalPool: lambda step, nodes: _append(
            nodes, f"Global{'Max' if step.plan.reducer.picks else 'Average'}Pool"
        ),
        st.Pad: _pad,
        st.Scale: lambda step, nodes: _append(nodes, "Mul", _scalar(step.factor, step.dtype)),
        st.Negate: lambda _, nodes: _append(nodes, "Neg"),
        st.Power: lambda step, nodes: _append(_append(nodes, "Abs"), "Pow", _scalar(step.exponent, step.dtype)),
        st.MatrixProduct: _matrix_product,
        st.GatherPool: _gather_pool,
    },
    start=(),
    text=_text,
    refuses=_refuses,
)
