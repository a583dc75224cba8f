"""Lazy imports of packages that are slow to import or optional, and imports without garbage collection."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import Any

from poolcli.errors import PoolError, RequestError

# What each is called on the package index.
HEAVY = {
    "dask": "'dask[array]'",
    "distributed": "distributed",
    "h5py": "h5py",
    "hdf5plugin": "hdf5plugin",
    "imagecodecs": "imagecodecs",
    "llvmlite": "llvmlite",
    "ml_dtypes": "ml_dtypes",
    "numba": "numba",
    "onnx": "onnx",
    "fsspec": "fsspec",
    "google": "protobuf",
    "PIL": "pillow",
    "pillow_heif": "pillow-heif",
    "tifffile": "tifffile",
    "zarr": "zarr",
}


_waited = threading.local()


def seconds_loading() -> float:
    """What this thread has spent on importing packages, or on waiting for another thread that does."""
    seconds: float = getattr(_waited, "seconds", 0.0)
    return seconds


@contextmanager
def loading() -> Iterator[None]:
    """Adds the time inside to `seconds_loading`."""
    before, start = seconds_loading(), perf_counter()
    try:
        yield
    finally:  # of one within another, the outer one counts
        _waited.seconds = before + perf_counter() - start


def need(*modules: str, why: str, kind: type[PoolError] = RequestError) -> list[Any]:
    """The modules; where packages are missing, an error of this `kind` that says why they are needed and names them.

    >>> (json,) = need("json", why="reports need json")
    >>> need("json", "no_such_package", why="this needs two packages")
    Traceback (most recent call last):
    ...
    poolcli.errors.RequestError: this needs two packages: pip install no_such_package
    """
    found, missing = [], []
    with loading():
        for module in modules:
            try:
                found.append(import_module(module))
            except ImportError:
                package = module.partition(".")[0]
                missing.append(HEAVY.get(package, package))
    if missing:
        raise kind(f"{why}: pip install {' '.join(missing)}")
    return found


class Lazy:
    """Stands for a module at the top of another, and is imported when the first of its names is used."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name, self._module = name, None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            (self._module,) = need(self._name, why=f"this needs {self._name.partition('.')[0]}")
        return getattr(self._module, name)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Switches the cyclic garbage collector off: nearly all objects of imports and compilation live on, and to scan
    them took an eighth of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Freezes existing objects while processes are forked: a collection in the child would copy their pages."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
