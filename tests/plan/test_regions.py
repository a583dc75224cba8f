"""A region says what it reads, what that costs, and where it may be cut."""

from __future__ import annotations

from itertools import product

import pytest

from poolcli import AvgPool
from poolcli.plan.plan import Region, parts_of, whole

PLAN = AvgPool((2, 3), strides=(2, 1), pads_begin=1, pads_end=0, exclude_pad=False).plan(
    (2, 3, 9, 10), "uint8", output_dtype="float32"
)


def test_the_whole_reads_all_that_windows_reach_and_computes_every_output() -> None:
    region = whole(PLAN)
    assert region.outputs == (range(2), range(3), range(5), range(9))
    assert region.reads == (range(2), range(3), range(9), range(10))
    assert (region.input_shape, region.output_shape) == ((2, 3, 9, 10), (2, 3, 5, 9))
    assert region.nbytes == 2 * 3 * 9 * 10 * 1 + 2 * 3 * 5 * 9 * 4
    assert region.grains == (1, 1, 1, 3)


def test_a_cut_along_an_axis_leaves_the_others_as_they_were() -> None:
    region = whole(PLAN).cut(0, range(1, 2)).cut(2, range(1, 3)).cut(3, range(3, 5))
    assert region == Region(PLAN, (range(1, 2), range(3), range(1, 3), range(3, 5)))
    assert region.reads == (range(1, 2), range(3), range(1, 5), range(2, 6))
    assert region.nbytes == 3 * 4 * 4 * 1 + 3 * 2 * 2 * 4


@pytest.mark.parametrize(
    ("most", "rows", "columns"),
    [
        (150, [range(5)], [range(10)]),
        (149, [range(4), range(4, 5)], [range(10)]),
        (90, [range(3), range(3, 5)], [range(10)]),
        (89, [range(2), range(2, 4), range(4, 5)], [range(10)]),
        (30, [range(i, i + 1) for i in range(5)], [range(10)]),
        (29, [range(i, i + 1) for i in range(5)], [range(9), range(9, 10)]),
    ],
)
def test_parts_have_as_many_rows_as_their_bytes_allow(most: int, rows: list[range], columns: list[range]) -> None:
    plan = AvgPool((2, 1), strides=(2, 1)).plan(
        (10, 10), "uint8", layout="HW"
    )  # an output row reads 20 bytes and has 10
    assert [part.outputs for part in parts_of(whole(plan), most)] == list(product(rows, columns))
