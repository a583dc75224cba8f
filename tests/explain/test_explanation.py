"""Explanations: every fact against the definition, every sentence with the right numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings, strategies as st

from poolcli import AdaptiveAvgPool, AvgPool, MaxPool, RequestError
from poolcli.explain import explain, facts, window
from poolcli.windows import Bins, Sliding
from tests.profiles import sized

NUMBERS = st.integers(1, 6)


@st.composite
def sliding_ops(draw: st.DrawFn) -> MaxPool:
    return MaxPool(
        draw(NUMBERS), strides=draw(NUMBERS), pads=draw(st.integers(0, 4)), dilations=draw(st.integers(1, 3)),
        auto_pad=draw(st.sampled_from(["explicit", "same_upper", "same_lower", "valid"])),
        rounding_type=draw(st.sampled_from(["floor", "ceil", "ceil_torch"])),
    )  # fmt: skip


@settings(max_examples=sized(100, 500), derandomize=True)
@given(sliding_ops(), st.integers(1, 20))
def test_facts_of_sliding_windows_are_those_of_the_definition(op: MaxPool, size: int) -> None:
    try:
        plan = op.plan((1, 1, size))
    except RequestError:
        return
    (axis,), (explained,) = plan.axes, plan.explain().axes
    w = axis.windows
    assert isinstance(w, Sliding)
    taps = [[w.start(o) + j * w.dilation for j in range(w.kernel)] for o in range(w.output)]
    read = [[p for p in positions if 0 <= p < size] for positions in taps]
    assert explained.extent == taps[0][-1] - taps[0][0] + 1
    assert explained.unused == len(set(range(size)) - {p for positions in read for p in positions})
    assert explained.empty == sum(not positions for positions in read)
    assert explained.overhanging == sum(positions[-1] >= size + w.pad_end for positions in taps)
    for o in range(w.output):
        found = window(axis.windows, o)
        assert (found.start, found.stop, found.inside) == (taps[o][0], taps[o][-1] + 1, len(read[o]))
        assert (found.first, found.last) == ((read[o][0], read[o][-1]) if read[o] else (None, None))
    assert explained.steps[-1].endswith(f"= {w.output}")


@settings(max_examples=sized(60, 300), derandomize=True)
@given(st.integers(1, 60), st.integers(1, 60))
def test_facts_of_bins_are_those_of_the_definition(size: int, output: int) -> None:
    plan = AdaptiveAvgPool(output).plan((1, 1, size))
    (explained,) = explain(plan).axes
    w = plan.axes[0].windows
    assert isinstance(w, Bins)
    lengths = Counter(len(w.span(i)) for i in range(output))
    if explained.equal_to:
        kernel, stride = explained.equal_to
        assert [(r.start, r.stop) for r in map(w.span, range(output))] == [
            (i * stride, i * stride + kernel) for i in range(output)
        ]
    else:
        assert dict(explained.lengths) == lengths
        starts = [w.span(i).start for i in range(output)]
        steps = {b - a for a, b in pairwise(starts)}
        assert len(lengths) > 1 or len(steps) > 1 or steps == {0}  # a stride is at least 1


def test_the_text_fills_in_the_numbers() -> None:
    text = str(AvgPool(5, strides=3, pads=1).plan((1, 3, 32, 32)).explain())
    assert text.splitlines()[:8] == [
        "axis H:",
        "  window: 5 positions (the kernel)",
        "  padded size: 32 + 1 + 1 = 34",
        "  last start: 34 - 5 = 29",
        "  steps: 29 / 3 = 9 and 2/3, rounded down (floor) to 9",
        "  outputs: 9 + 1 = 10",
        "  receptive field: 5 positions",
        "  1 unused input element",
    ]


def test_a_plan_without_a_fact_does_not_mention_it() -> None:
    (axis,) = MaxPool(2, strides=2).plan((1, 1, 8)).explain().axes
    assert facts(axis) == ["receptive field: 2 positions"]


def test_huge_sizes_are_explained_at_once() -> None:
    (axis,) = AvgPool(3, strides=2, pads=1).plan((1, 1, 2**62)).explain().axes
    assert axis.windows[-1].output == 2**61 - 1
    (axis,) = AdaptiveAvgPool(2**61).plan((1, 1, 2**62 + 2)).explain().axes
    assert axis.lengths == ((3, 2**61),)
