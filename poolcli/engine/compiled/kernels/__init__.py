"""The loops of the compiled engine, on one canonical view: (outer, D, H, W * inner), given flat.

A task makes one output row (outer, d, h), or the rows whose windows start in one block of input rows. The
rows of a window are joined in a row buffer, which is contiguous and vectorises for any number of inner
channels; then windows are taken along the buffer. How elements are joined (added, or the best of them
taken) is up to the arithmetic, `how`; where they lie to the `geometry`. Every output is made inside one
task and by the same order of operations wherever it lies, so results depend neither on threads nor on how
tasks are shared out.

A kernel is made for one arithmetic, whose types and numbers are constants in it, and gets raw pointers: to
what is read and written, to row buffers (`work`, of totals, and `lines`), to the integers and the divisors
of the geometry; then its first task and one past the last. It allocates nothing, so it knows no reference
counts and no exceptions, and its machine code asks nothing of numba when it is loaded by another process.

A signed position in the innermost loop keeps some of them from vectorising; so the loops at the bottom turn
positions into unsigned numbers first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from poolcli.engine.compiled.kernels.best import best_at, slide_at
from poolcli.engine.compiled.kernels.each import each, each_inner
from poolcli.engine.compiled.kernels.halve import halve, halve_pixels
from poolcli.engine.compiled.kernels.line import slide_line
from poolcli.engine.compiled.kernels.maps import slide_maps, slide_planes
from poolcli.engine.compiled.kernels.slide import slide, slide_blocks
from poolcli.engine.compiled.kernels.votes import mode_each, mode_few
from poolcli.engine.compiled.kernels.wide import mean_wide

# By name: what makes the kernel for an arithmetic, and for one size of windows where that is constant in it.
KERNELS: dict[str, Callable[..., Any]] = {
    make.__name__: make
    for make in (
        slide,
        slide_blocks,
        slide_planes,
        slide_line,
        slide_maps,
        halve,
        halve_pixels,
        each,
        each_inner,
        mean_wide,
        best_at,
        slide_at,
        mode_each,
        mode_few,
    )
}
