"""Modes of images, with their arrays and the formats that store them; and pages, which are read and how.

Modes have Pillow's names; `;16` is added for what Pillow lacks, colour of 16 bits a channel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from poolcli.arguments import Missing
from poolcli.dtypes import lookup
from poolcli.errors import FileError, RequestError, error_text, is_for_users
from poolcli.formats.checks import as_file_error, check_memory, join_names
from poolcli.layouts import size_of
from poolcli.message_fields import AGAIN, field, hint
from poolcli.system.lazy_imports import Array, installed, need


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
CONVERTED_MODES = {
    "1": "L", "P": "RGB", "PA": "RGBA", "RGBX": "RGB", "RGBa": "RGBA", "La": "LA", "YCbCr": "RGB", "HSV": "RGB",
    "I;16L": "I;16", "I;16B": "I;16", "I;16N": "I;16",
}  # fmt: skip
MODES_BY_FORMAT: dict[str, tuple[str, ...]] = {
    "png": ("L", "LA", "RGB", "RGBA", "I;16", "LA;16", "RGB;16", "RGBA;16", INDICES),
    "jpeg": ("L", "RGB", "CMYK"),
    "tiff": (*MODES, BANDS),
    "bmp": ("L", "RGB", INDICES),
    "webp": ("L", "LA", "RGB", "RGBA"),
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

    Stacks with D have channels as pages, `NCDHW`, unless they are those of the image that was read, or come last and
    are colours, `NDHWC`.
    Raises a RequestError for an array that it cannot hold.
    """
    empty = [f"{axis}=0" for axis, length in zip(layout, shape, strict=True) if length == 0]
    if empty:
        raise RequestError(f"{name} cannot hold an empty array, but the result has {empty[0]}; use .npy, .npz or .h5")
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
        stack = ".tif, " if name != "tiff" and spatial == set("DHW") and dtype in OME_DTYPES else ""
        raise RequestError(
            f"{name} images have the axes {axes}, but the result has {layout}; use {stack}.npy, .npz or .h5{named}"
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
        narrow = "uint16" if mode_of(shape, "uint16", layout, None) in MODES_BY_FORMAT[name] else "uint8"
        to_look_at = f"for 8 bits to look at, {field('dtype', 'float32')} {field('rescale')}"
        whole = f"; if the values fit, convert them in numpy (x.astype('{narrow}')); {to_look_at}"  # which labels need
        more = {"bool": f", or {field('dtype', 'uint8')}", "float": f", or {field('rescale')} for 8 bits"}
        remedy = more.get(lookup(dtype).kind, whole) if opaque else ""
        raise RequestError(
            f"{name} cannot hold {channels} channel{'' if channels == 1 else 's'} of {dtype}{colour}; "
            f"use {', '.join([*able, '.npy', '.npz'])} or .h5{remedy}"
        )
    kept = "HWC" if "C" in layout and shape[layout.index("C")] != 1 else "HW"
    return f"N{kept}" if pages != 1 else kept


def _stack_layout(shape: Sequence[int], dtype: str, layout: str, wanted: str | None) -> str:
    if dtype not in OME_DTYPES:
        raise RequestError(f"a stack in an OME-TIFF cannot have numbers of the type {dtype}; use .npy, .npz or .h5")
    channels = size_of("C", layout, shape)
    of_image = channels > 1 and wanted in MODES and (channels, dtype) == MODES[wanted][:2]
    coloured = channels in (3, 4) and layout[-1] == "C" and mode_of(shape, dtype, layout, wanted) in MODES
    inside = of_image or coloured
    frames = "N" if size_of("N", layout, shape) != 1 else ""
    return f"{frames}DHWC" if inside else f"{frames}{'C' if channels != 1 else ''}DHW"


def with_flipped_signs(pixels: Array) -> Array:
    """LAB with a and b offset to start at 0, from the signed numbers that TIFF stores; and the reverse."""
    turned = pixels.copy()
    turned[..., 1:3] ^= pixels.dtype.type(1 << (pixels.dtype.itemsize * 8 - 1))
    return turned


TRANSPOSING = (5, 6, 7, 8)  # orientations that exchange width and height


@dataclass(frozen=True, slots=True)
class PageDecoder:
    """How pages of one kind are decoded: each as H, W or H, W, C, upright.

    memory : bytes a pixel that decoding takes beside the result
    read_metadata : the metadata of the page that was decoded last
    duration : how long that page is shown in an animation, in milliseconds
    missing : nodata values
    """

    format: str
    mode: str
    channels: int
    dtype: str
    memory: int
    decode: Callable[[int], Array]
    read_metadata: Callable[[], dict[str, Any]]
    notes: tuple[str, ...] = ()
    duration: Callable[[], int | None] = lambda: None
    missing: Missing = ()
    compressed: bool | None = None


VOTE_NOTE = "the indices of the palette vote"
EXPANDED_NOTE = f"palette expanded to {{}}; if its colours are classes, use poolcli mode{AGAIN}"


def upright(pixels: Array, orientation: object) -> Array:
    """The pixels with the orientation tag applied: 2 to 4 mirror, 5 to 8 also exchange the axes."""
    if orientation in TRANSPOSING:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def upright_size(orientation: object, width: int, height: int) -> tuple[int, int]:
    """Width and height with the orientation tag applied."""
    return (height, width) if orientation in TRANSPOSING else (width, height)


def orientation_notes(orientation: object) -> tuple[str, ...]:
    """A note if an orientation was applied."""
    applied = isinstance(orientation, int) and 2 <= orientation <= 8
    return (f"EXIF orientation {orientation} applied",) if applied else ()


class Page(NamedTuple):
    """Size of a page, upright, its kind of pixels, and whether it is a copy or view of another, or a mask."""

    width: int
    height: int
    kind: str = ""
    is_copy: bool = False
    is_mask: bool = False

    @property
    def pixels(self) -> int:
        """How many pixels the page has."""
        return self.width * self.height

    def __str__(self) -> str:
        return f"{self.width} x {self.height}{f' ({self.kind})' if self.kind else ''}"


def choose_pages(
    path: str, pages: Sequence[Page], wanted: str | None, masked: bool = True
) -> tuple[list[int], tuple[str, ...]]:
    """The pages that are read, counted from 0, and notes if these are not all, or have masks.

    Those that are `wanted`, which must be of one size and kind. If that is None: all, or the first of the largest if
    pages differ or some are copies of others. Masks are read with their pages, or where no other page is wanted.
    """
    count, note = len(pages), ""
    pictures = [i for i, page in enumerate(pages) if not page.is_mask] or list(range(count))
    full = [i for i in pictures if not pages[i].is_copy] or pictures
    if wanted is not None:
        asked = pictures if wanted == "all" else _parse_range(path, count, wanted)
        chosen = [i for i in asked if not pages[i].is_mask] or list(asked)
        first = chosen[0]
        other = next((i for i in chosen if pages[i][:3] != pages[first][:3]), first)
        if other != first:
            raise FileError(
                f"{path}: page {other + 1} is {pages[other]}, page {first + 1} is {pages[first]}; "
                f"take pages of one size and kind with {field('pages', first + 1)}"
            )
        note = f"page {first + 1} of {count} is read" if wanted.isdigit() and count > 1 else ""
    else:
        first = max(full, key=lambda i: pages[i].pixels)
        chosen = full
        if full != pictures or any(pages[i] != pages[first] for i in full):
            chosen = [first]
            note = f"page {first + 1} of {count} is read, the first of full size; {field('pages')}{AGAIN} takes others"
    notes = [note] if note else []
    masks = masks_of(pages)
    applied = [str(masks[page] + 1) for page in chosen if page in masks]
    if applied:
        which = "page {} is a mask" if len(applied) == 1 else "pages {} are masks"
        notes.append(which.format(join_names(applied)) + ("" if masked else ", and not applied: hidden pixels count"))
    return chosen, tuple(notes)


def masks_of(pages: Sequence[Page]) -> dict[int, int]:
    """The masks by the pages that they belong to: each to the last page of its size before it."""
    last, found = dict[tuple[int, int], int](), dict[int, int]()
    for number, page in enumerate(pages):
        size = page.width, page.height
        if not page.is_mask:
            last[size] = number
        elif size in last:
            found.setdefault(last[size], number)
    return found


def _parse_range(path: str, count: int, wanted: str) -> range:
    first, _, last = wanted.partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        raise RequestError(f"{field('pages')} is {wanted!r}; write all, a page such as 1, or a range such as 2-5")
    pages = range(int(first) - 1, int(last or first))
    if not 0 <= pages.start < pages.stop <= count:
        known = "leave it out" if count == 1 else f"they count from 1 to {count}"
        has = f"{count} page{'' if count == 1 else 's'}"
        raise RequestError(f"{path}: has {has}, but {field('pages')} asks for {wanted}; {known}")
    return pages


PIXEL_BYTES = 4  # in Pillow
BOMB = re.compile(r"Image size \((\d+) pixels\) exceeds limit of (\d+) pixels")
NEEDS_CODECS = re.compile(r"<?(\S+?)(:.*)? requires the 'imagecodecs' package")


def image_errors(path: str, what: str = "read") -> AbstractContextManager[None]:
    """Turns whatever the libraries raise into a FileError of one line."""

    def describe(error: Exception) -> str:
        why = error_text(error)
        if bomb := BOMB.match(why):
            pixels, most = map(int, bomb.groups())
            check_memory(f"{path}: needs", PIXEL_BYTES * pixels, PIXEL_BYTES * most, " to be decoded")
        codec = NEEDS_CODECS.match(why)
        if (codec or isinstance(error, ImportError)) and not installed("imagecodecs"):
            packed = codec[1] if codec else "its compression"
            need("imagecodecs", why=f"{path}: {packed} needs the extra images", kind=FileError)
        return f"the image cannot be {what}: {why if is_for_users(error) else 'its data is damaged'}"

    return as_file_error(path, (Exception,), describe)  # Pillow's decoders raise nine types, SyntaxError among them
