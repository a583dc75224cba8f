"""Whether Pillow would make less of a picture than it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolcli.formats.image.tiff import pillow_reads

# Of Pillow's names of how pixels are stored, those of 16 bits a pixel: 5 or 6 a channel.
PACKED = ("RGB;16", "BGR;16")


if TYPE_CHECKING:
    from PIL.Image import Image


def loses_bits(image: Image) -> bool:
    """Whether Pillow decodes to 8 bits what holds more; it says so only in the decoder's settings, or not at all."""
    if image.format == "TIFF":
        stored = image.tag_v2  # type: ignore[attr-defined]
        return not pillow_reads(stored, stored.prefix == b"MM")
    if image.format == "HEIF":
        return int(image.info.get("bit_depth", 8)) > 8
    if image.mode.startswith("I;16"):
        return "transparency" in image.info
    if image.mode == "I":
        return False
    for decoder, _, _, settings in getattr(image, "tile", ()):
        args = settings if isinstance(settings, tuple) else (settings,)
        if decoder == "SGI16" or any(isinstance(arg, str) and ";16" in arg and arg not in PACKED for arg in args):
            return True
        if image.format == "PPM" and any(isinstance(arg, int) and arg > 255 for arg in args[1:]):
            return True
    return image.format in ("JPEG2000", "AVIF") and _bits_in_header(image) > 8


def _bits_in_header(image: Image) -> int:
    """Bits of a channel, from the SIZ marker of JPEG 2000 or the av1C box of AVIF; 8 where there is none."""
    file: Any = image
    with open(file.fp.name, "rb") as stream:
        start = stream.read(4096)
    place = start.find(b"\xff\x4f\xff\x51")
    if place >= 0 and len(start) > place + 42:
        return (start[place + 42] & 0x7F) + 1
    place = start.find(b"av1C")
    if place >= 0 and len(start) > place + 6 and start[place + 6] & 0x40:
        return 10
    return 8
