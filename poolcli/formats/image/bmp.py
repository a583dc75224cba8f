"""BMP whose channels lie in bit fields of other places or widths than Pillow reads."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from poolcli.errors import FileError
from poolcli.formats.image.pages import refuse_memory
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from PIL.Image import Image

pil: Any = Lazy("PIL.Image")

AT_ONCE = 4  # bytes of memory a byte of the file, at most
BIT_FIELDS = "Unsupported BMP bitfields layout"  # Pillow's words for places or widths that it does not read
BMP_HEADER, WITH_ALPHA = 14, 56  # bytes; of the header from which on a mask of alpha follows the three of colours


def open_bit_fields(path: str, stream: BinaryIO, most_pixels: int, limit: int | None) -> tuple[Image, list[str]]:
    """A BMP whose channels lie in bit fields: the image of 8 bits a channel, and a note if it has more."""
    import numpy as np

    stream.seek(0)
    refuse_memory(path, AT_ONCE * os.path.getsize(path), limit)
    data = stream.read()
    (start,), (header, width, height) = (
        struct.unpack_from("<I", data, 10),
        struct.unpack_from("<Iii", data, BMP_HEADER),
    )
    (bits,) = struct.unpack_from("<H", data, BMP_HEADER + 14)
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
    import numpy as np

    if not mask:
        return np.zeros(stored.shape, np.uint8)
    shift = (mask & -mask).bit_length() - 1
    most = mask >> shift
    values = (stored.astype(np.uint64) & np.uint64(mask)) >> np.uint64(shift)
    return ((values * np.uint64(255) + np.uint64(most // 2)) // np.uint64(most)).astype(np.uint8)
