"""Plain command lines are read without Typer, and exactly as Typer reads them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from poolcli.cli import program
from poolcli.cli.app import ASKED
from poolcli.cli.commands import BY_NAME, COMMANDS, Command
from poolcli.cli.options import Argument, Option
from poolcli.cli.parameters import Parameter, parameters, request_of
from poolcli.cli.plain import plainly_typed
from poolcli.cli.requests.request import Request
from poolcli.errors import RequestError


def by_typer(words: list[str]) -> Request:
    """The request that a line becomes where Typer reads it."""
    found: list[Request] = []

    def keep(command: Command, typed: Mapping[str, Any]) -> Request:
        found.append(request_of(command, typed))
        raise typer.Exit(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "request_of", keep)
        assert program.run_words(words) == 0
    return found[0]


def plainly(words: list[str]) -> Request:
    plain = plainly_typed(words)
    assert plain is not None
    return request_of(*plain)


EXAMPLES = [shlex.split(line)[1:] for command in COMMANDS for line in command.examples]


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_the_examples_of_the_help_are_plain_and_read_as_typer_reads_them(words: list[str]) -> None:
    assert plainly(words) == by_typer(words)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Command lines in any order, each option under any of its names."""
    command = draw(st.sampled_from(COMMANDS))
    taken = list(parameters(command))
    places = [each for each in taken if isinstance(each.row, Argument)]
    options = [each for each in taken if isinstance(each.row, Option) and each.name not in ("pads_begin", "pads_end")]
    chosen = draw(st.lists(st.sampled_from(options), unique_by=lambda each: each.name, max_size=8))
    parts = [[value_of(each)] for each in places] + [typed(draw, each) for each in chosen]
    order = draw(st.permutations(range(len(parts))))
    first = iter(sorted(i for i in order if i < len(places)))  # arguments keep their order
    return [command.name, *(word for i in order for word in parts[next(first) if i < len(places) else i])]


def value_of(each: Parameter) -> str:
    return each.row.example or next(iter(each.row.words), "1")


def typed(draw: st.DrawFn, each: Parameter) -> list[str]:
    assert isinstance(each.row, Option)
    flag = draw(st.sampled_from(each.row.all_flags))
    if each.is_flag:
        return [flag]
    together = flag.startswith("--") and draw(st.booleans())
    return [f"{flag}={value_of(each)}"] if together else [flag, value_of(each)]


def read_or_refused(read: Callable[[list[str]], Request], words: list[str]) -> Request | str:
    try:
        return read(words)
    except RequestError as error:
        return str(error)


@given(lines())
def test_any_plain_line_is_read_as_typer_reads_it(words: list[str]) -> None:
    assert read_or_refused(plainly, words) == read_or_refused(by_typer, words)


def test_what_contradicts_itself_on_a_plain_line_is_refused_as_typer_has_it_refused() -> None:
    words = ["identify", "x.npy", "y.npy", "--op", "avg", "--axis", "2"]
    said = "avg has no axis, which is for max and min"
    assert (read_or_refused(plainly, words), read_or_refused(by_typer, words)) == (said, said)


@pytest.mark.parametrize(
    "line",
    [
        "avg x.npy -o y.npy -k2", "avg x.npy -qn -k 2", "avg -- -x.npy", "avg x.npy --missing -9999 -k 2",
        "avg x.npy --missing=-9999 -k 2", "avg -x.npy -k 2", "avg x.npy -k 2 --no-such",
        "shape avg 1,3,8,8 9", "shape 1,3,8,8 avg", "check a.onnx b.onnx", "none x.npy", "-q avg x.npy", "",
    ],
)  # fmt: skip
def test_a_line_in_doubt_is_left_to_typer(line: str) -> None:
    assert plainly_typed(shlex.split(line)) is None


@pytest.mark.parametrize(
    ("line", "asked", "loaded"),
    [
        ("shape avg 1,3,8,8 -k 2", None, False), ("avg --help", None, False), ("shape avg 1,3,8,8 -k2", None, True),
        ("", "poolcli avg x.npz:", False), ("", "poolcli avg --out", False),
    ],
)  # fmt: skip
def test_plain_lines_and_questions_of_shells_load_no_typer(
    line: str, asked: str | None, loaded: bool, folder: Path
) -> None:
    code = "import sys; from poolcli.cli.app import run; run(sys.argv[1:]); print('typer' in sys.modules)"
    environment = os.environ | ({ASKED: asked} if asked else {})
    done = subprocess.run(
        [sys.executable, "-c", code, *line.split()], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == str(loaded)


def test_every_command_has_an_example_that_is_read() -> None:
    assert {words[0] for words in EXAMPLES} == BY_NAME.keys()
