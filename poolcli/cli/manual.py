"""The manual page, made of the tables of commands and options: `poolcli help --man | man -l -`."""

from __future__ import annotations

from collections.abc import Iterator

from poolcli.cli.about import version_line
from poolcli.cli.commands import COMMANDS, EXIT_CODES, Command
from poolcli.cli.help import option_rows, usage
from poolcli.cli.options import Argument
from poolcli.cli.parameters import parameters


def manual() -> str:
    """The page in the language of man."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'.TH POOLCLI 1 "" "{version_line()}" "User Commands"'
    yield from (".SH NAME", r"poolcli \- pooling of tensors and images, as the operators of OpenVINO define it")
    yield from (".SH SYNOPSIS", ".B poolcli", r"\fICOMMAND\fR ... [\fIoptions\fR]")
    yield from (".SH DESCRIPTION", "Average, max, min, mode, Lp and adaptive pooling, and why it comes out so.")
    yield _plain("@FILE stands for the arguments that a file holds, split as a shell splits them; # begins a comment.")
    yield ".SH COMMANDS"
    for command in COMMANDS:
        yield from _command(command)
    yield from (".SH EXIT STATUS", _plain(EXIT_CODES))
    yield from (".SH ENVIRONMENT", ".TP", ".B NO_COLOR", "No colours.")


def _command(command: Command) -> Iterator[str]:
    yield from (f'.SS "{_plain(usage(command))}"', _plain(command.text))
    taken = list(parameters(command))
    rows = [(each.row.metavar, each.text) for each in taken if isinstance(each.row, Argument)]
    for name, text in (*rows, *option_rows(taken)):
        yield from (".TP", rf"\fB{_plain(name)}\fR", _plain(text))
    yield from (".PP", "Examples:")
    for example in command.examples:
        yield from (".PP", rf"\fC{_plain(example)}\fR")
    if command.exit_codes and command.exit_codes != EXIT_CODES:
        yield from (".PP", _plain(command.exit_codes))


def _plain(text: str) -> str:
    """The text without what man would take for its own."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{text}" if text.startswith((".", "'")) else text
