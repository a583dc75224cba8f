"""Pages of an image file: which are read, how they are decoded, and the errors of that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from poolcli.arguments import Missing
from poolcli.errors import FileError, PoolError, RequestError, error_text, is_for_users
from poolcli.formats.checks import check_memory, join_names
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array, Lazy, installed, need

pil: Any = Lazy("PIL.Image")

TRANSPOSING = (5, 6, 7, 8)  # orientations that exchange width and height


@dataclass(frozen=True, slots=True)
class PageDecoder:
    """How pages of one kind are decoded: each as H, W or H, W, C, upright.

    memory : bytes a pixel that decoding takes beside the result
    read_metadata : the metadata of the page that was decoded last
    duration : how long that page is shown in an animation, in milliseconds
    missing : nodata values
    """

    format: str
    mode: str
    channels: int
    dtype: str
    memory: int
    decode: Callable[[int], Array]
    read_metadata: Callable[[], dict[str, Any]]
    notes: tuple[str, ...] = ()
    duration: Callable[[], int | None] = lambda: None
    missing: Missing = ()


VOTE_NOTE = "the indices of the palette vote"


def upright(pixels: Array, orientation: object) -> Array:
    """The pixels with the orientation tag applied: 2 to 4 mirror, 5 to 8 also exchange the axes."""
    if orientation in TRANSPOSING:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def upright_size(orientation: object, width: int, height: int) -> tuple[int, int]:
    """Width and height with the orientation tag applied."""
    return (height, width) if orientation in TRANSPOSING else (width, height)


def orientation_notes(orientation: object) -> tuple[str, ...]:
    """A note if an orientation was applied."""
    applied = isinstance(orientation, int) and 2 <= orientation <= 8
    return (f"EXIF orientation {orientation} applied",) if applied else ()


class Page(NamedTuple):
    """Size of a page, upright, its kind of pixels, and whether it is a copy or view of another, or a mask."""

    width: int
    height: int
    kind: str = ""
    is_copy: bool = False
    is_mask: bool = False

    @property
    def pixels(self) -> int:
        """How many pixels the page has."""
        return self.width * self.height

    def __str__(self) -> str:
        return f"{self.width} x {self.height}{f' ({self.kind})' if self.kind else ''}"


def choose_pages(
    path: str, pages: Sequence[Page], wanted: str | None, masked: bool = True
) -> tuple[list[int], tuple[str, ...]]:
    """The pages that are read, counted from 0, and notes if these are not all, or have masks.

    Those that are `wanted`, which must be of one size and kind. If that is None: all, or the first of the largest if
    pages differ or some are copies of others. Masks are read with their pages, and by
    themselves only if no other page is wanted.
    """
    count, note = len(pages), ""
    pictures = [i for i, page in enumerate(pages) if not page.is_mask] or list(range(count))
    full = [i for i in pictures if not pages[i].is_copy] or pictures
    if wanted is not None:
        asked = pictures if wanted == "all" else _parse_range(path, count, wanted)
        chosen = [i for i in asked if not pages[i].is_mask] or list(asked)
        first = chosen[0]
        other = next((i for i in chosen if pages[i][:3] != pages[first][:3]), first)
        if other != first:
            raise FileError(
                f"{path}: page {other + 1} is {pages[other]}, page {first + 1} is {pages[first]}; "
                f"take pages of one size and kind with {field('pages', first + 1)}"
            )
        note = f"page {first + 1} of {count} is read" if wanted.isdigit() and count > 1 else ""
    else:
        first = max(full, key=lambda i: pages[i].pixels)
        chosen = full
        if full != pictures or any(pages[i] != pages[first] for i in full):
            chosen = [first]
            note = f"page {first + 1} of {count} is read, the first of full size; {field('pages')} takes others"
    notes = [note] if note else []
    masks = masks_of(pages)
    applied = [str(masks[page] + 1) for page in chosen if page in masks]
    if applied:
        which = "page {} is a mask" if len(applied) == 1 else "pages {} are masks"
        notes.append(which.format(join_names(applied)) + ("" if masked else ", and not applied: hidden pixels count"))
    return chosen, tuple(notes)


def masks_of(pages: Sequence[Page]) -> dict[int, int]:
    """The masks by the pages that they belong to: each to the last page of its size before it."""
    last, found = dict[tuple[int, int], int](), dict[int, int]()
    for number, page in enumerate(pages):
        size = page.width, page.height
        if not page.is_mask:
            last[size] = number
        elif size in last:
            found.setdefault(last[size], number)
    return found


def _parse_range(path: str, count: int, wanted: str) -> range:
    first, _, last = wanted.partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        raise RequestError(f"{field('pages')} is {wanted!r}; write all, a page such as 1, or a range such as 2-5")
    pages = range(int(first) - 1, int(last or first))
    if not 0 <= pages.start < pages.stop <= count:
        known = "leave it out" if count == 1 else f"they count from 1 to {count}"
        has = f"{count} page{'' if count == 1 else 's'}"
        raise RequestError(f"{path}: has {has}, but {field('pages')} asks for {wanted}; {known}")
    return pages


PIXEL_BYTES = 4  # in Pillow
BOMB = re.compile(r"Image size \((\d+) pixels\) exceeds limit of (\d+) pixels")
NEEDS_CODECS = re.compile(r"<?(\S+?)(:.*)? requires the 'imagecodecs' package")


@contextmanager
def image_errors(path: str, what: str = "read") -> Iterator[None]:
    """Turns whatever the libraries raise into a FileError of one line."""
    try:
        yield
    except (PoolError, MemoryError):
        raise
    except Exception as error:  # Pillow's decoders raise nine types, TypeError and SyntaxError among them
        why = error_text(error)
        if bomb := BOMB.match(why):
            pixels, most = map(int, bomb.groups())
            check_memory(f"{path}: needs", PIXEL_BYTES * pixels, PIXEL_BYTES * most, " to be decoded")
        codec = NEEDS_CODECS.match(why)
        if (codec or isinstance(error, ImportError)) and not installed("imagecodecs"):
            what = codec[1] if codec else "its compression"
            need("imagecodecs", why=f"{path}: {what} needs the extra images", kind=FileError)
        why = why if is_for_users(error) else "its data is damaged"
        raise FileError(f"{path}: the image cannot be {what}: {why}") from error
