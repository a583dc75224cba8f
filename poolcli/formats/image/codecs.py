"""JPEG and PNG through imagecodecs, if it is installed, and what Pillow does not read or tell of image files.

Pixels are those of Pillow, without the copies that it makes (both decode JPEG by libjpeg-turbo). CPU time for 6 million
pixels: halving a JPEG 45 ms (89 with Pillow's decoder; 47 if Pillow alone reduces it), decoding a PNG 99 (150).
Encoding a PNG of 1.5 million pixels with noise: 180 ms (410), for 9 % more bytes; over 70 images of other projects
0.8 of the time for 2 % fewer bytes.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from poolcli.errors import FileError
from poolcli.formats.image.modes import has_mode
from poolcli.formats.image.pages import check_image_memory
from poolcli.system.lazy_imports import Array, Lazy, installed, need
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

pil: Any = Lazy("PIL.Image")

STANDALONE, EOI = (0x01, 0xD8), 0xD9  # markers without a segment, and the last one
SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
SOF9 = 0xC9  # the first of the frames with arithmetic coding
FILL_BYTE = 0xFF  # any number of these bytes may precede a marker
JPEG_MODES = ("L", "RGB")  # modes of JPEG that are decoded here
# In coded pixels 255 is followed by 0, by the number of a restart interval, or by fill bytes.
MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")


def decode(image: Image, mode: str, path: str) -> Array | None:
    """The pixels of a JPEG, or of a PNG of one page and 8 bits a channel.

    None where they are left to Pillow, which also reports what is wrong.
    """
    is_jpeg = image.format == "JPEG" and image.mode in JPEG_MODES and _shares_libjpeg_turbo()
    plain = image.mode == mode and [tile.args for tile in getattr(image, "tile", ())] == [mode]
    is_png = image.format == "PNG" and plain and getattr(image, "n_frames", 1) == 1 and installed("imagecodecs")
    if not (is_jpeg or is_png):
        return None
    data = Path(path).read_bytes()
    if is_jpeg and not is_complete_jpeg(data):  # libjpeg would fill the rest with grey
        return None
    (imagecodecs,) = need("imagecodecs", why=WHY_READ)
    try:
        pixels: Array = imagecodecs.jpeg8_decode(data) if is_jpeg else imagecodecs.png_decode(data)
    except MemoryError:
        raise
    except Exception:  # Pillow finds the same fault, and reports it
        return None
    return pixels if has_mode(image.mode, pixels, image.size) else None


def check_jpeg_precision(path: str, stream: BinaryIO) -> None:
    """Refuses a JPEG whose samples do not have 8 bits, which Pillow only calls unidentified."""
    frame = jpeg_frame(stream)
    if frame and frame.bits != 8:
        raise FileError(
            f"{path}: is a JPEG of {frame.bits} bits a sample, and those of 8 are read; convert it to a TIFF or PNG of "
            "16 bits"
        )


class Frame(NamedTuple):
    """The number of a frame's marker, the bits of a sample, and the size."""

    kind: int
    bits: int
    height: int
    width: int

    @property
    def is_arithmetic(self) -> bool:
        """Whether the pixels are coded arithmetically, so that a byte may hold any number of them."""
        return self.kind >= SOF9


def jpeg_frame(stream: BinaryIO) -> Frame | None:
    """The header of the frame, which precedes all pixels; None if there is none."""
    at = 2
    while len(head := _read_at(stream, at, 9)) == 9 and head[0] == 0xFF:
        kind, length = head[1], int.from_bytes(head[2:4], "big")
        if kind in SOF:
            return Frame(kind, *struct.unpack(">BHH", head[4:]))
        at += 1 if kind == FILL_BYTE else max(length, 2) + 2
    return None


def is_complete_jpeg(data: bytes) -> bool:
    """Whether the segments of a JPEG follow each other up to its end marker."""
    at = 2
    while found := MARKER.search(data, at):
        kind, at = found[1][0], found.end()
        if kind == EOI:
            return True
        if kind not in STANDALONE:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return False


@cache
def _shares_libjpeg_turbo() -> bool:
    """Whether imagecodecs and Pillow decode JPEG by the same library."""
    if not installed("imagecodecs"):
        return False
    codecs, features = need("imagecodecs", "PIL.features", why="JPEG")
    return features.check_feature("libjpeg_turbo") and "turbo" in codecs.jpeg8_version()


SIGNATURE = 8  # bytes
HEADER = 25  # bytes of the first chunk
# zlib's level for PNG: a third of the time of 6, Pillow's default, for 0.1 % more bytes of a photograph.
LEVEL = 4
PIXEL_NAMES = ("bbox", "interlace", "transparency")  # keys of Pillow's `info` that decide about pixels
CRITICAL_CHUNKS = (b"IHDR", b"IDAT", b"IEND")
PIXEL_CHUNKS = (*CRITICAL_CHUNKS, b"PLTE", b"tRNS", b"acTL", b"fcTL", b"fdAT")  # chunks that make up the pixels
COLOUR_CHUNKS = (b"cHRM", b"cICP", b"gAMA", b"sRGB")  # kept as they are
PILLOW_CHUNKS = (b"eXIf", b"iCCP", b"iTXt", b"pHYs", b"tEXt", b"zTXt")  # kept as Pillow reads them
WHY_READ = "has colour of 16 bits a channel, or numbers, that Pillow cannot read without loss; install what can"
WHY_WRITE = "16 bits a channel, or numbers, which Pillow cannot write; install what can"


def decode_all_bits(path: str, decoder: str) -> Array:
    """The pixels as H, W, C by a decoder of imagecodecs, or all bits of page 1 of a HEIC by pillow_heif.

    With an alpha channel if a PNG has a transparent colour.
    """
    if decoder == "heif_decode":
        (heif,) = need("pillow_heif", why="HEIC")
        image = heif.read_heif(path, convert_hdr_to_8bit=False, hdr_to_16bit=False)[0]
        return np.array(image)  # a copy: in some versions of pillow_heif an array does not keep the memory of its image
    (imagecodecs,) = need("imagecodecs", why=f"{path}: {WHY_READ}", kind=FileError)
    pixels: Array = getattr(imagecodecs, decoder)(Path(path).read_bytes())
    return pixels


def read_ppm(path: str, offset: int, shape: tuple[int, int, int], most: int) -> Array:
    """The pixels of a binary PPM of two bytes a sample, as H, W, C; larger numbers than `most` count as `most`."""
    with open(path, "rb") as stream:
        stream.seek(offset)
        data = stream.read(2 * prod(shape))
    if len(data) < 2 * prod(shape):
        raise FileError(f"{path}: is damaged: {len(data):,} B cannot hold its {shape[1]} x {shape[0]} pixels")
    samples: Array = np.minimum(np.frombuffer(data, ">u2").reshape(shape), most).astype(np.uint16)
    return samples


def encode_png(path: str, pixels: Array, options: Mapping[str, Any]) -> bytes:
    """The pixels, H, W, C, of 8 or 16 bits, as a PNG with the other chunks that Pillow's `save` makes of `options`."""
    (imagecodecs,) = need("imagecodecs", why=f"{path}: {WHY_WRITE}", kind=FileError)
    data: bytes = imagecodecs.png_encode(pixels, level=LEVEL)
    beside = io.BytesIO()
    pil.new("RGB", (1, 1)).save(beside, "PNG", **options)
    others = b"".join(beside.getvalue()[at:end] for kind, at, end in png_chunks(beside) if kind not in CRITICAL_CHUNKS)
    return data[: SIGNATURE + HEADER] + others + data[SIGNATURE + HEADER :]


def pop_texts(path: str, image: Any) -> Mapping[str, Any]:
    """Removes the texts of a PNG from `info`, where Pillow puts them under their own names, and returns them.

    A text under a name that decides about pixels is refused.
    """
    texts = image.png.im_text
    for name in PIXEL_NAMES:
        if name in texts:
            raise FileError(f"{path}: holds a text of the name {name}, by which Pillow reads other pixels; remove that")
    for name in texts:
        image.info.pop(name, None)
    found: Mapping[str, Any] = texts
    return found


# By these Pillow multiplies the numbers of a grey PNG, but not its transparent number, which follows them here.
GREY_SCALES = {"1": 255, "L;2": 85, "L;4": 17}


def scale_transparency(image: Any) -> None:
    """Brings the transparent number of a grey PNG to the scale of its numbers."""
    rawmode = next((tile.args for tile in image.tile), None)
    if rawmode in GREY_SCALES and "transparency" in image.info:
        image.info["transparency"] = min(image.info["transparency"] * GREY_SCALES[rawmode], 255)


def metadata_image(path: str) -> Image:
    """An image of one pixel with the metadata of a PNG.

    Some of it may follow the pixels; of the file itself Pillow would decode all of them first.
    """
    small = io.BytesIO()
    pil.new("L", (1, 1)).save(small, "PNG")
    data, end = small.getvalue(), -12  # of the last chunk, which is empty
    with open(path, "rb") as stream:
        others = [(at, after - at) for kind, at, after in png_chunks(stream) if kind not in PIXEL_CHUNKS]
        chunks = b"".join(_read_at(stream, *place) for place in others)
    image: Image = pil.open(io.BytesIO(data[:end] + chunks + data[end:]))
    return image


def first_chunks(stream: BinaryIO, kinds: Sequence[bytes]) -> dict[bytes, bytes]:
    """The data of the first chunk of each of these kinds."""
    found: dict[bytes, bytes] = {}
    for kind, at, end in png_chunks(stream):
        if kind in kinds and kind not in found:
            found[kind] = _read_at(stream, at + 8, end - at - 12)
    return found


def unknown_chunks(stream: BinaryIO) -> list[str]:
    """The names of the chunks of a PNG that are neither read nor kept."""
    kinds = dict.fromkeys(kind for kind, _, _ in png_chunks(stream))
    return [kind.decode("latin-1") for kind in kinds if kind not in (*PIXEL_CHUNKS, *COLOUR_CHUNKS, *PILLOW_CHUNKS)]


def png_chunks(stream: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """The type of each chunk, and where it starts and ends."""
    at = SIGNATURE
    while len(head := _read_at(stream, at, 8)) == 8:
        end = at + struct.unpack(">I", head[:4])[0] + 12
        yield head[4:], at, end
        at = end


def _read_at(stream: BinaryIO, place: int, count: int) -> bytes:
    stream.seek(place)
    return stream.read(count)


GIF_HEADER = 13  # bytes of the signature and the screen descriptor of a GIF
EXTENSION, FRAME = b"\x21", b"\x2c"


def check_gif_frames(path: str, stream: BinaryIO) -> int:
    """The pixels of a GIF; refuses frames that reach beyond it, for which Pillow allocates memory unasked."""
    stream.seek(6)
    screen: tuple[int, int] = struct.unpack("<HH", stream.read(4).ljust(4, b"\0"))
    width, height = screen
    places = (struct.unpack("<HHHH", head[:8]) for kind, head in _gif_parts(stream) if kind == FRAME)
    for number, (left, top, across, down) in enumerate(places, 1):
        right, bottom = left + across, top + down
        if number == 1:  # a single frame may be larger than the screen descriptor says
            width, height = max(width, right), max(height, bottom)
        if right > width or bottom > height:
            raise FileError(f"{path}: page {number} reaches to {right} x {bottom}, but the image is {width} x {height}")
    return width * height


def _gif_parts(stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the first bytes of each frame and extension, up to any damage; its blocks come next."""
    stream.seek(GIF_HEADER - 3)
    (flags,) = stream.read(1) or b"\0"
    stream.seek(GIF_HEADER + _colour_table_size(flags))
    while kind := stream.read(1):
        if kind not in (EXTENSION, FRAME):
            return
        head = stream.read(1 if kind == EXTENSION else 9)
        if kind == FRAME:
            if len(head) < 9:
                return
            stream.seek(_colour_table_size(head[8]) + 1, 1)
        place = stream.tell()
        yield kind, head
        stream.seek(place)
        for size in _gif_sizes(stream):
            stream.seek(size, 1)


def _gif_sizes(stream: BinaryIO) -> Iterator[int]:
    """The size of each block up to the one that ends them; the stream stands behind it."""
    while size := int.from_bytes(stream.read(1)):
        yield size


def _colour_table_size(flags: int) -> int:
    """The bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


GIF_ICC, GIF_XMP = b"\x21\xff\x0bICCRGBG1012", b"\x21\xff\x0bXMP DataXMP"  # of application extensions of a GIF
LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")  # extensions that say how often an animation is repeated
GIF_XMP_TRAILER = (
    b"\x01" + bytes(range(255, -1, -1)) + b"\0"
)  # by which a reader of blocks ends, wherever in the text it is


def gif_profiles(path: str) -> dict[str, Any]:
    """The ICC profile and the XMP data of a GIF, which Pillow does not read; `others` names other extensions."""
    found: dict[str, Any] = {}
    others = dict[str, None]()
    with open(path, "rb") as stream:
        for kind, head in _gif_parts(stream):
            if kind + head != GIF_ICC[:2]:
                continue
            sign, begin = GIF_ICC[:2] + stream.read(len(GIF_ICC) - 2), stream.tell()
            if sign == GIF_ICC and "icc_profile" not in found:
                found["icc_profile"] = b"".join(stream.read(size) for size in _gif_sizes(stream))
            elif sign == GIF_XMP and "xmp" not in found:  # text, of which any byte may be taken for a size
                for size in _gif_sizes(stream):
                    stream.seek(size, 1)
                length = stream.tell() - begin
                stream.seek(begin)
                text, end, _ = stream.read(length).partition(GIF_XMP_TRAILER[:3])
                found |= {"xmp": text} if text and end else {}
            elif sign not in (GIF_ICC, GIF_XMP) and sign[3:] not in LOOPS:
                others[sign[3:].decode("latin-1")] = None
    return found | ({"others": [f"GIF extensions {', '.join(others)}"]} if others else {})


def with_gif_profiles(data: bytes, kept: Mapping[str, Any]) -> bytes:
    """A GIF with the ICC profile and the XMP data."""
    profile, more = kept.get("icc_profile", b""), b""
    if profile:
        parts = (profile[at : at + 255] for at in range(0, len(profile), 255))
        more += GIF_ICC + b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
    if "xmp" in kept:
        more += GIF_XMP + kept["xmp"] + GIF_XMP_TRAILER
    place = GIF_HEADER + _colour_table_size(data[GIF_HEADER - 3])
    return b"GIF89a" + data[6:place] + more + data[place:] if more else data


LOSSY_CHUNK = b"VP8 "  # a chunk of WebP
FRAME_HEADER = 16  # bytes before the chunks of an animation's frame


def _webp_chunks(stream: BinaryIO, inside_frames: bool) -> Iterator[bytes]:
    """The names of the chunks, also those in the frames of an animation."""
    at, end = 12, 8 + int.from_bytes(_read_at(stream, 4, 4), "little")
    while at < end and len(head := _read_at(stream, at, 8)) == 8:
        yield head[:4]
        size = int.from_bytes(head[4:], "little")
        at += 8 + (FRAME_HEADER if inside_frames and head[:4] == b"ANMF" else size + size % 2)


def is_lossy_webp(path: str) -> bool:
    """Whether the first image of a WebP is stored with loss."""
    with open(path, "rb") as stream:
        return next((kind for kind in _webp_chunks(stream, True) if kind in (LOSSY_CHUNK, b"VP8L")), b"") == LOSSY_CHUNK


PIXELS_OF_WEBP = (LOSSY_CHUNK, b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF")
OF_WEBP = (b"EXIF", b"ICCP", b"XMP ")  # kept as Pillow reads them


def other_webp_chunks(stream: BinaryIO) -> list[str]:
    """A phrase that names the chunks of a WebP that are neither read nor kept; empty if there are none."""
    kinds = dict.fromkeys(kind for kind in _webp_chunks(stream, False) if kind not in PIXELS_OF_WEBP + OF_WEBP)
    return [f"WebP chunks {', '.join(kind.decode('latin-1') for kind in kinds)}"] if kinds else []


BMP_COLOUR, BMP_PROFILE = 70, 126  # where the kind of colour space is, and the place and size of a profile
EMBEDDED, LINKED, CALIBRATED = b"DEBM", b"KNIL", bytes(4)  # kinds


def bmp_info(stream: BinaryIO) -> dict[str, Any]:
    """The resolution and ICC profile of a BMP, by Pillow's names; `others` names colour spaces that are not kept."""
    head = _read_at(stream, 0, BMP_PROFILE + 8)
    found: dict[str, Any] = {}
    header = int.from_bytes(head[14:18], "little")
    if header >= 40 and len(head) >= 54 and all(dots := struct.unpack_from("<ii", head, 38)):
        found["dpi"] = tuple(each * 0.0254 for each in dots)
    if header < 108 or len(head) < BMP_PROFILE + 8:
        return found
    kind, (at, size) = head[BMP_COLOUR : BMP_COLOUR + 4], struct.unpack_from("<II", head, BMP_PROFILE)
    if kind == EMBEDDED and header >= 124:
        profile = _read_at(stream, 14 + at, size)
        return found | ({"icc_profile": profile} if profile else {})
    named = {LINKED: "ICC profile in another file", CALIBRATED: "BMP colour space" if any(head[74:122]) else ""}
    return found | ({"others": [named[kind]]} if named.get(kind) else {})


# BMP whose channels lie in bit fields of other places or widths than Pillow reads.
BMP_MEMORY = 4  # bytes of memory a byte of the file, at most
BIT_FIELDS = "Unsupported BMP bitfields layout"  # Pillow's words for places or widths that it does not read
BMP_HEADER, WITH_ALPHA = 14, 56  # bytes; of the header from which on a mask of alpha follows the three of colours


def open_bit_fields(path: str, stream: BinaryIO, most_pixels: int, limit: int | None) -> tuple[Image, list[str]]:
    """A BMP whose channels lie in bit fields: the image of 8 bits a channel, and a note if it has more."""
    stream.seek(0)
    check_image_memory(path, BMP_MEMORY * os.path.getsize(path), limit)
    data = stream.read()
    start, header, width, height, _, bits = struct.unpack_from("<IIiiHH", data, 10)
    masks = struct.unpack_from("<3I", data, BMP_HEADER + 40)
    if header >= WITH_ALPHA and (alpha := struct.unpack_from("<I", data, BMP_HEADER + 52)[0]):
        masks = (*masks, alpha)
    row, rows = (width * bits + 31) // 32 * 4, abs(height)
    if bits not in (16, 32) or width < 1 or not rows or width * rows > most_pixels or start + row * rows > len(data):
        raise FileError(f"{path}: is damaged: {len(data)} B cannot hold its {width} x {rows} pixels of {bits} bits")
    stored = np.frombuffer(data, f"<u{bits // 8}", row * rows // (bits // 8), start).reshape(rows, -1)[:, :width]
    pixels = np.empty((rows, width, len(masks)), np.uint8)
    for values, found in zip(stored[:: -1 if height > 0 else 1], pixels, strict=True):
        for channel, mask in enumerate(masks):
            found[:, channel] = _channel(values, mask)
    image: Image = pil.fromarray(pixels)
    image.format = "BMP"
    widest = max(mask.bit_count() for mask in masks)
    return image, [f"{widest} bits a channel rounded to 8"] if widest > 8 else []


def _channel(stored: Any, mask: int) -> Any:
    """The bits of a mask on the scale of 8 bits, rounded; 0 for an empty one."""
    if not mask:
        return np.zeros(stored.shape, np.uint8)
    shift = (mask & -mask).bit_length() - 1
    most = mask >> shift
    values = (stored.astype(np.uint64) & np.uint64(mask)) >> np.uint64(shift)
    return ((values * np.uint64(255) + np.uint64(most // 2)) // np.uint64(most)).astype(np.uint8)
