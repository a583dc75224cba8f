"""What Pillow does not say of a WebP: whether its pixels are stored without loss."""

from __future__ import annotations

import struct

FRAME, LOSSY = b"ANMF", b"VP8 "
FRAME_HEADER = 16  # bytes before the chunks of a frame


def has_losses(path: str) -> bool:
    """Whether the first picture of the file is stored with loss."""
    at = 12
    with open(path, "rb") as stream:
        while True:
            stream.seek(at)
            head = stream.read(8)
            if len(head) < 8:
                return False
            kind, size = head[:4], struct.unpack("<I", head[4:])[0]
            if kind in (LOSSY, b"VP8L"):
                return kind == LOSSY
            at += 8 + (FRAME_HEADER if kind == FRAME else size + size % 2)
