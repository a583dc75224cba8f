"""The Typer program: the table of commands, which are imported when they are called, and the help pages."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli.cli.line import HELP, canonical, prepare
from poolcli.cli.operators import OPERATOR_HELP, find_operator
from poolcli.errors import RequestError
from poolcli.system.lazy_imports import gc_disabled

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 129, 130 or 143 stopped."
# Panels of options, in their order in the help.
PANELS = ("Usual options", "Windows", "Result", "Explain", "Files", "Run and report")
POOL, PYRAMIDS, CHECK, MAINTAIN = "Pool files", "Pyramids", "Explain and check", "Maintenance"  # panels of commands


class Row(NamedTuple):
    """A command: its module in `poolcli.cli`, its panel in the help, and what it does."""

    module: str
    panel: str
    text: str


COMMANDS = {
    **{op: Row("pool", POOL, words.text) for op, words in OPERATOR_HELP.items()},
    "pyramid": Row("pyramid", PYRAMIDS, "Write an OME-Zarr pyramid: an array and downsampled levels."),
    "shape": Row("shape", CHECK, "Show and explain the output shape, from a shape or a file's header."),
    "chain": Row("shape", CHECK, "Follow shape, stride and receptive field through a sequence of layers."),
    "check": Row("check", CHECK, "Recompute the output shapes of a model's pooling layers and compare."),
    "compare": Row("arrays", CHECK, "Compare two arrays: max abs error, mean, ULPs, and where."),
    "identify": Row("arrays", CHECK, "Find which pooling turns one array into another."),
    "info": Row("arrays", CHECK, "List the arrays in files, with shapes and types."),
    "cache": Row("cache", MAINTAIN, "Show, fill or empty the cache of compiled kernels."),
}
PROGRAM_OPTIONS = ("--help", "--version", "--install-completion", "--show-completion")
HELP_TEXT = "Show the usual options; --help-all shows the others, too."
# Options that no help lists: messages propose them where they are needed, and `engine` is for tests.
UNLISTED = ("allow_external", "debug", "engine")
_APPS: dict[str, typer.Typer] = {}  # an app of each command that was declared


def command(
    *examples: str, name: str = "", usage: str = "[OPTIONS]", exit_codes: str = EXIT_CODES, without: Iterable[str] = (),
) -> Callable[[Callable[..., int]], Callable[..., int]]:  # fmt: skip
    """Declares a function as the command of its name, with examples and exit codes at the end of its help.

    A parameter whose annotation is a record stands for an option per field of it, except for those in `without`.
    """

    def declare(function: Callable[..., int]) -> Callable[..., int]:
        called = name or function.__name__
        _APPS[called] = typer.Typer(add_completion=False)
        settings = {"help_option_names": list(HELP), "token_normalize_func": canonical, "allow_extra_args": True}
        _APPS[called].command(
            called, cls=Command, help=COMMANDS[called].text, epilog=_epilog(examples, exit_codes),
            options_metavar=usage, context_settings=settings,
        )(_with_options(function, without))  # fmt: skip
        return function

    return declare


def _with_options(function: Callable[..., int], without: Iterable[str]) -> Callable[..., int]:
    """The function with an option for each field of the records that it takes; it reads their texts."""
    records: dict[str, Any] = {}
    declared: dict[str, Parameter] = {}
    for each in signature(function).parameters.values():
        if not is_dataclass(each.annotation):
            declared[each.name] = each.replace(kind=Parameter.KEYWORD_ONLY)
            continue
        records[each.name] = each.annotation
        for own in fields(each.annotation):
            default = Parameter.empty if own.default is MISSING else own.default
            declared[own.name] = Parameter(own.name, Parameter.KEYWORD_ONLY, default=default, annotation=own.type)
    infos = {name: each.annotation.__metadata__[0] for name, each in declared.items() if name not in without}

    def call(**typed: Any) -> int:
        values = {
            name: infos[name].read(name, value) if infos[name].read else value
            for name, value in typed.items()
            if value is not None and value != []
        }
        made = {
            name: record(**{own.name: values.pop(own.name) for own in fields(record) if own.name in values})
            for name, record in records.items()
        }
        return function(**values, **made)

    params = [
        declared[name].replace(annotation=Annotated[info.text, info]) if info.read else declared[name]
        for name, info in infos.items()
    ]
    panels = [None, *PANELS]  # arguments come first
    params.sort(key=lambda each: panels.index(infos[each.name].rich_help_panel))
    call.__signature__ = Signature(params)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in params}
    return call


@cache
def load_command(name: str) -> "Command":
    """The command of this name, whose module is imported now."""
    with gc_disabled():
        module = import_module(f"poolcli.cli.{COMMANDS[name].module}")
        if name in OPERATOR_HELP:
            module.declare(name)
        return cast("Command", get_command(_APPS[name]))


def field_names(name: str) -> set[str]:
    """The names by which messages call the options and arguments of a command."""
    return {str(each.name) for each in load_command(name).params}


def find_command(word: str) -> str | None:
    """The command of this name, in any case, or of an operator's other name; None if there is none."""
    return next((name for name in (word, word.lower()) if name in COMMANDS), None) or find_operator(word)


def _epilog(examples: Sequence[str], *others: str) -> str:
    """The end of a help page: examples, and other paragraphs."""
    return "\n\n".join(filter(None, ("\n".join(("Examples:", *examples)), *others)))


def _hide_types(params: Sequence[Any]) -> None:
    """Leaves <bool> and <list[str]> out of the help, where the metavar says what is needed."""
    for each in params:
        each.metavar = each.metavar or ""
        if not each.opts[0].startswith("-"):
            each.display_type_rich = lambda ctx: ""


class Command(TyperCommand):
    """A command. Its `--help` leaves out the options that are declared as hidden."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rare: list[Any] = [each for each in self.params if getattr(each, "hidden", False)]
        self._show(True, True)  # in the reference, which is made of the commands
        _hide_types(self.params)

    def get_help_option(self, ctx: Any) -> Any:
        found: Any = super().get_help_option(ctx)
        found.help, found.metavar, found.rich_help_panel = HELP_TEXT, "", PANELS[-1]
        return found

    def _show(self, everything: bool, unlisted: bool = False) -> None:
        for each in self._rare:
            each.hidden = not everything or (each.name in UNLISTED and not unlisted)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asked = [word for word in (args[: args.index("--")] if "--" in args else args) if word in HELP]
        everything = ctx.resilient_parsing or "--help-all" in asked
        self._show(everything)
        if ctx.resilient_parsing:  # completion; Click cannot parse an option whose value is still missing
            valued = {flag for each in self.params if not getattr(each, "is_flag", False) for flag in each.opts}
            return super().parse_args(ctx, args[:-1] if valued.intersection(args[-1:]) else args)
        rest = super().parse_args(ctx, asked[:1] or prepare(args, self.params))  # help whatever else is wrong
        if ctx.args:
            words, name = " ".join(ctx.args), ctx.info_name
            raise RequestError(f"{name}: unexpected argument {words}; {name} --help shows what it takes")
        return rest


class Program(TyperGroup):
    """The group of all commands. Its help and completion use the table alone."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        row = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=row.text, rich_help_panel=row.panel) if row else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = find_command(args[0])
        return (name, load_command(name), args[1:]) if name else super().resolve_command(ctx, args)


app = typer.Typer(name="poolcli", cls=Program, pretty_exceptions_enable=False)


@app.callback(
    context_settings={"help_option_names": list(HELP)},
    epilog=_epilog(
        (
            "poolcli avg samples/astronaut.png -o half.png -k 2 -s 2",
            "poolcli max samples/features.npy -o y.npy -k 3 -s 2 -p 1 --indices where.npy",
            "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
        ),
        f"poolcli COMMAND --help explains a command.\n{EXIT_CODES}",
    ),
)
def _root(version: Annotated[bool, typer.Option("-V", "--version", help="Show the version.")] = False) -> None:
    """Pool tensors and images exactly as OpenVINO does, and explain the output shape."""


def program() -> Any:
    """The program as a Click command; its `main(arguments)` runs it."""
    return get_command(app)
