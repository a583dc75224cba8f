"""What a search for a conversion went through, to be said beside an answer of none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from poolcli.windows import Sliding


@dataclass(frozen=True, slots=True)
class AxisSearched:
    """The numbers that were tried on one axis; none where no sliding windows read what its windows read."""

    axis: str
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """Operators by the framework's names, the words that its sliding windows were tried with, and numbers by axis."""

    operators: tuple[str, ...]
    auto_pad: tuple[str, ...]
    rounding_type: tuple[str, ...]
    axes: tuple[AxisSearched, ...]


def told(searched: Searched | None) -> Iterator[str]:
    """The same in sentences: the words, then each axis, equal ones together."""
    if searched is None:
        return
    words = (("auto_pad", searched.auto_pad), ("rounding_type", searched.rounding_type))
    tried = "".join(f"; {name} {_listed(found)}" for name, found in words if found)
    yield f"searched: {_listed(searched.operators)}{tried}"
    alike: dict[str, list[str]] = {}
    for axis in searched.axes:
        alike.setdefault(_numbers(axis), []).append(axis.axis)
    for numbers, names in alike.items():
        yield f"{'axes' if len(names) > 1 else 'axis'} {','.join(names)}: {numbers}"


def axis_searched(axis: str, options: Sequence[Sliding]) -> AxisSearched:
    """The numbers of the windows that were tried on an axis."""
    numbers = ((w.kernel, w.stride, w.dilation, w.pad_begin) for w in options)
    found = tuple(tuple(sorted(set(each))) for each in zip(*numbers, strict=True)) or ((),) * 4
    return AxisSearched(axis, *found)


def _numbers(axis: AxisSearched) -> str:
    if not axis.kernel:
        return "no kernel, stride, dilation and padding read what its windows read"
    return (
        f"kernel {_ranges(axis.kernel)}, stride {_ranges(axis.strides)}, dilation {_ranges(axis.dilations)}, "
        f"padding {_ranges(axis.pads_begin)} at the beginning and as much as fits at the end"
    )


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, of those without a gap the first and the last."""
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    stops = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    return " or ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, stops, strict=True))
