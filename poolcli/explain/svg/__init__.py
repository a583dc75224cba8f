"""Shows a plan as SVG, as a page that answers the pointer, and in notebooks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.explain.svg.canvas import THEMES
from poolcli.explain.svg.drawing import draw, title
from poolcli.message_fields import field, for_python
from poolcli.plan import Plan
from poolcli.windows import Bins


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """The picture of a plan as SVG or an HTML page; notebooks display it.

    `theme` is light, dark, or auto, which follows the reader's theme.

    >>> from poolcli import MaxPool
    >>> picture = MaxPool(2, strides=2).plan((1, 3, 8, 8)).picture()
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
        """The picture as SVG."""
        return draw(self.plan, self.theme)

    def _repr_svg_(self) -> str:
        return self.svg()

    def html(self) -> str:
        """A self-contained page: the picture, and the window, divisor and formula of the output under the pointer."""
        parts = {
            "title": escape(title(self.plan)),
            "scheme": "light dark" if self.theme == "auto" else self.theme,
            "picture": self.svg(),
        }
        text = files("poolcli").joinpath("explain", "svg", "page.html").read_text("utf-8")
        for name, value in parts.items():
            text = text.replace(f"{{{{{name}}}}}", value)
        return text

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the picture to a file, `.svg` or `.html`, atomically.

        Raises RequestError for other kinds of file, and for one that exists unless it may be replaced.
        """
        path = os.fspath(path)
        writer = {".svg": self.svg, ".html": self.html}.get(Path(path).suffix.lower())
        if writer is None:
            raise RequestError(f"{field('picture', path)} must end in .svg or .html")
        if Path(path).exists() and not overwrite:
            raise RequestError(f"{path} exists; use {field('overwrite', True)} to replace it")
        from poolcli.formats.atomic import atomic_stream

        content = writer().encode()
        with atomic_stream(path, overwrite) as stream:
            stream.write(content)


def plan_html(plan: Plan) -> str:
    """A plan for a notebook: the table of its axes, its other attributes, its notes, and its picture."""
    words = {name: value for name, value in plan.attributes.items() if isinstance(value, str | bool)}
    rules = ", ".join(f"{name}={value!r}" for name, value in words.items())
    notes = "".join(f"<li>{escape(for_python(note))}</li>" for note in plan.notes)
    heads, rows = ["axis", "input", "kernel", "stride", "dilation", "pads", "output", "formula"], ""
    for axis in plan.axes:
        w = axis.windows
        numbers = [] if isinstance(w, Bins) else [w.kernel, w.stride, w.dilation, f"{w.pad_begin},{w.pad_end}"]
        cells = [axis.name, w.size, *numbers, w.output, axis.formula]
        heads = heads if numbers else ["axis", "input", "output", "formula"]
        rows += f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
    table = f"<thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead><tbody>{rows}</tbody>"
    return (
        f"<div><p><b>{escape(title(plan))}</b>, {escape(plan.dtype)} to {escape(plan.output_dtype)}</p>"
        f"<table>{table}</table>{f'<p>{escape(rules)}</p>' if rules else ''}{f'<ul>{notes}</ul>' if notes else ''}"
        f"{draw(plan)}</div>"
    )
