"""What the windows of an axis may be, going by its lengths alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from poolcli.explain.lengths import USUAL, unusual
from poolcli.windows import Sliding, ceil_div, extent

DILATIONS = 3  # up to which dilations are tried


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Kernel, stride, dilation and padding at the beginning of one axis; what ends it follows from the lengths."""

    size: int
    output: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int

    @property
    def overhang(self) -> int:
        """How far the last window reaches past the input; below 0 where it ends before."""
        return (self.output - 1) * self.stride + extent(self.kernel, self.dilation) - self.size - self.pad_begin

    @property
    def windows(self) -> Sliding:
        """The windows, padded as far as the last one reaches."""
        end = max(0, self.overhang)
        return Sliding(self.size, self.output, self.kernel, self.stride, self.dilation, self.pad_begin, end)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """What a person writes of it."""
        return self.kernel, self.stride, self.dilation, self.pad_begin

    @property
    def cost(self) -> float:
        """How seldom such windows are used."""
        end = self.pad_begin if self.overhang <= self.pad_begin else max(0, self.overhang)
        return (
            unusual(self.size, self.kernel, self.stride, self.pad_begin, end, self.dilation) + 2 * (self.dilation - 1)
        )  # fmt: skip


def hypotheses(size: int, output: int, given: Mapping[str, int]) -> list[Hypothesis]:
    """Kernels up to 11, those about as long as a window's share, and the whole input; dilations up to 3; pads shorter
    than the kernel or half of its extent; every stride that gives that many outputs. The plainest are first.
    """
    return sorted(_guesses(size, output, given), key=_cost)


@cache
def _cost(guess: Hypothesis) -> tuple[float, int, int]:
    return guess.cost, guess.kernel, guess.stride


def _guesses(size: int, output: int, given: Mapping[str, int]) -> Iterator[Hypothesis]:
    share = max(1, size // output)
    kernels = {
        *range(1, min(USUAL, 2 * size) + 1),
        *range(max(1, share - 1), share + 3),
        2 * share,
        2 * share - 1,
        size,
    }
    for kernel in [given["kernel"]] if "kernel" in given else sorted(kernels):
        dilations = range(1, DILATIONS + 1) if kernel > 1 and kernel <= USUAL else [1]
        for dilation in [given["dilations"]] if "dilations" in given else dilations:
            window = extent(kernel, dilation)
            pads = range(max(kernel, window // 2 + 1)) if kernel <= 2 * USUAL else (0, kernel // 2)
            for begin in [given["pads_begin"]] if "pads_begin" in given else pads:
                for stride in _strides(size, output, kernel, window, begin, given):
                    guess = Hypothesis(size, output, kernel, stride, dilation, begin)
                    if -stride < guess.overhang < window and window <= size + begin + max(0, guess.overhang):
                        yield guess


def _strides(
    size: int, output: int, kernel: int, window: int, begin: int, given: Mapping[str, int]
) -> range | list[int]:
    if "strides" in given:
        return [given["strides"]]
    if output == 1:
        return [max(kernel, size + begin - window + 1)]
    low = max(1, ceil_div(size + begin - window + 1, output))
    return range(low, (size + begin - 1) // (output - 1) + 1)
