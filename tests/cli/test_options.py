"""Options, commands and operators' records belong to each other: nothing is misspelt, nothing is left over."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import pytest

from poolcli.arguments import PerAxis
from poolcli.cli.operators import OPERATOR_HELP
from poolcli.cli.options import PER_AXIS_OPTIONS, Windows, attribute_names, attributes_of
from poolcli.cli.program import COMMANDS, PANELS, Command, foreign_flags, load_command
from poolcli.errors import RequestError
from poolcli.message_fields import NEGATED, POSITIONAL, field, for_cli
from poolcli.ops import OPERATORS, AvgPool
from poolcli.plan.attributes import MAXIMUM, MEAN
from poolcli.suggestions import FLAGS, OTHER_NAMES, REASONS, SETTINGS
from tests.conftest import Cli

MADE = {name: load_command(name) for name in COMMANDS}


def test_the_operators_are_commands() -> None:
    assert list(OPERATOR_HELP) == list(OPERATORS)
    assert list(COMMANDS)[: len(OPERATORS)] == list(OPERATORS)


def test_every_field_of_an_operator_is_an_option() -> None:
    options = {each.name for each in fields(Windows)}
    assert {name for op in OPERATORS for name in attribute_names(op)} == options


@pytest.mark.parametrize("command", MADE.values(), ids=MADE)
def test_every_option_has_a_panel_and_a_help(command: Command) -> None:
    options = [each for each in command.params if each.opts[0].startswith("-")]
    assert {each.rich_help_panel for each in options} <= {*PANELS}  # type: ignore[attr-defined]
    assert [each.name for each in command.params if not each.help] == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", MADE.values(), ids=MADE)
def test_messages_name_options_as_they_are_typed(command: Command) -> None:
    for each in command.parameters:
        if each.flags and each.name != "help":
            assert for_cli(field(each.name)) in each.flags
            assert not each.off_flags or NEGATED[f"{each.name}=False"] in each.off_flags
            assert each.is_flag or each.choices or each.per_axis or each.example
        else:
            assert each.name in POSITIONAL or each.name == "help"


@pytest.mark.parametrize("command", MADE.values(), ids=MADE)
def test_no_two_options_of_a_command_share_a_flag(command: Command) -> None:
    flags = [flag for each in command.parameters for flag in each.names if each.flags]
    assert len(flags) == len(set(flags))
    assert {*flags}.isdisjoint(foreign_flags(command.parameters))


def test_what_is_meant_by_other_words_are_options_of_some_command() -> None:
    known = {flag for command in MADE.values() for each in command.parameters for flag in each.names}
    lines = [line.split() for lines in SETTINGS.values() for line in lines]
    named = {word for line in lines for word in line if word.startswith("--")}
    assert named <= known
    assert {line[0].removeprefix("@") for line in lines if line[0].startswith("@")} <= COMMANDS.keys()
    assert SETTINGS.keys().isdisjoint(REASONS)
    names = [name for others in OTHER_NAMES.values() for name in others]
    assert len({*names, *FLAGS, *SETTINGS}) == len(names) + len(FLAGS) + len(SETTINGS)  # each in one row alone


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_that_picks_has_indices_and_one_that_divides_linear_light(op: str) -> None:
    names = {each.name for each in MADE[op].parameters}
    reducer = OPERATORS[op].reducer
    assert ("indices" in names, "linear_light" in names) == (reducer.picks, reducer.divides)
    assert (MAXIMUM.picks, MAXIMUM.divides, MEAN.picks, MEAN.divides) == (True, False, False, True)


@dataclass(frozen=True)
class Toy(AvgPool):
    """An operator that has an attribute of its own."""

    name: ClassVar[str] = "toy"
    p: float = 2
    offsets: PerAxis | None = None


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(OPERATORS, "toy", Toy)
    return "toy"


def test_the_options_of_an_operator_are_the_fields_of_its_record_and_pads(toy: str) -> None:
    assert set(attribute_names(toy)) == {"pads", *(each.name for each in fields(Toy))}
    assert {"kernel", "output_size", "strides", "pads", "pads_begin", "pads_end", "dilations"} == PER_AXIS_OPTIONS


def test_what_is_typed_becomes_the_values_of_the_record(toy: str) -> None:
    typed = Windows(kernel="2x3", pads="1", p=3.0, exclude_pad=False)
    assert attributes_of(toy, typed) == {
        "kernel": (2, 3),
        "pads_begin": (1,),
        "pads_end": (1,),
        "p": 3.0,
        "exclude_pad": False,
    }
    with pytest.raises(RequestError, match=r"^toy has no axis, which is for max and min$"):
        attributes_of(toy, Windows(axis=1))


TRUTHS = {
    "--include-pad": "False", "--include-pad true": "False", "--include_pad=1": "False", "--include-pad false": "True",
    "--include-pad=no": "True", "--exclude-pad": "True", "--exclude-pad false": "False", "--exclude-pad=off": "False",
    "--count_include_pad no": "True", "--count-include-pad=True": "False", "--Count_Include_Pad": "False",
}  # fmt: skip


@pytest.mark.parametrize("typed", TRUTHS)
def test_a_flag_with_a_truth_is_read_as_what_it_says(cli: Cli, typed: str) -> None:
    result = cli("shape", "avg", "1,1,8,8", "-k", "3", "-s", "2", "-p", "1", *typed.split(), "--json")
    assert str(result.json["attributes"]["exclude_pad"]) == TRUTHS[typed]


@pytest.mark.parametrize(
    ("typed", "rounding"),
    [
        ("--ceil-mode", "ceil"), ("--ceil_mode=True", "ceil"), ("--ceil_mode=False", "floor"),
        ("--ceil-mode no", "floor"), ("--CEIL-MODE yes", "ceil"),
    ],
)  # fmt: skip
def test_ceil_mode_is_read_as_what_it_says(cli: Cli, typed: str, rounding: str) -> None:
    result = cli("shape", "avg", "1,1,8,8", "-k", "3", "-s", "2", *typed.split(), "--json")
    assert result.json["attributes"]["rounding_type"] == rounding


def test_a_flag_that_is_turned_off_is_left_out(cli: Cli, folder: Path) -> None:
    assert cli("info", "x.npy", "--json", "false").out.startswith("x.npy: npy\n")
    assert cli("info", "x.npy", "--json=yes").json["path"] == "x.npy"


@pytest.mark.parametrize("words", ["-k2 -s2", "-k=2 -s=2", "--kernel-size 2 --Stride 2", "-qnk2 -s 2", "--ksize=2 -s2"])
def test_short_and_foreign_spellings_are_read(cli: Cli, folder: Path, words: str) -> None:
    result = cli("avg", "x.npy", "-o", "y.npy", *words.split(), "-n", "--json")
    assert (result.code, result.json["output"]["shape"]) == (0, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "0"], "--jobs is 0; it must be at least 1"),
        (["--jobs", "-1"], "--jobs is -1; it must be at least 1"),
        (["--quality", "0"], "--quality is 0; it must be from 1 to 100"),
        (["--quality", "101"], "--quality is 101; it must be from 1 to 100"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_count_of_nothing_is_refused_once_before_any_file(
    cli: Cli, folder: Path, options: list[str], message: str
) -> None:
    result = cli("avg", "x.npy", "none.npy", "bad.npy", "-o", "out/", "-k", "2", *options)
    assert (result.code, result.out, result.err) == (2, "", f"poolcli: {message}\n")
    assert not Path("out").exists()


def test_a_pyramid_is_not_made_by_fewer_than_one_thread(cli: Cli, folder: Path) -> None:
    result = cli("pyramid", "x.npy", "-o", "y.ome.zarr", "--jobs", "0")
    assert (result.code, result.out, result.err) == (2, "", "poolcli: --jobs is 0; it must be at least 1\n")


@pytest.mark.parametrize("option", ["--jobs", "--quality"])
def test_a_count_of_one_is_enough(cli: Cli, folder: Path, option: str) -> None:
    assert cli("avg", "photo.png", "-o", "y.jpg", "-k", "2", option, "1").err == ""
