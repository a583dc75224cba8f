"""The curve by which a file's numbers stand for light: sRGB, or the plain gamma of an ICC profile or a PNG's gAMA."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np


class Curve(NamedTuple):
    """Light of a value, both from 0 to 1: value ** gamma, or the curve of sRGB if gamma is 0. `name` is for a note."""

    name: str
    gamma: float = 0


SRGB = Curve("sRGB curve")
ASSUMED = Curve("the sRGB curve is assumed: the ICC profile has no plain gamma")
OFFSET, SLOPE, EXPONENT, KNEE = 0.055, 12.92, 2.4, 0.04045  # of sRGB, IEC 61966-2-1
SRGB_GAMMA, GAMMA_TOLERANCE = 1 / 2.2, 0.001  # with a gAMA chunk near this value PNG files mean sRGB


def curve_of(info: Mapping[Any, Any]) -> Curve:
    """The curve that a file names, by its `info` in Pillow: its ICC profile precedes a PNG's sRGB chunk, and that its
    gAMA chunk.
    """
    profile, gamma = info.get("icc_profile"), info.get("gamma")
    if isinstance(profile, bytes) and profile:
        stored = _profile_gamma(profile)
        return Curve(f"gamma {stored:.4g} by the ICC profile", stored) if stored > 0 else ASSUMED
    if "srgb" in info or not isinstance(gamma, float) or gamma <= 0 or abs(gamma - SRGB_GAMMA) <= GAMMA_TOLERANCE:
        return SRGB
    return Curve(f"gamma {1 / gamma:.4g} by the gAMA chunk", 1 / gamma)


def _profile_gamma(profile: bytes) -> float:
    """The gamma that all channels of an ICC profile share; 0 if they do not, or have other curves."""
    try:
        (count,) = struct.unpack_from(">I", profile, 128)
        places = struct.iter_unpack(">4sII", profile[132 : 132 + 12 * min(count, len(profile) // 12)])
        (curve,) = {profile[at : at + size] for sign, at, size in places if sign[1:] == b"TRC"}
        kind, first = curve[:4], struct.unpack_from(">I", curve, 8)[0]
        if kind == b"curv" and first <= 1:  # how many numbers follow
            return float(struct.unpack_from(">H", curve, 12)[0] / 256 if first else 1)
        if kind == b"para" and first >> 16 == 0:  # the form of the function
            return float(struct.unpack_from(">i", curve, 12)[0] / 65536)
    except (struct.error, ValueError):
        pass
    return 0


@cache
def _light_table(curve: Curve, count: int) -> Array:
    value = np.linspace(0, 1, count)
    if curve.gamma:
        return np.asarray(value**curve.gamma)
    return np.where(value < KNEE, value / SLOPE, ((value + OFFSET) / (1 + OFFSET)) ** EXPONENT)


def light_table(curve: Curve, dtype: str) -> Array:
    """Light from 0 to 1 for every value of an unsigned type."""
    return _light_table(curve, int(np.iinfo(dtype).max) + 1)


def from_light(curve: Curve, light: Array, dtype: Any) -> Array:
    """The inverse of `light_table`, rounded."""
    light = np.clip(np.nan_to_num(light), 0, 1)
    if curve.gamma:
        value = light ** (1 / curve.gamma)
    else:
        curved = light ** (1 / EXPONENT) * (1 + OFFSET) - OFFSET
        value = np.where(light < KNEE / SLOPE, light * SLOPE, curved)
    rounded: Array = np.rint(np.clip(value, 0, 1) * np.iinfo(dtype).max).astype(dtype)
    return rounded
