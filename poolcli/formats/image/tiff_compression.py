"""How the pixels of a TIFF are compressed: as the input's were, where that loses nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NONE, DEFLATE = 1, 8
PREDICTOR = 317  # the tag
DIFFERENCES = (2, 3)  # its values
# What Pillow and tifffile call it, and whether a predictor can go with it. Some Pillows are built without the last two.
COMPRESSIONS: dict[int, tuple[str | None, str | None, bool]] = {
    NONE: (None, None, False),
    5: ("tiff_lzw", "lzw", True),
    DEFLATE: ("tiff_adobe_deflate", "zlib", True),
    32946: ("tiff_adobe_deflate", "zlib", True),
    32773: ("packbits", "packbits", False),
    34925: (None, "lzma", True),
    50000: (None, "zstd", True),
}
# Those that every Pillow reads: further ones of bits, packed bits by others, JPEG in its two forms.
OF_PILLOW = (NONE, 2, 3, 4, 5, 6, 7, DEFLATE, 32771, 32773, 32809, 32946)


class Compression(NamedTuple):
    """A compression as Pillow and tifffile call it, None for none, and whether differences are stored."""

    pillow: str | None
    tifffile: str | None
    predictor: bool

    @property
    def is_of_tifffile(self) -> bool:
        """Whether tifffile alone can write it."""
        return self.tifffile is not None and self.pillow is None

    @property
    def pillow_options(self) -> dict[str, Any]:
        """What Pillow's `save` takes of it."""
        differences = {"tiffinfo": {PREDICTOR: 2}} if self.predictor else {}
        return {"compression": self.pillow, **differences} if self.pillow else {}


def choose_compression(kept: Mapping[str, Any]) -> tuple[Compression, tuple[str, ...]]:
    """The input's compression, or deflate where it had losses or is for bits alone, and a note on that."""
    stored = kept.get("compression", NONE)
    pillow, tifffile, differs = COMPRESSIONS.get(stored, COMPRESSIONS[DEFLATE])
    compression = Compression(pillow, tifffile, differs and kept.get("predictor") in DIFFERENCES)
    if stored in COMPRESSIONS:
        return compression, ()
    return compression, ("compression of the input not kept: stored with deflate, without loss",)
