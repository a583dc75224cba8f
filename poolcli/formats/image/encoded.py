"""A picture as it is before its pixels are decoded, whichever library reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from poolcli.nodata import Missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

TURNED = (5, 6, 7, 8)  # orientations that exchange width and height


@dataclass(frozen=True, slots=True)
class Picture:
    """What is known of the pages that are read, and how each is decoded: as H, W or H, W, C, upright.

    `held` is the memory that decoding takes beside the array that comes of it, in bytes a pixel. `described` gives what
    stands beside the pixels, and is asked for after the first page has been decoded; `duration` is the time of the page
    that was decoded last. Where it `tells_of_pages`, `described` is about the page that was decoded last. `missing` are
    the numbers that stand for no value.
    """

    format: str
    mode: str
    channels: int
    dtype: str
    held: int
    decode: Callable[[int], NDArray[Any]]
    described: Callable[[], dict[str, Any]]
    notes: tuple[str, ...] = ()
    duration: Callable[[], int | None] = lambda: None
    tells_of_pages: bool = False
    missing: Missing = ()

    @property
    def axes(self) -> int:
        """How many axes a page has: H and W, and C for several channels."""
        return 2 if self.channels == 1 else 3


def upright(pixels: NDArray[Any], orientation: object) -> NDArray[Any]:
    """Turned as the orientation tag says: 2 to 4 mirror, 5 to 8 also exchange the axes."""
    if orientation in TURNED:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def turned(orientation: object, width: int, height: int) -> tuple[int, int]:
    """Width and height as they are when the picture is upright."""
    return (height, width) if orientation in TURNED else (width, height)


def turning_notes(orientation: object) -> tuple[str, ...]:
    """What a report says of an orientation that was applied."""
    applied = isinstance(orientation, int) and 2 <= orientation <= 8
    return (f"EXIF orientation {orientation} applied",) if applied else ()
