"""What the program says of itself: help, the manual page, and what a shell may complete."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from poolcli.cli.commands import COMMANDS, Command
from poolcli.cli.options import OPTIONS, Option
from poolcli.cli.parameters import parameters
from tests.conftest import SAMPLES, Cli

BY_NAME = {command.name: command for command in COMMANDS}


@pytest.mark.parametrize("arguments", [["--help"], ["help"], *([name, "--help"] for name in BY_NAME)], ids=" ".join)
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_fits_the_terminal_and_a_page(cli: Cli, arguments: list[str], columns: int) -> None:
    shown = cli(*arguments, columns=columns).out.splitlines()
    wide = [line for line in shown if len(line) > columns and not line.startswith("  poolcli ")]
    assert wide == []
    if columns == 80:
        assert max(map(len, shown)) <= 80
        assert len(shown) <= 60


def test_help_is_had_in_many_ways_and_is_the_same(cli: Cli) -> None:
    for first, second in (
        (["avg", "--help"], ["help", "avg"]),
        (["avg", "-h"], ["help", "AvgPool"]),
        (["-h"], ["help"]),
    ):
        assert cli(*first).out == cli(*second).out
    assert cli("avg", "--help-all").out == cli("help", "avg", "--all").out
    assert cli("-V").out == cli("--version").out


def test_help_without_a_command_is_no_success(cli: Cli) -> None:
    result = cli()
    assert (result.code, result.out, result.err) == (2, "", cli("--help").out)


def test_help_begins_with_what_most_people_need(cli: Cli) -> None:
    shown = cli("avg", "--help").out
    assert "\n  poolcli avg INPUT... -k K -o PATH [options]\n" in shown
    places = [
        shown.index(f"\n  {flags} ")
        for flags in ("-k, --kernel K", "-s, --strides S", "-p, --pads P", "-o, --output PATH")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS, ids=BY_NAME)
def test_all_options_are_in_all_help_and_in_the_manual(cli: Cli, command: Command) -> None:
    everything, manual = cli(command.name, "--help-all").out, cli("help", "--man").out.replace("\\-", "-")
    for each in parameters(command):
        for flag in each.row.all_flags if isinstance(each.row, Option) else (each.row.metavar,):
            assert flag in everything
        assert each.row.metavar in manual
        assert not isinstance(each.row, Option) or all(flag in manual for flag in each.row.names)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.op], ids=lambda command: command.name)
def test_examples_name_files_that_the_samples_have(command: Command) -> None:
    for example in command.examples:
        inputs = [word for word in shlex.split(example) if word.startswith("samples")]
        assert inputs, example
        assert all((SAMPLES.parent / word).exists() for word in inputs), example


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What bash is given for the last word of a line."""
    from poolcli.cli.app import run

    words = line.split(" ")
    for name, value in {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_POOLCLI_COMPLETE": "complete_bash",
    }.items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        run([])
    return capsys.readouterr().out.split()


LINES = {
    "poolcli av": ["avg"],
    "poolcli avg --ker": ["--kernel"],
    "poolcli avg x.npy --lik": ["--like"],
    "poolcli avg x.npy --like p": ["pytorch"],
    "poolcli avg x.npy --dtype floa": ["float16", "float32", "float64"],
    "poolcli avg x.npy -k 2 --auto-pad same": ["same_upper", "same_lower"],
    "poolcli avg ": ["bad.npy", "in/", "photo.png", "volume.h5", "x.npy"],
    "poolcli avg in/": ["in/deep/"],
    "poolcli avg volume.h5:/f": ["volume.h5:/features"],
    "poolcli avg volume.h5 : /w": ["/weights"],
    "poolcli avg volume.h5 --dataset ": ["/features", "/weights"],
    "poolcli avg x.npy -k 2 -o ph": ["photo.png"],
    "poolcli shape ma": ["max"],
    "poolcli shape max x": ["x.npy"],
    "poolcli check ": ["in/", "m.onnx"],
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
    Path("in/deep").mkdir(parents=True)
    Path("m.onnx").touch()
    Path("notes.txt").touch()
    assert completed(monkeypatch, capsys, line) == LINES[line]


def test_bash_takes_the_script_and_asks_the_program(folder: Path) -> None:
    program = folder / "bin" / "poolcli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m poolcli "$@"\n')
    program.chmod(0o755)
    line = "COMP_WORDS=(poolcli avg x.npy --like p); COMP_CWORD=4; _poolcli_completion poolcli"
    typed = f'eval "$(poolcli --show-completion bash)"; {line}; echo "${{COMPREPLY[@]}}"'
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    shown = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, env=environment)
    assert (shown.stdout, shown.stderr) == ("pytorch\n", "")


def test_every_word_that_an_option_takes_is_offered_and_every_path_is_known() -> None:
    from poolcli.cli.completing import _PATHS

    assert {row.path for row in OPTIONS.values()} - {""} <= set(_PATHS)
