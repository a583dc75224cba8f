"""Images through Pillow: which array each mode becomes, and which arrays an image file can hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from poolcli.errors import FileError, PoolError, RequestError
from poolcli.formats.atomic import whole_file
from poolcli.formats.records import Header, Loaded, Metadata, Opened, Source
from poolcli.layouts import convert_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

MOST_PIXELS = 178_956_970  # the number at which Pillow itself gives up
ORIENTATION = 0x0112
TURNED = (5, 6, 7, 8)
# Pillow's mode: channels, dtype, the mode it is converted to first
MODES: dict[str, tuple[int, str, str | None]] = {
    "1": (1, "uint8", "L"),
    "L": (1, "uint8", None),
    "LA": (2, "uint8", None),
    "RGB": (3, "uint8", None),
    "RGBA": (4, "uint8", None),
    "RGBX": (3, "uint8", "RGB"),
    "I;16": (1, "uint16", None),
    "I;16L": (1, "uint16", None),
    "I;16B": (1, "uint16", None),
    "I": (1, "int32", None),
    "F": (1, "float32", None),
}
EXPANDED = {"RGB": "palette expanded to RGB", "RGBA": "palette expanded to RGBA", "LA": "palette expanded to LA"}
# What each format stores: dtype and number of channels.
STORES: dict[str, set[tuple[str, int]]] = {
    "png": {("uint8", 1), ("uint8", 2), ("uint8", 3), ("uint8", 4), ("uint16", 1)},
    "jpeg": {("uint8", 1), ("uint8", 3)},
    "tiff": {("uint8", 1), ("uint8", 2), ("uint8", 3), ("uint8", 4), ("uint16", 1), ("int32", 1), ("float32", 1)},
    "bmp": {("uint8", 1), ("uint8", 3)},
    "webp": {("uint8", 3), ("uint8", 4)},
    "ppm": {("uint8", 1), ("uint8", 3), ("uint16", 1)},
}
SAVED_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def list_arrays(path: str) -> list[Header]:
    """The one picture of the file."""
    with opened(Source(path)) as file:
        return [file.header]


@contextmanager
def opened(source: Source) -> Iterator[Opened]:
    """The picture, orientation applied; its pixels are decoded when they are first read."""
    with _opened(source.path) as (image, notes):
        with _translated(source.path):
            header = _header(source.path, image, notes)
        yield Loaded(header, lambda: _decoded(source.path, image))


def _decoded(path: str, image: Image) -> tuple[NDArray[Any], Metadata]:
    """The pixels as H, W or H, W, C, with what the file says beside them."""
    import numpy as np
    from PIL import ImageOps

    with _translated(path):
        mode = _mode(path, image)
        upright = ImageOps.exif_transpose(image)
        metadata = _metadata(upright)
        if upright.mode != mode:
            upright = upright.convert(mode)
        return np.asarray(upright, dtype=np.dtype(MODES[mode][1])), metadata


def stored_layout(name: str, shape: Sequence[int], dtype: str, layout: str) -> str:
    """`HW` or `HWC` when the image format called `name` can hold the array; refuses it otherwise."""
    spatial = [letter for letter in layout if letter not in "NC"]
    if sorted(spatial) != ["H", "W"]:
        raise RequestError(f"{name} images have the axes H, W and C, the result has {layout}; use .npy, .npz or .h5")
    channels = shape[layout.index("C")] if "C" in layout else 1
    if "N" in layout and shape[layout.index("N")] != 1:
        count = shape[layout.index("N")]
        raise RequestError(f"a {name} file holds one image, the result has N={count}; use .npy, .npz or .h5")
    if (dtype, channels) not in STORES[name]:
        able = [f".{other}" for other, stored in STORES.items() if (dtype, channels) in stored]
        raise RequestError(
            f"{name} cannot hold {channels} channel{'' if channels == 1 else 's'} of {dtype}; "
            f"use {', '.join([*able, '.npy', '.npz'])} or .h5"
        )
    return "HW" if channels == 1 else "HWC"


def write(path: str, array: NDArray[Any], *, name: str, metadata: Metadata, overwrite: bool) -> tuple[str, ...]:
    """Writes one image of layout HW or HWC; returns notes on what the format could not keep."""
    import numpy as np
    from PIL import Image

    layout = "HW" if array.ndim == 2 else "HWC"
    if layout == "HWC" and array.shape[2] == 1:
        array = convert_layout(array, "HWC", "HW")
    picture = Image.fromarray(np.ascontiguousarray(array))
    kept, notes = _kept(name, picture, metadata)
    with whole_file(path, overwrite) as part, _translated(path):
        picture.save(part, format=name.upper(), **kept)
    return notes


def _kept(name: str, picture: Image, metadata: Metadata) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `save` can take along, and what is lost; an ICC profile must fit the number of channels."""
    able = {
        "png": {"icc_profile", "exif", "dpi"},
        "jpeg": {"icc_profile", "exif", "dpi"},
        "tiff": {"icc_profile", "exif", "dpi"},
        "webp": {"icc_profile", "exif"},
        "bmp": {"dpi"},
    }.get(name, set())
    given = dict(metadata.image)
    if "icc_profile" in given and not _profile_fits(given["icc_profile"], picture.mode):
        able = able - {"icc_profile"}
    kept: dict[str, Any] = {key: value for key, value in given.items() if key in able}
    if name == "jpeg":
        kept |= {"quality": 95, "subsampling": 0}
    if name == "webp":
        kept |= {"lossless": True}
    words = {"icc_profile": "ICC profile", "exif": "EXIF data", "dpi": "resolution"}
    return kept, tuple(f"{words[key]} not kept: {name} files have no place for it" for key in given if key not in able)


def _profile_fits(profile: bytes, mode: str) -> bool:
    return profile[16:20] == (b"GRAY" if mode in ("L", "LA", "I;16", "I", "F") else b"RGB ")


def _metadata(image: Image) -> Metadata:
    found: dict[str, Any] = {}
    if image.info.get("icc_profile"):
        found["icc_profile"] = image.info["icc_profile"]
    exif = image.getexif()
    exif.pop(ORIENTATION, None)
    if len(exif):
        found["exif"] = exif.tobytes()
    if "dpi" in image.info:
        found["dpi"] = tuple(float(x) for x in image.info["dpi"])
    return Metadata(image=found)


def _header(path: str, image: Image, notes: list[str]) -> Header:
    mode = _mode(path, image)
    channels, dtype, _ = MODES[mode]
    width, height = image.size
    found = []
    orientation = image.getexif().get(ORIENTATION, 1)
    if orientation in TURNED:
        width, height = height, width
    if isinstance(orientation, int) and 2 <= orientation <= 8:
        found.append(f"EXIF orientation {orientation} applied")
    if image.mode in ("P", "PA"):
        found.append(EXPANDED[mode])
    elif image.mode != mode:
        found.append(f"mode {image.mode} read as {mode}")
    if mode in ("LA", "RGBA"):
        found.append("the alpha channel is pooled like the others")
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        found.append(f"frame 1 of {frames} is read")
    shape = (height, width) if channels == 1 else (height, width, channels)
    name = (image.format or "image").lower()
    return Header(name, shape, dtype, "HW" if channels == 1 else "HWC", None, (*notes, *found))


def _mode(path: str, image: Image) -> str:
    """The mode in which the picture is read; refuses modes that would lose something without a word."""
    if image.mode in ("P", "PA"):
        return "RGBA" if image.mode == "PA" or "transparency" in image.info else "RGB"
    if image.mode not in MODES:
        raise FileError(f"{path}: has the colour mode {image.mode}; convert it to RGB or greyscale first")
    if _truncated_to_8_bits(image):
        raise FileError(
            f"{path}: has 16 bits per channel, of which Pillow keeps 8; convert it to .npy to pool it without loss"
        )
    return MODES[image.mode][2] or image.mode


def _truncated_to_8_bits(image: Image) -> bool:
    """Whether Pillow decodes 16-bit colour to 8 bits: it says so only in the decoder's raw mode."""
    if image.mode not in ("RGB", "RGBA", "LA", "RGBX"):
        return False
    for tile in getattr(image, "tile", ()):
        args = tile[3] if isinstance(tile[3], tuple) else (tile[3],)
        if any(isinstance(arg, str) and ";16" in arg for arg in args):
            return True
    bits = getattr(image, "tag_v2", {}).get(258, (8,))  # TIFF BitsPerSample
    return any(count > 8 for count in (bits if isinstance(bits, tuple) else (bits,)))


def _pillow_names() -> tuple[str, ...]:
    """The formats that Pillow may try: those of the table and no others (it would start Ghostscript for EPS)."""
    from poolcli.formats import FORMATS

    return tuple(row.name.upper() for row in FORMATS.values() if row.is_image)


@contextmanager
def _opened(path: str) -> Iterator[tuple[Image, list[str]]]:
    """The open image and a list that gathers the library's warnings as notes."""
    from PIL import Image

    with ExitStack() as stack:
        stream = stack.enter_context(open(path, "rb"))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        Image.MAX_IMAGE_PIXELS = None  # checked below, before anything is decoded
        with _translated(path):
            image = stack.enter_context(Image.open(stream, formats=_pillow_names()))
            pixels = image.size[0] * image.size[1]
            if pixels > MOST_PIXELS:
                raise FileError(
                    f"{path}: has {pixels:,} pixels; at most {MOST_PIXELS:,} are read (decompression bomb?)"
                )
        yield image, list(dict.fromkeys(str(w.message).splitlines()[0] for w in caught))


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Whatever Pillow raises on a damaged file becomes one line."""
    from PIL import UnidentifiedImageError

    try:
        yield
    except (PoolError, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise FileError(f"{path}: is not an image that poolcli reads ({', '.join(_pillow_names())})") from error
    except Exception as error:  # Pillow's decoders raise nine kinds, among them TypeError and SyntaxError
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise FileError(f"{path}: the image cannot be read or written: {text[:200]}") from error
