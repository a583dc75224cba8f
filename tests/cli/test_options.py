"""Options, commands and operators' records belong to each other: nothing is misspelt, nothing is left over."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from poolcli.cli.options import EXPLAIN, FILES, RESULT, RUN, USUAL, WINDOWS, PoolOptions
from poolcli.cli.pool import ATTRIBUTES, attribute_names, attributes_of
from poolcli.cli.program import COMMANDS, OPERATOR_HELP, Command, load_command
from poolcli.cli.values import own_flags, prepare
from poolcli.errors import RequestError
from poolcli.message_fields import NEGATED, POSITIONAL, field, for_cli
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import MAXIMUM, MEAN
from poolcli.suggestions import ALIASES, FLAGS, MEANT
from tests.conftest import Cli

MADE = {name: load_command(name) for name in COMMANDS}


def test_the_operators_are_commands() -> None:
    assert list(OPERATOR_HELP) == list(OPERATORS)
    assert list(COMMANDS)[: len(OPERATORS)] == list(OPERATORS)


def test_every_field_of_an_operator_is_an_option() -> None:
    assert {name for op in OPERATORS for name in attribute_names(op)} == {*ATTRIBUTES}


@pytest.mark.parametrize("command", MADE.values(), ids=MADE)
def test_every_option_has_a_panel_a_help_and_the_name_in_messages(command: Command) -> None:
    for each in command.params:
        assert each.help  # type: ignore[attr-defined]
        name = str(each.name)
        if not each.opts[0].startswith("-"):
            assert name in POSITIONAL
            continue
        assert each.rich_help_panel in (USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN)  # type: ignore[attr-defined]
        assert for_cli(field(name)) in each.opts
        assert not each.secondary_opts or NEGATED[f"{name}=False"] in each.secondary_opts


def test_other_names_stand_for_options_of_some_command() -> None:
    flags = {flag for command in MADE.values() for flag in own_flags(command.params)}
    assert {f"--{name}" for name in ALIASES.values()} <= flags
    assert {word for meant in MEANT.values() for word in re.findall("--[a-z-]+", meant)} <= flags
    assert {meant.split()[1] for meant in MEANT.values() if meant.startswith("poolcli")} <= COMMANDS.keys()
    assert flags.isdisjoint(f"--{word}" for word in (*ALIASES, "ceil-mode", "count-include-pad"))
    assert ALIASES.keys().isdisjoint((*MEANT, *FLAGS))


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_that_picks_has_indices_and_one_that_divides_linear_light(op: str) -> None:
    names = {each.name for each in MADE[op].params}
    reducer = OPERATORS[op].reducer
    assert ("indices" in names, "linear_light" in names) == (reducer.picks, reducer.divides)
    assert (MAXIMUM.picks, MAXIMUM.divides, MEAN.picks, MEAN.divides) == (True, False, False, True)


def test_what_is_typed_becomes_the_values_of_the_record() -> None:
    typed = PoolOptions(kernel=(2, 3), pads=(1,), exclude_pad=False, output="y.npy")
    found = {"kernel": (2, 3), "pads_begin": (1,), "pads_end": (1,), "exclude_pad": False}
    assert attributes_of("avg", typed) == attributes_of(None, typed) == found
    with pytest.raises(RequestError, match=r"^avg has no axis, which is for max and min$"):
        attributes_of("avg", PoolOptions(axis=1))


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        ("--include-pad", "exclude_pad", False), ("--include_pad=1", "exclude_pad", False),
        ("--include-pad=no", "exclude_pad", True), ("--exclude-pad=off", "exclude_pad", False),
        ("--count-include-pad=True", "exclude_pad", False), ("--Count_Include_Pad", "exclude_pad", False),
        ("--ceil-mode", "rounding_type", "ceil"), ("--ceil_mode=False", "rounding_type", "floor"),
        ("--no-ceil-mode", "rounding_type", "floor"), ("--no-count-include-pad", "exclude_pad", True),
        ("--no-exclude-pad", "exclude_pad", False), ("--no_include_pad=false", "exclude_pad", False),
        ("--ceil-mode True", "rounding_type", "ceil"), ("--exclude-pad false", "exclude_pad", False),
    ],
)  # fmt: skip
def test_a_flag_with_a_truth_is_read_as_what_it_says(cli: Cli, typed: str, name: str, value: object) -> None:
    result = cli("shape", "avg", "1,1,8,8", "-k", "3", "-s", "2", "-p", "1", *typed.split(), "--json")
    assert result.json["attributes"][name] == value


def test_a_flag_that_is_turned_off_is_left_out(cli: Cli, folder: Path) -> None:
    assert cli("info", "x.npy", "--json=false").out.startswith("x.npy: npy\n")
    assert cli("info", "x.npy", "--no-json").out.startswith("x.npy: npy\n")
    assert cli("info", "x.npy", "--json=yes").json["path"] == "x.npy"


@pytest.mark.parametrize("words", ["-k2 -s2", "-k=2 -s=2", "--kernel-size 2 --Stride 2", "-qnk2 -s 2",
                                   "-k [2, 2] -s (2,)", "--ksize=2 -s2",
                                   "-k2 -s2 --like tf --auto-pad SAME --layout NCHW"])  # fmt: skip
def test_short_and_foreign_spellings_are_read(cli: Cli, folder: Path, words: str) -> None:
    result = cli("avg", "x.npy", "-o", "y.npy", *words.split(), "-n", "--json")
    assert (result.code, result.json["output"]["shape"]) == (0, [1, 2, 3, 4])


def test_none_keeps_an_axis_and_the_help_of_sizes_says_which_side_is_first(cli: Cli) -> None:
    for typed in ("(7, None)", "7,None"):
        result = cli("shape", "adaptive-avg", "1,1,8,9", "--output_size", typed, "--json")
        assert (result.code, result.json["output"]["shape"]) == (0, [1, 1, 7, 9])
    help_of = {each.name: each.help for each in MADE["area"].params}  # type: ignore[attr-defined]
    assert help_of["output_size"] == "Output size: 7, or 7,9 (order D,H,W: height first; None keeps an axis)."
    assert help_of["fit"] == "Fit images into these pixels: 800, or 800x600 (width first), or 50%; aspect kept."


def test_words_are_prepared_in_a_number_of_steps_that_grows_as_they_do() -> None:
    def steps(count: int) -> int:
        calls, params = [0], load_command("avg").params
        sys.setprofile(lambda frame, event, _: calls.__setitem__(0, calls[0] + (event == "call")))
        try:
            prepare([*map("photos/{}.png".format, range(count)), "-o", "small/", "-k", "2"], params)
        finally:
            sys.setprofile(None)
        return calls[0]

    steps(1)  # what is looked up once
    assert steps(400) < 3 * steps(200)
