"""Pictures: what they show, where they are written, and that SVG and PNG show the same."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from poolcli import AdaptiveAvgPool, AreaPool, AvgPool, MaxPool
from poolcli.explain import example_outputs
from poolcli.explain.picture.axis_breaks import CELL, input_axis
from poolcli.explain.picture.canvas import COLOURS, Arrow, Box, Canvas, Dot, Label, Role, text_width
from poolcli.explain.picture.drawing import draw
from tests.conftest import Cli

SHADES = [role for role in COLOURS if role.startswith("read") or role == "padding"]


def boxes(op: Any, shape: tuple[int, ...]) -> list[Box]:
    return [shape for shape in draw(op.plan(shape)).shapes if isinstance(shape, Box)]


def cells(drawn: list[Box], *fills: Role | None) -> list[Box]:
    """The cells of these shades; those of the legend are smaller."""
    return [box for box in drawn if (box.width, box.height) == (CELL, CELL) and box.fill in fills]


def words(canvas: Canvas) -> list[str]:
    return [shape.text for shape in canvas.shapes if isinstance(shape, Label)]


def outline(drawn: list[Box], role: Role) -> Box:
    """The border of the window in that colour; the legend's comes later."""
    return next(box for box in drawn if box.stroke == role and box.fill is None)


def test_cells_show_padding_overlap_and_unused_elements() -> None:
    drawn = boxes(AvgPool(3, 2, 1, 0), (1, 1, 7, 7))
    assert len(cells(drawn, "padding")) == 8 * 8 - 7 * 7
    assert len(cells(drawn, "read1")) == 16  # even rows and columns but those at overlaps
    assert len(cells(drawn, "read4")) == 4
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
    drawn = boxes(op, (1, 1, size, size))
    left = min(box.x for box in drawn if box.width == CELL)
    places: tuple[tuple[Role, tuple[int, int]], ...] = (("first", first), ("last", last))
    for role, (start, stop) in places:
        window = outline(drawn, role)
        assert ((window.x - left) / CELL, (window.x + window.width - left) / CELL) == (start, stop)
    assert outline(drawn, "second").dashed


@pytest.mark.parametrize(
    "op",
    [AvgPool(15, 2, 7, 7), MaxPool(3, 3), AvgPool(100, 50, 40, 30), AdaptiveAvgPool(7), MaxPool(3, 2, dilations=40)],
)
def test_a_long_axis_shows_both_ends_of_three_windows_and_is_not_mostly_padding(op: Any) -> None:
    (axis,) = op.plan((1, 1, 1920)).axes
    line = input_axis(axis, example_outputs(axis.windows), 0)
    assert line.end < 40 * CELL
    inside = [position for position in line.shown if 0 <= position < 1920]
    assert len(inside) > len(line.shown) / 2
    edges = [
        place
        for o in example_outputs(axis.windows)
        for place in (line.at(axis.windows.start(o)), line.stop(stop_of(axis, o) - 1))
    ]
    assert len(set(edges[:2])) == 2
    assert edges[1] < edges[4], "the first and the last window share an edge"
    assert [line.at(position) for position in line.shown] == sorted({line.at(position) for position in line.shown})


def stop_of(axis: Any, output: int) -> int:
    w = axis.windows
    return int(w.start(output) + w.extent if hasattr(w, "extent") else w.stop(output))


def test_borders_stand_out_from_every_shade_and_hide_no_other() -> None:
    drawn = [box for box in boxes(AvgPool(3, 2, 1, 1), (1, 1, 6, 7)) if box.fill is None and box.width > CELL]
    assert [box.stroke for box in drawn] == ["page"] * 3 + ["first", "second", "last"]
    places = [(box.x, box.y, box.width, box.height) for box in drawn]
    assert places[:3] == places[3:]


def test_only_what_a_framework_has_is_as_a_framework(cli: Cli) -> None:
    for command, expected in (("avg -k 2", "avg pooling, as ONNX"), ("min -k 2", "min pooling")):
        name, *options = command.split()
        assert cli("shape", name, "1,1,6,7", *options, "--like", "onnx").out.splitlines()[0] == expected
    assert words(draw(AreaPool(3).plan((1, 1, 6, 7))))[0] == "area pooling: H=6 W=7 to H=3 W=3"


def test_the_words_name_sizes_sides_rounding_and_the_divisor() -> None:
    op = AvgPool((3, 5), 2, (2, 1), (0, 4), rounding_type="ceil", exclude_pad=False)
    said = words(draw(op.plan((1, 3, 6, 7))))
    assert said[0] == "avg pooling, as OpenVINO: H=6 W=7 to H=4 W=5"
    assert [*said[-4:-2], " ".join(said[-2:])] == [
        "Kernel 3 x 5, stride 2 x 2, pads top 2, bottom 0, left 1, right 4.",
        "Rounding ceil: H: ceil((6+2+0-3)/2) + 1 = 4; W: ceil((7+1+4-5)/2) + 1 = 5.",
        "Divisor: the window's full size, 15 (include; overhang counts because a pad is not 0).",
    ]
    assert {"input  H=6 W=7", "output  H=4 W=5", "H", "W"} <= set(said)
    assert "Each output is the maximum of its window." in words(draw(MaxPool(2, 2).plan((1, 1, 4, 4))))


def test_the_output_holds_what_each_sum_is_divided_by() -> None:
    def numbers(op: Any) -> list[str]:
        return [s.text for s in draw(op.plan((1, 1, 6, 7))).shapes if isinstance(s, Label) and s.size == 10]

    legend = ["9"]
    assert numbers(AvgPool(3, 2, 1, 1)) == [*"4664", *"6996", *"6996", *legend]
    assert numbers(AvgPool(3, 2, 1, 1, divisor_override=-5)) == [*["-5"] * 12, *legend]
    assert numbers(MaxPool(3, 2, 1, 1)) == []


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (AvgPool(3, 2, 1, 1), (1, 1, 6, 7)),
        (MaxPool(3, 2, dilations=2), (1, 1, 9, 9)),
        (AvgPool(2, 3), (1, 1, 7, 7)),
        (AvgPool(15, 2, 7, 7), (1, 1, 1080, 1920)),
        (AvgPool(3, 2, 1, 1, rounding_type="ceil"), (1, 1, 6, 33, 128)),
        (AdaptiveAvgPool(3), (1, 1, 7)),
    ],
)
def test_the_legend_has_every_shade_that_is_used_and_no_other(op: Any, shape: tuple[int, ...]) -> None:
    drawn = boxes(op, shape)
    legend = [box for box in drawn if (box.width, box.height) == (14, 14)]
    for role in SHADES:
        stroke = "faint" if role == "padding" else "grid"
        assert bool(cells(drawn, role)) == any((box.fill, box.stroke) == (role, stroke) for box in legend), role


def test_one_and_three_axes_are_strips_with_a_row_for_each_window() -> None:
    said = words(draw(AvgPool(2, 2, 1, 1).plan((1, 1, 4, 6, 8))))
    assert [word for word in said if word in "DHW"] == ["D", "H", "W"]
    assert [word for word in said if word.startswith("input")] == [
        "input 4, output 3:  (4+1+1-2)//2 + 1 = 3",
        "input 6, output 4:  (6+1+1-2)//2 + 1 = 4",
        "input 8, output 5:  (8+1+1-2)//2 + 1 = 5",
    ]
    assert [word for word in said if word.startswith("reads")][:3] == [
        "reads 0, divides by 1",
        "reads 1 to 2, divides by 2",
        "reads 3, divides by 1",
    ]
    maxima = words(draw(MaxPool(2, 2, 1, dilations=2).plan((1, 1, 6))))
    assert [word for word in maxima if word.startswith("reads")] == [
        "reads 1",
        "reads 1 to 3, 2 elements",
        "reads 3 to 5, 2 elements",
    ]
    assert [word for word in said if word.startswith("window")] == [
        f"window {o}" for count in (3, 4, 5) for o in range(count)
    ]
    many = words(draw(AdaptiveAvgPool(50).plan((1, 1, 1))))
    assert [word for word in many if word.startswith("window")] == ["window 0", "window 1", "window 49"]
    long = words(draw(MaxPool(3, 2).plan((1, 1, 99))))
    assert [word for word in long if word.startswith("window")] == ["window 0", "window 1", "window 48"]


def test_strips_show_holes_of_dilated_windows_and_what_lies_outside() -> None:
    drawn = boxes(AvgPool(3, 1, 2, 2, 2), (1, 1, 5))
    assert [box.fill for box in drawn if box.width == CELL] == [
        "padding", "padding", "read2", "read2", "read3", "read2", "read2", "padding", "padding",
    ]  # fmt: skip
    taps = [box for box in drawn if box.width == CELL - 3 and box.stroke]
    assert [box.fill == "page" for box in taps] == [box.dashed for box in taps] == [
        True, False, False, True, False, False, False, False, False, False, False, True, False, False, True,
    ]  # fmt: skip
    ends = [words(draw(AvgPool(3, 2, pad, pad, rounding_type="ceil").plan((1, 1, 6)))) for pad in (0, 1)]
    assert ["past the input" in ends[0], "past the padding" in ends[1]] == [True, True]


def test_dilated_windows_have_a_dot_on_each_element() -> None:
    shapes = draw(MaxPool(3, 2, dilations=2).plan((1, 1, 9, 9))).shapes
    assert sum(isinstance(shape, Dot) and shape.radius == 3 for shape in shapes) == 27


def test_the_files_hold_the_whole_drawing(cli: Cli, folder: Path) -> None:
    for name in ("p.svg", "p.png"):
        assert cli("shape", "avg", "1,3,7,7", "-k", "3", "-s", "2", "-p", "1", "--picture", name, "-q").code == 0
    canvas = draw(AvgPool(3, 2, 1, 1).plan((1, 3, 7, 7)))
    root = ET.parse("p.svg").getroot()  # noqa: S314
    assert [text.text for text in root.findall("{*}text")] == words(canvas)
    assert len(root.findall("{*}path")) == sum(isinstance(shape, Arrow) for shape in canvas.shapes)
    assert [root.findtext("{*}title"), root.findtext("{*}desc")] == [canvas.title, canvas.description]
    with Image.open("p.png") as image:
        assert image.size == (round((canvas.width + 20) * 2), round((canvas.height + 20) * 2))
        window = outline([shape for shape in canvas.shapes if isinstance(shape, Box)], "first")
        assert image.getpixel((round(window.x * 2), round((window.y + 30) * 2))) == (220, 38, 38)
    again = cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", "p.svg", "-q")
    assert (again.code, "--overwrite" in again.err) == (2, True)
    assert cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", "p.svg", "-q", "--overwrite").code == 0


def test_a_picture_is_light_or_dark_or_follows_its_reader(cli: Cli, folder: Path) -> None:
    for name, theme in (("a.svg", "auto"), ("l.svg", "light"), ("d.svg", "dark"), ("d.png", "dark")):
        assert cli("shape", "avg", "1,3,7,7", "-k", "3", "--picture", name, "--theme", theme, "-q").code == 0
    light, dark = COLOURS["page"]
    page = {name: re.findall(r'height="100%" class="f-page" fill="(.+)"', Path(name).read_text())
            for name in ("a.svg", "l.svg", "d.svg")}  # fmt: skip
    assert page == {"a.svg": [light], "l.svg": [light], "d.svg": [dark]}
    styles = [Path(name).read_text().count("prefers-color-scheme:dark") for name in ("a.svg", "l.svg", "d.svg")]
    assert styles == [1, 0, 0]
    assert f".f-page{{fill:{dark}}}" in Path("a.svg").read_text()
    with Image.open("d.png") as image:
        assert "#{:02x}{:02x}{:02x}".format(*image.getpixel((1, 1))) == dark  # type: ignore[misc]  # three numbers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--picture", "p.gif"], "poolcli: --picture p.gif ends in .gif; use .svg, .png or .html\n"),
        (
            ["--picture", "p.svg", "--theme", "sepia"],
            "poolcli: --theme is 'sepia'; it must be one of auto, light, dark\n",
        ),
        (["--theme", "dark"], "poolcli: --theme dark is for --picture; give both, or neither\n"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: list[str], message: str, cli: Cli, folder: Path) -> None:
    done = cli("shape", "avg", "1,3,7,7", "-k", "3", *options)
    assert (done.code, done.err) == (2, message)


def test_the_numbers_of_a_long_axis_stand_apart_and_the_legend_names_its_first_shade_in_full() -> None:
    canvas = draw(AvgPool(3, 1000).plan((1, 1, 1_000_000)))
    shown = [shape for shape in canvas.shapes if isinstance(shape, Label) and shape.text.isdigit() and shape.size < 10]
    ends = [
        (word.x - text_width(word.text, word.size) / 2, word.x + text_width(word.text, word.size) / 2) for word in shown
    ]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert [word.text for word in shown][-5:] == ["998997", "998999", "999001", "999003", "999999"]
    assert [word for word in words(canvas) if word.startswith("read by")] == ["read by no window", "read by 1 window"]
