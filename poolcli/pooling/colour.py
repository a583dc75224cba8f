"""Pools the channels of an image together: averages weighted with alpha, averages in linear light, modes of pixels; and
rescales float results to 8 bits.

Colours of an image with alpha are averaged as sum(colour * alpha) / sum(alpha), so that transparent pixels do not
bleed. In linear light, values are decoded by the curve of sRGB, averaged and encoded again. A mode is the most frequent
pixel: the channels of a pixel are packed into one integer. All use the windows of the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isfinite
from typing import Any

from poolcli.errors import RequestError
from poolcli.formats.image.modes import MODES
from poolcli.formats.records import Header
from poolcli.message_fields import field
from poolcli.plan import Plan
from poolcli.plan.plan import Region, parts_of, whole
from poolcli.pooling.outcome import Colour, Limits
from poolcli.pooling.tiles import TILE_BYTES, Progress, no_progress
from poolcli.system.lazy_imports import Array, numpy as np
from poolcli.windows import slices

Pool = Callable[[Region, Array], Array]
NEAR_HALF = 1e-10  # above the rounding of a quotient below 2**16; quotients that are no half are further from one
MODES_WITHOUT_LIGHT = ("CMYK", "LAB", "I", "F", "bands")  # modes whose numbers are not sRGB values
OFFSET, SLOPE, EXPONENT, KNEE = 0.055, 12.92, 2.4, 0.04045  # of sRGB, IEC 61966-2-1


def choose_colour(plan: Plan, header: Header, linear: bool) -> Colour | None:
    """How the channels are pooled together, None if separately; refuses linear light for other data than images.

    Alpha is the last channel of an image only if the layout of the plan has C at the axis of the channels.
    """
    channels = header.layout is not None and header.layout.find("C") == plan.layout.find("C")
    weighted = header.alpha and channels and plan.reducer.divides and plan.output_dtype == plan.dtype
    has_light = plan.reducer.divides and header.mode is not None and header.mode not in MODES_WITHOUT_LIGHT
    if linear and (not has_light or plan.output_dtype != plan.dtype or header.alpha != weighted):
        kind = f"mode {header.mode} and layout {plan.layout}" if header.mode else "a tensor"
        raise RequestError(
            f"{field('linear_light')} is for averages of grey, RGB and RGBA images, in their own type and layout; "
            f"this is {plan.op} of {kind} to {plan.output_dtype}; leave it out"
        )
    several = header.mode in MODES and MODES[header.mode].channels > 1  # of a pixel, which belong together
    votes = plan.reducer.votes and channels and several
    return Colour(weighted, linear, votes) if weighted or linear or votes else None


def pool_colours(pool: Pool, plan: Plan, x: Array, colour: Colour, progress: Progress = no_progress) -> Array:
    """Pools an image of uint8 or uint16 as `colour` says, region by region."""
    at, done, total = plan.layout.find("C"), 0, whole(plan).nbytes
    out = np.empty(plan.output_shape, plan.output_dtype)
    for region in parts_of(whole(plan), TILE_BYTES // 4):
        slab = x[slices(region.reads)]
        place = out[slices(region.outputs)]
        if colour.votes:
            place[...] = _most_frequent_pixels(pool, region, slab)
        elif colour.weighted:
            alpha, colours = slab[_channels(at, slice(-1, None))], slab[_channels(at, slice(-1))]
            place[_channels(at, slice(-1, None))] = pool(_region_of_type(region, 1, alpha.dtype, alpha.dtype), alpha)
            place[_channels(at, slice(-1))] = _weighted_with_alpha(pool, region, colours, alpha, colour.linear)
        else:
            light = _light_table(slab.dtype.name)[slab]
            place[...] = _from_light(pool(_region_of_type(region, None, light.dtype, light.dtype), light), x.dtype)
        done += region.nbytes
        progress(min(done, total), total)
    return out


def _channels(axis: int, which: slice) -> tuple[slice, ...]:
    return (*([slice(None)] * axis), which)


def _most_frequent_pixels(pool: Pool, region: Region, slab: Array) -> Array:
    """The most frequent pixel of each window; of equally frequent ones the smallest, by the first channel first."""
    at, bits = region.plan.layout.index("C"), slab.dtype.itemsize * 8
    channels = slab.shape[at]
    wide = np.dtype(np.uint32 if channels * bits <= 32 else np.uint64)
    pixels = np.zeros_like(slab[_channels(at, slice(1))], wide)
    for channel in range(channels):
        pixels = pixels << bits | slab[_channels(at, slice(channel, channel + 1))]
    found = pool(_region_of_type(region, 1, wide, wide), pixels)
    parts = [found >> bits * channel & np.iinfo(slab.dtype).max for channel in reversed(range(channels))]
    return np.concatenate(parts, at)


def _weighted_with_alpha(pool: Pool, region: Region, colours: Array, alpha: Array, linear: bool) -> Array:
    wide = np.dtype(np.float64) if linear else np.dtype(np.uint32)
    values = _light_table(colours.dtype.name)[colours] if linear else colours.astype(wide)
    double = np.dtype(np.float64)
    over = pool(_region_of_type(region, colours.shape[region.plan.layout.index("C")], wide, double), values * alpha)
    under = pool(_region_of_type(region, 1, alpha.dtype, double), alpha)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(under > 0, over / under, 0.0)
    if linear:
        return _from_light(found, colours.dtype)
    halves = np.rint(found * 2) / 2  # quotients that division has moved off a half are put back
    exact: Array = np.where(np.abs(found - halves) < NEAR_HALF, halves, found)
    return np.rint(exact).astype(colours.dtype)


@cache
def _light_table(dtype: str) -> Array:
    """Light from 0 to 1 for every value of an unsigned type."""
    value = np.linspace(0, 1, int(np.iinfo(dtype).max) + 1)
    return np.where(value < KNEE, value / SLOPE, ((value + OFFSET) / (1 + OFFSET)) ** EXPONENT)


def _from_light(light: Array, dtype: Any) -> Array:
    """The inverse of `_light_table`, rounded."""
    light = np.clip(np.nan_to_num(light), 0, 1)
    value = np.where(light < KNEE / SLOPE, light * SLOPE, light ** (1 / EXPONENT) * (1 + OFFSET) - OFFSET)
    return np.asarray(np.rint(np.clip(value, 0, 1) * np.iinfo(dtype).max), dtype)


def _region_of_type(region: Region, channels: int | None, dtype: Any, output: Any) -> Region:
    """The region for an image with other types and with the first `channels` channels; None keeps all."""
    typed = Region(replace(region.plan, dtype=dtype.name, output_dtype=output.name), region.outputs)
    return typed if channels is None else typed.cut(region.plan.layout.index("C"), range(channels))


def rescaled(array: Array, limits: Limits) -> tuple[Array, str]:
    """The values scaled to 0 to 255, halves to even and NaN to 0, and a note about the range."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = limits or ((float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0))
    unit = 1.0 if isfinite(high - low) else 0.5  # halves, if the difference overflows
    with np.errstate(all="ignore"):
        scaled = (values * unit - low * unit) / np.float64(high * unit - low * unit) * 255
    cut = int(np.count_nonzero((values < low) | (values > high)))
    lost = int(np.count_nonzero(np.isnan(values)))
    note = f"rescaled: {low:.6g} to {high:.6g} became 0 to 255"
    note += f"; {cut:,} clipped" if cut else ""
    note += f"; {lost:,} NaN became 0" if lost else ""
    return np.rint(np.clip(np.nan_to_num(scaled, nan=0.0), 0, 255)).astype(np.uint8), note
