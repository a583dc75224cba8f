"""From a header to everything that can be known of a pyramid before data is read, every refusal included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from math import prod
from pathlib import Path
from typing import Any

from poolcli.arguments import one_of
from poolcli.dtypes import DTYPES, lookup
from poolcli.errors import RequestError
from poolcli.formats import Header, Metadata, Source, Spec, check_output, format_of
from poolcli.formats.files import check_apart
from poolcli.formats.records import Dimension, WriteOptions
from poolcli.formats.zarr.documents import Grid, for_version, grid_of
from poolcli.formats.zarr.ome import AXES, VERSIONS, colours, multiscale, names_of_axes, ordered, unit_of
from poolcli.layouts import converted_shape
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.pooling.outcome import Settings
from poolcli.pooling.pyramid.levels import Level, Reduction, levels_of
from poolcli.pooling.tiles import HELD, LARGEST
from poolcli.version import VERSION

GUESSED = {2: "HW", 3: "DHW", 4: "CDHW", 5: "NCDHW"}  # of arrays that say nothing: microscopes give t, c, z, y, x
ENOUGH = 256  # the longest spatial axis of the smallest level, where their number is not given


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a pyramid: how many `levels` (None: until the smallest is small), how each is computed, where
    the elements of the first lie (`scale` by the axis' name, and `unit`; what the input says otherwise), and the
    version of OME-NGFF.
    """

    reduction: Reduction
    levels: int | None = None
    scale: Mapping[str, float] = default(default_factory=dict)
    unit: str | None = None
    ngff: str = "0.5"


@dataclass(frozen=True, slots=True)
class Pyramid:
    """What is made: the levels, where their elements lie, and how they are stored."""

    source: Source
    header: Header
    output: str
    layout: str
    read_layout: str
    levels: tuple[Level, ...]
    scales: tuple[tuple[float, ...], ...]
    translations: tuple[tuple[float, ...], ...]
    units: Mapping[str, str]
    specs: tuple[Spec, ...]
    grid: Grid
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What OME-Zarr calls the axes."""
        return names_of_axes(self.layout)

    def options(self, overwrite: bool, identity: str | None) -> WriteOptions:
        """How the store is written."""
        return WriteOptions(overwrite, identity=identity, chunks=self.grid.chunks, shards=self.grid.shards)


def prepare(
    request: Request, source: Source, header: Header, metadata: Metadata | None, output: str, settings: Settings
) -> Pyramid:
    """The pyramid of an input; every refusal is a RequestError."""
    metadata = metadata or Metadata()
    version = VERSIONS[one_of("ngff", request.ngff, tuple(VERSIONS))]
    _refuse_output(output, settings, version)
    _refuse_type(request.reduction.op, header)
    check_apart(source.path, output)
    given = settings.layout or header.layout
    read_layout = given.strip().upper() if given else _guessed(header)
    layout = ordered(read_layout)
    shape = converted_shape(header.shape, read_layout, layout)
    check_output(output, shape, header.dtype, layout)
    missing = header.missing if settings.missing is None else settings.missing
    levels = levels_of(
        request.reduction, shape, header.dtype, layout, count=request.levels, enough=ENOUGH, missing=missing
    )
    known = metadata.ome
    scale = _scale(request, layout, read_layout, known)
    origin = _turned(known.get("translation") or [0.0] * len(layout), read_layout, layout)
    units = _units(request, layout, read_layout, known)
    kept = _kept(metadata, read_layout, layout, version)
    grid = grid_of(
        shape,
        layout,
        asked=settings.chunks,
        asked_shards=settings.shards,
        kept=kept,
        most=_most(levels, header.dtype, settings.max_memory),
    )
    scales = tuple(tuple(level.scale(scale)) for level in levels)
    translations = tuple(tuple(level.translation(scale, origin)) for level in levels)
    highest = DTYPES[header.dtype].limits[1] if DTYPES[header.dtype].is_integer else None
    group = multiscale(
        layout,
        units,
        [(str(i), scales[i], translations[i]) for i in range(len(levels))],
        version=request.ngff,
        name=str(known.get("name") or Path(output).name.split(".")[0]),
        method=_method(request, missing),
        omero=known.get("omero") or colours(header.mode, highest),
    )
    dimensions = tuple(Dimension(name, {}) for name in names_of_axes(layout))
    stored = Metadata(store=kept or {"version": version, "chunks": grid.chunks, **_fresh(header.dtype, version)})
    specs = tuple(
        Spec(
            level.shape,
            header.dtype,
            layout,
            f"/{number}",
            Metadata(store=stored.store, dimensions=dimensions, groups={"/": group}),
        )
        for number, level in enumerate(levels)
    )
    notes = (*header.notes, *_said(given, layout, header), *grid.notes)
    return Pyramid(source, header, output, layout, read_layout, levels, scales, translations, units, specs, grid, notes)


def _refuse_output(output: str, settings: Settings, version: int) -> None:
    if not format_of(output).chunked:
        raise RequestError(f"{field('output', output)}: a pyramid is an OME-Zarr store; name one such as out.ome.zarr")
    if settings.shards and version == 2:
        raise RequestError(f"{field('shards')} needs {field('ngff', '0.5')}: Zarr 2, which 0.4 is stored in, has none")


def _refuse_type(op: str, header: Header) -> None:
    if DTYPES[header.dtype].kind == "bool" and OPERATORS[op].reducer.result == "number":
        raise RequestError(
            f"levels have the type of the input, and bool has no averages; use {field('operator', 'mode')}"
        )


def _guessed(header: Header) -> str:
    found = GUESSED.get(len(header.shape))
    if found is None:
        raise RequestError(
            f"the input has {len(header.shape)} axes, OME-Zarr has 2 to 5 (t, c, z, y, x); "
            f"choose some of it, or name them with {field('layout')}"
        )
    return found


def _said(given: str | None, layout: str, header: Header) -> tuple[str, ...]:
    if given:
        return ()
    names = ",".join(names_of_axes(layout))
    return (
        f"assuming axes {names}; {field('layout')} names others, such as {field('layout', 'HWC')} (N is t, D is z)",
    )


def _turned(values: Sequence[Any], source: str, target: str) -> list[Any]:
    """Values for each axis in the order of another layout."""
    return [values[source.index(letter)] for letter in target]


def _scale(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> list[float]:
    found = _turned(known.get("scale") or [1.0] * len(layout), read_layout, layout)
    names = names_of_axes(layout)
    for name, step in request.scale.items():
        if name not in names:
            raise RequestError(f"{field('scale')} names {name}; the axes are {', '.join(names)}")
        found[names.index(name)] = step
    return found


def _units(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> dict[str, str]:
    axes = _turned(known.get("axes") or [{}] * len(layout), read_layout, layout)
    found = {name: axis["unit"] for name, axis in zip(names_of_axes(layout), axes, strict=True) if "unit" in axis}
    if request.unit is not None:
        unit = unit_of(request.unit)
        found |= {name: unit for name, kind in AXES.values() if kind == "space" and name in names_of_axes(layout)}
    return found


def _kept(metadata: Metadata, read_layout: str, layout: str, version: int) -> dict[str, Any]:
    kept = for_version(metadata.store, version)
    for name in ("chunks", "shards"):
        if kept.get(name):
            kept[name] = tuple(_turned(kept[name], read_layout, layout))
    if version == 2 and kept:
        kept["dimension_separator"] = "/"  # which OME-NGFF 0.4 wants
    return kept


def _fresh(dtype: str, version: int) -> dict[str, Any]:
    """How an array is stored that was not stored in Zarr before."""
    from poolcli.formats.zarr.documents import ZSTD_2

    common = {"dtype": dtype, "fill_value": False if dtype == "bool" else 0}
    return common | ({"compressor": ZSTD_2, "dimension_separator": "/"} if version == 2 else {})


def _most(levels: Sequence[Level], dtype: str, limit: int | None) -> int:
    """The elements of one unit, so that it and what it is pooled from fit into memory."""
    window = prod(levels[1].factors) if len(levels) > 1 else 1
    room = LARGEST if limit is None else min(LARGEST, limit // HELD)
    return max(1, room // (lookup(dtype).itemsize * (window + 1)))


def _method(request: Request, missing: Sequence[object]) -> dict[str, Any]:
    reduction = request.reduction
    kwargs = {"kernel": list(reduction.kernel), "from": reduction.base, "edge": reduction.edge}
    return {
        "type": OPERATORS[reduction.op].reducer.name,
        "metadata": {
            "method": f"poolcli.{reduction.op}_pool",
            "version": VERSION,
            "kwargs": kwargs | ({"missing": [str(number) for number in missing]} if missing else {}),
        },
    }
