"""The program as a process: what it loads, how it stops, and what it does when its streams fail."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Cli
from tests.processes import HEAVY
from tests.profiles import sized, slow

POOLCLI = [sys.executable, "-m", "poolcli"]
LOADED = f"import sys; print('loaded:', sorted({{n.split('.')[0] for n in sys.modules}} & { {'numpy', *HEAVY} }))"


def loaded_by(*commands: list[str]) -> list[list[str]]:
    """The heavy packages that a fresh process has loaded after each of the commands, which it runs in this order."""
    code = f"from poolcli.cli import run\nfor words in {list(commands)!r}:\n    run(words)\n    {LOADED}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [line.removeprefix("loaded: ") for line in done.stdout.splitlines() if line.startswith("loaded: ")]
    return [json.loads(line.replace("'", '"')) for line in lines]


def test_help_typed_shapes_and_models_load_no_array_library_and_small_arrays_numpy_alone(folder: Path) -> None:
    Path("m.xml").write_text("<net><layers/></net>")
    commands = [
        ["--version"], ["--help"], ["avg", "--help"], ["check", "--help"], ["check", "m.xml"],
        ["shape", "avg", "1,3,32,32", "-k", "2"],
        ["shape", "avg", "1,3,32,32", "-k", "2", "--explain", "--compare", "--to", "pytorch"],
        ["shape", "avg", "1,3,32,32", "--solve", "16"], ["shape", "max", "1,1,9", "-k", "2", "--picture", "p.svg"],
    ]  # fmt: skip
    small = (["shape", "avg", "x.npy", "-k", "2"], ["avg", "x.npy", "-o", "y.npy", "-k", "2"])
    assert loaded_by(*commands, *small) == [[]] * len(commands) + [["numpy"]] * 2


def test_one_file_goes_in_on_stdin_and_comes_out_on_stdout(folder: Path) -> None:
    data = Path("x.npy").read_bytes()
    done = subprocess.run([*POOLCLI, "max", "-", "-o", "-", "-k", "2", "-s", "2"], input=data, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"poolcli: -: layout NCHW (assumed; --layout to change)\n")
    quiet = subprocess.run([*POOLCLI, "max", "-", "-o", "-", "-k2", "-s2", "-q"], input=data, capture_output=True)
    assert (quiet.stdout, quiet.stderr) == (done.stdout, b"")
    Path("y.npy").write_bytes(done.stdout)
    expected = np.load("x.npy").reshape(1, 2, 3, 2, 4, 2).max((3, 5))
    np.testing.assert_array_equal(np.load("y.npy"), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "times", "code", "word"),
    [
        (signal.SIGINT, 1, 130, "interrupted"), slow(signal.SIGTERM, 1, 143, "ended"),
        slow(signal.SIGHUP, 1, 129, "the terminal was closed"),
        (signal.SIGTERM, 5, 143, "ended"),  # as `timeout` sends it: to the process, and to its group
    ],
)  # fmt: skip
def test_a_signal_while_waiting_for_input_ends_with_its_code_and_leaves_nothing(
    folder: Path, number: signal.Signals, times: int, code: int, word: str
) -> None:
    before = sorted(os.listdir())
    with subprocess.Popen(
        [*POOLCLI, "avg", "-", "-o", "y.npy", "-k", "2"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(1.5)
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.005)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, f"poolcli: {word}\n")
    assert sorted(os.listdir()) == before


SWALLOWED = """
import os, signal
import poolcli.pooling.tiles as module
whole = module.pool_part
def swallowing(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
    return whole(*arguments)
module.pool_part = swallowing
from poolcli.__main__ import main
main()
"""


@pytest.mark.slow
def test_a_signal_that_a_library_swallows_ends_the_run_all_the_same(folder: Path) -> None:
    before = sorted(os.listdir())
    command = [sys.executable, "-c", SWALLOWED, "avg", "x.npy", "-o", "y.npy", "-k", "2", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr, sorted(os.listdir())) == (130, "poolcli: interrupted\n", before)


COUNT = sized(4, 24)  # of instants


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), slow(signal.SIGTERM, 143), slow(signal.SIGHUP, 129)]
)
def test_a_signal_at_any_instant_ends_without_a_traceback_or_a_trace(
    number: signal.Signals, code: int, folder: Path
) -> None:
    """From when Python has started, which is not in anybody's hands, to the end."""
    before = sorted(os.listdir())
    for i in range(COUNT):
        command = [*POOLCLI, "avg", "x.npy", "photo.png", "-o", "out/", "-k", "2", "-q", "--overwrite"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(0.1 + 0.4 * i / COUNT)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        if "<frozen " in err and f"{os.sep}poolcli{os.sep}" not in err:
            continue  # Python had not started yet, on a busy machine
        assert process.returncode in (code, -number, 0)
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        assert not list(Path().rglob("*.part"))
    assert sorted(set(os.listdir()) - {"out"}) == before


@pytest.mark.slow
def test_the_traceback_is_shown_with_debug_only(folder: Path, cli: Cli) -> None:
    command = ["avg", "bad.npy", "-o", "y.npy", "-k", "2"]
    plain = cli(*command)
    debug = subprocess.run([*POOLCLI, *command, "--debug"], capture_output=True, text=True)
    assert "Traceback" not in plain.err
    assert plain.err.removeprefix("poolcli: ") in debug.stderr
    assert "Traceback" in debug.stderr
    assert debug.stderr.endswith("bad.npy: is not a .npy file (its first bytes are not those of one)\n")


BAD_STREAM = "poolcli: standard output: Bad file descriptor\n"
SHELL = {  # a command, its exit code, and what stands on standard output and standard error
    "standard output is closed": ("{} avg x.npy -o y.npy -k 2 >&-", 1, "", BAD_STREAM),
    "the place of numbers is closed": ("{} avg x.npy -o - -k 2 >&-", 1, "", BAD_STREAM),
    "standard error is closed": ("{} avg nothing.npy -o y.npy -k 2 2>&-", 1, "", ""),
    "standard input is closed": ("{} avg - -o y.npy -k 2 <&-", 1, "",
        "poolcli: -: is not a .npy file (its first bytes are not those of one); give a .npy file: poolcli avg - ... < "
        "x.npy, or the name of the file\n"),
    "standard output is full": ("{} shape avg 1,1,9 -k 2 > /dev/full", 1, "",
        "poolcli: standard output: No space left on device\n"),
    "too few files can be open": ("mkdir in; cp x.npy in/a.npy; cp x.npy in/b.npy; ulimit -n 8; {} avg in -o out/ -k 2",
        1, "", "poolcli: this process: Too many open files\n"),
    "a reader goes away": ("{} shape avg 1,1,9 -k 2 | true", 0, "", ""),
    "a width of 0": ("COLUMNS=0 {} shape avg 1,1,9 -k 2 -q", 0, "1,1,8\n", ""),
    "a width of 0, help": ("COLUMNS=0 {} avg --help | grep -c AvgPool", 0, "1\n", ""),
    "an encoding without the characters of a name": (
        "mv x.npy \N{SNOWMAN}.npy; PYTHONIOENCODING=ascii {} info \N{SNOWMAN}.npy | head -1", 0,
        "\\u2603.npy: npy\n", "",
    ),
    "a current folder that is gone": ("mkdir gone; cd gone; rmdir ../gone; {} avg ../x.npy -o y.npy -k 2", 1, "",
        "poolcli: current folder: No such file or directory\n"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [row if "full" in name else slow(*row) for name, row in SHELL.items()], ids=SHELL,
)  # fmt: skip
def test_odd_streams_terminals_and_folders_end_in_an_exit_code_and_no_traceback(
    command: str, code: int, out: str, err: str, folder: Path
) -> None:
    line = command.format(shlex.join(POOLCLI))
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    assert (done.stdout, done.stderr, done.returncode) == (out, err, code)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_no_bytes_of_an_array_are_printed_on_a_terminal(folder: Path) -> None:
    _, terminal = os.openpty()
    done = subprocess.run([*POOLCLI, "avg", "x.npy", "-o", "-", "-k", "2"], stdout=terminal, stderr=subprocess.PIPE)
    said = b"poolcli: standard output is a terminal; redirect it, as in > y.npy, or name a file\n"
    assert (done.returncode, done.stderr) == (2, said)
