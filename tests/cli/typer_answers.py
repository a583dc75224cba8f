"""What Typer answers a shell: the tables as a Typer program, whose own parser finds what a line asks for."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any

import pytest
import typer
from typer._completion_classes import FishComplete
from typer.main import get_command

from poolcli.cli.commands import COMMANDS
from poolcli.cli.completing import completions
from poolcli.cli.options import Argument
from poolcli.cli.parameters import Parameter, parameters
from poolcli.cli.question import OF_ALL, OF_COMMANDS


def typer_answers(line: str) -> list[str]:
    """The answers, as poolcli writes them; flags that are typed already are not among them, and names of other
    frameworks are.
    """
    asking = FishComplete(program(), {}, "poolcli", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_TYPER_COMPLETE_ARGS", line)
        found = asking.get_completions(*asking.get_completion_args())
    return [f"{each.value}\t{each.help}" if each.help else str(each.value) for each in found]


@cache
def program() -> Any:
    app = typer.Typer(add_completion=False, add_help_option=False)
    versions, helps, show, install = OF_ALL[:2], OF_ALL[2:4], OF_ALL[4:5], OF_ALL[5:]
    app.callback()(taking(dict(zip("abcd", map(flag, (versions, helps, show, install)), strict=True))))
    for command in COMMANDS:
        signed = {each.name: annotation(each) for each in parameters(command)}
        signed |= {name.strip("-").replace("-", "_"): flag((name,)) for name in OF_COMMANDS}
        app.command(command.name, short_help=command.text, add_help_option=False)(taking(signed))
    return get_command(app)


def taking(signed: dict[str, Any]) -> Any:
    """A function of keywords that are annotated so."""

    def body(**typed: Any) -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    vars(body)["__signature__"] = inspect.Signature(
        [inspect.Parameter(name, kind, annotation=each, default=None) for name, each in signed.items()]
    )
    body.__annotations__ = signed
    return body


def flag(names: tuple[str, ...]) -> Any:
    return Annotated[bool, typer.Option(*names)]


def annotation(each: Parameter) -> Any:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return completions(each, ctx.params.get("inputs") or [], incomplete)

    if isinstance(each.row, Argument):
        return Annotated[(list[str] if each.many else str) | None, typer.Argument(autocompletion=complete)]
    names = (*each.row.flags.split(), *each.row.also.split())
    return Annotated[
        (bool if each.is_flag else list[str]) | None, typer.Option(*names, help=each.text, autocompletion=complete)
    ]
