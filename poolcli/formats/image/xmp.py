"""XMP data for pooled pixels: properties that count pixels are scaled, and those of companion images dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Properties of how the pixels were stored, written as attributes or as elements.
_STORED = (
    b"tiff:(?:Orientation|ImageWidth|ImageLength|XResolution|YResolution|ResolutionUnit|Compression|BitsPerSample)"
    b"|exif:Pixel[XY]Dimension"
)
# Namespaces of companion images that follow the primary one (gain maps, depth, video) or of the rest of XMP data.
_COMPANION = re.compile(
    rb"xmlns:([\w.-]+)\s*=\s*[\"'](?:http://ns\.google\.com/photos/(?!1\.0/panorama)|http://ns\.adobe\.com/hdr-gain-map/"
    rb"|http://ns\.apple\.com/(?:HDRGainMap|pixeldatainfo)/|http://ns\.adobe\.com/xmp/note/)"
)
_PANORAMA = re.compile(rb"xmlns:([\w.-]+)\s*=\s*[\"']http://ns\.google\.com/photos/1\.0/panorama/")
# Of Photo Sphere data: sizes and positions, across or down.
_PIXELS = rb"(?:\w*(?:(Width|Left)|(?:Height|Top))Pixels|LargestValidInteriorRect(?:(Width|Left)|(?:Height|Top)))"


def for_pooled(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The data without what holds for the stored pixels or for companion images, and the prefixes of the latter."""
    prefixes = sorted(set(_COMPANION.findall(data)))
    kept, dropped = _without(data, _STORED), list[str]()
    for prefix in prefixes:
        rest = _without(kept, re.escape(prefix) + rb":[\w.-]+")
        dropped += [prefix.decode()] if rest != kept else []
        kept = rest
    return kept, tuple(dropped)


def _without(data: bytes, names: bytes) -> bytes:
    """The data without these attributes, and elements with all that is in them."""
    data = re.sub(rb"(?s)<(" + names + rb")(?:\s[^>]*)?(?:(?<=/)>|>.*?</\1\s*>)\s*", b"", data)
    return re.sub(rb"\s(?:" + names + rb")\s*=\s*(?:\"[^\"]*\"|'[^']*')", b"", data)


def counts_pixels(data: bytes) -> bool:
    """Whether it has sizes and positions of a panorama."""
    return _PANORAMA.search(data) is not None


def scaled(data: bytes, factors: Sequence[float]) -> bytes:
    """The data with the sizes and positions of a panorama multiplied by the factors across and down."""
    for prefix in set(_PANORAMA.findall(data)):
        name = re.escape(prefix) + b":" + _PIXELS

        def follow(found: re.Match[bytes]) -> bytes:
            factor = factors[0] if found[3] or found[4] else factors[1]
            return found[1] + str(round(float(found[5]) * factor)).encode()

        data = re.sub(rb"((" + name + rb")(?:\s*=\s*[\"']|\s*>)\s*)(\d+(?:\.\d+)?)", follow, data)
    return data
