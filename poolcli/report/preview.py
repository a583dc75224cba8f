"""Pixels as text: two to a character in colour, or shades of one where there is no colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import Color
from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from poolcli.explain.preview import Preview

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HALF = "\N{UPPER HALF BLOCK}"
SHADES = " \N{LIGHT SHADE}\N{MEDIUM SHADE}\N{DARK SHADE}\N{FULL BLOCK}"
PLAIN_SHADES = " .:*#"
BETWEEN = 2  # columns between the two


def preview_view(preview: Preview, width: int, lines: int, colour: bool, blocks: bool = True) -> RenderableType:
    """Input and output side by side in `width` columns and at most so many lines; `blocks` are characters that the
    stream can take.
    """
    column = (width - BETWEEN) // 2
    made = [_text(pixels, colour, blocks) for pixels in preview.painted(column, 2 * lines)]
    rows = [Text.assemble((_cut(title, column).ljust(column), "bold"), " " * BETWEEN) for title in preview.titles]
    heading = Text.assemble(rows[0], (_cut(preview.titles[1], column), "bold"))
    body = []
    for number in range(max(map(len, made))):
        left = made[0][number] if number < len(made[0]) else Text("")
        right = made[1][number] if number < len(made[1]) else Text("")
        body.append(Text.assemble(left, " " * (column + BETWEEN - len(left)), right))
    notes = [Text("; ".join(preview.notes), style="dim")] if preview.notes else []
    return Group(heading, *body, *notes)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def _text(pixels: NDArray[np.uint8], colour: bool, blocks: bool) -> list[Text]:
    import numpy as np

    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    pairs = zip(pixels[0::2].tolist(), pixels[1::2].tolist(), strict=True)
    if not colour or not blocks:
        return [_shaded(top, below, SHADES if blocks else PLAIN_SHADES) for top, below in pairs]
    found = []
    for top, below in pairs:
        line = Text()
        for upper, lower in zip(top, below, strict=True):
            line.append(HALF, Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        found.append(line)
    return found


def _shaded(top: list[list[int]], below: list[list[int]], shades: str) -> Text:
    line = ""
    for upper, lower in zip(top, below, strict=True):
        bright = sum(0.299 * r + 0.587 * g + 0.114 * b for r, g, b in (upper, lower)) / 2
        line += shades[min(len(shades) - 1, int(bright * len(shades) / 256))]
    return Text(line)
