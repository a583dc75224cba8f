"""How far two arrays are from each other, held against numpy and against the definition."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from poolcli import RequestError, compare
from poolcli.explain import diff_arrays
from tests.conftest import Cli

FLOATS = arrays(np.float32, (2, 3), elements=st.floats(width=32, allow_nan=True, allow_infinity=True))


@given(FLOATS, FLOATS, st.sampled_from([0, 1e-3, 2.0]), st.sampled_from([0, 1e-5, 0.5]))
def test_what_differs_is_what_numpy_calls_not_close(
    x: NDArray[np.float32], y: NDArray[np.float32], atol: float, rtol: float
) -> None:
    close = np.isclose(x.astype(np.float64), y.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
    assert compare(x, y, atol=atol, rtol=rtol).different == int((~close).sum())


def test_a_difference_has_no_truth_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"use \.equal, or \.exact"):
        assert compare([1], [2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("steps", [1, 5])
def test_ulps_are_steps_from_neighbour_to_neighbour_through_zero_too(dtype: type, steps: int) -> None:
    for start in (1.0, -1.0, 0.0, -np.finfo(dtype).tiny):
        x = y = dtype(start)
        for _ in range(steps):
            y = np.nextafter(y, dtype(np.inf))
        assert compare([x], [y]).max_ulp == steps
    assert compare([dtype(0.0)], [dtype(-0.0)]).max_ulp == 0
    found = compare(np.array([np.nan, -1, 1e-3], dtype), np.array([0, -1.25, 1.5e-3], dtype))
    assert (found.where, found.where_ulp) == ((0,), (2,))  # nan, and half of a small number


@given(
    arrays(np.uint64, (4,), elements=st.integers(0, 2**64 - 1)),
    arrays(np.uint64, (4,), elements=st.integers(0, 2**64 - 1)),
)
def test_integers_of_64_bits_keep_every_digit(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> None:
    apart = [abs(int(a) - int(b)) for a, b in zip(x, y, strict=True)]
    found = compare(x, y)
    assert (found.max_ulp, found.different) == (max(apart), sum(n > 0 for n in apart))
    assert found.max_abs == float(max(apart))


def test_numbers_of_64_bits_that_float64_cannot_tell_apart_differ_all_the_same() -> None:
    found = compare(np.array([2**62 + 1]), np.array([float(2**62)]))
    assert (found.different, found.where, found.max_ulp) == (0, None, None)  # numpy compares them as float64
    assert compare(np.array([2**62 + 1]), np.array([2**62])).max_abs == 1


@pytest.mark.parametrize("orders", ["<<", "<>", "><", ">>"])
@pytest.mark.parametrize(("kind", "ulps"), [("f2", 256), ("f4", 2**21), ("f8", 2**50), ("i4", 1), ("u8", 1)])
def test_the_order_of_bytes_changes_no_number(orders: str, kind: str, ulps: int) -> None:
    x, y = (np.array(pair, order + kind) for order, pair in zip(orders, ([2, 4], [2, 5]), strict=True))
    found = compare(x, y)
    assert found == compare(x.astype(kind), y.astype(kind))
    assert (found.max_abs, found.max_ulp) == (1, ulps)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_without_elements_are_equal(shape: tuple[int, ...]) -> None:
    found = compare(np.zeros(shape), np.ones(shape))
    assert (found.equal, found.elements, found.max_abs) == (True, 0, 0)


def test_errors_that_numpy_would_raise_for_the_program_are_not_raised() -> None:
    x = np.array([1.7e308, np.inf, np.nan, 5e-324])
    with np.errstate(all="raise"):
        assert compare(x, -x, rtol=1e300).max_abs == np.inf


def test_parts_are_compared_as_the_whole_is(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((7, 3, 4)).astype(np.float32)
    y = x.copy()
    y[5, 1, 2] += 3
    y[0, 0, 0] += 1
    whole = compare(x, y)
    monkeypatch.setattr(diff_arrays, "CHUNK", 5)
    assert compare(x, y) == whole
    assert (whole.different, whole.where) == (2, (5, 1, 2))


def test_what_has_no_common_shape_or_is_no_number_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^the shapes differ: 2 and 3; compare arrays of the same shape "):
        compare([1, 2], [1, 2, 3])
    with pytest.raises(RequestError, match=r"^str32 and int64 cannot be compared: numbers are needed$"):
        compare(np.array(["a"]), [1])


PLACES = {
    "last column": ((..., slice(-1, None)), "last W"),
    "both ends": ((..., [0, -1]), "both ends of W"),
    "one channel": ((slice(None), 1), "C=1 alone"),
    "a block": ((..., slice(1, 3), slice(4, 7)), "H from 1 to 2; W from 4 to 6"),
    "one element": ((0, 1, 2, 3), "a single element"),
    "first row and column": ((..., [0, 0, 3], [1, 7, 0]), "only the border of H and W"),
    "all": ((...,), "everywhere"),
    "scattered": ((..., [0, 2, 3, 5], [1, 0, 6, 3]), "scattered"),
}


@pytest.mark.parametrize("name", PLACES)
def test_it_is_said_where_the_differences_lie(name: str, cli: Cli, folder: Path) -> None:
    place, words = PLACES[name]
    x = np.zeros((2, 3, 6, 8), np.float32)
    np.save("a.npy", x)
    x[place] = 1  # type: ignore[index]  # any index
    np.save("b.npy", x)
    result = cli("compare", "a.npy", "b.npy")
    assert (result.code, result.err) == (1, "")
    assert f"where    {words}\n" in result.out


SCREEN = """\
different: 12 of 96 elements
A        N=1 C=2 H=6 W=8  float32  x.npy
B        N=1 C=2 H=6 W=8  float32  y.npy
largest  0.5, at N=0 C=0 H=0 W=7: 7.0 and 7.5
ulp      at most 1,048,576, at N=0 C=0 H=0 W=7
mean     0.0625
where    last W
"""


def test_two_files_are_compared_on_a_screen_and_as_json(cli: Cli, folder: Path) -> None:
    y = np.load("x.npy")
    y[..., -1] += 0.5
    np.save("y.npy", y)
    assert cli("compare", "x.npy", "y.npy").out == SCREEN
    assert cli("compare", "x.npy", "y.npy", "--atol", "0.5").code == 0
    assert cli("compare", "x.npy", "y.npy", "--rtol", "0.01", "--json").json == {
        "schema_version": 1,
        "a": {"path": "x.npy", "dtype": "float32"},
        "b": {"path": "y.npy", "dtype": "float32"},
        "shape": [1, 2, 6, 8],
        "layout": "NCHW",
        "equal": False,
        "elements": 96,
        "different": 6,
        "max_abs": 0.5,
        "mean_abs": 0.0625,
        "max_ulp": 1048576,
        "where_ulp": [0, 0, 0, 7],
        "where": [0, 0, 0, 7],
        "error": None,
    }


def test_a_number_beside_nan_has_no_distance(cli: Cli, folder: Path) -> None:
    y = np.load("x.npy")
    y[0, 1, 2, 3] = np.nan
    np.save("y.npy", y)
    shown = cli("compare", "x.npy", "y.npy").out.splitlines()[3:5]
    assert shown == ["largest  nan, at N=0 C=1 H=2 W=3: 67.0 and nan", "mean     nan"]


def test_a_file_that_is_not_there_is_nothing_that_differs(cli: Cli, folder: Path) -> None:
    for names in (("x.npy", "nope.npy"), ("bad.npy", "x.npy")):
        assert cli("compare", *names).code == 2


def test_a_picture_is_compared_with_the_tensor_that_was_made_of_it(cli: Cli, folder: Path) -> None:
    for output in ("a.png", "a.npy"):
        assert cli("avg", "photo.png", "-o", output, "-k", "2", "-s", "2", "-q").code == 0
    result = cli("compare", "a.png", "a.npy")
    assert (result.code, result.out.splitlines()[0]) == (0, "equal: all 36 elements")


@pytest.mark.usefixtures("here")
def test_arrays_are_compared_in_the_process_that_reads_them(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """To send arrays to another one takes their memory again."""

    def refuse(*_: object, **__: object) -> None:
        raise RequestError(f"process {os.getpid()}")

    monkeypatch.setattr(diff_arrays, "compare", refuse)
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.zeros((1, 1, 4, 4))
    ours = f"process {os.getpid()}\n"
    np.save("x.npy", np.zeros((1, 1, 4, 4)))
    assert cli("compare", "x.npy", "x.npy").err.endswith(ours)
    assert "process" in (told := cli("compare", "x.npy", "x.h5").err)
    assert not told.endswith(ours)
