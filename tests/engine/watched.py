"""What the compiled engine does: which kernel it was seen to take, over what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from poolcli.engine.compiled import pool as engine
from poolcli.engine.compiled.canonical_view import CanonicalView
from poolcli.engine.compiled.geometry import CACHE_LINE, FixedWindow, RowWindows
from poolcli.engine.compiled.kernel_choice import KernelSpec
from poolcli.engine.compiled.launch import address


@dataclass(frozen=True)
class Taken:
    """What the compiled engine was seen to do: the kernel, the view that it worked on, and the numbers it was given."""

    kernel: str
    fixed: FixedWindow | None
    view: CanonicalView
    rest: tuple[Any, ...]

    @property
    def windows(self) -> RowWindows:
        """The windows along W, of the kernels that slide."""
        return next(given for given in self.rest if isinstance(given, RowWindows))

    @property
    def rows(self) -> set[int]:
        """How many input rows the windows have."""
        depth, height = (axis.count.tolist() for axis in self.view.axes[:2])
        return {d * h for d in depth for h in height}


class UnwantedKernelError(Exception):
    """A kernel was chosen that the test does not want built."""


@contextmanager
def watched(wanted: Callable[[KernelSpec], bool] = lambda spec: True) -> Iterator[list[Taken]]:
    """What the compiled engine does meanwhile, in buffers that kernels keep to. Raises UnwantedKernelError, and builds
    nothing, where it chooses a kernel that is not `wanted`.
    """
    taken: list[Taken] = []

    def seen(spec: KernelSpec, *arguments: Any) -> None:
        if not wanted(spec):
            raise UnwantedKernelError
        taken.append(Taken(spec.launch.kernel, spec.launch.fixed, spec.view, spec.launch.params))
        pooled(spec, *arguments)

    pooled = engine.run
    with patch.object(engine, "run", seen), guarded():
        yield taken


GUARD, MARK = 1 << 12, 0xA5  # bytes, each of this value, behind a buffer


@contextmanager
def guarded() -> Iterator[None]:
    """Work arrays of just the size that a kernel asks for meanwhile, behind which it writes nothing."""
    given: list[tuple[Any, int]] = []

    def get(size: int) -> tuple[Any, int]:
        buffer = np.full(size + CACHE_LINE + GUARD, MARK, np.uint8)
        buffer = buffer[-address(buffer) % CACHE_LINE :]
        given.append((buffer, size))
        return buffer, address(buffer)

    with patch.object(engine, "work_array", get):
        yield
    assert [size for buffer, size in given if (buffer[size:] != MARK).any()] == []
