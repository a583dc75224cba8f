"""Which reductions are pooling."""

from __future__ import annotations

import pytest

from poolcli.models.layer import pools_spatial_axes, spatial_layout


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes", "layout"),
    [((1, 3, 8, 8), (2, 3), None), ((1, 3, 8, 8), (-1, -2), None), ((1, 8, 8, 3), (1, 2), "NHWC"),
     ((1, 3, 2, 8, 8), (4, 2, 3), None), ((1, 2, 8, 8, 3), (1, 2, 3), "NDHWC")],
)  # fmt: skip
def test_those_of_all_spatial_axes_are_whatever_the_order(
    shape: tuple[int, ...], axes: tuple[int, ...], layout: str | None, last: bool, keeps: bool
) -> None:
    assert (pools_spatial_axes(axes, shape, keeps=keeps, last=last), spatial_layout(axes, shape)) == (True, layout)


@pytest.mark.parametrize(
    ("axes", "last", "keeps", "is_one"),
    [
        ((2,), False, True, True),
        ((2,), False, False, True),
        ((-1,), False, False, True),
        ((-1,), False, True, False),
        ((1,), False, False, False),
        ((1,), True, True, True),
        ((-2,), True, False, True),
        ((2,), True, False, False),
        ((-1,), True, True, False),
    ],
)
def test_with_one_spatial_axis_it_is_told_by_what_the_format_has_and_by_its_name(
    axes: tuple[int, ...], last: bool, keeps: bool, is_one: bool
) -> None:
    assert pools_spatial_axes(axes, (2, 5, 8), keeps=keeps, last=last) is is_one


def test_a_single_axis_of_sequences_is_that_between_batch_and_channels() -> None:
    assert spatial_layout((1,), (2, 5, 8)) == "NWC"
