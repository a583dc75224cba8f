"""A message about a number of values proposes a layout, and the command is right with it."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Cli

SHAPES = (
    "8,9", "30,8,9", "3,8,9", "8,9,3", "2,3,8,9", "2,8,9,3", "4,30,8,9", "2,3,9,8,8", "1,8,9,9,3", "2,2,3,8,8,9",
)  # fmt: skip
LISTS = ("avg SHAPE -k N", "avg SHAPE -k 2 -s N", "max SHAPE -k 1 --dilations N", "area SHAPE --output-size N")


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_layout_that_is_proposed_makes_the_command_right(shape: str, count: int, cli: Cli) -> None:
    for command in LISTS:
        words = ["shape", *command.replace("SHAPE", shape).replace("N", ",".join(["2"] * count)).split()]
        first = cli(*words)
        proposed = re.search(r"; for \d axes, use --layout ([A-Z]+)", first.err)
        if first.code == 0 or count > shape.count(",") + 1:
            continue
        assert proposed, first.err
        assert cli(*words, "--layout", proposed[1]).code == 0


@pytest.mark.parametrize("command", [
    "avg 2,1000 -k 10", "max 1000,2 -k 3 --dilations 4", "avg 3,48,5 -k 10 -s 10", "avg 480,640,3 -k 4",
    "median 1000,3,1000 -k 10,9", "avg 2,3,50 -k 9,9", "avg 100,28,28,1 -k 2", "max 1,9,8,32,3 -k 2,4,4",
])  # fmt: skip
def test_a_window_that_is_too_long_for_an_assumed_axis_names_the_layout_that_fits(command: str, cli: Cli) -> None:
    first = cli("shape", *command.split())
    proposed = re.search(r"; use --layout ([A-Z]+) to pool", first.err)
    assert (first.code, bool(proposed)) == (2, "50" not in command), first.err
    if proposed:
        assert cli("shape", *command.split(), "--layout", proposed[1]).code == 0
    else:
        assert cli("shape", "avg", "2,1000", "-k", "10", "--layout", "HW").err.endswith("use --kernel 2 or --pads 4\n")
