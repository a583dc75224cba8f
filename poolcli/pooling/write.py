"""Writes results of a job region by region or at the end, with metadata adjusted to the pooled shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any

from poolcli import __version__
from poolcli.formats import Metadata, RegionWriter, Spec, WriteOptions, format_of, open_writer, write
from poolcli.formats.checks import named
from poolcli.formats.files import Fingerprint, is_url
from poolcli.formats.records import CallbackWriter, Dimension, slices
from poolcli.layouts import convert_layout
from poolcli.plan import Plan
from poolcli.plan.region import Ranges, Region, whole
from poolcli.pooling.colour import rescaled
from poolcli.pooling.coordinates import with_coordinates_pooled
from poolcli.pooling.outcome import Outcome, Settings, Stored
from poolcli.pooling.packing import repacked
from poolcli.pooling.tiles import HELD, LARGEST, TILE, bytes_of
from poolcli.windows import AxisWindows, Sliding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.formats.image.metadata import Grid

PER_AXIS = {"chunks": 1, "shards": 1, "maxshape": 0}  # of how an array is stored, with what a new axis has
GDAL = "GeoTransform"  # of pixels to coordinates, in the grid mapping
SIZES = re.compile(r"spacing|resolution|transform|(pixel|voxel|element|grid|cell)_?(size|width|height)", re.IGNORECASE)


def scaled_metadata(metadata: Metadata, plan: Plan, layout: str) -> Metadata:
    """Fewer pixels to the inch, another size; the places along a pooled axis are the means of its windows'.

    What there is for each axis is in the order of `layout`, in which the output is stored.
    """
    windows, metadata = {axis.name: axis.windows for axis in plan.axes}, repacked(metadata, plan)
    if "mask" in metadata.image:
        metadata = replace(metadata, image={**metadata.image, "mask": _pooled(metadata.image["mask"], plan, layout)})
    if metadata.image and {"H", "W"} <= windows.keys():
        metadata = replace(metadata, image=_scaled_image(metadata.image, windows["W"], windows["H"]))
    if metadata.axes:
        steps = {name: _grid(axis).step for name, axis in windows.items()}
        found = zip(plan.layout, metadata.axes, strict=True) if len(metadata.axes) == len(plan.layout) else ()
        axes = (axis._replace(letter=letter, step=axis.step * steps.get(letter, 1)) for letter, axis in found)
        metadata = replace(metadata, axes=tuple(axes))
    if metadata.dimensions:
        places = {axis.position: axis.windows for axis in plan.axes}
        grids = [_grid(places[i]) if i in places else None for i in (len(plan.layout) - 1, len(plan.layout) - 2)]
        metadata = _georeferenced(with_coordinates_pooled(metadata, places), *grids)
    if layout != plan.layout:
        metadata = _turned(metadata, plan.layout, layout)
    copied = [name for name in metadata.attributes if SIZES.search(name)]
    if copied:
        were, them = ("was", "it if it describes") if len(copied) == 1 else ("were", "them if they describe")
        note = f"{named(copied)} {were} copied unchanged; update {them} the resolution"
        metadata = replace(metadata, notes=(*metadata.notes, note))
    return metadata


def _georeferenced(metadata: Metadata, x: Grid | None, y: Grid | None) -> Metadata:
    """GDAL's transformation in grid mappings for pixels on the grids `x` and `y` of the input's, or a note."""
    variables, notes = dict(metadata.variables), metadata.notes
    for name, each in metadata.variables.items() if x or y else ():
        found, attributes = each.attributes.get(GDAL), dict(each.attributes)
        if found is None:
            continue
        try:
            text = found.decode() if isinstance(found, bytes) else str(found)
            (x0, ax, bx, y0, ay, by) = map(float, text.split())
        except ValueError:
            notes = (*notes, f"left out, because it does not have six numbers: the attribute {name}@{GDAL}")
            del attributes[GDAL]
        else:
            (across, i), (down, j) = x or (1.0, 0.0), y or (1.0, 0.0)
            pixels = ((x0 + i * ax + j * bx, across * ax, down * bx), (y0 + i * ay + j * by, across * ay, down * by))
            attributes[GDAL] = " ".join(str(number) for row in pixels for number in row)
        variables[name] = replace(each, attributes=attributes)
    return replace(metadata, variables=variables, notes=notes)


def _pooled(mask: NDArray[Any], plan: Plan, layout: str) -> NDArray[Any]:
    """Which results are missing, as the mask of a picture says it, in the layout in which the output is stored."""
    from poolcli.engine.numpy.missing import are_hidden

    region = whole(plan)
    return convert_layout(are_hidden(region, hidden_from(mask, region)), plan.layout, layout)


def hidden_from(mask: NDArray[Any], region: Region) -> NDArray[Any]:
    """Which elements of what a region reads a mask hides, in which all channels have one."""
    import numpy as np

    own = (
        slice(0, 1) if length == 1 else slice(r.start, r.stop)
        for length, r in zip(mask.shape, region.reads, strict=True)
    )
    return np.broadcast_to(mask[tuple(own)], region.input_shape)


def _turned(metadata: Metadata, source: str, target: str) -> Metadata:
    """What there is for each axis in the order of another layout, whose further axes have nothing."""
    places = [source.find(axis) for axis in target]

    def stored(found: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: tuple(value[i] if i >= 0 else PER_AXIS[name] for i in places) if name in PER_AXIS and value else value
            for name, value in found.items()
        }

    dimensions = metadata.dimensions and tuple(metadata.dimensions[i] if i >= 0 else Dimension("", {}) for i in places)
    variables = {
        name: replace(each, axes=tuple(places.index(i) for i in each.axes))
        for name, each in metadata.variables.items()
        if all(i in places for i in each.axes)
    }
    return replace(
        metadata,
        dataset=stored(metadata.dataset),
        store=stored(metadata.store),
        dimensions=dimensions,
        variables=variables,
    )


def _scaled_image(found: Mapping[str, Any], across: AxisWindows, down: AxisWindows) -> dict[str, Any]:
    from poolcli.formats.image.metadata import scaled

    return scaled(found, _grid(across), _grid(down), (across.output, down.output))


def _grid(windows: AxisWindows) -> Grid:
    """Where the output's pixels lie in the input: each has the size of a stride, around the middle of its window."""
    from poolcli.formats.image.metadata import Grid

    if not isinstance(windows, Sliding):
        return Grid(windows.size / windows.output, 0.0)
    return Grid(windows.stride, (windows.extent - windows.stride) / 2 - windows.pad_begin)


@dataclass(slots=True)
class Writer:
    """Writes the results of one job, whose input was as `source` says; `notes` say what could not be kept."""

    outcome: Outcome
    plan: Plan
    settings: Settings
    source: Fingerprint
    notes: list[str] = field(default_factory=list)

    def write(self, target: Stored, array: NDArray[Any], metadata: Metadata | None) -> None:
        """Writes one result whole; `metadata` is that of the input, None for what has none."""
        header = self.outcome.header
        mode = header.mode if header else None
        if self._rescales(target):
            array, note = rescaled(array, self.settings.rescale or ())
            self.notes.append(note)
            mode = None
        self.notes += write(
            str(target.path),
            convert_layout(array, self.plan.layout, target.layout),
            target.layout,
            key=self._key(target),
            metadata=scaled_metadata(metadata, self.plan, target.layout) if metadata else None,
            mode=mode,
            options=self._options(adds=target.key is not None),
        )

    def _rescales(self, target: Stored) -> bool:
        return self.settings.rescale is not None and target is self.outcome.output

    def open_writer(self, stack: ExitStack, target: Stored, metadata: Metadata | None) -> RegionWriter:
        """Takes one result region by region; it is written when the stack is left."""
        import numpy as np

        direct = self._direct(target, metadata)
        if direct is not None:
            open_writer = stack.enter_context(direct)
            self.notes += open_writer.notes
            return open_writer
        dtype = self.plan.output_dtype if self._rescales(target) else target.dtype
        whole = np.empty(self.plan.output_shape, dtype)

        def finish(kind: object, *_: object) -> None:
            if kind is None:
                self.write(target, whole, metadata)

        def put(region: Ranges, array: NDArray[Any]) -> None:
            whole[slices(region)] = array

        stack.push(finish)
        return CallbackWriter(put)

    def _direct(self, target: Stored, metadata: Metadata | None) -> AbstractContextManager[RegionWriter] | None:
        """The file itself as a sink, None where it takes no regions or has its axes in another order."""
        if target.layout != self.plan.layout:
            return None
        path = str(target.path)
        scaled = scaled_metadata(metadata, self.plan, target.layout) if metadata else Metadata()
        spec = Spec(target.shape, target.dtype, target.layout, self._key(target), scaled)
        return open_writer(path, spec, self._options(self._identity(path), target.key is not None))

    def _options(self, identity: str | None = None, adds: bool = False) -> WriteOptions:
        asked = self.settings
        each = self.plan.output_shape and bytes_of(self.plan) // max(1, prod(self.plan.output_shape))
        room = LARGEST if asked.max_memory is None else min(LARGEST, asked.max_memory // HELD)
        most = max(1, room // max(1, each or 1))
        return WriteOptions(
            asked.overwrite, asked.quality, identity, adds, asked.chunks, asked.shards, most, asked.part, asked.resume
        )

    def _key(self, target: Stored) -> str | None:
        """What the array is called in the file: as it was asked for, or else as the input's."""
        header = self.outcome.header
        return target.key or (header.key if header else None)

    def _identity(self, path: str) -> str | None:
        """Names long work, so that it is only continued where it is the same: the plan and the input's state."""
        asked = self.settings
        if asked.part is None and not (asked.resume and format_of(path).resumable):
            return None
        if asked.part is None and bytes_of(self.plan) <= TILE and not is_url(path):
            return None  # which takes no longer than to continue it
        source = self.outcome.job.source
        stored = (asked.chunks, asked.shards, asked.part and (asked.part[1], asked.max_memory))
        planned = [getattr(self.plan, each.name) for each in fields(self.plan)]
        text = repr((__version__, planned, source, self.source[:2], stored))
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
