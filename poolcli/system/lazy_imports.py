"""Lazy imports of packages that are slow to import or optional, also of numpy, and imports without the collector."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from poolcli.errors import PoolError, RequestError

# What to install, where that is not the import name.
PACKAGES = {"dask": "'dask[array]'", "google": "protobuf", "PIL": "pillow", "pillow_heif": "pillow-heif"}


class Timer(threading.local):
    """The seconds that each thread has spent in blocks of one kind."""

    seconds = 0.0


LOADED = Timer()  # on imports
COMPILED = Timer()  # on compiling and loading kernels


@contextmanager
def loading(timer: Timer = LOADED) -> Iterator[None]:
    """Adds the time inside to `LOADED`, or to another timer."""
    before, start = timer.seconds, perf_counter()
    try:
        yield
    finally:  # an outer block replaces the time of those inside it
        timer.seconds = before + perf_counter() - start


def need(*modules: str, why: str, kind: type[PoolError] = RequestError) -> list[Any]:
    """Imports modules; if packages are missing, raises an error of this `kind` that names them and says why."""
    found, missing = [], []
    with loading(), gc_disabled():
        for module in modules:
            try:
                found.append(import_module(module))
            except ImportError:
                package = module.partition(".")[0]
                missing.append(PACKAGES.get(package, package))
    if missing:
        raise kind(f"{why}: pip install {' '.join(dict.fromkeys(missing))}")
    return found


@cache
def installed(*modules: str) -> bool:
    """Whether modules can be imported; imports them."""
    with suppress(RequestError):
        return bool(need(*modules, why=""))
    return False


class Lazy:
    """A module that is imported when one of its names is first used."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name, self._module = name, None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            (self._module,) = need(self._name, why=f"this needs {self._name.partition('.')[0]}")
        return getattr(self._module, name)


if TYPE_CHECKING:  # commands that read no array do without numpy, which takes long to import
    import numpy as numpy
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    numpy = Lazy("numpy")
    Array = Any


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Switches the cyclic garbage collector off during imports and compilation, of whose time scans took an eighth."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
