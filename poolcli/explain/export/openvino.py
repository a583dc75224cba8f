"""Writes expressions as layers of OpenVINO, and poolings with the letters of nGraph's specification."""

from __future__ import annotations

from poolcli.dialects.openvino import NGRAPH, OPENVINO
from poolcli.explain.export import steps as st
from poolcli.explain.export.steps import comma_separated, counts_pads, is_ceil, is_dilated, too_many_axes
from poolcli.plan import Plan


def _layer(plan: Plan) -> str:
    a, support = plan.attributes, OPENVINO.operators[plan.op]
    if "output_size" in a:
        types = f' index_element_type="{_index_type(plan)}"' if plan.reducer.picks else ""
        size = comma_separated(plan, "output_size")
        return f'<layer type="{support.name}" version="opset8"> <data{types}/> second input: {size}'
    version = _version(plan)
    parts = [(name, comma_separated(plan, name)) for name in ("strides", "pads_begin", "pads_end", "kernel")]
    if plan.reducer.divides:
        parts.append(("exclude-pad", str(a["exclude_pad"]).lower()))
    if version in ("opset8", "opset16") or (version == "opset14" and plan.reducer.picks):
        parts.append(("dilations", comma_separated(plan, "dilations")))
    parts += [("rounding_type", str(a["rounding_type"])), ("auto_pad", str(a["auto_pad"]))]
    if plan.reducer.picks:
        parts += [("index_element_type", str(a["index_element_type"])), ("axis", str(a["axis"]))]
    data = " ".join(f'{name}="{value}"' for name, value in parts)
    return f"{support.name} {version}: <data {data}/>"


def _pad(step: st.Pad) -> str:
    """The layer with its further inputs; axes N and C are not padded."""
    begin, end = (",".join(map(str, (0, 0, *ends))) for ends in zip(*step.pads, strict=True))
    further = f"pads_begin: {begin} pads_end: {end} pad_value: {step.value}"
    return f'Pad opset1: <data pad_mode="constant"/> {further}'


def _index_type(plan: Plan) -> object:
    """i32 if it can hold the indices: the CPU plugin does not run AdaptiveMaxPool with i64, the default."""
    fits = plan.index is not None and plan.index.modulus <= 2**31
    return "i32" if fits else plan.attributes["index_element_type"]


def _version(plan: Plan) -> str:
    """The first version of the operator that supports the plan."""
    if plan.reducer.divides and is_dilated(plan):
        return "opset16"
    if plan.attributes["rounding_type"] == "ceil_torch":
        return "opset14"
    return "opset1" if plan.reducer.divides else "opset8"


def _ngraph_call(step: st.Pool, _: str) -> str:
    """The call, with the letters of nGraph's specification."""
    plan = step.plan
    parts = [f"{letter}={comma_separated(plan, name)}" for letter, name in
             (("w", "kernel"), ("s", "strides"), ("p", "pads_begin"), ("q", "pads_end"))]  # fmt: skip
    if plan.reducer.divides:
        parts.append(f"i={str(counts_pads(plan)).lower()}")
    parts.append(f"ceil_mode={str(is_ceil(plan)).lower()}")
    return f"{NGRAPH.operators[plan.op].name} {' '.join(parts)}"


OPENVINO_WRITER = st.Writer(
    writers={
        st.Pool: lambda step, before: (*before, _layer(step.plan)),
        st.Pad: lambda step, before: (*before, _pad(step)),
        st.Scale: lambda step, before: (*before, f"Multiply opset1: second input: {step.factor!r}"),
        st.Negate: lambda _, before: (*before, "Negative opset1"),
        st.Power: lambda step, before: (*before, "Abs opset1", f"Power opset1: second input: {step.exponent!r}"),
    },
    start=(),
    text="\n".join,
    cannot_write=lambda plan: too_many_axes(plan, "OpenVINO"),
)
NGRAPH_WRITER = st.Writer(writers={st.Pool: _ngraph_call}, cannot_write=lambda plan: too_many_axes(plan, "nGraph"))
