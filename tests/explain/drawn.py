"""Operators and plans drawn by chance, of every dialect."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, RequestError
from poolcli.dialects import DIALECTS
from poolcli.plan import Plan


@st.composite
def ops(draw: st.DrawFn) -> Any:
    like = draw(st.sampled_from(list(DIALECTS)))
    dialect = DIALECTS[like]
    kernel, begin = draw(st.integers(1, 5)), draw(st.integers(0, 2))
    end = begin if dialect.symmetric_pads else draw(st.integers(0, 2))
    shared: dict[str, Any] = {
        "strides": draw(st.integers(1, 4)), "pads_begin": begin, "pads_end": end,
        "auto_pad": draw(st.sampled_from(dialect.auto_pads)),
        "rounding_type": draw(st.sampled_from(dialect.rounding_types)), "like": like,
    }  # fmt: skip
    if draw(st.booleans()):
        return MaxPool(kernel, dilations=draw(st.integers(1, 2)) if dialect.operators["max"].dilations else 1, **shared)
    return AvgPool(kernel, exclude_pad=draw(st.sampled_from([True, False, None])), **shared)


@st.composite
def plans(draw: st.DrawFn) -> Plan | None:
    """Plans of one to three axes, fixed and adaptive; None where they are refused."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    op = draw(ops())
    if draw(st.integers(0, 3)) == 0:
        output = tuple(draw(st.integers(1, size + 1)) for size in sizes)
        op = draw(st.sampled_from([AdaptiveAvgPool, AdaptiveMaxPool]))(output)
    try:
        plan: Plan = op.plan((1, 2, *sizes), layout="NC" + "DHW"[3 - len(sizes) :])
    except RequestError:
        return None
    return plan
