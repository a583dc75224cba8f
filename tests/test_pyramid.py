"""Pyramids: levels against a slow definition, places that agree on all of them, and readers that nobody here wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from ome_zarr_models import open_ome_zarr
from zarr.codecs import BloscCodec, GzipCodec

from poolcli.core.stop import Stopped
from poolcli.formats.zarr.write import Writer
from poolcli.job.pyramid.levels import Reduction, levels_of
from tests.conftest import Cli
from tests.profiles import sized

X = np.random.default_rng(0).integers(0, 255, (9, 11, 14)).astype(np.uint8)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stored(path: str, x: Any, **how: Any) -> None:
    names = ("t", "c", "z", "y", "x")[5 - x.ndim :]
    named = {} if how.get("zarr_format") == 2 else {"dimension_names": names}
    array = zarr.create_array(path, shape=x.shape, dtype=x.dtype, **{**named, "chunks": "auto", **how})
    array[:] = x


def levels(path: str) -> list[Any]:
    """The levels as zarr-python reads them, in the order of the metadata."""
    return [zarr.open_array(f"{path}/{data['path']}", mode="r")[:] for data in multiscale(path)["datasets"]]


def attributes(path: str) -> Any:
    """What OME-Zarr has in the attributes of a group, of either version."""
    found: Any = zarr.open_group(path, mode="r").attrs.asdict()
    return found.get("ome", found)


def multiscale(path: str) -> Any:
    return attributes(path)["multiscales"][0]


def places(path: str) -> list[tuple[Any, Any]]:
    """Scale and translation of each level, of which the scale must be the first."""
    found = []
    for data in multiscale(path)["datasets"]:
        scale, translation = data["coordinateTransformations"]
        assert (scale["type"], translation["type"]) == ("scale", "translation")
        found.append((np.array(scale["scale"]), np.array(translation["translation"])))
    return found


# Values


def mean(values: Any) -> Any:
    """Integers exactly, halves to even."""
    if values.dtype.kind == "f":
        return np.mean(values, dtype=np.float64)
    total, count = sum(values.ravel().tolist()), values.size
    low, rest = divmod(total, count)
    return low + (2 * rest > count or (2 * rest == count and low % 2 == 1))


def mode(values: Any) -> Any:
    found, counts = np.unique(values, return_counts=True)
    return found[counts.argmax()]


REFERENCE: dict[str, Callable[[Any], Any]] = {"avg": mean, "max": np.max, "min": np.min, "mode": mode}


def pooled(x: Any, kernel: tuple[int, ...], edge: str, op: str) -> Any:
    """Every window by itself; a window over the edge has what there is."""
    lengths = [-(-n // k) if edge == "ceil" else n // k for n, k in zip(x.shape, kernel, strict=True)]
    out = np.empty(lengths, x.dtype)
    for place in np.ndindex(*lengths):
        out[place] = REFERENCE[op](x[tuple(slice(i * k, (i + 1) * k) for i, k in zip(place, kernel, strict=True))])
    return out


@pytest.mark.parametrize("edge", ["ceil", "floor"])
@pytest.mark.parametrize("base", ["previous", "source"])
@pytest.mark.parametrize("op", REFERENCE)
def test_every_level_is_what_the_definition_says(op: str, base: str, edge: str, cli: Cli) -> None:
    x = X // 32 if op == "mode" else X
    stored("x.zarr", x, chunks=(4, 4, 4))
    run = ("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "4", "--op", op, "--from", base, "--edge", edge)
    assert cli(*run, "-q", "--max-memory", "100K").err == ""
    found = levels("y.ome.zarr")
    assert len(found) == 4
    np.testing.assert_array_equal(found[0], x)
    for number in (1, 2, 3):
        before, kernel = (found[number - 1], 2) if base == "previous" else (x, 2**number)
        np.testing.assert_array_equal(found[number], pooled(before, (kernel,) * 3, edge, op))


@pytest.mark.parametrize("shards", [None, (4, 16, 16)])
@pytest.mark.parametrize("base", ["previous", "source"])
def test_blocks_that_do_not_fit_into_memory_change_no_bit(base: str, shards: Any, cli: Cli) -> None:
    x = np.random.default_rng(1).normal(size=(9, 30, 33)).astype(np.float32)
    stored("x.zarr", x, chunks=(4, 8, 8), shards=shards)
    run = ("pyramid", "x.zarr", "--levels", "5", "-k", "1,2,3", "--from", base, "-q")
    assert cli(*run, "-o", "whole.ome.zarr").err == ""
    assert cli(*run, "-o", "parts.ome.zarr", "--max-memory", "60K").err == ""
    for whole, parts in zip(levels("whole.ome.zarr"), levels("parts.ome.zarr"), strict=True):
        np.testing.assert_array_equal(whole, parts)
    assert [found.shape for found in levels("whole.ome.zarr")][-1] == (9, 2, 2)


def test_every_input_gives_the_same_levels(cli: Cli) -> None:
    tifffile = pytest.importorskip("tifffile", reason="the extra images is not installed: pip install tifffile")
    stored("x.zarr", X)
    np.save("x.npy", X)
    tifffile.imwrite("x.tif", X)
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = X
    for name in ("x.zarr", "x.npy", "x.h5:/g/x", "x.tif"):
        run = ("pyramid", name, "-o", "y.ome.zarr", "--levels", "3", "--overwrite", "-q", "--layout", "DHW")
        assert cli(*run).err == "", name
        found = levels("y.ome.zarr")
        np.testing.assert_array_equal(found[0], X)
        np.testing.assert_array_equal(found[1], pooled(X, (2, 2, 2), "ceil", "avg"))
        np.testing.assert_array_equal(found[2], pooled(found[1], (2, 2, 2), "ceil", "avg"))


def test_channels_come_before_space_and_colours_are_named(cli: Cli) -> None:
    from PIL import Image

    Image.fromarray(X[:, :, :3].copy()).save("x.png")
    assert cli("pyramid", "x.png", "-o", "y.ome.zarr", "--levels", "2", "-q").err == ""
    found = multiscale("y.ome.zarr")
    assert [(axis["name"], axis["type"]) for axis in found["axes"]] == [
        ("c", "channel"),
        ("y", "space"),
        ("x", "space"),
    ]
    first, second = levels("y.ome.zarr")
    np.testing.assert_array_equal(first, X[:, :, :3].transpose(2, 0, 1))
    assert second.shape == (3, 5, 6)
    channels = attributes("y.ome.zarr")["omero"]["channels"]
    assert [channel["color"] for channel in channels] == ["FF0000", "00FF00", "0000FF"]


def test_the_source_is_read_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from poolcli.formats.npy import Flat

    np.save("x.npy", X)
    seen = np.zeros(X.shape, int)
    read = Flat.read

    def counted(self: Any, region: Any) -> Any:
        seen[tuple(slice(span.start, span.stop) for span in region)] += 1
        return read(self, region)

    monkeypatch.setattr(Flat, "read", counted)
    assert (
        cli("pyramid", "x.npy", "-o", "y.ome.zarr", "--levels", "4", "--chunks", "4", "-q", "--edge", "floor").err == ""
    )
    assert (seen == 1).all()


# Places


@settings(max_examples=sized(25, 100), deadline=None)
@given(data=st.data())
def test_what_is_bright_has_the_same_place_on_every_level(data: Any) -> None:
    kernel = tuple(data.draw(st.integers(1, 4)) for _ in range(3))
    if max(kernel) < 2:
        kernel = (2, *kernel[1:])
    edge, base = data.draw(st.sampled_from(["ceil", "floor"])), data.draw(st.sampled_from(["previous", "source"]))
    count = data.draw(st.integers(2, 3))
    step, origin = [2.0, 0.5, 1.25], [10.0, -3.0, 0.0]
    factors = [k ** (count - 1) for k in kernel]
    shape = tuple(f * data.draw(st.integers(1, 3)) + data.draw(st.integers(0, f)) for f in factors)
    found = levels_of(Reduction("avg", kernel, base, edge), shape, "float64", "DHW", count=count, enough=1)
    corner = [f * data.draw(st.integers(0, n // f - 1)) for f, n in zip(factors, shape, strict=True)]
    x = np.zeros(shape)
    x[tuple(slice(at, at + f) for at, f in zip(corner, factors, strict=True))] = 1.0
    values, centres = [x], []
    for number, level in enumerate(found):
        if level.plan is not None:
            values.append(pooled(values[level.base], kernels(level.plan), edge, "avg"))
        assert values[number].shape == level.shape
        weights, bright = values[number], np.argwhere(values[number] > 0)
        centre = np.average(bright, axis=0, weights=weights[weights > 0])
        centres.append(centre * level.scale(step) + level.translation(step, origin))
    np.testing.assert_allclose(centres, [centres[0]] * count, rtol=1e-12)


def kernels(plan: Any) -> tuple[int, ...]:
    return tuple(axis.windows.kernel for axis in plan.axes)


@pytest.mark.parametrize("ngff", ["0.5", "0.4"])
def test_scale_translation_and_units_are_in_the_metadata(ngff: str, cli: Cli) -> None:
    stored("x.zarr", np.stack([X, X]))
    run = ("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "3", "-k", "1,2,3", "--ngff", ngff)
    assert cli(*run, "--scale", "z=2,y=0.5,x=0.25", "--unit", "um", "-q").err == ""
    axes = [{"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    assert multiscale("y.ome.zarr")["axes"] == axes
    expected = [([1, 2, 0.5, 0.25], [0, 0, 0, 0]), ([1, 2, 1, 0.75], [0, 0, 0.25, 0.25])]
    expected += [([1, 2, 2, 2.25], [0, 0, 0.75, 1.0])]
    for (scale, translation), (steps, starts) in zip(places("y.ome.zarr"), expected, strict=True):
        np.testing.assert_array_equal(scale, steps)
        np.testing.assert_array_equal(translation, starts)


def test_an_axis_shorter_than_the_kernel_stays_as_it_is() -> None:
    found = levels_of(Reduction("max", (2,)), (3, 40, 9), "uint8", "DHW", count=None, enough=4)
    assert [level.shape for level in found] == [(3, 40, 9), (2, 20, 5), (1, 10, 3), (1, 5, 2), (1, 3, 1)]
    assert [level.factors for level in found][-2:] == [(4, 8, 8), (4, 16, 16)]


@pytest.mark.parametrize(("first", "again"), [("0.4", "0.5"), ("0.5", "0.4"), ("0.5", "0.5")])
def test_a_pyramid_of_a_level_keeps_what_the_level_says_of_itself(first: str, again: str, cli: Cli) -> None:
    stored("x.zarr", X, chunks=(4, 8, 8))
    scale = ("--scale", "z=3,y=2", "--unit", "nanometer")
    assert cli("pyramid", "x.zarr", "-o", "a.ome.zarr", "--levels", "3", "--ngff", first, *scale, "-q").err == ""
    own = {"channels": [{"color": "FF0000", "label": "mine"}]}
    group = zarr.open_group("a.ome.zarr")
    found: Any = group.attrs.asdict()
    found.get("ome", found)["omero"] = own
    group.attrs.put(found)
    run = ("pyramid", "--levels", "2", "--ngff", again, "-q", "-k", "3")
    assert cli(*run, "a.ome.zarr", "-o", "b.ome.zarr").err == ""
    assert cli(*run, "a.ome.zarr:/1", "-o", "c.ome.zarr").err == ""
    np.testing.assert_array_equal(levels("b.ome.zarr")[0], X)
    np.testing.assert_array_equal(levels("c.ome.zarr")[0], levels("a.ome.zarr")[1])
    assert multiscale("c.ome.zarr")["axes"] == multiscale("a.ome.zarr")["axes"]
    old, new = places("a.ome.zarr")[1], places("c.ome.zarr")
    np.testing.assert_array_equal(new[0], old)
    np.testing.assert_array_equal(new[1], (old[0] * 3, old[1] + old[0]))
    assert attributes("c.ome.zarr")["omero"] == own
    array = zarr.open_array("b.ome.zarr/0", mode="r")
    assert (array.chunks, array.metadata.zarr_format) == ((4, 8, 8), 2 if again == "0.4" else 3)


# Readers that nobody here wrote


@pytest.mark.parametrize("ngff", ["0.5", "0.4"])
@pytest.mark.parametrize("shape", [(30, 40), (3, 30, 40), (2, 3, 30, 41), (2, 3, 5, 31, 40)])
def test_ome_zarr_models_calls_it_valid(ngff: str, shape: tuple[int, ...], cli: Cli) -> None:
    layout = {2: "HW", 3: "CHW", 4: "CDHW", 5: "NCDHW"}[len(shape)]
    np.save("x.npy", np.zeros(shape, np.uint16))
    run = ("pyramid", "x.npy", "-o", "y.ome.zarr", "--levels", "3", "--layout", layout, "--ngff", ngff, "-q")
    assert cli(*run, "--unit", "micrometer").err == ""
    group: Any = open_ome_zarr(zarr.open_group("y.ome.zarr", mode="r"))
    about = group.attributes
    found = (about.ome if ngff == "0.5" else about).multiscales[0]
    assert [data.path for data in found.datasets] == ["0", "1", "2"]
    assert "".join(axis.name for axis in found.axes) == {"HW": "yx", "CHW": "cyx", "CDHW": "czyx"}.get(layout, "tczyx")


@pytest.mark.parametrize(
    ("ngff", "how", "stored_as"),
    [
        ("0.4", {}, {"id": "zstd", "level": 0}),
        ("0.4", {"compressors": GzipCodec(level=3)}, {"id": "gzip", "level": 3}),
        (
            "0.4",
            {"compressors": BloscCodec(cname="lz4", clevel=4, shuffle="bitshuffle", typesize=1)},
            {"id": "blosc", "cname": "lz4", "clevel": 4, "shuffle": 2, "blocksize": 0},
        ),
        (
            "0.5",
            {"zarr_format": 2, "compressors": numcodecs.Blosc(cname="lz4", clevel=4, shuffle=2)},
            {"cname": "lz4", "clevel": 4, "shuffle": "bitshuffle", "blocksize": 0, "typesize": 1},
        ),
        ("0.5", {"zarr_format": 2, "compressors": numcodecs.GZip(2)}, {"level": 2}),
        ("0.5", {"zarr_format": 2, "compressors": numcodecs.LZ4()}, {"level": 0, "checksum": False}),
        ("0.5", {"zarr_format": 2, "compressors": numcodecs.Zstd(7)}, {"level": 7, "checksum": False}),
    ],
)
def test_compressors_are_kept_in_the_words_of_the_other_version(ngff: str, how: Any, stored_as: Any, cli: Cli) -> None:
    """Not every reader of Zarr 2 knows words beyond those of its specification."""
    stored("x.zarr", X, **how)
    layout = ("--layout", "DHW")
    assert cli("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "2", "--ngff", ngff, *layout, "-q").err == ""
    if ngff == "0.4":
        found = json.loads(Path("y.ome.zarr/0/.zarray").read_text())
        assert (found["compressor"], found["dimension_separator"]) == (stored_as, "/")
    else:
        codecs = json.loads(Path("y.ome.zarr/0/zarr.json").read_text())["codecs"]
        assert [codec.get("configuration") for codec in codecs] == [None, stored_as]
    np.testing.assert_array_equal(levels("y.ome.zarr")[0], X)


# Runs


def test_a_run_that_was_stopped_goes_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    stored("x.zarr", X, chunks=(4, 4, 4))
    monkeypatch.setattr("poolcli.formats.continued.NOTE_EVERY", 0)
    run = ("pyramid", "x.zarr", "--levels", "3", "--max-memory", "2K")
    assert cli(*run, "-o", "whole.ome.zarr", "-q").err == ""
    written: list[Any] = []
    own = Writer.__call__

    def stopping(limit: int) -> Callable[..., None]:
        def call(self: Writer, region: Any, array: Any) -> None:
            if len(written) >= limit:  # two threads write
                raise Stopped(130, "interrupted")
            own(self, region, array)
            written.append((self.making.key, region))

        return call

    for limit in (3, 7):
        monkeypatch.setattr(Writer, "__call__", stopping(limit))
        with pytest.raises(Stopped):
            cli(*run, "-o", "y.ome.zarr", "--resume", "-q")
        assert not Path("y.ome.zarr").exists()
    monkeypatch.setattr(Writer, "__call__", stopping(math.inf))  # type: ignore[arg-type]
    assert cli(*run, "-o", "y.ome.zarr", "--resume", "-q").err == ""
    seconds = [place for place in written if place[0] != "0"]
    assert len(seconds) == len(set(seconds))
    for whole, parts in zip(levels("whole.ome.zarr"), levels("y.ome.zarr"), strict=True):
        np.testing.assert_array_equal(whole, parts)
    before = Path("y.ome.zarr/zarr.json").stat().st_mtime_ns
    assert cli(*run, "-o", "y.ome.zarr", "--resume").out.endswith("made from this input\n")
    assert Path("y.ome.zarr/zarr.json").stat().st_mtime_ns == before
    assert sorted(path.name for path in Path().iterdir()) == ["whole.ome.zarr", "x.zarr", "y.ome.zarr"]


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no store": (
        ("x.npy", "-o", "y.npy"),
        2,
        "--output y.npy: a pyramid is an OME-Zarr store; name one",
    ),
    "nothing named": (("x.npy",), 2, "--output is missing: name a store, such as out.ome.zarr"),
    "an operator without levels": (
        ("x.npy", "-o", "y.zarr", "--op", "lp"),
        2,
        "--operator is 'lp', it must be one of avg, max, min, mode",
    ),
    "too many levels": (("x.npy", "-o", "y.zarr", "--levels", "9"), 2, "use at most --levels 5"),
    "no levels": (("x.npy", "-o", "y.zarr", "--levels", "0"), 2, "--levels is 0, it must be at least 1"),
    "a kernel of 1": (("x.npy", "-o", "y.zarr", "-k", "1"), 2, "--kernel 1: must be 2 or more for some axis"),
    "two kernels for three axes": (
        ("x.npy", "-o", "y.zarr", "-k", "2,2"),
        2,
        "--kernel has 2 numbers",
    ),
    "a scale without a number": (("x.npy", "-o", "y.zarr", "--scale", "z=a"), 2, "--scale has 'z=a'; write it as z=2"),
    "a scale of 0": (("x.npy", "-o", "y.zarr", "--scale", "z=0"), 2, "--scale has 'z=0'; write it as z=2"),
    "a scale of another axis": (
        ("x.npy", "-o", "y.zarr", "--scale", "c=2"),
        2,
        "--scale names c; the axes are z, y",
    ),
    "a unit of time": (("x.npy", "-o", "y.zarr", "--unit", "second"), 2, "--unit second: is no unit of length"),
    "another version": (("x.npy", "-o", "y.zarr", "--ngff", "0.6"), 2, "--ngff is '0.6'"),
    "shards of Zarr 2": (
        ("x.npy", "-o", "y.zarr", "--ngff", "0.4", "--chunks", "4", "--shards", "8"),
        2,
        "--shards needs --ngff 0.5: Zarr 2, which 0.4 is stored in, has none",
    ),
    "one axis of space": (
        ("x.npy", "-o", "y.zarr", "--layout", "NCW"),
        2,
        "layout NCW: OME-Zarr has the axes",
    ),
    "six axes": (("six.npy", "-o", "y.zarr"), 2, "the input has 6 axes, OME-Zarr has 2 to 5 (t, c, z, y, x)"),
    "an output that is there": (("x.npy", "-o", "there.zarr"), 2, "there.zarr exists; use --overwrite"),
    "no input": (("no.npy", "-o", "y.zarr"), 1, "No such file or directory"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_is_one_line_and_nothing_is_written(how: str, cli: Cli) -> None:
    np.save("x.npy", X)
    np.save("six.npy", np.zeros((1,) * 6))
    stored("there.zarr", X)
    before = sorted(Path().iterdir())
    words, code, said = REFUSED[how]
    result = cli("pyramid", *words)
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1), result
    assert said in result.err
    assert sorted(Path().iterdir()) == before


def test_a_dry_run_reads_headers_and_the_report_is_json(cli: Cli) -> None:
    stored("x.zarr", X, chunks=(4, 4, 4))
    for chunk in Path("x.zarr/c").rglob("?"):
        if chunk.is_file():
            chunk.write_bytes(b"no chunk at all")
    result = cli("pyramid", "x.zarr", "-o", "y.ome.zarr", "--levels", "2", "--json", "--dry-run")
    assert result.json == {
        "schema_version": 1,
        "input": {"path": "x.zarr", "dataset": None, "shape": [9, 11, 14], "dtype": "uint8", "layout": "DHW"},
        "output": {"path": "y.ome.zarr", "layout": "DHW", "axes": ["z", "y", "x"]},
        "levels": [
            {"path": "0", "shape": [9, 11, 14], "scale": [1, 1, 1], "translation": [0, 0, 0]},
            {"path": "1", "shape": [5, 6, 7], "scale": [2, 2, 2], "translation": [0.5, 0.5, 0.5]},
        ],
        "units": {},
        "chunks": [4, 4, 4],
        "shards": None,
        "notes": [],
        "engine": None,
        "seconds": None,
        "error": None,
    }
    assert not Path("y.ome.zarr").exists()
    assert json.loads(Path("x.zarr/zarr.json").read_text())["shape"] == [9, 11, 14]
