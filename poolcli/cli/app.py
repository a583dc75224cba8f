"""The program, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from poolcli.cli.commands import COMMANDS, EXIT_CODES
from poolcli.cli.messages import complain, complain_of_usage
from poolcli.cli.register import register
from poolcli.core.errors import PoolError
from poolcli.core.fields import on_command_line


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    """Pooling of tensors and images, exactly as OpenVINO's operators define it."""


def program(arguments: Sequence[str] = ()) -> typer.Typer:
    """The program with the command that the arguments begin with; with all commands where they begin with none.

    Making the options of every command takes longer than planning a pooling.
    """
    app = typer.Typer(
        name="poolcli",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=f"Start with: poolcli shape avg 1,3,32,32 -k 2 -s 2\n\n{EXIT_CODES}",
    )
    app.callback()(_root)
    register(app, [command for command in COMMANDS if command.name in arguments[:1]] or COMMANDS)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs the program; returns its exit code. Only a bug, or --debug, lets an exception through."""
    if list(arguments) == ["--version"]:
        from importlib.metadata import version

        print(f"poolcli {version('poolcli')}")
        return 0
    try:
        return program(arguments)(args=list(arguments), prog_name="poolcli", standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code
    except TyperException as error:
        complain_of_usage(error)
        return 2
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (on_command_line(error.message),)  # what the traceback ends in
            raise
        complain(error)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read standard output is gone; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
