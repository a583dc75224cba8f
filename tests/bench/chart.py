"""Draws the table of docs/speed.md: each case as a bar whose length is poolcli's time over the fastest other's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

WIDTH, LEFT, UNIT, TOP, STEP = 440, 10, 150, 38, 36  # pixels; UNIT is the length of a ratio of 1
STYLE = (
    "text{fill:#111827;font-family:Helvetica,Arial,sans-serif;font-size:12px}.faster{fill:#2563eb}"
    ".slower{fill:#b45309}.one{stroke:#111827}.page{fill:#fff}"
    "@media (prefers-color-scheme:dark){text{fill:#f1f5f9}.faster{fill:#60a5fa}.slower{fill:#fbbf24}"
    ".one{stroke:#f1f5f9}.page{fill:#0f172a}}"
)


def chart(rows: Sequence[Sequence[str]]) -> str:
    """The chart as SVG; the first cell of a row is the case, the last the ratio."""
    width, height = WIDTH, TOP + STEP * len(rows)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">time of poolcli; | is that of the fastest other program</text>',
        *(line for number, row in enumerate(rows) for line in _bar(TOP + STEP * number, row[0], float(row[-1]))),
    )
    return "\n".join((*lines, "</svg>\n"))


def _bar(top: int, case: str, ratio: float) -> Iterator[str]:
    length, kind = round(ratio * UNIT), "slower" if ratio > 1 else "faster"
    end = LEFT + (max(length, UNIT) if ratio > 0.7 else length)
    yield f'<text x="{LEFT}" y="{top + 8}">{escape(case)}</text>'
    yield f'<rect class="{kind}" x="{LEFT}" y="{top + 13}" width="{length}" height="12"/>'
    yield f'<path class="one" d="M{LEFT + UNIT} {top + 11}v16"/>'
    yield f'<text x="{end + 6}" y="{top + 23}">{ratio:.2f}</text>'
