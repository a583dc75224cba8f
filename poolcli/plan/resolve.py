"""From attributes, dialect and sizes to the windows of each axis. Every refusal of attributes is here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from poolcli.core.errors import RequestError
from poolcli.core.values import AUTO_PADS, ROUNDING_TYPES, one_of, per_axis
from poolcli.core.windows import AxisWindows, Bins, Counted, Sliding, extent, same_pads, sliding_output
from poolcli.dialects import Dialect
from poolcli.plan.attributes import AvgAttributes, BinAttributes, MaxAttributes, SlidingAttributes

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """Windows of each axis, the attributes as they are used, and what a person should know about them."""

    windows: tuple[AxisWindows, ...]
    attributes: dict[str, object]
    divisor_rule: str | None
    notes: tuple[str, ...]
    formulas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The per-axis numbers of sliding windows, pads as resolved."""

    kernel: Numbers
    strides: Numbers
    dilations: Numbers
    pads_begin: Numbers
    pads_end: Numbers


def resolve(op: SlidingAttributes | BinAttributes, dialect: Dialect, axes: str, sizes: Sequence[int]) -> Resolved:
    """The windows of `op` on spatial `axes` of these `sizes`, or a refusal."""
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise RequestError(f"axis {axis} of the input is {size} long, a window needs at least 1 element")
    if isinstance(op, BinAttributes):
        return _resolve_bins(op, dialect, axes, sizes)
    return _resolve_sliding(op, dialect, axes, sizes)


def _resolve_bins(op: BinAttributes, dialect: Dialect, axes: str, sizes: Sequence[int]) -> Resolved:
    if not dialect.adaptive:
        raise RequestError(f"{dialect.title} has no adaptive pooling; use --like openvino or --like pytorch")
    outputs = per_axis("output_size", op.output_size, axes, 1)
    windows = tuple(Bins(size, output) for size, output in zip(sizes, outputs, strict=True))
    return Resolved(
        windows=windows,
        attributes={"output_size": list(outputs)},
        divisor_rule="the number of elements in the bin" if op.reducer.divides else None,
        notes=(),
        formulas=tuple(f"bin i = [i*{w.size}//{w.output}, ceil((i+1)*{w.size}/{w.output}))" for w in windows),
    )


def _resolve_sliding(op: SlidingAttributes, dialect: Dialect, axes: str, sizes: Sequence[int]) -> Resolved:
    rounding = _check_words(op, dialect)
    notes: list[str] = []
    numbers = _resolve_numbers(op, dialect, axes, sizes, notes)
    exclude = _resolve_exclude(op, dialect)
    _check_pads(numbers, dialect, axes, sizes, exclude, op.auto_pad == "explicit")
    counted, divisor_rule = _divisor(op, dialect, exclude, numbers)
    windows, formulas = [], []
    for i, size in enumerate(sizes):
        pb, pe, stride = numbers.pads_begin[i], numbers.pads_end[i], numbers.strides[i]
        window = extent(numbers.kernel[i], numbers.dilations[i])
        output = sliding_output(size, window, stride, pb, pe, rounding)
        windows.append(Sliding(size, output, numbers.kernel[i], stride, numbers.dilations[i], pb, pe, counted))
        dropped = rounding != "floor" and output < sliding_output(size, window, stride, pb, pe, "ceil")
        formulas.append(_formula(f"{size}+{pb}+{pe}-{window}", stride, rounding, dropped, output))
        if dropped:
            notes.append(f"axis {axes[i]}: one window less, because the last one would start past the input")
    attributes: dict[str, object] = {
        "kernel": list(numbers.kernel),
        "strides": list(numbers.strides),
        "pads_begin": list(numbers.pads_begin),
        "pads_end": list(numbers.pads_end),
        "dilations": list(numbers.dilations),
        "auto_pad": op.auto_pad,
        "rounding_type": op.rounding_type,
    }
    if isinstance(op, AvgAttributes):
        attributes |= {"exclude_pad": exclude, "divisor_override": op.divisor_override}
    return Resolved(tuple(windows), attributes, divisor_rule, tuple(notes), tuple(formulas))


def _check_words(op: SlidingAttributes, dialect: Dialect) -> str:
    """Refuses words that the dialect does not know; returns the rounding rule that the word means in it."""
    one_of("auto_pad", op.auto_pad, AUTO_PADS)
    one_of("rounding_type", op.rounding_type, ROUNDING_TYPES)
    if op.auto_pad not in dialect.auto_pads:
        raise RequestError(
            f"{dialect.title} has no auto_pad {op.auto_pad}; use {' or '.join(dialect.auto_pads)}, or another --like"
        )
    if op.rounding_type not in dialect.rounding_types:
        known = " or ".join(dialect.rounding_types)
        raise RequestError(f"{dialect.title} has no rounding_type {op.rounding_type}; use {known}, or another --like")
    return dialect.ceil if op.rounding_type == "ceil" else op.rounding_type


def _resolve_numbers(
    op: SlidingAttributes, dialect: Dialect, axes: str, sizes: Sequence[int], notes: list[str]
) -> _Numbers:
    kernel = per_axis("kernel", op.kernel, axes, 1)
    strides = _resolve_strides(op, dialect, axes, kernel, notes)
    dilations = per_axis("dilations", op.dilations, axes, 1)
    allowed = dialect.avg_dilation if op.reducer.divides else dialect.max_dilation
    if not allowed and max(dilations) > 1:
        what = "average" if op.reducer.divides else "max"
        raise RequestError(
            f"{dialect.title} has no dilation in {what} pooling; leave out --dilations or use another --like"
        )
    begin = per_axis("pads_begin", op.pads_begin, axes, 0)
    end = per_axis("pads_end", op.pads_end, axes, 0)
    if op.auto_pad == "explicit":
        if op.reducer.divides and not dialect.avg_pads and any(begin + end):
            raise RequestError(
                f"{dialect.title} has no explicit pads in average pooling; use --auto-pad same_upper or valid"
            )
        return _Numbers(kernel, strides, dilations, begin, end)
    if any(begin) or any(end):
        notes.append(f"the given pads are ignored: auto_pad {op.auto_pad} sets them")
    if op.auto_pad == "valid":
        return _Numbers(kernel, strides, dilations, (0,) * len(axes), (0,) * len(axes))
    upper = op.auto_pad == "same_upper"
    pads = [same_pads(*args, upper) for args in zip(sizes, kernel, strides, dilations, strict=True)]
    return _Numbers(kernel, strides, dilations, tuple(p[0] for p in pads), tuple(p[1] for p in pads))


def _resolve_strides(op: SlidingAttributes, dialect: Dialect, axes: str, kernel: Numbers, notes: list[str]) -> Numbers:
    if op.strides is not None:
        return per_axis("strides", op.strides, axes, 1)
    if dialect.default_strides == "kernel":
        return kernel
    if dialect.default_strides == "required":
        raise RequestError(f"{dialect.title} needs strides; give --strides (Keras layers take the kernel by default)")
    if max(kernel) > 1:
        notes.append("strides not given: 1 on every axis; set them with --strides")
    return (1,) * len(axes)


def _resolve_exclude(op: SlidingAttributes, dialect: Dialect) -> bool | None:
    """Whether padding is left out of the divisor; None for max."""
    if not isinstance(op, AvgAttributes):
        return None
    if op.exclude_pad is False and not dialect.include_pad:
        raise RequestError(f"{dialect.title} never counts padding; use --exclude-pad or another --like")
    return dialect.default_exclude_pad if op.exclude_pad is None else op.exclude_pad


def _check_pads(
    numbers: _Numbers, dialect: Dialect, axes: str, sizes: Sequence[int], exclude: bool | None, explicit: bool
) -> None:
    for i, axis in enumerate(axes):
        window = extent(numbers.kernel[i], numbers.dilations[i])
        begin, end = numbers.pads_begin[i], numbers.pads_end[i]
        padded = sizes[i] + begin + end
        if window > padded:
            raise RequestError(_too_large(axis, sizes[i], numbers, i, window, padded))
        if exclude and max(begin, end) >= window:
            raise RequestError(
                f"--exclude-pad needs pads smaller than the window: axis {axis} has pads {begin},{end} and a window "
                f"of {window}; use pads of at most {window - 1} or --include-pad"
            )
        if explicit:
            _check_pad_limit(dialect, axis, numbers.kernel[i], begin, end)


def _check_pad_limit(dialect: Dialect, axis: str, kernel: int, begin: int, end: int) -> None:
    if dialect.symmetric_pads and begin != end:
        raise RequestError(
            f"{dialect.title} pads both ends alike: axis {axis} has pads {begin},{end}; "
            "use equal pads or another --like"
        )
    limits = {"half_kernel": kernel // 2, "below_kernel": kernel - 1}
    if dialect.pad_limit and max(begin, end) > limits[dialect.pad_limit]:
        raise RequestError(
            f"{dialect.title} allows pads of at most {limits[dialect.pad_limit]} for a kernel of {kernel}: axis {axis} "
            f"has pads {begin},{end}; use smaller pads or another --like"
        )


def _too_large(axis: str, size: int, numbers: _Numbers, i: int, window: int, padded: int) -> str:
    kernel, dilation = numbers.kernel[i], numbers.dilations[i]
    fits = (padded - 1) // dilation + 1
    what = f"kernel {kernel}" + (f" with dilation {dilation} spans {window}" if dilation > 1 else "")
    pads = f"with pads {numbers.pads_begin[i]},{numbers.pads_end[i]}" if padded > size else "without padding"
    missing = window - padded
    return (
        f"axis {axis} is {size} long, {what}{' and' if dilation > 1 else ''} {pads} leaves no window; "
        f"use --kernel {fits} or --pads {max(numbers.pads_begin[i], numbers.pads_end[i]) + -(-missing // 2)}"
    )


def _divisor(
    op: SlidingAttributes, dialect: Dialect, exclude: bool | None, numbers: _Numbers
) -> tuple[Counted, str | None]:
    """What the divisor counts, and the sentence that says so; None for max."""
    if not isinstance(op, AvgAttributes):
        return "inside", None
    if op.divisor_override is not None:
        _check_override(op.divisor_override)
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


def _check_override(divisor: int) -> None:
    if isinstance(divisor, bool) or not isinstance(divisor, int) or divisor == 0 or abs(divisor) >= 2**31:
        raise RequestError(f"--divisor-override is {divisor!r}, a whole number other than 0 and below 2**31 is needed")


def _formula(span: str, stride: int, rounding: str, dropped: bool, output: int) -> str:
    """The formula of an axis' output length with its numbers put in."""
    if rounding == "floor":
        return f"({span})//{stride} + 1 = {output}"
    return f"ceil(({span})/{stride}) + 1{' - 1' if dropped else ''} = {output}"


def index_axis(op: MaxAttributes, dialect: Dialect, rank: int) -> int:
    """The axis from which max indices count, from 0; refuses one outside [-rank, rank)."""
    if op.axis is None:
        return dialect.index_axis
    if not dialect.axis_option:
        raise RequestError(f"--axis is an attribute of OpenVINO; {dialect.title} fixes what its indices count from")
    if not -rank <= op.axis < rank:
        raise RequestError(f"--axis is {op.axis}, it must be from {-rank} to {rank - 1} for a tensor of rank {rank}")
    return op.axis % rank
