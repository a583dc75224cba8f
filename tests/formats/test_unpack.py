"""No chunk of Zarr takes more memory than its size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from tests.processes import fresh

SIDE = 256  # of a chunk, of 64 KiB
# What numcodecs before 0.16.5 says of itself when it is imported: a warning, and the line of code that it is about.
WARNED = re.compile(r".*numcodecs.*: DeprecationWarning: crc32c usage is deprecated|  from numcodecs.checksum32 import")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)


CODECS: dict[str, dict[str, Any]] = {
    "gzip": {"compressors": GzipCodec()},
    "zstd": {"compressors": ZstdCodec()},
    "blosc": {"compressors": BloscCodec()},
    "bz2": {"compressors": numcodecs.BZ2(), "zarr_format": 2},
    "lz4": {"compressors": numcodecs.LZ4(), "zarr_format": 2},
    "lzma": {"compressors": numcodecs.LZMA(), "zarr_format": 2},
    "zlib": {"compressors": numcodecs.Zlib(), "zarr_format": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_of_zarr_that_claims_100_mib_takes_no_more_memory_than_it_should(codec: str) -> None:
    whole = (1, 1, SIDE, SIDE)
    array = zarr.create_array("x.zarr", shape=whole, chunks=whole, dtype="u1", **CODECS[codec])
    array[...] = 1
    (chunk,) = (path for path in Path("x.zarr").rglob("*0") if path.is_file())
    chunk.write_bytes(numcodecs.get_codec({"id": codec}).encode(np.ones(100 * 2**20, "u1")))
    done = fresh(Path.cwd(), "avg", "x.zarr", "-o", "y.npy", "-k", "2", "-s", "2")
    said = [line for line in done.err.splitlines() if not WARNED.match(line)]
    assert (done.code, len(said), said[0].startswith("poolcli: x.zarr: ")) == (1, 1, True)
    assert done.peak < 120 * 1024  # of which a run that has nothing to refuse takes more than 50
