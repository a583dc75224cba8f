"""Writes steps as layers of OpenVINO, calls with the letters of nGraph's specification, of PyTorch and TensorFlow."""

from __future__ import annotations

from typing import Any

from poolcli.dialects import NGRAPH, OPENVINO, PYTORCH, TENSORFLOW
from poolcli.explain.export import steps as st
from poolcli.plan import Plan


def _layer(plan: Plan) -> str:
    a, support = plan.attributes, OPENVINO.operators[plan.op]
    if "output_size" in a:  # the CPU plugin does not run AdaptiveMaxPool with indices of i64, the default
        word = "i32" if plan.index and plan.index.modulus <= 2**31 else a.get("index_element_type")
        types = f' index_element_type="{word}"' if plan.reducer.picks else ""
        size = st.comma_separated(plan, "output_size")
        return f'<layer type="{support.name}" version="opset8"> <data{types}/> second input: {size}'
    version = _version(plan)
    parts = [(name, st.comma_separated(plan, name)) for name in ("strides", "pads_begin", "pads_end", "kernel")]
    if plan.reducer.divides:
        parts.append(("exclude-pad", str(a["exclude_pad"]).lower()))
    if version in ("opset8", "opset16") or (version == "opset14" and plan.reducer.picks):
        parts.append(("dilations", st.comma_separated(plan, "dilations")))
    parts += [("rounding_type", str(a["rounding_type"])), ("auto_pad", str(a["auto_pad"]))]
    if plan.reducer.picks:
        parts += [("index_element_type", str(a["index_element_type"])), ("axis", str(a["axis"]))]
    data = " ".join(f'{name}="{value}"' for name, value in parts)
    return f"{support.name} {version}: <data {data}/>"


def _openvino_pad(step: st.Pad) -> str:
    begin, end = (",".join(map(str, (0, 0, *ends))) for ends in zip(*step.pads, strict=True))
    further = f"pads_begin: {begin} pads_end: {end} pad_value: {step.value}"
    return f'Pad opset1: <data pad_mode="constant"/> {further}'


def _version(plan: Plan) -> str:
    """The first version of the operator that supports the plan."""
    if plan.reducer.divides and st.is_dilated(plan):
        return "opset16"
    if plan.attributes["rounding_type"] == "ceil_torch":
        return "opset14"
    return "opset1" if plan.reducer.divides else "opset8"


def _ngraph_call(step: st.Pool, _: str) -> str:
    plan = step.plan
    parts = [f"{letter}={st.comma_separated(plan, name)}" for letter, name in
             (("w", "kernel"), ("s", "strides"), ("p", "pads_begin"), ("q", "pads_end"))]  # fmt: skip
    if plan.reducer.divides:
        parts.append(f"i={str(not plan.attributes['exclude_pad']).lower()}")
    parts.append(f"ceil_mode={str(plan.attributes['rounding_type'] == 'ceil').lower()}")
    return f"{NGRAPH.operators[plan.op].name} {' '.join(parts)}"


OPENVINO_WRITER = st.Writer(
    title="OpenVINO",
    writers={
        st.Pool: lambda step, before: (*before, _layer(step.plan)),
        st.Pad: lambda step, before: (*before, _openvino_pad(step)),
        st.Scale: lambda step, before: (*before, f"Multiply opset1: second input: {step.factor!r}"),
        st.Negate: lambda _, before: (*before, "Negative opset1"),
        st.Power: lambda step, before: (*before, "Abs opset1", f"Power opset1: second input: {step.exponent!r}"),
    },
    start=(),
    text="\n".join,
)
NGRAPH_WRITER = st.Writer(title="nGraph", writers={st.Pool: _ngraph_call})


def _arithmetic(library: str) -> dict[Any, Any]:
    """The writers of what Python spells alike in all libraries."""
    return {
        st.Scale: lambda step, x: f"{x} * {step.factor!r}",
        st.Negate: lambda _, x: f"-{x}",
        st.Power: lambda step, x: f"{library}.pow({library}.abs({x}), {step.exponent!r})",
    }


def _torch_pool(step: st.Pool, x: str) -> str:
    plan = step.plan
    name = f"{PYTORCH.operators[plan.op].name}{len(plan.axes)}d"
    if "output_size" in plan.attributes:
        return f"torch.nn.functional.{name}({x}, {st.argument(plan, 'output_size')})"
    power = [str(plan.attributes["p"])] if plan.op == "lp" else []
    parts = [*power, st.argument(plan, "kernel"), f"stride={st.argument(plan, 'strides')}"]
    if PYTORCH.operators[plan.op].pads:
        parts.append(f"padding={st.argument(plan, 'pads_begin')}")
    if st.is_dilated(plan):
        parts.append(f"dilation={st.argument(plan, 'dilations')}")
    parts.append(f"ceil_mode={plan.attributes['rounding_type'] == 'ceil'}")
    if "exclude_pad" in plan.attributes:
        parts.append(f"count_include_pad={not plan.attributes['exclude_pad']}")
        if plan.divisor_override is not None:
            parts.append(f"divisor_override={plan.divisor_override}")
    return f"torch.nn.functional.{name}({x}, {', '.join(parts)})"


def _torch_pad(step: st.Pad, x: str) -> str:
    """`torch.nn.functional.pad` takes the ends of the last axis first."""
    ends = ", ".join(f"{begin}, {end}" for begin, end in reversed(step.pads))
    return f"torch.nn.functional.pad({x}, ({ends}), value={st.literal(step.value)})"


def _torch_product(step: st.MatrixProduct, x: str) -> str:
    product = step.einsum(f"{x}.double()", "yz{}", "torch.tensor({}, dtype=torch.float64, device=x.device)")
    return f"torch.{product}.to(x.dtype)"


PYTORCH_WRITER = st.Writer(
    title="PyTorch",
    ones="torch.ones_like",
    writers={st.Pool: _torch_pool, st.Pad: _torch_pad, st.MatrixProduct: _torch_product, **_arithmetic("torch")},
)


DATA_FORMATS = {1: '"NWC"', 2: '"NHWC"', 3: '"NDHWC"'}


def _tensorflow_pool(step: st.Pool, x: str) -> str:
    plan = step.plan
    rank, name = len(plan.axes), TENSORFLOW.operators[plan.op].name
    if "output_size" in plan.attributes:
        return f'tf.keras.layers.{name}{rank}D({st.numbers(plan, "output_size")}, data_format="channels_last")({x})'
    pads = list(zip(st.numbers(plan, "pads_begin"), st.numbers(plan, "pads_end"), strict=True))
    explicit = '"VALID"' if not any(map(any, pads)) else str([[0, 0], *map(list, pads), [0, 0]])
    padding = {"same_upper": '"SAME"', "valid": '"VALID"'}.get(str(plan.attributes["auto_pad"]), explicit)
    sizes = f"{st.numbers(plan, 'kernel')}, {st.numbers(plan, 'strides')}"
    return f"tf.nn.{name}{rank}d({x}, {sizes}, {padding}, data_format={DATA_FORMATS[rank]})"


def _tensorflow_pad(step: st.Pad, x: str) -> str:
    pads = [[0, 0], *map(list, step.pads), [0, 0]]
    return f"tf.pad({x}, {pads}" + (f", constant_values={st.literal(step.value)})" if step.value else ")")


def _tensorflow_gather(step: st.GatherPool, x: str) -> str:
    gathers = step.indices()
    for number, (_, chosen) in enumerate(gathers):
        x = f"tf.gather({x}, {chosen}, axis={number + 1})"
    longest = [length for length, _ in gathers]
    return (
        f'tf.nn.max_pool{len(gathers)}d({x}, {longest}, {longest}, "VALID", data_format={DATA_FORMATS[len(gathers)]})'
    )


def _tensorflow_product(step: st.MatrixProduct, x: str) -> str:
    product = step.einsum(f"tf.cast({x}, tf.float64)", "y{}z", "tf.constant({}, tf.float64)")
    return f"tf.cast(tf.{product}, x.dtype)"


def _tensorflow_global(step: st.GlobalPool, x: str) -> str:
    name = "reduce_max" if step.plan.reducer.picks else "reduce_mean"
    return f"tf.{name}({x}, {[*range(1, 1 + len(step.plan.axes))]}, keepdims=True)"


def _tensorflow_refuses(plan: Plan) -> str | None:
    """With three axes, SAME places windows differently if the kernel is shorter than the stride."""
    if plan.attributes.get("auto_pad") == "same_upper" and len(plan.axes) == 3 and st.has_gaps(plan):
        return "TensorFlow moves the windows of SAME over three axes where the kernel is shorter than the stride"
    return None


TENSORFLOW_WRITER = st.Writer(
    title="TensorFlow",
    ones="tf.ones_like",
    writers={
        st.Pool: _tensorflow_pool,
        st.GlobalPool: _tensorflow_global,
        st.Pad: _tensorflow_pad,
        st.GatherPool: _tensorflow_gather,
        st.MatrixProduct: _tensorflow_product,
        **_arithmetic("tf"),
    },
    refuses=_tensorflow_refuses,
)
