"""Reductions that are pooling: over exactly the spatial axes, channels first or last."""

from __future__ import annotations

from collections.abc import Sequence

from poolcli.models.layer import Shape


def is_pooling(axes: Sequence[int] | None, shape: Shape | None, *, keeps: bool, last: bool = False) -> bool:
    """Whether these are the spatial axes of N, C and spatial ones, or of N, spatial ones and C.

    With one spatial axis both orders look alike, and what the format has by default decides: axis 1 where channels are
    `last`, else axis 2. Called -1, the last axis is that of a normalisation where the reduction `keeps` it, to be
    broadcast; where it is dropped, that of a pooling.
    """
    if axes is None or shape is None or not 3 <= len(shape) <= 5:
        return False
    rank = len(shape)
    if rank == 3:
        return tuple(axes) in (((1,), (-2,)) if last else ((2,),) if keeps else ((2,), (-1,)))
    found = sorted(axis % rank if -rank <= axis < rank else rank for axis in axes)
    return found == list(range(2, rank)) or found == list(range(1, rank - 1))


def channels_last(rank: int) -> str:
    """The layout of as many axes with the channels last: `NHWC`."""
    return "N" + "DHW"[5 - rank :] + "C"


def spatial_layout(axes: Sequence[int], shape: Shape | None) -> str | None:
    """The layout that such axes tell of; None for N, C and spatial axes."""
    rank = len(shape or ())
    return None if min(axis % rank for axis in axes) == 2 else channels_last(rank)
