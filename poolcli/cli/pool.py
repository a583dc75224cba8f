"""The commands `avg`, `max` and so on: which options each operator has, and the operator's record from their values."""

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache, partial
from typing import Any

from poolcli.cli.messages import print_notice
from poolcli.cli.options import PoolOptions
from poolcli.cli.program import OPERATOR_HELP, command
from poolcli.errors import RequestError
from poolcli.message_fields import BOTH_ENDS, field, for_cli, hint
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes, expand_pads
from poolcli.suggestions import join_words


def declare(op: str) -> None:
    """Declares the command of an operator: `pool` with the options that the operator has."""
    window = "-k K" if "kernel" in attribute_names(op) else "{--output-size S|--fit WxH}"
    examples = [f"poolcli {op} {words}" for words in OPERATOR_HELP[op].examples]
    others = {*ATTRIBUTES, "indices", "linear_light"} - own_options(op)
    declared = command(*examples, name=op, usage=f"{window} -o PATH [OPTIONS]", without=others)
    declared(partial(pool, op))


def pool(op: str, request: PoolOptions) -> int:
    """Pools the inputs; returns the exit code."""
    from poolcli.cli.run_pool import run_pool  # slow to import, and not needed for the help

    texts = request.inputs or []
    apart = [text for text in texts if re.fullmatch(r"\d+([,xX]\d+)*", text) and not os.path.lexists(text)]
    if apart and not apart[0].isdigit() and (apart == texts or re.search("(.+[,xX]){3}", apart[0])):
        raise RequestError(f"{apart[0]} is a shape, not a file; use poolcli shape {op} {apart[0]}")
    is_fit = "x" in "".join(apart) or (op == "area" and len(apart) == 1 and apart[0].isdigit())
    own = "kernel" if "kernel" in attribute_names(op) else "fit" if is_fit else "output_size"
    if apart and getattr(request, own) is None:
        raise RequestError(f"{' '.join(apart)}: no file of this name; write {field(own, ','.join(apart))}")
    return run_pool(make_operator(op, attributes_of(op, request)), request)


@cache
def attribute_names(op: str) -> set[str]:
    """The options of an operator: the fields of its record, `pads`, and `fit` if it has an output size."""
    own = {each.name for each in fields(OPERATORS[op])}
    fit = {"fit"} if "output_size" in own else set()
    return own | fit | {both for both, ends in BOTH_ENDS.items() if {*ends} <= own}


ATTRIBUTES = set[str]().union(*map(attribute_names, OPERATORS))


@cache
def own_options(op: str) -> set[str]:
    """The options of the command of an operator that not all of them have."""
    reducer = OPERATORS[op].reducer
    others = {"indices": reducer.picks, "linear_light": reducer.divides}
    return attribute_names(op) | {name for name, has in others.items() if has}


def attributes_of(op: str | None, request: object) -> dict[str, Any]:
    """The attributes of operator `op`, or of any operator if `op` is None, in a record of options; refuses those of
    other operators.
    """
    given = {name: value for name, value in vars(request).items() if name in ATTRIBUTES and value is not None}
    for name, value in given.items():
        if op and name not in attribute_names(op):
            raise attribute_of_others(op, name, value)
    if op == "lp" and "pads" in given and "p" not in given:
        told = f"{field('pads')} is padding, and the power of the norm is {field('p')}"
        sizes = [value if isinstance(value, tuple) else (value,) for value in (given["pads"], given.get("kernel", 1))]
        if max(sizes[0]) >= min(sizes[1]):  # which no framework takes
            raise RequestError(f"{told}; write {field('p', given['pads'])}, or smaller pads")
        if not getattr(request, "quiet", False):
            print_notice(for_cli(told), "magenta")
    if {"fit", "output_size"} <= given.keys():
        raise RequestError(f"{field('fit')} sets the output size; give either {field('fit')} or {field('output_size')}")
    return expand_pads({"output_size" if name == "fit" else name: value for name, value in given.items()})


def make_operator(op: str, given: Mapping[str, Any]) -> Attributes:
    """The record of operator `op` with the given attributes; refuses a call without a required one."""
    record = OPERATORS[op]
    for own in fields(record):
        if own.default is MISSING and own.name not in given:
            pictures = hint(f", or {field('fit', 256)} for images") if own.name == "output_size" else ""
            raise RequestError(f"{op} needs {field(own.name)}, for example {field(own.name, 2)}{pictures}")
    return record(**given)


def attribute_of_others(op: str, name: str, value: object = None) -> RequestError:
    """The refusal of an attribute that only other operators have, with the command of the one that does the same."""
    others = join_words([other for other in OPERATORS if name in own_options(other)], "and")
    own = "kernel" if "kernel" in attribute_names(op) else "output_size"
    instead = f"; {op} uses {field(own)}" if own != "kernel" or name == "output_size" else ""
    same = [other for other, record in OPERATORS.items() if record.reducer == OPERATORS[op].reducer]
    if own != "kernel" and name in ("kernel", "strides"):
        instead = f"; use {same[0]} for windows of one size, or {field(own)}, the number of windows"
    elif own == "kernel" and name in ("fit", "output_size") and len(same) > 1:
        instead = f"; use {same[-1 if name == 'fit' else 1]}, or {field('kernel')}"
    named = field(name, value if isinstance(value, bool) else None)
    return RequestError(f"{op} has no {named}, which is for {others}{instead}")
