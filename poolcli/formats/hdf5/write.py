"""HDF5 files are written whole from memory, or region by region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from poolcli.formats.atomic import byte_stream, whole_file
from poolcli.formats.hdf5.library import h5py, translated
from poolcli.formats.records import Fresh, Named, Sink, Spec, WriteOptions, slices


def write(path: str, arrays: Sequence[Named], options: WriteOptions) -> tuple[str, ...]:
    """Writes datasets (`data` without a name) with the attributes and the storage of the inputs'."""
    import numpy as np

    notes: list[str] = []
    # Made in memory: where a disk is full, HDF5 writing to it crashes the whole process.
    with translated(path), h5py.File("made in memory", "w", driver="core", backing_store=False) as file:
        for named in arrays:
            dataset, lost = _create(file, named.spec)
            dataset[...] = np.ascontiguousarray(named.array)
            notes += lost
        file.flush()
        image = file.id.get_file_image()
    with byte_stream(path, options.overwrite) as stream:
        stream.write(image)
    return tuple(dict.fromkeys(notes))


@contextmanager
def sink(path: str, spec: Spec, options: WriteOptions) -> Iterator[Sink]:
    """Writes a dataset region by region, straight to the disk."""
    with whole_file(path, options.overwrite) as part, translated(path), h5py.File(part, "w") as file:
        dataset, _ = _create(file, spec)
        yield Fresh(lambda region, array: dataset.__setitem__(slices(region), array))


def _create(file: Any, spec: Spec) -> tuple[Any, tuple[str, ...]]:
    """The empty dataset, stored as the input's was, and notes on attributes that cannot be kept."""
    shape, metadata = spec.shape, spec.metadata
    stored = dict(metadata.dataset)
    if 0 in shape or not shape:
        stored = {}
    elif stored.get("chunks"):
        chunks = stored["chunks"] if len(stored["chunks"]) == len(shape) else shape
        stored["chunks"] = tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    dataset = file.create_dataset((spec.key or "data").strip("/"), shape, spec.dtype, **stored)
    lost = False
    for name, value in metadata.attributes.items():
        try:
            dataset.attrs[name] = value
        except (TypeError, ValueError, OSError, RuntimeError):
            lost = True
    for axis, dimension in zip(dataset.dims, metadata.dimensions, strict=False):
        if dimension.label:
            axis.label = dimension.label
        for name, values in dimension.scales.items():
            if name not in file:
                file[name] = values
                file[name].make_scale(name.rpartition("/")[2])
            axis.attach_scale(file[name])
    notes = ("some attributes of the dataset could not be kept",) if lost else ()
    return dataset, (*metadata.notes, *notes)
