"""The plan of a pyramid, from the header of its source: levels, where their elements lie, and every refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from dataclasses import field as default
from math import prod
from pathlib import Path
from typing import Any

from poolcli import __version__
from poolcli.arguments import one_of
from poolcli.dtypes import DTYPES, lookup
from poolcli.errors import RequestError
from poolcli.formats import Header, Metadata, Source, Spec, check_output, format_of
from poolcli.formats.checks import named
from poolcli.formats.files import check_apart
from poolcli.formats.image.stacks import TIMES
from poolcli.formats.records import Axis, Dimension, WriteOptions
from poolcli.formats.zarr import ome
from poolcli.formats.zarr.documents import Grid, for_version, grid_of
from poolcli.layouts import converted_shape, spatial_axes
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Settings
from poolcli.pooling.pyramid_levels import Level, Reduction, levels_of

GUESSED = {2: "HW", 3: "DHW", 4: "CDHW", 5: "NCDHW"}  # of arrays that say nothing: microscopes give t, c, z, y, x
ENOUGH = 256  # the longest spatial axis of the smallest level, where their number is not given


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a pyramid: how many `levels` (None: until the smallest is small), how each is computed, where
    the elements of the first lie (`scale` by the axis' name, and `unit`; what the input says otherwise), and the
    version of OME-NGFF. `place` is the group in the output, `groups` are attributes of the groups above it.
    """

    reduction: Reduction
    levels: int | None = None
    scale: Mapping[str, float] = default(default_factory=dict)
    unit: str | None = None
    ngff: str = "0.5"
    place: str = "/"
    groups: Mapping[str, Any] = default(default_factory=dict)
    of_labels: bool = False


@dataclass(frozen=True, slots=True)
class Pyramid:
    """What is made: the levels, where their elements lie, how they are stored, the pyramids of its labels, and those of
    the other images of a plate or of series, with what stands beside those.
    """

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
    labels: tuple[Pyramid, ...] = ()
    others: tuple[Pyramid, ...] = ()
    beside: Mapping[str, bytes] = default(default_factory=dict)

    @property
    def every(self) -> tuple[Pyramid, ...]:
        """The pyramids of the store: of each image and, after it, of its labels."""
        return (self, *self.labels, *(each for other in self.others for each in other.every))

    @property
    def every_spec(self) -> tuple[Spec, ...]:
        """The arrays of the store."""
        return tuple(spec for each in self.every for spec in each.specs)

    @property
    def names(self) -> tuple[str, ...]:
        """What OME-Zarr calls the axes."""
        return ome.names_of_axes(self.layout)

    def options(self, overwrite: bool, identity: str | None) -> WriteOptions:
        """How the store is written."""
        return WriteOptions(overwrite, identity=identity, beside=self.beside)


def planned(
    request: Request, source: Source, header: Header, metadata: Metadata, output: str, settings: Settings
) -> Pyramid:
    """The pyramid of one image or of its labels."""
    version = ome.VERSIONS[one_of("ngff", request.ngff, tuple(ome.VERSIONS))]
    _refuse_output(output, settings, version)
    _refuse_type(request.reduction.op, header)
    check_apart(source.path, output)
    given = settings.layout or header.layout
    read_layout = given.strip().upper() if given else _guessed(header)
    layout = ome.ordered(read_layout)
    shape = converted_shape(header.shape, read_layout, layout)
    check_output(output, shape, header.dtype, layout)
    if not request.of_labels:  # which need not have every axis
        _refuse_unknown_axes(request, layout)
    missing = header.missing if settings.missing is None else settings.missing
    levels = levels_of(
        request.reduction,
        shape,
        header.dtype,
        layout,
        count=request.levels,
        enough=ENOUGH,
        missing=missing,
        min_count=settings.min_count,
    )
    known = metadata.ome or _described(header.axes)
    scale = _scale(request, layout, read_layout, known)
    origin = _turned(known.get("translation") or [0.0] * len(layout), read_layout, layout)
    scales = tuple(tuple(level.scale(scale)) for level in levels)
    translations = tuple(tuple(level.translation(scale, origin)) for level in levels)
    units = _units(request, layout, read_layout, known)
    kept = _kept(metadata, read_layout, layout, version)
    most = _most(levels, header.dtype, settings.max_memory)
    grid = grid_of(shape, layout, asked=settings.chunks, asked_shards=settings.shards, kept=kept, most=most)
    store = kept or {"version": version, **_fresh(header.dtype, version)}
    made = Pyramid(source, header, output, layout, read_layout, levels, scales, translations, units, (), grid, ())
    specs, lost = _specs(made, request, metadata, known, store, missing)
    return replace(made, specs=specs, notes=(*header.notes, *_said(given, layout, header), *grid.notes, *lost))


def _specs(
    pyramid: Pyramid,
    request: Request,
    metadata: Metadata,
    known: Mapping[str, Any],
    store: Mapping[str, Any],
    missing: Sequence[object],
) -> tuple[tuple[Spec, ...], list[str]]:
    """The arrays of the levels with what is known of their group, and notes on what is lost of that."""
    dtype, layout = pyramid.header.dtype, pyramid.layout
    highest = DTYPES[dtype].limits[1] if DTYPES[dtype].is_integer else None
    omero = known.get("omero") or ome.colours(pyramid.header.mode, highest)
    beside, own, attributes, lost = _carried(request, metadata, omero)
    group = own | ome.multiscale(
        layout,
        pyramid.units,
        [(str(i), *place) for i, place in enumerate(zip(pyramid.scales, pyramid.translations, strict=True))],
        version=request.ngff,
        name=str(known.get("name") or Path(request.place).name or Path(pyramid.output).name.split(".")[0]),
        method=_method(request, missing),
        beside=beside,
    )
    about = Metadata(
        store={**store, "chunks": pyramid.grid.chunks, "shards": pyramid.grid.shards},
        dimensions=tuple(Dimension(name, {}) for name in pyramid.names),
        attributes=attributes,
        groups={**request.groups, request.place: group},
    )
    specs = (Spec(level.shape, dtype, layout, f"{request.place}{i}", about) for i, level in enumerate(pyramid.levels))
    return tuple(specs), lost


def _carried(
    request: Request, metadata: Metadata, omero: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """What stands beside `multiscales`, other attributes of the group and of the levels, and notes on what is lost."""
    known, notes, lost = metadata.ome, list[str](), list[str]()
    beside = dict(known.get("beside", {})) | ({"omero": dict(omero)} if omero else {})
    nearest = list(metadata.groups)[-1:]
    own = ome.plain(metadata.groups[nearest[0]] if nearest else {}, "", lost)
    attributes = ome.plain(metadata.attributes, "", lost)
    own.pop("image-label", None)  # of OME-Zarr 0.4
    label = dict(known.get("image-label", {}))
    if label and OPERATORS[request.reduction.op].reducer.result != "element":
        notes.append(f"left out: image-label, as means are not labels; {field('operator', 'mode')} keeps them")
    elif label:
        if not request.of_labels and label.pop("source", None) is not None:
            notes.append("left out: the source in image-label, as the image is not in this store")
        label.pop("version", None)
        beside["image-label"] = label | ({"version": "0.4"} if request.ngff == "0.4" else {})
    if not request.groups:
        notes += known.get("others", ())
    if lost:
        notes.append(f"left out, because they cannot be written: the attributes {named(lost)}")
    return beside, own, attributes, notes


def _refuse_output(output: str, settings: Settings, version: int) -> None:
    if not format_of(output).chunked:
        raise RequestError(f"{field('output', output)}: a pyramid is an OME-Zarr store; name one such as out.ome.zarr")
    if settings.shards and version == 2:
        raise RequestError(f"{field('shards')} needs {field('ngff', '0.5')}: 0.4 is Zarr 2, which has no shards")


def _refuse_type(op: str, header: Header) -> None:
    if DTYPES[header.dtype].kind == "bool" and OPERATORS[op].reducer.result == "number":
        raise RequestError(
            f"levels have the type of the input, and bool has no averages; use {field('operator', 'mode')}"
        )


def _refuse_unknown_axes(request: Request, layout: str) -> None:
    names = ome.names_of_axes(layout)
    _refuse_others("scale", request.scale, names)
    spatial = [names[i] for i in spatial_axes(layout)]
    _refuse_others("factors", [name for level in request.reduction.factors for name in level], spatial)


def _refuse_others(option: str, found: Iterable[str], names: Sequence[str]) -> None:
    for name in found:
        if name not in names:
            raise RequestError(f"{field(option)} names {name}; the axes are {', '.join(names)}")


def _guessed(header: Header) -> str:
    found = GUESSED.get(len(header.shape))
    if found is None:
        raise RequestError(
            f"the input has {len(header.shape)} axes, but OME-Zarr has 2 to 5 (t, c, z, y, x); "
            f"choose some of it, or name them with {field('layout')}"
        )
    return found


def _said(given: str | None, layout: str, header: Header) -> tuple[str, ...]:
    if given:
        return ()
    names = ",".join(ome.names_of_axes(layout))
    return (
        f"assuming axes {names}; {field('layout')} names others, such as {field('layout', 'HWC')} (N is t, D is z)",
    )


def _described(axes: Sequence[Axis]) -> dict[str, Any]:
    """Axes, distances and units that the stack itself names, as OME-Zarr has them; without units that it lacks."""
    found, scale = [], []
    for axis in axes:
        name, unit = ome.AXES[axis.letter][0], axis.unit
        with suppress(RequestError):
            unit = unit if axis.letter == "N" else ome.unit_of(unit)
        known = unit in (TIMES.values() if axis.letter == "N" else ome.KNOWN_UNITS)
        found.append({"name": name} | ({"unit": unit} if known else {}))
        scale.append(axis.step if known and axis.step > 0 else 1.0)
    return {"axes": found, "scale": scale} if found else {}


def _turned(values: Sequence[Any], source: str, target: str) -> list[Any]:
    """Values for each axis in the order of another layout."""
    return [values[source.index(letter)] for letter in target]


def _scale(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> list[float]:
    found = _turned(known.get("scale") or [1.0] * len(layout), read_layout, layout)
    names = ome.names_of_axes(layout)
    for name, step in request.scale.items():
        if name in names:
            found[names.index(name)] = step
    return found


def _units(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> dict[str, str]:
    axes = _turned(known.get("axes") or [{}] * len(layout), read_layout, layout)
    found = {name: axis["unit"] for name, axis in zip(ome.names_of_axes(layout), axes, strict=True) if "unit" in axis}
    if request.unit is not None:
        unit = ome.unit_of(request.unit)
        found |= {
            name: unit for name, kind in ome.AXES.values() if kind == "space" and name in ome.names_of_axes(layout)
        }
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
    room = tiles.LARGEST if limit is None else min(tiles.LARGEST, limit // tiles.HELD)
    return max(1, room // (lookup(dtype).itemsize * (window + 1)))


def _method(request: Request, missing: Sequence[object]) -> dict[str, Any]:
    reduction = request.reduction
    sizes = {"factors": list(map(dict, reduction.factors))} if reduction.factors else {"kernel": list(reduction.kernel)}
    kwargs = {**sizes, "from": reduction.base, "edge": reduction.edge}
    return {
        "type": OPERATORS[reduction.op].reducer.name,
        "metadata": {
            "method": f"poolcli.{reduction.op}_pool",
            "version": __version__,
            "kwargs": kwargs | ({"missing": [str(number) for number in missing]} if missing else {}),
        },
    }
