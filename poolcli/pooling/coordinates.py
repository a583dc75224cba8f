"""Coordinates of results: those along a pooled axis are the means of its windows', of any number of axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolcli.formats.checks import missing_in, named
from poolcli.formats.records import Dimension, Metadata, Scale
from poolcli.windows import AxisWindows, Cells, coordinate_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_SCALE = 1_000_000  # values; longer ones are left out
TURN = 360.0  # degrees, after which longitudes begin again


def with_coordinates_pooled(metadata: Metadata, windows: Mapping[int, AxisWindows]) -> Metadata:
    """The metadata with coordinates pooled along the axes that have windows, and a note on those that are left out."""
    lost = list[str]()
    gone = {i for i, each in windows.items() if each.empty_windows or max(each.size, each.output) > LONGEST_SCALE}

    def follow(name: str, scale: Scale, axes: tuple[int, ...]) -> dict[str, Scale]:
        pooled = {k: windows[i] for k, i in enumerate(axes) if i in windows}
        if gone.intersection(axes):
            lost.append(name)
            return {}
        if not pooled:
            return {name: scale}
        means = coordinate_means(scale.values, pooled[0]) if scale.values.ndim == 1 else _means(scale, pooled)
        return {name: replace(scale, values=means)}

    dimensions = []
    for i, each in enumerate(metadata.dimensions):
        scales = [follow(name, scale, (i,)) for name, scale in each.scales.items()]
        dimensions.append(Dimension(each.label, {name: scale for found in scales for name, scale in found.items()}))
    variables = [follow(name, each, each.axes) for name, each in metadata.variables.items()]
    metadata = replace(
        metadata,
        dimensions=tuple(dimensions),
        variables={name: each for found in variables for name, each in found.items()},
    )
    if not lost:
        return metadata
    note = f"left out, because they are very long or a window has none of them: the coordinates {named(lost)}"
    return replace(metadata, notes=(*metadata.notes, note))


def _means(scale: Scale, windows: Mapping[int, AxisWindows]) -> NDArray[Any]:
    """The means of the values that are there, of longitudes the short way round."""
    import numpy as np

    values, units = scale.values, scale.attributes.get("units")
    missing = missing_in(scale.attributes, values.dtype.name)
    there = np.isfinite(values) & ~np.isin(values, missing)
    exact = np.where(there, values, 0).astype(np.float64)
    units = units.decode("utf-8", "replace") if isinstance(units, bytes) else units
    known = values[there]
    around = known.size > 0 and str(units).lower().startswith(("degrees_e", "degree_e"))
    sums, counts = exact, there.astype(np.float64)
    for axis, each in windows.items():
        sums, counts = _along(axis, each, sums, counts, around)
    found = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    if around:
        low, high = float(known.min()), float(known.max())
        begin = next((each for each in (0, -TURN / 2) if each <= low and high <= each + TURN), low)
        found = np.where((found < begin) | (found > begin + TURN), (found - begin) % TURN + begin, found)
    found = np.where(counts > 0, found, missing[0] if missing else np.nan)
    return found.astype(values.dtype) if values.dtype.kind == "f" else found


def _along(
    axis: int, windows: AxisWindows, sums: NDArray[Any], counts: NDArray[Any], around: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sums and counts of the windows of an axis; those of angles are counted from the first that is there."""
    import numpy as np

    sums, counts = np.moveaxis(sums, axis, 0), np.moveaxis(counts, axis, 0)
    out = np.empty((2, windows.output, *sums.shape[1:]))
    for o in range(windows.output):
        span = windows.span(o)
        part, count = sums[span.start : span.stop : span.step], counts[span.start : span.stop : span.step]
        if around:
            mean = np.divide(part, count, out=np.zeros_like(part), where=count > 0)
            first = np.take_along_axis(mean, (count > 0).argmax(0)[None], 0)
            part = part + TURN * np.round((first - mean) / TURN) * count
        weights = [windows.weight(o, i) for i in span] if isinstance(windows, Cells) else [1] * len(span)
        out[:, o] = np.tensordot(weights, part, 1), np.tensordot(weights, count, 1)
    return np.moveaxis(out[0], 0, axis), np.moveaxis(out[1], 0, axis)
