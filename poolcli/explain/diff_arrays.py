"""The differences between two arrays, how large and where (`poolcli compare`, `poolcli.compare`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poolcli.arguments import tolerance
from poolcli.array_interop import as_array
from poolcli.errors import RequestError
from poolcli.system.lazy_imports import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Place = tuple[slice, ...]
CHUNK = 2**20  # elements that are compared at once


@dataclass(frozen=True, slots=True)
class Difference:
    """How two arrays of one shape differ. NaN is equal to NaN, and to nothing else.

    Attributes
    ----------
    shape : tuple of int
    dtypes : tuple of str
    elements, different : int
        Number of elements, and of those that differ by more than the tolerance.
    max_abs, mean_abs : float
        Over all elements; a difference from NaN or infinity counts as infinity.
    max_ulp : int or None
        Largest difference in units in the last place; None for two types.
    where_ulp : tuple of int or None
        Index of that, which near zero is another than `where`.
    where : tuple of int or None
        Index of the largest difference.
    pair : tuple of str or None
        Both elements there.
    along : tuple of frozenset of int
        For each axis, the indices with a difference.
    border : bool
        Whether all differences lie on the border of the last two axes.
    """

    shape: tuple[int, ...]
    dtypes: tuple[str, str]
    elements: int
    different: int
    max_abs: float
    mean_abs: float
    max_ulp: int | None = field(repr=False)
    where_ulp: tuple[int, ...] | None = field(repr=False)
    where: tuple[int, ...] | None
    pair: tuple[str, str] | None
    along: tuple[frozenset[int], ...] = field(repr=False)
    border: bool = field(repr=False)

    def __bool__(self) -> bool:
        raise TypeError("a Difference is neither true nor false; use .equal, or .exact for bits alone")

    @property
    def exact(self) -> bool:
        """Whether all elements are equal."""
        return not self.max_abs

    @property
    def equal(self) -> bool:
        """Whether no element is off by more than the tolerance."""
        return not self.different


def compare(a: ArrayLike, b: ArrayLike, *, atol: float = 0, rtol: float = 0) -> Difference:
    """Compare two arrays: how much they differ, and where.

    Two elements are equal if their difference is at most `atol + rtol * abs(b)`, as in `numpy.isclose`.

    Parameters
    ----------
    a, b : array_like
        Numbers, in arrays of one shape.
    atol : float, default 0
        Absolute tolerance.
    rtol : float, default 0
        Relative tolerance.

    Returns
    -------
    Difference

    Raises
    ------
    RequestError
        For different shapes, types that are not numbers, and negative tolerances.

    Examples
    --------
    >>> found = compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.5])
    >>> found.equal, found.different, found.max_abs, found.where
    (False, 1, 0.5, (2,))
    """
    atol, rtol = tolerance("atol", atol), tolerance("rtol", rtol)
    x, y = as_array(a, "a"), as_array(b, "b")
    if x.shape != y.shape:
        shapes = " and ".join(",".join(map(str, each.shape)) or "a single number" for each in (x, y))
        remedy = "compare arrays of the same shape (identify finds the pooling that turns one into the other)"
        if sorted(x.shape) == sorted(y.shape):
            order = tuple(np.argsort(y.shape, kind="stable")[np.argsort(np.argsort(x.shape, kind="stable"))].tolist())
            remedy = f"transpose one, in Python: numpy.save('transposed.npy', b.transpose{order})"
        raise RequestError(f"the shapes differ: {shapes}; {remedy}")
    if any(each.dtype.kind not in "biuf" and each.dtype.name != "bfloat16" for each in (x, y)):
        raise RequestError(f"{x.dtype.name} and {y.dtype.name} cannot be compared: numbers are needed")
    shape = x.shape or (1,)
    with np.errstate(all="ignore"):  # of infinities, and of differences beyond float64
        return differences(_rows(x.reshape(shape)), y.reshape(shape), x.dtype, atol, rtol)


def _rows(x: NDArray[Any]) -> Iterator[tuple[Place, NDArray[Any]]]:
    rows = max(1, CHUNK * len(x) // max(x.size, 1))
    for start in range(0, len(x) if x.size else 0, rows):
        yield (slice(start, start + rows), *(slice(0, n) for n in x.shape[1:])), x[start : start + rows]


def differences(
    parts: Iterable[tuple[Place, NDArray[Any]]], y: NDArray[Any], dtype: np.dtype[Any], atol: float, rtol: float
) -> Difference:
    """How an array, of which these are the parts, differs from `y`; `elements` are those of the parts."""
    off = np.zeros(y.shape, bool)
    elements, total, largest, ulp, where, where_ulp, pair = 0, 0.0, 0.0, 0, None, None, None
    same = dtype.newbyteorder("=") == y.dtype.newbyteorder("=")
    for place, x in parts:
        a, b = (each.astype(each.dtype.newbyteorder("="), copy=False) for each in (x, y[place]))
        distance = distances(a, b)
        bound = atol + rtol * np.abs(b.astype(np.float64)) if atol or rtol else 0
        off[place] = (distance > bound) | np.isinf(distance)
        elements, total = elements + a.size, total + float(distance.sum())
        if (top := float(distance.max())) > largest:
            at, where = _places_of_largest(distance, place)
            largest, pair = top, (str(a[at]), str(b[at]))
        if same and (most := int((steps := _ulps(a, b)).max())) > ulp:
            ulp, (_, where_ulp) = most, _places_of_largest(steps, place)
    axes = range(off.ndim)
    return Difference(
        shape=y.shape,
        dtypes=(dtype.name, y.dtype.name),
        elements=elements,
        different=int(off.sum()),
        max_abs=largest,
        mean_abs=total / elements if elements else 0.0,
        max_ulp=ulp if same else None,
        where_ulp=where_ulp,
        where=where,
        pair=pair,
        along=tuple(frozenset(np.flatnonzero(off.any(axis=tuple({*axes} - {i}))).tolist()) for i in axes),
        border=off.ndim > 1 and min(off.shape[-2:]) > 2 and not off[..., 1:-1, 1:-1].any(),
    )


def _places_of_largest(values: NDArray[Any], place: Place) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of the largest value in a part, and in the whole."""
    at = tuple(map(int, np.unravel_index(int(values.argmax()), values.shape)))
    return at, tuple(span.start + i for span, i in zip(place, at, strict=True))


def distances(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute differences: exact for integers up to 2**53, inf where one element is nan or infinite."""
    equal = (x == y) | ((x != x) & (y != y))  # only nan differs from itself
    if x.dtype == y.dtype and x.dtype.kind in "iu":
        high, low = np.maximum(x, y), np.minimum(x, y)
        distance = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    else:
        distance = np.abs(x.astype(np.float64) - y.astype(np.float64))
        distance = np.where(np.isnan(distance), np.inf, distance)
        # Different long integers may be equal as float64, but must not count as equal.
        distance = np.where((distance == 0) & ~equal, np.finfo(np.float64).tiny, distance)
    return np.where(equal, 0.0, distance)


def _ulps(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.uint64]:
    """Differences in units in the last place, 0 for pairs with nan."""
    known: Any = True
    if x.dtype.kind not in "biu":
        known = ~(np.isnan(x.astype(np.float64)) | np.isnan(y.astype(np.float64)))
        bits = [np.ascontiguousarray(each).view(f"i{x.dtype.itemsize}").astype(np.int64) for each in (x, y)]
        lowest = -(2 ** (8 * x.dtype.itemsize - 1))
        x, y = (np.where(each < 0, lowest - each, each) for each in bits)  # integers in the order of the floats
    high, low = (f(x, y).astype(np.uint64) for f in (np.maximum, np.minimum))
    return np.where(known, high - low, np.uint64(0))
