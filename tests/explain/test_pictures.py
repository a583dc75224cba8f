"""Pictures: what they show, where they are written, and that SVG and PNG show the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from poolcli import AdaptiveAvgPool, AvgPool, MaxPool
from poolcli.explain.canvas import Box, Dot, Words
from poolcli.explain.picture import CELL, COVERED, FIRST, LAST, PADDING, SECOND, draw
from tests.conftest import Cli


def boxes(op: Any, shape: tuple[int, ...]) -> list[Box]:
    return [shape for shape in draw(op.plan(shape)).shapes if isinstance(shape, Box)]


def outline(drawn: list[Box], colour: str) -> Box:
    """The border of the window in that colour; the legend's comes later."""
    return next(box for box in drawn if box.stroke == colour)


def test_cells_show_padding_overlap_and_unused_elements() -> None:
    drawn = [box for box in boxes(AvgPool(3, 2, 1, 0), (1, 1, 7, 7)) if box.width == CELL]
    assert sum(box.fill == PADDING for box in drawn) == 8 * 8 - 7 * 7
    assert sum(box.fill == COVERED[1] for box in drawn) == 16  # even rows and columns but those at overlaps
    assert sum(box.fill == COVERED[4] for box in drawn) == 4
    unused = [box for box in boxes(AvgPool(2, 3), (1, 1, 7)) if box.hatched and box.width == CELL]
    assert len(unused) == 3


@pytest.mark.parametrize(
    ("op", "size", "first", "last"),
    [
        (AvgPool(3, 2, 1, 1), 7, (0, 3), (6, 9)),  # in cells from the first padding
        (AdaptiveAvgPool(3), 7, (0, 3), (4, 7)),
        (MaxPool(3, 1, dilations=2), 9, (0, 5), (4, 9)),
    ],
)
def test_the_first_and_the_last_window_are_where_they_lie(
    op: Any, size: int, first: tuple[int, int], last: tuple[int, int]
) -> None:
    drawn = boxes(op, (1, 1, size))
    left = min(box.x for box in drawn if box.width == CELL)
    for colour, (start, stop) in ((FIRST, first), (LAST, last)):
        window = outline(drawn, colour)
        assert ((window.x - left) / CELL, (window.x + window.width - left) / CELL) == (start, stop)
    assert outline(drawn, SECOND).dashed


def test_a_large_image_shows_its_ends_and_a_break() -> None:
    canvas = draw(MaxPool(3, 3).plan((1, 3, 3000, 4000)))
    words = [shape.text for shape in canvas.shapes if isinstance(shape, Words)]
    assert {"0", "10", "2999", "3999", "999", "1332"} <= set(words)
    assert "11" not in words
    assert sum(isinstance(shape, Dot) for shape in canvas.shapes) == 12
    assert canvas.width < 1600
    assert words[0] == "max: 3000 x 4000 to 1000 x 1333, kernel 3 x 3, stride 3 x 3"


def test_three_axes_are_three_strips_and_dilated_windows_have_dots() -> None:
    words = [s.text for s in draw(AvgPool(2, 2).plan((1, 1, 4, 6, 8))).shapes if isinstance(s, Words)]
    assert [word for word in words if word.startswith("axis")] == ["axis D", "axis H", "axis W"]
    dots = [s for s in draw(MaxPool(3, 2, dilations=2).plan((1, 1, 9, 9))).shapes if isinstance(s, Dot)]
    assert len(dots) == 27


def test_the_files_hold_the_whole_drawing(cli: Cli, folder: Path) -> None:
    for name in ("p.svg", "p.png"):
        assert cli("shape", "avg", "1,3,7,7", "-k", "3", "-s", "2", "-p", "1", "--picture", name, "-q").code == 0
    canvas = draw(AvgPool(3, 2, 1, 1).plan((1, 3, 7, 7)))
    root = ET.parse("p.svg").getroot()  # noqa: S314
    assert len(root.findall("{*}text")) == sum(isinstance(shape, Words) for shape in canvas.shapes)
    with Image.open("p.png") as image:
        assert image.size == (round((canvas.width + 20) * 2), round((canvas.height + 20) * 2))
        window = outline([shape for shape in canvas.shapes if isinstance(shape, Box)], FIRST)
        assert image.getpixel((round(window.x * 2), round((window.y + 30) * 2))) == (220, 38, 38)
    again = cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", "p.svg", "-q")
    assert (again.code, "--overwrite" in again.err) == (2, True)
    assert cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", "p.svg", "-q", "--overwrite").code == 0


def test_other_kinds_of_file_are_refused(cli: Cli, folder: Path) -> None:
    done = cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", "p.gif")
    assert (done.code, done.err) == (2, "poolcli: --picture p.gif ends in .gif; use .svg or .png\n")
