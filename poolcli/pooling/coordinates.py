"""Coordinates of results: those along a pooled axis are the means of its windows', of any number of axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from poolcli.coordinates import are_longitudes, means, outer_bounds
from poolcli.formats.cf import BOUNDS
from poolcli.formats.checks import missing_in, named
from poolcli.formats.records import Dimension, Metadata, Scale
from poolcli.windows import AxisWindows

LONGEST_SCALE = 1_000_000  # values; longer ones are left out


def with_coordinates_pooled(metadata: Metadata, windows: Mapping[int, AxisWindows]) -> Metadata:
    """The metadata with coordinates pooled along the axes that have windows, and a note on those that are left out."""
    lost, untold = list[str](), list[str]()
    gone = {i for i, each in windows.items() if each.empty_windows or max(each.size, each.output) > LONGEST_SCALE}

    def follow(name: str, scale: Scale, axes: tuple[int, ...]) -> dict[str, Scale]:
        pooled = {k: windows[i] for k, i in enumerate(axes) if i in windows}
        if gone.intersection(axes) or (pooled and scale.values.dtype.kind not in "biuf"):
            lost.append(name)
            return {}
        if not pooled:
            return {name: scale}
        around = are_longitudes(scale.attributes)
        values, missing = scale.values, missing_in(scale.attributes, scale.values.dtype.name)
        found = means(values, pooled, around, missing)
        bounds, attributes = dict[str, Scale](), dict(scale.attributes)
        for place, each in scale.bounds.items():
            outer = outer_bounds(each.values, pooled, found if around else None)
            if outer is None:
                untold.append(place)
                attributes = {word: value for word, value in attributes.items() if word not in BOUNDS}
            else:
                bounds[place] = replace(each, values=outer)
        found = found.astype(values.dtype) if values.ndim > 1 and values.dtype.kind == "f" else found
        return {name: replace(scale, values=found, attributes=attributes, bounds=bounds)}

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
    notes = tuple(
        f"left out, because {why} {named(names)}"
        for names, why in (
            (lost, "they are very long, no numbers, or a window has none of them: the coordinates"),
            (untold, "they cannot be told of whole windows: the bounds"),
        )
        if names
    )
    return replace(metadata, notes=(*metadata.notes, *notes))
