"""Plans pyramids from the header of their source: levels, axes, spacing, units and storage; refuses bad requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field as default, replace
from math import prod
from operator import lt
from pathlib import Path
from typing import Any

from poolcli import __version__
from poolcli.arguments import MinCount, Missing, per_axis
from poolcli.dtypes import DTYPES
from poolcli.errors import PoolError, RequestError
from poolcli.formats import Header, Metadata, Source, Spec, check_output, open_array
from poolcli.formats.cf import json_attributes
from poolcli.formats.checks import byte_count, join_names
from poolcli.formats.files import array_names, check_distinct
from poolcli.formats.image.metadata import LENGTHS, TIME_UNITS
from poolcli.formats.records import Dimension
from poolcli.formats.zarr import ome
from poolcli.formats.zarr.storage import Grid, grid_of
from poolcli.layouts import check_layout, converted_shape, layout_for, read_axes, spatial_axes
from poolcli.message_fields import AGAIN, field
from poolcli.ops import OPERATORS, MaxPool
from poolcli.plan import Plan, make_plan
from poolcli.pooling.outcome import Settings, failure
from poolcli.pooling.tiles import bytes_of_block

BASES = ("previous", "source")
MOST_LEVELS = 64  # each level is at most half as long as the one before, and lengths are below 2**63
OTHER_LAYOUTS = {2: "XY", 3: "YXC", 4: "CZYX", 5: "TZYXC"}  # by rank: one that may be meant instead of the assumed one
SMALLEST_LEVEL = 256  # the longest spatial axis of the smallest level, if the number of levels is not given


@dataclass(frozen=True, slots=True)
class Request:
    """The request for a pyramid."""

    op: str
    kernel: tuple[int, ...]  # also the stride, for each spatial axis, the same for every level
    base: str = "previous"  # what each level is pooled from: the "previous" one or the "source"
    factors: tuple[Mapping[str, int], ...] = ()  # kernel of each level in turn by the names of axes, for `kernel`
    factors_from: str = "previous"  # what they are relative to; if to the "source", `base` is that too
    levels: int | None = None  # how many; None for as many as SMALLEST_LEVEL needs
    scale: Mapping[str, float] = default(default_factory=dict)  # spacing by the names of axes; else the input's
    unit: str | None = None  # of that spacing
    output: str = ""
    place: str = "/"  # the group in the store
    groups: Mapping[str, Any] = default(default_factory=dict)  # attributes of those above it by their paths
    of_labels: bool = False  # whether the source is a label image of another one

    def __post_init__(self) -> None:
        asked = [(f"{field('factors')} of level {i}", level.values()) for i, level in enumerate(self.factors, 1)]
        for what, numbers in (*asked, (f"{field('kernel', self.kernel)}:", self.kernel)):
            if max(numbers) < 2 or min(numbers) < 1:
                raise RequestError(f"{what} must be at least 2 on one axis and at least 1 on the others")


@dataclass(frozen=True, slots=True)
class Level:
    """One level: shape, downsampling factors, and a plan that reads level `base`; the first is a copy of the source."""

    shape: tuple[int, ...]
    factors: tuple[int, ...]
    plan: Plan
    base: int = 0

    def scale(self, first: Sequence[float]) -> tuple[float, ...]:
        """The spacing of its elements along each axis, from the spacing `first` of the source."""
        return tuple(step * factor for step, factor in zip(first, self.factors, strict=True))

    def translation(self, first: Sequence[float], origin: Sequence[float]) -> tuple[float, ...]:
        """The position of the centre of its first element, which covers `factor` elements of the source."""
        places = zip(first, origin, self.factors, strict=True)
        return tuple(start + step * (factor - 1) / 2 for step, start, factor in places)


@dataclass(frozen=True, slots=True)
class Pyramid:
    """The plan of a pyramid, of its labels, and of the `others` of a plate or series."""

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
    def nbytes(self) -> int:
        """The size of the values of the store, before they are compressed."""
        specs = (spec for each in self.all_pyramids for spec in each.specs)
        return sum(byte_count(spec.shape, DTYPES[spec.dtype].itemsize) for spec in specs)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes in OME-Zarr."""
        return ome.names_of_axes(self.layout)


def levels_of(
    request: Request,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    missing: Missing = (),
    min_count: MinCount | None = None,
    smallest: int = SMALLEST_LEVEL,
) -> tuple[Level, ...]:
    """The source and the levels below it: as many as are asked for, as there are factors for, or until no spatial axis
    is longer than `smallest`.

    An axis that is shorter than the kernel is not pooled. Raises RequestError if that many levels are not possible.
    """
    names, spatial, count = ome.names_of_axes(layout), spatial_axes(layout), request.levels
    if count is not None and count < 1:
        raise RequestError(f"{field('levels')} is {count}; it must be at least 1")
    if request.factors:
        kernels = [tuple(level.get(name, 1) for name in names) for level in request.factors]
        count = len(kernels) + 1
    else:
        lengths = iter(per_axis("kernel", request.kernel, [layout[i] for i in spatial]))
        kernels = [tuple(next(lengths) if i in spatial else 1 for i in range(len(layout)))] * MOST_LEVELS
    record: Any = OPERATORS[request.op]
    levels = [Level(shape, (1,) * len(shape), MaxPool(1).plan(shape, dtype, layout=layout))]
    while len(levels) < (count or MOST_LEVELS):
        last = levels[-1]
        if count is None and max(last.shape[i] for i in spatial) <= smallest:
            break
        start = levels[0] if request.factors_from == "source" else last
        along = zip(start.shape, start.factors, kernels[len(levels) - 1], last.factors, strict=True)
        factors = tuple(factor * k if n >= k else before for n, factor, k, before in along)
        if factors == last.factors or any(map(lt, factors, last.factors)):
            if count is None:
                break
            made, option = len(levels), field("factors" if request.factors else "levels")
            why = f"after {made} levels every axis is shorter than its factor; make at most {made}"
            if request.factors_from == "source":
                why = f"level {made} is not smaller than level {made - 1}; factors from the source grow with each level"
            raise RequestError(f"{option}: {why}")
        base = len(levels) - 1 if request.base == "previous" else 0
        before = levels[base].shape
        kernel = tuple(factor // of_base for factor, of_base in zip(factors, levels[base].factors, strict=True))
        windows = tuple(kernel[i] for i in spatial)
        pads_end = tuple(-before[i] % kernel[i] for i in spatial)
        op = record(windows, strides=windows, pads_end=pads_end)
        # Each level has the nodata value of the first, so that the next one leaves it out too.
        nodata = next(iter(missing), None)
        plan = make_plan(op, before, dtype, layout=layout, missing=missing, min_count=min_count, nodata=nodata)
        levels.append(Level(plan.output_shape, factors, plan, base))
    return tuple(levels)


def plan_all_images(request: Request, source: Source, images: ome.Images, settings: Settings) -> Pyramid:
    """Plans the pyramids of several images; returns the first, with the others in its `others`."""
    options, every = replace(settings.read_options, as_pyramid=True), list[Pyramid]()
    for place, key in images.keys.items():
        image, asked = replace(source, key=key), replace(request, place=place, groups=images.groups)
        try:
            with open_array(image, options) as file:
                every.append(plan_with_labels(asked, image, file.header, file.metadata, settings))
        except Exception as error:
            raise failure(error, f"{source.path}:/{key}") from error
    lost = [f"left out, because the store lacks them: the wells {join_names(images.lacking)}"] if images.lacking else []
    notes = dict.fromkeys((*lost, *(note for each in every for note in each.notes)))
    return replace(every[0], others=tuple(every[1:]), notes=tuple(notes))


def plan_with_labels(
    request: Request, source: Source, header: Header, metadata: Metadata, settings: Settings
) -> Pyramid:
    """Plans the pyramids of an image and of its labels; notes name labels that cannot be pooled."""
    image = plan_pyramid(request, source, header, metadata, settings)
    own = replace(settings, layout=None, chunks=None, shards=None, missing=None, min_count=None)
    found, notes, above, written = list[Pyramid](), [*image.notes], f"{request.place}labels/", list[str]()
    groups = {**request.groups, above: {"ome": {"version": ome.VERSION, "labels": written}}}
    for name, key in metadata.ome.get("labels", {}).items():
        asked = replace(request, op="mode", levels=len(image.levels), of_labels=True, groups=groups)
        try:
            if not key:
                raise RequestError("the store has no such level of them")
            label = replace(source, key=key)
            with open_array(label, own.read_options) as file:
                each = plan_pyramid(replace(asked, place=f"{above}{name}/"), label, file.header, file.metadata, own)
            array_names(request.output, [spec.key for other in (image, *found, each) for spec in other.specs])
        except PoolError as error:
            notes.append(f"left out: the labels {name}: {error}")
            continue
        found.append(each)
        written.append(name)
        notes += [f"labels {name}: {note}" for note in each.notes]
    if found:
        notes.append(f"pooled with mode: the labels {join_names(written)}")
    return replace(image, labels=tuple(found), notes=tuple(notes))


def plan_pyramid(request: Request, source: Source, header: Header, metadata: Metadata, settings: Settings) -> Pyramid:
    """Plans the pyramid of one image or of one label image."""
    dtype, reducer = DTYPES[header.dtype], OPERATORS[request.op].reducer
    if dtype.kind == "bool" and reducer.result == "number":
        raise RequestError(f"levels have the input's type, and bool has no averages; use {field('operator', 'mode')}")
    check_distinct(source.path, request.output)
    read_layout, assumed = _layout_of(header, settings.layout, len(request.kernel))
    layout = ome.ome_order(read_layout)
    names, order = ome.names_of_axes(layout), [read_layout.index(letter) for letter in layout]
    shape = converted_shape(header.shape, read_layout, layout)
    check_output(request.output, shape, header.dtype, layout)
    spatial = [names[i] for i in spatial_axes(layout)]
    factors = [name for level in request.factors for name in level]
    for option, asked, known in (("scale", [*request.scale], names), ("factors", factors, spatial)):
        for name in asked if not request.of_labels else ():  # labels may lack some axes of their image
            if name not in known:
                raise RequestError(f"{field(option)} names {name}; the axes are {', '.join(known)}")
    missing = header.missing if settings.missing is None else settings.missing
    levels = levels_of(request, shape, header.dtype, layout, missing, settings.min_count)
    if max(shape[i] for i in spatial_axes(layout)) <= SMALLEST_LEVEL and not request.factors and request.levels is None:
        assumed += (f"one level: no pooled axis exceeds {SMALLEST_LEVEL}; for two, use {field('levels', 2)}{AGAIN}",)
    steps, origin, units = _spacing(request, names, order, header, metadata)

    kept = dict(metadata.zarr_storage)
    kept |= {name: tuple(kept[name][i] for i in order) for name in ("chunks", "shards") if kept.get(name)}
    window = prod(levels[1].factors) if len(levels) > 1 else 1
    most = max(1, bytes_of_block(settings.max_memory) // (dtype.itemsize * (window + 1)))  # with what it is pooled from
    grid = grid_of(shape, layout, asked=settings.chunks, asked_shards=settings.shards, kept=kept, most=most)

    scales = tuple(level.scale(steps) for level in levels)
    translations = tuple(level.translation(steps, origin) for level in levels)
    beside, own, attributes, lost = _carried_attributes(request, header, metadata)
    attributes |= {"_FillValue": missing[0]} if missing else {}
    name = str(metadata.ome.get("name") or Path(request.place).name or Path(request.output).name.split(".")[0])
    described = {"name": name} | ome.multiscale(layout, units, list(zip(scales, translations, strict=True)))
    described |= {"type": reducer.name, "metadata": {"method": f"poolcli.{request.op}_pool", "version": __version__}}
    group = own | {"ome": {"version": ome.VERSION, "multiscales": [described], **beside}}
    about = Metadata(
        zarr_storage=kept | {"chunks": grid.chunks, "shards": grid.shards},
        dimensions=tuple(Dimension(name, {}) for name in names),
        attributes=attributes,
        groups={**request.groups, request.place: group},
    )
    specs = (Spec(level.shape, header.dtype, layout, f"{request.place}{i}", about) for i, level in enumerate(levels))
    return Pyramid(
        source, header, request.output, layout, read_layout, levels, scales, translations, units, tuple(specs), grid,
        notes=(*header.notes, *assumed, *grid.notes, *lost),
    )  # fmt: skip


def _layout_of(header: Header, given: str | None, values: int) -> tuple[str, tuple[str, ...]]:
    """The layout of the input: given, else its own, else by its rank and the values of the kernel, with a note.

    One value counts as three, so that 3 axes are z, y, x: OME-Zarr needs y and x.
    """
    rank, own = len(header.shape), given or header.layout
    if own:
        slices = f"ZYX{'C' * ('C' in own)}"
        note = f"the file does not say what pages are; they become t; for slices, use {field('layout', slices)}{AGAIN}"
        is_unclear = not (given or header.axes) and own[0] == "N" and header.format == "tiff"
        return check_layout(own, rank), (note,) if is_unclear else ()
    if rank not in OTHER_LAYOUTS:
        raise RequestError(
            f"the input has {rank} axes, but OME-Zarr has 2 to 5 (t, c, z, y, x); choose some of it, or name them with "
            f"{field('layout')}"
        )
    found = read_axes(header.shape, values if values > 1 else 3).layout
    if values not in (1, len(spatial_axes(found))) and (other := layout_for(header.shape, values)):
        named = field("layout", other)
        raise RequestError(f"{field('kernel')} has {values} values, but the axes are read as {found}; use {named}")
    use = f"use {field('layout')}, such as {field('layout', OTHER_LAYOUTS[rank])}"
    return found, (f"assuming axes {','.join(ome.names_of_axes(found))}; if they are others, {use}",)


def _spacing(
    request: Request, names: Sequence[str], order: Sequence[int], header: Header, metadata: Metadata
) -> tuple[list[float], list[float], dict[str, str]]:
    """Spacing and origin along the axes of the pyramid, and units by their names; default what the input says."""
    count, known = len(order), metadata.ome
    steps, origin, units = [1.0] * count, [0.0] * count, [""] * count
    if len(known.get("axes", ())) == count:
        steps, origin = known["scale"], known["translation"]
        units = [axis.get("unit", "") for axis in known["axes"]]
    elif header.axes:
        known_units = ome.NAMES_OF_UNITS | {unit: unit for unit in TIME_UNITS.values()}
        units = [known_units.get(ome.unit_word(axis.unit), "") for axis in header.axes]
        steps = [axis.step if unit and axis.step > 0 else 1.0 for axis, unit in zip(header.axes, units, strict=True)]
    found = {name: units[i] for name, i in zip(names, order, strict=True) if units[i]}
    if request.unit is not None:
        unit = ome.NAMES_OF_UNITS.get(ome.unit_word(request.unit))
        if unit is None:
            units_known = ", ".join(LENGTHS)
            raise RequestError(f"{field('unit', request.unit)}: is not a unit of length; use one of {units_known}")
        found |= dict.fromkeys([name for name in names if name in "zyx"], unit)
    steps = [request.scale.get(name, steps[i]) for name, i in zip(names, order, strict=True)]
    return steps, [origin[i] for i in order], found


def _carried_attributes(
    request: Request, header: Header, metadata: Metadata
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """The OME attributes beside `multiscales`, other attributes of the group, those of the levels, and a note."""
    known, lost, beside = metadata.ome, list[str](), dict[str, Any]()
    dtype, omero = DTYPES[header.dtype], known.get("omero")
    if header.mode == "RGB" and dtype.is_integer:
        omero = omero or ome.omero_rendering(dtype.limits[1])
    if omero:
        beside["omero"] = {name: value for name, value in omero.items() if name != "version"}
    nearest = list(metadata.groups.values())[-1:]
    own = json_attributes(nearest[0] if nearest else {}, "", lost)
    own.pop("image-label", None)  # of OME-Zarr 0.4
    attributes = json_attributes(metadata.attributes, "", lost)
    # The image that labels name as their source is in this store only if they are its labels.
    left_out = ("version",) if request.of_labels else ("version", "source")
    label = {name: value for name, value in known.get("image-label", {}).items() if name not in left_out}
    if label and OPERATORS[request.op].reducer.result == "element":
        beside["image-label"] = label
    elif label:
        lost.append(f"image-label, as means are not labels ({field('operator', 'mode')} keeps it)")
    lost += known.get("others", ())
    return beside, own, attributes, [f"not kept: {join_names(lost)}"] if lost else []
