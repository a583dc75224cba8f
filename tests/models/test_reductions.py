"""Which reductions are pooling."""

from __future__ import annotations

import pytest

from poolcli.models.layer import reduced_layout


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes", "layout"),
    [((1, 3, 8, 8), (2, 3), "NCHW"), ((1, 3, 8, 8), (-1, -2), "NCHW"), ((1, 8, 8, 3), (1, 2), "NHWC"),
     ((1, 3, 2, 8, 8), (4, 2, 3), "NCDHW"), ((1, 2, 8, 8, 3), (1, 2, 3), "NDHWC"), ((1, 3, 8, 8), (1, 3), None),
     ((1, 3, 8, 8), (2,), None), ((1, 3, 8, 8), (2, 4), None), ((1, 3), (1,), None)],
)  # fmt: skip
def test_those_of_all_spatial_axes_are_whatever_the_order(
    shape: tuple[int, ...], axes: tuple[int, ...], layout: str | None, last: bool, keeps: bool
) -> None:
    assert reduced_layout(axes, shape, keeps=keeps, last=last) == layout


@pytest.mark.parametrize(
    ("axes", "last", "keeps", "layout"),
    [
        ((2,), False, True, "NCW"),
        ((2,), False, False, "NCW"),
        ((-1,), False, False, "NCW"),
        ((-1,), False, True, None),
        ((1,), False, False, None),
        ((1,), True, True, "NWC"),
        ((-2,), True, False, "NWC"),
        ((2,), True, False, None),
        ((-1,), True, True, None),
    ],
)
def test_with_one_spatial_axis_it_is_told_by_what_the_format_has_and_by_its_name(
    axes: tuple[int, ...], last: bool, keeps: bool, layout: str | None
) -> None:
    assert reduced_layout(axes, (2, 5, 8), keeps=keeps, last=last) == layout
