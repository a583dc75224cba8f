"""The report of `compare`: the differences of two arrays, as a view and as JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from poolcli.explain.diff_arrays import Difference
from poolcli.layouts import named_shape
from poolcli.message_fields import printable
from poolcli.report.console import grid


def difference_view(first: str, second: str, layout: str, found: Difference) -> RenderableType:
    """The verdict, the numbers, and where the differences lie."""
    table = grid()
    shape = named_shape(layout, found.shape)
    for name, path, dtype in (("A", first, found.dtypes[0]), ("B", second, found.dtypes[1])):
        table.add_row(name, Text(f"{shape}  {dtype}  {printable(path)}"))
    if found.dtypes[0] != found.dtypes[1]:
        table.add_row(Text("note", style="yellow"), "the types differ; the values are compared")
    if found.max_abs:
        ulp = "" if found.max_ulp is None or not isfinite(found.max_abs) else f", {found.max_ulp:,} ulp"
        table.add_row("largest", f"{found.max_abs:.6g}{ulp}, at {_place(layout, found)}")
        table.add_row("mean", f"{found.mean_abs:.6g}")
    if found.different:
        table.add_row("where", where(layout, found))
    verdict = Text(_verdict(found), style="bold green" if found.equal else "bold red")
    return Group(verdict, table, *_map(layout, found))


def where(layout: str, found: Difference) -> str:
    """Where the differences are, in words, such as "last W" or "scattered"."""
    if found.different == found.elements:
        return "everywhere"
    if found.different == 1:
        return "a single element"
    told = [
        text
        for letter, size, places in zip(layout, found.shape, found.along, strict=True)
        if (text := _along(letter, size, places))
    ]
    return "; ".join(told) or _at_the_border(layout, found) or "scattered"


def difference_document(first: str, second: str, layout: str, found: Difference) -> dict[str, Any]:
    """The same as JSON; infinite numbers and NaN are strings."""
    numbers = {"max_abs": found.max_abs, "mean_abs": found.mean_abs}
    finite = {name: value if isfinite(value) else str(value) for name, value in numbers.items()}
    return {
        "a": {"path": first, "dtype": found.dtypes[0]},
        "b": {"path": second, "dtype": found.dtypes[1]},
        "shape": list(found.shape),
        "layout": layout,
        "equal": found.equal,
        "elements": found.elements,
        "different": found.different,
        **finite,
        "max_ulp": found.max_ulp,
        "where": None if found.where is None else list(found.where),
        "error": None,
    }


def _verdict(found: Difference) -> str:
    if not found.max_abs:
        return f"equal: all {found.elements:,} elements"
    if found.equal:
        return f"equal within the tolerance: all {found.elements:,} elements"
    return f"different: {found.different:,} of {found.elements:,} elements"


def _place(layout: str, found: Difference) -> str:
    named = named_shape(layout, found.where or ())
    return f"{named}: {found.pair[0]} and {found.pair[1]}" if found.pair else named


def _at_the_border(layout: str, found: Difference) -> str:
    """The ends of the last two axes, if all differences are there; else ""."""
    ends = [f"{end} {letter}" for letter in layout[-2:] for end in ("first", "last")]
    touched = [end for end, has in zip(ends, found.border, strict=False) if has]
    return f"only the border: {', '.join(touched)}" if touched else ""


def _along(letter: str, size: int, places: frozenset[int]) -> str:
    """What the places of differences along an axis have in common, in words; "" if nothing."""
    if size < 2 or len(places) == size:
        return ""
    last = size - 1
    if places == {last}:
        return f"last {letter}"
    if places == {0}:
        return f"first {letter}"
    if places == {0, last}:
        return f"both ends of {letter}"
    if len(places) == 1:
        return f"{letter}={min(places)} alone"
    if max(places) - min(places) == len(places) - 1:
        return f"{letter} from {min(places)} to {max(places)}"
    return ""


def _map(layout: str, found: Difference) -> list[RenderableType]:
    """A map of the last two axes: where no, some or all elements differ."""
    if found.equal or len(found.shape) < 2 or found.different == found.elements:
        return []
    legend = f"map of {layout[-2]} (down) and {layout[-1]} (right): . equal, + some differ, # all differ"
    return ["", Text(legend, style="dim"), *(Text(f"  {line}", no_wrap=True) for line in found.plane)]
