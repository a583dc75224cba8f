"""From an operator, a shape and a type to a plan: everything that is known before data is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf, prod
from typing import Any

from poolcli.arguments import INDEX_TYPES, MinCount, Missing, min_count_from, missing_from
from poolcli.dialects import Dialect, IndexBase, dialect_of
from poolcli.dtypes import DType, becomes_infinite, can_hold, lookup
from poolcli.errors import RequestError
from poolcli.layouts import batch_axes, check_shape, named_shape, read_axes, size_of
from poolcli.message_fields import field
from poolcli.plan.attributes import Attributes, DividingAttributes, PickingAttributes, Reducer, values_of
from poolcli.plan.plan import AxisPlan, Fact, IndexPlan, Plan
from poolcli.plan.resolve import resolve
from poolcli.windows import Cells, Sliding

__all__ = ["AxisPlan", "Fact", "IndexPlan", "Plan", "make_plan", "plan_or_none"]


def make_plan(
    op: Attributes,
    shape: Sequence[int],
    dtype: object = "float32",
    *,
    layout: str | None = None,  # of the axes, as the caller gives it
    named: str | None = None,  # as the file does (see `read_axes`)
    output_dtype: object = None,
    missing: object = None,  # elements equal to these are excluded
    min_count: object = None,
    nodata: float | None = None,  # the result of windows without valid elements, or with fewer than `min_count`
) -> Plan:
    """Plan `op` on an array of `shape` and `dtype`. Every refusal is a RequestError."""
    shape = check_shape(shape)
    dialect = dialect_of(op.like)
    reading = read_axes(shape, values_of(op), layout=layout, named=named, last=dialect.channels_last)
    layout = reading.layout
    if min(shape) < 0:
        raise RequestError(
            f"the shape {named_shape(layout, shape)} has a negative dimension; "
            "for a dynamic axis use any positive number"
        )
    resolved = resolve(op, dialect, reading, shape)
    axes = resolved.axes
    output_shape = list(shape)
    for axis in axes:
        output_shape[axis.position] = axis.windows.output
    reducer = op.reduction(dialect)
    source = lookup(dtype)
    longest = prod(axis.windows.longest for axis in axes)
    target = _default_dtype(reducer, source) if output_dtype is None else lookup(output_dtype)
    _check_dtypes(reducer, source, target, longest)
    excluded = _check_missing(missing_from(missing), source)
    if excluded and nodata is not None:
        _check_nodata_type(nodata, source, target)
    least = min_count_from(min_count)
    if isinstance(least, int):
        _check_min_count(least, axes)
    least = least if excluded else None
    filled = prod(axis.windows.output - axis.windows.empty_windows for axis in axes)
    empty = prod(axis.windows.output for axis in axes) - filled
    override = op.divisor_override if isinstance(op, DividingAttributes) else None
    if override is not None:
        _check_override_range(axes, source, target, override)
    index_attributes, index = _indices(op, dialect, axes, layout, shape, unset=bool(empty or excluded))
    made: type[Plan] = op.plan_type
    return made(
        op=op.name,
        reducer=reducer,
        like=dialect.name,
        attributes=resolved.attributes | index_attributes,
        layout=layout,
        input_shape=shape,
        output_shape=tuple(output_shape),
        dtype=source.name,
        output_dtype=target.name,
        axes=axes,
        divisor_rule=resolved.divisor_rule,
        divisor_override=override,
        index=index,
        empty_windows=empty,
        given=op,
        reading=reading,
        facts=(
            *resolved.facts,
            *_unused_facts(reducer, axes, longest),
            *_empty_window_facts(reducer, axes, empty, override, source, target),
            *_missing_facts(excluded, least, target, nodata),
        ),
        missing=excluded,
        min_count=least,
        nodata=nodata if excluded else None,
    )


def plan_or_none(op: Attributes, shape: Sequence[int], dtype: object, **words: Any) -> Plan | None:
    """The plan, or None if it is refused."""
    try:
        return make_plan(op, shape, dtype, **words)
    except RequestError:
        return None


def _default_dtype(reducer: Reducer, source: DType) -> DType:
    if reducer.result == "total" and source.kind != "float":
        return lookup("uint64" if source.kind == "uint" else "int64")
    if reducer.result == "deviation":
        return lookup("float32" if source.bits <= 16 or source.name == "float32" else "float64")
    return source


def _check_dtypes(reducer: Reducer, source: DType, target: DType, longest: int) -> None:
    """Refuse a type that cannot hold results of `longest` elements; whether a sum fits 64 bits, engines check."""
    made = f"{'an' if reducer.noun[0] in 'aeioL' else 'a'} {reducer.noun}"
    if reducer.result in ("number", "total") and target.kind == "bool":
        raise RequestError(
            f"{made} of bool needs a number type: add {field('dtype', 'float32')} (or an integer type, rounded)"
        )
    if reducer.result in ("float", "deviation") and target.kind != "float":
        raise RequestError(f"{made} of {source.name} needs a float type: add {field('dtype', 'float32')} or float64")
    if reducer.votes and source.kind == "float":
        raise RequestError(f"{made} needs integers or bool, not {source.name}; convert it, or use max or avg")
    adds = reducer.result == "total"
    if target.kind == "float" or (target == source and not adds):
        return
    (low, high), (least, most) = source.limits, target.limits
    if adds and target.bits < 64:
        low, high = low * longest, high * longest
    if source.kind == "float" or low < least or high > most:
        raise RequestError(
            f"{field('dtype', target.name)} cannot hold every result of {source.name} input; "
            "use a float type or a wider integer type"
        )


def _check_nodata_type(nodata: float, source: DType, target: DType) -> None:
    """Refuse a float type in which the nodata value of the file is infinite."""
    if target.kind == "float" and becomes_infinite(target, nodata):
        wide = source.name if source.kind == "float" else "float64"
        raise RequestError(
            f"{field('dtype', target.name)} cannot hold the nodata value of the file, {_number_text(nodata)}; use "
            f"{field('dtype', wide)}, or write .npy, in which windows of missing values become nan"
        )


def _check_override_range(axes: Sequence[AxisPlan], source: DType, target: DType, override: int) -> None:
    """Refuse a divisor_override with which results can exceed an integer output type."""
    if not target.is_integer:
        return
    largest = prod(min(axis.windows.size, getattr(axis.windows, "kernel", 1)) for axis in axes)
    ends = [value * count / override for value in source.limits for count in (0, largest)]
    if min(ends) < target.limits[0] or max(ends) > target.limits[1]:
        low, high = round(min(ends)), round(max(ends))  # never -0
        raise RequestError(
            f"{field('divisor_override', override)} can give results from {low} to {high}, outside "
            f"{target.name}; use {field('dtype', 'float64')} or a wider integer type"
        )


def _unused_facts(reducer: Reducer, axes: Sequence[AxisPlan], longest: int) -> Iterator[Fact]:
    for axis in axes:
        if axis.windows.unused:
            unused, verb = axis.windows.unused, "is" if axis.windows.unused == 1 else "are"
            yield Fact("unread", f"axis {axis.name}: {unused} of {axis.windows.size} input elements {verb} unused")
        if axis.windows.overhang > 0 and not (reducer.picks or reducer.divides):
            held = axis.windows.inside(axis.windows.output - 1)
            yield Fact("overhang", f"axis {axis.name}: the last window holds {held} of {axis.windows.longest} elements")
    if reducer.ddof >= longest:
        elements = "the 1 element" if longest == 1 else f"the {longest} elements"
        sentence = f"{field('ddof')} is {reducer.ddof:g}, no less than {elements} of a window: every result is nan"
        yield Fact("ddof", sentence)


def _empty_window_facts(
    reducer: Reducer, axes: Sequence[AxisPlan], empty: int, override: int | None, source: DType, target: DType
) -> Iterator[Fact]:
    """The result of windows without input; refused if the output type has no value for it."""
    if not empty:
        return
    counts_pads = any(isinstance(axis.windows, Sliding) and axis.windows.counted != "inside" for axis in axes)
    none = f"{'1 window holds' if empty == 1 else f'{empty} windows hold'} no input element"
    if reducer.votes:
        raise RequestError(
            f"{none}, and the {reducer.noun} of an empty window is undefined; "
            f"use {field('rounding_type', 'floor')} or ceil_torch, or smaller pads"
        )
    if reducer.picks:
        value = ("-inf", "inf")[reducer.nothing] if source.kind == "float" else str(source.limits[reducer.nothing])
    elif reducer.adds and (not reducer.divides or override is not None or counts_pads):
        value = "0"
    elif target.kind == "float":
        value = "nan"
    else:
        counted = f"{field('exclude_pad', False)} with pads" if reducer.divides else "smaller pads"
        raise RequestError(
            f"{none}, and {target.name} has no value for the {reducer.noun} of an empty window; "
            f"use {field('rounding_type', 'floor')} or ceil_torch, {counted}, or {field('dtype', 'float32')}"
        )
    yield Fact("empty_windows", f"{none}: the {reducer.noun} is {value}")


def _missing_facts(missing: Missing, least: MinCount | None, target: DType, nodata: float | None) -> Iterator[Fact]:
    """The result of windows without enough valid elements."""
    if not missing:
        return
    numbers = " and ".join(map(_number_text, missing))
    if nodata is None and target.kind != "float":
        nodata = missing[0]
    left = "nan" if nodata is None else _number_text(nodata) + (" again" if nodata in missing else "")
    few = "without valid elements" if least is None else f"with fewer than {least} valid elements"
    yield Fact("missing", f"elements equal to {numbers} are missing and excluded; windows {few} give {left}")


def _number_text(number: float) -> str:
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def _indices(
    op: Attributes, dialect: Dialect, axes: Sequence[AxisPlan], layout: str, shape: Sequence[int], unset: bool
) -> tuple[dict[str, object], IndexPlan | None]:
    """The attributes of indices with defaults filled in, and what indices count."""
    word = getattr(op, "index_element_type", None)
    if word is None:
        return {}, None
    letters = ("N", "C", *(axis.name for axis in axes))
    sizes = [prod(shape[i] for i in batch_axes(layout)), *(size_of(letter, layout, shape) for letter in letters[1:])]
    used: dict[str, object] = {"index_element_type": word}
    base: IndexBase = "axis"
    axis = 2
    if isinstance(op, PickingAttributes):
        base, axis = dialect.index_base, _index_axis(op, dialect, len(sizes))
        used = {"axis": axis if base == "axis" else None} | used
    modulus = prod(sizes[1:]) if base == "channels_last" else prod(sizes[axis:])
    if word == "i32" and modulus > 2**31:
        raise RequestError(f"{field('index_element_type', 'i32')} cannot hold indices up to {modulus - 1}; use i64")
    if base == "channels_last":
        rule = "spatial position * C + c, inside one image (channels last)"
    else:
        groups = ("".join(layout[i] for i in batch_axes(layout)), "C" if "C" in layout else "", *letters[2:])
        counted = "".join(groups[axis:])
        stored = "".join(letter for letter in layout if letter in counted)
        rule = f"flat position over {','.join(counted)}"
        rule += "" if stored == counted else f", not {','.join(stored)} as stored"
    rule += "; -1 of windows without a valid element" if unset else ""
    return used, IndexPlan(INDEX_TYPES[word], base, modulus, rule)


def _index_axis(op: PickingAttributes, dialect: Dialect, rank: int) -> int:
    """The axis from which max indices count, from 0; refuses one outside [-rank, rank)."""
    if op.axis is None:
        return dialect.index_axis
    if not dialect.axis_option:
        raise RequestError(
            f"{field('axis')} is an attribute of OpenVINO; {dialect.title} fixes the axes that indices count over"
        )
    if not -rank <= op.axis < rank:
        raise RequestError(f"{field('axis')} is {op.axis}; it must be from {-rank} to {rank - 1} for {rank} axes")
    return op.axis % rank


def _check_min_count(least: int, axes: Sequence[AxisPlan]) -> None:
    """Refuses more elements than the largest window has; of areas, than the part of the input that one stands for."""
    windows = [axis.windows for axis in axes]
    most = prod(max(1, w.size / w.output) if isinstance(w, Cells) else min(w.longest, w.size) for w in windows)
    if least > most > 0:
        remedy = f"give at most {field('min_count', int(most))}"
        raise RequestError(f"{field('min_count', least)}: the largest window has {most:g} elements; {remedy}")


def _check_missing(found: Missing, dtype: DType) -> Missing:
    """The nodata values; refuses one that no element of the type can equal."""
    for number in found:
        if not can_hold(dtype, number):
            low, high = dtype.ends
            why = "in which it is infinite" if isinf(high) else f"which holds whole numbers from {low} to {high}"
            raise RequestError(f"{field('missing', number)} does not fit {dtype.name}, {why}")
    return found
