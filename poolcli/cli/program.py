"""The program as Typer has it: the table of commands, of which the one that is named is made, and what each takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli.cli.operators import OPERATOR_WORDS, operator_named
from poolcli.message_fields import field
from poolcli.system.lazy_imports import gc_disabled
from poolcli.version import VERSION

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 130 or 143 stopped."
# Panels of commands, and of options in their order.
POOL, ARRAYS, CHECK, MAINTAIN = "Pool files", "Pyramids and shards", "Explain and check", "Maintenance"
USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN = PANELS = (
    "Usual options", "Windows", "Result", "Explain", "Files", "Run and report",
)  # fmt: skip
# Options that stand for a setting of another one, and what they are for true and for false.
SETTINGS: dict[str, tuple[str, str, str]] = {
    "--ceil-mode": ("rounding_type", "--rounding-type=ceil", "--rounding-type=floor"),
    "--count-include-pad": ("exclude_pad", "--include-pad", "--exclude-pad"),
}
HELP, HELP_ALL = ("-h", "--help"), "--help-all"


def examples(*lines: str, exit_codes: str = EXIT_CODES) -> str:
    """The end of a command's help."""
    return "\n\n".join(filter(None, ("\n".join(("Examples:", *lines)), exit_codes)))


@dataclass(frozen=True)
class Typed:
    """How the words of an option are read, beyond what Typer knows of it.

    also: what other frameworks call the option, without dashes
    words: the values that it takes, in any case and in their usual short forms
    example: a value for messages
    numbers: whether it takes a number for each axis, as in 2,3
    writes: whether it takes the path of an output
    alone, value: what it stands for without a value, and the pattern of a value that may follow
    """

    also: str = ""
    words: tuple[str, ...] = ()
    example: str = ""
    numbers: bool = False
    writes: bool = False
    alone: str = ""
    value: str = ""

    def complete(self, incomplete: str) -> list[str]:
        """The words that begin so, for a shell."""
        return [word for word in self.words if word.startswith(incomplete.lower())]


@dataclass(frozen=True, slots=True)
class Row:
    """A command: the module of `poolcli.cli` that registers it with `app`, its panel in the help, and what it does."""

    module: str
    panel: str
    text: str


COMMANDS = {
    **{op: Row("pool", POOL, words.text) for op, words in OPERATOR_WORDS.items()},
    "pyramid": Row("pyramid", ARRAYS, "Write an array and ever smaller levels of it as an OME-Zarr store."),
    "merge": Row("merge", ARRAYS, "Combine the shards of a finished run."),
    "shape": Row("shape", CHECK, "Show and explain the output shape, from a shape or a file's header."),
    "chain": Row("chain", CHECK, "Follow shape, stride and receptive field through a sequence of layers."),
    "check": Row("check", CHECK, "Recompute the output shapes of a model's pooling layers and compare."),
    "compare": Row("compare", CHECK, "Compare two arrays: max abs error, mean, ULPs, and where."),
    "identify": Row("identify", CHECK, "Find which pooling turns one array into another."),
    "info": Row("info", CHECK, "List the arrays in files, with shapes and types."),
    "cache": Row("cache", MAINTAIN, "Show, fill or empty the cache of compiled kernels."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a command takes: its options with the flags that turn them on and off, and its arguments, which have none.

    `kind` is the type of a value, `many` says that it may be given several times.
    """

    name: str
    kind: type
    many: bool
    default: Any
    metavar: str
    typed: Typed
    flags: tuple[str, ...]
    off: tuple[str, ...]

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool

    @property
    def names(self) -> tuple[str, ...]:
        """Every flag, those of other frameworks included."""
        return (*self.flags, *self.off, *(f"--{name}" for name in self.typed.also.split()))

    @property
    def example(self) -> str:
        """How it may be given, for a message."""
        value = self.typed.example or next(iter(self.typed.words), "X")
        return field(self.name, value) if self.flags else value


class Command(TyperCommand):
    """One command, whose `--help` leaves out advanced options, and whatever else is wrong with the line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        hints = inspect.signature(inspect.unwrap(self.callback)).parameters  # type: ignore[arg-type]
        self.taken = tuple(_parameter(each, hints[str(each.name)]) for each in self.params)
        self._advanced = [each for each in self.params if getattr(each, "hidden", False)]
        self._show(True)
        _show_no_types(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asked = {*HELP, HELP_ALL}.intersection(args[: args.index("--")] if "--" in args else args)
        if ctx.resilient_parsing:  # a shell asks how the line may go on, also behind an option that needs a value
            valued = {flag for each in self.taken if not each.is_flag for flag in each.flags}
            args = args[:-1] if valued.intersection(args[-1:]) else args
        elif asked:
            self._print_help(ctx, everything=HELP_ALL in asked)
            ctx.exit()
        return super().parse_args(ctx, args)

    def _print_help(self, ctx: Any, everything: bool) -> None:
        usual = self.epilog
        if everything:
            self.epilog = f"{self.epilog}\n\n{self._other_names()}"
        self._show(everything)
        print(end=ctx.get_help())
        self._show(True)
        self.epilog = usual

    def _other_names(self) -> str:
        """What other frameworks call the options, a line each."""
        named = [
            (each.flags[-1], each.names[len((*each.flags, *each.off)) :]) for each in self.taken if each.typed.also
        ]
        lines = [f"{flag}: {', '.join(names)}" for flag, names in named]
        lines += [f"{true.replace('=', ' ')}: {flag}" for flag, (true, _) in settings(self.taken).items()]
        return "\n".join(("Names of other frameworks:", *lines)) if lines else ""

    def _show(self, advanced: bool) -> None:
        for each in self._advanced:
            each.hidden = not advanced  # type: ignore[attr-defined]


class Program(TyperGroup):
    """All commands. The one that is named is made; the help and completion of names need no more than the table."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _show_no_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        row = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=row.text, rich_help_panel=row.panel) if row else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = command_named(args[0])
        return (name, made(name), args[1:]) if name else super().resolve_command(ctx, args)


app = typer.Typer(name="poolcli", cls=Program, pretty_exceptions_enable=False)


def _show_version(value: bool) -> None:
    if value:
        print(version_line())
        raise typer.Exit


@app.callback(
    context_settings={"help_option_names": list(HELP)},
    epilog=examples(
        "poolcli avg samples/astronaut.png -o half.png -k 2 -s 2",
        "poolcli max samples/features.npy -o y.npy -k 3 -s 2 -p 1 --indices where.npy",
        "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
        exit_codes=f"poolcli COMMAND --help explains a command.\n{EXIT_CODES}",
    ),
)
def _root(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Pool tensors and images with OpenVINO semantics."""


def program() -> Any:
    """The whole program as a Typer command: `main(words)` runs it."""
    return get_command(app)


def version_line() -> str:
    """Name and version, as `--version` shows them."""
    return f"poolcli {VERSION}"


def command_named(word: str) -> str | None:
    """The command that people mean by `word`, whatever name they have for it; None where there is none."""
    return next((name for name in (word, word.lower()) if name in COMMANDS), None) or operator_named(word)


def _show_no_types(params: Sequence[Any]) -> None:
    """Leaves <bool> of flags and <list[str]> of arguments out of the help: the metavar says what is needed."""
    for each in params:
        each.metavar = each.metavar or ""
        if not each.opts[0].startswith("-"):
            each.display_type_rich = lambda ctx: ""


@cache
def made(name: str) -> Command:
    """The command as Typer makes it of what its module registers."""
    with gc_disabled():
        import_module(f"poolcli.cli.{COMMANDS[name].module}")
    alone = typer.Typer(add_completion=False)
    alone.registered_commands += [each for each in app.registered_commands if each.name == name]
    command: Command = get_command(alone)  # type: ignore[assignment]
    command.help = COMMANDS[name].text
    return command


def takes(record: type, without: Sequence[str] = ()) -> Callable[[Callable[[Any], int]], Callable[..., int]]:
    """Makes a function of a record one of the record's fields, which Typer reads; panels are in the order of PANELS."""

    def taking(function: Callable[[Any], int]) -> Callable[..., int]:
        def run(**typed: Any) -> int:
            return function(record(**typed))

        found = [each for each in _fields(record) if each.name not in without]
        vars(run)["__signature__"] = inspect.Signature(found)
        run.__annotations__ = {each.name: each.annotation for each in found}
        return run

    return taking


@cache
def _fields(record: type) -> list[inspect.Parameter]:
    """The fields of a record as parameters, in the order of their panels."""
    hints = get_type_hints(record, include_extras=True)
    return sorted((_signed(each, hints[each.name]) for each in fields(record)), key=_panel)


def _signed(each: Any, hint: Any) -> inspect.Parameter:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=empty if default is MISSING else default
    )


def _panel(each: inspect.Parameter) -> int:
    panel = get_args(each.annotation)[1].rich_help_panel
    return PANELS.index(panel) if panel in PANELS else -1


def _parameter(made: Any, signed: inspect.Parameter) -> Parameter:
    """What Typer has made of a parameter, and what its annotation says beyond that."""
    kind, _, *others = get_args(signed.annotation)
    plain = next((part for part in get_args(kind) if part is not type(None)), kind)
    is_option = made.opts[0].startswith("-")
    return Parameter(
        made.name,
        plain,
        get_origin(kind) is list,
        signed.default,
        made.metavar or "",
        others[0] if others else Typed(),
        tuple(made.opts) if is_option else (),
        tuple(made.secondary_opts),
    )


def settings(taken: Sequence[Parameter]) -> dict[str, tuple[str, str]]:
    """The options of other frameworks that stand for settings of those that a command takes, true and false."""
    names = {each.name for each in taken}
    return {flag: (true, false) for flag, (name, true, false) in SETTINGS.items() if name in names}
