"""The plan: everything that is known about a pooling before a single element is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from poolcli.core.dtypes import DType, lookup
from poolcli.core.errors import RequestError
from poolcli.core.layouts import check_layout, default_layout, named_shape, size_of, spatial_axes
from poolcli.core.values import INDEX_TYPES, one_of
from poolcli.core.windows import AxisWindows
from poolcli.dialects import IndexBase, dialect_of
from poolcli.plan.attributes import AdaptiveMaxAttributes, Attributes, AvgAttributes, MaxAttributes
from poolcli.plan.reducers import Reducer
from poolcli.plan.resolve import index_axis, resolve

if TYPE_CHECKING:
    from poolcli.explain.steps import Explanation


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One spatial axis: its letter, its position in the array, its windows and the formula of its length."""

    name: str
    position: int
    windows: AxisWindows
    formula: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What max indices count: `modulus` elements under base `axis`; under `channels_last`, (y*W + x)*C + c."""

    dtype: str
    base: IndexBase
    modulus: int
    rule: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Windows, shapes, types and notes of one pooling. Shapes are in the order of `layout`."""

    op: str
    reducer: Reducer
    like: str
    attributes: dict[str, object] = field(hash=False)
    layout: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: str
    output_dtype: str
    axes: tuple[AxisPlan, ...]
    divisor_rule: str | None
    divisor_override: int | None
    index: IndexPlan | None
    empty_windows: int
    notes: tuple[str, ...]

    def explain(self) -> Explanation:
        """Steps, windows and facts of every axis; as text, one sentence a line."""
        from poolcli.explain.steps import explain

        return explain(self)

    @property
    def windows(self) -> tuple[AxisWindows, ...]:
        """The windows of each spatial axis, in the order of attributes."""
        return tuple(axis.windows for axis in self.axes)


def make_plan(
    op: Attributes,
    shape: Sequence[int],
    dtype: object = "float32",
    *,
    layout: str | None = None,
    output_dtype: object = None,
) -> Plan:
    """The plan of `op` on an array of `shape` and `dtype`; every refusal is a RequestError."""
    shape = tuple(int(size) for size in shape)
    layout = check_layout(layout, len(shape)) if layout else default_layout(len(shape))
    if min(shape) < 0:
        raise RequestError(f"the shape {named_shape(layout, shape)} has a negative length")
    dialect = dialect_of(op.like)
    positions = spatial_axes(layout)
    names = "".join(layout[i] for i in positions)
    resolved = resolve(op, dialect, names, [shape[i] for i in positions])
    axes = tuple(
        AxisPlan(name, position, windows, formula)
        for name, position, windows, formula in zip(names, positions, resolved.windows, resolved.formulas, strict=True)
    )
    output_shape = list(shape)
    for axis in axes:
        output_shape[axis.position] = axis.windows.output
    source, target = _check_dtypes(op, lookup(dtype), output_dtype)
    empty = _empty_windows(axes)
    override = op.divisor_override if isinstance(op, AvgAttributes) else None
    if override is not None:
        _check_override_range(axes, source, target, override)
    return Plan(
        op=op.name,
        reducer=op.reducer,
        like=dialect.name,
        attributes=resolved.attributes | _index_attributes(op, layout),
        layout=layout,
        input_shape=shape,
        output_shape=tuple(output_shape),
        dtype=source.name,
        output_dtype=target.name,
        axes=axes,
        divisor_rule=resolved.divisor_rule,
        divisor_override=override,
        index=_index_plan(op, layout, shape),
        empty_windows=empty,
        notes=(*resolved.notes, *_window_notes(op, axes, empty, override, source, target)),
    )


def _check_dtypes(op: Attributes, source: DType, output_dtype: object) -> tuple[DType, DType]:
    """Input and output type; refuses a type that cannot hold every result."""
    target = source if output_dtype is None else lookup(output_dtype)
    if op.reducer.divides and target.kind == "bool":
        raise RequestError("an average of bool needs a number type: add --dtype float32 (or an integer type, rounded)")
    if target.kind == "float" or target == source:
        return source, target
    (low, high), (least, most) = source.limits, target.limits
    if source.kind == "float" or low < least or high > most:
        raise RequestError(
            f"--dtype {target.name} cannot hold every result of {source.name} input; "
            "use a float type or a wider integer type"
        )
    return source, target


def _check_override_range(axes: Sequence[AxisPlan], source: DType, target: DType, override: int) -> None:
    """Refuses a divisor_override whose quotients can leave an integer output type."""
    if not target.is_integer:
        return
    largest = prod(min(axis.windows.size, getattr(axis.windows, "kernel", 1)) for axis in axes)
    ends = [value * count / override for value in source.limits for count in (0, largest)]
    if min(ends) < target.limits[0] or max(ends) > target.limits[1]:
        raise RequestError(
            f"--divisor-override {override} can give results from {min(ends):.0f} to {max(ends):.0f}, outside "
            f"{target.name}; use --dtype float64 or a wider integer type"
        )


def _empty_windows(axes: Sequence[AxisPlan]) -> int:
    total = prod(axis.windows.output for axis in axes)
    return total - prod(axis.windows.output - axis.windows.empty_windows for axis in axes)


def _window_notes(
    op: Attributes, axes: Sequence[AxisPlan], empty: int, override: int | None, source: DType, target: DType
) -> list[str]:
    notes = []
    for axis in axes:
        if axis.windows.unused:
            notes.append(
                f"axis {axis.name}: {axis.windows.unused} of {axis.windows.size} input elements are read by no window"
            )
    if not empty:
        return notes
    many = f"{empty} {'window holds' if empty == 1 else 'windows hold'} no input element"
    if op.reducer.picks:
        value = "-inf" if target.kind == "float" else str(source.limits[0])
        return [*notes, f"{many}: the maximum is {value}, the index -1"]
    if override is not None or any(getattr(axis.windows, "counted", "inside") != "inside" for axis in axes):
        return [*notes, f"{many}: the average is 0"]
    if target.kind != "float":
        raise RequestError(
            f"{many}, and {target.name} has no value for an average of nothing; "
            "use --rounding-type floor or ceil_torch, --include-pad with pads, or --dtype float32"
        )
    return [*notes, f"{many}: the average is nan"]


def _index_attributes(op: Attributes, layout: str) -> dict[str, object]:
    """The attributes of indices as they are used; `axis` is None where the dialect's base is no axis."""
    if isinstance(op, AdaptiveMaxAttributes):
        return {"index_element_type": op.index_element_type}
    if not isinstance(op, MaxAttributes):
        return {}
    dialect = dialect_of(op.like)
    axis = index_axis(op, dialect, 2 + len(spatial_axes(layout))) if dialect.index_base == "axis" else None
    return {"axis": axis, "index_element_type": op.index_element_type}


def _index_plan(op: Attributes, layout: str, shape: Sequence[int]) -> IndexPlan | None:
    if not isinstance(op, MaxAttributes | AdaptiveMaxAttributes):
        return None
    element_type = one_of("index_element_type", op.index_element_type, tuple(INDEX_TYPES))
    logical = (size_of("N", layout, shape), size_of("C", layout, shape), *(shape[i] for i in spatial_axes(layout)))
    dialect = dialect_of(op.like)
    base: IndexBase = "axis"
    axis = 2
    if isinstance(op, MaxAttributes):
        base, axis = dialect.index_base, index_axis(op, dialect, len(logical))
    modulus = prod(logical[1:]) if base == "channels_last" else prod(logical[axis:])
    bits = lookup(INDEX_TYPES[element_type]).bits
    if modulus > 2 ** (bits - 1):
        raise RequestError(
            f"--index-element-type {element_type} cannot hold indices up to {modulus - 1}; "
            + ("use i64" if bits == 32 else "the input is too large for indices")
        )
    if base == "channels_last":
        rule = "spatial position * C + c, inside one image (channels last)"
    else:
        letters = ("N", "C", *(layout[i] for i in spatial_axes(layout)))
        rule = "flat position over " + ",".join(letters[axis:])
    return IndexPlan(INDEX_TYPES[element_type], base, modulus, rule)
