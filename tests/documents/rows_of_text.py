"""Checks of tables that name things: operators, rooms, pages, errors in texts, verdicts, measured cases."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import poolcli
from poolcli import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool, RequestError, avg_pool
from poolcli.layouts import read_axes, spatial_axes
from poolcli.ops import OPERATORS
from tests.bench.chart import chart
from tests.bench.rows import FURTHER, LISTED
from tests.conformance.differences import DIFFERENCES
from tests.conformance.peers import PYTORCH
from tests.conformance.sweep import MARKS, SWEPT
from tests.documents.checks import Row, plain, results_of, row_of, table_of
from tests.documents.console import typed
from tests.documents.markdown import ROOT, Table

READERS = "h5py, PIL.Image, safetensors.numpy, tifffile, zarr"
READ_AS = dict.fromkeys(("h5", "nc", "tif"), "samples/volume.h5") | {"png": "samples/astronaut.png"}
ERRORS = "docs/errors-in-the-specifications.md"


@table_of("README.md", "command")
def _operators(table: Table) -> None:
    assert [plain(row[0]) for row in table.rows] == list(OPERATORS)
    for command, function, _ in table.rows:
        assert plain(function) == plain(command).replace("-", "_") + "_pool"
        assert plain(function) in poolcli.__all__


@table_of("README.md", "array")
def _axes(table: Table) -> None:
    lengths = dict.fromkeys("nNCDHW", 20) | {"3": 3}
    for arrays, numbers, pooled in table.rows:
        values = numbers.count(",") + 1
        for axes in re.findall("`(.*?)`", arrays):
            layout = read_axes([lengths[axis] for axis in axes.split(",")], values).layout
            assert [layout[axis] for axis in spatial_axes(layout)] == re.findall(r"\b[DHW]\b", pooled)


@table_of("docs/faq.md", "package")
def _sizes(table: Table) -> None:
    total = sum(int(size) for _, size in table.rows)
    assert f"## Why does it take {total} MB?" in (ROOT / "docs" / "faq.md").read_text()
    assert f"about {total} MB" in (ROOT / "README.md").read_text()


@table_of("docs/recipes.md", "output")
def _readers(table: Table) -> None:
    names: dict[str, Any] = {"np": np}
    exec(f"import {READERS}", names)  # noqa: S102  # those that the page names
    for output, calls, _ in table.rows:
        name, call = plain(output), calls.split("`")[1]
        given = READ_AS.get(name.partition(".")[2], "samples/features.npy")
        operator = "pyramid --layout NCHW" if name.endswith(".ome.zarr") else "avg -k 1"
        said, code = typed(f"$ poolcli {operator} {given} -o {name} -q")
        assert code == 0, said
        if "xarray" not in call:  # which needs h5netcdf or netCDF4 for files
            assert np.asarray(eval(call, names)).size > 1, call  # noqa: S307  # the document's own text


@table_of("docs/recipes/cluster.md", "situation")
def _situations(table: Table) -> None:
    options = typed("$ poolcli avg --help-all")[0]
    assert all(option in options for _, use in table.rows for option in re.findall("--[a-z-]+", use))


@table_of("docs/architecture.md", "package")
def _packages(table: Table) -> None:
    packages = [plain(row[0]).removesuffix("/").removesuffix(".py") for row in table.rows]
    modules = {path.stem for path in (ROOT / "poolcli").glob("*.py")} - {"__init__", "__main__"}
    assert set(packages) - modules == {path.parent.name for path in (ROOT / "poolcli").glob("*/__init__.py")}
    drawn = re.findall(r'class="name">(\w+)<', (ROOT / "docs" / "architecture.svg").read_text())
    assert drawn == packages
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = ["__main__", *packages]
    below = {name for layer in rules[0]["layers"] for name in layer.split(" | ")} - set(layers)
    assert [layer for layer in rules[0]["layers"] if layer in layers] == layers
    assert below == modules - set(packages)


@table_of("docs/differences.md", "framework")
def _differences(table: Table) -> None:
    assert {(peer, *row[1:3]) for row in table.rows for peer in row[0].split(", ")} == {
        (d.peer, d.marks, d.case) for d in DIFFERENCES
    }


@table_of("docs/differences.md", "mark")
def _marks(table: Table) -> None:
    assert table.rows == tuple(MARKS.items())


@table_of("docs/differences.md", "poolcli")
def _own_types(table: Table) -> None:
    assert [row[0] for row in table.rows] == list(PYTORCH.dtypes)


def _types(table: Table) -> None:
    """What stands there is tested by tests/conformance; here, that the other table explains each mark, and no more."""
    marks = {mark for row in table.rows for cell in row[2:] if cell not in ("=", "-", "no") for mark in cell}
    assert marks == {mark for d in DIFFERENCES if d.peer == table.head[0] for mark in d.marks}


for _peer in SWEPT:
    table_of("docs/differences.md", _peer.name)(_types)


def shape(op: Any, *input_shape: int) -> tuple[int, ...]:
    return tuple(op.plan(input_shape).output_shape)


def refuses_stride_0(op: Any) -> bool:
    with pytest.raises(RequestError):
        op(2, strides=0).plan((1, 3, 32, 32))
    return True


def same_upper() -> list[tuple[Any, Any]]:
    made = [op(kernel, strides=2, pads_end=1, auto_pad="same_upper") for op in (AvgPool, MaxPool) for kernel in (2, 5)]
    return [(shape(op, 1, 3, 32, 32), (1, 3, 16, 16)) for op in made]


def mean() -> list[tuple[Any, Any]]:
    x = np.array([[[1, 2, 6]]], "float32")
    return [(avg_pool(x, 3), 3), (AdaptiveAvgPool(1)(x), 3)]


def index_types() -> list[tuple[Any, Any]]:
    names = [{field.name for field in fields(op)} for op in (AdaptiveAvgPool, AdaptiveMaxPool)]
    return [([name in found for found in names], expected)
            for name, expected in (("index_element_type", [False, True]), ("output_type", [False, False]))]  # fmt: skip


def ngraph() -> list[tuple[Any, Any]]:
    x = np.array([[[[1, 3], [7, 11]]]], "float32")
    return [(avg_pool(x, 2, pads_begin=1, exclude_pad=out, like="ngraph")[0, 0, 0, 0], corner)
            for out, corner in ((True, 1), (False, 0.25))]  # fmt: skip


ABSENT = ("pads_begin", "pads_end", "exclude_pad")
results_of(ERRORS, {
    "AvgPool-1, output size": lambda: [(shape(AvgPool(5, strides=3, pads=1), 1, 3, 32, 20), (1, 3, 10, 6))],
    "AvgPool-1, examples 1 and 2 (`same_upper`, strides 2, 32x32)": same_upper,
    "MaxPool-8, -14, AvgPool-14, -16": same_upper,
    "AvgPool-1, strides": lambda: [(refuses_stride_0(op), True) for op in (AvgPool, MaxPool)],
    "AvgPool-1, pads and exclude-pad": lambda: [
        (AvgPool(2).plan((1, 3, 32, 32)).attributes[name], value)
        for name, value in zip(ABSENT, ([0, 0], [0, 0], True), strict=True)
    ],
    "AvgPool-1, pads": lambda: [
        (shape(AvgPool(5, strides=2, pads=1, auto_pad=word), 1, 3, 32, 32), (1, 3, length, length))
        for word, length in (("explicit", 15), ("valid", 14))
    ],
    "AvgPool-1, axes": lambda: [(shape(MaxPool((2, 1, 1), strides=(2, 1, 1)), 1, 1, 4, 5, 6), (1, 1, 2, 5, 6))],
    "AvgPool-1, mean": mean,
    "AdaptiveAvgPool-8, output": mean,
    "AdaptiveAvgPool-8 and AdaptiveMaxPool-8, bins": lambda: [
        (AdaptiveAvgPool(25).plan((1, 1, 7)).windows[0].span(i), span)
        for i, span in ((0, [0]), (3, [0, 1]), (24, [6]))
    ],
    "AdaptiveAvgPool-8 and AdaptiveMaxPool-8, examples": index_types,
    "AdaptiveAvgPool-8 and AdaptiveMaxPool-8, second input": lambda: [
        (shape(AdaptiveAvgPool((16, 16)), 1, 3, 32, 32), (1, 3, 16, 16)),
    ],
    "nGraph AvgPool, average": ngraph,
    "nGraph AvgPool, positions": ngraph,
    "nGraph AvgPool, divisor": ngraph,
    "nGraph AvgPool, `w <= d`": lambda: [(shape(AvgPool(3, strides=1, pads_begin=1, pads_end=0, like="ngraph"), 1, 1,
        2), (1, 1, 1))],
})  # fmt: skip


@table_of("docs/models.md", "verdict")
def _verdicts(table: Table) -> None:
    from typing import get_args

    from poolcli.models import Verdict

    assert [row[0] for row in table.rows] == list(get_args(Verdict))


@row_of("docs/models.md", "0", "1", "2")
def _exit_codes(row: Row) -> None:
    model = (ROOT / "samples" / "backbone.xml").read_text()
    given = {"0": model, "1": model.replace("<dim>55</dim>", "<dim>57</dim>"), "2": "<net>"}
    with open("model.xml", "w") as file:
        file.write(given[row[0]])
    assert typed("$ poolcli check model.xml")[1] == int(row[0])


@table_of("docs/speed.md", "case")
def _cases(table: Table) -> None:
    assert {row[0] for row in table.rows} <= {row.name for row in (*LISTED, *FURTHER)}
    for _, _, ours, best, ratio in table.rows:
        assert could_be(float(ratio), ours, best.split()[-1])
    assert (ROOT / "docs" / "pictures" / "speed.svg").read_text() == chart(table.rows)


def could_be(ratio: float, above: str, below: str) -> bool:
    """Whether the ratio can be that of two numbers that are rounded to these."""
    low, high = (float(above) - 0.05) / (float(below) + 0.05), (float(above) + 0.05) / (float(below) - 0.05)
    return low - 0.05 <= ratio <= high + 0.05


@table_of("CONTRIBUTING.md", "command")
def _runs(table: Table) -> None:
    commands = [plain(row[0]) for row in table.rows]
    assert len(set(commands)) == len(commands)
    for command in commands:
        *_, place = command.split()
        path = place if "/" in place else place.replace(".", "/")
        files = (path, f"{path}.py", f"{path}/__main__.py")
        assert place in ("pytest", "--full") or any((ROOT / file).is_file() for file in files), place


@table_of("CONTRIBUTING.md", "change")
def _places(table: Table) -> None:
    assert all(row[1] for row in table.rows)
