"""The plan of all pyramids of a store: of an image with its labels, or of every image of a plate or of series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from poolcli.errors import PoolError, RequestError
from poolcli.formats import Header, Metadata, Source, Spec, open_array
from poolcli.formats.checks import named
from poolcli.formats.names import array_names
from poolcli.formats.zarr.ome import OME_XML
from poolcli.formats.zarr.plates import Images
from poolcli.message_fields import field
from poolcli.pooling.outcome import Settings, failure
from poolcli.pooling.pyramid_plan import Pyramid, Request, planned


def prepare(
    request: Request, source: Source, header: Header, metadata: Metadata | None, output: str, settings: Settings
) -> Pyramid:
    """The pyramid of an input and of its labels; every refusal of the input is a RequestError."""
    metadata = metadata or Metadata()
    image = planned(request, source, header, metadata, output, settings)
    labels: Mapping[str, str] = metadata.ome.get("labels", {})
    return _with_labels(request, image, labels, settings) if labels else image


def prepare_all(request: Request, source: Source, images: Images, output: str, settings: Settings) -> Pyramid:
    """The pyramid of the first of several images, which has those of the others."""
    options = replace(settings.read_options, first_level=True)

    def each_of() -> Iterator[Pyramid]:
        for place, key in images.keys.items():
            image, asked = replace(source, key=key), replace(request, place=place, groups=images.groups)
            try:
                with open_array(image, options) as file:
                    yield prepare(asked, image, file.header, file.metadata, output, settings)
            except Exception as error:
                raise failure(error, f"{source.path}:/{key}") from error

    first, *others = each_of()
    every = (first, *others)
    counts = Counter(note for each in every for note in dict.fromkeys(each.notes))
    shared = [note for note, count in counts.items() if count == len(every)]
    own = [f"{each.source.key}: {note}" for each in every for note in each.notes if note not in shared]
    beside = dict(images.beside)
    if (request.scale or request.unit) and beside.pop(OME_XML, None):
        shared.insert(0, f"left out: {OME_XML}, whose physical sizes are others than {field('scale')} gives")
    return replace(first, others=tuple(others), beside=beside, notes=(*shared, *own))


def _with_labels(request: Request, image: Pyramid, labels: Mapping[str, str], settings: Settings) -> Pyramid:
    """The pyramid with those of its labels, stored as they were; notes name those that cannot be pooled."""
    settings = replace(settings, layout=None, chunks=None, shards=None, missing=None, min_count=None)
    reduction, keys = replace(request.reduction, op="mode"), [spec.key for spec in image.specs]
    found, notes, above = dict[str, Pyramid](), [*image.notes], f"{request.place}labels/"
    asked = replace(request, reduction=reduction, levels=len(image.levels), of_labels=True)
    for name, key in labels.items():
        source = replace(image.source, key=key)
        try:
            if not key:
                raise RequestError("the store has no such level of them")
            with open_array(source, settings.read_options) as file:
                place = replace(asked, place=f"{above}{name}/")
                each = planned(place, source, file.header, file.metadata, image.output, settings)
            array_names(image.output, [*keys, *(spec.key for spec in each.specs)])
        except PoolError as error:
            notes.append(f"left out: the labels {name}: {error}")
            continue
        keys += [spec.key for spec in each.specs]
        found[name] = each
        notes += [f"labels {name}: {note}" for note in each.notes]
    if not found:
        return replace(image, notes=tuple(notes))
    notes.append(f"pooled with mode: the labels {named(list(found))}")
    listed = {"labels": list(found)}
    groups: dict[str, Any] = {above: listed if request.ngff == "0.4" else {"ome": {"version": request.ngff, **listed}}}
    for each in (image, *found.values()):
        groups |= each.specs[0].metadata.groups
    image, *pooled = (replace(each, specs=_in_groups(each.specs, groups)) for each in (image, *found.values()))
    return replace(image, labels=tuple(pooled), notes=tuple(notes))


def _in_groups(specs: Sequence[Spec], groups: Mapping[str, Any]) -> tuple[Spec, ...]:
    return tuple(replace(spec, metadata=replace(spec.metadata, groups=groups)) for spec in specs)
