"""Models that are torn, wrong or meant to do harm: an answer or one line, whatever they hold."""

from __future__ import annotations

import random
import re
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from poolcli.models import check
from poolcli.models.tflite import OPERATORS, SUBGRAPHS, Flatbuffer, Table
from tests.conftest import Cli
from tests.models import irs
from tests.models.onnxs import model as onnx_model, node, value
from tests.models.test_onnx_graph import nested
from tests.profiles import sized

TEXTS = ["-1", "0", "", "²", "٣", "--5", "9" * 5000, "a", "2,2,2", "1e9", "nan", "opset1", "i64", "9223372036854775808"]
NUMBERS = [0, -1, 1, 2, 2**31, 2**62, 2**63 - 1, -(2**63)]
ENCODINGS = ["utf-7", "rot13", "idna", "zlib", "punycode", "hex", "undefined", "no-such"]
SAMPLES = Path(__file__).parent / "samples"
SAMPLE = Path(__file__).parents[2] / "samples" / "backbone.xml"
Kind = Callable[[random.Random, Path], Path]


def any_ir(chance: random.Random, folder: Path) -> Path:
    """An IR with a few texts replaced."""
    text = SAMPLE.read_text()
    for _ in range(chance.choice([1, 2, 4])):
        found = chance.choice(list(re.finditer(r'"[^"]*"|(?<=<dim>)[^<]*|(?<=<)\w+', text)))
        new = chance.choice(TEXTS)
        new = f'"{new}"' if found.group().startswith('"') else new
        text = text[: found.start()] + new + text[found.end() :]
    path = folder / "m.xml"
    path.write_text(text)
    return path


def any_onnx(chance: random.Random, folder: Path) -> Path:
    """A model whose nodes, attributes, tensors and shapes are changed at random."""
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[3, 3], auto_pad="VALID"),
        node("LpPool", "a", "b", kernel_shape=[2, 2]),
        node("Unsqueeze", "b ax", "u"),
        node("ReduceMean", "b ax", "y", keepdims=0),
    ]
    axes = helper.make_tensor("ax", onnx.TensorProto.INT64, [2], [2, 3])
    made = onnx.load(onnx_model(folder / "m.onnx", nodes, constants=[axes], values=[value("a", [1, 3, 7, 7])]))
    for _ in range(chance.choice([1, 2, 4])):
        one = chance.choice(made.graph.node)
        chance.choice(CHANGES)(chance, made, one)
    (folder / "m.onnx").write_bytes(made.SerializeToString())
    return folder / "m.onnx"


def _retype(chance: random.Random, one: Any) -> None:
    for attribute in one.attribute:
        attribute.type = chance.randrange(14)


def _renumber(chance: random.Random, one: Any) -> None:
    for attribute in one.attribute:
        attribute.ints[:] = [chance.choice(NUMBERS) for _ in range(chance.randrange(6))]


CHANGES: tuple[Callable[[random.Random, Any, Any], object], ...] = (
    lambda chance, made, one: one.ClearField("input"),
    lambda chance, made, one: one.ClearField("output"),
    lambda chance, made, one: one.input.extend(one.output),  # a circle
    lambda chance, made, one: _retype(chance, one),
    lambda chance, made, one: _renumber(chance, one),
    lambda chance, made, one: setattr(one, "op_type", chance.choice(["If", "Loop", "MaxUnpool", "GlobalLpPool", ""])),
    lambda chance, made, one: setattr(one, "domain", chance.choice(["my", "ai.onnx", "com.microsoft"])),
    lambda chance, made, one: setattr(made.opset_import[0], "version", chance.choice(NUMBERS)),
    lambda chance, made, one: made.graph.initializer[0].int64_data.append(chance.choice(NUMBERS)),
    lambda chance, made, one: made.graph.initializer[0].dims.append(chance.choice(NUMBERS)),
    lambda chance, made, one: made.graph.input[0].type.tensor_type.shape.dim.add(dim_value=chance.choice(NUMBERS)),
    lambda chance, made, one: made.graph.input[0].type.tensor_type.ClearField("shape"),
)


def torn(make: Kind) -> Kind:
    """The same with some of its bytes changed, left out or doubled."""

    def tear(chance: random.Random, folder: Path) -> Path:
        path = make(chance, folder)
        data = bytearray(path.read_bytes())
        for _ in range(chance.choice([1, 3])):
            at = chance.randrange(len(data))
            data[at : at + chance.choice([0, 1, 9])] = chance.randbytes(chance.choice([0, 1, 5]))
        path.write_bytes(data)
        return path

    return tear


def sample(name: str) -> Kind:
    """A copy of a sample."""

    def copy(chance: random.Random, folder: Path) -> Path:
        (folder / name).write_bytes((SAMPLES / name).read_bytes())
        return folder / name

    return copy


def any_pt2(chance: random.Random, folder: Path) -> Path:
    """A program of torch.export with values of other kinds in it."""
    with zipfile.ZipFile(SAMPLES / "pooling.pt2") as archive:
        text = archive.read("pooling/models/model.json").decode()
    for _ in range(chance.choice([1, 5])):
        found = chance.choice(list(re.finditer(r"-?\d+|true|false|null|\[[^\[\]]*\]|\{[^{}]*\}", text)))
        new = chance.choice(["-1", "0", "1e999", '"x"', "null", "[]", "[[1]]", "{}", "9" * 5000, str(2**63), "true"])
        text = text[: found.start()] + new + text[found.end() :]
    with zipfile.ZipFile(folder / "m.pt2", "w") as archive:
        archive.writestr("m/models/model.json", text)
    return folder / "m.pt2"


def any_bodies(chance: random.Random, folder: Path) -> Path:
    """A model of bodies in bodies and in a function, in parts of their own."""
    return nested(folder / "m.onnx")


KINDS: dict[str, Kind] = {
    "ir": any_ir,
    "onnx": any_onnx,
    "pt2": any_pt2,
    "torn ir": torn(any_ir),
    "torn onnx": torn(any_onnx),
    "torn bodies": torn(any_bodies),
    "torn pt2": torn(sample("pooling.pt2")),
    "torn tflite": torn(sample("pooling.tflite")),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_any_damage_ends_in_an_answer_or_in_one_line(make: Kind, cli: Cli, tmp_path: Path) -> None:
    chance = random.Random(0)  # noqa: S311  # of no secret
    for _ in range(sized(10, 150)):
        path = make(chance, tmp_path)
        kept = path.read_bytes()
        done = cli("check", path, *chance.choice([(), ("--json",), ("--to", "pytorch"), ("--against", "onnx")]))
        assert done.code in (0, 1, 2), kept
        told = done.err or done.out
        assert done.code < 2 or (told.count("\n") == 1 and len(told) < 1500), (done, kept)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_that_no_model_is_in_are_refused(encoding: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(f'<?xml version="1.0" encoding="{encoding}"?><net/>')
    message = f"poolcli: {path}: XML in an encoding that is not read; models are written in utf-8\n"
    done = cli("check", path)
    assert (done.code, done.out, done.err) == (2, "", message)


BOMB = '<!DOCTYPE n [<!ENTITY a "{}">' + "".join(f'<!ENTITY {b} "{f"&{a};" * 100}">' for a, b in ("ab", "bc", "cd"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"<net>{'<layers><layer><body>' * 200}{'</body></layer></layers>' * 200}</net>",
            "more than 100 bodies within each other",
        ),
        (f"<net>{'<a>' * 300_000}{'</a>' * 300_000}</net>", "its layers take more memory than the limit, 32 MiB"),
        (BOMB.format("x" * 100) + "]><net>&d;</net>", "not well-formed XML: limit on input amplification factor"),
        ('<!DOCTYPE n [<!ENTITY e SYSTEM "file:///etc">]><net>&e;</net>', "not well-formed XML: undefined entity"),
    ],
    ids=["bodies", "elements", "entities", "external"],
)
def test_elements_and_entities_without_end_are_refused(text: str, message: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(text)
    done = cli("check", tmp_path / "m.xml", "--max-memory", "32M")
    assert (done.code, done.err.startswith(f"poolcli: {tmp_path}/m.xml: {message}")) == (2, True), done.err


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([["f1", "f1"], *([f"f{i + 1}"] * 2 for i in range(1, 40)), []],
         "inlining its functions takes more memory than the limit, 96 MiB; raise --max-memory"),
        ([["f1"] * 2, ["f2"] * 2, ["f3"] * 2, []],
         "inlining its functions takes more memory than the limit, 96 MiB; raise --max-memory"),
        ([["f1"], ["f0"]], "onnx cannot inline its functions: my::f1 -> my::f0 -> my::f1."),
    ],
)  # fmt: skip
def test_functions_that_call_each_other_without_end_are_refused(
    calls: list[list[str]], message: str, cli: Cli, tmp_path: Path
) -> None:
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("my", 1)]
    last = node("Relu", doc_string="x" * 2**20)  # so that few copies take the memory
    functions = [
        helper.make_function("my", f"f{i}", ["x"], ["y"], [node(name, domain="my") for name in names] or [last], opsets)
        for i, names in enumerate(calls)
    ]
    graph = helper.make_graph([node("f0", domain="my")], "g", [value("x", [1, 1, 4])], [value("y", None)])
    made = helper.make_model(graph, functions=functions, opset_imports=opsets)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    done = cli("check", tmp_path / "m.onnx", "--max-memory", "96M")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"poolcli: {tmp_path}/m.onnx: {message}")


def test_long_texts_are_cut_and_cost_little_time(tmp_path: Path) -> None:
    long, before = "9" * 20_000_000, time.process_time()
    inner = irs.layer(irs.AVG, [long, 3, 8, 8], [1, 3, 4, 4], name=long[:100_000])
    body = '<layer name="{0}" type="Loop"><body><layers>{1}</layers></body></layer>'
    (found,) = check(irs.model(tmp_path / "m.xml", body.format(long, body.format(long, inner))))
    assert (len(found.layer.name), len(str((found.layer.input_shape or [""])[0]))) == (200 + 2**16, 2**16)
    assert time.process_time() - before < 8


def test_a_list_that_takes_more_memory_than_the_limit_is_refused(cli: Cli, tmp_path: Path) -> None:
    data, count = (SAMPLES / "pooling.tflite").read_bytes(), 20_000
    place = Table(file := Flatbuffer(data, None), file.unpack(0, "I")[0]).tables(SUBGRAPHS)[0]._place(OPERATORS) or 0
    same = struct.pack(f"<{count + 1}IiHH", count, *range(4 * count, 0, -4), -4, 4, 4)  # one operator so many times
    (tmp_path / "m.tflite").write_bytes(data[:place] + struct.pack("<I", len(data) - place) + data[place + 4 :] + same)
    done = cli("check", tmp_path / "m.tflite", "--max-memory", "1M")
    assert (done.code, "overlap or take more memory than the limit" in done.err) == (2, True), done
