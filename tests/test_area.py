"""Means over areas: exact in rational arithmetic, whatever the ratio, the type and the axes."""

from __future__ import annotations

import warnings
from fractions import Fraction
from math import frexp
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

import poolcli
from poolcli import AreaPool, AvgPool, area_pool, fit_size
from poolcli.engine import call_of, run
from poolcli.engine.choose import engine_notes, refusal
from poolcli.explain import window
from poolcli.formats import parse_source, read_header
from poolcli.plan.plan import Region
from tests.conftest import SAMPLES, Cli
from tests.documents.console import typed
from tests.engine.test_kernels import guarded

BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
TYPES = ("uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64", *BITS)
LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def overlaps(size: int, output: int) -> Any:
    """The share of each element in each cell, from the ends of both."""
    shares = np.zeros((output, size), object)
    for o in range(output):
        low, high = Fraction(o * size, output), Fraction((o + 1) * size, output)
        for i in range(size):
            shares[o, i] = max(Fraction(0), min(high, Fraction(i + 1)) - max(low, Fraction(i))) / (high - low)
    return shares


def exact(x: Any, sizes: tuple[int, ...]) -> Any:
    """The mean over each cell of the last axes, as a fraction."""
    found: Any = np.frompyfunc(Fraction, 1, 1)(np.array(x.tolist(), object).reshape(x.shape))
    for axis, output in zip(range(x.ndim - len(sizes), x.ndim), sizes, strict=True):
        found = np.moveaxis(np.tensordot(overlaps(x.shape[axis], output), found, axes=(1, axis)), 0, axis)
    return found


def numbers(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Integers of the whole range of the type, or floats from 1 to 2."""
    if dtype in BITS:
        return (1 + rng.random(shape)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_is_the_exact_mean_of_its_cell_rounded_once(dtype: str) -> None:
    rng = np.random.default_rng(TYPES.index(dtype))
    for rank, most in ((1, 40), (2, 9), (3, 5)):
        for _ in range(2):
            shape = (1, 2, *(int(n) for n in rng.integers(1, most, rank)))
            sizes = tuple(int(n) for n in rng.integers(1, most, rank))
            x = numbers(rng, shape, dtype)
            expected = exact(x, sizes)
            y = area_pool(x, sizes, layout=LAYOUTS[rank])
            for found, wanted in zip(y.ravel().tolist(), expected.ravel(), strict=True):
                if dtype in BITS:
                    assert abs(Fraction(found) - wanted) <= Fraction(2.0 ** (frexp(found)[1] - BITS[dtype])) / 2
                else:
                    assert found == round(wanted), (shape, sizes)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["uint8", "uint64", "float16", "float32"])
def test_both_engines_give_the_same_bits(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for layout, shape, sizes in (
        ("HW", (31, 47), (7, 12)),
        ("HWC", (31, 47, 3), (9, 47)),
        ("NCHW", (2, 3, 5, 47), (31, 1)),
        ("NWC", (2, 300, 5), (97,)),
    ):
        x, plan = numbers(rng, shape, dtype), AreaPool(sizes).plan(shape, dtype, layout=layout)
        x = x * (-1) ** rng.integers(0, 2, shape).astype(dtype) if dtype in BITS else x
        assert refusal(plan) is None
        expected = run(plan, x, engine="numpy")[0]
        for given in (x, np.asfortranarray(x)):
            with guarded():
                found = run(plan, given, engine="numba", threads=2)[0]
            assert found.tobytes() == expected.tobytes()


def test_areas_of_three_axes_and_of_float64_are_computed_by_numpy() -> None:
    for plan in (AreaPool(2).plan((1, 1, 3, 3, 3)), AreaPool(2).plan((1, 1, 3), "float64")):
        (note,) = engine_notes(plan, "numba")
        assert note == "computed by numpy: numba computes areas of one or two axes, and not of float64"


def test_sums_beyond_64_bits_are_exact() -> None:
    size, output = 2**31 + 1, 2**31 - 1
    plan = AreaPool(output).plan((1, 1, size), "uint32")
    part = Region(plan, (range(1), range(1), range(2**30, 2**30 + 3)))
    x = np.array([[[2**32 - 1, 1, 2**32 - 2, 5, 7]]], "uint32")[..., : part.input_shape[2]]
    low = part.reads[2].start
    for o, found in zip(part.outputs[2], call_of(part)(x)[0].ravel().tolist(), strict=True):
        ends = Fraction(o * size, output), Fraction((o + 1) * size, output)
        shares = [min(ends[1], Fraction(i + 1)) - max(ends[0], Fraction(i)) for i in plan.windows[0].span(o)]
        read = [x[0, 0, i - low].item() for i in plan.windows[0].span(o)]
        assert found == round(sum(a * b for a, b in zip(shares, read, strict=True)) / Fraction(size, output))


def test_cells_of_a_shape_too_long_for_any_table_are_planned() -> None:
    plan = AreaPool(10**12).plan((1, 1, 10**18 + 1))
    (axis,) = plan.axes
    assert window(axis.windows, 1).weights == (10**12 - 1, 10**12, 2)
    assert sum(axis.windows.weight(1, i) for i in (10**6, 2 * 10**6)) + (10**6 - 1) * 10**12 == 10**18 + 1  # type: ignore[union-attr]


def test_missing_elements_leave_their_weights_out_of_the_divisor() -> None:
    x = np.array([[[1, -9, 5, 7, -9]]], "float32")  # of cells of 5 parts: weights 2, 2, 1 and 1, 2, 2
    assert area_pool(x, 2, missing=-9).tolist() == [[[np.float32(7 / 3), np.float32(19 / 3)]]]
    assert area_pool(x.astype("int16"), 2, missing=(-9, 5, 1)).tolist() == [[[-9, 7]]]


@pytest.mark.compiles
def test_whole_ratios_are_those_of_pillows_box() -> None:
    x = np.random.default_rng(0).random((60, 84)).astype("float32")
    box = np.asarray(Image.fromarray(x).resize((12, 20), Image.Resampling.BOX))
    np.testing.assert_allclose(area_pool(x, (20, 12), layout="HW"), box, rtol=2e-6)
    up = np.asarray(Image.fromarray(x).resize((168, 180), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(area_pool(x, (180, 168), layout="HW"), up)


def test_transparent_pixels_count_by_alpha_and_area(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 4), "uint8")
    Image.fromarray(pixels).save(tmp_path / "x.png")
    assert typed(f"$ poolcli area {tmp_path}/x.png -o {tmp_path}/y.png --output-size 2,3")[1] == 0
    channels = pixels.transpose(2, 0, 1)
    alpha = exact(channels[3:], (2, 3))
    colours = exact(channels[:3].astype(object) * channels[3:].astype(object), (2, 3)) / alpha
    expected = np.vectorize(round)(np.concatenate([colours, alpha])).transpose(1, 2, 0)
    with Image.open(tmp_path / "y.png") as image:
        np.testing.assert_array_equal(np.asarray(image), expected)


def test_the_weights_of_each_window_are_explained() -> None:
    plan = AreaPool(3).plan((1, 1, 7))
    assert [w.weights_text for w in plan.explain().axes[0].windows] == ["3, 3, 1", "2, 3, 2", "1, 3, 3"]
    assert "cell 1: 2 and 1/3 to 4 and 2/3, weights 2, 3, 2 of 7" in str(plan.explain())
    assert window(AreaPool(2).plan((1, 1, 15)).axes[0].windows, 1).weights_text == "1, 6 x 2, 2"
    assert plan.divisor_rule == "the sum of the weights; the weight of an element is the part of it in the cell"
    assert "weights 2, 3, 2, divides by 7" in plan.picture().svg()


def test_areas_are_averages_of_a_kernel_at_whole_ratios_alone() -> None:
    whole, part = (AreaPool(3).plan((1, 1, n)) for n in (9, 10))
    assert whole.to("onnx").op == AvgPool((3,), strides=(3,), pads=(0,), dilations=(1,), exclude_pad=True, like="onnx")
    assert part.to("openvino").reason == "OpenVINO has no attributes that give these windows and divisors"
    assert poolcli.AdaptiveAvgPool(3).plan((1, 1, 10)).to("pytorch").op == poolcli.AdaptiveAvgPool((3,), like="pytorch")


def test_areas_are_identified() -> None:
    x = np.random.default_rng(2).random((1, 1, 20, 31)).astype("float32")
    first, *_ = poolcli.identify(x, area_pool(x, (7, 12)), like="openvino")
    assert (first.op, first.fits) == (AreaPool((7, 12)), True)


def test_an_image_that_is_turned_is_warned_about_and_a_squeezed_one_not() -> None:
    photo: Any = np.zeros((48, 64, 3), "uint8")
    turned = "sizes are H,W: for 32 wide and 24 high, use output_size=(24, 32)"
    for _ in range(2):
        with pytest.warns(poolcli.LayoutWarning) as found:
            poolcli.area_pool(photo[..., 0], (32, 24))
        assert [str(each.message) for each in found] == [f"the aspect changes: H=48 W=64 to H=32 W=24; {turned}"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in ((24, 32), (24, 24), (30, 20)):
            poolcli.area_pool(photo, size)


def test_a_changed_aspect_of_an_image_is_noted_with_the_option_that_keeps_it(cli: Cli) -> None:
    note, larger = "the aspect changes: H=192 W=256 to", "elements repeat, nothing is interpolated"
    picture = str(SAMPLES / "astronaut.png")
    notes_of = {
        "30,100": [f"{note} H=30 W=100; to keep it, use --fit 100x30 instead"],
        "32x24": [f"{note} H=32 W=24; sizes are H,W: for 32 wide and 24 high, use --output-size 24,32"],
        "800x600": [f"{note} H=800 W=600; sizes are H,W: for 800 wide and 600 high, use --output-size 600,800",
                    f"larger than the input on H,W: {larger}"],
        "96,128": [],
        "57,77": [],
        "192,300": [f"larger than the input on W: {larger}"],
    }  # fmt: skip
    for size, notes in notes_of.items():
        assert cli("shape", "area", picture, "--output-size", size, "--json").json["notes"] == notes
    for fit, notes in {"256": ["the size stays: --fit enlarges no image"], "255": []}.items():
        assert cli("shape", "area", picture, "--fit", fit, "--json").json["notes"] == notes
    assert AreaPool((30, 100)).plan((192, 256, 3), layout="HWC").notes == (f"{note} H=30 W=100",)
    assert AreaPool((100, 30)).plan((1, 3, 192, 256)).notes == ()


def test_images_are_fitted_into_pixels_without_being_enlarged(tmp_path: Path) -> None:
    sizes = {
        (3000, 4000): (600, 800),
        (4000, 3000): (600, 450),
        (10, 9): (10, 9),
        (1, 5000): (1, 800),
        (997, 1009): (600, 607),
    }
    assert {size: fit_size((*size, 3), "HWC", "800x600") for size in sizes} == sizes
    assert fit_size((3, 8, 4), "CWH", 2) == (1, 2)
    for name, size in (("a.png", (60, 40)), ("b.png", (30, 90))):
        Image.new("RGB", size).save(tmp_path / name)
    for op in ("area", "adaptive-avg", "adaptive-max"):
        shown, code = typed(f"$ poolcli {op} {tmp_path}/a.png {tmp_path}/b.png -o {tmp_path}/{op}/ --fit 20x18")
        assert code == 0, shown
        found = [read_header(parse_source(str(tmp_path / op / name))).shape for name in ("a.png", "b.png")]
        assert found == [(13, 20, 3), (18, 6, 3)]
