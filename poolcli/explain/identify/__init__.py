"""From two arrays to the pooling that turns one into the other: operator, attributes, dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from poolcli.errors import RequestError
from poolcli.explain.diff_arrays import check_tolerances
from poolcli.explain.equivalence import distinguishing_input
from poolcli.explain.identify.candidates import Candidate, Pair
from poolcli.explain.identify.hypotheses import Constraints
from poolcli.explain.identify.search import Search
from poolcli.layouts import check_layout, convert_layout, converted_shape, default_layout, named_shape
from poolcli.message_fields import field
from poolcli.ops.array_interop import as_array
from poolcli.plan.attributes import with_both_ends

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

Shape = tuple[int, ...]
Layouts = tuple[str, str]  # of the input and of the output


def identify(
    x: ArrayLike, y: ArrayLike, *, also: Iterable[tuple[ArrayLike, ArrayLike]] = (), op: str | None = None,
    layout: str | None = None, output_layout: str | None = None, atol: float = 0, rtol: float = 0, **given: Any,
) -> list[Candidate]:  # fmt: skip
    """Find the operator, attributes and framework that turn one array into another.

    The search covers kernels up to 11, about as long as a window's share, and the whole input; dilations up to 3; pads
    shorter than the kernel; powers 1 to 4.

    Parameters
    ----------
    x, y : array_like
        The whole input and the whole output: `[N, C, spatial...]`, channels last, or as `layout` says.
    also : iterable of (array_like, array_like), optional
        Further inputs and outputs of the same pooling, of any size: what is found holds for all.
    op : str, optional
        Operator, such as "max"; default: all are tried.
    layout : str, optional
        One letter per axis of the input; default: channels first and channels last are tried.
    output_layout : str, optional
        The same of the output; default: the input's, or where lengths contradict that, another usual one.
    atol, rtol : float, default 0
        Elements of the output may differ by `atol + rtol * abs(y)`, beside what rounding explains.
    **given
        Attributes that keep these values, such as `kernel=3` or `like="onnx"`.

    Returns
    -------
    list of Candidate
        Best first: exact ones, then those that differ by rounding; if there are none, the nearest alone. A candidate
        `fits` if every element is equal, or as near as rounding and the tolerance allow; `deviation` has the error,
        and `noise` the `atol` with which the nearest fits, where its differences are small.

    Raises
    ------
    RequestError
        If no axis is pooled, or the arrays cannot belong to one pooling.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((1, 2, 9, 9)).astype("float32")
    >>> from poolcli import max_pool
    >>> best = identify(x, max_pool(x, 3, strides=2, pads_begin=1, pads_end=1))[0]
    >>> best.op.name, best.plan.attributes["kernel"], best.plan.attributes["pads_begin"], best.deviation.exact
    ('max', [3, 3], [1, 1], True)
    """
    check_tolerances(atol, rtol)
    pairs = [(as_array(x), as_array(y)), *map(_pair, also)]
    held = Constraints(op, with_both_ends(given))
    searches = []
    for own, other in _layouts([(a.shape, b.shape) for a, b in pairs], layout, output_layout):
        both = [Pair(a, convert_layout(b, other, own), own, atol, rtol) for a, b in pairs]
        searches.append((Search(both, held), None if other == own else other))
    for search, elsewhere in searches:
        if fitting := search.fitting():
            first, *others = [replace(each, output_layout=elsewhere) for each in fitting]
            apart = [distinguishing_input(first.op, first.plan, each.op, each.plan) for each in others]
            return [first, *(replace(each, apart=difference) for each, difference in zip(others, apart, strict=True))]
    near = [
        (found[0], replace(found[1], output_layout=elsewhere))
        for search, elsewhere in searches
        if (found := search.nearest())
    ]
    if not near:
        made = " and ".join(f"{_listed(b.shape)} of one of {_listed(a.shape)}" for a, b in pairs)
        larger = len(pairs) == 1 and pairs[0][1].size > pairs[0][0].size
        raise RequestError(
            f"no pooling that is searched makes an array of {made}" + ("; give the larger one first" if larger else "")
        )
    return [min(near, key=lambda found: found[0])[1]]


def _pair(given: Any) -> tuple[Array, Array]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestError(f"{field('also')} takes pairs of an input and an output, such as [(x2, y2)]")
    x, y = map(as_array, given)
    return x, y


def _layouts(shapes: Sequence[tuple[Shape, Shape]], layout: str | None, output_layout: str | None) -> list[Layouts]:
    """The layouts in which all arrays can be inputs and outputs, the same of both if there are such; refused where
    there are none.
    """
    able = []
    for number, (shape, output) in enumerate(shapes, 1):
        try:
            able.append(_layouts_of(shape, output, layout, output_layout))
        except RequestError as error:
            raise error.at(f"pair {number}") if len(shapes) > 1 else error from None
    shared = [each for each in able[0] if all(each in others for others in able)]
    if not shared:
        found = [dict.fromkeys(own if own == other else f"{own} to {other}" for own, other in each) for each in able]
        told = ", ".join(f"pair {number}: {' or '.join(each)}" for number, each in enumerate(found, 1))
        raise RequestError(f"the pairs are in no common layout ({told}); give pairs of one layout")
    return [each for each in shared if each[0] == each[1]] or shared


def _layouts_of(shape: Shape, output: Shape, layout: str | None, output_layout: str | None) -> list[Layouts]:
    """All layouts in which the arrays can be input and output."""
    rank, of_output = len(shape), len(output)
    if 0 in (*shape, *output):
        raise RequestError("an empty array cannot be identified")
    inputs = [check_layout(layout, rank)] if layout else _usual(rank)
    if output_layout:
        if len(output_layout) != of_output:
            named = field("output_layout")
            raise RequestError(
                f"{named} names {len(output_layout)} axes, but the output has {of_output}; name each axis"
            )
        outputs = [check_layout(output_layout, of_output)]
    else:
        outputs = [*(inputs if rank == of_output else ()), *_usual(of_output)]
    able = [each for each in product(inputs, dict.fromkeys(outputs)) if _agree(shape, output, *each)]
    if not able and rank != of_output:
        raise RequestError(f"the input has {rank} axes and the output {of_output}; pooling keeps the number of axes")
    if not able:
        raise RequestError(
            f"input {named_shape(inputs[0], shape)} and output {named_shape(outputs[0], output)} differ along N or C"
            + ("" if layout else f"; name the axes with {field('layout')} if these are wrong")
        )
    return able


def _usual(rank: int) -> list[str]:
    """Layouts that arrays of so many axes usually have."""
    if rank < 3:
        return {1: ["W"], 2: ["HW", "CW"]}.get(rank, [])
    first = default_layout(rank)
    return [first, f"N{first[2:]}C", *(("CHW", "HWC") if rank == 3 else ())]


def _agree(shape: Shape, output: Shape, own: str, other: str) -> bool:
    """Whether an output in the layout `other` can be that of an input in the layout `own`: N and C are kept."""
    try:
        converted = converted_shape(output, other, own)
    except RequestError:
        return False
    return all(a == b for a, b, letter in zip(shape, converted, own, strict=True) if letter in "NC")


def _listed(shape: Shape) -> str:
    return ",".join(map(str, shape))
