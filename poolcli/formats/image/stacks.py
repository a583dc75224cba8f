"""The axes of stacks that ImageJ and OME-TIFF describe: lengths, distances and units, read and written by tifffile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from poolcli.errors import FileError
from poolcli.formats.image.codecs import WHY_READ, WHY_WRITE
from poolcli.formats.records import Axis
from poolcli.system.lazy_imports import need

LETTERS = {"T": "N", "C": "C", "Z": "D", "Y": "H", "X": "W"}
NAMES = {letter: name for name, letter in LETTERS.items()}
# Units of time that OME-XML has, and their names.
PREFIXES = {
    "": "", "Y": "yotta", "Z": "zetta", "E": "exa", "P": "peta", "T": "tera", "G": "giga", "M": "mega", "k": "kilo",
    "h": "hecto", "d": "deci", "c": "centi", "m": "milli", "µ": "micro", "n": "nano", "p": "pico", "f": "femto",
    "a": "atto", "z": "zepto", "y": "yocto",
}  # fmt: skip
TIMES = {f"{short}s": f"{prefix}second" for short, prefix in PREFIXES.items()}
TIMES |= {"min": "minute", "h": "hour", "d": "day"}
SIZES = {"T": "frames", "Z": "slices", "C": "channels"}  # of ImageJ, in its order of pages
# Units of length that OME-XML has, and how others write them.
UNITS = {
    "um": "µm", "μm": "µm", "micron": "µm", "microns": "µm", "micrometer": "µm", "nanometer": "nm", "picometer": "pm",
    "millimeter": "mm", "centimeter": "cm", "decimeter": "dm", "meter": "m", "kilometer": "km", "inch": "in",
    "inches": "in", "foot": "ft", "yard": "yd", "mile": "mi", "angstrom": "Å", "parsec": "pc",
}  # fmt: skip
OF_OME = frozenset(UNITS.values()) | {"Ym", "Zm", "Em", "Pm", "Tm", "Gm", "Mm", "hm", "fm", "am", "zm", "ym", "pixel"}


def axes_of(path: str, pages: int, size: Sequence[int]) -> tuple[Axis, ...]:
    """The axes of all pages together, each of this height and width; () if the file does not name just these."""
    try:
        (tifffile,) = need("tifffile", why=WHY_READ)
        with tifffile.TiffFile(path) as file:
            if file.is_ome:  # of several images or files, `Image` or `TiffData` is a list, which raises
                found = _of_ome(tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"])
            elif file.is_imagej:
                found = _of_imagej(file.imagej_metadata, size, file.pages[0].resolution)
            else:
                return ()
    except MemoryError:
        raise
    except Exception:  # of many kinds, for damaged descriptions; RequestError without tifffile
        return ()
    axes = tuple(axis for axis in found if axis.length > 1 or axis.letter in "HW")
    lengths = [axis.length for axis in axes]
    return axes if lengths[-2:] == list(size) and prod(lengths[:-2]) == pages else ()


def _of_ome(pixels: Mapping[str, Any]) -> list[Axis]:
    """OME-XML: pages in the order of `DimensionOrder`, of which the first letter changes fastest."""
    if pixels["TiffData"].get("IFD", 0) != 0 or "UUID" in pixels["TiffData"]:
        raise ValueError("pages in another order, or another file")
    found = []
    for name in reversed(pixels["DimensionOrder"]):
        key = "TimeIncrement" if name == "T" else f"PhysicalSize{name}"
        unit = pixels.get(f"{key}Unit", "s" if name == "T" else "µm") if key in pixels else ""
        unit = TIMES.get(unit, unit) if name == "T" else unit
        found.append(Axis(LETTERS[name], pixels[f"Size{name}"], float(pixels.get(key, 1)), unit))
    return found


def _of_imagej(said: Mapping[str, Any], size: Sequence[int], resolution: Sequence[float]) -> list[Axis]:
    """ImageJ's description: pages by frame, slice and channel; the resolution is in pixels to the unit."""
    unit = str(said.get("unit", "")).replace("\\u00B5", "µ")
    steps = {"Z": said.get("spacing", 1), "T": said.get("finterval", 1), "Y": 1 / resolution[1], "X": 1 / resolution[0]}
    units = {"T": "second" if "finterval" in said else "", "C": ""}
    sizes = {name: said.get(key, 1) for name, key in SIZES.items()}
    if prod(sizes.values()) == 1:
        sizes["Z"] = said.get("images", 1)
    sizes |= {"Y": size[0], "X": size[1]}
    return [
        Axis(
            LETTERS[name], int(length), float(steps.get(name, 1)) if unit or name == "T" else 1.0, units.get(name, unit)
        )
        for name, length in sizes.items()
    ]


def stated(axes: Sequence[Axis]) -> tuple[dict[str, Any], list[str]]:
    """Distances of axes as attributes of OME-XML, and units that it lacks."""
    found, lacking = dict[str, Any](), list[str]()
    for letter, _, step, unit in (axis for axis in axes if 0 < axis.step < inf):
        name, known = NAMES[letter], UNITS.get(unit, unit)
        short = next((each for each, time in TIMES.items() if unit in (each, time)), None)
        if name == "T" and short:
            found |= {"TimeIncrement": step} | ({"TimeIncrementUnit": short} if short != "s" else {})
        elif name in "ZYX" and known in OF_OME:
            found |= {f"PhysicalSize{name}": step, f"PhysicalSize{name}Unit": known}
        elif unit and unit not in lacking:
            lacking.append(unit)
    return found, lacking


def described(path: str, stacks: Sequence[tuple[str, Sequence[int], str, Mapping[str, Any]]]) -> str:
    """OME-XML of stacks, each of a layout, a shape, a number type, and the distances of its axes."""
    (tifffile,) = need("tifffile", why=f"{path}: {WHY_WRITE}", kind=FileError)
    xml = tifffile.OmeXml(Creator="poolcli", UUID=str(uuid5(NAMESPACE_URL, repr(stacks))))
    for layout, shape, dtype, steps in stacks:
        inside = layout.endswith("C")
        names = "".join("S" if inside and letter == "C" else NAMES[letter] for letter in layout)
        *pages, height, width, samples = shape if inside else (*shape, 1)
        xml.addimage(dtype, shape, (prod(pages), 1, 1, height, width, samples), axes=names, **steps)
    text: str = xml.tostring(declaration=True)
    return text.encode("ascii", "xmlcharrefreplace").decode()  # tags are ASCII
