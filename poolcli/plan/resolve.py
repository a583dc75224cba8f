"""Resolves attributes under the rules of a dialect to the windows of each axis, or refuses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import combinations
from math import inf, prod
from typing import NamedTuple

from poolcli.arguments import ENDS, Fit, Numbers, PerAxis, per_axis
from poolcli.dialects import DIALECTS, Dialect, SlidingCall, Support
from poolcli.errors import RequestError
from poolcli.layouts import SPATIAL, Reading, default_layout, layout_for, spatial_axes
from poolcli.message_fields import AGAIN, OTHER_DIALECT, field, hint
from poolcli.plan.attributes import SHARED, Attributes, DividingAttributes, SlidingAttributes, fit_size, values_of
from poolcli.plan.plan import AxisPlan, Fact
from poolcli.suggestions import join_words
from poolcli.windows import Bins, Cells, Counted, Sliding, ceil_div, extent, same_pads, sliding_output

PER_AXIS = ("kernel", "strides", "pads_begin", "pads_end", "dilations")
MAX_PROPOSED_PADS = 2**31  # a message does not propose larger pads


class Axes(NamedTuple):
    """The spatial axes of an input; `spread` makes of an attribute, by its name, a number for each."""

    names: str
    positions: Numbers
    sizes: Numbers
    spread: Callable[[str, PerAxis], Numbers]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The plan of each axis, the attributes with defaults filled in, the rule of the divisor, and facts."""

    axes: tuple[AxisPlan, ...]
    attributes: dict[str, object]
    divisor_rule: str | None
    facts: tuple[Fact, ...] = ()


def check_lengths(axes: str, sizes: Sequence[int]) -> None:
    """Refuse spatial axes without elements."""
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise RequestError(f"axis {axis} of the input is {size} long, but a window needs at least 1 element")


def resolve(op: Attributes, dialect: Dialect, reading: Reading, shape: Sequence[int]) -> Resolved:
    """Resolve `op` on the spatial axes of `shape`; every refusal is a RequestError."""
    try:
        return _resolve(op, dialect, reading, shape)
    except RequestError as error:
        other = _layout_that_fits(op, dialect, reading, shape)
        if other is None:
            if not (reading.assumed and reading.layout[-1] == "C") or len(shape) < 4 or "(assumed)" in error.message:
                raise
            first = field("layout", default_layout(len(shape)))
            told = f"layout {reading.layout} was assumed (channels first: {first})"
            raise RequestError(f"{error.message}; {told}") from None
        pooled = ",".join(other[i] for i in spatial_axes(other))
        what, _, others = error.message.partition("; ")
        remedy = f"use {field('layout', other)} to pool {pooled} (layout {reading.layout} was assumed)"
        raise RequestError(f"{what}; {remedy}{', or ' * bool(others)}{others}") from None


def _layout_that_fits(op: Attributes, dialect: Dialect, reading: Reading, shape: Sequence[int]) -> str | None:
    """A layout with which an array of unnamed axes can be pooled: of 2 or 3, all but those that are too short; of more,
    channels last if the last axis looks like channels.
    """
    rank, values = len(shape), values_of(op)
    if not reading.assumed or rank < 2 or 0 in shape:
        return None
    layouts = [layout_for(shape, rank - 2)] if rank > 3 else []
    for count in () if rank > 3 else range(rank - 1, 0, -1) if values == 1 else (values,):
        for chosen in combinations(reversed(range(rank)), count):
            pooled, others = iter(SPATIAL[-count:]), iter("NC"[count - rank :])
            layouts.append("".join(next(pooled if i in chosen else others) for i in range(rank)))
    for layout in filter(None, layouts):
        with suppress(RequestError):
            _resolve(op, dialect, Reading(layout), shape)
            return layout
    return None


def _resolve(op: Attributes, dialect: Dialect, reading: Reading, shape: Sequence[int]) -> Resolved:
    layout = reading.layout
    positions = spatial_axes(layout)
    names, sizes = "".join(layout[i] for i in positions), tuple(shape[i] for i in positions)
    values = values_of(op)
    is_possible = reading.assumed or "C" not in layout or values < len(shape)  # channels are not pooled
    other = layout_for(shape, values) if is_possible and values not in (1, len(positions)) else None
    spread = partial(per_axis, axes=names, layout=layout, assumed=reading.assumed, other=other)
    check_lengths(names, sizes)
    rules_of = op.rules_of or op.name
    support = dialect.operators.get(rules_of)
    if support is None:
        able = [field("like", each.name) for each in DIALECTS.values() if rules_of in each.operators]
        raise RequestError(f"{dialect.title} has no {op.title}; use {join_words(able)}")
    if isinstance(op, SlidingAttributes):
        return _resolve_sliding(op, dialect, support, Axes(names, positions, sizes, spread))
    given = op.output_size
    lengths = fit_size(shape, layout, given) if isinstance(given, Fit) else spread("output_size", given)
    windows = [op.windows_of(size, length or size) for size, length in zip(sizes, lengths, strict=True)]
    axes = tuple(map(AxisPlan, names, positions, windows, map(_bin_formula, windows)))
    rule = "the number of elements in the bin" if op.reducer.divides else None
    if any(isinstance(w, Cells) for w in windows):
        rule = "the sum of the weights; the weight of an element is the part of it in the cell"
    facts = _aspect_facts(layout, sizes, lengths) if op.name == "area" else ()
    if larger := ",".join(axis.name for axis in axes if axis.windows.output > axis.windows.size):
        facts += (Fact("repeated", f"larger than the input on {larger}: elements repeat, nothing is interpolated"),)
    if isinstance(given, Fit) and lengths == sizes:
        facts = (Fact("aspect", f"the size stays: {field('fit')} enlarges no image"),)
    return Resolved(axes, {"output_size": [w.output for w in windows]}, rule, facts)


def _aspect_facts(layout: str, sizes: Numbers, lengths: Numbers) -> tuple[Fact, ...]:
    """A note on an image that is turned, or becomes smaller, and changes its aspect by more than rounding."""
    if not {*"HW"} <= {*layout} <= {*"HWC"} or None in lengths:
        return ()
    (height, width), (high, wide) = sizes, lengths
    is_turned = (high - wide) * (height - width) < 0  # width by height was meant
    if (not is_turned and (high > height or wide > width)) or abs(high * width - wide * height) < max(height, width):
        return ()
    turned = f"; sizes are H,W: for {high} wide and {wide} high, use {field('output_size', (wide, high))}{AGAIN}"
    remedy = turned if is_turned else hint(f"; to keep it, use {field('fit', f'{wide}x{high}')} instead{AGAIN}")
    is_swapped = is_turned and abs(wide * width - high * height) < max(height, width)
    text = f"the aspect changes: H={height} W={width} to H={high} W={wide}{remedy}"
    return (Fact("turned" if is_swapped else "aspect", text),)


def _bin_formula(w: Bins) -> str:
    if isinstance(w, Cells):
        return f"cell i = [i*{w.size}/{w.output}, (i+1)*{w.size}/{w.output})"
    return f"bin i = [i*{w.size}//{w.output}, ceil((i+1)*{w.size}/{w.output}))"


def _resolve_sliding(op: SlidingAttributes, dialect: Dialect, support: Support, spatial: Axes) -> Resolved:
    words = (("auto_pad", op.auto_pad, dialect.auto_pads), ("rounding_type", op.rounding_type, dialect.rounding_types))
    for name, word, known in words:
        if word not in known:
            raise RequestError(f"{dialect.title} has no {name} {word}; use {join_words(known)}{OTHER_DIALECT}")
    rounding = dialect.ceil if op.rounding_type == "ceil" else op.rounding_type
    facts: list[Fact] = []
    call = _resolve_call(op, dialect, support, spatial, facts)
    exclude = None
    if isinstance(op, DividingAttributes):
        if op.exclude_pad is False and not support.include_pad:
            raise RequestError(f"{dialect.title} never counts padding; use {field('exclude_pad', True)}{OTHER_DIALECT}")
        exclude = dialect.default_exclude_pad if op.exclude_pad is None else op.exclude_pad
    counted, divisor_rule = _divisor(op, dialect, exclude, call)
    limited, keeps = op.auto_pad == "explicit" and support.pads, rounding != "floor" and dialect.keeps_short
    numbers = zip(call.sizes, call.kernel, call.strides, call.dilations, call.pads_begin, call.pads_end, strict=True)
    axes = []
    for name, position, (size, k, s, d, begin, end) in zip(*spatial[:2], numbers, strict=True):
        output = sliding_output(size, extent(k, d), s, begin, end, rounding)
        w = Sliding(size, output, k, s, d, begin, end, counted)
        _check_pads(name, w, call, dialect, exclude, limited=limited, keeps=keeps)
        if w.slack < 0:
            sentence = f"axis {name}: the window is longer than the padded input; ceil keeps one over what there is"
            facts.append(Fact("window_kept", sentence))
        dropped = rounding != "floor" and output < ceil_div(w.slack, s) + 1
        axes.append(AxisPlan(name, position, w, _formula(w, rounding, dropped)))
        if dropped:
            sentence = f"axis {name}: one window less, because the last one would start past the input"
            facts.append(Fact("window_dropped", sentence))
    moved = any(k > s and each.windows.output > 1 for k, s, each in zip(call.kernel, call.strides, axes, strict=True))
    if op.strides is None and moved:
        as_there = f"PyTorch and Keras take the kernel: use {_kernel_apart(call.kernel)}{AGAIN}"
        facts.insert(0, Fact("strides", f"strides not given: 1 on every axis; {as_there}"))
    late = [each.name for each in axes if each.windows.start(each.windows.output - 1) >= each.windows.size]
    if late and rounding == "ceil":
        text = f"starts past the input; PyTorch's ceil drops it ({field('like', 'pytorch')})"
        facts.append(Fact("overhang", f"the last window on {','.join(late)} {text}"))
    over = ",".join(axis.name for axis in axes if axis.windows.overhang > 0 and axis.name not in late)
    if over and counted == "kernel":
        text = f"reaches past the pads, which the divisor counts; PyTorch does not ({field('like', 'pytorch')})"
        facts.append(Fact("overhang", f"the last window on {over} {text}"))
    why = dialect.refuses(call)
    if why:
        raise RequestError(f"{dialect.title}: {why}")
    attributes: dict[str, object] = {name: list(getattr(call, name)) for name in PER_AXIS}
    attributes |= {"auto_pad": op.auto_pad, "rounding_type": op.rounding_type}
    if isinstance(op, DividingAttributes):
        attributes |= {"exclude_pad": exclude, "divisor_override": op.divisor_override}
    attributes |= {own.name: getattr(op, own.name) for own in fields(op) if own.name not in SHARED}
    return Resolved(tuple(axes), attributes, divisor_rule, tuple(facts))


def _resolve_call(
    op: SlidingAttributes, dialect: Dialect, support: Support, spatial: Axes, facts: list[Fact]
) -> SlidingCall:
    """The attributes with one number per axis, and with the pads that `auto_pad` sets."""
    axes, _, sizes, spread = spatial
    kernel = spread("kernel", op.kernel)
    strides = _resolve_strides(op, dialect, kernel, spatial)
    dilations = spread("dilations", op.dilations)
    if not support.dilations and max(dilations) > 1:
        raise RequestError(f"{dialect.title} has no dilation in {op.title}; use {field('dilations', 1)}{OTHER_DIALECT}")
    begin_name, end_name = ("pads", "pads") if op.pads_begin == op.pads_end else ENDS
    begin, end = spread(begin_name, op.pads_begin), spread(end_name, op.pads_end)
    if op.auto_pad == "explicit" and not support.pads and any(begin + end):
        words = [f"{field('auto_pad', word)}" if i == 0 else word for i, word in enumerate(dialect.auto_pads[1:])]
        remedy = f"use {join_words(words)}" if words else f"leave them out{OTHER_DIALECT}"
        raise RequestError(f"{dialect.title} has no explicit pads in {op.title}; {remedy}")
    if op.auto_pad != "explicit":
        if any(begin + end):
            facts.append(Fact("pads_ignored", f"the given pads are ignored: auto_pad {op.auto_pad} sets them"))
        begin = end = (0,) * len(axes)
    if op.auto_pad.startswith("same"):
        upper = op.auto_pad == "same_upper"
        begin, end = zip(*map(same_pads, sizes, kernel, strides, dilations, (upper,) * len(axes)), strict=True)
    options = {own.name: getattr(op, own.name) for own in fields(op)}
    name = op.rules_of or op.name
    return SlidingCall(name, axes, tuple(sizes), kernel, strides, dilations, begin, end, op.auto_pad, options)


def _resolve_strides(op: SlidingAttributes, dialect: Dialect, kernel: Numbers, spatial: Axes) -> Numbers:
    if op.strides is not None:
        return spatial.spread("strides", op.strides)
    if dialect.default_strides == "kernel":
        return kernel
    if dialect.default_strides == "required":
        apart = _kernel_apart(kernel)
        raise RequestError(f"{dialect.title} needs strides; give {apart} (the kernel, as in Keras layers)")
    return (1,) * len(kernel)


def _kernel_apart(kernel: Numbers) -> str:
    """The setting of strides that are the kernel."""
    return field("strides", kernel if len({*kernel}) > 1 else kernel[0])


def _check_pads(
    axis: str, w: Sliding, call: SlidingCall, dialect: Dialect, exclude: bool | None, limited: bool, keeps: bool
) -> None:
    """Refuse a window that does not fit and is not kept, and pads that the framework or `exclude_pad` forbids."""
    limits = {None: inf, "half_kernel": w.kernel // 2, "below_kernel": w.kernel - 1}
    most = limits[dialect.pad_limit] if limited else 0
    if w.slack < 0 and not (keeps and w.output == 1):
        raise RequestError(_window_too_large(axis, w, call, most, f" at stride {w.stride}" if keeps else ""))
    pads = f"axis {axis} has pads {w.pad_begin},{w.pad_end}"
    longest = max(w.pad_begin, w.pad_end)
    if limited and dialect.symmetric_pads and w.pad_begin != w.pad_end:
        raise RequestError(f"{dialect.title} pads both ends equally: {pads}; use equal pads{OTHER_DIALECT}")
    if limited and longest > most:
        smaller = _smaller_pads(call, [k // 2 if dialect.pad_limit == "half_kernel" else k - 1 for k in call.kernel])
        rule = f"{dialect.title} allows pads of at most {most} for a kernel of {w.kernel}"
        raise RequestError(f"{rule}: {pads}; use {smaller}{OTHER_DIALECT}")
    if exclude and longest >= w.extent:
        smaller = _smaller_pads(call, [extent(k, d) - 1 for k, d in zip(call.kernel, call.dilations, strict=True)])
        rule = f"{field('exclude_pad', True)} needs pads smaller than the window: {pads} and a window of {w.extent}"
        raise RequestError(f"{rule}; use {smaller}" + hint(f" or {field('exclude_pad', False)}"))


def _smaller_pads(call: SlidingCall, most: Sequence[int]) -> str:
    """The setting of the given pads, at most `most` on each axis."""
    pads = tuple(map(min, call.pads_begin, most))
    is_same = call.pads_begin == call.pads_end
    return field("pads", pads if len({*pads}) > 1 else pads[0]) if is_same else f"pads of at most {min(most)}"


def _window_too_large(axis: str, w: Sliding, call: SlidingCall, most: float, stride: str) -> str:
    """The message about one axis, with what would fit on all of them."""
    padded = w.size + w.pad_begin + w.pad_end
    fits, needed = list[int](), list[int]()
    for n, k, d, b, e in zip(call.sizes, call.kernel, call.dilations, call.pads_begin, call.pads_end, strict=True):
        fits.append(min(k, (n + b + e - 1) // d + 1))
        needed.append(max(b, e) + ceil_div(max(extent(k, d) - n - b - e, 0), 2))
    unequal = len({*call.kernel}) > 1
    kernel, more = field("kernel", tuple(fits) if unequal else min(fits)), tuple(needed) if unequal else max(needed)
    what = f"kernel {w.kernel}" + (f" with dilation {w.dilation} spans {w.extent} and" if w.dilation > 1 else "")
    pads = f"with pads {w.pad_begin},{w.pad_end}" if padded > w.size else "without padding"
    remedy = f"{kernel} or {field('pads', more)}" if max(needed) <= min(most, MAX_PROPOSED_PADS) else kernel
    return f"axis {axis} is {w.size} long, {what} {pads}{stride} leaves no window; use {remedy}"


def _divisor(
    op: SlidingAttributes, dialect: Dialect, exclude: bool | None, call: SlidingCall
) -> tuple[Counted, str | None]:
    """What the divisor counts, and a phrase about it, None if the operator does not divide."""
    if not op.reduction(dialect).divides:
        return "inside", None
    if isinstance(op, DividingAttributes) and op.divisor_override is not None:
        return "inside", f"always {op.divisor_override} (divisor_override)"
    if exclude:
        return "inside", "the window's elements inside the input (exclude_pad)"
    if dialect.included == "clipped":
        counted = "the window's elements inside the input and its pads"
        return "clipped", f"{counted} (include; overhang past them is not counted)"
    if any(call.pads_begin + call.pads_end):
        size = prod(call.kernel)
        return "kernel", f"the window's full size, {size} (include; overhang counts because a pad is not 0)"
    return "inside", "the window's elements inside the input (include, but every pad is 0)"


def _formula(w: Sliding, rounding: str, dropped: bool) -> str:
    span = f"{w.size}+{w.pad_begin}+{w.pad_end}-{w.extent}"
    if rounding == "floor":
        return f"({span})//{w.stride} + 1 = {w.output}"
    return f"ceil(({span})/{w.stride}) + 1{' - 1' if dropped else ''} = {w.output}"
