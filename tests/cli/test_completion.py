"""What an unfinished word may become: as the program answers, and as shells put it into their lines."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from poolcli.cli.app import run
from poolcli.cli.commands import BY_NAME, COMMANDS
from poolcli.cli.options import OPTIONS, Option
from poolcli.cli.parameters import parameters
from poolcli.cli.question import OF_ALL, answers
from tests.cli.shells import SHELLS, Typist
from tests.cli.test_plain import lines, value_of
from tests.cli.typer_answers import typer_answers
from tests.conftest import SAMPLES, Cli


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What the scripts are answered for the last word of a line: words, some with an explanation behind a tabulator."""
    monkeypatch.setenv("_POOLCLI_COMPLETE", line)
    capsys.readouterr()
    assert run([]) == 0
    return capsys.readouterr().out.splitlines()


LINES = {
    "poolcli av": ["avg\tAverage of every window (OpenVINO AvgPool, nGraph AvgPool)."],
    "poolcli help av": ["avg\tAverage of every window (OpenVINO AvgPool, nGraph AvgPool)."],
    "poolcli --sh": ["--show-completion"],
    "poolcli avg --ker": ["--kernel\tWindow size: 3, or 3,5 (order D,H,W)."],
    "poolcli avg x.npy --output-l": ["--output-layout\tAxes of the output."],
    "poolcli avg x.npy --like p": ["pytorch"],
    "poolcli avg x.npy --like=p": ["pytorch"],
    "poolcli avg x.npy --dtype floa": ["float16", "float32", "float64"],
    "poolcli avg x.npy -k 2 --auto-pad same": ["same_upper", "same_lower"],
    "poolcli avg ": ["a b.npy", "bad.npy", "in/", "photo.png", "s.zarr/", "volume.h5", "x.npy"],
    "poolcli avg 'a ": ["a b.npy"],
    "poolcli avg in/": ["in/deep/"],
    "poolcli avg volume.h5:/f": ["volume.h5:/features"],
    "poolcli avg s.zarr:": ["s.zarr:/one"],
    "poolcli avg volume.h5 --dataset ": ["/features", "/weights"],
    "poolcli avg x.npy -k 2 -o ph": ["photo.png"],
    "poolcli avg x.npy -k ": [],
    "poolcli shape ma": ["max"],
    "poolcli shape max x": ["x.npy"],
    "poolcli check ": ["in/", "m.onnx", "s.zarr/"],
    "poolcli cache c": ["clear"],
    "poolcli avg bad.npy --dataset ": [],
    "poolcli avg nowhere/": [],
}


@pytest.mark.parametrize("line", LINES)
def test_a_shell_completes_commands_options_values_files_and_arrays(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File("volume.h5", "w") as file:
        file["features"], file["weights"] = np.zeros((1, 1, 4)), np.zeros((1, 1, 4))
    zarr.create_array("s.zarr", name="one", shape=(1, 1, 4), dtype="float32")
    Path("in/deep").mkdir(parents=True)
    for name in ("m.onnx", "notes.txt", "a b.npy", "two\nlines.npy", "tab\t.npy", os.fsdecode(b"\xff.npy")):
        Path(name).touch()
    assert [word for word in completed(monkeypatch, capsys, line) if word] == LINES[line]


@pytest.mark.parametrize("line", ["avg volume.h5:/f", "avg volume.h5 --dataset ", "avg volume.h5 --dataset=/f"])
def test_arrays_are_looked_for_in_another_process_before_the_commands_are_loaded(line: str, folder: Path) -> None:
    with h5py.File("volume.h5", "w") as file:
        file["features"] = np.zeros((1, 1, 4))
    code = """if True:
        import poolcli.system.subprocesses as core, sys
        from poolcli.cli.app import run
        apart = core.apart
        def told(path, look):
            print(path, "poolcli.cli.commands" in sys.modules)
            return apart(path, look)
        core.apart = told
        run([])"""
    environment = os.environ | {"_POOLCLI_COMPLETE": f"poolcli {line}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["volume.h5 False", *LINES[f"poolcli {line}".replace("=/f", " ")][:1]]


@st.composite
def unfinished_lines(draw: st.DrawFn) -> str:
    """A plain line whose last word, an option, its value or what has a place, is typed in part."""
    words = draw(lines())
    if draw(st.integers(0, 9)) == 0:
        words = draw(st.sampled_from([[], ["-V"], ["none"]]))
    taken = list(parameters(BY_NAME[words[0]])) if words and words[0] in BY_NAME else list(parameters(COMMANDS[0]))
    each = draw(st.sampled_from(taken))
    value = draw(st.sampled_from([value_of(each), f"{SAMPLES}/", f"{SAMPLES}/volume.h5:/x", "avg", "F", "--", "-", ""]))
    last = [value]
    if isinstance(each.row, Option):
        flag = draw(st.sampled_from(each.row.all_flags))
        last = draw(st.sampled_from([[value], [flag], [flag, value], [f"{flag}={value.lstrip('-')}"]]))
    typed = last[-1][: draw(st.integers(0, len(last[-1])))]
    return " ".join(["poolcli", *map(shlex.quote, [*words, *last[:-1]]), draw(st.sampled_from(["", "'", '"'])) + typed])


def left_out(line: str) -> Iterator[str]:
    """What only one of both answers: names of other frameworks, and flags that are typed already."""
    typed = set(line.split())
    yield from OF_ALL[:2] if "-V" in typed else ()
    for row in OPTIONS.values():
        if isinstance(row, Option):
            yield from row.also.split()
            yield from row.all_flags if not row.metavar and typed & {*row.all_flags} else ()


@given(unfinished_lines())
def test_an_unfinished_line_is_answered_as_typer_answers_it(line: str) -> None:
    gone = tuple(left_out(line))
    found, expected = ([each for each in all_of if each.partition("\t")[0] not in gone]
                       for all_of in (answers(line), typer_answers(line)))  # fmt: skip
    assert found == expected


def test_every_path_that_an_option_takes_is_known() -> None:
    from poolcli.cli.completing import _PATHS

    assert {row.path for row in OPTIONS.values()} - {""} <= set(_PATHS)


EVIL = '$(touch taken)`touch taken`\\$(touch taken);"it\'s".npy'
TYPED = {
    "poolcli avg x.npy --overw": "poolcli avg x.npy --overwrite ",
    "poolcli avg x.npy --dtype=float3": "poolcli avg x.npy --dtype=float32 ",
    "poolcli avg i": "poolcli avg in/",
    "poolcli avg volume.h5:/f": "poolcli avg volume.h5:/features ",
    "poolcli avg 'a ": "poolcli avg 'a b.npy' ",
    "poolcli avg a\\ ": "poolcli avg a\\ b.npy ",
    "poolcli avg ~/i": "poolcli avg ~/in/",
}
NAMES = {"poolcli avg c": "c:d.npy", "poolcli avg \\$": EVIL}


@pytest.fixture(params=SHELLS)
def typist(request: pytest.FixtureRequest, folder: Path, cli: Cli) -> Iterator[Typist]:
    """A shell with poolcli's completion, in a folder that is its home as well."""
    shell = str(request.param)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} is installed")
    with h5py.File("volume.h5", "w") as file:
        file["features"], file["weights"] = np.zeros((1, 1, 4)), np.zeros((1, 1, 4))
    Path("in").mkdir()
    for name in ("a b.npy", "c:d.npy", "in/q.npy", EVIL):
        Path(name).touch()
    program = folder / "bin" / "poolcli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m poolcli "$@"\n')
    program.chmod(0o755)
    Path("script").write_text(cli("--show-completion", shell).out)
    with Typist(SHELLS[shell], folder, os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}) as typist:
        yield typist


@pytest.mark.slow
def test_shells_put_what_was_meant_into_their_lines_and_evaluate_no_name(typist: Typist) -> None:
    assert {typed: typist.completed(typed) for typed in TYPED} == TYPED
    lines = {typed: typist.completed(typed) for typed in NAMES}
    assert {typed: shlex.split(line)[-1] for typed, line in lines.items()} == NAMES
    assert not Path("taken").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_put_where_it_looks_for_it(
    shell: str, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    places = {
        "bash": ".bash_completions/poolcli.sh",
        "zsh": ".zfunc/_poolcli",
        "fish": ".config/fish/completions/poolcli.fish",
    }
    where = folder / places[shell]
    result = cli("--install-completion", shell)
    assert (result.code, result.out) == (0, f"wrote {where}; a new {shell} completes words of poolcli\n")
    assert where.read_text() == cli("--show-completion", shell).out
    where.unlink()
    where.mkdir()
    refused = cli(f"--install-completion={shell}")
    assert (refused.code, refused.err) == (
        1,
        f"poolcli: {where}: Is a directory; poolcli --show-completion {shell} prints what belongs there\n",
    )
