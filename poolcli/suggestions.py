"""Spelling suggestions: the known words with a difflib ratio of at least 0.7, the best first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

MIN_RATIO = 0.7  # of difflib's ratio, 1 for the same word
MOST = 3  # words that are proposed at once
NONE: Mapping[str, str] = {}


def closest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known words that are most like `word`, where any is like it at all; several where they are equally so.

    >>> closest("kernal", ["kernel", "all"]), closest("flot", ["int8", "float16", "float32"]), closest("x", ["kernel"])
    (('kernel',), ('float16', 'float32'), ())
    """
    from difflib import SequenceMatcher

    plain = _plain(word)
    likeness = {each: SequenceMatcher(None, _plain(each), plain).ratio() for each in dict.fromkeys(known)}
    best = max(likeness.values(), default=0)
    if best < MIN_RATIO:
        begun = [each for each in likeness if len(plain) > 1 and f"-{_plain(each)}".find(f"-{plain}") >= 0]
        return tuple(begun) if len(begun) <= MOST else ()
    return tuple(each for each, ratio in likeness.items() if ratio == best)[:MOST]


def did_you_mean(word: str, known: Iterable[str], short: Mapping[str, str] = NONE) -> str:
    """The question that ends a message, empty where nothing is alike; `short` are other names of known words.

    >>> did_you_mean("same", ["explicit", "same_upper", "same_lower"])
    '; did you mean same_upper or same_lower?'
    """
    found = tuple(dict.fromkeys(short.get(each, each) for each in closest(word, (*known, *short))))
    return f"; did you mean {listed(found)}?" if found else ""


def did_you_mean_file(path: str) -> str:
    """The same of the names in the folder of a file that is not there."""
    whole, colon, key = path.rpartition(":")
    if colon and os.path.isfile(whole):
        return f"; {whole} holds one array, without a name: leave :{key} out"
    folder, name = os.path.split(path)
    try:
        names = sorted(each for each in os.listdir(folder or ".") if each != name)
    except OSError:
        return ""
    alike = {each: os.path.join(folder, each) for each in closest(name, names)} if name else {}
    return f"; did you mean {listed(alike.values())}?" if alike else ""


def listed(words: Iterable[str], joint: str = "or") -> str:
    """The words in a sentence.

    >>> listed(["avg", "max", "adaptive-avg"]), listed(["avg", "max"], "and"), listed(["avg"])
    ('avg, max or adaptive-avg', 'avg and max', 'avg')
    """
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def _plain(word: str) -> str:
    """What two words are compared by: not by what all options begin with."""
    return word.lower().replace("_", "-").removeprefix("--")
