"""Names of dimensions for a layout."""

from __future__ import annotations

from poolcli.layouts import default_layout


def names_of(layout: str) -> tuple[str, ...]:
    """Names for the axes of a layout; none for the one that is taken where nothing is known."""
    if len(layout) > 2 and layout == default_layout(len(layout)):
        return ()
    return tuple(letter.lower() for letter in layout)
