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
