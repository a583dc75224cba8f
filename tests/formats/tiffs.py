"""TIFFs of every kind that Pillow and tifffile write, and of some that neither does, with the pixels that they hold."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL
import tifffile
from PIL import Image

H, W = 10, 16
LOSSLESS = (None, "lzw", "zlib", "packbits", "lzma", "zstd")
PREDICTED = ("lzw", "zlib", "lzma", "zstd")
PHOTOMETRIC = {"minisblack": 1, "miniswhite": 1, "rgb": 2, "separated": 5, "cielab": 8, "icclab": 9}
PHOTOMETRIC_OF_MODE = {"RGB": 2, "RGBA": 2, "P": 2, "CMYK": 5}
CHANNELS = {"minisblack": 1, "miniswhite": 1, "rgb": 3, "separated": 4, "cielab": 3, "icclab": 3}


@dataclass(frozen=True)
class Tiff:
    """How the file is made, what is read of it; the compression of the output, and its photometric."""

    make: Callable[[str], object]
    pixels: Any
    compression: int
    photometric: int = 1


def noise(channels: int, dtype: str = "uint8", bits: int | None = None) -> Any:
    kind = np.dtype(dtype)
    shape = (H, W) if channels == 1 else (H, W, channels)
    rng = np.random.default_rng(channels)
    if kind.kind == "f":
        return (rng.integers(-400, 400, shape) / 8).astype(kind)
    ends = np.iinfo(kind)
    low, high = (int(ends.min), int(ends.max)) if bits is None else (0, (1 << bits) - 1)
    return rng.integers(low, high, shape, kind, endpoint=True)


def meant(stored: Any, photometric: str) -> Any:
    """The picture's numbers: black is zero, and a and b of LAB count from the lowest."""
    if photometric == "miniswhite":
        return np.iinfo(stored.dtype).max - stored
    if photometric == "cielab":
        return stored ^ np.array([0, 1, 1], stored.dtype) * (np.iinfo(stored.dtype).max // 2 + 1)
    return stored


def by_tifffile() -> Iterator[tuple[str, Tiff]]:
    for photometric, channels in CHANNELS.items():
        for dtype in ("uint8", "uint16"):
            x = noise(channels, dtype)
            for planar in ("contig", "separate") if channels > 1 else (None,):
                for compression in LOSSLESS:
                    for predictor in (False, True) if compression in PREDICTED else (False,):
                        order = "<" if predictor else ">"
                        options = {
                            "photometric": photometric, "planarconfig": planar, "compression": compression,
                            "predictor": predictor, "byteorder": order, "rowsperstrip": 3,
                        }  # fmt: skip
                        stored = np.moveaxis(x, -1, 0) if planar == "separate" else x
                        name = " ".join(str(v) for v in (photometric, dtype, planar, compression, predictor))
                        yield name, written(stored, meant(x, photometric), 8 if compression else 1, options)


def written(stored: Any, pixels: Any, number: int, options: dict[str, Any]) -> Tiff:
    photometric = PHOTOMETRIC[options["photometric"]]
    return Tiff(lambda path: tifffile.imwrite(path, stored, metadata=None, **options), pixels, number, photometric)


NUMBERS = ("int8", "int16", "uint32", "int32", "int64", "uint64", "float16", "float32", "float64")
NO_PREDICTOR = ("int64", "uint64")  # in tifffile


def of_other_numbers() -> Iterator[tuple[str, Tiff]]:
    for dtype in NUMBERS:
        for channels in (1, 3, 5):
            x = noise(channels, dtype)
            if x.dtype.itemsize > 4 and x.dtype.kind != "f":
                x //= 1024  # so that sums of four are exact in the reference
            options: dict[str, Any] = {"photometric": "rgb" if channels == 3 else "minisblack", "compression": "zlib"}
            if channels > 1:
                options["planarconfig"] = "contig"
            yield f"{channels} x {dtype}", written(x, x, 8, options)
            if channels == 1:
                yield f"1 x {dtype}, big-endian", written(x, x, 8, options | {"byteorder": ">"})
            if dtype not in NO_PREDICTOR:
                yield f"{channels} x {dtype} predicted", written(x, x, 8, options | {"predictor": True})


def tiled_and_large() -> Iterator[tuple[str, Tiff]]:
    forms: dict[str, dict[str, Any]] = {"tiles": {"tile": (16, 16)}, "BigTIFF": {"bigtiff": True}, "one strip": {}}
    for dtype in ("uint8", "uint16"):
        x = noise(3, dtype)
        for name, more in forms.items():
            yield f"{name} {dtype}", written(x, x, 8, {"photometric": "rgb", "compression": "lzw"} | more)
    signed = noise(1, "int16")
    for order in ("<", ">"):
        options: dict[str, Any] = {"photometric": "minisblack", "bigtiff": True, "byteorder": order}
        yield f"BigTIFF int16 {order}", written(signed, signed, 1, options)
    for extra, channels in ((0, 2), (0, 4), (0, 6)):
        for dtype in ("uint8", "uint16"):
            x = noise(channels, dtype)
            options = {
                "photometric": "rgb" if channels > 2 else "minisblack", "planarconfig": "contig",
                "extrasamples": [extra] * (channels - (3 if channels > 2 else 1)),
            }  # fmt: skip
            yield f"{channels} bands, {dtype}", written(x, x, 1, options)


def by_pillow() -> Iterator[tuple[str, Tiff]]:
    grey, colour = noise(1), noise(3)
    modes = {"L": grey, "RGB": colour, "CMYK": noise(4), "I": noise(1, "int32"), "F": noise(1, "float32")}
    bits = Image.fromarray((grey > 127).astype(np.uint8) * 255).convert("1")
    palette = Image.fromarray(grey).convert("P")
    palette.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    for compression in ("raw", "group3", "group4", "packbits", "tiff_lzw", "tiff_adobe_deflate"):
        number = 1 if compression == "raw" else 8
        yield f"bilevel {compression}", saved(bits, np.asarray(bits).astype(np.uint8) * 255, number, compression)
    for compression, number in (("raw", 1), ("tiff_lzw", 8), ("packbits", 8)):
        yield f"palette {compression}", saved(palette, np.asarray(palette.convert("RGB")), number, compression)
        for mode, x in modes.items():
            image = Image.frombytes(mode, (W, H), x.tobytes())
            yield f"{mode} {compression}", saved(image, x, number, compression)
    opaque = np.concatenate([colour, np.full((H, W, 1), 255, np.uint8)], -1)
    yield "RGBA", saved(Image.fromarray(opaque), opaque, 1, "raw")
    luma = colour_bars().convert("YCbCr")
    readable = int(PIL.__version__.partition(".")[0]) >= 13  # older Pillow cannot read back what it writes here
    for compression, number in (("raw", 1), ("tiff_lzw", 8))[0 if readable else 1 :]:
        pixels = np.asarray(luma.convert("RGB")) if compression == "raw" else None  # libtiff rounds in its own way
        yield f"YCbCr {compression}", Tiff(saver(luma, compression), pixels, number, 2)
    ycbcr = Image.fromarray(np.full((H, W, 3), (200, 90, 30), np.uint8))
    yield "JPEG", Tiff(lambda path: ycbcr.save(path, compression="jpeg", quality=100), None, 8, 2)


def saver(image: Image.Image, compression: str) -> Callable[[str], object]:
    return lambda path: image.save(path, compression=compression)


def colour_bars() -> Image.Image:
    """Colours that YCbCr keeps."""
    bars = np.zeros((H, W, 3), np.uint8)
    bars[:, :5], bars[:, 5:10], bars[:, 10:] = (200, 90, 30), (17, 17, 17), (30, 60, 220)
    return Image.fromarray(bars)


def saved(image: Image.Image, pixels: Any, number: int, compression: str) -> Tiff:
    photometric = PHOTOMETRIC_OF_MODE.get(image.mode, 1)
    return Tiff(saver(image, compression), pixels, number, photometric)


def bare(path: str, rows: list[bytes], width: int, bits: int, more: dict[int, int | tuple[int, ...]]) -> None:
    """A little-endian TIFF of one strip, with samples of any number of bits, as neither library writes it."""
    data = b"".join(rows)
    values = {
        256: width, 257: len(rows), 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: len(rows), 279: len(data), **more
    }  # fmt: skip
    at = 8 + len(data) + len(data) % 2
    entries, behind = b"", b""
    for tag, value in sorted(values.items()):
        numbers = value if isinstance(value, tuple) else (value,)
        packed = struct.pack(f"<{len(numbers)}{'I' if tag in (273, 279) else 'H'}", *numbers)
        if len(packed) > 4:
            behind, packed = behind + packed, struct.pack("<I", at + 6 + 12 * len(values) + len(behind))
        entries += struct.pack("<HHI", tag, 4 if tag in (273, 279) else 3, len(numbers)) + packed.ljust(4, b"\0")
    with open(path, "wb") as stream:
        stream.write(b"II*\0" + struct.pack("<I", at) + data + bytes(len(data) % 2))
        stream.write(struct.pack("<H", len(values)) + entries + bytes(4) + behind)


def of_odd_bits() -> Iterator[tuple[str, Tiff]]:
    for bits in range(1, 16):
        for channels in (1, 3):
            dtype = "uint8" if bits <= 8 else "uint16"
            x, most, top = noise(channels, dtype, bits), (1 << bits) - 1, np.iinfo(dtype).max
            full = ((x.astype(np.int64) * top + most // 2) // most).astype(dtype)
            options = {"photometric": "rgb" if channels == 3 else "minisblack", "bitspersample": bits}
            yield f"{channels} x {bits} bits", written(x, full, 1, options)


TIFFS = {
    name: tiff
    for kind in (by_tifffile, of_other_numbers, tiled_and_large, by_pillow, of_odd_bits)
    for name, tiff in kind()
}
