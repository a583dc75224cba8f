"""From the table of commands to the program: options derive from the fields of requests and of operators' records."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, get_type_hints

import typer

from poolcli.cli.attributes import all_attribute_options, attribute_options, parse_attributes
from poolcli.cli.commands import Command
from poolcli.cli.options import parameter
from poolcli.cli.requests import Request
from poolcli.cli.words import OPERATOR_WORDS
from poolcli.core.values import one_of
from poolcli.ops import OPERATORS


def register(app: typer.Typer, commands: Iterable[Command]) -> None:
    """Adds the commands; a TypeError where a field has no option."""
    for command in commands:
        app.command(command.name, help=command.text, epilog=_epilog(command))(_function(command))


def request_of(command: Command, typed: Mapping[str, Any]) -> Request:
    """The request of a command from what typer has read; refuses attributes that are none of the operator's."""
    own = {field.name for field in fields(command.request)}
    values: dict[str, Any] = {name: _frozen(value) for name, value in typed.items() if name in own}
    if "attributes" in own:
        op = values["op"] = command.op or one_of("op", typed["op"], tuple(OPERATORS))
        values["attributes"] = parse_attributes(op, {name: typed[name] for name in typed if name not in own})
    return command.request(**values)


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def parameters(command: Command) -> Iterator[inspect.Parameter]:
    """What a command takes, in the order of its request's fields; attributes stand for those of operators."""
    hints = get_type_hints(command.request)
    elements = OPERATOR_WORDS[command.op].elements if command.op else ""
    for field in fields(command.request):
        if field.name == "attributes":
            options = attribute_options(command.op) if command.op else all_attribute_options()
            likes = {"like": OPERATORS[command.op or "avg"].like}
            yield from (parameter(name, kind, None, marked=likes.get(name)) for name, kind in options.items())
        elif field.name not in command.without and not (field.name == "op" and command.op):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield parameter(field.name, hints[field.name], default, elements)


def _function(command: Command) -> Any:
    """The function that typer calls; the body of the command is imported when it runs."""

    def run(**typed: Any) -> None:
        module, name = command.body.split(".")
        body = getattr(import_module(f"poolcli.cli.{module}"), name)
        raise typer.Exit(body(request_of(command, typed)))

    taken = list(parameters(command))
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {each.name: each.annotation for each in taken}
    return run


def _epilog(command: Command) -> str:
    heading = "Examples:" if command.op or len(command.examples) > 1 else "Example:"
    return "\n\n".join(part for part in (heading, *command.examples, command.exit_codes) if part)
