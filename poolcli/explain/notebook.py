"""A plan as it is shown to a person: its picture as SVG, PNG or a page, and in a notebook with its table."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.explain.picture.caption import title
from poolcli.explain.picture.draw import draw
from poolcli.explain.picture.theme import THEMES
from poolcli.message_fields import field, in_python
from poolcli.plan import AxisPlan, Plan
from poolcli.windows import Bins

DENSITY = (192, 192)  # pixels an inch of a PNG: two for each unit of 1/96 inch


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """The picture of a plan. A notebook shows it; it can be had as `svg()`, `png()` and `html()`, or saved.

    `theme` is light, dark, or auto: an SVG or a page follows whoever looks at it, a PNG is light.

    >>> from poolcli import MaxPool
    >>> picture = MaxPool(2, 2).plan((1, 3, 8, 8)).picture()
    >>> picture
    <Picture of max pooling, as OpenVINO: H=8 W=8 to H=4 W=4>
    >>> picture.svg().startswith("<svg ")
    True
    """

    plan: Plan
    theme: str = "auto"

    def __post_init__(self) -> None:
        one_of("theme", self.theme, THEMES)

    def __repr__(self) -> str:
        return f"<Picture of {title(self.plan)}>"

    def svg(self) -> str:
        """The picture as SVG, its text as text."""
        return draw(self.plan).svg(self.theme)

    def _repr_svg_(self) -> str:
        return self.svg()

    def png(self) -> bytes:
        """The picture as a PNG of two pixels for each unit."""
        buffer = BytesIO()
        draw(self.plan).image(self.theme).save(buffer, "PNG", dpi=DENSITY)
        return buffer.getvalue()

    def html(self) -> str:
        """A page that stands alone: pointing at an output element shows its window, by the rules of any framework."""
        from poolcli.explain.picture.page import page

        rows = self.plan.compare()
        return page(self.plan, rows, self.theme)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the picture to an .svg, .png or .html, whole or not at all.

        Raises RequestError for other kinds of file, and for one that exists unless it may be replaced.
        """
        path = os.fspath(path)
        kind = Path(path).suffix.lower()
        if kind not in _KINDS:
            remedy = (
                f"ends in {kind}; use .svg, .png or .html"
                if kind
                else f"has no suffix; write {path}.svg, .png or .html"
            )
            raise RequestError(f"{field('picture', path)} {remedy}")
        if Path(path).exists() and not overwrite:
            raise RequestError(f"{path} exists; use {field('overwrite', True)} to replace it")
        from poolcli.formats.atomic import byte_stream

        content = _KINDS[kind](self)
        with byte_stream(path, overwrite) as stream:
            stream.write(content if isinstance(content, bytes) else content.encode())


_KINDS: dict[str, Callable[[Picture], str | bytes]] = {".svg": Picture.svg, ".png": Picture.png, ".html": Picture.html}


def plan_html(plan: Plan) -> str:
    """A plan for a notebook: the table of its axes, its words, its notes, and its picture, which tells its rules."""
    words = {name: value for name, value in plan.attributes.items() if isinstance(value, str | bool)}
    rules = ", ".join(f"{name}={value!r}" for name, value in words.items())
    notes = "".join(f"<li>{escape(in_python(note))}</li>" for note in plan.notes)
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
