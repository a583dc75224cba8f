"""From attributes, dialect and sizes to the windows of each axis. Every refusal of attributes is here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf, prod

from poolcli.arguments import per_axis
from poolcli.dialects import DIALECTS, Call, Dialect, There
from poolcli.errors import RequestError
from poolcli.message_fields import field, hint_other_dialect
from poolcli.plan.attributes import (
    SHARED,
    Attributes,
    BinAttributes,
    DividingAttributes,
    PickingAttributes,
    Reducer,
    SlidingAttributes,
)
from poolcli.plan.facts import Fact, PadsIgnored, StridesNotGiven, WindowDropped
from poolcli.windows import AxisWindows, Bins, Counted, Sliding, ceil_div, extent, same_pads, sliding_output

Numbers = tuple[int, ...]

MOST_PADS = 2**31  # that a message proposes


@dataclass(frozen=True, slots=True)
class Resolved:
    """Windows of each axis, the attributes as they are used, and what a person should know about them."""

    windows: tuple[AxisWindows, ...]
    attributes: dict[str, object]
    divisor_rule: str | None
    facts: tuple[Fact, ...]
    formulas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The per-axis numbers of sliding windows, pads as resolved."""

    kernel: Numbers
    strides: Numbers
    dilations: Numbers
    pads_begin: Numbers
    pads_end: Numbers


def check_lengths(axes: str, sizes: Sequence[int]) -> None:
    """Refuses spatial axes without elements."""
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise RequestError(f"axis {axis} of the input is {size} long, a window needs at least 1 element")


def resolve(op: Attributes, dialect: Dialect, axes: str, sizes: Sequence[int]) -> Resolved:
    """The windows of `op` on spatial `axes` of these `sizes`, or a refusal."""
    check_lengths(axes, sizes)
    there = there_of(op, dialect)
    if isinstance(op, BinAttributes):
        return _resolve_bins(op, axes, sizes)
    return _resolve_sliding(op, dialect, there, axes, sizes)


def there_of(op: Attributes, dialect: Dialect) -> There:
    """The operator as the dialect has it; refused where it has none."""
    there = dialect.operators.get(op.rules_of or op.name)
    if there is None:
        able = [f"{field('like', d.name)}" for d in DIALECTS.values() if (op.rules_of or op.name) in d.operators]
        raise RequestError(f"{dialect.title} has no {op.title}; use {' or '.join(able)}")
    return there


def _resolve_bins(op: BinAttributes, axes: str, sizes: Sequence[int]) -> Resolved:
    outputs = per_axis("output_size", op.output_size, axes)
    windows = tuple(Bins(size, output) for size, output in zip(sizes, outputs, strict=True))
    return Resolved(
        windows=windows,
        attributes={"output_size": list(outputs)},
        divisor_rule="the number of elements in the bin" if op.reducer.divides else None,
        facts=(),
        formulas=tuple(f"bin i = [i*{w.size}//{w.output}, ceil((i+1)*{w.size}/{w.output}))" for w in windows),
    )


def _resolve_sliding(
    op: SlidingAttributes, dialect: Dialect, there: There, axes: str, sizes: Sequence[int]
) -> Resolved:
    rounding = _check_words(op, dialect)
    facts: list[Fact] = []
    numbers = _resolve_numbers(op, dialect, there, axes, sizes, facts)
    exclude = _resolve_exclude(op, dialect, there)
    _check_pads(numbers, dialect, axes, sizes, exclude, op.auto_pad == "explicit" and there.pads)
    _check_limits(op, dialect, axes, sizes, numbers)
    counted, divisor_rule = _divisor(op, op.reduction(dialect), dialect, exclude, numbers)
    windows, formulas = [], []
    for i, size in enumerate(sizes):
        pb, pe, stride = numbers.pads_begin[i], numbers.pads_end[i], numbers.strides[i]
        window = extent(numbers.kernel[i], numbers.dilations[i])
        output = sliding_output(size, window, stride, pb, pe, rounding)
        windows.append(Sliding(size, output, numbers.kernel[i], stride, numbers.dilations[i], pb, pe, counted))
        dropped = rounding != "floor" and output < sliding_output(size, window, stride, pb, pe, "ceil")
        formulas.append(_formula(f"{size}+{pb}+{pe}-{window}", stride, rounding, dropped, output))
        if dropped:
            facts.append(WindowDropped(axes[i]))
    attributes: dict[str, object] = {
        "kernel": list(numbers.kernel),
        "strides": list(numbers.strides),
        "pads_begin": list(numbers.pads_begin),
        "pads_end": list(numbers.pads_end),
        "dilations": list(numbers.dilations),
        "auto_pad": op.auto_pad,
        "rounding_type": op.rounding_type,
    }
    if isinstance(op, DividingAttributes):
        attributes |= {"exclude_pad": exclude, "divisor_override": op.divisor_override}
    attributes |= {own.name: getattr(op, own.name) for own in fields(op) if own.name not in SHARED}
    return Resolved(tuple(windows), attributes, divisor_rule, tuple(facts), tuple(formulas))


def _check_words(op: SlidingAttributes, dialect: Dialect) -> str:
    """Refuses words that the dialect does not know; returns the rounding rule that the word means in it."""
    if op.auto_pad not in dialect.auto_pads:
        raise RequestError(
            f"{dialect.title} has no auto_pad {op.auto_pad}; use {' or '.join(dialect.auto_pads)}{hint_other_dialect()}"
        )
    if op.rounding_type not in dialect.rounding_types:
        known = " or ".join(dialect.rounding_types)
        raise RequestError(
            f"{dialect.title} has no rounding_type {op.rounding_type}; use {known}{hint_other_dialect()}"
        )
    return dialect.ceil if op.rounding_type == "ceil" else op.rounding_type


def _resolve_numbers(
    op: SlidingAttributes, dialect: Dialect, there: There, axes: str, sizes: Sequence[int], facts: list[Fact]
) -> _Numbers:
    kernel = per_axis("kernel", op.kernel, axes)
    strides = _resolve_strides(op, dialect, axes, kernel, facts)
    dilations = per_axis("dilations", op.dilations, axes)
    if not there.dilations and max(dilations) > 1:
        raise RequestError(
            f"{dialect.title} has no dilation in {op.title}; use {field('dilations', 1)}{hint_other_dialect()}"
        )
    begin = per_axis("pads_begin", op.pads_begin, axes)
    end = per_axis("pads_end", op.pads_end, axes)
    if op.auto_pad == "explicit":
        if not there.pads and any(begin + end):
            words = [f"{field('auto_pad', word)}" if i == 0 else word for i, word in enumerate(dialect.auto_pads[1:])]
            remedy = f"use {' or '.join(words)}" if words else f"leave them out{hint_other_dialect()}"
            raise RequestError(f"{dialect.title} has no explicit pads in {op.title}; {remedy}")
        return _Numbers(kernel, strides, dilations, begin, end)
    if any(begin) or any(end):
        facts.append(PadsIgnored(op.auto_pad))
    if op.auto_pad == "valid":
        return _Numbers(kernel, strides, dilations, (0,) * len(axes), (0,) * len(axes))
    upper = op.auto_pad == "same_upper"
    pads = [same_pads(*args, upper) for args in zip(sizes, kernel, strides, dilations, strict=True)]
    return _Numbers(kernel, strides, dilations, tuple(p[0] for p in pads), tuple(p[1] for p in pads))


def _check_limits(op: SlidingAttributes, dialect: Dialect, axes: str, sizes: Sequence[int], numbers: _Numbers) -> None:
    """Refuses what the framework itself takes no such windows for."""
    name = op.rules_of or op.name
    options = {own.name: getattr(op, own.name) for own in fields(op)}
    call = Call(
        name, axes, tuple(sizes), numbers.kernel, numbers.strides, numbers.dilations, numbers.pads_begin,
        numbers.pads_end, op.auto_pad, options,
    )  # fmt: skip
    why = dialect.refuses(call)
    if why:
        raise RequestError(f"{dialect.title}: {why}")


def _resolve_strides(op: SlidingAttributes, dialect: Dialect, axes: str, kernel: Numbers, facts: list[Fact]) -> Numbers:
    if op.strides is not None:
        return per_axis("strides", op.strides, axes)
    if dialect.default_strides == "kernel":
        return kernel
    if dialect.default_strides == "required":
        raise RequestError(
            f"{dialect.title} needs strides; give {field('strides')} (Keras layers take the kernel by default)"
        )
    if max(kernel) > 1:
        facts.append(StridesNotGiven())
    return (1,) * len(axes)


def _resolve_exclude(op: SlidingAttributes, dialect: Dialect, there: There) -> bool | None:
    """Whether padding is left out of the divisor; None where there is none to choose."""
    if not isinstance(op, DividingAttributes):
        return None
    if op.exclude_pad is False and not there.include_pad:
        raise RequestError(
            f"{dialect.title} never counts padding; use {field('exclude_pad', True)}{hint_other_dialect()}"
        )
    return dialect.default_exclude_pad if op.exclude_pad is None else op.exclude_pad


def _check_pads(
    numbers: _Numbers, dialect: Dialect, axes: str, sizes: Sequence[int], exclude: bool | None, explicit: bool
) -> None:
    for i, axis in enumerate(axes):
        window = extent(numbers.kernel[i], numbers.dilations[i])
        begin, end = numbers.pads_begin[i], numbers.pads_end[i]
        padded = sizes[i] + begin + end
        most = _most_pads(dialect, numbers.kernel[i]) if explicit else 0
        if window > padded:
            raise RequestError(_too_large(axis, sizes[i], numbers, i, window, padded, most))
        if explicit:
            _check_pad_limit(dialect, axis, numbers.kernel[i], begin, end)
        if exclude and max(begin, end) >= window:
            raise RequestError(
                f"{field('exclude_pad', True)} needs pads smaller than the window: "
                f"axis {axis} has pads {begin},{end} and a window "
                f"of {window}; use pads of at most {window - 1} or {field('exclude_pad', False)}"
            )


def _check_pad_limit(dialect: Dialect, axis: str, kernel: int, begin: int, end: int) -> None:
    if dialect.symmetric_pads and begin != end:
        raise RequestError(
            f"{dialect.title} pads both ends alike: axis {axis} has pads {begin},{end}; "
            f"use equal pads{hint_other_dialect()}"
        )
    most = _most_pads(dialect, kernel)
    if max(begin, end) > most:
        raise RequestError(
            f"{dialect.title} allows pads of at most {most} for a kernel of {kernel}: axis {axis} "
            f"has pads {begin},{end}; use smaller pads{hint_other_dialect()}"
        )


def _most_pads(dialect: Dialect, kernel: int) -> float:
    """The longest pad that the framework allows beside a kernel."""
    return {None: inf, "half_kernel": kernel // 2, "below_kernel": kernel - 1}[dialect.pad_limit]


def _too_large(axis: str, size: int, numbers: _Numbers, i: int, window: int, padded: int, most: float) -> str:
    kernel, dilation = numbers.kernel[i], numbers.dilations[i]
    fits = (padded - 1) // dilation + 1
    what = f"kernel {kernel}" + (f" with dilation {dilation} spans {window}" if dilation > 1 else "")
    pads = f"with pads {numbers.pads_begin[i]},{numbers.pads_end[i]}" if padded > size else "without padding"
    needed = max(numbers.pads_begin[i], numbers.pads_end[i]) + ceil_div(window - padded, 2)
    return (
        f"axis {axis} is {size} long, {what}{' and' if dilation > 1 else ''} {pads} leaves no window; "
        f"use {field('kernel', fits)}" + (f" or {field('pads', needed)}" if needed <= min(most, MOST_PADS) else "")
    )


def _divisor(
    op: SlidingAttributes, reducer: Reducer, dialect: Dialect, exclude: bool | None, numbers: _Numbers
) -> tuple[Counted, str | None]:
    """What the divisor counts, and the sentence that says so; None where nothing is divided."""
    if not reducer.divides:
        return "inside", None
    if isinstance(op, DividingAttributes) and op.divisor_override is not None:
        return "inside", f"always {op.divisor_override} (divisor_override)"
    if exclude:
        return "inside", "the window's elements inside the input (exclude_pad)"
    if dialect.included == "clipped":
        return (
            "clipped",
            "the window's elements inside the input and its pads (include; overhang past them is not counted)",
        )
    if any(numbers.pads_begin + numbers.pads_end):
        return (
            "kernel",
            f"the window's full size, {prod(numbers.kernel)} (include; overhang counts because a pad is not 0)",
        )
    return "inside", "the window's elements inside the input (include, but every pad is 0)"


def _formula(span: str, stride: int, rounding: str, dropped: bool, output: int) -> str:
    """The formula of an axis' output length with its numbers put in."""
    if rounding == "floor":
        return f"({span})//{stride} + 1 = {output}"
    return f"ceil(({span})/{stride}) + 1{' - 1' if dropped else ''} = {output}"


def index_axis(op: PickingAttributes, dialect: Dialect, rank: int) -> int:
    """The axis from which max indices count, from 0; refuses one outside [-rank, rank)."""
    if op.axis is None:
        return dialect.index_axis
    if not dialect.axis_option:
        raise RequestError(
            f"{field('axis')} is an attribute of OpenVINO; {dialect.title} fixes what its indices count from"
        )
    if not -rank <= op.axis < rank:
        raise RequestError(
            f"{field('axis')} is {op.axis}, it must be from {-rank} to {rank - 1} for a tensor of rank {rank}"
        )
    return op.axis % rank
