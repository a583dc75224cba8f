"""Options, requests and operators' records belong to each other: nothing is misspelt, nothing is left over."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import ClassVar, get_type_hints

import pytest

from poolcli.arguments import PerAxis
from poolcli.cli.attributes import attribute_options, parse_attributes
from poolcli.cli.commands import BY_NAME, COMMANDS, Command
from poolcli.cli.help import FIRST
from poolcli.cli.options import OPTIONS, SETTINGS, Option
from poolcli.cli.parameters import parameters, request_of
from poolcli.cli.requests import cache
from poolcli.cli.requests.check import CheckRequest
from poolcli.cli.requests.pool import PoolRequest
from poolcli.errors import RequestError
from poolcli.message_fields import BY_PLACE, TURNED_OFF, field, on_command_line
from poolcli.ops import OPERATORS, AvgPool
from poolcli.plan.attributes import MAXIMUM, MEAN
from tests.conftest import Cli


def test_the_commands_are_the_operators_and_what_explains_them() -> None:
    names = [*OPERATORS, "pyramid", "shape", "check", "compare", "identify", "info", "merge", "cache"]
    assert list(BY_NAME) == names


def test_every_option_is_a_field_and_every_field_an_option() -> None:
    taken = {each.name for command in COMMANDS for each in parameters(command)}
    assert taken == set(OPTIONS)


def test_a_field_without_an_option_ends_the_program_where_its_command_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Misspelt(cache.CacheRequest):
        quite: bool = False

    monkeypatch.setattr(cache, "CacheRequest", Misspelt)
    with pytest.raises(TypeError, match=r"^the field quite has no row in OPTIONS$"):
        list(parameters(BY_NAME["cache"]))


@pytest.mark.parametrize("command", COMMANDS, ids=BY_NAME)
def test_the_body_of_a_command_takes_its_request_and_returns_an_exit_code(command: Command) -> None:
    module, name = command.body.split(".")
    hints = get_type_hints(getattr(import_module(f"poolcli.cli.{module}"), name))
    assert hints == {"request": command.request, "return": int}


def test_messages_name_options_as_they_are_typed() -> None:
    rows = {name: row for name, row in OPTIONS.items() if isinstance(row, Option)}
    assert [name for name, row in rows.items() if on_command_line(field(name)) not in row.names] == []
    assert {name: row.turns_off for name, row in rows.items() if row.turns_off} == TURNED_OFF
    assert BY_PLACE.keys() == OPTIONS.keys() - rows.keys()


def test_no_two_options_of_a_command_share_a_flag() -> None:
    for command in COMMANDS:
        taken = list(parameters(command))
        flags = [flag for each in taken if isinstance(each.row, Option) for flag in each.row.all_flags]
        assert len(flags) == len(set(flags)), command.name
        assert {*flags}.isdisjoint({"-h", "--help", "--help-all", *SETTINGS})


def test_what_help_shows_first_are_options() -> None:
    assert set(FIRST) <= OPTIONS.keys()


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_that_picks_has_indices_and_one_that_divides_linear_light(op: str) -> None:
    names = {each.name for each in parameters(BY_NAME[op])}
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
    own = [each.name for each in fields(Toy)]
    assert list(attribute_options(toy)) == ["kernel", "strides", "pads", *own[2:]]
    kinds = attribute_options(toy)
    assert [kinds[name] for name in ("kernel", "pads", "offsets")] == [(str | None, True)] * 3
    plain = [kinds[name] for name in ("p", "exclude_pad", "divisor_override")]
    assert plain == [(float | None, False), (bool | None, False), (int | None, False)]


def test_what_is_typed_becomes_the_values_of_the_record(toy: str) -> None:
    typed = {"kernel": "2x3", "strides": None, "pads": "1", "p": 3.0, "offsets": "[4,5]", "exclude_pad": False}
    assert parse_attributes(toy, typed) == {
        "kernel": (2, 3),
        "pads_begin": (1,),
        "pads_end": (1,),
        "p": 3.0,
        "offsets": (4, 5),
        "exclude_pad": False,
    }
    with pytest.raises(RequestError, match=r"^toy has no axis, which is for max and min$"):
        parse_attributes(toy, {"axis": 1})


def test_a_request_holds_what_was_typed() -> None:
    assert request_of(BY_NAME["check"], {"model": "m.xml", "json": None}) == CheckRequest(model="m.xml")
    given = {"inputs": ["a.npy", "b.npy"], "kernel": ["2"], "threads": ["3"], "exclude_pad": False, "quiet": True}
    assert request_of(BY_NAME["avg"], given) == PoolRequest(
        op="avg",
        attributes={"kernel": (2,), "exclude_pad": False},
        inputs=("a.npy", "b.npy"),
        threads=3,
        quiet=True,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threads", "0"], "--threads is 0, it must be at least 1"),
        (["--threads", "-5", "--engine", "numpy"], "--threads is -5, it must be at least 1"),
        (["--jobs", "0"], "--jobs is 0, it must be at least 1"),
        (["--jobs", "-1"], "--jobs is -1, it must be at least 1"),
        (["--max-pixels", "0"], "--max-pixels is 0, it must be at least 1"),
        (["--quality", "0"], "--quality is 0, it must be from 1 to 100"),
        (["--quality", "101"], "--quality is 101, it must be from 1 to 100"),
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
    result = cli("pyramid", "x.npy", "-o", "y.ome.zarr", "--threads", "0")
    assert (result.code, result.out, result.err) == (2, "", "poolcli: --threads is 0, it must be at least 1\n")


@pytest.mark.parametrize("option", ["--threads", "--jobs", "--max-pixels", "--quality"])
def test_a_count_of_one_is_enough(cli: Cli, folder: Path, option: str) -> None:
    size = "48" if option == "--max-pixels" else "1"
    assert cli("avg", "photo.png", "-o", "y.jpg", "-k", "2", option, size).err == ""
