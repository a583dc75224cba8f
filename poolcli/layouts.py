"""Layouts, a letter for each axis of an array, and the one place that reads which axes are pooled (`read_axes`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.message_fields import AGAIN, brief, field
from poolcli.suggestions import join_words
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CHANNELS = (1, 3, 4)  # usual numbers of channels of images
LEAST_SIDE = 8  # of an image: shorter axes are no reason to doubt a layout
# Letters of axes that are not pooled: batch, time, slices of a volume, further ones, and channels.
BATCH = "NTSUVB"
# Spatial letters in the order in which attributes name them; rank 5 ends in D, H, W.
SPATIAL = "AEFGIJKLMOPQRDHW"
OTHER_LETTERS = {"Z": "D", "Y": "H", "X": "W", "T": "N", "B": "N"}  # where the layout does not have the other one
WORDS = ("CHANNELSFIRST", "CHANNELSLAST")
NAMES = {
    "H": ("y", "h", "lat", "latitude", "row", "rows", "northing", "height"),
    "W": ("x", "w", "lon", "longitude", "col", "cols", "column", "columns", "easting", "width"),
    "D": ("z", "d", "depth", "lev", "level"),
    "C": ("c", "channel", "channels", "band", "bands"),
}
DIMENSION_NAMES = {name: letter for letter, names in NAMES.items() for name in names}


@dataclass(frozen=True, slots=True)
class Reading:
    """Which axes of an array are pooled."""

    layout: str  # one letter per axis
    assumed: bool = False  # neither the caller nor the file has named the axes
    note: str | None = None  # what else the axes may be, and how to say so
    other: str | None = None  # a layout that is as likely, as an axis looks like channels: a `LayoutWarning` in Python
    others: tuple[str, ...] = ()  # all layouts that the note proposes


def read_axes(
    shape: Sequence[int], values: int = 1, *, layout: str | None = None, named: str | None = None, last: bool = False
) -> Reading:
    """Read the axes of an array: by `layout`, by the `named` axes of its file, or by its rank.

    `values` is the number of values in the lists of attributes; `last` means that channels are last by default, as in
    TensorFlow, unless the second axis looks like channels.

    >>> read_axes((3, 48, 64), 2).layout, read_axes((48, 64, 3), 2).layout, read_axes((8, 48, 64), 3).layout
    ('CHW', 'HWC', 'DHW')
    """
    if layout is not None:
        text = check_layout(layout, len(shape))
        if not spatial_axes(text):
            raise RequestError(f"layout {text} has no spatial axis; pooling needs at least one, such as H and W")
        return Reading(text)
    if named:
        return _read_named(named, values)
    found = _layout_by_rank(shape, values, last)
    others, is_likely = _other_layouts(found, shape)
    if not others:
        return Reading(found, assumed=True)
    only = f": only {found[spatial_axes(found)[0]]} is pooled" if len(shape) == 3 else ""
    remedies = join_words(field("layout", other) for other in others)
    at = others[0].find("C")
    looks = f"axis {found[at]} is {shape[at]} long, as of colours"
    looks = looks if shape[at] in CHANNELS else f"axes {found[-2]} and {found[-1]} are {shape[-1]} long, as of an image"
    doubt = f"{looks}: if so," if is_likely else "otherwise"
    note = f"assuming layout {found}{only}; {doubt} use {remedies}{AGAIN}"
    return Reading(found, True, note, others[0] if is_likely else None, others)


def _read_named(named: str, values: int) -> Reading:
    """Of volumes whose axes have names, D is pooled only if there are three values."""
    if not {*"DHW"} <= {*named} or values == 3 or "S" in named:
        return Reading(named)
    note = f"D is read as slices (S), not pooled; to pool it, give three values, or {field('layout', named)}{AGAIN}"
    return Reading(named.replace("D", "S"), note=note)


def _layout_by_rank(shape: Sequence[int], values: int, last: bool) -> str:
    rank = len(shape)
    if rank < 1:
        raise RequestError("the input has no axes; at least 1 is needed")
    if rank > len(SPATIAL) + 2:
        raise RequestError(f"the input has {rank} axes; poolcli pools at most {len(SPATIAL) + 2}")
    if rank < 3:
        return SPATIAL[-rank:]
    if rank == 3 and values in (2, 3):
        is_last = last or (shape[-1] in CHANNELS and shape[0] not in CHANNELS)
        return "DHW" if values == 3 else "HWC" if is_last else "CHW"
    return channels_last(rank) if last and shape[1] not in CHANNELS else default_layout(rank)


def _other_layouts(layout: str, shape: Sequence[int]) -> tuple[tuple[str, ...], bool]:
    """Other layouts than the assumed one, and whether they are as likely: an axis may be the channels of an image."""
    if len(shape) == 3 and layout[0] == "N" and shape.count(1) < 2:
        for channels, sides, image in ((shape[2], shape[:2], "HWC"), (shape[0], shape[1:], "CHW")):
            if channels in CHANNELS and min(sides) >= LEAST_SIDE:
                return (image,), True
        is_last = layout[-1] == "C" or (shape[-1] in CHANNELS and shape[0] not in CHANNELS)
        is_image = is_last or shape[0] == shape[1] != shape[2]  # as a square map of 64 channels, which come last
        return ("HWC" if is_image else "CHW", "NWC" if is_last and layout[-1] != "C" else "DHW"), False
    if len(shape) < 4:
        return (), False
    first, last, other = shape[1], shape[-1], channels_last(len(shape))
    if layout[-1] == "C":
        first, last, other = last, first, default_layout(len(shape))
    # Pooling along an axis of length 1 changes nothing or is refused, so that is no reason for a doubt.
    is_likely = last in (3, 4) and min(first, shape[2]) >= LEAST_SIDE
    if layout[-1] == "C" and shape[-1] == shape[-2] >= LEAST_SIDE and shape[1] != shape[2]:  # an image, channels first
        is_likely = True
    return ((other,), True) if is_likely else ((), False)


def layout_for(shape: Sequence[int], values: int) -> str | None:
    """A layout with `values` spatial axes for an array; None if it has fewer axes."""
    others = len(shape) - values
    if others < 0 or values > len(SPATIAL) or others > len(BATCH):
        return None
    spatial = SPATIAL[-values:]
    batch = BATCH[: max(others - 1, 0)]
    is_last = others and shape[-1] in CHANNELS and shape[-1 - values] not in CHANNELS
    return f"{batch}{spatial}C" if is_last else f"{batch}{'C' * (others > 0)}{spatial}"


def layout_of_dimensions(names: Sequence[str | None]) -> str | None:
    """The layout of dimensions with these names; None if two are the same axis, or none is spatial. Names that are
    neither spatial nor of channels are batches: N, then T, ...

    >>> layout_of_dimensions(["t", "c", "z", "y", "x"]), layout_of_dimensions(["member", "time", "lat", "lon"])
    ('NCDHW', 'NTHW')
    >>> layout_of_dimensions(["dim_0", "dim_1"])
    """
    words = [name.strip().lower() if isinstance(name, str) else "" for name in names]
    if not all(words):
        return None
    batch = iter(BATCH)
    letters = [DIMENSION_NAMES.get(word) or next(batch, "") for word in words]
    is_clear = all(letters) and len({*letters}) == len(letters) and any(letter in SPATIAL for letter in letters)
    return "".join(letters) if is_clear else None


def check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape as a tuple of int; refuses other values."""
    try:
        return tuple(index(size) for size in shape)
    except TypeError:
        if hasattr(shape, "shape"):
            raise RequestError(f"shape is an array ({type(shape).__name__}); give its shape, as in x.shape") from None
        raise RequestError(f"shape is {brief(shape)}; give whole numbers, such as (1, 3, 32, 32)") from None


def default_layout(rank: int) -> str:
    """NC plus spatial axes: `NCW`, `NCHW`, `NCDHW`, and further letters before D from rank 6 on; W and HW below."""
    return "NC" + SPATIAL[-(rank - 2) :] if rank > 2 else SPATIAL[-rank:]


def channels_last(rank: int) -> str:
    """The default layout with channels last: `NWC`, `NHWC`, ..."""
    return f"N{SPATIAL[-(rank - 2) :]}C" if rank > 2 else SPATIAL[-rank:]


def channels_moved(layout: str, last: bool) -> str:
    """The layout with its channels behind its spatial axes, or before them."""
    spatial = "".join(layout[i] for i in spatial_axes(layout))
    batch = "".join(letter for letter in layout if letter not in f"C{spatial}")
    channels = "C" * ("C" in layout)
    return f"{batch}{spatial}{channels}" if last else f"{batch}{channels}{spatial}"


def rank_of(layout: str | None) -> int | None:
    """The number of axes that a layout names; None without one, and for words such as `channels_last`."""
    named = (layout or "").strip().upper()
    return None if not named or re.sub("[ _-]", "", named) in WORDS else len(named)


def check_layout(layout: str, rank: int) -> str:
    """The layout in the letters of this module; refuses one that does not name `rank` axes once each."""
    if not isinstance(layout, str):
        raise RequestError(f"layout is {brief(layout)}; a word such as 'NCHW' is needed")
    given = layout.strip().upper()
    if re.sub("[ _-]", "", given) in WORDS:
        last = given.endswith("LAST")
        if rank == 3:  # an image
            return "HWC" if last else "CHW"
        return channels_last(rank) if last else default_layout(rank)
    text = given
    for letter, meant in OTHER_LETTERS.items():
        if meant not in text:
            text = text.replace(letter, meant)
    if not text.isascii() or not text.isalpha() or len(set(text)) != len(text):
        raise RequestError(f"layout {layout!r} must name each axis by its own letter, for example NCHW or HWC")
    if len(text) != rank:
        stack = " (inputs are pooled one by one; to pool across several, stack them: numpy.stack)"
        raise RequestError(
            f"layout {given} names {len(text)} axes, but the input has {rank}; give one letter for each axis"
            + stack * (len(text) == rank + 1)
        )
    return text


def is_spatial(letter: str) -> bool:
    """Whether axes of this letter are pooled."""
    return letter != "C" and letter not in BATCH


def spatial_axes(layout: str) -> tuple[int, ...]:
    """Positions of the spatial axes in the order of attributes: D, H, W, whatever their order in memory."""
    found = [i for i, letter in enumerate(layout) if is_spatial(letter)]
    return tuple(sorted(found, key=lambda i: SPATIAL.find(layout[i])))


def batch_axes(layout: str) -> tuple[int, ...]:
    """Positions of the axes that are neither spatial nor channels."""
    return tuple(i for i, letter in enumerate(layout) if letter in BATCH)


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
    source, target = _matching(source, target)
    for letter, size in zip(source, shape, strict=True):
        if letter not in target and size != 1:
            raise RequestError(
                f"output layout {target} drops axis {letter}, which is {size} long; only a length of 1 can be dropped"
            )
    for letter in target:
        if letter not in source and is_spatial(letter):
            raise RequestError(f"output layout {target} names axis {letter}, which {source} does not have")
    return tuple(size_of(letter, source, shape) for letter in target)


def _matching(source: str, target: str) -> tuple[str, str]:
    """Both layouts in the same letters: the slices S of one are the D of another."""
    source, target = check_layout(source, len(source)), check_layout(target, len(target))
    if "S" in source and "S" not in target and "D" not in source:
        source = source.replace("S", "D")
    return source, target


def convert_layout(x: ArrayLike, source: str, target: str) -> NDArray[Any]:
    """Return a view of `x` with its axes in the order of `target`; axes of length 1 are dropped or added.

    Parameters
    ----------
    x : array_like
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
    x = np.asanyarray(x)
    if not (isinstance(source, str) and isinstance(target, str)):
        raise RequestError(f"layouts are {brief(source)} and {brief(target)}; words such as 'NCHW' are needed")
    source = check_layout(source, x.ndim)
    shape = converted_shape(x.shape, source, target)
    if source == target:
        return x
    source, target = _matching(source, target)
    kept = [source.index(letter) for letter in target if letter in source]
    dropped = [i for i in range(x.ndim) if i not in kept]
    return x.transpose(dropped + kept).reshape(shape)
