"""The commands `avg`, `max` and so on: one function, from which a command is made for each operator."""

from functools import partial

from poolcli.cli.attributes import attribute_names, options_of_others
from poolcli.cli.operators import OPERATOR_HELP
from poolcli.cli.options import PoolOptions
from poolcli.cli.program import command


def pool(op: str, request: PoolOptions) -> int:
    """Pools the inputs; returns the exit code."""
    from poolcli.cli.run_pool import run_pool  # slow to import, and not needed for the help

    return run_pool(op, request)


def declare(op: str) -> None:
    """Declares the command of an operator: `pool` with the options that the operator has."""
    window = "-k K" if "kernel" in attribute_names(op) else "--output-size S"
    examples = [f"poolcli {op} {words}" for words in OPERATOR_HELP[op].examples]
    declared = command(*examples, name=op, usage=f"{window} -o PATH [OPTIONS]", without=options_of_others(op))
    declared(partial(pool, op))
