"""What the program says of itself."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path

import pytest

from poolcli.cli.program import COMMANDS, UNLISTED, load_command
from poolcli.cli.values import own_flags
from poolcli.ops import OPERATORS
from tests.conftest import SAMPLES, Cli
from tests.profiles import slow

MADE = {name: load_command(name) for name in COMMANDS}


@pytest.mark.parametrize("arguments", [["--help"], ["help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
@pytest.mark.parametrize("columns", [slow(40), 80, slow(120)])
def test_help_fits_the_terminal_and_a_page(cli: Cli, arguments: list[str], columns: int) -> None:
    shown = cli(*arguments, columns=columns).out.splitlines()
    assert max(map(len, shown)) <= columns
    if columns == 80:
        assert len(shown) <= 60


def test_help_is_had_in_many_ways_and_is_the_same(cli: Cli) -> None:
    for first, second in (
        (["avg", "--help"], ["help", "avg"]),
        (["avg", "-h"], ["help", "AvgPool"]),
        (["avg", "--kernal", "2", "-h"], ["help", "avg"]),
        (["-h"], ["help"]),
        (["--help-all"], ["help"]),
    ):
        assert cli(*first).out == cli(*second).out
    assert cli("-V").out == cli("--version").out
    assert "--help,--help-all" in cli("avg", "-h").out  # not in the order of a set
    assert "--help-all" not in cli("-h").out
    assert "--fit" not in cli("identify", "--help-all").out
    assert "3 axes ZYX" in cli("pyramid", "-h", columns=120).out  # not NCW


def test_help_without_a_command_is_no_success(cli: Cli) -> None:
    result = cli()
    assert (result.code, result.out, result.err) == (2, "", cli("--help").out)


def test_help_begins_with_what_most_people_need(cli: Cli) -> None:
    shown = cli("avg", "--help").out
    assert "poolcli avg -k K -o PATH [OPTIONS] " in shown
    places = [
        shown.index(f"{flag} ") for flag in ("\u2502 --kernel", "\u2502 --strides", "\u2502 --pads", "\u2502 --output")
    ]
    assert places == sorted(places)
    assert "Examples:\n poolcli avg samples/astronaut.png -o half.png -k 2 -s 2" in "\n".join(
        line.rstrip() for line in shown.splitlines()
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_in_all_help(cli: Cli, name: str) -> None:
    assert not any(getattr(each, "hidden", False) for each in load_command.__wrapped__(name).params)  # the reference
    everything = cli(name, "--help-all", columns=120).out
    for part in (" Windows ", " Result ", " Files ", "Exit codes: 0 done") if name in OPERATORS else ():
        assert part in everything
    for flag, option in own_flags(MADE[name].params).items():
        assert (flag in everything) == (option.name not in UNLISTED)


@pytest.mark.slow
@pytest.mark.usefixtures("own_kernel_cache")
@pytest.mark.parametrize("name", COMMANDS)
def test_two_examples_or_more_run_as_they_are_one_after_the_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("samples").symlink_to(SAMPLES)
    lines = [line for line in inspect.cleandoc(str(MADE[name].epilog)).splitlines() if line.startswith("poolcli ")]
    assert len(lines) >= 2
    for example in lines:
        program, *words = shlex.split(example)
        result = cli(*words) if words != ["cache", "warm"] else cli("cache", "info")  # which takes a minute
        assert (program, result.code, result.err) == ("poolcli", 0, ""), f"{example}\n{result.err}"
