"""The directory of tags that goes with a picture: what is chosen from the input's, and how a TIFF gets it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from poolcli.formats.image import tiff_tags
from poolcli.formats.image.tiff_tags import IPTC_BLOCK, blocks_of
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from PIL.Image import Exif

pil: Any = Lazy("PIL.Image")
pil_tiff: Any = Lazy("PIL.TiffImagePlugin")

SHOWN = 5  # tags named in a note
BYTE, UNDEFINED = 1, 7  # types of tags
INCH, CENTIMETRE = 2, 3
BESIDE = ("exif", "icc_profile", "xmp", "photoshop", "dpi", "geo")
STORED = {
    tiff_tags.ICC_PROFILE: ("icc_profile", UNDEFINED),
    tiff_tags.XMP: ("xmp", BYTE),
    tiff_tags.PHOTOSHOP: ("photoshop", BYTE),
}


def chosen_exif(exif: Exif) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
    """The tags that go along, as EXIF data, None for none; and what does not, with the reason."""
    kept, dropped, lost = pil.Exif(), list[int](), list[tuple[str, str]]()
    for tag, value in exif.items():
        program = tiff_tags.program_of(value) if tag == tiff_tags.DESCRIPTION else None
        if program:
            lost.append((f"description by {program}", "it tells how the input's array is stored"))
        elif tag == tiff_tags.EXIF:
            directory = _below(exif, tag)
            kept[tag] = {key: directory[key] for key in directory if key in tiff_tags.EXIF_KEPT}
            dropped += [key for key in directory if key not in tiff_tags.EXIF_KEPT | tiff_tags.MADE_ANEW]
        elif tag in tiff_tags.KEPT:
            kept[tag] = _below(exif, tag) if tag == tiff_tags.GPS else value
        elif tag not in tiff_tags.GEO | tiff_tags.MADE_ANEW:
            dropped.append(tag)
    if tiff_tags.MAKER_NOTE in dropped:
        dropped.remove(tiff_tags.MAKER_NOTE)
        lost.append(("maker notes", "only their maker knows what in them would still hold"))
    if dropped:
        lost.append((_named(dropped), "not known to hold for other pixels"))
    return kept.tobytes() if len(kept) else None, tuple(lost)


def _named(dropped: Iterable[int]) -> str:
    names = [tiff_tags.name_of(tag) for tag in sorted(dropped)]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"tag{'' if len(names) == 1 else 's'} {', '.join(names[:SHOWN])}{more}"


def with_directory(data: bytes, found: Mapping[str, Any]) -> bytes:
    """A little-endian TIFF whose first page says what was found beside the pixels, too.

    The first directory is written anew at the end of the file, with the entries that it had, which say where the pixels
    are, and the new ones.
    """
    if not any(key in found for key in BESIDE):
        return data
    tiff = memoryview(data)
    big = tiff[2] == 43
    number, place, entry, at = ("<Q", "<Q", 20, 8) if big else ("<H", "<I", 12, 4)

    def entries(data: bytes | memoryview, start: int) -> tuple[dict[int, bytes | memoryview], int]:
        (count,) = struct.unpack_from(number, data, start)
        start += struct.calcsize(number)
        records = (data[i : i + entry] for i in range(start, start + count * entry, entry))
        return {int.from_bytes(record[:2], "little"): record for record in records}, start + count * entry

    (first,) = struct.unpack_from(place, tiff, at)
    own, following = entries(tiff, first)
    filling = bytes(len(tiff) % 2)
    end = len(tiff) + len(filling)
    added = _directory(found, bytes(tiff[:at]) + bytes(struct.calcsize(place))).tobytes(end)
    both = {**own, **entries(added, 0)[0]}
    anew = struct.pack(number, len(both)) + b"".join(both[tag] for tag in sorted(both))
    following_place = tiff[following : following + struct.calcsize(place)]
    start = struct.pack(place, end + len(added))
    return b"".join((tiff[:at], start, tiff[at + len(start) :], filling, added, anew, following_place))


def _directory(found: Mapping[str, Any], head: bytes) -> Any:
    directory = pil_tiff.ImageFileDirectory_v2(head)
    exif: Exif = pil.Exif()
    exif.load(found.get("exif", b""))
    for tag, value in exif.items():
        directory[tag] = _below(exif, tag) if tag in (tiff_tags.EXIF, tiff_tags.GPS) else value
    values = {tag: (found[key], kind) for tag, (key, kind) in STORED.items() if key in found}
    iptc = blocks_of(found.get("photoshop", b"")).get(IPTC_BLOCK)
    if iptc:
        values[tiff_tags.IPTC] = (iptc, UNDEFINED)
    for tag, (value, kind) in values.items():
        directory.tagtype[tag] = kind
        directory[tag] = value
    if "dpi" in found:
        directory[tiff_tags.RESOLUTION_UNIT] = INCH
        for tag, dots in zip(tiff_tags.RESOLUTION, found["dpi"], strict=True):
            directory[tag] = dots
    for tag, value in found.get("geo", {}).items():
        directory[tag] = value
    return directory


def _below(exif: Exif, tag: int) -> dict[int, Any]:
    """The directory that a tag leads to, with the one below it."""
    directory = dict(exif.get_ifd(tag))
    if tiff_tags.INTEROPERABILITY in directory:
        directory[tiff_tags.INTEROPERABILITY] = exif.get_ifd(tiff_tags.INTEROPERABILITY)
    return directory
