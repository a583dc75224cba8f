"""Where the rows of windows are in planes."""

from __future__ import annotations

import numpy as np

from poolcli.engine.compiled.kernels.rows import begin_at, steps_in, unsigned
from poolcli.engine.compiled.pointers import inlined

NOWHERE = np.int32(2**31 - 1)


@inlined
def _line(geometry, d, h, line):
    """Which plane of the windows of output row (d, h) their row `line` is in, and which row it is there."""
    in_d = 0 if geometry.counts[0][d] == 1 else line // geometry.counts[1][h]
    return in_d, line - in_d * geometry.counts[1][h]


@inlined
def line_at(geometry, o, d, h, line):
    """Where row `line` of the windows of output row (o, d, h) begins in x."""
    (deep, high), (in_d, in_h) = steps_in(geometry), _line(geometry, d, h, np.int64(line))
    return unsigned(begin_at(geometry, o, d, h) + in_d * deep + in_h * high)


@inlined
def steps_to(geometry, d, h, line):
    """How many rows of the plane their row `line` comes after their first one."""
    in_d, in_h = _line(geometry, d, h, np.int64(line))
    return in_d * geometry.steps[0] * geometry.input[1] + in_h * geometry.steps[1]


@inlined
def place_of(geometry, d, h, line):
    """The row of the plane that is row `line` of the windows of output row (d, h)."""
    first = geometry.begins[0][d] * geometry.input[1] + geometry.begins[1][h]
    return first + steps_to(geometry, d, h, line)
