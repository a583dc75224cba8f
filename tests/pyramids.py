"""Pyramids as zarr-python reads them and as the definition has them, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import zarr

X = np.random.default_rng(0).integers(0, 255, (9, 11, 14)).astype(np.uint8)


def stored(path: str, x: Any, **how: Any) -> None:
    names = ("t", "c", "z", "y", "x")[5 - x.ndim :]
    named = {} if how.get("zarr_format") == 2 else {"dimension_names": names}
    array = zarr.create_array(path, shape=x.shape, dtype=x.dtype, **{**named, "chunks": "auto", **how})
    array[:] = x


def levels(path: str) -> list[Any]:
    """The levels as zarr-python reads them, in the order of the metadata."""
    return [zarr.open_array(f"{path}/{data['path']}", mode="r")[:] for data in multiscale(path)["datasets"]]


def attributes(path: str) -> Any:
    """What OME-Zarr has in the attributes of a group, of either version."""
    found: Any = zarr.open_group(path, mode="r").attrs.asdict()
    return found.get("ome", found)


def multiscale(path: str) -> Any:
    return attributes(path)["multiscales"][0]


def places(path: str) -> list[tuple[Any, Any]]:
    """Scale and translation of each level, of which the scale must be the first."""
    found = []
    for data in multiscale(path)["datasets"]:
        scale, translation = data["coordinateTransformations"]
        assert (scale["type"], translation["type"]) == ("scale", "translation")
        found.append((np.array(scale["scale"]), np.array(translation["translation"])))
    return found


def mean(values: Any) -> Any:
    """Integers exactly, halves to even."""
    if values.dtype.kind == "f":
        return np.mean(values, dtype=np.float64)
    total, count = sum(values.ravel().tolist()), values.size
    low, rest = divmod(total, count)
    return low + (2 * rest > count or (2 * rest == count and low % 2 == 1))


def mode(values: Any) -> Any:
    found, counts = np.unique(values, return_counts=True)
    return found[counts.argmax()]


REFERENCE: dict[str, Callable[[Any], Any]] = {"avg": mean, "max": np.max, "min": np.min, "mode": mode}


def pooled(x: Any, kernel: tuple[int, ...], op: str) -> Any:
    """Every window by itself; a window over the edge has what there is."""
    lengths = [-(-n // k) for n, k in zip(x.shape, kernel, strict=True)]
    out = np.empty(lengths, x.dtype)
    for place in np.ndindex(*lengths):
        out[place] = REFERENCE[op](x[tuple(slice(i * k, (i + 1) * k) for i, k in zip(place, kernel, strict=True))])
    return out


MICROMETRES = {f"PhysicalSize{name}": size for name, size in zip("ZYX", (2.5, 0.2, 0.1), strict=True)}


def write_stack(stack: Any, axes: str, program: str) -> tuple[Any, str]:
    """`x.tif` with those axes of a stack (t, c, z, y, x) that are named, in this order, with sizes and an interval of
    3 s, as ImageJ or in OME-XML; returns the array in the stack's own order, and the names of its axes.
    """
    import tifffile

    own = "".join(name for name in "tczyx" if name.upper() in axes)
    kept = stack[tuple(slice(None) if name in own else 0 for name in "tczyx")]
    x = kept.transpose([own.index(name.lower()) for name in axes])
    if program == "ImageJ":
        about: dict[str, Any] = {"axes": axes, "spacing": 2.5, "unit": "um", "finterval": 3.0}
        tifffile.imwrite("x.tif", x, imagej=True, resolution=(10, 5), metadata=about)
    else:
        about = {"axes": axes, **MICROMETRES, "TimeIncrement": 3.0}
        tifffile.imwrite("x.tif", x, ome=True, photometric="minisblack", metadata=about)
    return kept, own
