"""The page about a plan: the numbers in it are the plan's, and a browser shows those of what is pointed at."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from poolcli import AdaptiveMaxPool, AvgPool, MaxPool
from poolcli.explain import window
from poolcli.explain.compare_dialects import compare_dialects
from poolcli.explain.picture import MAX_WINDOWS, page
from poolcli.message_fields import for_cli
from poolcli.plan import Plan
from tests.conftest import Cli

CEIL = AvgPool(3, 2, 1, 1, rounding_type="ceil", exclude_pad=False)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (Debian: apt install chromium)")


def document(op: Any, shape: tuple[int, ...]) -> Any:
    plan = op.plan(shape)
    (text,) = re.findall(
        r'<script type="application/json" id="plans">(.*)</script>', page(plan, compare_dialects(op, plan))
    )
    return json.loads(text)


def test_the_page_holds_every_window_of_every_framework() -> None:
    held, plan = document(CEIL, (1, 1, 6, 7)), CEIL.plan((1, 1, 6, 7))
    rows = compare_dialects(CEIL, plan)
    assert [(rule["name"], rule["refusal"]) for rule in held["rules"]] == [
        (row.title, row.refusal and for_cli(row.refusal)) for row in rows
    ]
    assert held["rules"][held["chosen"]]["name"] == "OpenVINO ceil"
    for row, rule in zip(rows, held["rules"], strict=True):
        if row.plan is None:
            continue
        for axis, told in zip(row.plan.axes, rule["axes"], strict=True):
            windows = [window(axis.windows, o) for o in range(axis.windows.output)]
            line = held["lines"][told["line"]]
            assert {name: [getattr(w, name) for w in windows] for name in line} == line


def test_of_a_long_axis_the_page_holds_both_ends() -> None:
    (line,) = document(MaxPool(3, 2), (1, 1, 2**40))["lines"][:1]
    assert line["output"][MAX_WINDOWS // 2 - 1 : MAX_WINDOWS // 2 + 1] == [999, 2**39 - 1 - 1000]
    assert len(line["start"]) == MAX_WINDOWS


def test_the_page_loads_nothing_and_says_what_it_is_without_a_script() -> None:
    text = page(CEIL.plan((1, 1, 6, 7)))
    assert re.findall(r"<(?:link|img|iframe)|\ssrc=|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert "Content-Security-Policy\" content=\"default-src 'none'" in text
    assert "<noscript><svg" in text
    assert "{{" not in text


def test_names_cannot_leave_the_data() -> None:
    text = page(CEIL.plan((1, 1, 6, 7)), compare_dialects(CEIL, CEIL.plan((1, 1, 6, 7))))
    data = text[text.index('id="plans">') : text.index("</script>", text.index('id="plans">'))]
    assert "<" not in data


def test_an_axis_that_a_browser_cannot_count_is_refused(cli: Cli, folder: Path) -> None:
    done = cli("shape", "max", f"1,3,{2**60}", "-k", "3", "--picture", "p.html")
    assert done.code == 2
    assert done.err == (
        f"poolcli: axis W is {2**60} long, but a page holds at most 2**53; use a --picture that ends in .svg\n"
    )
    assert not Path("p.html").exists()


def sentence(plan: Plan, outputs: tuple[int, ...]) -> str:
    """What the page says of an output element of an average."""
    seen = [window(axis.windows, o) for axis, o in zip(plan.axes, outputs, strict=True)]
    element = ", ".join(f"{axis.name} {o}" for axis, o in zip(plan.axes, outputs, strict=True))
    reads = ", ".join(f"{axis.name} {_range(w.first, w.last)}" for axis, w in zip(plan.axes, seen, strict=True))
    factors = [w.divisor for w in seen]
    divided = f"{' × '.join(map(str, factors))} = {prod(factors)}"
    return f"Output {element} = sum of input {reads}, divided by {divided}"


def _range(first: int | None, last: int | None) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page of an operator on a shape; whatever it loads beside itself, or complains of, fails the test."""
    faults: list[str] = []

    def open_page(op: Any, shape: tuple[int, ...], **options: Any) -> Any:
        plan = op.plan(shape)
        file = tmp_path / "page.html"
        file.write_text(page(plan, compare_dialects(op, plan)))
        tab = browser.new_page(**options)
        tab.on("request", lambda request: faults.append(request.url) if request.url != file.as_uri() else None)
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(file.as_uri())
        return tab

    yield open_page
    assert faults == []


def told(tab: Any) -> str:
    return str(tab.locator("#formula").inner_text())


@needs_browser
@pytest.mark.slow
def test_pointing_at_an_element_shows_its_window_and_divisor(opened: Callable[..., Any]) -> None:
    tab, plan = opened(CEIL, (1, 1, 6, 7)), CEIL.plan((1, 1, 6, 7))
    for outputs in product(range(4), range(4)):
        cell = tab.locator(f'#output td[data-at="{outputs[0]},{outputs[1]}"]')
        cell.hover()
        assert told(tab) == sentence(plan, outputs)
        assert cell.get_attribute("aria-selected") == "true"
        assert tab.locator("#input .read").count() == prod(
            len(w.span(o)) for w, o in zip(plan.windows, outputs, strict=True)
        )
    assert tab.locator("#output td").all_inner_texts() == ["9"] * 16
    assert tab.locator("#windows tbody tr").first.inner_text().split("\t") == [
        "H", "3 * 2 - 1 = 5", "[5, 8)", "5", "1", "3", "ceil((6+1+1-3)/2) + 1 = 4",
    ]  # fmt: skip


@needs_browser
@pytest.mark.slow
def test_keys_move_along_both_axes_and_the_focus_goes_along(opened: Callable[..., Any]) -> None:
    tab, plan = opened(CEIL, (1, 1, 6, 7)), CEIL.plan((1, 1, 6, 7))
    tab.locator('#output td[tabindex="0"]').focus()
    for key, outputs in (("ArrowRight", (0, 1)), ("ArrowDown", (1, 1)), ("End", (1, 3)), ("ArrowRight", (1, 3)),
                         ("ArrowUp", (0, 3)), ("ArrowUp", (0, 3)), ("Home", (0, 0))):  # fmt: skip
        tab.keyboard.press(key)
        assert told(tab) == sentence(plan, outputs)
        assert tab.evaluate("document.activeElement.ariaLabel") == f"H {outputs[0]}, W {outputs[1]}"
    assert tab.locator("#formula").get_attribute("aria-live") == "polite"


@needs_browser
@pytest.mark.slow
def test_arrow_keys_work_as_soon_as_the_page_is_open_and_stay_those_of_what_has_the_focus(
    opened: Callable[..., Any],
) -> None:
    tab, plan = opened(CEIL, (1, 1, 6, 7)), CEIL.plan((1, 1, 6, 7))
    for key, outputs in (("Home", (0, 0)), ("ArrowDown", (1, 0)), ("ArrowRight", (1, 1)), ("End", (1, 3))):
        tab.keyboard.press(key)
        assert told(tab) == sentence(plan, outputs)
    tab.get_by_label("W, 0 to 3").focus()
    tab.keyboard.press("ArrowDown")
    assert told(tab) == sentence(plan, (1, 2))
    tab.get_by_label("OpenVINO floor").focus()
    tab.keyboard.press("ArrowDown")
    assert not tab.get_by_label("OpenVINO floor").is_checked()
    tab.get_by_label("TensorFlow").check()
    tab.locator("#title").click()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#refusal").is_visible()


@needs_browser
@pytest.mark.slow
def test_a_touch_selects(opened: Callable[..., Any]) -> None:
    tab, plan = opened(CEIL, (1, 1, 6, 7), has_touch=True), CEIL.plan((1, 1, 6, 7))
    tab.locator('#output td[data-at="2,3"]').tap()
    assert told(tab) == sentence(plan, (2, 3))


@needs_browser
@pytest.mark.slow
def test_other_rules_can_be_chosen_and_say_why_they_differ_or_refuse(opened: Callable[..., Any]) -> None:
    tab = opened(CEIL, (1, 1, 6, 7))
    rows = {row.title: row for row in compare_dialects(CEIL, CEIL.plan((1, 1, 6, 7)))}
    tab.locator('#output td[data-at="3,3"]').hover()
    tab.get_by_label("PyTorch").check()
    torch = rows["PyTorch"].plan
    assert torch is not None
    assert told(tab) == sentence(torch, (3, 3))
    assert tab.locator("#causes li").all_inner_texts() == list(rows["PyTorch"].causes)
    assert [tab.locator(f"#{name}").is_visible() for name in ("padding", "past")] == [True, True]
    tab.get_by_label("TensorFlow").check()
    assert tab.locator("#refusal").inner_text() == for_cli(rows["TensorFlow"].refusal or "")
    assert not tab.locator("#output").is_visible()
    tab.get_by_label("OpenVINO floor").check()
    assert tab.locator("#title").inner_text() == "avg pooling, as OpenVINO: H=6 W=7 to H=3 W=4"
    assert tab.locator('#output td[aria-selected="true"]').get_attribute("data-at") == "2,3"


@needs_browser
@pytest.mark.slow
def test_every_axis_can_be_stepped_through(opened: Callable[..., Any]) -> None:
    op = AvgPool(3, 2, 1, 1)
    tab, plan = opened(op, (1, 1, 7, 9, 3001)), op.plan((1, 1, 7, 9, 3001))
    tab.get_by_label("D on", exact=True).click()
    assert told(tab) == sentence(plan, (1, 0, 0))
    tab.locator('#output td[tabindex="0"]').focus()
    tab.keyboard.press("PageDown")
    tab.keyboard.press("End")
    assert told(tab) == sentence(plan, (2, 0, 1500))
    tab.get_by_label("W, 0 to 1500").fill("700")
    tab.get_by_label("W, 0 to 1500").press("Enter")
    assert told(tab) == sentence(plan, (2, 0, 700))
    assert tab.locator('#output td[aria-selected="true"]').get_attribute("aria-label") == "H 0, W 700"
    assert tab.locator("#input svg").count() == 2


@needs_browser
@pytest.mark.slow
def test_a_window_of_nothing_and_a_maximum_are_told_as_what_they_are(opened: Callable[..., Any]) -> None:
    nothing = opened(AvgPool(2, 4, rounding_type="ceil"), (1, 1, 4))
    nothing.locator("#output td").last.hover()
    assert told(nothing) == "Output W 1 reads nothing: the average is nan"
    assert nothing.locator("#windows tbody td").all_inner_texts()[1:5] == ["[4, 6)", "nothing", "0", "0"]
    assert [nothing.locator(f"#{name}").is_visible() for name in ("padding", "past")] == [False, True]
    bins = opened(AdaptiveMaxPool(3), (1, 1, 70))
    bins.locator("#output td").nth(1).hover()
    assert told(bins) == "Output W 1 = maximum of input W 23 to 46"
