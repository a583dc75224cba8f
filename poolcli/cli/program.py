"""The Typer program: the table of commands, how a command and its options are declared, and what the help shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli import __version__
from poolcli.arguments import one_of
from poolcli.cli.operators import OPERATOR_HELP, find_operator, parse_operator
from poolcli.dtypes import DTYPES, dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.suggestions import FLAGS, OTHER_NAMES
from poolcli.system.lazy_imports import gc_disabled

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 130 or 143 stopped."
# Panels of commands, and of options in their order.
POOL, ARRAYS, CHECK, MAINTAIN = "Pool files", "Pyramids and shards", "Explain and check", "Maintenance"
USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN = PANELS = (
    "Usual options", "Windows", "Result", "Explain", "Files", "Run and report",
)  # fmt: skip
HELP, HELP_ALL = ("-h", "--help"), "--help-all"
PROGRAM_OPTIONS = ("--help", "--version", "-V", "--install-completion", "--show-completion")  # before any command
# The table of commands: the module of `poolcli.cli` that declares each, its panel in the help, and what it does.
COMMANDS: dict[str, tuple[str, str, str]] = {
    **{op: ("pool", POOL, words.text) for op, words in OPERATOR_HELP.items()},
    "pyramid": ("pyramid", ARRAYS, "Write an OME-Zarr pyramid: an array and downsampled levels."),
    "merge": ("maintenance", ARRAYS, "Combine the shards of a finished run."),
    "shape": ("shape", CHECK, "Show and explain the output shape, from a shape or a file's header."),
    "chain": ("shape", CHECK, "Follow shape, stride and receptive field through a sequence of layers."),
    "check": ("check", CHECK, "Recompute the output shapes of a model's pooling layers and compare."),
    "compare": ("arrays", CHECK, "Compare two arrays: max abs error, mean, ULPs, and where."),
    "identify": ("arrays", CHECK, "Find which pooling turns one array into another."),
    "info": ("arrays", CHECK, "List the arrays in files, with shapes and types."),
    "cache": ("maintenance", MAINTAIN, "Show, fill or empty the cache of compiled kernels."),
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """An option or an argument of a command, with what messages and the reading of values need beyond Typer.

    What is declared:

    words: the values that it takes, in any case and in their usual short forms
    example: a value for messages
    numbers: whether it takes a number for each axis, as in 2,3
    writes: whether it takes the path of an output
    alone, value: what it stands for without a value, and the pattern of a value that may follow
    words_each: how many words are given each time, which Typer gets one by one

    What Typer has made of it: its name, the type of a value, whether it may be given several times, and the flags that
    turn it on and off, of which an argument has none.
    """

    words: tuple[str, ...] = ()
    example: str = ""
    numbers: bool = False
    writes: bool = False
    alone: str = ""
    value: str = ""
    words_each: int = 1
    name: str = ""
    kind: type = str
    many: bool = False
    metavar: str = ""
    flags: tuple[str, ...] = ()
    off: tuple[str, ...] = ()

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool

    @property
    def other_names(self) -> tuple[str, ...]:
        """The flags of other frameworks."""
        return tuple(f"--{name}" for name in OTHER_NAMES.get(self.name, ()) if self.flags)

    @property
    def names(self) -> tuple[str, ...]:
        """Every flag, those of other frameworks included."""
        return (*self.flags, *self.off, *self.other_names)

    @property
    def setting(self) -> str:
        """How it may be given, for a message."""
        value = self.example or next(iter(self.words), "X")
        return f"{field(self.name)} {value}" if self.flags else value

    def read(self, value: str) -> str:
        """A value as Typer knows it: one of the option's words in whatever spelling, or a number."""
        if self.words == tuple(OPERATOR_HELP):
            return parse_operator(value, self.name)
        if self.words:
            alias = dtype_from_alias(value) if self.words == tuple(DTYPES) else None
            return alias or one_of(self.name, value, self.words)
        if self.kind not in (int, float):
            return value
        try:
            return str(self.kind(value))
        except ValueError:
            wanted = "a whole number" if self.kind is int else "a number"
            named = field(self.name)
            raise RequestError(f"{named} is {value!r}; {wanted} is needed, for example {self.setting}") from None

    def complete(self, incomplete: str) -> list[str]:
        """The words that begin so, for a shell."""
        return [word for word in self.words if word.startswith(incomplete.lower())]


def option(
    *flags: str,
    panel: str,
    help: str,  # noqa: A002  # as Typer calls it
    complete: Any = None,
    hidden: bool = False,
    **declared: Any,
) -> Any:
    """A `typer.Option` with the fields of a `Parameter`; a hidden one is advanced: only `--help-all` shows it."""
    return _with(typer.Option, declared, complete, *flags, rich_help_panel=panel, hidden=hidden, help=help)


def argument(metavar: str, *, help: str, complete: Any = None, **declared: Any) -> Any:  # noqa: A002
    """A `typer.Argument` with the fields of a `Parameter`."""
    return _with(typer.Argument, {"metavar": metavar, **declared}, complete, help=help)


def _with(of_typer: Any, declared: dict[str, Any], complete: Any, *flags: str, **shown: Any) -> Any:
    found = Parameter(**declared)
    info = of_typer(
        *flags,
        metavar=found.metavar,
        show_default=False,
        autocompletion=complete or (found.complete if found.words else None),
        **shown,
    )
    info.declared = found
    return info


class Command(TyperCommand):
    """One command, whose `--help` leaves out advanced options, and is shown whatever else is wrong with the line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        hints = inspect.signature(inspect.unwrap(self.callback)).parameters  # type: ignore[arg-type]
        self.taken = tuple(_parameter(each, hints[str(each.name)].annotation) for each in self.params)
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
        lines = [f"{each.flags[-1]}: {', '.join(each.other_names)}" for each in self.taken if each.other_names]
        lines += [f"{true}: {flag}" for flag, (true, _) in settings(self.taken).items()]
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
        _, panel, text = COMMANDS.get(cmd_name, ("", "", ""))
        return TyperCommand(cmd_name, help=text, rich_help_panel=panel) if text else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = find_command(args[0])
        return (name, made(name), args[1:]) if name else super().resolve_command(ctx, args)


app = typer.Typer(name="poolcli", cls=Program, pretty_exceptions_enable=False)


def _epilog(examples: Sequence[str], *others: str) -> str:
    """The end of a help page."""
    return "\n\n".join(filter(None, ("\n".join(("Examples:", *examples)), *others)))


def _show_version(value: bool) -> None:
    if value:
        print(f"poolcli {__version__}")
        raise typer.Exit


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
def _root(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Pool tensors and images with OpenVINO semantics."""


def program() -> Any:
    """The whole program as a Typer command: `main(words)` runs it."""
    return get_command(app)


def find_command(word: str) -> str | None:
    """The command that people mean by `word`, whatever name they have for it; None where there is none."""
    return next((name for name in (word, word.lower()) if name in COMMANDS), None) or find_operator(word)


def _show_no_types(params: Sequence[Any]) -> None:
    """Leaves <bool> of flags and <list[str]> of arguments out of the help: the metavar says what is needed."""
    for each in params:
        each.metavar = each.metavar or ""
        if not each.opts[0].startswith("-"):
            each.display_type_rich = lambda ctx: ""


@cache
def made(name: str) -> Command:
    """The command as Typer makes it of what its module declares."""
    module, _, text = COMMANDS[name]
    with gc_disabled():
        import_module(f"poolcli.cli.{module}")
    alone = typer.Typer(add_completion=False)
    alone.registered_commands += [each for each in app.registered_commands if each.name == name]
    command: Command = get_command(alone)  # type: ignore[assignment]
    command.help = text
    return command


def command(
    name: str,
    record: type,
    *examples: str,
    exit_codes: str = EXIT_CODES,
    usage: str = "[OPTIONS]",
    without: Sequence[str] = (),
) -> Callable[[Callable[[Any], int]], Callable[[Any], int]]:
    """Declares the command `name`: a function of a record, whose fields are its options, except those in `without`.

    Options stand in the order of PANELS, and within a panel in the order of the fields.
    """

    def declare(function: Callable[[Any], int]) -> Callable[[Any], int]:
        def run(**typed: Any) -> int:
            return function(record(**typed))

        found = [each for each in _fields(record) if each.name not in without]
        vars(run)["__signature__"] = inspect.Signature(found)
        run.__annotations__ = {each.name: each.annotation for each in found}
        epilog = _epilog(examples, exit_codes)
        app.command(name, cls=Command, add_help_option=False, options_metavar=usage, epilog=epilog)(run)
        return function

    return declare


@cache
def _fields(record: type) -> list[inspect.Parameter]:
    """The fields of a record as parameters of a function, in the order of their panels."""
    hints, found = get_type_hints(record, include_extras=True), list[tuple[int, inspect.Parameter]]()
    for each in fields(record):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        hint, kind = hints[each.name], inspect.Parameter.KEYWORD_ONLY
        panel = get_args(hint)[1].rich_help_panel
        place = PANELS.index(panel) if panel else -1
        found.append((place, inspect.Parameter(each.name, kind, annotation=hint, default=default)))
    return [parameter for _, parameter in sorted(found, key=lambda pair: pair[0])]


def _parameter(made: Any, annotation: Any) -> Parameter:
    """What is declared of a parameter, and what Typer has made of it."""
    kind, info = get_args(annotation)
    declared: Parameter = info.declared
    return replace(
        declared,
        name=made.name,
        kind=next((part for part in get_args(kind) if part is not type(None)), kind),
        many=get_origin(kind) is list,
        flags=tuple(made.opts) if made.opts[0].startswith("-") else (),
        off=tuple(made.secondary_opts),
    )


def settings(taken: Sequence[Parameter]) -> dict[str, tuple[str, str]]:
    """The flags of other frameworks that stand for settings of options that a command takes, true and false."""
    own = {each.name for each in taken}, {flag for each in taken for flag in each.names}
    return {
        f"--{flag}": (for_cli(field(name, true)), for_cli(field(name, false)))
        for flag, (name, true, false) in FLAGS.items()
        if name in own[0] and f"--{flag}" not in own[1]
    }
