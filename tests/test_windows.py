"""The windows of one axis, held against lists made by the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from poolcli.windows import Bins, Sliding, ceil_div, extent, same_pads, sliding_output

small = st.integers(1, 9)


@st.composite
def sliding(draw: st.DrawFn) -> Sliding:
    size, kernel, stride, dilation = draw(small), draw(st.integers(1, 6)), draw(small), draw(st.integers(1, 12))
    begin, end = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    rounding = draw(st.sampled_from(["floor", "ceil", "ceil_torch"]))
    window = extent(kernel, dilation)
    begin += max(0, window - size - begin - end)
    output = max(1, sliding_output(size, window, stride, begin, end, rounding))
    return Sliding(
        size, output, kernel, stride, dilation, begin, end, draw(st.sampled_from(["inside", "clipped", "kernel"]))
    )


def taps(w: Sliding, o: int) -> list[int]:
    return [o * w.stride - w.pad_begin + j * w.dilation for j in range(w.kernel)]


def inside(w: Sliding, o: int) -> list[int]:
    return [t for t in taps(w, o) if 0 <= t < w.size]


@given(sliding())
def test_a_sliding_window_reads_its_taps_inside_the_input(w: Sliding) -> None:
    everything = range(w.output)
    assert [list(w.span(o)) for o in everything] == [inside(w, o) for o in everything]
    assert [w.inside(o) for o in everything] == [len(inside(w, o)) for o in everything]


@given(sliding())
def test_divisors_count_what_the_rule_says(w: Sliding) -> None:
    end = {"inside": None, "clipped": w.size + w.pad_end, "kernel": None}[w.counted]
    for o in range(w.output):
        expected = {
            "inside": len(inside(w, o)),
            "kernel": w.kernel,
            "clipped": sum(t < (end or 0) for t in taps(w, o)),
        }[w.counted]
        assert w.divisor(o) == expected


def test_a_window_that_begins_past_the_pads_counts_nothing() -> None:
    w = Sliding(4, 2, 1, 5, 1, 0, 0, "clipped")
    assert [w.divisor(0), w.divisor(1), w.inside(1)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("windows", "grain"),
    [(Bins(9, 4), 1), (Sliding(20, 6, 6, 3, 1, 0, 0), 2), (Sliding(20, 8, 6, 2, 1, 0, 0), 3),
     (Sliding(20, 5, 5, 4, 1, 0, 0), 5), (Sliding(20, 16, 5, 1, 1, 0, 0), 5)],
    ids=["bins", "6 by 3", "6 by 2", "5 by 4", "5 by 1"],
)  # fmt: skip
def test_windows_are_cut_apart_where_their_blocks_of_rows_begin_anew(windows: Bins | Sliding, grain: int) -> None:
    assert windows.grain == grain


@given(sliding())
def test_arrays_of_indices_give_the_same_numbers_as_single_ones(w: Sliding) -> None:
    o = np.arange(w.output)
    assert w.inside(o).tolist() == [w.inside(i) for i in range(w.output)]
    assert w.divisor(o).tolist() == [w.divisor(i) for i in range(w.output)]
    assert w.start(o).tolist() == [w.start(i) for i in range(w.output)]


@given(sliding())
@example(Sliding(1, 3, 2, 2, 3, 3, 5))  # taps step over the input
def test_empty_windows_unused_rows_and_interior_match_a_count(w: Sliding) -> None:
    everything = range(w.output)
    assert w.empty_windows == sum(not inside(w, o) for o in everything)
    assert w.unused == len(set(range(w.size)) - {t for o in everything for t in inside(w, o)})
    whole = [o for o in everything if taps(w, o)[0] >= 0 and taps(w, o)[-1] < w.size]
    assert list(w.interior) == whole
    assert 0 <= w.interior.start <= w.interior.stop <= w.output


@given(sliding(), st.data())
def test_some_windows_read_from_their_first_element_to_their_last(w: Sliding, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, w.output - 1))
    outputs = range(first, data.draw(st.integers(first + 1, w.output)))
    read = w.reads(outputs)
    assert {t for o in outputs for t in inside(w, o)} <= set(read) <= set(range(w.size))
    assert 1 <= len(read) <= max(1, (len(outputs) - 1) * w.stride + w.extent) or len(outputs) == w.output
    reached = {j: [o for o in outputs if 0 <= taps(w, o)[j] < w.size] for j in range(w.kernel)}
    assert {j: list(w.outputs_of_tap(j, outputs)) for j in range(w.kernel)} == reached
    assert {j for j, some in reached.items() if some} <= set(w.taps(outputs)) <= set(range(w.kernel))


@given(st.integers(1, 40), st.integers(1, 90))
@example(7, 25)
@example(2, 98)
def test_bins_follow_integer_division(size: int, output: int) -> None:
    w = Bins(size, output)
    expected = [range(i * size // output, ceil_div((i + 1) * size, output)) for i in range(output)]
    assert [w.span(i) for i in range(output)] == expected
    lengths = [len(r) for r in expected]
    assert w.lengths == (min(lengths), max(lengths))
    assert w.inside(np.arange(output)).tolist() == lengths
    assert w.reads(range(output // 2, output)) == range(expected[output // 2].start, size)


@pytest.mark.parametrize("size", range(1, 30))
def test_bins_equal_a_sliding_window_exactly_where_they_say_so(size: int) -> None:
    for output in range(1, 40):
        bins = [Bins(size, output).span(i) for i in range(output)]
        pairs = [
            (k, s)
            for k in range(1, size + 1)
            for s in range(1, size + 1)
            if [range(i * s, i * s + k) for i in range(output)] == bins and (size - k) // s + 1 == output
        ]
        claimed = Bins(size, output).equal_to
        assert (claimed in pairs) if claimed else not pairs


@pytest.mark.parametrize(
    ("n", "k", "s", "d", "upper", "pads"),
    [(32, 2, 2, 1, True, (0, 0)), (32, 5, 2, 1, True, (1, 2)), (32, 5, 2, 1, False, (2, 1)), (5, 3, 1, 2, True, (2, 2)),
     (11, 1, 4, 1, True, (0, 0)), (8, 1, 3, 1, False, (0, 0)), (7, 4, 1, 3, False, (5, 4))],
)  # fmt: skip
def test_same_pads_use_the_dilated_kernel_and_never_go_below_zero(
    n: int, k: int, s: int, d: int, upper: bool, pads: tuple[int, int]
) -> None:
    assert same_pads(n, k, s, d, upper) == pads


def test_closed_forms_answer_at_once_near_2_to_the_63() -> None:
    n = 2**63 - 1
    w = Sliding(n, sliding_output(n, 3, 2, 2**62, 0, "floor"), 3, 2, 1, 2**62, 0)
    assert w.output == (2**62 + n - 3) // 2 + 1
    assert w.empty_windows == (2**62 - 2 + 1) // 2
    assert w.unused == 0
    assert Sliding(3, 2**40, 2, 7, 2**20, 2**42, 2**50).empty_windows > 0
    assert (Bins(n, n - 1).lengths, Bins(n, n - 1).empty_windows, Bins(n, n - 1).unused) == ((2, 2), 0, 0)
