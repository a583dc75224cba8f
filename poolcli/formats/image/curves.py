"""The curve by which a file's numbers stand for light: that of an ICC profile, a PNG's gAMA chunk, or sRGB."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from poolcli.system.lazy_imports import Array
from poolcli.system.lazy_imports import numpy as np


class Curve(NamedTuple):
    """Light of a value v, both from 0 to 1: (a v + b) ** gamma where v is at least d, else c v; or a table of numbers
    up to 65535, between which it is linear. `name` is for a note.
    """

    name: str
    gamma: float = 1.0
    a: float = 1.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    table: tuple[int, ...] = ()


SRGB = Curve("sRGB curve", 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)  # IEC 61966-2-1
SRGB_GAMMA, GAMMA_TOLERANCE = 1 / 2.2, 0.001  # with a gAMA chunk near this value PNG files mean sRGB


def curve_of(info: Mapping[Any, Any]) -> Curve:
    """The curve that a file names, by its `info` in Pillow: its ICC profile precedes a PNG's sRGB chunk, and that its
    gAMA chunk.
    """
    profile, gamma = info.get("icc_profile"), info.get("gamma")
    if isinstance(profile, bytes) and profile:
        try:
            return _parse_profile(profile)
        except (struct.error, ValueError, IndexError, ArithmeticError):
            return SRGB._replace(name="the sRGB curve is assumed: the ICC profile has no plain curve")
    if "srgb" in info or not isinstance(gamma, float) or gamma <= 0 or abs(gamma - SRGB_GAMMA) <= GAMMA_TOLERANCE:
        return SRGB
    return Curve(f"gamma {1 / gamma:.4g} by the gAMA chunk", 1 / gamma)


PARAMETER_COUNTS = {0: 1, 1: 3, 2: 4, 3: 5, 4: 7}  # of a parametric curve by its type
LOOKUP_TAGS = (b"A2B0", b"A2B1", b"A2B2")  # tags by which colours are looked up
SAMPLES, TOLERANCE = 64, 1e-4  # places in which curves are compared, and by how much they may differ


def _parse_profile(profile: bytes) -> Curve:
    """The curve that all channels share; raises a ValueError if they do not, or colours are looked up in a table."""
    (count,) = struct.unpack_from(">I", profile, 128)
    if count > len(profile) // 12:
        raise ValueError("the tags are damaged")
    places = {sign: (at, size) for sign, at, size in struct.iter_unpack(">4sII", profile[132 : 132 + 12 * count])}
    stored = {profile[at : at + size] for sign, (at, size) in places.items() if sign[1:] == b"TRC"}
    if len(stored) != 1 or places.keys() & set(LOOKUP_TAGS):
        raise ValueError("no single curve")
    curve = _parse_curve(stored.pop())
    same = all(
        abs(_evaluate(curve, i / SAMPLES) - _evaluate(SRGB, i / SAMPLES)) < TOLERANCE for i in range(SAMPLES + 1)
    )
    return SRGB if same else curve


def _evaluate(curve: Curve, value: float) -> float:
    """Light of one value, without numpy, which takes long to import."""
    if not curve.table:
        return float((curve.a * value + curve.b) ** curve.gamma) if value >= curve.d else curve.c * value
    place = value * (len(curve.table) - 1)
    low = min(int(place), len(curve.table) - 2)
    return (curve.table[low] + (place - low) * (curve.table[low + 1] - curve.table[low])) / 65535


def _parse_curve(data: bytes) -> Curve:
    """A curve as ICC profiles store it."""
    name = "curve of the ICC profile"
    kind, many = data[:4], struct.unpack_from(">I", data, 8)[0]
    if kind == b"curv":
        numbers = struct.unpack_from(f">{many}H", data, 12)
        if many > 1 and list(numbers) != sorted(numbers):
            raise ValueError("the curve falls")
        if many > 1:
            return Curve(name, table=numbers)
        gamma = numbers[0] / 256 if many else 1.0
        return Curve(f"gamma {gamma:.4g} by the ICC profile", gamma)
    form = many >> 16
    if kind != b"para" or form not in PARAMETER_COUNTS:
        raise ValueError("no curve")
    g, *others = (number / 65536 for number in struct.unpack_from(f">{PARAMETER_COUNTS[form]}i", data, 12))
    if form == 0:
        return Curve(f"gamma {g:.4g} by the ICC profile", g)
    if form != 3:  # the others have offsets, which no profile of a display has
        raise ValueError("no plain curve")
    if not (g > 0 and others[0] > 0):
        raise ValueError("no curve that rises")
    return Curve(name, g, *others)


@cache
def _light_table(curve: Curve, count: int) -> Array:
    value = np.linspace(0, 1, count)
    if curve.table:
        return np.interp(value, np.linspace(0, 1, len(curve.table)), np.array(curve.table) / 65535)
    light: Array = np.where(value < curve.d, curve.c * value, np.maximum(curve.a * value + curve.b, 0) ** curve.gamma)
    return light


def light_table(curve: Curve, dtype: str) -> Array:
    """Light from 0 to 1 for every value of an unsigned type."""
    return _light_table(curve, int(np.iinfo(dtype).max) + 1)


def from_light(curve: Curve, light: Array, dtype: Any) -> Array:
    """The inverse of `light_table`, rounded."""
    light = np.clip(np.nan_to_num(light), 0, 1)
    if curve.table:
        value = np.interp(light, np.array(curve.table) / 65535, np.linspace(0, 1, len(curve.table)))
    else:
        toe = light / curve.c if curve.c else light
        value = np.where(light < curve.c * curve.d, toe, (light ** (1 / curve.gamma) - curve.b) / curve.a)
    rounded: Array = np.rint(np.clip(value, 0, 1) * np.iinfo(dtype).max).astype(dtype)
    return rounded
