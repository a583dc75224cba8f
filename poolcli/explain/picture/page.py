"""A page about a plan that stands alone: whoever points at an output element sees its window, divisor and formula.

Every number on it comes from plans made here, one for each framework's rules; the script looks them up and draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import product
from math import prod
from typing import Any

from poolcli.errors import RequestError
from poolcli.explain.compare_dialects import Row
from poolcli.explain.picture.caption import caption, title
from poolcli.explain.picture.draw import draw
from poolcli.explain.picture.theme import COLOURS
from poolcli.message_fields import field, on_command_line
from poolcli.plan import AxisPlan, Plan
from poolcli.plan.facts import WindowsEmpty
from poolcli.plan.steps import window
from poolcli.windows import Bins

MOST = 2000  # windows of an axis that the page knows: half of them from each end
PRODUCTS = 20_000  # of divisors of axes, up to which the page knows each
LARGEST = 2**53  # above it, a browser's numbers are not exact


def page(plan: Plan, rows: Sequence[Row] = (), theme: str = "auto") -> str:
    """The page of `plan` as HTML, which loads nothing; `rows` are the same attributes under the rules of frameworks."""
    for axis in plan.axes:
        if axis.windows.size > LARGEST:
            raise RequestError(
                f"axis {axis.name} is {axis.windows.size} long, a page takes up to 2**53; "
                f"let {field('picture')} end in .svg"
            )
    parts = {
        "title": escape(title(plan)),
        "theme": theme,
        "colours": _colours(theme),
        "style": _file("page.css"),
        "picture": draw(plan).svg(theme),
        "plans": json.dumps(_document(plan, rows), separators=(",", ":")).replace("<", "\\u003c"),
        "script": _file("page.js"),
    }
    text = _file("page.html")
    for name, value in parts.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _file(name: str) -> str:
    return files("poolcli").joinpath("explain", "picture").joinpath(name).read_text("utf-8")


def _colours(theme: str) -> str:
    """The colours as variables of a style sheet."""
    light, dark = (
        "".join(f"--{role}:{both[i]};" for role, both in COLOURS.items()) + f"color-scheme:{scheme}"
        for i, scheme in enumerate(("light", "dark"))
    )
    if theme != "auto":
        return f":root{{{dark if theme == 'dark' else light}}}"
    return f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _document(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """What the script looks up: the rules that can be chosen, and the windows of each axis once."""
    lines: dict[object, int] = {}
    shown = [row for row in rows if row.plan is not None or row.refusal]
    rules = [
        _rule(row.title, row.plan, row.refusal and on_command_line(row.refusal), row.causes, lines) for row in shown
    ]
    chosen = next((i for i, row in enumerate(shown) if row.chosen), None)
    if chosen is None:
        rules.insert(0, _rule(title(plan).partition(":")[0], plan, None, (), lines))
    return {"chosen": chosen or 0, "rules": rules, "lines": [_line(axis) for axis in _axes_of(rows, plan, lines)]}


def _axes_of(rows: Iterable[Row], plan: Plan, lines: dict[object, int]) -> list[AxisPlan]:
    """One axis for each line, in their order."""
    plans = (plan, *(row.plan for row in rows if row.plan is not None))
    known: dict[object, AxisPlan] = {axis.windows: axis for each in plans for axis in each.axes}
    return [known[windows] for windows in lines]


def _rule(
    name: str, plan: Plan | None, refusal: str | None, causes: Sequence[str], lines: dict[object, int]
) -> dict[str, Any]:
    if plan is None:
        return {"name": name, "refusal": refusal, "causes": []}
    axes = [_axis(axis, lines) for axis in plan.axes]
    found: dict[str, Any] = {
        "name": name,
        "refusal": None,
        "causes": list(causes),
        "title": title(plan),
        "caption": caption(plan),
        "axes": axes,
        "verb": _verb(plan),
        "divides": plan.reducer.divides,
        "override": plan.divisor_override,
        "nothing": next((fact.result for fact in plan.facts if isinstance(fact, WindowsEmpty)), None),
    }
    return found | {"products": _products(plan)}


def _verb(plan: Plan) -> str:
    return "sum" if plan.reducer.divides else plan.reducer.noun


def _axis(axis: AxisPlan, lines: dict[object, int]) -> dict[str, Any]:
    """An axis with the formulas of its length and of where a window starts, `o` being the output."""
    w = axis.windows
    if isinstance(w, Bins):
        pads, step, starts = (0, 0), 1, f"o * {w.size} // {w.output}"
    else:
        pads, step = (w.pad_begin, w.pad_end), w.dilation
        starts = f"o * {w.stride} - {w.pad_begin}" if w.pad_begin else f"o * {w.stride}"
    return {
        "name": axis.name,
        "size": w.size,
        "output": w.output,
        "pads": pads,
        "end": max(w.size + pads[1], window(axis, w.output - 1).stop),
        "step": step,
        "formula": axis.formula,
        "starts": starts,
        "line": lines.setdefault(w, len(lines)),
    }


def _known(count: int) -> list[int]:
    """The outputs of an axis that the page knows."""
    return list(range(count)) if count <= MOST else [*range(MOST // 2), *range(count - MOST // 2, count)]


def _line(axis: AxisPlan) -> dict[str, list[int | None]]:
    """The windows of an axis, a list for each of their fields."""
    windows = [window(axis, o) for o in _known(axis.windows.output)]
    names = ("output", "start", "stop", "first", "last", "inside", "divisor")
    return {name: [getattr(w, name) for w in windows] for name in names}


def _products(plan: Plan) -> dict[str, int]:
    """The products of what windows hold along each axis and of what they count: `2,3` is 6; none for many."""
    factors = []
    for axis in plan.axes:
        line = _line(axis)
        factors.append(sorted({n for name in ("inside", "divisor") for n in line[name] if n is not None}))
    if prod(map(len, factors)) > PRODUCTS:
        return {}
    return {",".join(map(str, numbers)): prod(numbers) for numbers in product(*factors)}
