"""Mutated files of every format that is read: a PoolError of one line, or an array as the header says; nothing else."""

from __future__ import annotations

import gzip
import io
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image
from safetensors import numpy as safetensors

from poolcli.errors import PoolError
from poolcli.formats import FORMATS, Source, in_subprocess_if_fragile, read
from tests.formats.arrays import list_arrays
from tests.profiles import sized

# Words of messages by which Python tells of a program, not of a file.
PYTHONS = re.compile(
    "not supported between|object is not|NoneType|object has no|unpack_from|unpack requires|invalid literal for"
    "|argument|codec can't|index out of|out of range\\(|cannot convert"
    "|division by zero|bytes-like|keyword|cannot reshape|broadcast"
)
READ = sorted(name for name, row in FORMATS.items() if not row.is_folder)


@cache
def whole(name: str) -> bytes:
    """A small file of the format, made by the library that everybody makes it with."""
    stream = io.BytesIO()
    x = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
    if name == "npy":
        np.save(stream, x)
    elif name == "safetensors":
        return safetensors.save({"a": x, "b": x[:, :1]}, {"format": "np"})
    elif name == "npy.gz":
        return gzip.compress(whole("npy"), mtime=0)
    elif name == "npz":
        np.savez_compressed(stream, a=x, b=x[:, :1])
    elif name in ("hdf5", "matlab"):
        with h5py.File(stream, "w", userblock_size=512 if name == "matlab" else 0) as file:
            file.create_dataset("g/a", data=x, chunks=(1, 1, 4, 4), compression="gzip")
        stream.seek(0)
        stream.write(b"MATLAB 7.3 MAT-file" if name == "matlab" else b"")
    elif name == "heif":
        heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed: pip install pillow-heif")
        heif.from_pillow(Image.effect_noise((64, 64), 80).convert("RGB")).save(stream)
    else:
        Image.effect_noise((12, 8), 80).convert("RGB").save(stream, name.upper())
    return stream.getvalue()


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with bytes changed, removed and repeated, more often near the beginning, or cut short."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, min(len(found), 400) - 1) | st.integers(0, len(found) - 1))
        kind = draw(st.sampled_from(["change", "fill", "remove", "repeat", "cut"]))
        if kind == "change":
            found[at] = draw(st.integers(0, 255))
        elif kind == "fill":
            found[at : at + 4] = draw(st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\x80"]))
        elif kind == "remove":
            del found[at : at + draw(st.integers(1, 16))]
        elif kind == "repeat":
            found[at:at] = found[at : at + draw(st.integers(1, 16))]
        else:
            del found[at + 1 :]
        found = found or bytearray(b"x")
    return bytes(found)


def look(path: str) -> list[tuple[Any, Any]]:
    """The shapes that headers claim, and those that come out."""
    return [(header.shape, read(Source(path, header.key)).array.shape) for header in list_arrays(path)]


@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
@settings(max_examples=sized(8, 2_000))
@given(data=st.data())
def test_no_mutation_ends_in_anything_but_an_error_of_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = "x" + FORMATS[name].suffixes[0]
    Path(path).write_bytes(data.draw(mutated(whole(name))))
    try:
        shapes = in_subprocess_if_fragile(path, partial(look, path))
    except PoolError as error:
        assert str(error).startswith(path)
        assert "\n" not in str(error)
        assert not PYTHONS.search(str(error))
    else:
        assert all(claimed == held for claimed, held in shapes)
