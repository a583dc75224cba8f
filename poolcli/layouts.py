"""Layouts: a letter for each axis of an array. N and C are batch and channel, all other letters are spatial."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING

from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import join_words

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

CHANNELS = (1, 3, 4)  # usual numbers of channels of images
# Spatial letters in the order in which attributes name them; rank 5 ends in D, H, W.
SPATIAL = "ABEFGIJKLMOPQRSTDHW"
# The letters of dimensions by their names; every other single letter stands for itself.
DIMENSION_NAMES = {
    "t": "N", "z": "D", "y": "H", "x": "W",
    "time": "N", "batch": "N", "channel": "C", "channels": "C", "depth": "D", "height": "H", "width": "W",
    "latitude": "H", "lat": "H", "longitude": "W", "lon": "W",
}  # fmt: skip


def layout_of_dimensions(names: Sequence[str | None]) -> str | None:
    """The layout of dimensions with these names; None if one is unknown, two share a letter, or none is spatial.

    >>> layout_of_dimensions(["t", "c", "z", "y", "x"]), layout_of_dimensions(["lat", "lon"])
    ('NCDHW', 'HW')
    >>> layout_of_dimensions(["y", "bands"])
    """
    letters = [_letter_of(name) for name in names]
    known = all(letters) and len(set(letters)) == len(letters) and not set(letters) <= {"N", "C"}
    return "".join(letters) if known else None


def _letter_of(name: str | None) -> str:
    if not isinstance(name, str):
        return ""
    bare = name.strip().lower()
    own = bare.upper() if len(bare) == 1 and bare.upper() in "NC" + SPATIAL else ""
    return DIMENSION_NAMES.get(bare, own)


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple of int; refuses other values."""
    try:
        return tuple(index(size) for size in shape)
    except TypeError:
        if hasattr(shape, "shape"):
            raise RequestError(f"shape is an array ({type(shape).__name__}); give its shape, as in x.shape") from None
        raise RequestError(f"shape is {shape!r:.60}; give whole numbers, such as (1, 3, 32, 32)") from None


def default_layout(rank: int) -> str:
    """NC plus spatial axes: `NCW`, `NCHW`, `NCDHW`, and further letters before D from rank 6 on."""
    if rank < 3:
        raise RequestError(
            f"the input has {rank} {'axis' if rank == 1 else 'axes'}; at least 3 (N, C and one spatial axis) are "
            f"needed; name its axes with {field('layout')}, for example {field('layout', 'HW' if rank == 2 else 'W')}"
        )
    if rank > len(SPATIAL) + 2:
        raise RequestError(f"the input has {rank} axes; poolcli pools at most {len(SPATIAL) + 2}")
    return "NC" + SPATIAL[-(rank - 2) :]


def other_layouts(layout: str, shape: Sequence[int]) -> tuple[str, ...]:
    """Layouts that are as likely as the default one: with channels last if the last axis looks like channels, and
    without N for three axes.

    >>> other_layouts("NCW", (48, 64, 3)), other_layouts("NCW", (20, 48, 64)), other_layouts("NCHW", (1, 512, 4, 4))
    (('HWC',), ('CHW', 'DHW'), ())
    """
    first = 0 if len(shape) == 3 else 1
    if shape[-1] in CHANNELS and min(shape[first:-1]) > shape[-1]:
        return ("HWC",) if len(shape) == 3 else (f"N{layout[2:]}C",)
    return ("CHW", "DHW") if len(shape) == 3 else ()


def layout_doubt(layout: str, shape: Sequence[int]) -> str | None:
    """The note about a default layout that may be wrong; None if it is likely."""
    others = other_layouts(layout, shape)
    if not others:
        return None
    only = f": only {layout[2]} is pooled" if len(layout) == 3 else ""
    remedies = join_words(field("layout", other) for other in others)
    return f"assuming layout {layout}{only}; otherwise use {remedies}"


def check_layout(layout: str, rank: int) -> str:
    """The layout in capitals; refuses one that does not name `rank` axes once each, or has no spatial axis."""
    text = layout.strip().upper()
    if not text.isascii() or not text.isalpha() or len(set(text)) != len(text):
        raise RequestError(f"layout {layout!r} must name each axis by its own letter{_layout_hint(layout, rank)}")
    if "B" in text and "N" not in text:
        raise RequestError(
            f"layout {text} would pool along B, because only N and C are not pooled; write {text.replace('B', 'N')}"
        )
    if len(text) != rank:
        raise RequestError(
            f"layout {text} names {len(text)} axes, but the input has {rank}; give one letter for each axis"
        )
    if not spatial_axes(text):
        raise RequestError(f"layout {text} has no spatial axis; pooling needs at least one besides N and C")
    return text


def _layout_hint(layout: str, rank: int) -> str:
    """A proposal for an invalid layout: its letters alone, or the meaning of a word of Keras."""
    letters = "".join(letter for letter in layout.upper() if letter not in " ,._-/")
    usual = default_layout(rank) if rank > 2 else ""
    if letters.startswith("CHANNELS") and usual:
        return f"; write {usual if letters == 'CHANNELSFIRST' else f'N{usual[2:]}C'}"
    if letters != layout.upper() and letters.isalpha() and len(set(letters)) == len(letters) == rank:
        return f"; write {letters}"
    return ", for example NCHW or HWC"


def spatial_axes(layout: str) -> tuple[int, ...]:
    """Positions of the spatial axes in the order of attributes: D, H, W, whatever their order in memory."""
    found = [i for i, letter in enumerate(layout) if letter not in "NC"]
    return tuple(sorted(found, key=lambda i: SPATIAL.find(layout[i])))


def size_of(letter: str, layout: str, shape: Sequence[int]) -> int:
    """The length of the axis `letter`; 1 if the layout does not have it."""
    return shape[layout.index(letter)] if letter in layout else 1


def named_shape(layout: str, shape: Sequence[int]) -> str:
    """The shape with its axis names: `N=1 C=3 H=480 W=640`."""
    return " ".join(f"{letter}={size}" for letter, size in zip(layout, shape, strict=True))


def converted_shape(shape: Sequence[int], source: str, target: str) -> tuple[int, ...]:
    """The shape after `convert_layout`; axes that only one of the layouts has must be 1 long."""
    if target == source:
        return tuple(shape)
    target = check_layout(target, len(target))
    for letter, size in zip(source, shape, strict=True):
        if letter not in target and size != 1:
            raise RequestError(
                f"output layout {target} drops axis {letter}, which is {size} long; only a length of 1 can be dropped"
            )
    for letter in target:
        if letter not in source and letter not in "NC":
            raise RequestError(f"output layout {target} names axis {letter}, which {source} does not have")
    return tuple(size_of(letter, source, shape) for letter in target)


def convert_layout(x: NDArray[Any], source: str, target: str) -> NDArray[Any]:
    """Return a view of `x` with its axes in the order of `target`; axes of length 1 are dropped or added.

    Parameters
    ----------
    x : ndarray
    source, target : str
        One letter per axis, such as "HWC" and "NCHW".

    Returns
    -------
    ndarray
        A view where numpy can make one.

    Raises
    ------
    RequestError
        If a layout does not name the axes, an axis that is longer than 1 would be dropped, or a spatial axis added.

    Examples
    --------
    >>> import numpy as np
    >>> convert_layout(np.zeros((480, 640, 3)), "HWC", "NCHW").shape
    (1, 3, 480, 640)
    """
    if len(source) != x.ndim or not source.isupper():
        source = check_layout(source, x.ndim)
    shape = converted_shape(x.shape, source, target)
    kept = [source.index(letter) for letter in target.upper() if letter in source]
    dropped = [i for i in range(x.ndim) if i not in kept]
    return x.transpose(dropped + kept).reshape(shape)


@dataclass(frozen=True, slots=True)
class Fit:
    """The largest size of an image in pixels."""

    width: int
    height: int


def fit_from(fit: object) -> Fit:
    """The size from `150` or `200x150`, width by height; refuses other values."""
    words = str(fit) if isinstance(fit, str | int) and not isinstance(fit, bool) else ""
    found = re.fullmatch(r"\s*0*([1-9]\d{0,18})(?:\s*[xX×]\s*0*([1-9]\d{0,18}))?\s*", words)
    if not found:
        raise RequestError(
            f"{field('fit')} is {fit!r}; a size in pixels is needed, such as 800, or 800x600 (width by height)"
        )
    return Fit(int(found[1]), int(found[2] or found[1]))


def fit_size(shape: Sequence[int], layout: str, fit: str | int | Fit) -> tuple[int, int]:
    """The size of an image that is scaled to fit into some pixels, its aspect kept.

    Parameters
    ----------
    shape : sequence of int
        The shape of the image.
    layout : str
        One letter per axis, such as "HWC", with H and W and no D.
    fit : str or int
        Pixels: `800` for both sides, or `"800x600"`, width by height.

    Returns
    -------
    tuple of int
        Height and width, an `output_size`: the nearest whole numbers, at least 1, and never larger than the image.

    Raises
    ------
    RequestError
        For a layout without H or W or with D, and for other values of `fit`.

    Examples
    --------
    >>> from poolcli import fit_size
    >>> fit_size((3000, 4000, 3), "HWC", "800x800"), fit_size((3000, 4000, 3), "HWC", 9000)
    ((600, 800), (3000, 4000))
    """
    layout, shape = check_layout(layout, len(shape)), check_shape(shape)
    box = fit if isinstance(fit, Fit) else fit_from(fit)
    if {*layout} - {*"NC"} != {*"HW"}:
        raise RequestError(
            f"{field('fit')} is for the axes H and W of images, and the layout is {layout}; use {field('output_size')}"
        )
    height, width = size_of("H", layout, shape), size_of("W", layout, shape)
    scale = min(Fraction(1), Fraction(box.width, max(width, 1)), Fraction(box.height, max(height, 1)))
    return max(1, round(height * scale)), max(1, round(width * scale))
