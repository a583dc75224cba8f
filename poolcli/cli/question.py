"""The question of a shell: an unfinished line, and what its last word may become. Typer is not loaded for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from poolcli.cli.commands import COMMANDS, Command
from poolcli.cli.completing import completions, placed_in
from poolcli.cli.listing import Listing, keys_in
from poolcli.cli.options import Argument, Option
from poolcli.cli.parameters import Parameter, parameters
from poolcli.cli.shells import INSTALL, SHOW
from poolcli.cli.typed_line import split
from poolcli.cli.which import command_called

OF_ALL = ("-V", "--version", "-h", "--help", SHOW, INSTALL)
OF_COMMANDS = ("--help", "--help-all")


def answers(line: str, listing: Listing = keys_in) -> Iterator[str]:
    """What the last word of the line may become; what explains it stands behind a tabulator.

    >>> list(answers("poolcli avg x.npy --like=p"))
    ['pytorch']
    """
    words, unfinished = split(line)
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), None)
    command = None if at is None else command_called(words[at])
    if at is None or command is None:
        return _starting(unfinished)
    return _continuing(command, words[at + 1 :], unfinished, listing)


def _starting(unfinished: str) -> Iterator[str]:
    """Commands, and what may stand in their place."""
    explained = (f"{command.name}\t{command.text}" for command in COMMANDS)
    options = OF_ALL if unfinished.startswith("-") else ()
    return (each for each in (*explained, *options) if each.startswith(unfinished))


def _continuing(command: Command, words: Sequence[str], unfinished: str, listing: Listing) -> Iterator[str]:
    """Options, the value of one, or what is given by its place."""
    taken = list(parameters(command))
    if unfinished.startswith("-") and "--" not in words:
        flag, sign, value = unfinished.partition("=")
        if not sign:
            return _options(taken, unfinished)
        words, unfinished = [*words, flag], value
    placed = placed_in(taken, words)
    asked = _valued(taken, words[-1:]) or _open(taken, placed)
    return iter(completions(asked, placed.get("inputs") or [], unfinished, listing) if asked else ())


def _options(taken: Sequence[Parameter], unfinished: str) -> Iterator[str]:
    for each in taken:
        if isinstance(each.row, Option):
            yield from (f"{flag}\t{each.text}" for flag in each.row.shown_flags if flag.startswith(unfinished))
    yield from (flag for flag in OF_COMMANDS if flag.startswith(unfinished))


def _valued(taken: Sequence[Parameter], last: Sequence[str]) -> Parameter | None:
    """The option whose value comes behind the last word."""
    for each in taken:
        if isinstance(each.row, Option) and not each.is_flag and not {*last}.isdisjoint(each.row.all_flags):
            return each
    return None


def _open(taken: Sequence[Parameter], placed: dict[str, object]) -> Parameter | None:
    """The first place that has no word yet, or takes any number of them."""
    places = (each for each in taken if isinstance(each.row, Argument))
    return next((each for each in places if each.many or placed[each.name] is None), None)
