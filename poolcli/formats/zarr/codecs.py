"""Which codecs of an input its output keeps: those that give back what they were given, whatever its type."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolcli.core.dtypes import DTYPES, lookup

LOSSLESS = (
    "adler32", "blosc", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "pcodec",
    "shuffle", "zlib", "zstd",
)  # fmt: skip
OF_INTEGERS = ("delta",)  # give back integers of the one type that they name
OF_BOOL = ("packbits",)
FLOAT_MAX = {16: 65504.0, 32: (2 - 2.0**-23) * 2.0**127, 64: sys.float_info.max}
ZSTD_2: dict[str, Any] = {"id": "zstd", "level": 0, "checksum": False}
ZSTD_3: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
INDEX: dict[str, Any] = {
    "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    "index_location": "end",
}


def codecs_2(kept: Mapping[str, Any], dtype: str, lost: list[str]) -> dict[str, Any]:
    """Filters and compressor of an array of Zarr v2; names of those that are left out go to `lost`."""
    filters = [each for each in kept.get("filters") or () if _keeps(each["id"], kept["dtype"], dtype, lost)]
    compressor = kept.get("compressor")
    if compressor is not None and not _keeps(compressor["id"], kept["dtype"], dtype, lost):
        compressor = ZSTD_2
    return {"filters": filters or None, "compressor": compressor}


def codecs_3(kept: Mapping[str, Any], dtype: str, lost: list[str]) -> list[dict[str, Any]]:
    """The codecs of a chunk of Zarr v3, of values in C order and little-endian."""
    found = kept.get("codecs", ({"name": "bytes"}, ZSTD_3))
    return list(_codecs_3(found, kept.get("dtype", dtype), dtype, lost))


def fill_value(kept: Mapping[str, Any], dtype: str) -> tuple[Any, bool]:
    """The fill value as JSON, and whether it is the one that was kept; 0 where the type does not have that."""
    if not kept or kept["dtype"] == dtype:
        return kept.get("fill_value", lookup(dtype).kind == "bool" and False), True
    value, kind = kept["fill_value"], DTYPES[dtype]
    if value is None:
        return (None, True) if kept["version"] == 2 else (0, True)
    if isinstance(value, bool):
        value = int(value)
    if kind.kind == "bool":
        return bool(value) if value in (0, 1) else False, value in (0, 1)
    if isinstance(value, str):
        return (value, True) if kind.kind == "float" and not value.startswith("0x") else (0, False)
    if kind.is_integer:
        low, high = kind.limits
        fits = value == int(value) and low <= value <= high
        return (int(value), True) if fits else (0, False)
    return (value, True) if abs(value) <= FLOAT_MAX[kind.bits] else (0, False)


def _codecs_3(
    found: Sequence[Mapping[str, Any]], source: str, target: str, lost: list[str]
) -> Iterator[dict[str, Any]]:
    for codec in found:
        name, setting = codec["name"], dict(codec.get("configuration", {}))
        if name == "transpose":
            continue  # an order in memory, which changes no value
        if name == "bytes":
            wide = DTYPES[target].itemsize > 1
            yield {"name": "bytes"} | ({"configuration": {"endian": "little"}} if wide else {})
        elif _keeps(name.removeprefix("numcodecs."), source, target, lost):
            if name == "blosc":
                setting["typesize"] = DTYPES[target].itemsize
            yield {"name": name} | ({"configuration": setting} if setting else {})


def _keeps(name: str, source: str, target: str, lost: list[str]) -> bool:
    able = (
        name in LOSSLESS
        or (name in OF_INTEGERS and source == target and DTYPES[target].is_integer)
        or (name in OF_BOOL and target == "bool")
    )
    if not able:
        lost.append(name)
    return able
