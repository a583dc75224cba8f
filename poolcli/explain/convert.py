"""The same windows and divisors under another framework's names, or why it has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from poolcli.core.errors import RequestError
from poolcli.core.fields import on_command_line
from poolcli.core.windows import AxisWindows, Bins, Sliding
from poolcli.dialects import Dialect, dialect_of
from poolcli.explain.compare import same_divisors
from poolcli.plan import Plan, make_plan
from poolcli.plan.attributes import OPERATORS, Attributes, AvgAttributes, MaxAttributes


@dataclass(frozen=True, slots=True)
class Conversion:
    """The attributes in the other framework and how they are written there, or the reason why there are none."""

    like: str
    op: Attributes | None
    text: str | None
    reason: str | None


def convert(plan: Plan, like: str) -> Conversion:
    """`plan` under the rules of `like`: verified by planning what is returned."""
    dialect = dialect_of(like)
    uneven = next((w for w in plan.windows if isinstance(w, Bins) and w.equal_to is None), None)
    if uneven and not dialect.adaptive:
        why = f"bins of {uneven.size} into {uneven.output} differ in length, {dialect.title} has fixed windows only"
        return Conversion(like, None, None, why)
    if plan.divisor_override is not None and like != "pytorch":
        return Conversion(like, None, None, f"{dialect.title} has no divisor_override")
    reason: str | None = None
    for op in _candidates(plan, dialect):
        try:
            other = make_plan(op, plan.input_shape, plan.dtype, layout=plan.layout)
        except RequestError as error:
            reason = reason or on_command_line(error.message)
            continue
        if _same(plan, other):
            return Conversion(like, op, WRITERS[like](other), None)
        reason = reason or f"{dialect.title} has no attributes that give these windows and divisors"
    return Conversion(like, None, None, reason or f"{dialect.title} has no such operator")


def _candidates(plan: Plan, dialect: Dialect) -> Iterator[Attributes]:
    """Attributes that may give the same, plainest first."""
    bins = [w for w in plan.windows if isinstance(w, Bins)]
    if bins and dialect.adaptive:
        record = OPERATORS[plan.op]
        yield record(tuple(w.output for w in bins), like=dialect.name)
        return
    sliding = [w for w in map(_sliding, plan.windows) if w is not None]
    kernel, strides = tuple(w.kernel for w in sliding), tuple(w.stride for w in sliding)
    dilations, begin = tuple(w.dilation for w in sliding), tuple(w.pad_begin for w in sliding)
    ends = [
        tuple(w.pad_end for w in sliding),
        begin,
        tuple(max(0, (w.output - 1) * w.stride + w.extent - w.size - w.pad_begin) for w in sliding),
    ]
    excludes: tuple[bool | None, ...] = (None,)
    if plan.reducer.divides:
        excludes = (True, False) if plan.attributes.get("exclude_pad", True) else (False, True)
    words = [word for word in ("explicit", "valid", "same_upper", "same_lower") if word in dialect.auto_pads]
    if dialect.name == "onnx" and any(w.dilation > 1 or w.kernel < w.stride for w in sliding):
        words = ["explicit", "valid"]  # ONNX Runtime reads SAME_* otherwise than its text there (docs/differences.md)
    for word, end, rounding, exclude in product(words, dict.fromkeys(ends), dialect.rounding_types, excludes):
        shared: dict[str, Any] = {
            "kernel": kernel, "strides": strides, "dilations": dilations, "rounding_type": rounding,
            "auto_pad": word, "like": dialect.name,
            "pads_begin": begin if word == "explicit" else 0, "pads_end": end if word == "explicit" else 0,
        }  # fmt: skip
        if plan.reducer.picks:
            yield MaxAttributes(**shared)
        elif not (exclude is False and not dialect.include_pad):
            override = plan.divisor_override
            yield AvgAttributes(**shared, exclude_pad=exclude, divisor_override=override)


def _sliding(w: AxisWindows) -> Sliding | None:
    """The axis as sliding windows without padding, where it is one."""
    if isinstance(w, Sliding):
        return w
    if w.equal_to is None:
        return None
    kernel, stride = w.equal_to
    return Sliding(w.size, w.output, kernel, stride, 1, 0, 0)


def _same(a: Plan, b: Plan) -> bool:
    """Whether two plans read the same elements and divide by the same numbers."""
    if a.output_shape != b.output_shape or a.divisor_override != b.divisor_override:
        return False
    for v, w in zip(a.windows, b.windows, strict=True):
        one, two = _sliding(v), _sliding(w)
        if one is None or two is None:
            if v != w:
                return False
            continue
        if replace(one, pad_end=0, counted="inside") != replace(two, pad_end=0, counted="inside"):
            return False
        if a.reducer.divides and a.divisor_override is None and not same_divisors(one, two):
            return False
    return True


def _numbers(values: object) -> list[int]:
    """A list of numbers out of the attributes of a plan."""
    return cast("list[int]", values)


def _joined(values: object) -> str:
    return ",".join(map(str, _numbers(values)))


def _call(values: object) -> str:
    numbers = _numbers(values)
    return str(numbers[0]) if len(set(numbers)) == 1 else str(tuple(numbers))


def _openvino(plan: Plan) -> str:
    a = plan.attributes
    if "output_size" in a:
        version = "opset8"
        types = f' index_element_type="{a["index_element_type"]}"' if plan.reducer.picks else ""
        name = "AdaptiveAvgPool" if plan.reducer.divides else "AdaptiveMaxPool"
        return f'<layer type="{name}" version="{version}"> <data{types}/> second input: {_joined(a["output_size"])}'
    average = plan.reducer.divides
    version = "opset14" if a["rounding_type"] == "ceil_torch" else "opset1" if average else "opset8"
    if average and max(_numbers(a["dilations"])) > 1:
        version = "opset16"
    parts = [
        ("strides", _joined(a["strides"])),
        ("pads_begin", _joined(a["pads_begin"])),
        ("pads_end", _joined(a["pads_end"])),
        ("kernel", _joined(a["kernel"])),
    ]
    if average:
        parts.append(("exclude-pad", str(a["exclude_pad"]).lower()))
    if version in ("opset8", "opset16") or (version == "opset14" and not average):
        parts.append(("dilations", _joined(a["dilations"])))
    parts += [("rounding_type", str(a["rounding_type"])), ("auto_pad", str(a["auto_pad"]))]
    if not average:
        parts += [("index_element_type", str(a["index_element_type"])), ("axis", str(a["axis"]))]
    data = " ".join(f'{name}="{value}"' for name, value in parts)
    return f"{'AvgPool' if average else 'MaxPool'} {version}: <data {data}/>"


def _onnx(plan: Plan) -> str:
    a = plan.attributes
    words = {"explicit": "NOTSET", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}
    parts = [f"kernel_shape={_numbers(a['kernel'])}", f"strides={_numbers(a['strides'])}"]
    if a["auto_pad"] == "explicit":
        parts.append(f"pads={_numbers(a['pads_begin']) + _numbers(a['pads_end'])}")
    else:
        parts.append(f'auto_pad="{words[str(a["auto_pad"])]}"')
    if max(_numbers(a["dilations"])) > 1:
        parts.append(f"dilations={_numbers(a['dilations'])}")
    parts.append(f"ceil_mode={int(a['rounding_type'] == 'ceil')}")
    if plan.reducer.divides:
        parts.append(f"count_include_pad={int(a['exclude_pad'] is False)}")
    name = "AveragePool" if plan.reducer.divides else "MaxPool"
    return f'onnx.helper.make_node("{name}", ["x"], ["y"], {", ".join(parts)})'


def _pytorch(plan: Plan) -> str:
    a, rank = plan.attributes, len(plan.axes)
    name = f"{plan.op.replace('-', '_')}_pool{rank}d"
    if "output_size" in a:
        return f"torch.nn.functional.{name}(x, {_call(a['output_size'])})"
    parts = [_call(a["kernel"]), f"stride={_call(a['strides'])}", f"padding={_call(a['pads_begin'])}"]
    if plan.reducer.picks and max(_numbers(a["dilations"])) > 1:
        parts.append(f"dilation={_call(a['dilations'])}")
    parts.append(f"ceil_mode={a['rounding_type'] == 'ceil'}")
    if plan.reducer.divides:
        parts.append(f"count_include_pad={a['exclude_pad'] is False}")
        if plan.divisor_override is not None:
            parts.append(f"divisor_override={plan.divisor_override}")
    return f"torch.nn.functional.{name}(x, {', '.join(parts)})"


def _tensorflow(plan: Plan) -> str:
    a, rank = plan.attributes, len(plan.axes)
    names = {"same_upper": '"SAME"', "valid": '"VALID"'}
    pads = list(zip(_numbers(a["pads_begin"]), _numbers(a["pads_end"]), strict=True))
    explicit = '"VALID"' if not any(map(any, pads)) else str([[0, 0], *map(list, pads), [0, 0]])
    padding = names.get(str(a["auto_pad"]), explicit)
    function = f"{'avg' if plan.reducer.divides else 'max'}_pool{rank}d"
    order = {1: '"NWC"', 2: '"NHWC"', 3: '"NDHWC"'}[rank]
    return f"tf.nn.{function}(x, {_numbers(a['kernel'])}, {_numbers(a['strides'])}, {padding}, data_format={order})"


def _ngraph(plan: Plan) -> str:
    a = plan.attributes
    parts = [f"w={_joined(a['kernel'])}", f"s={_joined(a['strides'])}"]
    parts += [f"p={_joined(a['pads_begin'])}", f"q={_joined(a['pads_end'])}"]
    if plan.reducer.divides:
        parts.append(f"i={str(a['exclude_pad'] is False).lower()}")
    parts.append(f"ceil_mode={str(a['rounding_type'] == 'ceil').lower()}")
    return f"{'AvgPool' if plan.reducer.divides else 'MaxPool'} {' '.join(parts)}"


WRITERS: dict[str, Callable[[Plan], str]] = {
    "openvino": _openvino,
    "onnx": _onnx,
    "pytorch": _pytorch,
    "tensorflow": _tensorflow,
    "ngraph": _ngraph,
}
