"""Numbers that stand for no value leave their windows: against a slow loop, on both engines, in files and folders."""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import poolcli
from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    LpPool,
    MaxPool,
    MinPool,
    ModePool,
    RequestError,
    SumPool,
)
from poolcli.arguments import Engine
from poolcli.dtypes import lookup
from poolcli.engine import call_of, run
from poolcli.plan import Plan
from poolcli.plan.plan import parts_of, whole
from tests.conftest import Cli
from tests.profiles import sized, slow

NAN = math.nan
ENGINES = ("numpy", "numba")
OPERATORS: tuple[Any, ...] = (
    AvgPool(2, strides=1),
    AvgPool(3, strides=2, pads=1, rounding_type="ceil", exclude_pad=False),
    AvgPool((2, 3), strides=2, dilations=2, divisor_override=-5),
    AvgPool(3, strides=(1, 2), auto_pad="same_upper"),
    AdaptiveAvgPool((3, 9)),
    MaxPool(3, strides=2, pads=1, rounding_type="ceil"),
    MaxPool(2, strides=3, rounding_type="ceil"),
    MinPool((1, 4), strides=2, dilations=(1, 2)),
    AdaptiveMaxPool((4, 3)),
    LpPool(3, strides=2, p=1),
    LpPool(2, strides=2, p=2),
    ModePool(3, strides=2),
    ModePool((2, 3), strides=1, dilations=(2, 1)),
)

pytestmark = pytest.mark.usefixtures("here")


def by_loop(plan: Plan, x: Any) -> tuple[list[Any], list[int]]:
    """Values (exact fractions of sums; of a norm its power) and plane positions, window by window.

    A string says what a window without elements gives: `input` where it has none, `missing` where none is left.
    """
    values, places, missing = list[Any](), list[int](), {str(float(number)) for number in plan.missing}
    for n, c in product(range(x.shape[0]), range(x.shape[1])):
        for o in product(*(range(w.output) for w in plan.windows)):
            cells = list(product(*(w.span(i) for w, i in zip(plan.windows, o, strict=True))))
            inside = [(x[(n, c, *cell)].item(), int(np.ravel_multi_index(cell, x.shape[2:]))) for cell in cells]
            kept = [(value, at) for value, at in inside if str(float(value)) not in missing]
            places.append(-1)
            if not kept:
                values.append("missing" if inside else "input")
            elif plan.reducer.better is not None:
                value, places[-1] = kept[0]
                for other, at in kept[1:]:
                    if plan.reducer.better(other, value):
                        value, places[-1] = other, at
                values.append(value)
            elif plan.reducer.votes:
                labels = [value for value, _ in kept]
                values.append(min(set(labels), key=lambda label: (-labels.count(label), label)))
            else:
                power = plan.reducer.power
                total = sum(Fraction(v) if power is None else Fraction(abs(v)) ** int(power) for v, _ in kept)
                divisor = plan.divisor_override or 1
                if plan.reducer.divides and plan.divisor_override is None:
                    divisor = math.prod(w.divisor(i) for w, i in zip(plan.windows, o, strict=True))
                    divisor -= len(inside) - len(kept)
                values.append(total / divisor)
    return values, places


def as_stored(plan: Plan, value: Any) -> Any:
    """What the plan's output has for a value of `by_loop`."""
    target = lookup(plan.output_dtype)
    if value == "missing":
        return NAN if target.kind == "float" else plan.missing[0]
    if value == "input":
        if plan.reducer.picks:
            return target.ends[plan.reducer.nothing]
        return 0 if not plan.reducer.divides or plan.divisor_override else NAN
    if plan.reducer.power == 2:
        value = math.sqrt(value)
    if not target.is_integer:
        return np.asarray(float(value)).astype(plan.output_dtype).item()
    stored, missing = round(value), plan.missing[0]
    if stored != missing or plan.reducer.picks or plan.reducer.votes:
        return stored
    return 1 if missing == 0 else missing - (1 if missing > 0 else -1)  # which readers take for a number


@settings(max_examples=sized(60, 400), derandomize=True)
@given(
    st.sampled_from(OPERATORS),
    st.sampled_from(["uint8", "int16", "int64", "uint64", "float16", "float32", "float64"]),
    st.sampled_from([0.1, 0.5, 0.95]),
    st.integers(0, 2**32 - 1),
)
def test_windows_without_missing_elements_are_those_of_a_slow_loop(
    op: Any, dtype: str, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    integer = "int" in dtype
    limits = np.iinfo(dtype) if integer else None
    x = (
        rng.integers(limits.min, limits.max, (2, 2, 7, 8), dtype, endpoint=True)
        if limits
        else rng.normal(size=(2, 2, 7, 8))
    )
    x = x.astype(dtype)
    if isinstance(op, ModePool) and integer:
        x %= 4  # so that labels occur several times
    number = x.ravel()[0].item() if integer else rng.choice([NAN, -7.0, math.inf, 0.0])
    x[rng.random(x.shape) < share] = number
    numbers = [number, x.ravel()[-1].item()]
    output = "float64" if isinstance(op, LpPool) or (integer and isinstance(op, AvgPool)) else None
    try:
        plan = op.plan(x.shape, dtype, output_dtype=output, missing=numbers)
    except RequestError:  # windows of no input, of which integers have no average
        return
    values, places = by_loop(plan, x)
    found, _ = run(plan, x, engine="numpy")
    exact = output is None and not (dtype == "float64" and plan.reducer.divides)
    expected = np.array([as_stored(plan, value) for value in values], plan.output_dtype).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=0 if exact else 1e-15, atol=0)
    if plan.index:
        plane = type(op)(**{**vars(op), "axis": 2}) if hasattr(op, "axis") else op
        _, at = run(plane.plan(x.shape, dtype, missing=numbers), x, engine="numpy", indices=True)
        assert at is not None
        assert at.ravel().tolist() == places


@pytest.mark.compiles
@pytest.mark.parametrize("op", [OPERATORS[0], OPERATORS[5], *map(slow, OPERATORS[1:5] + OPERATORS[6:])], ids=str)
def test_no_bit_depends_on_the_engine_or_the_cut(op: Any) -> None:
    rng = np.random.default_rng(4)
    dtype = "int32" if op.reducer.votes else "float32"
    x = (rng.normal(size=(2, 3, 11, 13)) * 3).astype(dtype)
    x[rng.random(x.shape) < 0.2] = -9
    plan = op.plan(x.shape, dtype, missing=-9)
    (values, at), (others, other_at) = (
        run(plan, x, engine=engine, indices=plan.index is not None) for engine in ENGINES
    )
    np.testing.assert_array_equal(values.view("int32"), others.view("int32"))
    np.testing.assert_array_equal(at, other_at)
    for most in (1, 300, 2000):
        for part in parts_of(whole(plan), most):
            reads, outputs = (tuple(slice(r.start, r.stop) for r in ranges) for ranges in (part.reads, part.outputs))
            cut, cut_at = call_of(part, indices=at is not None)(x[reads])
            np.testing.assert_array_equal(cut.view("int32"), values[outputs].view("int32"))
            if at is not None:
                np.testing.assert_array_equal(cut_at, at[outputs])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_without_missing_elements_is_pooled_as_ever(engine: str) -> None:
    x = np.random.default_rng(1).normal(size=(1, 3, 9, 9)).astype("float32")
    x[0, 0, 4, 4] = NAN
    for op in (OPERATORS[0], OPERATORS[5]):
        with_number, without = (op(x, missing=number, engine=engine) for number in (-9999, None))
        np.testing.assert_array_equal(with_number.view("int32"), without.view("int32"))


def test_nan_and_several_numbers_can_be_missing() -> None:
    x = np.array([[[1, NAN, 3, -1, 5, NAN, -1, 8]]], "float32")
    assert poolcli.avg_pool(x, 2, strides=2, missing=(NAN, -1)).tolist() == [[[1, 3, 5, 8]]]
    values, at = poolcli.max_pool(x, 2, strides=2, missing=[np.float64(NAN), 8], return_indices=True)
    assert (values.tolist(), at.tolist()) == ([[[1, 3, 5, -1]]], [[[0, 2, 4, 6]]])


def test_a_window_of_missing_elements_alone_gives_nan_or_the_number_again() -> None:
    x = np.array([[[-9, -9, 4, -9]]])
    assert poolcli.avg_pool(x, 2, strides=2, missing=-9).tolist() == [[[-9, 4]]]
    values, at = poolcli.min_pool(x, 2, strides=2, missing=-9, return_indices=True)
    assert (values.tolist(), at.tolist()) == ([[[-9, 4]]], [[[-1, 2]]])
    for op in (
        AvgPool(2, strides=2, exclude_pad=False),
        AvgPool(2, strides=2, divisor_override=3),
        LpPool(2, strides=2),
        MaxPool(2, strides=2),
    ):
        found = op(x.astype("float32"), missing=-9)
        assert math.isnan(found[0, 0, 0])


REFUSED = (
    ("a word", "x", "missing is 'x'; a number, as float('nan'), or several are needed"),
    ("a truth value", True, "missing is True; a number, as float('nan'), or several are needed"),
    (
        "an array of two axes",
        np.zeros((2, 2)),
        "missing is [0.0, 0.0]; a number, as float('nan'), or several are needed",
    ),
    ("a number of another type", 300, "missing=300 does not fit uint8, which holds whole numbers from 0 to 255"),
    ("a fraction", 0.5, "missing=0.5 does not fit uint8, which holds whole numbers from 0 to 255"),
    ("nan", NAN, "missing=nan does not fit uint8, which holds whole numbers from 0 to 255"),
    ("a very long number", 10**400, "missing is a whole number beyond 2**64; give larger ones as floats"),
)


@pytest.mark.parametrize(("value", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_no_element_can_be_is_refused(value: Any, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        poolcli.avg_pool(np.zeros((1, 1, 4), "uint8"), 2, missing=value)
    assert (str(caught.value), caught.value.field) == (message, "missing")


def test_a_number_that_is_infinite_in_a_float_type_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^missing=1e\+39 does not fit float32, in which it is infinite$"):
        poolcli.avg_pool(np.zeros((1, 1, 4), "float32"), 2, missing=1e39)


LEFT_OUT = "are missing and excluded; windows without other elements give "


@pytest.fixture
def tide() -> None:
    """`tide.h5` with a fill value, another missing value and one that its type does not have, and `tide.npy`."""
    x = np.array([[[[1, -99, 3, -99], [-99, 5, -99, -98]]]], "int16")
    np.save("tide.npy", x)
    with h5py.File("tide.h5", "w") as file:
        file["level"] = x
        file["level"].attrs["_FillValue"] = np.int16(-99)
        file["level"].attrs["missing_value"] = np.array([-98.0, 1e20])


def pooled(cli: Cli, source: str, *arguments: str) -> tuple[list[Any], list[str]]:
    result = cli("avg", source, "-o", "y.npy", "-k", "2", "-s", "2", "--json", "--overwrite", *arguments)
    assert result.code == 0, result.err
    return np.load("y.npy").ravel().tolist(), [
        note for note in result.json["notes"] if "missing" in note or "nodata" in note
    ]


def test_what_an_hdf5_file_calls_missing_does_not_vote(cli: Cli, tide: None) -> None:
    assert pooled(cli, "tide.h5") == ([3, 3], [f"elements equal to -99 and -98 {LEFT_OUT}-99 again"])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_what_xarray_calls_missing_in_a_zarr_store_does_not_vote(version: Any, dtype: str, cli: Cli) -> None:
    array: Any = zarr.create_array("x.zarr", shape=(1, 1, 1, 4), dtype=dtype, zarr_format=version)
    array[...] = [[[[1, 9, 9, 9]]]]
    nine = base64.standard_b64encode(struct.pack("<d", 9)).decode()  # as xarray writes floats
    array.attrs["_FillValue"] = nine if dtype == "float32" else 9
    result = cli("max", "x.zarr", "-o", "y.npy", "-k", "1,2", "-s", "1,2", "--json")
    assert result.code == 0, result.err
    np.testing.assert_array_equal(np.load("y.npy").ravel(), [1, NAN if dtype == "float32" else 9])
    assert any(note.startswith("elements equal to 9 are missing") for note in result.json["notes"])


@pytest.mark.parametrize(
    ("stored", "dtype", "fill", "number", "held"),
    [
        ("float64", "float32", -1.7976931348623157e308, "-1.79769313e+308", False),
        ("float32", "float16", 9.969209968386869e36, "9.96920997e+36", False),
        ("float64", "float32", 3.4028235677973366e38, "3.40282357e+38", False),
        ("float64", "float32", 3.4028235677973362e38, "3.40282357e+38", True),
        ("float32", "float16", 65519.0, "65519", True),
        ("float64", "float32", -np.inf, "-inf", True),
    ],
)
def test_a_type_in_which_the_nodata_value_of_the_file_is_infinite_is_refused(
    stored: str, dtype: str, fill: float, number: str, held: bool, cli: Cli,
) -> None:  # fmt: skip
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.array([[[fill, fill, 1, 3]]], stored)
        file["x"].attrs["_FillValue"] = np.array(fill, stored)
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--dtype", dtype, "-q")
    if held:
        with h5py.File("y.h5") as file:
            assert (result.err, file["x"][0, 0].tolist()) == ("", [file["x"].attrs["_FillValue"], 2])
        return
    with h5py.File("x.h5", "a") as file:  # a number that is infinite in the attributes alone
        file["x"].attrs.update(missing_value=np.array([fill, 7], stored))
        file.copy("x", "z")
        file["z"].attrs["_FillValue"] = np.array(-9, stored)
    assert cli("avg", "x.h5:/z", "-o", "z.h5", "-k", "2", "-s", "2", "--dtype", dtype, "-q").err == ""
    assert (result.code, result.err) == (
        2,
        f"poolcli: x.h5: --dtype {dtype} cannot hold the nodata value of the file, {number}; use --dtype {stored}, "
        "or write .npy, in which windows of missing values become nan\n",
    )
    np.testing.assert_equal(pooled(cli, "x.h5:/x", "--dtype", dtype)[0], [NAN, 2])


def test_another_number_or_none_can_be_said(cli: Cli, tide: None) -> None:
    said = "the file's nodata value (-99, -98.0) is pooled like any other number"
    assert pooled(cli, "tide.h5", "--missing", "none") == ([-48, -73], [said])
    said = "the file's nodata value (-98.0) is pooled like any other number"
    kept = f"elements equal to -99 {LEFT_OUT}-99 again"
    assert pooled(cli, "tide.h5", "--missing", "-99") == ([3, -48], [kept, said])


def test_a_number_is_the_same_in_any_type(cli: Cli, tide: None) -> None:
    with h5py.File("tide.h5", "a") as file:
        file["level"].attrs["missing_value"] = np.array([-99.0])
        file["tenths"] = file["level"][()].astype("float32") / np.float32(10)
        file["tenths"].attrs["_FillValue"] = np.float32(-9.9)
    assert pooled(cli, "tide.h5:/level")[1] == [f"elements equal to -99 {LEFT_OUT}-99 again"]
    assert pooled(cli, "tide.h5:/tenths", "--missing", "-9.9")[1] == [f"elements equal to -9.9 {LEFT_OUT}nan"]


def test_the_command_line_takes_numbers_for_any_array(cli: Cli, tide: None) -> None:
    notes = [f"elements equal to -99 and 5 {LEFT_OUT}nan"]
    more = ("--missing", "-99", "--missing", "5", "--dtype", "float32")
    assert pooled(cli, "tide.npy", *more) == ([1, -47.5], notes)
    result = cli("max", "tide.npy", "-k", "2", "-n", "--missing", "-99")
    assert f"elements equal to -99 {LEFT_OUT}-99 again, the index -1" in " ".join(result.out.split())


def test_a_word_is_refused_once_for_all_files(cli: Cli, tide: None) -> None:
    result = cli("avg", "tide.npy", "tide.h5", "-o", "out/", "-k", "2", "--missing", "x")
    said = "poolcli: --missing is 'x'; write a number, nan, or none (no nodata value)\n"
    assert (result.code, result.out, result.err) == (2, "", said)


def test_colours_that_are_weighted_are_no_numbers_of_which_some_are_missing(cli: Cli, folder: Path) -> None:
    result = cli("avg", "photo.png", "-o", "y.png", "-k", "2", "--missing", "0", "--linear-light")
    said = (
        "poolcli: photo.png: --missing is for numbers, and these are colours "
        "(averaged in linear light (sRGB curve)); leave it out\n"
    )
    assert (result.code, result.err) == (2, said)


LOST = np.array([[-9999, -9999, 3, 5], [-9999, -9999, 4, -9999]], "float32")
SAID = f"elements equal to -9999 {LEFT_OUT}"


@pytest.fixture
def lost() -> None:
    """`x.h5` with a fill value of floats."""
    with h5py.File("x.h5", "w") as file:
        file["a"] = LOST
        file["a"].attrs["_FillValue"] = np.float32(-9999)


@pytest.mark.parametrize("more", [(), ("--dtype", "float64"), ("--all",)], ids=" ".join)
def test_what_hdf5_attributes_call_missing_stays_so(more: tuple[str, ...], cli: Cli, lost: None) -> None:
    result = cli("avg", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "HW", "--json", *more)
    assert (result.code, result.json["notes"][0]) == (0, SAID + "-9999 again")
    with h5py.File("y.h5") as file:
        assert file["a"].attrs["_FillValue"] == -9999
        assert file["a"][()].tolist() == [[-9999, 4]]


def test_the_number_is_the_one_of_the_attribute_whatever_is_missing(cli: Cli, lost: None) -> None:
    more = ("--missing", "3", "--missing", "5", "--missing", "4", "--missing", "-9999")
    assert cli("max", "x.h5", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "HW", *more).code == 0
    with h5py.File("y.h5") as file:
        assert file["a"][()].tolist() == [[-9999, -9999]]


def test_a_format_that_names_no_number_has_nan(cli: Cli, lost: None) -> None:
    assert pooled(cli, "x.h5", "--layout", "HW")[1] == [SAID + "nan"]
    np.testing.assert_array_equal(np.load("y.npy"), [[NAN, 4]])
    assert cli("avg", "x.h5", "-o", "y.tif", "-k", "2", "-s", "2", "--layout", "HW", "--json").json["notes"] == [
        SAID + "nan"
    ]


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_every_page_of_a_tiff_names_its_nodata_value(compression: str | None, cli: Cli) -> None:
    tags = [(42113, "s", 0, "-9999", False)]
    pages = np.stack([LOST, LOST])
    tifffile.imwrite("x.tif", pages, photometric="minisblack", compression=compression, metadata=None, extratags=tags)
    assert cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", "2").code == 0
    with tifffile.TiffFile("y.tif") as file:
        found: list[Any] = list(file.pages)
        assert [(page.nodata, page.asarray().tolist()) for page in found] == [(-9999, [[-9999, 4]])] * 2


def test_a_turned_tiff_keeps_its_nodata_value(cli: Cli) -> None:
    tags = [(42113, "s", 0, "-9999", True), (274, "H", 1, 3, True)]
    tifffile.imwrite("x.tif", LOST, metadata=None, extratags=tags)
    assert cli("avg", "x.tif", "-o", "y.tif", "-k", "2", "-s", "2").code == 0
    with tifffile.TiffFile("y.tif") as file:
        page: Any = file.pages[0]
        assert (page.nodata, page.asarray().tolist()) == (-9999, [[4, -9999]])


def of_xarray(path: str, version: int, dtype: str = "float32") -> Any:
    """A store that xarray writes: `a`, which lacks a corner, without and with a fill value, and coordinates from 0."""
    import xarray

    values = np.where(LOST == -9999, NAN, LOST)[None]
    counts = (("time", "y", "x"), np.zeros((1, 2, 4), "int16"))
    times = np.array(["2000-01-01"], "M8[ns]")
    found = xarray.Dataset(
        {"a": (("time", "y", "x"), values), "counts": counts},
        {"time": times, "x": ("x", np.arange(4))},
    )
    encoding = {"a": {"_FillValue": -9999, "dtype": dtype}}
    found.to_zarr(path, zarr_format=version, consolidated=False, encoding=encoding)
    return xarray


@pytest.mark.heavy
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("dtype", "more"), [("float32", ()), ("int16", ("--dtype", "float32")), ("int16", ())])
def test_xarray_finds_the_same_missing_in_a_zarr_store(
    version: int, dtype: str, more: tuple[str, ...], cli: Cli
) -> None:
    xarray = of_xarray("x.zarr", version, dtype)
    how = ("-k", "2", "-s", "2", "--layout", "CHW")
    assert cli("avg", "x.zarr:/a", "-o", "y.zarr", *how, *more).code == 0
    with xarray.open_zarr("y.zarr", consolidated=False) as found:
        assert found.a.encoding["_FillValue"] == -9999
        np.testing.assert_array_equal(found.a, [[[NAN, 4]]])
        assert found.time.values.tolist() == np.array(["2000-01-01"], "M8[ns]").tolist()
        assert found.x.values.tolist() == [0.5, 2.5]
    assert cli("avg", "x.zarr:/counts", "-o", "z.zarr", *how).code == 0
    with xarray.open_zarr("z.zarr", consolidated=False) as found:
        assert found.counts.values.tolist() == [[[0, 0]]]


@pytest.mark.heavy
def test_what_xarray_calls_missing_in_zarr_2_becomes_an_attribute_of_hdf5(cli: Cli) -> None:
    xarray = of_xarray("x.zarr", 2)
    assert cli("avg", "x.zarr:/a", "-o", "y.h5", "-k", "2", "-s", "2", "--layout", "CHW").code == 0
    with h5py.File("y.h5") as file:
        assert (file["a"].attrs["_FillValue"], file["a"][()].tolist()) == (-9999, [[[-9999, 4]]])
    assert cli("avg", "y.h5", "-o", "z.zarr", "-k", "1", "--layout", "CHW").code == 0
    with xarray.open_zarr("z.zarr", consolidated=False) as found:
        np.testing.assert_array_equal(found.a, [[[NAN, 4]]])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "said", "kept"),
    [
        ("uint8", NAN, NAN), ("uint8", 300, 300), ("uint8", 4.0, 4), ("uint8", 10**400, 10**400),
        ("float32", 10**400, 10**400),
        ("float32", 1e300, base64.standard_b64encode(struct.pack("<d", 1e300)).decode()),  # as xarray writes it
    ],
)  # fmt: skip
def test_what_no_element_can_be_is_no_fill_value_of_zarr(
    version: Any, dtype: str, said: float, kept: object, cli: Cli
) -> None:
    array: Any = zarr.create_array(
        "x.zarr", shape=(2, 4), dtype=dtype, zarr_format=version, fill_value=None if version == 2 else 0
    )
    array[...] = 4
    array.attrs.update({"_FillValue": said, "_ARRAY_DIMENSIONS": ["y", "x"]})
    result = cli("max", "x.zarr", "-o", "y.zarr", "-k", "2", "-s", "2", "--layout", "HW")
    assert result.code == 0, result.err
    found: Any = zarr.open_array("y.zarr", mode="r")
    assert (found[:].tolist(), found.fill_value) == ([[4, 4]], 0)
    np.testing.assert_equal(found.attrs.get("_FillValue"), kept)


def test_the_fill_value_of_a_level_of_a_pyramid_counts(cli: Cli) -> None:
    scales = [{"axes": [{"name": "y"}, {"name": "x"}], "datasets": [{"path": "0"}]}]
    group: Any = zarr.open_group("x.zarr", mode="w", zarr_format=2, attributes={"multiscales": scales})
    array: Any = group.create_array("0", shape=(2, 4), dtype="u1", attributes={"_ARRAY_DIMENSIONS": ["y", "x"]})
    array[:] = [[0, 0, 4, 8], [0, 0, 0, 8]]
    assert cli("avg", "x.zarr:/0", "-o", "y.zarr", "-k", "2", "-s", "2").code == 0
    array = zarr.open_group("y.zarr", mode="r")["0"]
    assert (array[:].tolist(), array.fill_value, array.metadata.dimension_names) == ([[0, 5]], 0, ("y", "x"))
    assert cli("avg", "y.zarr:/0", "-o", "z.npy", "-k", "1,2").code == 0
    assert np.load("z.npy").tolist() == [[2]]


def test_levels_of_a_pyramid_keep_the_nodata_value_of_the_first(cli: Cli, lost: None) -> None:
    assert cli("pyramid", "x.h5", "-o", "y.zarr", "--layout", "HW", "--levels", "2").code == 0
    group: Any = zarr.open_group("y.zarr", mode="r")
    assert group["1"][:].tolist() == [[-9999, 4]]


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize(("least", "needed"), [(1, 1), (3, 3), ("40%", None), ("100%", None)])
@pytest.mark.parametrize(
    "op",
    [AvgPool(3, strides=2, pads=1), MaxPool(3, strides=2, pads=1), SumPool(3, strides=2, pads=1), LpPool(2, strides=2)],
    ids=str,
)
def test_a_window_of_too_few_valid_elements_is_missing(op: Any, least: Any, needed: int | None, engine: Engine) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 12, 13)).astype(np.float32)
    x[np.random.default_rng(2).random(x.shape) < 0.5] = -9
    count = SumPool(**_sliding(op))
    valid, every = (count(each, engine=engine) for each in ((x != -9) * 1.0, np.ones(x.shape)))
    few = valid < needed if needed is not None else valid * 100 < float(least[:-1]) * every
    plain = op(x, missing=-9, engine=engine)
    found = op(x, missing=-9, min_count=least, engine=engine)
    np.testing.assert_array_equal(found, np.where(few, np.nan, plain))
    if op.reducer.picks:
        _, at = op(x, missing=-9, min_count=least, engine=engine, return_indices=True)
        np.testing.assert_array_equal(at < 0, few | np.isnan(plain))


def test_areas_count_as_the_parts_of_elements_that_are_valid() -> None:
    x = np.array([[[4, -9, 6], [4, 6, -9]]], np.float32)  # each cell is 1.5 elements long
    found = AreaPool(2)(x, missing=-9, min_count=1, engine="numpy")
    np.testing.assert_array_equal(found, np.array([[[4, 6], [14 / 3, np.nan]]], np.float32))


def _sliding(op: Any) -> dict[str, Any]:
    return {own.name: getattr(op, own.name) for own in fields(SumPool) if own.name != "like"}


@pytest.mark.parametrize("given", [0, -1, 2.5, True, "half", "0%", "101%", "nan%", ""])
def test_a_minimum_that_is_no_count_or_share_is_refused(given: Any) -> None:
    with pytest.raises(RequestError, match=r"; give a whole number of at least 1, or a share above 0% and up to 100%$"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, missing=1, min_count=given)


def test_a_minimum_needs_missing_values(cli: Any, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="min_count has no effect without missing"):
        poolcli.avg_pool(np.ones((1, 1, 4)), 2, min_count=2)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.array([[[1, -9, -9, -9, 2, 5]]], np.int16))
    result = cli("avg", x, "-o", y, "-k", "2", "-s", "2", "--min-count", "1")
    assert (result.code, "--min-count has no effect: no nodata value is known" in result.out) == (0, True)
    result = cli("avg", x, "-o", y, "-k", "2", "-s", "2", "--min-count", "2", "--missing=-9", "--overwrite")
    assert "windows with fewer than 2 other elements give -9 again" in " ".join(result.out.split())
    assert np.load(y).tolist() == [[[-9, -9, 4]]]


@pytest.mark.parametrize("like", ["openvino", "onnx", "pytorch"])
def test_windows_of_nothing_but_hidden_elements_have_the_index_minus_one(like: str) -> None:
    plan = replace(poolcli.MaxPool(2, strides=2, like=like).plan((2, 3, 4, 6), dtype="uint8"), nodata=0)
    x = np.random.default_rng(0).integers(0, 99, plan.input_shape, "uint8")
    hidden = np.zeros(x.shape, np.bool_)
    hidden[1, :, 2:, 4:] = True
    expected = call_of(whole(plan), indices=True, engine="numpy")(x)[1]
    found = call_of(whole(plan), indices=True, engine="numpy", mask=hidden)(x)[1]
    assert expected is not None
    expected[1, :, 1, 2] = -1
    np.testing.assert_array_equal(found, expected)
