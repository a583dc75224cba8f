"""Pictures: what they show, what the pointer shows on their page, and where they are written."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AreaPool, AvgPool, MaxPool, RequestError
from poolcli.explain import example_outputs
from poolcli.explain.svg.canvas import CELL, input_axis, text_width
from poolcli.ops.plan import Plan
from tests.conftest import Cli

SVG = "{http://www.w3.org/2000/svg}"
CEIL = AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)")


def drawing(op: Any, *shape: int) -> ET.Element:
    return ET.fromstring(op.plan((1, 1, *shape)).picture().svg())  # noqa: S314  # it is made here


def boxes(drawn: ET.Element, width: float, *classes: str) -> list[dict[str, Any]]:
    """The rectangles of that width and these classes: position and size as numbers, `dashed` and `class`."""
    found = []
    for box in drawn.iter(f"{SVG}rect"):
        if box.get("width") == f"{width:g}" and (not classes or box.get("class") in classes):
            numbers: dict[str, Any] = {name: float(box.get(name, 0)) for name in ("x", "y", "width", "height")}
            found.append(numbers | {"dashed": box.get("stroke-dasharray") is not None, "class": box.get("class")})
    return found


def words(drawn: ET.Element) -> list[str]:
    return [str(text.text) for text in drawn.iter(f"{SVG}text")]


def told(drawn: ET.Element) -> dict[str, list[str]]:
    """What the pointer shows of each output element, line by line."""
    return {at: str(g.findtext(f"{SVG}title")).splitlines() for g in drawn.iter(f"{SVG}g") if (at := g.get("data-at"))}


def test_cells_show_padding_overlap_and_unused_elements() -> None:
    drawn = drawing(AvgPool(3, strides=2, pads_begin=1, pads_end=0), 7, 7)
    counts = [len(boxes(drawn, CELL, name)) for name in ("f-padding s-faint", "f-read1 s-grid", "f-read4 s-grid")]
    assert counts == [8 * 8 - 7 * 7, 16, 4]
    assert len(boxes(drawing(AvgPool(2, strides=3), 7), CELL, "f-read0 s-grid")) == 3


@pytest.mark.parametrize(
    ("op", "size", "first", "last"),
    [
        (AvgPool(3, strides=2, pads=1), 7, (0, 3), (6, 9)),  # in cells from the first padding
        (AdaptiveAvgPool(3), 7, (0, 3), (4, 7)),
        (MaxPool(3, strides=1, dilations=2), 9, (0, 5), (4, 9)),
    ],
)
def test_windows_are_outlined_where_they_lie_and_marked_in_the_page(
    op: Any, size: int, first: tuple[int, int], last: tuple[int, int]
) -> None:
    drawn = drawing(op, size, size)
    left = min(box["x"] for box in boxes(drawn, CELL))
    marks = [g.get("data-window", "").split() for g in drawn.iter(f"{SVG}g")]
    for role, mark, (start, stop) in (("first", marks[0], first), ("last", marks[-1], last)):
        (window, *_) = boxes(drawn, (stop - start) * CELL, f"s-{role}")
        assert (window["x"] - left) / CELL == start
        assert [float(number) for number in mark] == [window[name] for name in ("x", "y", "width", "height")]


@pytest.mark.parametrize(
    "op",
    [
        AvgPool(15, strides=2, pads=7),
        MaxPool(3, strides=3),
        AvgPool(100, strides=50, pads_begin=40, pads_end=30),
        AdaptiveAvgPool(7),
        MaxPool(3, strides=2, dilations=40),
    ],
)
def test_a_long_axis_shows_both_ends_of_three_windows_and_is_not_mostly_padding(op: Any) -> None:
    (axis,) = op.plan((1, 1, 1920)).axes
    line, w = input_axis(axis, example_outputs(axis.windows), 0), axis.windows
    assert line.end < 40 * CELL
    assert sum(0 <= position < 1920 for position in line.shown) > len(line.shown) / 2
    for o in example_outputs(w):
        stop = w.start(o) + w.extent if hasattr(w, "extent") else w.stop(o)
        assert {w.start(o), stop - 1} <= set(line.shown)
    places = [line.at(position) for position in line.shown]
    assert places == sorted(set(places))


def test_the_words_name_sizes_sides_rounding_and_the_divisor() -> None:
    op = AvgPool((3, 5), strides=2, pads_begin=(2, 1), pads_end=(0, 4), rounding_type="ceil", exclude_pad=False)
    said = words(drawing(op, 6, 7))
    assert said[0] == "avg pooling, as OpenVINO: H=6 W=7 to H=4 W=5"
    assert [*said[-4:-2], " ".join(said[-2:])] == [
        "Kernel 3 x 5, stride 2 x 2, pads H 2 and 0, W 1 and 4.",
        "Rounding ceil: H: ceil((6+2+0-3)/2) + 1 = 4; W: ceil((7+1+4-5)/2) + 1 = 5.",
        "Divisor: the window's full size, 15 (include; overhang counts because a pad is not 0).",
    ]
    assert {"input  H=6 W=7", "output  H=4 W=5", "H", "W"} <= set(said)
    assert "Each output is the maximum of its window." in words(drawing(MaxPool(2, strides=2), 4, 4))
    assert words(drawing(AreaPool(3), 6, 7))[0] == "area pooling: H=6 W=7 to H=3 W=3"  # as no framework has it
    drawn = drawing(AdaptiveMaxPool(5, like="pytorch"), 2, 3, 4)  # whose title is wider than its axes
    assert float(drawn.get("width", 0)) > 26 + 0.67 * 15 * len(words(drawn)[0])  # bold DejaVu Sans


def test_the_output_holds_what_each_sum_is_divided_by() -> None:
    def divisors(op: Any) -> list[str]:
        return [text.text or "" for g in drawing(op, 6, 7).iter(f"{SVG}g") for text in g.iter(f"{SVG}text")]

    assert divisors(AvgPool(3, strides=2, pads=1)) == [*"4664", *"6996", *"6996"]
    assert divisors(AvgPool(3, strides=2, pads=1, divisor_override=-5)) == ["-5"] * 12
    assert divisors(MaxPool(3, strides=2, pads=1)) == []


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        (AvgPool(3, strides=2, pads=1), (6, 7)),
        (MaxPool(3, strides=2, dilations=2), (9, 9)),
        (AvgPool(2, strides=3), (7, 7)),
        (AvgPool(15, strides=2, pads=7), (1080, 1920)),
        (AvgPool(3, strides=2, pads=1, rounding_type="ceil"), (6, 33, 128)),
        (AdaptiveAvgPool(3), (7,)),
    ],
)
def test_the_legend_has_every_shade_that_is_used_and_no_other(op: Any, sizes: tuple[int, ...]) -> None:
    drawn = drawing(op, *sizes)
    shades = [*(f"f-read{n} s-grid" for n in range(5)), "f-padding s-faint", "s-faint"]
    assert [bool(boxes(drawn, CELL, s)) for s in shades] == [bool(boxes(drawn, 14, s)) for s in shades]


def test_one_and_three_axes_are_strips_with_a_row_for_each_window() -> None:
    said = words(drawing(AvgPool(2, strides=2, pads=1), 4, 6, 8))
    assert [word for word in said if word.startswith("input") or word in "DHW"] == [
        "D", "input 4, output 3:  (4+1+1-2)//2 + 1 = 3",
        "H", "input 6, output 4:  (6+1+1-2)//2 + 1 = 4",
        "W", "input 8, output 5:  (8+1+1-2)//2 + 1 = 5",
    ]  # fmt: skip
    assert [word for word in said if word.startswith("reads")][:3] == [
        "reads 0, divides by 1", "reads 1 to 2, divides by 2", "reads 3, divides by 1",
    ]  # fmt: skip
    assert [word for word in words(drawing(MaxPool(2, strides=2, pads_begin=1, dilations=2),
        6)) if word.startswith("reads")] == [
        "reads 1", "reads 1 to 3, 2 elements", "reads 3 to 5, 2 elements",
    ]  # fmt: skip
    rows_of = (
        (AvgPool(2, strides=2, pads=1), 4, [0, 1, 2]),
        (AdaptiveAvgPool(50), 1, [0, 1, 49]),
        (MaxPool(3, strides=2), 99, [0, 1, 48]),
    )
    for op, size, rows in rows_of:
        assert [w for w in words(drawing(op, size)) if w.startswith("window")] == [f"window {o}" for o in rows]


def test_strips_show_holes_of_dilated_windows_and_what_lies_outside() -> None:
    drawn = drawing(AvgPool(3, strides=1, pads=2, dilations=2), 5)
    shades = ["padding"] * 2 + ["read2"] * 2 + ["read3"] + ["read2"] * 2 + ["padding"] * 2
    assert [box["class"].split()[0] for box in boxes(drawn, CELL)] == [f"f-{shade}" for shade in shades]
    taps = boxes(drawn, CELL - 3)
    assert [box["class"].startswith("f-page") for box in taps] == [box["dashed"] for box in taps] == [
        True, False, False, True, False, False, False, False, False, False, False, True, False, False, True,
    ]  # fmt: skip
    ends = [words(drawing(AvgPool(3, strides=2, pads=pad, rounding_type="ceil"), 6)) for pad in (0, 1)]
    assert ["past the input" in ends[0], "past the padding" in ends[1]] == [True, True]


def test_dilated_windows_have_a_dot_on_each_element() -> None:
    dots = [
        dot for dot in drawing(MaxPool(3, strides=2, dilations=2), 9, 9).iter(f"{SVG}circle") if dot.get("r") == "3"
    ]
    assert len(dots) == 27
    assert 'class="f-second"' in MaxPool(3, strides=2, dilations=2).plan((1, 1, 9, 6)).picture().svg()  # one column


def test_the_numbers_of_a_long_axis_stand_apart_and_the_legend_names_its_first_shade_in_full() -> None:
    drawn = drawing(AvgPool(3, strides=1000), 1_000_000)
    shown = [text for text in drawn.iter(f"{SVG}text") if float(text.get("font-size", 0)) < 10]
    ends = [(float(t.get("x", 0)), text_width(str(t.text), float(t.get("font-size", 0))) / 2) for t in shown]
    assert all(x + half <= y - next_half for (x, half), (y, next_half) in pairwise(ends))
    assert [text.text for text in shown][-5:] == ["999001", "999003", "999995", "999997", "999999"]
    assert [w for w in words(drawn) if w.startswith("read by")] == ["read by no window", "read by 1"]


@pytest.mark.parametrize(
    ("op", "sizes", "at", "lines"),
    [
        (CEIL, (6, 7), "3,2", [
            "Output H 3, W 2: sum of its window, divided by 9",
            "H: starts at 3 * 2 - 1 = 5, spans [5, 8), reads 5, divides by 3",
            "W: starts at 2 * 2 - 1 = 3, spans [3, 6), reads 3 to 5, divides by 3",
        ]),
        (AvgPool(2, strides=2, divisor_override=7), (8, 8), "1,3", [
            "Output H 1, W 3: sum of its window, divided by 7",
            "H: starts at 1 * 2 = 2, spans [2, 4), reads 2 to 3",
            "W: starts at 3 * 2 = 6, spans [6, 8), reads 6 to 7",
        ]),
        (AdaptiveMaxPool(3), (70,), "W1", [
            "Output W 1: maximum of its window", "W: starts at 1 * 70 // 3 = 23, spans [23, 47), reads 23 to 46",
        ]),
        (AvgPool(2, strides=4, rounding_type="ceil"), (4,), "W1", [
            "Output W 1: sum of its window, divided by 0",
            "W: starts at 1 * 4 = 4, spans [4, 6), reads nothing, divides by 0",
        ]),
        (AreaPool(3), (7,), "W1", [
            "Output W 1: weighted sum of its window, divided by 7",
            "W: starts at 1 * 7 // 3 = 2, spans [2, 5), reads 2 to 4, weights 2, 3, 2, divides by 7",
        ]),
    ],
    ids=["average", "override", "maximum", "nothing", "area"],
)  # fmt: skip
def test_each_output_element_tells_its_window_its_divisor_and_its_formula(
    op: Any, sizes: tuple[int, ...], at: str, lines: list[str]
) -> None:
    assert told(drawing(op, *sizes))[at] == lines


def test_a_page_is_the_same_picture_in_both_themes_and_loads_nothing() -> None:
    picture = CEIL.plan((1, 1, 6, 7)).picture()
    page = picture.html()
    assert picture.svg() in page
    assert re.findall(r"<(?:link|img|iframe)|\ssrc=|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", page) == []
    assert "Content-Security-Policy\" content=\"default-src 'none'" in page
    assert "{{" not in page
    light, dark = (re.findall(r"f-(\w+) { fill: (#\w+)", part) for part in picture.svg().split("@media")[:2])
    assert [role for role, _ in light] == [role for role, _ in dark]
    assert {*re.findall(r'class="f-(\w+)', picture.svg())} <= dict(light).keys()
    assert {("page", "#ffffff"), ("ink", "#111827")}.isdisjoint(dark)


def test_files_hold_the_picture_and_others_are_refused(cli: Cli, folder: Path) -> None:
    call = ("shape", "avg", "1,3,7,7", "-k", "3", "-s", "2", "-p", "1", "-q")
    plan = AvgPool(3, strides=2, pads=1).plan((1, 3, 7, 7))
    assert cli(*call[:-1], "--picture", "p.svg").out.endswith("\nwrote p.svg\n")
    assert cli(*call, "--picture", "p.html").code == 0
    assert Path("p.svg").read_text() == plan.picture().svg()
    assert Path("p.html").read_text() == plan.picture().html()
    for options, message in {
        ("--picture", "p.svg"): "p.svg exists; use --overwrite to replace it",
        ("--picture", "p.png"): "--picture p.png must end in .svg or .html",
        ("--picture", "p"): "--picture p must end in .svg or .html",
    }.items():
        assert (refused := cli(*call, *options)).err == f"poolcli: {message}\n"
        assert refused.code == 2
    assert cli(*call, "--picture", "p.svg", "--overwrite").code == 0


def test_a_plan_is_one_line_in_a_console_its_picture_in_a_notebook_and_goes_from_process_to_process() -> None:
    plan = MaxPool(2, strides=2, like="pytorch").plan((1, 3, 8, 6), "uint8")
    assert repr(plan) == "<Plan of max pooling, like pytorch: N=1 C=3 H=8 W=6 uint8 to N=1 C=3 H=4 W=3 uint8>"
    assert repr(plan.picture()) == "<Picture of max pooling, as PyTorch: H=8 W=6 to H=4 W=3>"
    assert plan._repr_svg_() == plan.picture().svg() == plan.picture()._repr_svg_()
    copy = pickle.loads(pickle.dumps(plan))  # noqa: S301  # it is made here
    assert (copy, copy.given) == (plan, plan.given)


def test_python_is_told_in_its_own_words(folder: Path) -> None:
    plan = CEIL.plan((1, 3, 6, 8))
    Path("there.svg").write_text("kept")
    for name, message in {
        "plan.gif": "picture='plan.gif' must end in .svg or .html",
        "there.svg": "there.svg exists; use overwrite=True to replace it",
    }.items():
        with pytest.raises(RequestError) as refused:
            plan.picture(name)
        assert (str(refused.value), Path("there.svg").read_text()) == (message, "kept")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[[Plan], Any]]:
    """Opens the page of a plan; whatever it loads beside itself, or complains of, fails the test."""
    faults: list[str] = []

    def open_page(plan: Plan) -> Any:
        file = tmp_path / "page.html"
        file.write_text(plan.picture().html())
        tab = browser.new_page(has_touch=True)
        tab.on("request", lambda request: faults.append(request.url) if request.url != file.as_uri() else None)
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(file.as_uri())
        return tab

    yield open_page
    assert faults == []


@pytest.mark.heavy
@needs_browser
@pytest.mark.slow
def test_a_page_shows_what_is_under_the_pointer_a_finger_or_the_arrow_keys(opened: Callable[[Plan], Any]) -> None:
    plan = CEIL.plan((1, 1, 6, 7))
    tab, lines = opened(plan), told(drawing(CEIL, 6, 7))

    def shows(at: str) -> bool:
        element, mark = tab.locator(f'[data-at="{at}"]'), tab.locator("#window")
        place = " ".join(mark.get_attribute(name) for name in ("x", "y", "width", "height"))
        text = tab.locator("#told").inner_text().splitlines()
        return [text, place] == [lines[at], element.get_attribute("data-window")]

    for at in (f"{i},{j}" for i, j in product(range(4), range(4))):
        tab.locator(f'[data-at="{at}"]').hover()
        assert shows(at)
    tab.locator('[data-at="2,3"]').tap()
    assert shows("2,3")
    for key, at in (
        ("Left", "2,2"),
        ("Up", "1,2"),
        ("Right", "1,3"),
        ("Down", "2,3"),
        ("Down", "3,3"),
        ("Down", "3,3"),
    ):
        tab.keyboard.press(f"Arrow{key}")
        assert shows(at), key
