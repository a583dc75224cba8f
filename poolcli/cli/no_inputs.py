"""Words among the inputs that are no files, where it can be told what was meant by them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from poolcli.cli.requests.pool import PoolRequest
from poolcli.cli.values import is_number_list
from poolcli.cli.words import OPERATOR_WORDS, operator_named
from poolcli.errors import RequestError
from poolcli.formats import parse_source
from poolcli.message_fields import field
from poolcli.suggestions import listed


def refuse_no_inputs(request: PoolRequest) -> None:
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
            raise RequestError(f"{word} is no file, and {request.op} is the operator already; {_operators(word)}")
        if is_number_list(word):
            own = "output_size" if "output_size" in request.attributes else "kernel"
            raise RequestError(f"{word} is no file; if it is a value, its option is missing, as in {field(own, word)}")
        if i == len(words) - 1 > 0 and request.output is None:
            raise RequestError(f"{word} is no file; if it is the output, write {field('output', shlex.quote(word))}")


def _may_be(word: str) -> bool:
    """Whether a word is an input, or stands for some."""
    return (
        word == "-" or "://" in word or any(sign in word for sign in "*?[") or os.path.lexists(parse_source(word).path)
    )


def _in_one(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words that are the name of one file together, its spaces between them."""
    return (words[:count] for count in range(2, len(words) + 1) if os.path.lexists(" ".join(words[:count])))


def _operators(word: str) -> str:
    both = f"adaptive-{operator_named(word)}"
    return f"write {both} in one word, or leave it out" if both in OPERATOR_WORDS else "leave it out"
