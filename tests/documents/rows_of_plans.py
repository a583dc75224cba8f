"""Checks of docs/rules.md: windows, divisors, types, and how frameworks differ; each row is tried out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    LayoutWarning,
    LpPool,
    MaxPool,
    MinPool,
    RequestError,
    StdPool,
    area_pool,
    avg_pool,
    max_pool,
)
from poolcli.layouts import check_layout, layout_of_dimensions
from poolcli.ops import OPERATORS
from poolcli.plan import make_plan
from poolcli.windows import Bins
from tests.documents.checks import Row, plain, results_of, row_of, table_of
from tests.documents.console import typed
from tests.documents.markdown import Table

RULES = "docs/rules.md"
AXES = "docs/axes.md"
NUMBERS = [(n, k, s, d, pb, pe) for n in (5, 8, 11) for k in (2, 3) for s in (1, 2, 4) for d in (1, 2)
           for pb in (0, 1) for pe in (0, 1, 2)]  # fmt: skip


def line(*values: float, dtype: str = "float32") -> Any:
    """A tensor N=1 C=1 W."""
    return np.array(values, dtype).reshape(1, 1, -1)


def fits(op: Any, dtype: str = "float32", n: int = 8) -> bool:
    """Whether the operator, or the one that a call makes, takes a tensor of `n` elements."""
    try:
        (op if hasattr(op, "plan") else op()).plan((1, 1, n), dtype)
    except RequestError:
        return False
    return True


@row_of(RULES, "window o, tap j")
def _taps(row: Row) -> None:
    assert row[1] == "input element `o*s - pb + j*d`, if that is inside the input"
    for n, k, s, d, pb, pe in NUMBERS:
        (windows,) = MaxPool(k, strides=s, pads_begin=pb, pads_end=pe, dilations=d).plan((1, 1, n)).windows
        for o in range(windows.output):
            assert list(windows.span(o)) == [i for j in range(k) if 0 <= (i := o * s - pb + j * d) < n]


def cells(n: int, out: int) -> Any:
    """The windows of an area along one axis."""
    return AreaPool(out).plan((1, 1, n)).windows[0]


@row_of(RULES, "cell i of an axis", "weight of an element", "divisor of areas")
def _areas(row: Row) -> None:
    for n, out in ((7, 3), (3, 7), (12, 8), (8, 12)):
        w, common = cells(n, out), gcd(n, out)
        for i in range(out):
            low, high = Fraction(i * n, out), Fraction((i + 1) * n, out)
            overlap = {e: min(high, Fraction(e + 1)) - max(low, Fraction(e)) for e in range(n)}
            inside = {e: length * out / common for e, length in overlap.items() if length > 0}
            assert {e: w.weight(i, e) for e in w.span(i)} == inside
            assert w.divisor(i) == sum(inside.values()) == n // common


@row_of(RULES, "output, `floor`", "output, `ceil`", "output, `ceil_torch`")
def _lengths(row: Row) -> None:
    word = plain(row[0]).removeprefix("output, ")
    for n, k, s, d, pb, pe in NUMBERS:
        span = n + pb + pe - ((k - 1) * d + 1)
        expected = span // s + 1 if word == "floor" else -(-span // s) + 1
        if word == "ceil_torch" and (expected - 1) * s >= n + pb:
            expected -= 1
        assert (
            MaxPool(k, strides=s, pads_begin=pb, pads_end=pe, dilations=d, rounding_type=word)
            .plan((1, 1, n))
            .output_shape[2]
            == expected
        )


@row_of(RULES, "a window longer than the padded input (ke > n + pb + pe)")
def _longer_than_its_axis(_: Row) -> None:
    for n, k, s, d, pb, pe in product((1, 2, 4), range(1, 7), (1, 2, 4), (1, 2), (0, 1), (0, 1)):
        span = n + pb + pe - ((k - 1) * d + 1)
        if span >= 0:
            continue
        for like, word in product(("openvino", "ngraph", "onnx", "pytorch"), ("floor", "ceil")):
            legal = {"openvino": True, "ngraph": d == 1, "onnx": max(pb, pe) < k, "pytorch": pb == pe <= k // 2}[like]
            if legal:
                op = MaxPool(k, strides=s, pads_begin=pb, pads_end=pe, dilations=d, rounding_type=word, like=like)
                kept = like in ("onnx", "pytorch") and word == "ceil" and -(-span // s) + 1 == 1
                assert fits(op, n=n) == kept
                assert not kept or op.plan((1, 1, n)).output_shape == (1, 1, 1)


@row_of(RULES, "`same_upper`, `same_lower`", "`valid`")
def _own_pads(row: Row) -> None:
    for n, k, s, d, _, _ in NUMBERS:
        total = 0 if row[0] == "`valid`" else max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        for word in plain(row[0]).split(", "):
            pads = (
                MaxPool(k, strides=s, pads_begin=7, pads_end=9, dilations=d, auto_pad=word).plan((1, 1, n)).attributes
            )
            begin = total - total // 2 if word == "same_lower" else total // 2
            assert (pads["pads_begin"], pads["pads_end"]) == ([begin], [total - begin])


@row_of(RULES, "bin i of an axis")
def _bins(row: Row) -> None:
    for n in (1, 5, 8, 12):
        for out in (1, 3, 4, 7, 25):
            (bins,) = AdaptiveMaxPool(out).plan((1, 1, n)).windows
            for i in range(out):
                assert bins.span(i) == range(i * n // out, -(-(i + 1) * n // out))


ONES, THREES = line(1, 1, 1, 1), line(3, 3, 3, 3)
CEIL: dict[str, Any] = {"strides": 2, "rounding_type": "ceil"}
FAR: dict[str, Any] = {"strides": 4, "rounding_type": "ceil"}

results_of(RULES, {
    "whole ratios": lambda: [
        ([cells(n, out) == Bins(n, out) for n, out in ((6, 3), (3, 6), (6, 4))], [True, True, False]),
    ],
    "missing, an area": lambda: [
        (area_pool(line(1, -9, 4), 2, missing=-9), [1, 4]),
        (area_pool(line(1, -8, 4), 2), [-2, 0]),
    ],
    "divisor": lambda: [
        (bins.divisor(i), len(bins.span(i))) for bins in AdaptiveAvgPool(3).plan((1, 1, 7)).windows for i in range(3)
    ],
    "divisor, exclude": lambda: [(avg_pool(ONES, 3, pads=1, **CEIL), [1, 1, 1])],
    "divisor, include": lambda: [
        (avg_pool(THREES, 3, pads_begin=1, exclude_pad=False, **CEIL), [2, 3]),
        (avg_pool(THREES, 3, pads=1, exclude_pad=False, **CEIL), [2, 3, 1]),
        (avg_pool(THREES, 3, exclude_pad=False, **CEIL), [3, 3]),
    ],
    "divisor_override": lambda: [(avg_pool(line(1, 2, 3), 2, pads_begin=1, divisor_override=4), [0.25, 0.75, 1.25])],
    "window without input": lambda: [
        (avg_pool(line(*range(7)), 2, **FAR)[0, 0, 2], np.nan),
        (avg_pool(line(*range(6)), 2, pads_begin=1, exclude_pad=False, **FAR)[0, 0, 2], 0),
        (fits(AvgPool(2, **FAR), "int8", 7), False),
    ],
    "integers": lambda: [
        (avg_pool(line(0, 1, 1, 2, 2, 3, dtype="uint8"), 2, strides=2), [0, 2, 2]),
        (avg_pool(line(2**63 - 1, 2**63 - 3, dtype="int64"), 2), 2**63 - 2),
    ],
    "float16, bfloat16, float32": lambda: [
        (avg_pool(line(2**24, 1, 1, 1), 4), 2**22 + 1),
        (avg_pool(line(2**11, 1, 1, 1, dtype="float16"), 4), 513),
    ],
    "float64": lambda: [(avg_pool(line(2**53, *[1] * 7, dtype="float64"), 8), 2**50 + 0.875)],
})  # fmt: skip


@table_of(RULES, "option")
def _attributes(table: Table) -> None:
    known = {field.name for op in OPERATORS.values() for field in fields(op)}
    assert {plain(name) for row in table.rows for name in row[1].split(", ")} == known - {"like"}
    plan = {
        name: value
        for op in (AvgPool, MaxPool, LpPool, StdPool)
        for name, value in op(2).plan((1, 1, 8)).attributes.items()
    }
    text = " ".join(typed(f"$ poolcli {op} --help-all")[0] for op in ("avg", "max", "lp", "std", "adaptive-avg"))
    defaults = {"strides": "1", "dilations": "1", "pads_begin": "0", "pads_end": "0", "exclude_pad": "exclude",
                "divisor_override": "none"}  # fmt: skip
    for options, names, default, _ in table.rows:
        for name in plain(names).split(", "):
            assert "--" + name.replace("_", "-") in plain(options)
            if default != "required":
                used = plan[name][0] if isinstance(plan[name], list) else plan[name]  # type: ignore[index]
                assert defaults.get(name, str(used)) == plain(default).split(" (")[0]
        assert all(option in text for option in plain(options).replace(";", ",").split(", "))


@table_of(AXES, "axis")
def _letters_of_axes(table: Table) -> None:
    for _, letter, others, names in table.rows[:-1]:
        for name in plain(names).split(", "):
            assert str(layout_of_dimensions([name, "x" if letter != "W" else "y"]))[:1] == letter, name
        if others:
            assert check_layout(others + "R", 2) == letter + "R"


@table_of(AXES, "axes")
def _layouts_by_rank(table: Table) -> None:
    assert [row[0] for row in table.rows] == ["1", "2", "3", "3", "3", "more"]  # the examples below have each of them


@table_of(AXES, "shape")
def _readings(table: Table) -> None:
    assert len(table.rows) >= 60
    for shape, names, values, like, layout, doubt in table.rows:
        lengths = tuple(map(int, shape.split(",")))
        named = layout_of_dimensions(names.split(", ")) if names else None
        op = MaxPool(1 if values == "1" else (1,) * int(values), strides=1, like=like or "openvino")
        plan = make_plan(op, lengths, named=named)
        assert plan.reading is not None
        said = "warns" if plan.reading.other else "note" if plan.reading.note else ""
        assert (plan.layout, said) == (layout, doubt), shape
        if names:
            continue
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert op(np.zeros([min(length, 8 + length % 8) for length in lengths])).ndim == len(lengths)
        assert [each.category for each in found] == [LayoutWarning] * (said == "warns"), shape


@table_of(RULES, "refused")
def _refusals(table: Table) -> None:
    for _, example in table.rows:
        shown, code = typed(f"$ poolcli shape {plain(example)}")
        assert (shown[:9], code) == ("poolcli: ", 2), example


def _strides(like: Any) -> str:
    if not fits(MaxPool(3, like=like)):
        return "refused"
    used = MaxPool(3, like=like).plan((1, 1, 8)).attributes["strides"]
    return {1: "1", 3: "the kernel"}[used[0]]  # type: ignore[index]


def _counted(like: Any) -> str:
    if not fits(AvgPool(3, strides=2, exclude_pad=False, like=like)):
        return "never"
    return "no" if AvgPool(3, strides=2, like=like).plan((1, 1, 8)).attributes["exclude_pad"] else "yes"


def _ceil(like: Any) -> str:
    if not fits(MaxPool(2, strides=4, rounding_type="ceil", like=like)):
        return "refused"
    return {3: "ceil", 2: "ceil_torch"}[
        MaxPool(2, strides=4, rounding_type="ceil", like=like).plan((1, 1, 7)).output_shape[2]
    ]


def _auto_pad(like: Any) -> str:
    words = ("explicit", "same_upper", "same_lower", "valid")
    legal = [word for word in words if fits(MaxPool(3, strides=2, auto_pad=word, like=like))]
    return "all" if len(legal) == len(words) else ", ".join(legal)


def _overhang(like: Any) -> str:
    if not fits(AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False, like=like)):
        return "-"
    last = avg_pool(line(3, 3, 3, 3), 3, strides=2, pads_begin=1, pads_end=1, rounding_type="ceil", exclude_pad=False,
                    like=like)[0, 0, -1]  # fmt: skip
    return {1.0: "if any pad is not 0", 1.5: "no"}[float(last)]


def _counts_over(like: Any) -> str:
    x = np.zeros((2, 3, 4), "float32")
    x[1, 2, 3] = 1
    at = int(max_pool(x, 4, strides=1, like=like, return_indices=True)[1][1, 2, 0])
    everything = "`--axis`, default everything" if fits(MaxPool(2, strides=1, axis=1, like=like)) else "everything"
    return {23: everything, 3: "one plane", 11: "one image, channels last"}[at]


def _pads(make: Callable[[int, int], Any]) -> str:
    """The limits on pads of a kernel of 5, of dilation 1."""
    legal = {(b, e) for b in range(8) for e in range(8) if fits(make(b, e), n=20)}
    every = {(b, e) for b in range(8) for e in range(8)}
    known = {
        "any": every,
        "below the kernel": {pads for pads in every if max(pads) < 5},
        "equal at both ends, at most half the kernel": {(b, e) for b, e in every if b == e <= 2},
        "none": {(0, 0)},
        "-": set(),
    }
    return next(words for words, pads in known.items() if pads == legal)


def _pads_exclude(like: Any) -> str:
    found = _pads(lambda b, e: AvgPool(5, strides=1, pads_begin=b, pads_end=e, exclude_pad=True, like=like))
    dilated = AvgPool(
        3, strides=1, pads=4, dilations=2, exclude_pad=True, like=like
    )  # below the window of 5, above the kernel of 3
    if found == "below the kernel" and (fits(dilated) or like == "ngraph"):
        return "below the window"
    return found


def both(ask: Callable[[Any], str]) -> str:
    """What holds of maxima and of minima."""
    (found,) = {ask(op) for op in (MaxPool, MinPool)}
    return found


DIALECT: dict[str, Callable[[str], str]] = {
    "strides left out": _strides,
    "padding counted by default": _counted,
    "`ceil` means": _ceil,
    "`ceil_torch`": lambda like: (
        "yes" if fits(MaxPool(2, strides=2, rounding_type="ceil_torch", like=like)) else "refused"
    ),
    "`ceil`, window longer than the padded input by less than the stride": lambda like: both(
        lambda op: "one window" if fits(op(9, strides=2, rounding_type="ceil", like=like)) else "refused"
    ),
    "auto_pad": _auto_pad,
    "overhang of a ceil window counted (include)": _overhang,
    "max indices count over": _counts_over,
    "pads of maxima and minima": lambda like: both(
        lambda op: _pads(lambda b, e: op(5, strides=1, pads_begin=b, pads_end=e, like=like))
    ),
    "pads of averages, include": lambda like: _pads(
        lambda b, e: AvgPool(5, strides=1, pads_begin=b, pads_end=e, exclude_pad=False, like=like)
    ),
    "pads of averages, exclude": _pads_exclude,
    "dilation in averages": lambda like: "yes" if fits(AvgPool(2, strides=1, dilations=2, like=like)) else "no",
    "dilation in maxima and minima": lambda like: both(
        lambda op: "yes" if fits(op(2, strides=1, dilations=2, like=like)) else "no"
    ),
    "adaptive poolings": lambda like: "yes" if fits(AdaptiveAvgPool(2, like=like)) else "no",
    "Lp norms": lambda like: "yes" if fits(LpPool(2, strides=2, like=like)) else "no",
}


@table_of(RULES, "openvino")
def _dialects(table: Table) -> None:
    for row in table.rows:
        assert list(row[1:]) == [DIALECT[row[0]](like) for like in table.head[1:]], row[0]
    assert [row[0] for row in table.rows] == list(DIALECT)
