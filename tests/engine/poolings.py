"""Poolings drawn by chance: of sliding windows, and of adaptive ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.plan import Plan
from tests.profiles import sized

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Pooling:
    """Arguments of a pooling, whether it averages or takes maxima, and the shape and layout of its input."""

    shape: Numbers
    options: dict[str, Any]
    layout: str | None = None

    def plan(self, averages: bool, dtype: str, **more: Any) -> Plan:
        """The plan of the average or the maximum."""
        if "output_size" in self.options:
            op: Any = (AdaptiveAvgPool if averages else AdaptiveMaxPool)(**self.options)
        elif averages:
            op = AvgPool(**self.options)
        else:
            options = {name: value for name, value in self.options.items() if name != "exclude_pad"}
            op = MaxPool(**options, axis=2)  # counted in N, C, D, H, W: indices are positions inside a plane
        plan: Plan = op.plan(self.shape, dtype, layout=self.layout, **more)
        return plan


def between(*numbers: int) -> range:
    """A number, or those from the first to the last."""
    return range(numbers[0], numbers[-1] + 1)


ANY, ONE, SHORT = between(1, 4), between(1), between(0, 9)
# Where each number has a kernel of its own, and where one window alone has another: building takes most of the time.
FEW, SEVERAL = sized((range(1, 4, 2), between(4, 9)), (ANY, SHORT))
LONG = between(520, 560)


@st.composite
def sliding(
    draw: st.DrawFn,
    kernel: tuple[range, ...],
    stride: tuple[range, ...],
    room: tuple[range, ...],
    dilation: range = range(1, 2),
    padded: bool = True,
    channels: range = range(1, 3),
    last: bool = False,
) -> Pooling:
    """Sliding windows: for each axis a kernel, a stride, and how much longer than the window the axis is; `last`: the
    channels come last.
    """
    k, s, more = (tuple(draw(st.sampled_from(numbers)) for numbers in choice) for choice in (kernel, stride, room))
    d = tuple(draw(st.sampled_from(dilation)) for _ in k)
    window = [(a - 1) * b + 1 for a, b in zip(k, d, strict=True)]
    pads = [tuple(draw(st.integers(0, min(w - 1, 3) if padded else 0)) for w in window) for _ in range(2)]
    shape = tuple(w + m for w, m in zip(window, more, strict=True))
    c = draw(st.sampled_from(channels))
    exclude = draw(st.booleans())
    options: dict[str, Any] = {
        "kernel": k, "strides": s, "pads_begin": pads[0], "pads_end": pads[1], "dilations": d,
        "rounding_type": draw(st.sampled_from(["floor", "ceil"])) if padded else "floor",
    }  # fmt: skip
    return Pooling((2, *shape, c) if last else (2, c, *shape), options | {"exclude_pad": exclude}, _last(k, last))


@st.composite
def adaptive(
    draw: st.DrawFn,
    size: tuple[range, ...],
    output: tuple[range, ...],
    last: bool = False,
    channels: range = between(2),
) -> Pooling:
    """Windows of uneven lengths; `last`: the channels come last."""
    shape = tuple(draw(st.sampled_from(numbers)) for numbers in size)
    wanted = tuple(draw(st.sampled_from(numbers)) for numbers in output)
    many = draw(st.sampled_from(channels))
    return Pooling((1, *shape, many) if last else (1, many, *shape), {"output_size": wanted}, _last(wanted, last))


def any_two_axes() -> st.SearchStrategy[Pooling]:
    to_nine = (between(1, 9), between(1, 9))
    return sliding((ANY, ANY), (ANY, ANY), (SHORT, SHORT), between(1, 2)) | adaptive(to_nine, to_nine)


def _last(axes: Numbers, last: bool) -> str | None:
    return "N" + "DHW"[-len(axes) :] + "C" if last else None
