"""Whatever a message proposes runs as printed: command lines, options with their values, and values alone."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from poolcli.cli.program import Parameter, find_command, load_command
from tests.cli.test_mistakes import FOUND, made
from tests.conftest import Cli

__all__ = ["made"]

INTRODUCED = "write|behind one:|comes first:|before the shape:|before it:|one word:|positional argument:"
LINE = re.compile(rf"(?:{INTRODUCED}) (poolcli (?!.*--help)[a-z-].*)$")
INSTEAD = re.compile(
    r"(?:has no option|has no) (--?[\w:-]+)[;,] .*?(?:write|did you mean) (--?\S.*?)(?: or --\S+)*\??$"
)
SETTINGS = re.compile(
    r"; (?:use|write|add|give|.*for example) (--[a-z-]+ (?!alone)[\w.,/=-]+)(?: or (--[a-z-]+ [\w.,]+))?$"
)
ABOUT = re.compile(r"poolcli: (?:[\w.]+: )?(--?[a-z-]+) ")
WORD = re.compile(r"(?:is '([^']+)'|no command (\S+)).*; did you mean ([\w-]+)")
NUMBERS = re.compile(r"where a whole number is needed; write (\S+)$")
# What does not exist here: a model that can be read, and what stands in capitals for a name of one's own.
ABSENT = re.compile(r"\b(m\.onnx|m\.xml|x\.xml|model\.onnx|INPUT|OUTPUT|SHAPE|NAME|FOLDER|OP)\b")


def proposals() -> Iterator[tuple[str, list[str]]]:
    """Each mistake with the lines that its message proposes, as words."""
    for command, _, message in FOUND:
        words = shlex.split(command)
        first, _, rest = message.partition("\n")
        if found := LINE.search(first):
            yield command, shlex.split(found[1])[1:]
        elif found := INSTEAD.search(first):
            yield command, in_place_of(words, found[1], shlex.split(found[2]))
        elif found := WORD.search(first):
            yield command, [word_for(word, found) for word in words]
        elif found := NUMBERS.search(first):
            typed = rest.split("\n")[0].strip()
            yield command, [word.replace(typed, found[1]) for word in words]
        elif found := SETTINGS.search(first):
            about = ABOUT.match(first)
            for setting in filter(None, found.groups()):
                yield command, with_option(words, setting.split(), *(about.groups() if about else ()))


def word_for(word: str, found: re.Match[str]) -> str:
    """The word, or the one that is meant, also behind =."""
    flag, sign, value = word.rpartition("=")
    return f"{flag}{sign}{found[3]}" if value in found.groups()[:2] else word


def in_place_of(words: Sequence[str], wrong: str, right: Sequence[str]) -> list[str]:
    """The words with the right option in the place of the wrong one, which gives up its value where it had one."""
    at = next(i for i, word in enumerate(words) if word.partition("=")[0].startswith(wrong))
    option, sign, value = option_of(words, right[0]), *words[at].partition("=")[1:]
    following = words[at + 1 : at + 2]
    has_value = (
        not sign
        and following
        and re.match(r"-?[\d.]|[^-]", following[0])
        and (not is_input(following[0]) or following[0] in right)
    )
    typed = [value] if sign else [*following] if has_value else []
    kept = typed if len(right) == 1 and option and not option.is_flag else []
    return [*words[:at], *right, *kept, *words[at + (2 if has_value else 1) :]]


def with_option(words: Sequence[str], setting: Sequence[str], *about: str) -> list[str]:
    """The words with this setting alone for its option, and without the options that the message is about."""
    both = ("--pads",) if setting[0] == "--pads-begin" else ()
    options = [option_of(words, flag) for flag in (setting[0], *both, *about)]
    gone, kept = {flag for each in options if each for flag in each.names}, list(words)
    for i in reversed(range(len(kept))):
        if kept[i].partition("=")[0].lower().replace("_", "-") in gone:
            numbers = 1 if "=" in kept[i] else 2
            while kept[i + numbers : i + numbers + 1] and kept[i + numbers].isdecimal():
                numbers += 1
            del kept[i : i + numbers]
    return [*kept, *setting]


def option_of(words: Sequence[str], flag: str) -> Parameter | None:
    name = find_command(words[0])
    return next((each for each in load_command(name).parameters if flag in each.names), None) if name else None


def is_input(word: str) -> bool:
    return word == "in" or (word.endswith((".npy", ".png", ".h5", ".npz")) and not word.startswith(("y.", "z.")))


PROPOSED = {tuple(words): command for command, words in proposals()}  # each line once, with one of its mistakes
CASES = [pytest.param(words, marks=pytest.mark.compiles if "numba" in words else ()) for words in PROPOSED]


def test_there_are_many() -> None:
    assert len(PROPOSED) >= 170


@pytest.mark.usefixtures("own_kernel_cache")
@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_what_a_message_proposes_runs(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    if ABSENT.search(" ".join(words)) or words[0] == "check" or words == ("cache", "warm"):  # which takes a minute
        pytest.skip("stands for what is not here")
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    result = cli(*words)
    different = words[0] in ("compare", "identify") and (result.code, result.err) == (1, "")  # an answer, no refusal
    absent = re.search(r"poolcli: (.*?): No such file", result.err)  # and was not, before
    if not different and not (absent and absent[1] in shlex.split(PROPOSED[words])):
        assert result.code == 0, result.err
