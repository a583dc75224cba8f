"""What the names of dimensions say about the layout."""

from __future__ import annotations

from collections.abc import Sequence

from poolcli.layouts import SPATIAL, default_layout

# Every other single letter that is one of a layout stands for itself.
LETTERS = {
    "t": "N", "z": "D", "y": "H", "x": "W",
    "time": "N", "batch": "N", "channel": "C", "channels": "C", "depth": "D", "height": "H", "width": "W",
    "latitude": "H", "lat": "H", "longitude": "W", "lon": "W",
}  # fmt: skip


def layout_of(names: Sequence[str | None]) -> str | None:
    """The layout that dimensions of these names have, None where one is not known or two would share a letter.

    >>> layout_of(["t", "c", "z", "y", "x"]), layout_of(["lat", "lon"]), layout_of(["y", "bands"])
    ('NCDHW', 'HW', None)
    """
    letters = [_letter(name) for name in names]
    known = all(letters) and len(set(letters)) == len(letters) and not set(letters) <= {"N", "C"}
    return "".join(letters) if known else None


def names_of(layout: str) -> tuple[str, ...]:
    """Names for the axes of a layout; none for the one that is taken where nothing is known."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)


def _letter(name: str | None) -> str:
    if not name:
        return ""
    bare = name.strip().lower()
    own = bare.upper() if len(bare) == 1 and bare.upper() in "NC" + SPATIAL else ""
    return LETTERS.get(bare, own)
