"""Frames of an animated PNG, each blended over the one before.

Pillow blends the indices of palettes, and the alpha of what lies below as if it were a colour.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from poolcli.errors import FileError
from poolcli.formats.image.codecs import png_chunks
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    from numpy.typing import NDArray

pil: Any = Lazy("PIL.Image")

SIGNATURE = b"\x89PNG\r\n\x1a\n"
OF_PALETTE = (b"PLTE", b"tRNS")
TO_BACKGROUND, TO_PREVIOUS = 1, 2  # what becomes of a frame before the next one
OVER = 1  # a frame is blended, and does not replace what is below
BLENDING = 64  # bytes a pixel that blending takes


class Frame(NamedTuple):
    """Where a frame lies, what becomes of it, whether it is blended, and where its data are in the file.

    The image before an animation that does not begin with it has None for `at`.
    """

    width: int
    height: int
    at: tuple[int, int] | None
    disposal: int
    blend: int
    data: list[tuple[int, int]]


class Animation:
    """The frames of a file, blended on a canvas of `mode`, which has alpha last."""

    def __init__(self, path: str, mode: str) -> None:
        self._path, self._mode = path, mode
        self._header, self._palette = b"", list[bytes]()
        self.frames: list[Frame] = []
        with open(path, "rb") as stream:
            self._list_frames(stream)
        self._canvas: NDArray[Any] | None = None
        self._next = 0

    def _list_frames(self, stream: BinaryIO) -> None:
        for kind, at, end in png_chunks(stream):
            content = (at + 8, end - 4)
            if kind == b"IHDR":
                self._header = _read(stream, *content)
            elif kind in OF_PALETTE:
                self._palette.append(_chunk(kind, _read(stream, *content)))
            elif kind == b"fcTL" and end - at == 38:
                _, width, height, x, y, _, _, disposal, blend = struct.unpack(">5I2H2B", _read(stream, *content))
                self.frames.append(Frame(width, height, (x, y), disposal, blend, []))
            elif kind == b"IDAT":
                if not self.frames:
                    width, height = struct.unpack(">II", self._header[:8])
                    self.frames.append(Frame(width, height, None, TO_BACKGROUND, 0, []))
                self.frames[-1].data.append(content)
            elif kind == b"fdAT" and self.frames:
                self.frames[-1].data.append((content[0] + 4, content[1]))

    @property
    def blends(self) -> bool:
        """Whether any frame is blended."""
        return any(frame.blend == OVER for frame in self.frames)

    def page(self, number: int) -> NDArray[Any]:
        """A frame as it is shown; quickest in their order."""
        import numpy as np

        width, height = struct.unpack(">II", self._header[:8])
        if self._canvas is None or number < self._next:
            self._canvas, self._next = np.zeros((height, width, len(self._mode)), np.uint8), 0
        while True:
            frame = self.frames[self._next]
            (x, y), below = frame.at or (0, 0), self._canvas
            region = (slice(y, y + frame.height), slice(x, x + frame.width))
            if below[region].shape[:2] != (frame.height, frame.width):
                raise FileError(f"{self._path}: page {self._next + 1} reaches beyond the image")
            shown = below.copy()
            pixels = self._decoded(frame)
            shown[region] = _over(pixels, below[region]) if frame.blend == OVER else pixels
            if frame.disposal != TO_PREVIOUS:
                self._canvas = shown.copy()
            if frame.disposal == TO_BACKGROUND:
                self._canvas[region] = 0
            self._next += 1
            if self._next > number:
                return shown

    def _decoded(self, frame: Frame) -> NDArray[Any]:
        import numpy as np

        header = struct.pack(">II", frame.width, frame.height) + self._header[8:]
        with open(self._path, "rb") as stream:
            data = b"".join(_read(stream, *place) for place in frame.data)
        chunks = [_chunk(b"IHDR", header), *self._palette, _chunk(b"IDAT", data), _chunk(b"IEND", b"")]
        with pil.open(io.BytesIO(SIGNATURE + b"".join(chunks)), formats=("PNG",)) as image:
            return np.asarray(image.convert(self._mode))


def _read(stream: BinaryIO, start: int, end: int) -> bytes:
    stream.seek(start)
    return stream.read(end - start)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _over(above: NDArray[Any], below: NDArray[Any]) -> NDArray[Any]:
    """One image over another, both with alpha last and not multiplied by it, rounded to the nearest."""
    import numpy as np

    upper = above[..., -1:].astype(np.uint32) * 255
    lower = below[..., -1:] * (255 - above[..., -1:].astype(np.uint32))
    alpha = upper + lower  # in units of 1 / 255**2
    out = np.empty_like(above)
    most = np.maximum(alpha, 1)
    out[..., :-1] = (above[..., :-1] * upper + below[..., :-1] * lower + most // 2) // most
    out[..., -1:] = (alpha + 127) // 255
    return out
