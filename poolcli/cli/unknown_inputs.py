"""Words among the inputs that are no files, where it can be told what was meant by them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from poolcli.cli.operators import OPERATOR_WORDS, operator_named
from poolcli.cli.values import is_number_list
from poolcli.errors import RequestError
from poolcli.formats import parse_source
from poolcli.message_fields import field
from poolcli.suggestions import listed

if TYPE_CHECKING:
    from poolcli.cli.pool import PoolOptions


def refuse_unknown_inputs(op: str, request: PoolOptions) -> None:
    """Refuses words that are missing their place; names of files that are not there are left to whoever opens them."""
    if request.output == "":
        raise RequestError(f"{field('output')} is empty, as a variable is that is not set; name a file, a folder or -")
    words = request.inputs
    for i, word in enumerate(words):
        if word == "":
            raise RequestError("an input is empty, as a variable is that is not set; name a file")
        if _may_be(word):
            continue
        apart = next(_in_one(words[i:]), None)
        if apart:
            raise RequestError(f"{listed(apart, 'and')} are no files; write {shlex.quote(' '.join(apart))} in quotes")
        if operator_named(word):
            raise RequestError(f"{word} is not a file, and {op} is the operator already; {_operators(word)}")
        if is_number_list(word):
            own = "output_size" if request.output_size else "kernel"
            raise RequestError(
                f"{word} is not a file; if it is a value, its option is missing, as in {field(own, word)}"
            )
        if i == len(words) - 1 > 0 and request.output is None:
            raise RequestError(f"{word} is not a file; if it is the output, write {field('output', _named(word))}")


def _named(word: str) -> str:
    """The word as the name of an output: of a folder, where it has no suffix."""
    return shlex.quote(word if os.path.splitext(word)[1] else f"{word.rstrip('/')}/")


def _may_be(word: str) -> bool:
    """Whether a word is an input, or stands for some."""
    return (
        word == "-" or "://" in word or any(sign in word for sign in "*?[") or os.path.lexists(parse_source(word).path)
    )


def _in_one(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """The words that are the name of one file together, its spaces between them."""
    return (words[:count] for count in range(2, len(words) + 1) if os.path.lexists(" ".join(words[:count])))


def _operators(word: str) -> str:
    both = f"adaptive-{operator_named(word)}"
    return f"write {both} in one word, or leave it out" if both in OPERATOR_WORDS else "leave it out"
