"""Runs over many files: lists, workers, what is left by runs that were stopped, and what a bad file costs."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Cli
from tests.profiles import sized

HALVE = ("-k", "2", "-s", "2")
DEEPER = ", 1 not taken\nnote  not taken: in/deep/; -r takes subfolders\n"  # what is said where -r is not given
MANIFEST = ".poolcli.jsonl"


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with 12 arrays in `in`, two of them in a subfolder."""
    monkeypatch.chdir(tmp_path)
    Path("in/deep").mkdir(parents=True)
    for i in range(12):
        np.save(f"in/{'deep/' if i > 9 else ''}{i:02}.npy", np.full((1, 1, 4, 4), i, np.float32))
    return tmp_path


def tree(folder: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def test_outcomes_come_in_the_order_of_the_inputs_however_many_run_at_once(cli: Cli, many: Path) -> None:
    for jobs in ("1", "2", "5"):
        result = cli("avg", "in", "-r", "-o", f"out{jobs}/", *HALVE, "--json", "--jobs", jobs)
        assert result.code == 0
        paths = [json.loads(line)["input"]["path"] for line in result.out.splitlines()]
        assert paths == [f"in/{i:02}.npy" for i in range(10)] + ["in/deep/10.npy", "in/deep/11.npy"]
    assert tree("out1") == tree("out2") == tree("out5")


def test_jobs_times_threads_stay_within_the_cores(cli: Cli, many: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    result = cli("avg", "in", "-o", "out/", *HALVE, "--json", "--engine", "numba", "--threads", "64", "--jobs", "2")
    threads = {json.loads(line)["threads"] for line in result.out.splitlines()}
    assert threads == {max(1, cores // min(2, cores))}
    assert cli("avg", "in", "-o", "o/", *HALVE, "--jobs", "0").err == "poolcli: --jobs is 0, it must be at least 1\n"


def test_a_list_of_files_keeps_the_tree(cli: Cli, many: Path) -> None:
    Path("list").write_text(f"in/03.npy\nin/deep/10.npy\n{many}/in/04.npy\n")
    assert cli("avg", "--files-from", "list", "-o", "out/", *HALVE, "-q").code == 0
    assert set(tree("out")) == {MANIFEST, "in/03.npy", "in/deep/10.npy", "04.npy"}


def test_a_list_from_stdin_may_be_ended_by_nul(many: Path) -> None:
    names = os.fsencode("in/new\nline.npy"), b"in/\xff.npy", b"in/-k.npy"
    for name in names:
        with open(name, "wb") as stream:
            np.save(stream, np.zeros((1, 1, 4, 4), np.float32))
    command = [sys.executable, "-m", "poolcli", "avg", "--files-from", "-", "-o", "out/", *HALVE]
    result = subprocess.run(command, input=b"\0".join(names) + b"\0", capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert sorted(os.listdir(b"out/in")) == [b"-k.npy", b"new\nline.npy", b"\xff.npy"]


LISTS = {
    "missing list": ("--files-from none: No such file or directory", None),
    "empty list": ("--files-from list: names no file", ""),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_that_name_nothing_are_refused(name: str, cli: Cli, many: Path) -> None:
    message, content = LISTS[name]
    if content is not None:
        Path("list").write_text(content)
    result = cli("avg", "--files-from", "none" if content is None else "list", "-o", "out/", *HALVE)
    assert (result.code, result.err) == (2, f"poolcli: {message}\n")


def test_no_input_at_all_is_refused(cli: Cli, many: Path) -> None:
    result = cli("avg", "-o", "out/", *HALVE)
    assert (result.code, result.err) == (
        2,
        "poolcli: there is no input: name files, a folder, a quoted glob, or a list with --files-from\n",
    )


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


def test_fail_fast_stops_at_the_first_bad_file(cli: Cli, many: Path) -> None:
    Path("in/01.npy").write_bytes(b"nonsense")
    result = cli("avg", "in", "-o", "out/", *HALVE, "--fail-fast", "--jobs", "1")
    assert (result.code, result.out) == (1, "1 done, 0 skipped, 1 failed" + DEEPER)
    assert len(list(Path("out").glob("*.npy"))) <= 3


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
    assert (result.code, result.err) == (2, "poolcli: another run is writing to out/; wait for its end\n")


NOT_OURS: dict[str, tuple[Callable[[], object], int, str]] = {
    "a link": (lambda: os.symlink("../precious", f"out/{MANIFEST}"), 1, "is a link, which is not followed"),
    "a pipe": (lambda: os.mkfifo(f"out/{MANIFEST}"), 1, "is not a regular file"),
    "a folder": (lambda: os.mkdir(f"out/{MANIFEST}"), 1, "is not a regular file"),
    "somebody's file": (
        lambda: Path(f"out/{MANIFEST}").write_text("my notes\n"),
        2,
        "is no manifest of poolcli's; move it, or name another --output",
    ),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_manifest_that_is_not_our_own_is_neither_followed_nor_replaced(name: str, cli: Cli, many: Path) -> None:
    make, code, message = NOT_OURS[name]
    Path("out").mkdir()
    Path("precious").write_text("precious")
    make()
    for more in ((), ("--resume",), ("--overwrite",)):
        result = cli("avg", "in", "-o", "out/", *HALVE, *more)
        assert (result.code, result.err) == (code, f"poolcli: out/{MANIFEST}: {message}\n")
    assert os.listdir("out") == [MANIFEST]
    assert Path("precious").read_text() == "precious"
    if name == "somebody's file":
        assert Path(f"out/{MANIFEST}").read_text() == "my notes\n"


RECORD: dict[str, Any] = {
    "output": 5, "indices": None, "input": 5, "input_size": "x", "input_mtime_ns": None,
    "options": {}, "output_hash": 5, "indices_hash": 5,
}  # fmt: skip
LIES = [
    json.dumps(RECORD),
    json.dumps(RECORD | {"output": "00.npy"}),
    '{"output": 5, "indices": null}',
    '{"output": "x", "indices": 5}',
    '{"output": ' + "[" * 100_000,
    "[1]",
    "5",
    '{"output": "00.npy", "indices": null, "options": 7}',
    '{"output": "' + "x" * 3_000_000 + '"}',
]


@pytest.mark.parametrize("number", range(len(LIES)))
def test_lines_of_a_manifest_may_hold_anything(number: int, cli: Cli, many: Path) -> None:
    assert cli("avg", "in", "-o", "out/", *HALVE, "-q").code == 0
    clean = tree("out")
    with open(f"out/{MANIFEST}", "a") as manifest:
        manifest.write(LIES[number] + "\n")
    assert cli("avg", "in", "-o", "out/", *HALVE, "--resume", "-q").code == 0
    assert tree("out") == clean


# Going on


def counts(result: Any) -> str:
    return str(result.out).splitlines()[0]


def test_resume_makes_what_is_missing_or_out_of_date_and_nothing_else(cli: Cli, many: Path) -> None:
    run = ("avg", "in", "-r", "-o", "out/", *HALVE, "--resume")
    assert counts(cli(*run)) == "12 done, 0 skipped, 0 failed"
    clean = tree("out")
    assert counts(cli(*run)) == "0 done, 12 skipped, 0 failed"
    Path("out/03.npy").unlink()
    Path("out/04.npy").write_bytes(b"damaged")
    os.utime("in/05.npy", ns=(5, 5))  # the same content at another time
    assert counts(cli(*run)) == "3 done, 9 skipped, 0 failed"
    assert {name: h for name, h in tree("out").items() if name != MANIFEST} == {
        name: h for name, h in clean.items() if name != MANIFEST
    }
    np.save("in/06.npy", np.full((1, 1, 4, 4), 60, np.float32))
    assert counts(cli(*run)) == "1 done, 11 skipped, 0 failed"
    assert np.load("out/06.npy")[0, 0, 0, 0] == 60


def test_lines_that_say_more_are_read_as_well(cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    lines = Path(f"out/{MANIFEST}").read_text().splitlines()
    more = (json.dumps(json.loads(line) | {"input_hash": "of elder versions"}) for line in lines)
    Path(f"out/{MANIFEST}").write_text("".join(f"{line}\n" for line in more))
    assert counts(cli("avg", "in", "-o", "out/", *HALVE, "--resume")) == "0 done, 10 skipped, 0 failed, 1 not taken"


def test_other_options_make_everything_anew(cli: Cli, many: Path) -> None:
    assert counts(cli("avg", "in", "-o", "out/", *HALVE)) == "10 done, 0 skipped, 0 failed, 1 not taken"
    assert (
        counts(cli("avg", "in", "-o", "out/", "-k", "4", "-s", "4", "--resume"))
        == "10 done, 0 skipped, 0 failed, 1 not taken"
    )
    assert np.load("out/03.npy").shape == (1, 1, 1, 1)


def test_threads_and_memory_are_no_other_options(cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    result = cli("avg", "in", "-o", "out/", *HALVE, "--resume", "--threads", "1", "--max-memory", "100M", "--jobs", "1")
    assert counts(result) == "0 done, 10 skipped, 0 failed, 1 not taken"


def test_resume_does_not_touch_what_no_run_has_made(cli: Cli, many: Path) -> None:
    Path("out").mkdir()
    Path("out/03.npy").write_bytes(b"precious")
    result = cli("avg", "in", "-o", "out/", *HALVE, "--resume")
    assert (result.code, result.err) == (
        2,
        "poolcli: out/03.npy exists and was made by no run that --resume could continue; "
        "use --overwrite or --skip-existing, or another --output\n",
    )
    assert Path("out/03.npy").read_bytes() == b"precious"


def test_what_was_skipped_does_not_become_a_runs_own(cli: Cli, many: Path) -> None:
    Path("out").mkdir()
    Path("out/03.npy").write_bytes(b"precious")
    Path("in/00.npy").write_bytes(b"nonsense")  # the run fails, so that its manifest is left as it is
    assert cli("avg", "in", "-o", "out/", *HALVE, "--skip-existing").code == 1
    assert cli("avg", "in", "-o", "out/", *HALVE, "--resume").code == 2
    assert Path("out/03.npy").read_bytes() == b"precious"


@pytest.mark.parametrize("torn", [b"{", b'{"output": "03.npy", "ind', b"\xff\xfe\n", b"[]\n"])
def test_a_torn_line_of_the_manifest_costs_nothing(torn: bytes, cli: Cli, many: Path) -> None:
    cli("avg", "in", "-o", "out/", *HALVE)
    clean = tree("out")
    with open(f"out/{MANIFEST}", "ab") as manifest:
        manifest.write(torn)
    assert cli("avg", "in", "-o", "out/", *HALVE, "--resume").code == 0
    assert tree("out") == clean


SLOW = """
import sys, time
import poolcli.job.pool_file as module
whole = module.pool_part
def slowly(*arguments):
    time.sleep(0.05)
    return whole(*arguments)
module.pool_part = slowly
sys.argv = ["poolcli", *sys.argv[1:]]
from poolcli.__main__ import main
main()
"""


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_to_the_same_bytes(stop: signal.Signals, code: int, cli: Cli, many: Path) -> None:
    arguments = ("avg", "in", "-r", "-o", "out/", *HALVE)
    assert cli(*arguments).code == 0
    clean = tree("out")
    for _ in range(sized(1, 3)):
        subprocess.run(["rm", "-rf", "out"], check=True)
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, *arguments, "--jobs", "2"], stderr=subprocess.PIPE, start_new_session=True
        )
        wait_for(lambda: Path(f"out/{MANIFEST}").is_file() and Path(f"out/{MANIFEST}").read_text().count("hash") > 8)
        if stop is signal.SIGKILL:
            os.killpg(process.pid, stop)
        else:
            process.send_signal(stop)
        _, said = process.communicate(timeout=10)
        assert process.returncode == code
        if code > 0:
            records = Path(f"out/{MANIFEST}").read_text().count('"options"')
            match = re.fullmatch(rb"poolcli: stopped: (\d+) done, (\d+) left; --resume goes on\n", said)
            assert match
            assert int(match[1]) + int(match[2]) == 12
            assert records - int(match[1]) in (0, 1)  # one may have been noted at this very moment
            assert not [name for name in tree("out") if name.endswith(".part")]
        assert all(tree("out")[name] == clean[name] for name in tree("out") if name.endswith(".npy") and name[0] != ".")
        result = cli(*arguments, "--resume")
        assert result.code == 0
        assert counts(result) != "12 done, 0 skipped, 0 failed"
        assert {n: h for n, h in tree("out").items() if not n.endswith(".part")} == clean


def wait_for(what: Any) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


KILLED_ONCE = """
import os, signal, sys
import poolcli.batch.task as module
inner = module.run_job
def once(job, *rest):
    if job.source.path.endswith("03.npy") and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(job, *rest)
module.run_job = once
sys.argv = ["poolcli", *sys.argv[1:]]
from poolcli.__main__ import main
main()
"""


def test_a_worker_that_is_killed_costs_nothing_but_a_second_try(many: Path) -> None:
    command = [sys.executable, "-c", KILLED_ONCE, "avg", "in", "-o", "out/", *HALVE]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (result.returncode, result.stdout, result.stderr) == (0, "10 done, 0 skipped, 0 failed" + DEEPER, "")
    assert Path("killed").exists()


# One long file


def test_a_long_file_goes_on_where_it_was_stopped(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save("long.npy", np.random.default_rng(0).random((40, 4, 256, 256), np.float32))
    base = [sys.executable, "-m", "poolcli", "avg", "long.npy", *HALVE, "-q"]
    subprocess.run([*base, "-o", "whole.npy"], check=True)
    slow = (
        SLOW.replace("0.05", "0.3")
        .replace("poolcli.job.pool_file", "poolcli.job.tiles")
        .replace("whole =", "import poolcli.formats.continued as continued\ncontinued.NOTE_EVERY = 0\nwhole =")
    )
    command = [sys.executable, "-c", slow, *base[3:], "-o", "y.npy", "--resume", "--max-memory", "24M"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    wait_for(lambda: any(path.name.endswith(".at") for path in Path().glob(".y.npy*")))
    time.sleep(0.7)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    kept = list(Path().glob(".y.npy.*.kept.part"))
    assert len(kept) == 1
    done = kept[0].stat().st_size
    assert 4096 < done < Path("whole.npy").stat().st_size
    assert not Path("y.npy").exists()
    # what is there already is taken as it is: a mark in it stays
    with kept[0].open("r+b") as part:
        part.seek(200)
        part.write(b"MARK")
    subprocess.run([*base, "-o", "y.npy", "--resume", "--max-memory", "24M"], check=True)
    made = bytearray(Path("y.npy").read_bytes())
    assert made[200:204] == b"MARK"
    made[200:204] = Path("whole.npy").read_bytes()[200:204]
    assert made == Path("whole.npy").read_bytes()
    assert not [path for path in Path().iterdir() if ".part" in path.name]


@pytest.mark.parametrize("note", ["", "{", "17", "[[[0, 9]]]", "[[[0, 1], [0, 99999], [0, 1], [0, 1]]]", "[" * 99999])
def test_a_note_that_lies_is_not_believed(note: str, cli: Cli, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random((40, 4, 256, 256), np.float32)
    np.save("long.npy", x)
    monkeypatch.setattr("poolcli.job.write.Writer._identity", lambda *_: "0123456789ab")
    Path(".y.npy.0123456789ab.kept.part").write_bytes(b"x" * 1000)
    Path(".y.npy.0123456789ab.kept.part.at").write_text(note)
    assert cli("avg", "long.npy", "-o", "y.npy", *HALVE, "--resume", "-q", "--max-memory", "24M").code == 0
    assert cli("avg", "long.npy", "-o", "whole.npy", *HALVE, "-q").code == 0
    assert Path("y.npy").read_bytes() == Path("whole.npy").read_bytes()


def test_what_another_input_has_begun_is_not_continued(cli: Cli, many: Path) -> None:
    Path(".y.npy.0123456789ab.kept.part").write_bytes(b"of something else")
    Path(".y.npy.0123456789ab.kept.part.at").write_text("[[[0, 1]]]")
    np.save("long.npy", np.full((1, 1, 2048, 2048), 3, np.float32))
    assert cli("avg", "long.npy", "-o", "y.npy", *HALVE, "--resume", "-q").code == 0
    assert (np.load("y.npy") == 3).all()
    assert sorted(path.name for path in Path().iterdir()) == [MANIFEST, "in", "long.npy", "y.npy"]
    assert "skipped" in cli("avg", "long.npy", "-o", "y.npy", *HALVE, "--resume").out


def test_a_pipe_is_written_through_and_never_replaced(many: Path) -> None:
    np.save("long.npy", np.full((1, 1, 2048, 2048), 3, np.float32))
    os.mkfifo("pipe.npy")
    command = [sys.executable, "-m", "poolcli", "avg", "long.npy", "-o", "pipe.npy", *HALVE, "--resume", "-q"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    read = subprocess.run(["cat", "pipe.npy"], capture_output=True, timeout=20)  # which may never come
    assert len(read.stdout) == 128 + 4 * 1024 * 1024
    _, said = process.communicate(timeout=20)
    assert Path("pipe.npy").is_fifo()
    assert b"Traceback" not in said


def test_what_a_folder_run_did_not_take_is_counted_and_named(folder: Path, cli: Cli) -> None:
    Path("in/below").mkdir(parents=True)
    for name in ("a.npy", "below/b.npy"):
        np.save(f"in/{name}", np.zeros((1, 1, 4, 4), np.float32))
    for name in ("scan.heic2", "notes.txt", ".hidden.npy", "below/more.txt"):
        Path("in", name).touch()
    result = cli("avg", "in", "-o", "in/out/", "-k", "2", columns=200)
    taken = "not taken: in/.hidden.npy, in/below/, in/notes.txt, in/scan.heic2; -r takes subfolders\n"
    assert result.out.startswith(f"1 done, 0 skipped, 0 failed, 4 not taken\nnote  {taken}")
    Path("in/link").symlink_to("below")
    result = cli("avg", "in", "-r", "-o", "in/out/", "-k", "2", "--overwrite", columns=200)
    assert "not taken: in/.hidden.npy, in/link, in/notes.txt, in/scan.heic2, in/below/more.txt\n" in result.out
    result = cli("avg", "in/below", "-o", "json/", "-k", "2", "--json")
    assert (result.err, result.json["error"]) == ("poolcli: not taken: in/below/more.txt\n", None)


def test_what_a_run_itself_left_in_a_folder_is_not_counted(folder: Path, cli: Cli) -> None:
    Path("in").mkdir()
    np.save("in/a.npy", np.zeros((1, 1, 4, 4), np.float32))
    for name in (".poolcli.jsonl", ".b.npy.1-2-3.part"):
        Path("in", name).touch()
    assert cli("avg", "in", "-o", "out/", "-k", "2").out.startswith("1 done, 0 skipped, 0 failed\n")


def test_folder_runs_write_packed_npy_files_unpacked(folder: Path, cli: Cli) -> None:
    Path("in").mkdir()
    np.save("x.npy", np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    Path("in/a.npy.gz").write_bytes(gzip.compress(Path("x.npy").read_bytes()))
    assert cli("avg", "in", "-o", "out/", "-k", "4").out.startswith("1 done, 0 skipped, 0 failed\n")
    assert np.load("out/a.npy").tolist() == [[[[7.5]]]]


def test_many_names_that_were_not_taken_are_cut_short(folder: Path, cli: Cli) -> None:
    Path("in").mkdir()
    np.save("in/a.npy", np.zeros((1, 1, 4, 4), np.float32))
    for i in range(30):
        Path(f"in/{i:02}.txt").touch()
    result = cli("avg", "in", "-o", "out/", "-k", "2", columns=200)
    listed = ", ".join(f"in/{i:02}.txt" for i in range(10))
    assert f"not taken: {listed} and 20 more\n" in result.out
