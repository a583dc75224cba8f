"""Declared against computed shapes, and how another framework would read the same layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from poolcli.core.errors import RequestError
from poolcli.core.fields import on_command_line
from poolcli.dialects import DIALECTS
from poolcli.explain.compare import compare
from poolcli.models.layer import Dim, Layer
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import Attributes, PickingAttributes
from poolcli.plan.facts import PadsIgnored, WindowsEmpty

Verdict = Literal["agrees", "differs", "refused", "unknown"]
STAND_IN = 1 << 20  # the length given to a dynamic axis, so that the others can be planned


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found out about a layer; `computed` has the names of dynamic dimensions where they stay what they are.

    `differs`: a declared number is not the computed one. `unknown`: the file states too little to tell.
    """

    layer: Layer
    computed: tuple[Dim, ...] | None
    verdict: Verdict
    reason: str | None
    warnings: tuple[str, ...]


def read_model(path: str) -> list[Layer]:
    """The pooling layers of an .xml or .onnx, told apart by what the file holds."""
    if not Path(path).is_file():
        raise RequestError(f"{path}: no such file" if not Path(path).exists() else f"{path}: no file")
    with open(path, "rb") as stream:
        head = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"<"):
        from poolcli.models.ir import read_ir

        return read_ir(path)
    from poolcli.models.onnx_graph import read_onnx

    return read_onnx(path)


def check(layer: Layer, against: str | None = None) -> Finding:
    """Plans the layer on its stated input shape and compares."""
    warnings = list(layer.warnings)
    if layer.op is None:
        return Finding(layer, None, "unknown", layer.problem, tuple(warnings))
    if layer.input_shape is None:
        return Finding(layer, None, "unknown", "the file does not state its input shape", tuple(warnings))
    try:
        plan = _plan(layer.op, layer.input_shape)
    except RequestError as error:
        return Finding(layer, None, "refused", on_command_line(error.message), tuple(warnings))
    warnings += [str(fact) for fact in plan.facts if isinstance(fact, PadsIgnored | WindowsEmpty)]
    computed = _computed(plan, layer.input_shape)
    if against:
        warnings += _read_by(layer.op, plan, against)
    declared = layer.declared_shape
    if declared is None:
        return Finding(layer, computed, "unknown", "the file does not state its output shape", tuple(warnings))
    if len(declared) != len(computed):
        return Finding(layer, computed, "differs", "the ranks differ", tuple(warnings))
    wrong = [
        axis for axis, stated, right in zip(plan.layout, declared, computed, strict=True)
        if isinstance(stated, int) and isinstance(right, int) and stated != right
    ]  # fmt: skip
    if wrong:
        return Finding(layer, computed, "differs", f"on axis {', '.join(wrong)}", tuple(warnings))
    return Finding(layer, computed, "agrees", None, tuple(warnings))


def plan_of(layer: Layer, shape: tuple[int, ...], dtype: str) -> Plan:
    """The plan of the layer on data of this shape; a RequestError where the file does not say enough."""
    if layer.op is None:
        raise RequestError(f"layer {layer.name}: {layer.problem}")
    return make_plan(layer.op, shape, dtype)


def _plan(op: Attributes, shape: tuple[Dim, ...]) -> Plan:
    return make_plan(op, [size if isinstance(size, int) else STAND_IN for size in shape])


def _computed(plan: Plan, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The planned shape, with `?` where it follows from a dynamic length and that name where nothing is pooled."""
    pooled = {axis.position: axis for axis in plan.axes}
    found: list[Dim] = []
    for position, size in enumerate(shape):
        axis = pooled.get(position)
        if isinstance(size, int) or (axis is not None and plan.op.startswith("adaptive")):
            found.append(plan.output_shape[position])
        else:
            found.append(size if axis is None else "?")
    return tuple(found)


def _read_by(op: Attributes, plan: Plan, like: str) -> list[str]:
    """How `like` reads the same attributes: each difference in a sentence."""
    title = DIALECTS[like].title
    rows = [row for row in compare(_neutral(op), plan) if row.like == like]
    same_word = [row for row in rows if row.rounding == getattr(op, "rounding_type", None)]
    return [
        f"{title}: {text}" for row in (same_word or rows)[:1] for text in (row.causes or ()) or _refusals(row.refusal)
    ]


def _refusals(refusal: str | None) -> tuple[str, ...]:
    return (f"refuses it: {refusal}",) if refusal else ()


def _neutral(op: Attributes) -> Attributes:
    return replace(op, axis=None) if isinstance(op, PickingAttributes) else op
