"""Shows a plan as SVG, as a page that answers the pointer, and in notebooks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.explain.svg.drawing import draw, title
from poolcli.message_fields import field
from poolcli.plan import Plan


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """The picture of a plan as SVG or an HTML page, in the reader's theme; notebooks display it.

    >>> from poolcli import MaxPool
    >>> picture = MaxPool(2, strides=2).plan((1, 3, 8, 8)).picture()
    >>> picture
    <Picture of max pooling, as OpenVINO: H=8 W=8 to H=4 W=4>
    >>> picture.svg().startswith("<svg ")
    True
    """

    plan: Plan

    def __repr__(self) -> str:
        return f"<Picture of {title(self.plan)}>"

    def svg(self) -> str:
        """The picture as SVG."""
        return draw(self.plan)

    def _repr_svg_(self) -> str:
        return self.svg()

    def html(self) -> str:
        """A self-contained page: the picture, and the window, divisor and formula of the output under the pointer."""
        text = files("poolcli").joinpath("explain", "svg", "page.html").read_text("utf-8")
        return text.replace("{{title}}", escape(title(self.plan))).replace("{{picture}}", self.svg())

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
