"""The axes of stacks that ImageJ and OME-TIFF describe: lengths, distances and units, read and written by tifffile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from poolcli.formats.records import Axis
from poolcli.system.lazy_imports import Lazy

tifffile: Any = Lazy("tifffile")

LAYOUT_LETTERS = {"T": "N", "C": "C", "Z": "D", "Y": "H", "X": "W"}
DIMENSIONS = {letter: name for name, letter in LAYOUT_LETTERS.items()}
# Units of time that OME-XML has, and their names.
TIME_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}
TIME_UNITS |= {"ms": "millisecond", "µs": "microsecond", "ns": "nanosecond", "ps": "picosecond"}
IMAGEJ_SIZES = {"T": "frames", "Z": "slices", "C": "channels"}  # of ImageJ, in its order of pages
# Units of length that OME-XML has, and how others write them.
LENGTH_UNITS = {
    "um": "µm", "μm": "µm", "micron": "µm", "microns": "µm", "micrometer": "µm", "nanometer": "nm", "millimeter": "mm",
    "centimeter": "cm", "meter": "m", "kilometer": "km", "inch": "in", "foot": "ft", "angstrom": "Å",
}  # fmt: skip
OME_LENGTHS = frozenset(LENGTH_UNITS.values()) | {"pm", "pixel"}


def read_axes(file: Any, pages: int, size: Sequence[int]) -> tuple[Axis, ...]:
    """The axes of all pages of a TiffFile, each of this height and width; () if it does not name just these."""
    try:
        if file.is_ome:  # of several images or files, `Image` or `TiffData` is a list, which raises
            found = _ome_axes(tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"])
        elif file.is_imagej:
            found = _imagej_axes(file.imagej_metadata, size, file.pages.first.resolution)
        else:
            return ()
    except MemoryError:
        raise
    except Exception:  # of many kinds, for damaged descriptions
        return ()
    axes = tuple(axis for axis in found if axis.length > 1 or axis.letter in "HW")
    lengths = [axis.length for axis in axes]
    return axes if lengths[-2:] == list(size) and prod(lengths[:-2]) == pages else ()


def _ome_axes(pixels: Mapping[str, Any]) -> list[Axis]:
    """OME-XML: pages in the order of `DimensionOrder`, of which the first letter changes fastest."""
    if pixels["TiffData"].get("IFD", 0) != 0 or "UUID" in pixels["TiffData"]:
        raise ValueError("pages in another order, or another file")
    found = []
    for name in reversed(pixels["DimensionOrder"]):
        key = "TimeIncrement" if name == "T" else f"PhysicalSize{name}"
        unit = pixels.get(f"{key}Unit", "s" if name == "T" else "µm") if key in pixels else ""
        unit = TIME_UNITS.get(unit, unit) if name == "T" else unit
        found.append(Axis(LAYOUT_LETTERS[name], pixels[f"Size{name}"], float(pixels.get(key, 1)), unit))
    return found


def _imagej_axes(said: Mapping[str, Any], size: Sequence[int], resolution: Sequence[float]) -> list[Axis]:
    """ImageJ's description: pages by frame, slice and channel; the resolution is in pixels to the unit."""
    unit = str(said.get("unit", "")).replace("\\u00B5", "µ")
    steps = {"Z": said.get("spacing", 1), "T": said.get("finterval", 1), "Y": 1 / resolution[1], "X": 1 / resolution[0]}
    units = {"T": "second" if "finterval" in said else "", "C": ""}
    sizes = {name: said.get(key, 1) for name, key in IMAGEJ_SIZES.items()}
    if prod(sizes.values()) == 1:
        sizes["Z"] = said.get("images", 1)
    sizes |= {"Y": size[0], "X": size[1]}
    if not unit:  # then only the frame interval has a meaning
        steps = {"T": steps["T"]}
    return [
        Axis(LAYOUT_LETTERS[name], int(length), float(steps.get(name, 1)), units.get(name, unit))
        for name, length in sizes.items()
    ]


def ome_attributes(axes: Sequence[Axis]) -> tuple[dict[str, Any], list[str]]:
    """Distances of axes as attributes of OME-XML, and units that it lacks."""
    found, lacking = dict[str, Any](), list[str]()
    for letter, _, step, unit in (axis for axis in axes if 0 < axis.step < inf):
        name, known = DIMENSIONS[letter], LENGTH_UNITS.get(unit, unit)
        short = next((each for each, time in TIME_UNITS.items() if unit in (each, time)), None)
        if name == "T" and short:
            found |= {"TimeIncrement": step} | ({"TimeIncrementUnit": short} if short != "s" else {})
        elif name in "ZYX" and known in OME_LENGTHS:
            found |= {f"PhysicalSize{name}": step, f"PhysicalSize{name}Unit": known}
        elif unit and unit not in lacking:
            lacking.append(unit)
    return found, lacking


def ome_xml(layout: str, shape: Sequence[int], dtype: str, steps: Mapping[str, Any]) -> bytes:
    """OME-XML of a stack, with the distances of its axes."""
    xml = tifffile.OmeXml(Creator="poolcli", UUID=str(uuid5(NAMESPACE_URL, repr((layout, shape, dtype, steps)))))
    inside = layout.endswith("C")
    names = "".join("S" if inside and letter == "C" else DIMENSIONS[letter] for letter in layout)
    *pages, height, width, samples = shape if inside else (*shape, 1)
    xml.addimage(dtype, shape, (prod(pages), 1, 1, height, width, samples), axes=names, **steps)
    text: str = xml.tostring(declaration=True)
    return text.encode("ascii", "xmlcharrefreplace")  # tags are ASCII
