"""Which codecs of an input its output keeps: those that give back what they were given, whatever its type."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from poolcli.dtypes import DTYPES, lookup

LOSSLESS = (
    "adler32", "blosc", "bz2", "crc32", "crc32c", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "pcodec",
    "shuffle", "zlib", "zstd",
)  # fmt: skip
OF_INTEGERS = ("delta",)  # give back integers of the one type that they name
OF_BOOL = ("packbits",)
FLOAT_MAX = {16: 65504.0, 32: (2 - 2.0**-23) * 2.0**127, 64: sys.float_info.max}
ZSTD_2: dict[str, Any] = {"id": "zstd", "level": 0}
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


SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}


def for_version(kept: Mapping[str, Any], version: int) -> dict[str, Any]:
    """How an array is stored, in the words of another version of Zarr; without its compressor where that has none."""
    if not kept or kept["version"] == version:
        return dict(kept)
    names = ("chunks", "dtype", "fill_value") + (("shards",) if version == 3 else ())
    common = {name: kept[name] for name in names if kept.get(name) is not None} | {"version": version}
    if version == 2:
        found = (_compressor_2(codec) for codec in kept["codecs"] if codec["name"] in ("blosc", "gzip", "zstd"))
        return common | {"compressor": next(found, ZSTD_2), "dimension_separator": "/"}
    compressor = kept.get("compressor")
    codec = _codec_3(compressor) if compressor else None
    return common | {"codecs": [{"name": "bytes"}, *([codec] if codec else [])]}


def _compressor_2(codec: Mapping[str, Any]) -> dict[str, Any]:
    setting = dict(codec.get("configuration", {}))
    if codec["name"] == "blosc":
        setting.pop("typesize", None)
        setting["shuffle"] = next(number for number, word in SHUFFLES.items() if word == setting["shuffle"])
    setting.pop("checksum", None)  # which not every reader of Zarr 2 knows
    return {"id": codec["name"], **setting}


def _codec_3(compressor: Mapping[str, Any]) -> dict[str, Any]:
    setting = {name: value for name, value in compressor.items() if name != "id"}
    if compressor["id"] == "blosc":
        setting["shuffle"] = SHUFFLES.get(setting.get("shuffle", 1), "shuffle")
    elif compressor["id"] == "zstd":
        setting = {"level": setting.get("level", 0), "checksum": bool(setting.get("checksum", False))}
    elif compressor["id"] != "gzip":
        return ZSTD_3
    return {"name": compressor["id"], "configuration": setting}


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
