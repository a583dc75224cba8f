"""Images of more than 8 bits a channel, of which Pillow would keep 8: PNG, AVIF, JPEG 2000 and HEIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poolcli.errors import FileError
from poolcli.formats.image import codecs, pillow, tiff
from poolcli.formats.image.curves import curve_of
from poolcli.formats.image.metadata import metadata_of
from poolcli.formats.image.modes import MODES
from poolcli.formats.image.pages import Picture, turning_notes, upright

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image

# Modes of a PNG of 16 bits a channel, by Pillow's raw mode and whether one colour is transparent.
DEEP_PNG = {
    ("I;16B", True): "LA;16", ("LA;16B", False): "LA;16", ("RGB;16B", False): "RGB;16", ("RGB;16B", True): "RGBA;16",
    ("RGBA;16B", False): "RGBA;16",
}  # fmt: skip
DECODERS = {"AVIF": "avif_decode", "JPEG2000": "jpeg2k_decode", "HEIF": "heif_decode"}
# Pillow's raw modes of 16 bits a pixel, 5 or 6 a channel.
PACKED = ("RGB;16", "BGR;16")


def loses_bits(image: Image) -> bool:
    """Whether Pillow decodes more bits than 8 to 8, which only the settings of its decoder tell, or nothing."""
    if image.format == "TIFF":
        stored = image.tag_v2  # type: ignore[attr-defined]
        return not tiff.pillow_reads(stored, stored.prefix == b"MM")
    if image.format == "HEIF":
        return bits_of(image) > 8
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
    return image.format in DECODERS and bits_of(image) > 8


def bits_of(image: Image) -> int:
    """Bits a channel, as pillow_heif says, by the SIZ marker of JPEG 2000, or the av1C box of AVIF; 8 if none does."""
    if image.format == "HEIF":
        return int(image.info.get("bit_depth", 8))
    file: Any = image
    with open(file.fp.name, "rb") as stream:
        start = stream.read(4096)
    place = start.find(b"\xff\x4f\xff\x51")
    if place >= 0 and len(start) > place + 42:
        return (start[place + 42] & 0x7F) + 1
    place = start.find(b"av1C")
    if place >= 0 and len(start) > place + 6 and start[place + 6] & 0x40:
        return 12 if start[place + 6] & 0x20 else 10
    return 8


def is_decoded(image: Image) -> bool:
    """Whether all bits of such an image can be read."""
    return image.format == "PNG" or (image.format in DECODERS and _mode(image) in MODES)


def _mode(image: Image) -> str:
    """The mode of 16 bits a channel for what Pillow decodes to this one."""
    return "I;16" if image.mode in ("L", "I;16") else f"{image.mode};16"


def picture_of(path: str, image: Image) -> Picture:
    """The picture of 16 bits a channel; fewer bits are scaled."""
    bits = 16
    if image.format == "PNG":
        mode = DEEP_PNG[image.tile[0].args, "transparency" in image.info]  # type: ignore[attr-defined]
    else:
        bits, mode = bits_of(image), _mode(image)
    orientation = pillow.orientation_of(image)
    channels, dtype, _ = MODES[mode]
    pages = getattr(image, "n_frames", 1)

    def decode(_: int) -> NDArray[Any]:
        pixels = codecs.read(path, DECODERS.get(str(image.format), "png_decode"))
        if pages > 1 and len(pixels) == pages:  # of an AVIF with several
            pixels = pixels[0]
        if pixels.dtype.name != dtype:
            raise FileError(f"{path}: has samples of {pixels.dtype}, and {dtype} is read; convert it to TIFF")
        if bits < 16:
            pixels = tiff.quotients(pixels, 65535, (1 << bits) - 1)
        return upright(pixels, orientation)

    def described() -> dict[str, Any]:
        return metadata_of(pillow.info_of(path, image), pillow.exif_of(image), False)

    notes = turning_notes(orientation)
    if bits < 16:
        notes = (*notes, f"{bits} bits a sample, scaled to 16")
    if pages > 1:
        notes = (*notes, f"page 1 of {pages} is read")
    memory = (2 + 2 * pages if bits == 16 else 2 + 2 * pages + tiff.QUOTIENTS) * channels  # all pages are decoded
    return Picture(
        pillow.format_name(image), mode, channels, dtype, memory, decode, described, notes, curve=curve_of(image.info)
    )
