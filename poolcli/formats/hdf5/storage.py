"""How an HDF5 dataset is stored: chunks, filters, fill value and the lengths that it may grow to."""

from __future__ import annotations

from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.checks import named
from poolcli.formats.hdf5.library import h5py
from poolcli.system.lazy_imports import need

ENTROPY_CODING = 4  # of the options of szip
LZF = 32000
# Filters of hdf5plugin that are written back: bzip2, Blosc, LZ4, Bitshuffle, ZFP, Zstandard, Blosc2. Others round what
# they pack, or, as that of JPEG-LS does with four axes, make something else of it without a word.
KEPT = (307, 32001, 32004, 32008, 32013, 32015, 32026)


def storage_of(dataset: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """How h5py's dataset is stored, as its create_dataset takes it, and a note on filters that cannot be asked for.

    In `maxshape` 0 stands for the length of the axis itself.
    """
    properties = dataset.id.get_create_plist()
    stored: dict[str, Any] = {}
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        stored["fillvalue"] = dataset.fillvalue
    if properties.get_layout() != h5py.h5d.CHUNKED:
        return stored, ()
    stored["chunks"] = properties.get_chunk()
    if dataset.maxshape != dataset.shape:
        stored["maxshape"] = tuple(0 if m == n else m for m, n in zip(dataset.maxshape, dataset.shape, strict=True))
    lost = []
    for i in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(i)
        options = _options(code, values)
        if options and not options.keys() & stored.keys():
            stored |= options
        else:
            lost.append(name.decode("utf-8", "replace") or str(code))
    return stored, (f"stored without the filter {named(lost)}",) if lost else ()


def _options(code: int, values: tuple[int, ...]) -> dict[str, Any]:
    """A filter as create_dataset takes it; {} for one that it cannot be asked for, or that may change what it packs."""
    if code == h5py.h5z.FILTER_DEFLATE:
        return {"compression": "gzip", "compression_opts": values[0]}
    if code == h5py.h5z.FILTER_SHUFFLE:
        return {"shuffle": True}
    if code == h5py.h5z.FILTER_FLETCHER32:
        return {"fletcher32": True}
    if code == h5py.h5z.FILTER_SZIP:
        return {"compression": "szip", "compression_opts": ("ec" if values[0] & ENTROPY_CODING else "nn", values[1])}
    if code == LZF:
        return {"compression": "lzf"}
    if code not in KEPT:
        return {}
    try:
        (plugin,) = need("hdf5plugin", why="filters")
        return dict(plugin.from_filter_options(code, values))
    except (RequestError, ValueError, NotImplementedError, AttributeError):  # AttributeError: hdf5plugin before 7
        return {}
