"""The picture of a plan as a file: SVG, PNG, or a page that answers whoever points at it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from poolcli.core.errors import RequestError
from poolcli.core.fields import field
from poolcli.core.values import one_of
from poolcli.explain.picture import draw
from poolcli.explain.theme import THEMES
from poolcli.plan import Plan
from poolcli.plan.attributes import Attributes

DENSITY = (192, 192)  # pixels an inch of a PNG: two for each unit of 1/96 inch


def write_picture(
    plan: Plan, path: str, *, op: Attributes | None = None, overwrite: bool = False, theme: str = "auto"
) -> None:
    """Writes the picture of `plan` to an .svg, .png or .html, whole or not at all.

    The page offers the rules of every framework where `op`, the operator that was planned, is given.
    """
    kind = Path(path).suffix.lower()
    if kind not in _KINDS:
        raise RequestError(f"{field('picture', path)} ends in {kind or 'nothing'}; use .svg, .png or .html")
    one_of("theme", theme, THEMES)
    if Path(path).exists() and not overwrite:
        raise RequestError(f"{path} exists; use {field('overwrite')} to replace it")
    from poolcli.formats.atomic import byte_stream

    content = _KINDS[kind](plan, op, theme)
    with byte_stream(path, overwrite) as stream:
        stream.write(content)


def _svg(plan: Plan, op: Attributes | None, theme: str) -> bytes:
    return draw(plan).svg(theme).encode()


def _png(plan: Plan, op: Attributes | None, theme: str) -> bytes:
    buffer = BytesIO()
    draw(plan).image(theme).save(buffer, "PNG", dpi=DENSITY)
    return buffer.getvalue()


def _html(plan: Plan, op: Attributes | None, theme: str) -> bytes:
    from poolcli.explain.compare import compare
    from poolcli.explain.page import page

    return page(plan, compare(op, plan) if op else (), theme).encode()


_KINDS = {".svg": _svg, ".png": _png, ".html": _html}
