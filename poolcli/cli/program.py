"""The program that typer runs: its commands under one name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from poolcli.cli.commands import COMMANDS, EXIT_CODES
from poolcli.cli.register import register


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


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    """Pooling of tensors and images, exactly as OpenVINO's operators define it."""
