"""Runs over many files: lists, workers, what is not taken, and what a bad file costs."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.folders import DEEPER, EACH, HALVE, MANIFEST, counts, outputs, tree
from tests.conftest import Cli


@pytest.mark.workers
def test_outcomes_come_in_the_order_of_the_inputs_however_many_run_at_once(cli: Cli, many: Path) -> None:
    for jobs in ("1", "2", "5"):
        result = cli("avg", "in", "-r", "-o", f"out{jobs}/", *HALVE, "--json", "--jobs", jobs)
        assert result.code == 0
        paths = [json.loads(line)["input"]["path"] for line in result.out.splitlines()]
        assert paths == [f"in/{i:02}.npy" for i in range(10)] + ["in/deep/10.npy", "in/deep/11.npy"]
    assert outputs("out1") == outputs("out2") == outputs("out5")


@pytest.mark.compiles
def test_files_times_threads_stay_within_the_cores(cli: Cli, many: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    result = cli("avg", "in", "-o", "out/", *HALVE, "--json", "--engine", "numba", "-j", "64")
    threads = {json.loads(line)["threads"] for line in result.out.splitlines()}
    assert threads == {max(1, cores // min(10, cores))}


def test_a_list_of_files_keeps_the_tree(cli: Cli, many: Path) -> None:
    Path("in/03.npy").rename("BMW.npy")  # BM begins a picture, too
    Path("list").write_text(f"BMW.npy\nin/deep/10.npy\n{many}/in/04.npy\n")
    assert cli("avg", "--files-from", "list", "-o", "out/", *HALVE, "-q").code == 0
    assert set(tree("out")) == {MANIFEST, "BMW.npy", "in/deep/10.npy", "04.npy"}


def test_a_list_from_stdin_may_be_ended_by_nul(cli: Cli, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = os.fsencode("in/new\nline.npy"), b"in/\xff.npy", b"in/-k.npy"
    for name in names:
        with open(name, "wb") as stream:
            np.save(stream, np.zeros((1, 1, 4, 4), np.float32))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"\0".join(names) + b"\0")))
    result = cli("avg", "--files-from", "-", "-o", "out/", *HALVE)
    assert (result.code, result.err) == (0, "")
    assert sorted(os.listdir(b"out/in")) == [b"-k.npy", b"new\nline.npy", b"\xff.npy"]


@pytest.mark.workers
def test_bad_files_of_every_kind_fail_alone(cli: Cli, many: Path) -> None:
    Path("in/00.npy").write_bytes(b"nonsense")
    os.mkfifo("in/pipe.npy")
    os.symlink("nowhere", "in/dangling.npy")
    os.symlink("circle.npy", "in/circle.npy")
    Path("in/empty.npy").touch()
    result = cli("avg", "in", "-o", "out/", *HALVE)
    assert (result.code, result.out) == (1, "9 done, 0 skipped, 5 failed" + DEEPER)
    assert result.err.splitlines() == [
        "poolcli: in/00.npy: is not a .npy file (its first bytes are not those of one)",
        "poolcli: in/circle.npy: Too many levels of symbolic links",
        "poolcli: in/dangling.npy: No such file or directory",
        "poolcli: in/empty.npy: is empty",
        "poolcli: in/pipe.npy: is not a regular file",
    ]


@pytest.fixture
def locked(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """in/locked, which cannot be searched; root may search every folder, so that no mode does this."""
    np.save("in/zz.npy", np.ones((1, 1, 4, 4), np.float32))
    Path("in/locked").mkdir()
    scan = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if os.fspath(path) == "in/locked":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)


@pytest.mark.usefixtures("locked")
def test_a_folder_that_cannot_be_searched_fails_alone(cli: Cli) -> None:
    result = cli("avg", "in", "-r", "-o", "out/", *HALVE)
    assert (result.code, result.out) == (1, f"13 done, 0 skipped, 1 failed\n{EACH}")
    assert result.err == "poolcli: in/locked: Permission denied\n"
    assert len(tree("out")) == 14
    result = cli("avg", "in/locked", "in/00.npy", "-o", "other/", *HALVE)
    assert (result.code, result.out) == (1, f"1 done, 0 skipped, 1 failed\n{EACH}")
    assert result.err == "poolcli: in/locked: Permission denied\n"


def test_a_folder_inside_its_own_input_is_not_picked_up_again(cli: Cli, many: Path) -> None:
    for _ in range(2):
        assert cli("avg", "in", "-r", "-o", "in/out/", *HALVE, "--overwrite", "-q").code == 0
    assert set(tree("in/out")) == {MANIFEST, *(f"{i:02}.npy" for i in range(10)), "deep/10.npy", "deep/11.npy"}


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_works(cli: Cli, many: Path) -> None:
    import fcntl

    Path("out").mkdir()
    with open(f"out/{MANIFEST}", "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = cli("avg", "in", "-o", "out/", *HALVE)
    assert (result.code, result.err) == (2, "poolcli: another run is writing to out/; wait until it ends\n")


@pytest.mark.slow
def test_a_pipe_is_written_through_and_never_replaced(many: Path) -> None:
    np.save("long.npy", np.full((1, 1, 2048, 2048), 3, np.float32))
    os.mkfifo("pipe.npy")
    words = ["avg", "long.npy", "-o", "pipe.npy", *HALVE, "--resume", "-q", "--engine", "numpy"]
    command = [sys.executable, "-m", "poolcli", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    read = subprocess.run(["cat", "pipe.npy"], capture_output=True, timeout=60)  # which may never come
    assert len(read.stdout) == 128 + 4 * 1024 * 1024
    _, said = process.communicate(timeout=60)
    assert Path("pipe.npy").is_fifo()
    assert b"Traceback" not in said


def test_what_a_folder_run_did_not_take_is_counted_and_named(folder: Path, cli: Cli) -> None:
    Path("in/below").mkdir(parents=True)
    for name in ("a.npy", "below/b.npy"):
        np.save(f"in/{name}", np.zeros((1, 1, 4, 4), np.float32))
    for name in ("scan.heic2", "notes.txt", ".hidden.npy", "below/more.txt", ".poolcli.jsonl", ".b.npy.1-2-3.part"):
        Path("in", name).touch()  # the last two are of runs, and not counted
    result = cli("avg", "in", "-o", "in/out/", "-k", "2", columns=200)
    taken = "ignored: in/.hidden.npy, in/below/, in/notes.txt, in/scan.heic2; use -r (and --overwrite) for subfolders\n"
    assert f", 4 ignored\neach  N=1 C=1 H=4 W=4 to N=1 C=1 H=3 W=3\nnote  {taken}" in result.out
    Path("in/link").symlink_to("below")
    result = cli("avg", "in", "-r", "-o", "in/out/", "-k", "2", "--overwrite", columns=200)
    assert "ignored: in/.hidden.npy, in/link, in/notes.txt, in/scan.heic2, in/below/more.txt\n" in result.out
    result = cli("avg", "in/below", "-o", "json/", "-k", "2", "--json")
    assert (result.err, result.json["error"]) == ("poolcli: ignored: in/below/more.txt\n", None)
    for i in range(30):
        Path(f"in/below/{i:02}.txt").touch()
    listed = ", ".join(f"in/below/{i:02}.txt" for i in range(10))
    assert f"ignored: {listed} and 21 more\n" in cli("avg", "in/below", "-o", "many/", "-k", "2", columns=200).out


def images(*names: str) -> None:
    Path("in").mkdir(exist_ok=True)
    for name in names:
        Path("in", name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (9, 9, 9)).save(f"in/{name}")


CLASH = "in/photo.bmp, in/photo.png: more than one input would be written to"
REMEDY = "pool them into different folders or rename one"


def test_inputs_of_one_output_name_fail_alone(folder: Path, cli: Cli) -> None:
    images("a.png", "photo.png", "photo.bmp")
    result = cli("avg", "in", "-o", "out/", "--format", "npy", *HALVE)
    assert (result.code, result.out.splitlines()[0]) == (1, "1 done, 0 skipped, 2 failed")
    assert result.err == f"poolcli: {CLASH} out/photo.npy; {REMEDY}\n"
    assert set(tree("out")) == {MANIFEST, "a.npy"}


def test_what_stands_where_two_inputs_clash_is_neither_replaced_nor_taken_for_an_output(folder: Path, cli: Cli) -> None:
    images("a.png", "photo.png", "photo.bmp")
    Path("out").mkdir()
    Path("out/photo.npy").write_bytes(b"precious")
    words = ("avg", "in", "-o", "out/", "--format", "npy", *HALVE)
    assert counts(cli(*words)) == "1 done, 0 skipped, 2 failed"
    assert counts(cli(*words, "--resume")) == "0 done, 1 skipped, 2 failed"
    Path("in/photo.bmp").unlink()
    assert cli(*words, "--resume").code == 2
    assert Path("out/photo.npy").read_bytes() == b"precious"
    Path("out/photo.npy").unlink()
    assert counts(cli(*words, "--resume")) == "1 done, 1 skipped, 0 failed"
    made = tree("out")["photo.npy"]
    images("photo.bmp")
    assert counts(cli(*words, "--resume")) == "0 done, 1 skipped, 2 failed"
    assert tree("out")["photo.npy"] == made


def test_images_of_formats_that_are_only_read_are_written_as_png(folder: Path, cli: Cli) -> None:
    images("a.png", "b.TGA", "c.jp2")
    result = cli("avg", "in", "-o", "out/", *HALVE, columns=200)
    assert (result.code, result.err) == (0, "")
    assert set(tree("out")) == {MANIFEST, "a.png", "b.png", "c.png"}
    assert "note  written as .png: poolcli does not write .tga (1 of 3 files)\n" in result.out
    result = cli("avg", "in/b.TGA", "in/a.png", "-o", "deep/", "--format", "bmp", *HALVE, columns=200)
    assert ("written as" in result.out, Path("deep/b.bmp").exists()) == (False, True)
    single = cli("avg", "in/b.TGA", "-o", "b.png", *HALVE)
    assert (single.code, "written as" in single.out) == (0, False)


def test_an_option_serves_the_files_of_a_folder_that_it_is_for(folder: Path, cli: Cli) -> None:
    images("a.png", "b.jpg")
    np.save("in/c.npy", np.full((1, 1, 4, 4), 0.5))
    np.savez("in/d.npz", one=np.zeros((1, 1, 4)), two=np.zeros((1, 1, 4, 4)))
    Image.fromarray(np.eye(4, dtype=np.float32)).save("in/e.tif")
    run = ("avg", "in/a.png", "in/b.jpg", "in/c.npy", "in/d.npz", "-o", "out/", *HALVE, "--pages", "1")
    assert cli(*run, "--dataset", "two", "--quality", "80", "-q").err == ""
    assert np.load("out/d.npz")["two"].shape == (1, 1, 2, 2)
    assert cli("avg", "in/c.npy", "in/e.tif", "-o", "8/", *HALVE, "--rescale", "-q").err == ""
    assert [np.load("8/c.npy").dtype.name, np.asarray(Image.open("8/e.tif")).dtype.name] == ["float64", "uint8"]


def test_an_output_without_a_suffix_is_a_folder_for_several_inputs(cli: Cli, many: Path) -> None:
    assert cli("avg", "in", "-o", "small", "-k", "2", "-s", "2", "-q").code == 0
    assert sorted(path.name for path in Path("small").glob("*.npy")) == [f"{i:02}.npy" for i in range(10)]
    assert cli("max", "in/00.npy", "in/01.npy", "-o", "two", "-k", "2", "--indices", "where", "-q").code == 0
    assert {path.parent.name for path in many.glob("*/01.npy")} == {"in", "small", "two", "where"}
