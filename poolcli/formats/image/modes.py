"""The array of each image mode, and the modes that each image format stores.

Modes have Pillow's names; `;16` is added for what Pillow lacks, colour of 16 bits a channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poolcli.dtypes import lookup
from poolcli.errors import RequestError
from poolcli.layouts import size_of
from poolcli.message_fields import field, hint
from poolcli.system.lazy_imports import Array


class Mode(NamedTuple):
    """Channels and number type of a mode; whether the last channel is alpha."""

    channels: int
    dtype: str
    alpha: bool = False


INDICES = "P"  # indices of a palette: read where they vote, else expanded
MODES = {
    "L": Mode(1, "uint8"),
    "LA": Mode(2, "uint8", True),
    "RGB": Mode(3, "uint8"),
    "RGBA": Mode(4, "uint8", True),
    "CMYK": Mode(4, "uint8"),
    "LAB": Mode(3, "uint8"),
    "I;16": Mode(1, "uint16"),
    "LA;16": Mode(2, "uint16", True),
    "RGB;16": Mode(3, "uint16"),
    "RGBA;16": Mode(4, "uint16", True),
    "I": Mode(1, "int32"),
    "F": Mode(1, "float32"),
    INDICES: Mode(1, "uint8"),
}
BANDS = "bands"  # any number of channels of any type, with no meaning as colours
# What other modes are converted to.
CONVERTED_MODES = {
    "1": "L", "P": "RGB", "PA": "RGBA", "RGBX": "RGB", "RGBa": "RGBA", "La": "LA", "YCbCr": "RGB", "HSV": "RGB",
    "I;16L": "I;16", "I;16B": "I;16", "I;16N": "I;16",
}  # fmt: skip
MODES_BY_FORMAT: dict[str, tuple[str, ...]] = {
    "png": ("L", "LA", "RGB", "RGBA", "I;16", "LA;16", "RGB;16", "RGBA;16", INDICES),
    "jpeg": ("L", "RGB", "CMYK"),
    "tiff": (*MODES, BANDS),
    "bmp": ("L", "RGB", INDICES),
    "webp": ("RGB", "RGBA"),
    "gif": ("L", "RGB", "RGBA", INDICES),
    "ppm": ("L", "RGB", "I;16"),
}
MULTIPAGE = ("tiff", "png", "webp", "gif")  # formats that hold several pages
QUANTIZED = ("gif",)  # formats that keep few of the colours: never proposed
BEYOND_PILLOW = ("LA;16", "RGB;16", "RGBA;16", BANDS)  # modes that need other libraries than Pillow
NON_TIFF_DTYPES = ("bool", "bfloat16")  # number types that TIFF does not have
OME_DTYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64")  # those that OME-XML has


def mode_of(shape: Sequence[int], dtype: str, layout: str, wanted: str | None) -> str:
    """The mode in which an array is stored: `wanted` if it fits, else the one of its channels and type."""
    channels = shape[layout.index("C")] if "C" in layout else 1
    fitting = [name for name, mode in MODES.items() if (mode.channels, mode.dtype) == (channels, dtype)]
    return wanted if wanted in (*fitting, BANDS) else next(iter(fitting), BANDS)


def stored_layout(name: str, shape: Sequence[int], dtype: str, layout: str, wanted: str | None) -> str:
    """The layout in which the image format `name` stores the array: `HW`, `HWC`, or `NHW`, `NHWC` for several pages.

    Stacks with D have channels as pages, `NCDHW`, unless they are those of the image that was read, `NDHWC`.
    Raises a RequestError for an array that it cannot hold.
    """
    empty = [f"{axis}=0" for axis, length in zip(layout, shape, strict=True) if length == 0]
    if empty:
        raise RequestError(
            f"a {name} file cannot hold an empty array, but the result has {empty[0]}; use .npy, .npz or .h5"
        )
    if "D" not in layout:  # slices of a volume, along which nothing is pooled
        layout = layout.replace("S", "D")
    spatial = set(layout) - set("NC")
    if name == "tiff" and spatial == set("DHW"):
        return _stack_layout(shape, dtype, layout, wanted)
    if spatial != set("HW"):
        axes = "N, C, D, H and W" if name == "tiff" else "H, W and C"
        kept = "".join(axis for axis, length in zip(layout, shape, strict=True) if axis in "HWC" or length > 1)
        named = hint(f", or name the axes of the input, as in {field('layout', 'HWC')}") if len(layout) == 3 else ""
        if kept in ("HW", "HWC", "CHW"):  # the mean of a stack
            named = hint(f", or leave out axes of length 1: {field('output_layout', kept)}")
        raise RequestError(
            f"{name} images have the axes {axes}, but the result has {layout}; use .npy, .npz or .h5{named}"
        )
    pages = shape[layout.index("N")] if "N" in layout else 1
    proposed = [other for other in MODES_BY_FORMAT if other not in (name, *QUANTIZED)]
    if pages != 1 and name not in MULTIPAGE:
        raise RequestError(
            f"a {name} file holds one image, but the result has N={pages}; "
            f"use {', '.join(f'.{other}' for other in MULTIPAGE if other in proposed)}, "
            f".npy, .npz or .h5, or take one image with {field('pages', 1)}"
        )
    mode = mode_of(shape, dtype, layout, wanted)
    unheard = mode == BANDS and dtype in NON_TIFF_DTYPES
    if mode not in MODES_BY_FORMAT[name] or unheard or (pages != 1 and mode in BEYOND_PILLOW and name != "tiff"):
        channels = shape[layout.index("C")] if "C" in layout else 1
        able = [f".{other}" for other in proposed if mode in MODES_BY_FORMAT[other] and not unheard]
        colour = f" ({mode})" if mode in ("CMYK", "LAB") else ""
        bits = mode_of(shape, "uint8", layout, None)
        opaque = bits in MODES_BY_FORMAT[name] and bits in MODES and not MODES[bits].alpha
        rescale = f", or {field('rescale')} for 8 bits" if opaque and lookup(dtype).kind == "float" else ""
        raise RequestError(
            f"{name} cannot hold {channels} channel{'' if channels == 1 else 's'} of {dtype}{colour}; "
            f"use {', '.join([*able, '.npy', '.npz'])} or .h5{rescale}"
        )
    kept = "HWC" if "C" in layout and shape[layout.index("C")] != 1 else "HW"
    return f"N{kept}" if pages != 1 else kept


def _stack_layout(shape: Sequence[int], dtype: str, layout: str, wanted: str | None) -> str:
    if dtype not in OME_DTYPES:
        raise RequestError(f"a stack in an OME-TIFF cannot have numbers of the type {dtype}; use .npy, .npz or .h5")
    channels = size_of("C", layout, shape)
    inside = channels > 1 and wanted in MODES and (channels, dtype) == MODES[wanted][:2]
    frames = "N" if size_of("N", layout, shape) != 1 else ""
    return f"{frames}DHWC" if inside else f"{frames}{'C' if channels != 1 else ''}DHW"


def with_flipped_signs(pixels: Array) -> Array:
    """LAB with a and b offset to start at 0, from the signed numbers that TIFF stores; and the reverse."""
    turned = pixels.copy()
    turned[..., 1:3] ^= pixels.dtype.type(1 << (pixels.dtype.itemsize * 8 - 1))
    return turned
