"""What is shown of an array in small: a picture in its colours, or the first of its channels side by side in grey."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

from poolcli.formats import ArrayReader
from poolcli.layouts import SPATIAL
from poolcli.system.lazy_imports import Lazy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

pil: Any = Lazy("PIL.Image")

TILES = 9  # channels that are shown, three by three
AT_ONCE = 2**24  # elements that are read in one piece; of more, some rows
ROWS = 512  # rows that are read of a larger plane
NOT_A_NUMBER = (255, 0, 255)
GAP = 1  # pixels between tiles


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """Some planes of an array: of a picture its colours as they are stored (`mode`), else channels; `of` tells which of
    the array they are, for what is left out.
    """

    planes: NDArray[Any]
    mode: str | None
    of: tuple[str, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest number that is one."""
        import numpy as np

        values = self.planes.astype(np.float64)
        finite = values[np.isfinite(values)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def thumbnail(file: ArrayReader, layout: str, mode: str | None, tiles: int = TILES) -> Thumbnail:
    """Planes of an open array: rows H and columns W (of one spatial axis, channels are the rows); of other axes the
    middle, of N the first.
    """
    import numpy as np

    shape = file.header.shape
    spatial = sorted((letter for letter in layout if letter not in "NC"), key=SPATIAL.find)
    channels = shape[layout.index("C")] if "C" in layout else 1
    if len(spatial) == 1:
        down, across, taken = "C", spatial[0], channels
    else:
        down, across = spatial[-2:]
        taken = min(channels, 4 if mode else tiles)
    region, said = [], []
    for letter, size in zip(layout, shape, strict=True):
        if letter in (down, across):
            region.append(range(size))
        elif letter == "C":
            region.append(range(taken))
            if taken < channels:
                said.append(f"C 0 to {taken - 1} of {size}")
        else:
            at = 0 if letter == "N" else size // 2
            region.append(range(at, at + 1))
            if size > 1:
                said.append(f"{letter} {at} of {size}")
    values = _read(file, tuple(region), layout.find(down))
    order = [layout.index(letter) for letter in dict.fromkeys(("C", down, across)) if letter in layout]
    rest = [i for i in range(len(layout)) if i not in order]
    tall = values.shape[layout.index(down)] if down in layout else 1
    planes = np.transpose(values, rest + order).reshape((-1, tall, values.shape[layout.index(across)]))
    return Thumbnail(planes, mode, tuple(said))


def _read(file: ArrayReader, region: tuple[range, ...], rows: int) -> NDArray[Any]:
    """The region, or some of its rows, evenly spaced, where it is large."""
    import numpy as np

    count = len(region[rows])
    if rows < 0 or count <= ROWS or np.prod([len(each) for each in region], dtype=float) <= AT_ONCE:
        return file.read(region)
    chosen = [i * count // ROWS for i in range(ROWS)]
    parts = [file.read((*region[:rows], range(i, i + 1), *region[rows + 1 :])) for i in chosen]
    return np.concatenate(parts, axis=rows)


def paint(thumbnail: Thumbnail, width: int, height: int, ends: tuple[float, float]) -> NDArray[np.uint8]:
    """The look in at most `width` by `height` pixels of red, green and blue; `ends` are black and white of numbers."""
    import numpy as np

    if thumbnail.mode:
        return _sized(_coloured(thumbnail.planes, thumbnail.mode), width, height)
    side = isqrt(len(thumbnail.planes) - 1) + 1
    tiles = [
        _sized(_grey(plane, ends), (width + GAP) // side - GAP, (height + GAP) // side - GAP)
        for plane in thumbnail.planes
    ]
    tall, wide = tiles[0].shape[:2]
    lines = -(-len(tiles) // side)
    sheet = np.full((lines * (tall + GAP) - GAP, side * (wide + GAP) - GAP, 3), 0, np.uint8)
    for number, tile in enumerate(tiles):
        top, left = number // side * (tall + GAP), number % side * (wide + GAP)
        sheet[top : top + tall, left : left + wide] = tile
    return sheet


def _coloured(planes: NDArray[Any], mode: str) -> NDArray[Any]:
    """The colours of a picture as numbers from 0 to 255, rows by columns by three."""
    import numpy as np

    scale = 255 / np.iinfo(planes.dtype).max if planes.dtype.kind in "iu" else 1.0
    values = planes.astype(np.float64) * scale
    if mode == "CMYK":
        colours = (255 - values[:3]) * (255 - values[3]) / 255
    else:
        colours = values[:3] if mode.startswith("RGB") else np.repeat(values[:1], 3, 0)
        if mode.partition(";")[0] in ("RGBA", "LA"):
            share = values[-1] / 255
            colours = colours * share + 255 * (1 - share)
    return np.moveaxis(colours, 0, -1)


def _grey(plane: NDArray[Any], ends: tuple[float, float]) -> NDArray[Any]:
    import numpy as np

    low, high = ends
    values = plane.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        grey = np.clip((values - low) / ((high - low) or 1.0) * 255, 0, 255)
    return np.where(np.isnan(values)[..., None], np.array(NOT_A_NUMBER, float), grey[..., None])


def _sized(colours: NDArray[Any], width: int, height: int) -> NDArray[np.uint8]:
    """As large as the box allows: each pixel a block of them, or the mean of several."""
    import numpy as np

    tall, wide = colours.shape[:2]
    share = min(max(width, 1) / wide, max(height, 1) / tall)
    size = max(1, round(wide * share)), max(1, round(tall * share))
    way = pil.Resampling.NEAREST if share >= 1 else pil.Resampling.BOX
    bands = [np.asarray(pil.fromarray(colours[..., k].astype(np.float32)).resize(size, way)) for k in range(3)]
    sized: NDArray[np.uint8] = np.clip(np.rint(np.stack(bands, -1)), 0, 255).astype(np.uint8)
    return sized
