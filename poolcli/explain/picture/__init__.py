"""Shows a plan as SVG, PNG or an interactive HTML page, and in notebooks."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.explain import both_ends, window
from poolcli.explain.compare_dialects import Row
from poolcli.explain.picture.canvas import COLOURS, THEMES, Canvas
from poolcli.explain.picture.drawing import caption, draw, title
from poolcli.explain.picture.receptive_field import draw_receptive_field, field_title
from poolcli.message_fields import field, for_cli, for_python
from poolcli.plan import AxisPlan, Plan
from poolcli.windows import Bins, Cells

if TYPE_CHECKING:
    from poolcli.explain.chain import Chain

MAX_WINDOWS = 2000  # of an axis in the page, half of them from each end
MAX_SAFE_INTEGER = 2**53  # integers above it are not exact in JavaScript


def page(plan: Plan, rows: Sequence[Row] = (), theme: str = "auto") -> str:
    """A self-contained HTML page of a plan; `rows` are the same attributes under the rules of each framework."""
    for axis in plan.axes:
        if axis.windows.size > MAX_SAFE_INTEGER:
            raise RequestError(
                f"axis {axis.name} is {axis.windows.size} long, but a page holds at most 2**53; "
                f"use a {field('picture')} that ends in .svg"
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
    """The colours as CSS variables."""
    light, dark = (
        "".join(f"--{role}:{both[i]};" for role, both in COLOURS.items()) + f"color-scheme:{scheme}"
        for i, scheme in enumerate(("light", "dark"))
    )
    if theme != "auto":
        return f":root{{{dark if theme == 'dark' else light}}}"
    return f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _document(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """The data of the script: the rules that can be selected, and the windows of each different axis once (`lines`)."""
    lines: dict[object, AxisPlan] = {}
    shown = [row for row in rows if row.plan is not None or row.refusal]
    rules = [_rule(row.title, row.plan, row.refusal and for_cli(row.refusal), row.causes, lines) for row in shown]
    chosen = next((i for i, row in enumerate(shown) if row.chosen), None)
    if chosen is None:
        rules.insert(0, _rule(title(plan).partition(":")[0], plan, None, (), lines))
    return {"chosen": chosen or 0, "rules": rules, "lines": [*map(_windows_of, lines.values())]}


def _rule(
    name: str, plan: Plan | None, refusal: str | None, causes: Sequence[str], lines: dict[object, AxisPlan]
) -> dict[str, Any]:
    if plan is None:
        return {"name": name, "refusal": refusal, "causes": []}
    axes = [_axis(axis, lines) for axis in plan.axes]
    return {
        "name": name,
        "refusal": None,
        "causes": list(causes),
        "title": title(plan),
        "caption": caption(plan),
        "axes": axes,
        "verb": "weighted sum" if plan.is_weighted else "sum" if plan.reducer.divides else plan.reducer.noun,
        "divides": plan.reducer.divides,
        "override": plan.divisor_override,
        "nothing": next((fact.result for fact in plan.facts if fact.kind == "empty_windows"), None),
    }


def _axis(axis: AxisPlan, lines: dict[object, AxisPlan]) -> dict[str, Any]:
    """An axis with the formulas of its length and of where window `o` starts."""
    w = axis.windows
    lines.setdefault(w, axis)
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
        "end": max(w.size + pads[1], window(axis.windows, w.output - 1).stop),
        "step": step,
        "formula": axis.formula,
        "starts": starts,
        "line": [*lines].index(w),
    }


def _windows_of(axis: AxisPlan) -> dict[str, list[Any]]:
    """The windows of an axis, as one list for each field."""
    windows = [window(axis.windows, o) for o in both_ends(axis.windows.output, MAX_WINDOWS)]
    names = ["output", "start", "stop", "first", "last", "inside", "divisor"]
    names += ["weights_text"] if isinstance(axis.windows, Cells) else []
    return {name: [getattr(w, name) for w in windows] for name in names}


DPI = (192, 192)  # pixels an inch of a PNG: two for each unit of 1/96 inch


class _Drawing(ABC):
    """A drawing as SVG or PNG, which notebooks display.

    `theme` is light, dark, or auto: an SVG follows its reader's theme, a PNG is light.
    """

    __slots__ = ()
    theme: str

    def __post_init__(self) -> None:
        one_of("theme", self.theme, THEMES)

    @abstractmethod
    def _draw(self) -> Canvas:
        """What is drawn."""

    def svg(self) -> str:
        """The picture as SVG."""
        return self._draw().svg(self.theme)

    def _repr_svg_(self) -> str:
        return self.svg()

    def png(self) -> bytes:
        """The picture as a PNG of 192 dpi."""
        buffer = BytesIO()
        self._draw().image(self.theme).save(buffer, "PNG", dpi=DPI)
        return buffer.getvalue()

    def _writers(self) -> dict[str, Callable[[], str | bytes]]:
        """By extension, what returns the content of a file."""
        return {".svg": self.svg, ".png": self.png}

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the picture to a file, whose extension selects the format, atomically.

        Raises RequestError for other kinds of file, and for one that exists unless it may be replaced.
        """
        path, writers = os.fspath(path), self._writers()
        kind = Path(path).suffix.lower()
        if kind not in writers:
            able = " or ".join(", ".join(writers).rsplit(", ", 1))
            remedy = (
                f"ends in {kind}; use {able}" if kind else f"has no extension; write {path.strip('-') or 'plan'}{able}"
            )
            raise RequestError(f"{field('picture', path)} {remedy}")
        if Path(path).exists() and not overwrite:
            raise RequestError(f"{path} exists; use {field('overwrite', True)} to replace it")
        from poolcli.formats.atomic import atomic_stream

        content = writers[kind]()
        with atomic_stream(path, overwrite) as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())


@dataclass(frozen=True, slots=True, repr=False)
class Picture(_Drawing):
    """The picture of a plan as SVG, PNG or an HTML page; notebooks display it.

    `theme` is light, dark, or auto: an SVG or a page follows its reader's theme, a PNG is light.

    >>> from poolcli import MaxPool
    >>> picture = MaxPool(2, 2).plan((1, 3, 8, 8)).picture()
    >>> picture
    <Picture of max pooling, as OpenVINO: H=8 W=8 to H=4 W=4>
    >>> picture.svg().startswith("<svg ")
    True
    """

    plan: Plan
    theme: str = "auto"

    def __repr__(self) -> str:
        return f"<Picture of {title(self.plan)}>"

    def _draw(self) -> Canvas:
        return draw(self.plan)

    def _writers(self) -> dict[str, Callable[[], str | bytes]]:
        return {".svg": self.svg, ".png": self.png, ".html": self.html}

    def html(self) -> str:
        """A self-contained page: hovering an output element shows its window, under the rules of any framework."""
        rows = self.plan.compare()
        return page(self.plan, rows, self.theme)


@dataclass(frozen=True, slots=True, repr=False)
class ChainPicture(_Drawing):
    """The picture of the receptive field of a chain of layers as SVG or PNG; notebooks display it.

    >>> import poolcli
    >>> poolcli.chain((1, 3, 224, 224), ["conv:k7,s2,p3", "max:k3,s2,p1"]).picture()
    <Picture of receptive field 11 x 11 of the input H=224 W=224>
    """

    chain: Chain
    theme: str = "auto"

    def __repr__(self) -> str:
        return f"<Picture of {field_title(self.chain)}>"

    def _draw(self) -> Canvas:
        return draw_receptive_field(self.chain)


def plan_html(plan: Plan) -> str:
    """A plan for a notebook: the table of its axes, its other attributes, its notes, and its picture."""
    words = {name: value for name, value in plan.attributes.items() if isinstance(value, str | bool)}
    rules = ", ".join(f"{name}={value!r}" for name, value in words.items())
    notes = "".join(f"<li>{escape(for_python(note))}</li>" for note in plan.notes)
    return (
        f"<div><p><b>{escape(title(plan))}</b>, {escape(plan.dtype)} to {escape(plan.output_dtype)}</p>{_table(plan)}"
        f"{f'<p>{escape(rules)}</p>' if rules else ''}{f'<ul>{notes}</ul>' if notes else ''}{draw(plan).svg()}</div>"
    )


def _table(plan: Plan) -> str:
    bins = isinstance(plan.axes[0].windows, Bins)
    heads = ("axis", "input", *(() if bins else ("kernel", "stride", "dilation", "pads")), "output", "formula")
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(axis))}</tr>" for axis in plan.axes)
    return f"<table><thead><tr>{''.join(f'<th>{h}</th>' for h in heads)}</tr></thead><tbody>{rows}</tbody></table>"


def _cells(axis: AxisPlan) -> tuple[str, ...]:
    w = axis.windows
    if isinstance(w, Bins):
        return axis.name, str(w.size), str(w.output), axis.formula
    numbers = (w.size, w.kernel, w.stride, w.dilation, f"{w.pad_begin},{w.pad_end}", w.output)
    return axis.name, *map(str, numbers), axis.formula
