"""The program as Typer runs it: made of the tables, and only the command that is named."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli.cli.about import version_line
from poolcli.cli.commands import BY_NAME, Command
from poolcli.cli.help import root_help
from poolcli.cli.options import Argument
from poolcli.cli.parameters import Parameter, parameters, request_of
from poolcli.cli.shells import INSTALL, SHOW, complete_in
from poolcli.cli.spelling import spelt
from poolcli.cli.values import is_number_list
from poolcli.cli.which import command_called

MORE = {"allow_extra_args": True}  # refused by poolcli, which knows what was meant
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "add_help_option": False}


def program() -> Any:
    """The command line: `main(words, ...)` runs it."""
    app = typer.Typer(name="poolcli", cls=_Program, add_completion=False, **PLAIN)
    app.callback()(_root)
    return get_command(app)


def run_words(words: Sequence[str]) -> int:
    """Runs what the words mean; returns the exit code. What Typer refuses is a RequestError."""
    if not words:
        print(root_help(), file=sys.stderr)
        return 2
    if words and words[0].partition("=")[0] in (SHOW, INSTALL):
        return complete_in(words)
    try:
        return program().main(list(words), prog_name="poolcli", standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code
    except typer.exceptions.TyperException as error:
        from poolcli.cli.mistakes import usage_error

        raise usage_error(error, words) from None


class _Program(TyperGroup):
    """All commands, of which the one is made that is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(BY_NAME)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = command_called(cmd_name)
        return _made(found, list(parameters(found))) if found else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command and its words, spelt as the table has them."""
        found = command_called(args[0])
        if found is None:
            return super().resolve_command(ctx, args)
        taken = list(parameters(found))
        return found.name, _made(found, taken), spelt(taken, args[1:])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        left = super().parse_args(ctx, args)
        if ctx.params["version"]:
            print(version_line())
            ctx.exit()
        return left


class _Command(TyperCommand):
    """One command, whose words have their places."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        command = BY_NAME[str(self.name)]
        words = tuple(args)  # which Typer takes one by one
        left = super().parse_args(ctx, args)
        places = [each.name for each in parameters(command) if isinstance(each.row, Argument) and not each.many]
        placed = [ctx.params[name] for name in places if ctx.params[name]]
        if left or any(map(is_number_list, placed[:1])):
            from poolcli.cli.mistakes import refuse_misplaced

            refuse_misplaced(command.name, placed, left, words)
        return left


def _made(command: Command, taken: Sequence[Parameter]) -> Any:
    """The command as Typer has it; its body is imported when it runs."""

    def run(**typed: Any) -> None:
        raise typer.Exit(command.run(request_of(command, typed)))

    signed = [_signed(each) for each in taken]
    vars(run)["__signature__"] = inspect.Signature(signed)  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in signed}
    app = typer.Typer(add_completion=False, **PLAIN)
    told: dict[str, Any] = {"help": command.text, "short_help": command.text, "add_help_option": False}
    app.command(command.name, cls=_Command, context_settings=MORE, **told)(run)
    return get_command(app)


def _signed(each: Parameter) -> inspect.Parameter:
    """The parameter that Typer reads: flags are true or false, of all else every word that was typed is kept."""
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(each), default=None)


def _annotation(each: Parameter) -> Any:
    if isinstance(each.row, Argument):
        placed = list[str] if each.many else str
        return Annotated[placed | None, typer.Argument(metavar=each.row.metavar)]
    kind = bool if each.is_flag else list[str]
    flags = (*each.row.flags.split(), *each.row.also.split())
    return Annotated[kind | None, typer.Option(*flags, metavar=each.row.metavar, help=each.text)]


def _root(
    version: Annotated[bool, typer.Option("-V", "--version")] = False,
    helps: Annotated[bool, typer.Option("-h", "--help")] = False,  # seen before
) -> None:
    """Pooling of tensors and images, exactly as OpenVINO's operators define it."""
