"""What the program says of itself: help and the manual page."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from poolcli.cli.commands import COMMANDS, Command
from poolcli.cli.options import Option
from poolcli.cli.parameters import parameters
from tests.conftest import SAMPLES, Cli

BY_NAME = {command.name: command for command in COMMANDS}


@pytest.mark.parametrize("arguments", [["--help"], ["help"], *([name, "--help"] for name in BY_NAME)], ids=" ".join)
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_fits_the_terminal_and_a_page(cli: Cli, arguments: list[str], columns: int) -> None:
    shown = cli(*arguments, columns=columns).out.splitlines()
    assert [line for line in shown if len(line) > columns] == []
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


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=BY_NAME)
def test_three_examples_or_more_run_as_they_are_one_after_the_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("samples").symlink_to(SAMPLES)
    assert len(command.examples) >= 3
    for example in command.examples:
        program, *words = shlex.split(example)
        result = cli(*words) if words != ["cache", "warm"] else cli("cache", "info")  # which takes a minute
        assert (program, result.code, result.err) == ("poolcli", 0, ""), f"{example}\n{result.err}"


def test_an_example_that_needs_several_lines_is_one_command_to_a_shell(cli: Cli) -> None:
    shown = cli("max", "--help", columns=40).out
    assert "\n  poolcli max samples/features.npy \\\n      -o y.npy -k 2 -s 2 \\\n      --indices where.npy\n" in shown
