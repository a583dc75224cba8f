"""Plans a pyramid from the header of its source: levels, axes, spacing, units and storage; refuses bad requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from dataclasses import field as default
from math import prod
from pathlib import Path
from typing import Any

from poolcli import __version__
from poolcli.arguments import MinCount, Missing, one_of, per_axis
from poolcli.dtypes import DTYPES, lookup
from poolcli.errors import RequestError
from poolcli.formats import Header, Metadata, Source, Spec, check_output, output_format
from poolcli.formats.checks import join_names
from poolcli.formats.files import check_distinct
from poolcli.formats.image.stacks import TIME_UNITS
from poolcli.formats.records import Axis, Dimension
from poolcli.formats.zarr import ome
from poolcli.formats.zarr.metadata import json_attributes
from poolcli.formats.zarr.storage import Grid, convert_storage, grid_of
from poolcli.layouts import check_layout, converted_shape, spatial_axes
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan import Plan, make_plan
from poolcli.pooling import tiles
from poolcli.pooling.outcome import Settings
from poolcli.windows import ceil_div

BASES = ("previous", "source")
EDGES = ("ceil", "floor")
MOST_LEVELS = 64  # each level is at most half as long as the one before, and lengths are below 2**63
OTHER_LAYOUTS = {2: "WH", 3: "HWC", 4: "NCHW", 5: "NDHWC"}  # by rank: one that may be meant instead of the assumed one
SMALLEST_LEVEL = 256  # the longest spatial axis of the smallest level, if the number of levels is not given


@dataclass(frozen=True, slots=True)
class Level:
    """One level: its shape, its downsampling factor along each axis, and its plan, which reads level `base`.

    The first level is the source and has no plan.
    """

    shape: tuple[int, ...]
    factors: tuple[int, ...]
    plan: Plan | None = None
    base: int = 0

    def scale(self, first: Sequence[float]) -> list[float]:
        """The spacing of its elements along each axis, from the spacing `first` of the source."""
        return [step * factor for step, factor in zip(first, self.factors, strict=True)]

    def translation(self, first: Sequence[float], origin: Sequence[float]) -> list[float]:
        """The position of the centre of its first element along each axis, from spacing and origin of the source.

        That element covers `factor` elements of the source, so its centre is (factor - 1) / 2 spacings further.
        """
        places = zip(first, origin, self.factors, strict=True)
        return [start + step * (factor - 1) / 2 for step, start, factor in places]


@dataclass(frozen=True, slots=True)
class Reduction:
    """How levels are computed.

    op: the operator
    kernel: kernel and stride for each spatial axis, the same for every level
    factors: kernel and stride of each level in turn, by the names of axes, in place of `kernel`
    base: "previous" pools each level from the one before; "source" from the first level, so that it is rounded once
    edge: "ceil" keeps a partial window at the end of an axis, "floor" drops it
    """

    op: str
    kernel: tuple[int, ...]
    base: str = "previous"
    edge: str = "ceil"
    factors: tuple[Mapping[str, int], ...] = ()

    def __post_init__(self) -> None:
        for number, level in enumerate(self.factors, 1):
            if max(level.values()) < 2 or min(level.values()) < 1:
                raise RequestError(
                    f"{field('factors')} of level {number} must be at least 2 on one axis and at least 1 on the others"
                )
        if max(self.kernel) < 2 or min(self.kernel) < 1:
            raise RequestError(
                f"{field('kernel', self.kernel)}: must be at least 2 on one axis and at least 1 on the others"
            )


def levels_of(
    reduction: Reduction,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    *,
    count: int | None,
    smallest: int,
    missing: Missing = (),
    min_count: MinCount | None = None,
) -> tuple[Level, ...]:
    """The source and the levels below it: `count` in all, as many as the reduction has factors for, or until no
    spatial axis is longer than `smallest`.

    An axis that is shorter than the kernel is not pooled. Raises RequestError if that many levels are not possible.
    """
    if count is not None and count < 1:
        raise RequestError(f"{field('levels')} is {count}; it must be at least 1")
    spatial = spatial_axes(layout)
    names = ome.names_of_axes(layout)
    given = [tuple(level.get(name, 1) for name in names) for level in reduction.factors]
    count = len(given) + 1 if given else count
    kernels = given or [_by_axis(reduction.kernel, layout)] * MOST_LEVELS
    levels = [Level(shape, (1,) * len(shape))]
    while len(levels) < (count or MOST_LEVELS):
        last = levels[-1]
        if count is None and max(last.shape[i] for i in spatial) <= smallest:
            break
        steps = tuple(k if n >= k else 1 for n, k in zip(last.shape, kernels[len(levels) - 1], strict=True))
        if max(steps) == 1:
            if given:
                lengths = ",".join(f"{name}={n}" for name, n in zip(names, last.shape, strict=True))
                raise RequestError(
                    f"{field('factors')}: every axis of level {len(levels) - 1} ({lengths}) is shorter than its factor "
                    "in the next level"
                )
            if count is not None:
                raise RequestError(
                    f"{field('levels')} is {count}, but after {len(levels)} no axis is as long as the kernel; "
                    f"use at most {field('levels', len(levels))}"
                )
            break
        levels.append(_next(reduction, levels, steps, dtype, layout, (missing, min_count)))
    return tuple(levels)


def _by_axis(numbers: tuple[int, ...], layout: str) -> tuple[int, ...]:
    spatial = spatial_axes(layout)
    found = [1] * len(layout)
    for axis, number in zip(spatial, per_axis("kernel", numbers, [layout[i] for i in spatial]), strict=True):
        found[axis] = number
    return tuple(found)


def _next(
    reduction: Reduction,
    levels: list[Level],
    steps: tuple[int, ...],
    dtype: str,
    layout: str,
    gone: tuple[Missing, MinCount | None],
) -> Level:
    factors = tuple(factor * step for factor, step in zip(levels[-1].factors, steps, strict=True))
    base = len(levels) - 1 if reduction.base == "previous" else 0
    kernels = steps if base else factors
    lengths = levels[base].shape
    spatial = spatial_axes(layout)
    ceil = reduction.edge == "ceil"
    record: Any = OPERATORS[reduction.op]
    op = record(
        tuple(kernels[i] for i in spatial),
        tuple(kernels[i] for i in spatial),
        pads_end=tuple(-lengths[i] % kernels[i] if ceil else 0 for i in spatial),
    )
    # Each level has the nodata value of the first, so that the next one leaves it out too.
    missing, least = gone
    nodata = next(iter(missing), None)
    plan = make_plan(op, lengths, dtype, layout=layout, missing=missing, min_count=least, nodata=nodata)
    expected = (ceil_div(n, k) if ceil else n // k for n, k in zip(lengths, kernels, strict=True))
    assert plan.output_shape == tuple(expected)  # noqa: S101  # the padding makes it so
    return Level(plan.output_shape, factors, plan, base)


@dataclass(frozen=True, slots=True)
class Request:
    """The request for a pyramid.

    reduction: how levels are computed
    levels: how many; None for as many as SMALLEST_LEVEL needs
    scale, unit: the spacing of the source by the names of axes, and its unit; default what the input says
    ngff: version of OME-NGFF
    place: the group in the output
    groups: the attributes of the groups above it, by their paths
    of_labels: whether the source is a label image of another one
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
    """The plan of a pyramid: its levels, their spacing and origin, and how they are stored.

    labels: the pyramids of its label images
    others: the pyramids of the other images of a plate or series
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

    @property
    def all_pyramids(self) -> tuple[Pyramid, ...]:
        """All pyramids of the store: each image, followed by its labels."""
        return (self, *self.labels, *(each for other in self.others for each in other.all_pyramids))

    @property
    def all_specs(self) -> tuple[Spec, ...]:
        """All arrays of the store."""
        return tuple(spec for each in self.all_pyramids for spec in each.specs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes in OME-Zarr."""
        return ome.names_of_axes(self.layout)


def plan_pyramid(
    request: Request, source: Source, header: Header, metadata: Metadata, output: str, settings: Settings
) -> Pyramid:
    """Plans the pyramid of one image or of one label image."""
    version = ome.VERSIONS[one_of("ngff", request.ngff, tuple(ome.VERSIONS))]
    _refuse_output(output, settings, version)
    _refuse_type(request.reduction.op, header)
    check_distinct(source.path, output)
    given = settings.layout or header.layout
    read_layout = check_layout(given, len(header.shape)) if given else _assumed_layout(header)
    layout = ome.ome_order(read_layout)
    shape = converted_shape(header.shape, read_layout, layout)
    check_output(output, shape, header.dtype, layout)
    if not request.of_labels:  # labels may lack some axes of their image
        _refuse_unknown_axes(request, layout)
    missing = header.missing if settings.missing is None else settings.missing
    levels = levels_of(
        request.reduction,
        shape,
        header.dtype,
        layout,
        count=request.levels,
        smallest=SMALLEST_LEVEL,
        missing=missing,
        min_count=settings.min_count,
    )
    known = metadata.ome or _ome_from_axes(header.axes)
    scale = _scale(request, layout, read_layout, known)
    origin = _reordered(known.get("translation") or [0.0] * len(layout), read_layout, layout)
    scales = tuple(tuple(level.scale(scale)) for level in levels)
    translations = tuple(tuple(level.translation(scale, origin)) for level in levels)
    units = _units(request, layout, read_layout, known)
    kept = _storage_of_input(metadata, read_layout, layout, version)
    most = _most_elements(levels, header.dtype, settings.max_memory)
    grid = grid_of(shape, layout, asked=settings.chunks, asked_shards=settings.shards, kept=kept, most=most)
    made = Pyramid(source, header, output, layout, read_layout, levels, scales, translations, units, (), grid, ())
    specs, lost = _specs(made, request, metadata, known, kept, missing)
    other = field("layout", OTHER_LAYOUTS.get(len(layout), ome.ORDER))
    others = f"if they are others, use {field('layout')}, such as {other} (N means t, D means z)"
    assumed = [] if given else [f"assuming axes {','.join(made.names)}; {others}"]
    return replace(made, specs=specs, notes=(*header.notes, *assumed, *grid.notes, *lost))


def _specs(
    pyramid: Pyramid,
    request: Request,
    metadata: Metadata,
    known: Mapping[str, Any],
    store: Mapping[str, Any],
    missing: Sequence[object],
) -> tuple[tuple[Spec, ...], list[str]]:
    """The arrays of the levels with the metadata of their group, and notes on metadata that are lost."""
    dtype, layout = pyramid.header.dtype, pyramid.layout
    highest = DTYPES[dtype].limits[1] if DTYPES[dtype].is_integer else None
    omero = known.get("omero") or ome.omero_rendering(pyramid.header.mode, highest)
    beside, own, attributes, lost = _carried_attributes(request, metadata, omero)
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
        zarr_storage={**store, "chunks": pyramid.grid.chunks, "shards": pyramid.grid.shards},
        dimensions=tuple(Dimension(name, {}) for name in pyramid.names),
        attributes=attributes,
        groups={**request.groups, request.place: group},
    )
    specs = (Spec(level.shape, dtype, layout, f"{request.place}{i}", about) for i, level in enumerate(pyramid.levels))
    return tuple(specs), lost


def _carried_attributes(
    request: Request, metadata: Metadata, omero: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """The OME attributes beside `multiscales`, other attributes of the group, those of the levels, and notes."""
    known, notes, lost, beside = metadata.ome, list[str](), list[str](), dict[str, Any]()
    if omero:
        beside["omero"] = dict(omero) | ({"version": request.ngff} if "version" in omero else {})
    nearest = list(metadata.groups)[-1:]
    own = json_attributes(metadata.groups[nearest[0]] if nearest else {}, "", lost)
    attributes = json_attributes(metadata.attributes, "", lost)
    own.pop("image-label", None)  # of OME-Zarr 0.4
    label, others = dict(known.get("image-label", {})), list(known.get("others", ()))
    if label and OPERATORS[request.reduction.op].reducer.result != "element":
        notes.append(f"left out: image-label, as means are not labels; {field('operator', 'mode')} keeps them")
    elif label:
        if not request.of_labels and label.pop("source", None) is not None:
            others.append("the source in image-label")  # its image is not in this store
        label.pop("version", None)
        beside["image-label"] = label | ({"version": "0.4"} if request.ngff == "0.4" else {})
    if others:
        notes.append(f"not kept: {join_names(others)}")
    if lost:
        notes.append(f"left out, because they cannot be written: the attributes {join_names(lost)}")
    return beside, own, attributes, notes


def _refuse_output(output: str, settings: Settings, version: int) -> None:
    if not output_format(output).chunked:
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


def _assumed_layout(header: Header) -> str:
    found = ome.ASSUMED_LAYOUTS.get(len(header.shape))
    if found is None:
        raise RequestError(
            f"the input has {len(header.shape)} axes, but OME-Zarr has 2 to 5 (t, c, z, y, x); "
            f"choose some of it, or name them with {field('layout')}"
        )
    return found


def _ome_from_axes(axes: Sequence[Axis]) -> dict[str, Any]:
    """Axes, spacing and units that a TIFF stack names, in the form of OME-Zarr, less units that OME-Zarr lacks."""
    found, scale = [], []
    for axis in axes:
        name, unit = ome.AXES[axis.letter][0], axis.unit
        with suppress(RequestError):
            unit = unit if axis.letter == "N" else ome.unit_of(unit)
        known = unit in (TIME_UNITS.values() if axis.letter == "N" else ome.KNOWN_UNITS)
        found.append({"name": name} | ({"unit": unit} if known else {}))
        scale.append(axis.step if known and axis.step > 0 else 1.0)
    return {"axes": found, "scale": scale} if found else {}


def _reordered(values: Sequence[Any], source: str, target: str) -> list[Any]:
    """The values of each axis in the order of another layout."""
    return [values[source.index(letter)] for letter in target]


def _scale(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> list[float]:
    found = _reordered(known.get("scale") or [1.0] * len(layout), read_layout, layout)
    names = ome.names_of_axes(layout)
    for name, step in request.scale.items():
        if name in names:
            found[names.index(name)] = step
    return found


def _units(request: Request, layout: str, read_layout: str, known: Mapping[str, Any]) -> dict[str, str]:
    axes = _reordered(known.get("axes") or [{}] * len(layout), read_layout, layout)
    found = {name: axis["unit"] for name, axis in zip(ome.names_of_axes(layout), axes, strict=True) if "unit" in axis}
    if request.unit is not None:
        unit = ome.unit_of(request.unit)
        found |= {
            name: unit for name, kind in ome.AXES.values() if kind == "space" and name in ome.names_of_axes(layout)
        }
    return found


def _storage_of_input(metadata: Metadata, read_layout: str, layout: str, version: int) -> dict[str, Any]:
    """How the input is stored, if it is a Zarr array; OME-NGFF 0.4 requires folders of chunks."""
    kept = convert_storage(metadata.zarr_storage, version) or {"version": version}
    for name in ("chunks", "shards"):
        if kept.get(name):
            kept[name] = tuple(_reordered(kept[name], read_layout, layout))
    folders = {"keys": {"name": "v2", "configuration": {"separator": "/"}}}
    return kept | (folders if version == 2 else {})


def _most_elements(levels: Sequence[Level], dtype: str, limit: int | None) -> int:
    """The most elements of a chunk or shard, so that it and what it is pooled from fit into memory."""
    window = prod(levels[1].factors) if len(levels) > 1 else 1
    return max(1, tiles.bytes_of_block(limit) // (lookup(dtype).itemsize * (window + 1)))


def _method(request: Request, missing: Sequence[object]) -> dict[str, Any]:
    """The type and metadata of `multiscales`, which say how the levels were computed."""
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
