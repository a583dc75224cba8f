"""Names from files never lead out of the output: every reader's names into every writer, the tree around compared."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from poolcli.errors import PoolError
from poolcli.formats import FORMATS, Metadata, Source, read
from poolcli.formats.files import array_names
from poolcli.formats.records import Dimension, Scale
from tests.conftest import Cli, Result
from tests.formats.arrays import list_arrays, write
from tests.models.onnxs import model, node
from tests.profiles import sized, slow

X = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
HALVED = X.reshape(1, 1, 4, 2, 4, 2).mean((3, 5))
HALVE = ("-k", "2", "-s", "2", "--engine", "numpy")
SEVERAL = {row.suffixes[0]: name for name, row in FORMATS.items() if row.writes and row.is_container}
WRITERS = [row.suffixes[0] for row in FORMATS.values() if row.writes and (row.is_container or not row.is_image)]
READERS = [name for name, row in FORMATS.items() if row.is_container]
# What reads hands names to what writes as text: each of both occurs once, and with each other in full runs.
PAIRS = sized([(reader, WRITERS[i % len(WRITERS)]) for i, reader in enumerate(READERS)], [*product(READERS, WRITERS)])

NAMES = {
    "up": "../../precious.zarr", "up one": "../precious.zarr", "up and down": "a/../../../precious.zarr",
    "dots": "..", "dot": ".", "inner dot": "a/./b", "only slashes": "//", "doubled slash": "a//b", "slash": "/",
    "empty": "", "leading slashes": "///a", "trailing slash": "a/", "absolute": "/ABSOLUTE/precious.zarr",
    "three dots": "...", "dots and space": ".. ", "hidden": ".hidden", "tilde": "~/x", "NUL": "a\0b",
    "long": "n" * 10_000, "deep": "a/" * 5_000 + "a", "longer than a file name": "é" * 200,
    "drive": "C:\\precious.zarr", "drive and slash": "C:/precious.zarr", "share": "\\\\host\\share",
    "backslashes": "..\\..\\precious.zarr", "with a colon": "kernel:0", "newline": "a\nb", "carriage return": "a\rb",
    "escape": "a\x1b[31mb\x07", "right to left": "a\u202eb", "lone surrogate": "a\ud800b",
    "not UTF-8": "a\udcff\udcfeb",
    "Zarr 3": "zarr.json", "Zarr 2 array": ".zarray", "Zarr 2 group": "a/.zgroup", "Zarr attributes": ".zattrs",
    "consolidated": ".zmetadata", "a chunk": "c/0", "a chunk of Zarr 2": "0.0", "unfinished": "x.partial",
    "metadata": "__metadata__", "oddity": "__proto__", "quotes": "a'\"b", "braces": "{stem}", "markup": "[red]x[/]",
    "glob": "*?[a]", "URL": "s3://bucket/x", "space": " ", "ordinary": "group/values",
}  # fmt: skip
REFUSED = {
    "up", "up one", "up and down", "dots", "dot", "inner dot", "only slashes", "doubled slash", "slash", "NUL", "long",
    "deep", "longer than a file name", "drive", "drive and slash", "share", "backslashes", "lone surrogate", "URL",
}  # fmt: skip


def write_npz(path: str, arrays: dict[str, Any]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            stream = BytesIO()
            np.save(stream, array)
            member = zipfile.ZipInfo("x")
            member.filename = f"{name}.npy"  # a constructor would cut it at a NUL
            archive.writestr(member, stream.getvalue())


def write_hdf5(path: str, arrays: dict[str, Any], userblock: bytes = b"") -> None:
    """Datasets of names in bytes, each link made by itself: `..` is a name like any other there."""
    with h5py.File(path, "w", userblock_size=512 if userblock else 0) as file:
        for name, array in arrays.items():
            group = file
            *groups, last = name.encode("utf-8", "surrogateescape").split(b"/")
            for step in groups:
                group = group.require_group(step) if step else group
            group.create_dataset(last, data=array)
    if userblock:
        with open(path, "r+b") as stream:
            stream.write(userblock)


def write_matlab(path: str, arrays: dict[str, Any]) -> None:
    write_hdf5(path, arrays, b"MATLAB 7.3 MAT-file, made by hand")


def write_safetensors(path: str, arrays: dict[str, Any]) -> None:
    entries, data = {}, b""
    for name, array in arrays.items():
        entries[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    header = json.dumps(entries).encode()
    Path(path).write_bytes(len(header).to_bytes(8, "little") + header + data)


def write_zarr(path: str, arrays: dict[str, Any]) -> None:
    """Consolidated metadata, in which names need no folder."""
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    documents = {
        name: {
            "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.shape}},
            "chunk_key_encoding": {"name": "default"}, "fill_value": 0.0, "attributes": {},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }
        for name, array in arrays.items()
    }  # fmt: skip
    consolidated = {"kind": "inline", "must_understand": False, "metadata": documents}
    os.mkdir(path)
    Path(path, "zarr.json").write_text(json.dumps(group | {"consolidated_metadata": consolidated}))
    for name, array in arrays.items():
        if ".." not in name.split("/"):
            place = Path(path, name.strip("/"))
            Path(place, "c/0/0/0").mkdir(parents=True)
            Path(place, "c/0/0/0/0").write_bytes(array.tobytes())
            Path(place, "zarr.json").write_text(json.dumps(documents[name]))


WRITE: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "npz": write_npz, "hdf5": write_hdf5, "matlab": write_matlab, "safetensors": write_safetensors, "zarr": write_zarr,
}  # fmt: skip


def bytes_of_npy() -> bytes:
    stream = BytesIO()
    np.save(stream, X)
    return stream.getvalue()


BYTES = bytes_of_npy()


@pytest.fixture(autouse=True)
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with what hostile names point at; the working folder lies two folders below it."""
    for name in ("precious.zarr/zarr.json", "work/precious.zarr/zarr.json", "work/zarr.json", "n/zarr.json"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"precious": true}')
    (tmp_path / "work/deep").mkdir()
    monkeypatch.chdir(tmp_path / "work/deep")
    return tmp_path


def tree(folder: Path) -> dict[bytes, bytes | None]:
    """Everything below a folder, by name: the bytes of files, None for folders."""
    found: dict[bytes, bytes | None] = {}
    for where, folders, files in os.walk(os.fsencode(folder)):
        found |= dict.fromkeys(os.path.join(where, name) for name in folders)
        for path in (os.path.join(where, name) for name in files):
            found[path] = Path(os.fsdecode(path)).read_bytes()
    return found


def outside(folder: Path, *outputs: str) -> dict[bytes, bytes | None]:
    """The tree without the outputs in the working folder."""
    kept = tuple(os.fsencode(folder / "work/deep" / output) for output in outputs)
    return {name: content for name, content in tree(folder).items() if not name.startswith(kept)}


def check(result: Result, before: dict[bytes, bytes | None], folder: Path, output: str) -> None:
    """Either a good output inside, or one clear line and nothing at all; and nothing else has changed."""
    assert outside(folder, output) == before
    assert not os.path.lexists("/zarr.json")
    if result.code == 0:
        headers = [header for header in list_arrays(output) if header.shape == HALVED.shape]
        assert headers
        for header in headers:
            np.testing.assert_array_equal(read(Source(output, header.key)).array, HALVED)
        return
    assert result.code in (1, 2)
    assert not os.path.lexists(output)
    assert_one_line(result.err)


def assert_one_line(text: str) -> None:
    assert text.startswith("poolcli: ")
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert "unexpected" not in text
    assert len(text) < 3_500


def named(folder: Path) -> Iterator[tuple[str, str]]:
    """The names by what they are; those that are absolute lead into the folder."""
    for kind, name in NAMES.items():
        yield kind, name.replace("/ABSOLUTE", str(folder))


def made(reader: str, path: str, name: str) -> bool:
    """Whether a file of the format can hold an array of the name at all, and does now."""
    try:
        WRITE[reader](path, {name: X})
    except (UnicodeEncodeError, ValueError, OSError):
        return False
    return True


def test_every_format_that_holds_names_has_a_hostile_file_here() -> None:
    assert sorted(WRITE) == sorted(READERS)


@pytest.mark.parametrize(("reader", "suffix"), PAIRS)
@pytest.mark.parametrize(
    ("more", "names"),
    [((), slice(0, None, 12)), slow((), slice(None)), slow(("--all",), slice(5, None, 4))],
    ids=["some", "every name", "--all"],
)
def test_names_of_files_stay_inside_the_output(
    reader: str, suffix: str, more: tuple[str, ...], names: slice, around: Path, cli: Cli
) -> None:
    tried, chosen = 0, list(named(around))[names]
    for number, (_kind, name) in enumerate(chosen):
        source, output = f"x{number}{FORMATS[reader].suffixes[0]}", f"out{number}{suffix}"
        if made(reader, source, name):
            before = outside(around, output)
            result = cli("avg", source, "-o", output, *HALVE, *more, "-q")
            check(result, before, around, output)
            tried += 1
    assert tried > len(chosen) // 2


def remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


@pytest.mark.parametrize("suffix", SEVERAL)
def test_names_are_refused_before_anything_is_computed(suffix: str, around: Path, cli: Cli) -> None:
    for kind in sorted(REFUSED)[:: sized(3, 1)]:
        source = f"{kind}.safetensors"
        assert made("safetensors", source, NAMES[kind])
        before = tree(around)
        for more in ((), ("--all",)):
            result = cli("avg", source, "-o", f"out{suffix}", *HALVE, "--dry-run", *more)
            assert (result.code, tree(around)) == (1, before)
            assert_one_line(result.err)
    WRITE["safetensors"]("two.safetensors", {"a": X, "/a": X})
    assert cli("avg", "two.safetensors", "-o", f"out{suffix}", *HALVE, "--dry-run", "--all").code == 2


@pytest.mark.parametrize("suffix", SEVERAL)
def test_ordinary_names_are_kept(suffix: str) -> None:
    for kind in ("ordinary", "with a colon", "newline", "oddity", "markup", "a chunk", "hidden"):
        write(f"out{suffix}", X, "NCHW", key=NAMES[kind])
        (header,) = list_arrays(f"out{suffix}")
        assert str(header.key).strip("/") == NAMES[kind]
        remove(f"out{suffix}")


@pytest.mark.parametrize("suffix", [slow(suffix) if suffix == ".h5" else suffix for suffix in SEVERAL])
def test_names_that_are_typed_stay_inside_the_output(suffix: str, around: Path, cli: Cli) -> None:
    np.save("x.npy", X)
    for kind, name in [("as it was found", "/../../n"), *named(around)][:: sized(2, 1)]:
        if "\0" in name or "\ud800" in name:
            continue  # which no command line holds
        before = outside(around, "out")
        result = cli("avg", "x.npy", "-o", f"out{suffix}:{name}", *HALVE, "-q")
        check(result, before, around, f"out{suffix}")
        assert result.code == (2 if kind in REFUSED or result.code else 0)
        if result.code == 0:
            remove(f"out{suffix}")


@pytest.mark.parametrize("suffix", SEVERAL)
def test_values_along_axes_have_names_that_stay_inside(suffix: str, around: Path) -> None:
    scale = Scale(np.arange(8.0), "", {})
    for kind, name in named(around):
        before = outside(around, "out")
        metadata = Metadata(dimensions=tuple(Dimension(label, {name: scale}) for label in "abcd"))
        try:
            write(f"out{suffix}", X, "NCHW", key="group/x", metadata=metadata)
        except PoolError as error:
            assert kind not in ("ordinary", "with a colon", "newline", "space")
            assert str(error).isprintable()
            assert not os.path.lexists(f"out{suffix}")
        else:
            assert kind not in REFUSED or not FORMATS[SEVERAL[suffix]].naming.nested
            remove(f"out{suffix}")
        assert outside(around, "out") == before


@pytest.mark.parametrize("path", ["../../precious.zarr", "..", "/etc", "a\nb", 7, "n" * 10_000, "a\0b"])
def test_levels_that_metadata_names_are_sought_in_the_store_alone(path: object, around: Path, cli: Cli) -> None:
    write_zarr("x.zarr", {"0": X[0]})
    document = json.loads(Path("x.zarr/zarr.json").read_text())
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    scale = [{"type": "scale", "scale": [1.0] * 3}]
    level = {"path": path, "coordinateTransformations": scale}
    document["attributes"] = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [level]}]}}
    Path("x.zarr/zarr.json").write_text(json.dumps(document))
    before = outside(around, "out.zarr")
    result = cli("pyramid", "x.zarr", "-o", "out.zarr")
    assert outside(around, "out.zarr") == before
    assert result.code in (1, 2)
    assert_one_line(result.err)


@pytest.mark.parametrize("suffix", [".npy", *SEVERAL])
def test_names_of_files_in_folders_stay_below_the_output(suffix: str, around: Path, cli: Cli) -> None:
    for number, name in enumerate(("...npy", "..npy", ". .npy", "a\nb.npy", "{stem}.npy", "C:\\x.npy", "b\udcff.npy")):
        folder = f"in{number}"
        os.mkdir(folder)
        Path(folder, name).write_bytes(BYTES)
        before = outside(around, "out")
        result = cli("avg", f"{folder}/{name}", "-o", "out/", "--format", suffix, *HALVE, "-q")
        assert outside(around, "out") == before
        assert result.code in (0, 2)
        if result.code:
            assert_one_line(result.err)
        shutil.rmtree("out", ignore_errors=True)


def test_an_input_above_the_folder_of_a_glob_is_refused(around: Path, cli: Cli) -> None:
    os.unlink("../zarr.json")  # which makes a store of that folder, and the files in it parts of it
    np.save("../up.npy", X)
    os.mkdir("here")
    before = tree(around)
    result = cli("avg", "*/../../*.npy", "-o", "out/", *HALVE, "-q")
    assert (result.code, tree(around)) == (2, before)
    assert "would be called '../up.npy'" in result.err
    assert_one_line(result.err)


def test_two_arrays_of_one_place_are_refused(cli: Cli) -> None:
    for number, arrays in enumerate(({"a": X, "a/b": X}, {"a/b/c": X, "a": X}, {"": X, "a": X}, {"/a": X, "a": X})):
        write_safetensors(f"x{number}.safetensors", arrays)
        result = cli("avg", f"x{number}.safetensors", "-o", f"y{number}.zarr", *HALVE, "--all", "-q")
        assert (result.code, os.path.exists(f"y{number}.zarr")) == (2, False)
        assert_one_line(result.err)


HOSTILE = {
    "newlines": "a\nINJECTED\r\nINJECTED", "escapes": "a\x1b[2J\x1b]0;INJECTED\x07",
    "many lines": "a" + "\nINJECTED" * 6_000, "long": "n" * 60_000, "long with spaces": "a" + " INJECTED" * 6_000,
    "right to left": "a\u202eINJECTED", "not UTF-8": "a\udcffb", "markup": "[red]a[/]",
    "marks of fields": "\ufdd0kernel\ufdd1INJECTED\ufdd1INJECTED\ufdd2\ufdd3", "C1": "a\x9b31mb\u2028INJECTED",
}  # fmt: skip


def roads(name: str) -> Iterator[tuple[str, ...]]:
    """Commands that meet the name in a file, in a path, in a manifest or in what is typed."""
    for number, (reader, suffix) in enumerate((reader, FORMATS[reader].suffixes[0]) for reader in READERS):
        if made(reader, f"x{number}{suffix}", name):
            two = f"two{number}{suffix}"
            WRITE[reader](two, {"first": X, name: X})
            yield from roads_of(f"x{number}{suffix}", two)
            if number % sized(len(READERS), 1) == 0:
                yield from roads_of(two, f"x{number}{suffix}")
    short = name[:40].replace("/", "")
    for path in (f"{short}.npy", f"{short}.txt", f"{short}/"):
        for command in ("info", "check", "pyramid", "shape", "max"):
            yield command, path
        yield "compare", path, path
        yield "identify", path, path
        yield "avg", path, "-o", path, *HALVE, "--json"
        yield "max", "x.npy", "-o", f"y.zarr:{path}", *HALVE
        yield "max", "x.npy", "-o", f"{{{short}}}/y.npy", *HALVE
        yield short, path
    yield "check", "model.onnx"
    yield "avg", "in", "-o", "out/", *HALVE, "--resume"
    yield "avg", "in", "-o", "out3/", *HALVE, "--json"


def roads_of(source: str, other: str) -> Iterator[tuple[str, ...]]:
    yield "info", source
    yield "avg", source, "-o", f"{source}.npz", *HALVE, "-v"
    yield "avg", source, "-o", f"{source}.zarr", *HALVE, "--all", "--json"
    yield "avg", source, "-o", f"{source}.safetensors", *HALVE, "--debug"
    yield "compare", source, other
    yield "identify", source, other, "--op", "max"
    yield "pyramid", source, "-o", f"{source}.ome.zarr"
    yield "shape", source, "-k", "2"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["newlines", *[*HOSTILE][1 :: sized(2, 1)]])
def test_names_are_escaped_and_cut_wherever_they_are_printed(kind: str, cli: Cli) -> None:
    name, tried = HOSTILE[kind], set[str]()
    np.save("x.npy", X)
    os.mkdir("in")
    for ending in (".npy", ".npz", ".txt"):
        Path("in", name[:40].replace("/", "") + ending).write_bytes(BYTES if ending == ".npy" else b"broken")
    os.mkdir("out")
    Path("out/.poolcli.jsonl").write_text(json.dumps({"output": name, "indices": None}) + "\n")
    layer = name.encode("utf-8", "surrogateescape").decode(errors="replace")
    nodes = [node("MaxPool", kernel_shape=[2, 2], name=layer), node("NoSuch", "y", "z", name=layer, domain=layer)]
    model(Path("model.onnx"), nodes)
    for words in roads(name):
        tried.add(words[0])
        try:
            result = cli(*words, columns=20_000)
        except PoolError as error:  # with --debug
            result = Result(error.exit_code, "", f"{error}\n")
        assert_clean(words, result)
    assert {"avg", "info", "compare", "identify", "check", "pyramid", "shape"} <= tried


def assert_clean(words: tuple[str, ...], result: Result) -> None:
    """Nothing raw of a name, nor all of a long one; JSON is JSON."""
    for text in (result.out, result.err):
        lines = text.removesuffix("\n").split("\n")
        assert all(line.isprintable() for line in lines), words
        assert not any(line.startswith("INJECTED") for line in lines), words
    assert len(result.err) < 10_000, words
    assert "unexpected" not in result.err
    if "--json" in words:
        assert all(json.loads(line) for line in result.out.splitlines())
    else:
        assert len(result.out) < 20_000, words


@pytest.mark.parametrize(
    ("path", "kept", "refused", "reason"),
    [
        ("y.zarr", [f"a/{'x' * 255}"], [f"a/{'x' * 256}"], "at most 1,024 bytes are possible, and 255 between slashes"),
        ("y.zarr", [f"a/{'é' * 127}"], [f"a/{'é' * 128}"], "at most 1,024 bytes are possible"),
        ("y.zarr", ["/".join(["x" * 204] * 5)], ["/".join(["x" * 204] * 5) + "x"], "at most 1,024 bytes are possible"),
        ("y.h5", ["a", "b/a"], ["a", "a/b"], "a would be both an array and the group of a/b; pool one of them"),
        ("y.h5", ["a\udcffb"], ["a\ud800b"], "it is not valid UTF-8"),
        ("y.safetensors", ["a", "a/b"], ["a\udcffb"], "it is not valid UTF-8"),
    ],
    ids=["a long component", "in UTF-8", "a long name", "a group", "lone surrogates", "no groups"],
)
def test_names_that_are_kept_and_refused(path: str, kept: list[str], refused: list[str], reason: str) -> None:
    assert array_names(path, kept) == kept
    with pytest.raises(PoolError, match=reason):
        array_names(path, refused)
    assert array_names("y.npy", ["../x", "a\0b", "a", "a"]) == [""] * 4  # which have no names
