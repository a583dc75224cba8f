"""Which numbers give an axis its length: kernels from a list, strides and pads in closed form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from poolcli.windows import ceil_div, extent, same_pads, sliding_output

USUAL = 11  # kernels and strides up to this are always tried
SEARCHED = (  # unless one of these is given
    (("kernel",), f"kernels up to {USUAL} and those that cover the input with the wanted windows"),
    (("strides",), "every stride that fits"),
    (("pads_begin", "pads_end", "auto_pad"), "pads shorter than the window (equal, or one more at the end)"),
    (("pads_begin", "pads_end", "auto_pad"), "same_upper"),
    (("rounding_type",), "each rounding"),
)
CLOSE = 3  # strides that are tried from each end of those that fit


@dataclass(frozen=True, slots=True, order=True)
class AxisOption:
    """One axis' numbers, named as attributes are."""

    kernel: int
    strides: int
    pads_begin: int
    pads_end: int


def searched_for(given: Collection[str]) -> str:
    """What is searched of that which is not given, in a sentence."""
    free = [what for names, what in SEARCHED if not any(name in given for name in names)]
    return f"searched: {', '.join(free) or 'nothing, as everything is given'}"


def axis_options(
    size: int, wanted: int, given: Mapping[str, int], auto_pad: str, rounding: str
) -> Iterator[AxisOption]:
    """What gives `wanted` outputs from `size` inputs under the word `auto_pad` and the rule `rounding`.

    `given` numbers are kept. Pads are shorter than the window, equal or one more at the end.
    """
    dilation = given.get("dilations", 1)
    for kernel in _kernels(size, wanted, given, dilation):
        window = extent(kernel, dilation)
        if auto_pad.startswith("same"):
            for stride in _same_strides(size, wanted, kernel, given):
                pads = same_pads(size, kernel, stride, dilation, upper=auto_pad == "same_upper")
                if size + sum(pads) >= window and sliding_output(size, window, stride, *pads, rounding) == wanted:
                    yield AxisOption(kernel, stride, 0, 0)
            continue
        for begin, end in ((0, 0),) if auto_pad == "valid" else _pads(window, given):
            room = size + begin + end - window
            for stride in _strides(room, wanted, kernel, given, rounding) if room >= 0 else ():
                if sliding_output(size, window, stride, begin, end, rounding) == wanted:
                    yield AxisOption(kernel, stride, begin, end)


def _kernels(size: int, wanted: int, given: Mapping[str, int], dilation: int) -> Iterable[int]:
    """Usual ones, those about as long as a window's share, and those that the wanted windows cover the input with."""
    if "kernel" in given:
        return [given["kernel"]]
    share = size // wanted
    strides = [given["strides"]] if "strides" in given else [share, share + 1, *range(1, USUAL + 1)]
    found = {*range(1, USUAL + 1), *range(share - 1, share + 3), size}
    for stride in strides:
        reach = (wanted - 1) * stride
        padded = given.get("pads_begin", 0) + given.get("pads_end", 0)
        for window in (size - reach, size + padded - reach, *(reach - size + more for more in (1, 2, 3))):
            found |= {(window - 1) // dilation + 1, ceil_div(window - 1, dilation) + 1} if window > 0 else set()
    longest = max(USUAL, size) if wanted <= size else USUAL  # pooling enlarges by its pads alone
    return sorted(kernel for kernel in found if 0 < kernel <= longest)


def _pads(window: int, given: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Pads shorter than the window; of long windows those near none, near half of them, and the longest."""
    free = [p for p in (*range(min(window, 2 * USUAL)), (window - 1) // 2, window // 2, window - 1) if p < window]
    begins = [given["pads_begin"]] if "pads_begin" in given else list(dict.fromkeys(free))
    for begin in begins:
        if "pads_end" in given:
            yield begin, given["pads_end"]
        elif "pads_begin" in given:
            yield from ((begin, end) for end in dict.fromkeys(free))
        else:
            yield begin, begin
            if begin + 1 < window:
                yield begin, begin + 1


def _strides(room: int, wanted: int, kernel: int, given: Mapping[str, int], rounding: str) -> Iterable[int]:
    """The strides under which windows with that much room to move make `wanted` outputs."""
    if "strides" in given:
        return [given["strides"]]
    if wanted == 1:
        return [max(kernel, room + 1)] if rounding == "floor" else [kernel]
    moves = wanted - 1
    if rounding == "floor":
        low, high = room // wanted + 1, room // moves
    else:  # one move more where ceil_torch drops the last window
        low = ceil_div(room, wanted if rounding == "ceil_torch" else moves)
        high = ceil_div(room, moves - 1) - 1 if moves > 1 else max(room, kernel)
    low = max(1, low)
    ends = {*range(low, low + CLOSE), *range(high - CLOSE + 1, high + 1), kernel, *range(1, USUAL + 1)}
    return sorted(s for s in ends if low <= s <= high)


def _same_strides(size: int, wanted: int, kernel: int, given: Mapping[str, int]) -> Iterable[int]:
    """The strides whose share of the input is one of `wanted` windows."""
    if "strides" in given:
        return [given["strides"]]
    low = ceil_div(size, wanted)
    high = ceil_div(size, wanted - 1) - 1 if wanted > 1 else max(size, kernel)
    return sorted(s for s in {low, low + 1, high, kernel} if low <= s <= high)


def unusual(size: int, kernel: int, stride: int, begin: int, end: int, dilation: int) -> float:
    """Gaps between windows, elements that none reads, kernels that are seldom seen, pads other than those of "same"."""
    window = extent(kernel, dilation)
    is_whole = kernel == size and begin == end == 0
    seldom = {1: 1, 2: 0, 3: 0, 4: 1, 5: 1, 7: 1}.get(kernel, 1 if is_whole else 2 if kernel <= USUAL else 4)
    pads = 0 if begin == end == 0 else 1 if begin == end == (window - 1) // 2 else 3
    unread = max(0, size + begin + end - window) % stride / size
    return (
        10 * (window < stride) + 4 * unread + seldom + (kernel != stride) + 2 * (kernel > 2 * stride)
        + pads + 3 * (begin != end) + 4 * (window > size)
    )  # fmt: skip
