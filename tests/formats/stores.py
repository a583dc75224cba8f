"""Zarr stores as zarr-python writes and reads them, of every kind, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec

from poolcli import AvgPool

HALVE = ("-k", "2,2,2", "-s", "2")

X = np.random.default_rng(0).integers(0, 255, (9, 10, 11)).astype(np.uint8)


def made(path: str, x: Any = X, key: str | None = None, **how: Any) -> Any:
    """An array that zarr-python has written."""
    array = zarr.create_array(path, name=key, shape=x.shape, dtype=x.dtype, **{"chunks": (4, 4, 4), **how})
    array[:] = x
    return array


def halved(x: Any = X) -> Any:
    return AvgPool(2, strides=2)(x, layout="DHW", engine="numpy")


def whole(path: str) -> Any:
    """The values of a store that is one array."""
    return zarr.open_array(path, mode="r")[:]


def group(path: str) -> Any:
    """A store as zarr-python opens it."""
    return zarr.open(path, mode="r")


def document(path: str) -> Any:
    return json.loads(Path(path).read_text())


KEPT: dict[str, dict[str, Any]] = {
    "v3": {"chunks": (2, 3, 4)},
    "v3, without a compressor": {"compressors": None},
    "v3, gzip and a fill value": {"compressors": GzipCodec(level=3), "fill_value": 7},
    "v3, shards": {"chunks": (2, 2, 2), "shards": (4, 4, 4), "compressors": BloscCodec(typesize=1)},
    "v3, other names of chunks": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v2": {"zarr_format": 2, "compressors": numcodecs.Blosc(clevel=2)},
    "v2, a fill value": {"zarr_format": 2, "fill_value": 3},
    "v2, folders of chunks": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
}
