"""The program as Typer runs it: made of the tables, and only the command that is named."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli.cli.commands import BY_NAME, Command
from poolcli.cli.help import command_help, root_help, styled
from poolcli.cli.options import Argument
from poolcli.cli.parameters import Parameter, parameters, request_of
from poolcli.cli.spelling import spelt
from poolcli.cli.values import is_number_list
from poolcli.cli.which import command_called

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
MORE = SETTINGS | {"allow_extra_args": True}  # refused by poolcli, which knows what was meant
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "context_settings": SETTINGS}


def program() -> Any:
    """The command line: `main(words, ...)` runs it."""
    app = typer.Typer(name="poolcli", cls=_Program, **PLAIN)
    app.callback()(_root)
    return get_command(app)


def run_words(words: Sequence[str]) -> int:
    """Runs what the words mean; returns the exit code. What Typer refuses is a RequestError."""
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
        """The command with those options alone that the words name: to make one takes longer than to parse it."""
        found = command_called(args[0])
        if found is None or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        taken = list(parameters(found))
        words = spelt(taken, args[1:])
        return found.name, _made(found, [each for each in taken if _is_named(each, words)]), words

    def get_help(self, ctx: Any) -> str:
        return styled(root_help())


class _Command(TyperCommand):
    """One command, with the help of poolcli."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        command = BY_NAME[str(self.name)]
        if "--help-all" in args:
            print(styled(command_help(command, everything=True)))
            ctx.exit()
        left = super().parse_args(ctx, args)
        places = [each.name for each in parameters(command) if isinstance(each.row, Argument) and not each.many]
        placed = [ctx.params[name] for name in places if ctx.params[name]]
        if left or any(map(is_number_list, placed[:1])):
            from poolcli.cli.mistakes import refuse_misplaced

            refuse_misplaced(command.name, placed, left)
        return left

    def get_help(self, ctx: Any) -> str:
        return styled(command_help(BY_NAME[str(self.name)]))


def _is_named(each: Parameter, words: Sequence[str]) -> bool:
    """Whether the words may name a parameter: by its place, by a flag, or by its letter among others."""
    if isinstance(each.row, Argument):
        return True
    together = any(word[:1] == "-" and word[1:2] != "-" and len(word) > 2 for word in words)  # -qn
    return any(
        (together and len(flag) == 2) or any(word.startswith(flag) for word in words) for flag in each.row.all_flags
    )


def _made(command: Command, taken: Sequence[Parameter]) -> Any:
    """The command as Typer has it; its body is imported when it runs."""

    def run(**typed: Any) -> None:
        request = request_of(command, typed)
        module, name = command.body.split(".")
        raise typer.Exit(getattr(import_module(f"poolcli.cli.{module}"), name)(request))

    signed = [_signed(each) for each in taken]
    run.__signature__ = inspect.Signature(signed)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in signed}
    app = typer.Typer(add_completion=False, **PLAIN)
    app.command(command.name, cls=_Command, help=command.text, context_settings=MORE)(run)
    return get_command(app)


def _signed(each: Parameter) -> inspect.Parameter:
    """The parameter that Typer reads: flags are true or false, of all else every word that was typed is kept."""
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(each), default=None)


def _annotation(each: Parameter) -> Any:
    if isinstance(each.row, Argument):
        placed = list[str] if each.many else str
        return Annotated[placed | None, typer.Argument(metavar=each.row.metavar)]
    kind = bool if each.is_flag else list[str]
    return Annotated[
        kind | None, typer.Option(*each.row.flags.split(), *each.row.also.split(), metavar=each.row.metavar)
    ]


def _root(
    version: Annotated[bool, typer.Option("-V", "--version", is_eager=True)] = False,
) -> None:
    """Pooling of tensors and images, exactly as OpenVINO's operators define it."""
    if version:
        from poolcli.cli.about import version_line

        print(version_line(), file=sys.stdout)
        raise typer.Exit
