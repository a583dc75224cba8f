"""The Typer program: the table of commands, the declaration of commands and options, and the help pages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
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

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 129, 130 or 143 stopped."
# Panels of commands, and of options in their order.
POOL, ARRAYS, CHECK, MAINTAIN = "Pool files", "Pyramids and shards", "Explain and check", "Maintenance"
USUAL, WINDOWS, RESULT, EXPLAIN, FILES, RUN = PANELS = (
    "Usual options", "Windows", "Result", "Explain", "Files", "Run and report",
)  # fmt: skip
HELP, HELP_ALL = ("-h", "--help"), "--help-all"
PROGRAM_OPTIONS = ("--help", "--version", "-V", "--install-completion", "--show-completion")
# The table of commands: the module of `poolcli.cli` that declares each, its panel in the help, and what it does.
COMMANDS: dict[str, tuple[str, str, str]] = {
    **{op: ("pool", POOL, words.text) for op, words in OPERATOR_HELP.items()},
    "pyramid": ("pyramid", ARRAYS, "Write an OME-Zarr pyramid: an array and downsampled levels."),
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
    """An option or an argument of a command, with what Typer does not know.

    Declared with the option:

    choices: its values; other cases and usual short forms of them are accepted too
    example: a value for messages
    per_axis: whether its value is a number for each axis, as in 2,3
    is_output: whether its value is the path of an output
    flag_value, value_pattern: its value if none is typed, and the pattern of a value that is
    nargs: how many words are typed each time; Typer gets them one by one

    Taken from Typer: name, type, metavar, whether it can be repeated, and the flags that turn it on and off, of which
    an argument has none. `other_names` are its names in other frameworks, as flags, and `names` all of its flags.
    """

    choices: tuple[str, ...] = ()
    example: str = ""
    per_axis: bool = False
    is_output: bool = False
    flag_value: str = ""
    value_pattern: str = ""
    nargs: int = 1
    name: str = ""
    value_type: type = str
    multiple: bool = False
    metavar: str = ""
    flags: tuple[str, ...] = ()
    off_flags: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.value_type is bool

    @property
    def usage(self) -> str:
        """An example of its use, for messages."""
        value = self.example or next(iter(self.choices), "X")
        return f"{field(self.name)} {value}" if self.flags else value

    def parse(self, value: str) -> str:
        """The value as Typer takes it; refuses words that are not among the choices, and text in place of numbers."""
        if self.choices == tuple(OPERATOR_HELP):
            return parse_operator(value, self.name)
        if self.choices:
            alias = dtype_from_alias(value) if self.choices == tuple(DTYPES) else None
            return alias or one_of(self.name, value, self.choices)
        if self.value_type not in (int, float):
            return value
        try:
            return str(self.value_type(value))
        except ValueError:
            wanted = "a whole number" if self.value_type is int else "a number"
            named = field(self.name)
            raise RequestError(f"{named} is {value!r}; {wanted} is needed, for example {self.usage}") from None

    def complete(self, incomplete: str) -> list[str]:
        """The choices that begin with a word, for the completion of shells."""
        return [word for word in self.choices if word.startswith(incomplete.lower())]


def option(
    *flags: str,
    help: str,  # noqa: A002  # as Typer calls it
    panel: str | None = None,
    complete: Any = None,
    hidden: bool = False,
    declare: Any = typer.Option,
    **declared: Any,
) -> Any:
    """A `typer.Option` that keeps the `declared` fields of a Parameter; only `--help-all` shows a hidden one."""
    found = Parameter(**declared)
    info = declare(
        *flags,
        help=help,
        metavar=found.metavar,
        show_default=False,
        autocompletion=complete or (found.complete if found.choices else None),
        rich_help_panel=panel,
        hidden=hidden,
    )
    info.declared = found
    return info


def argument(metavar: str, **declared: Any) -> Any:
    """A `typer.Argument` that keeps the `declared` fields of a Parameter."""
    return option(metavar=metavar, declare=typer.Argument, **declared)


class Command(TyperCommand):
    """One command. Its `--help` leaves out advanced options, and is shown even if other arguments are wrong."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        hints = inspect.signature(inspect.unwrap(self.callback)).parameters  # type: ignore[arg-type]
        # Click's own list of the parameters is `params`.
        self.parameters = tuple(_parameter(each, hints[str(each.name)].annotation) for each in self.params)
        self._advanced = [each for each in self.params if getattr(each, "hidden", False)]
        self._show_advanced(True)
        _hide_types(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        asked = {*HELP, HELP_ALL}.intersection(args[: args.index("--")] if "--" in args else args)
        if ctx.resilient_parsing:  # for completion; Click cannot parse an option whose value is still missing
            valued = {flag for each in self.parameters if not each.is_flag for flag in each.flags}
            args = args[:-1] if valued.intersection(args[-1:]) else args
        elif asked:
            self._print_help(ctx, everything=HELP_ALL in asked)
            ctx.exit()
        return super().parse_args(ctx, args)

    def _print_help(self, ctx: Any, everything: bool) -> None:
        usual = self.epilog
        if everything:
            self.epilog = f"{self.epilog}\n\n{self._other_names()}"
        self._show_advanced(everything)
        print(end=ctx.get_help())
        self._show_advanced(True)
        self.epilog = usual

    def _other_names(self) -> str:
        """The names of the options in other frameworks, one line per option."""
        lines = [f"{each.flags[-1]}: {', '.join(each.other_names)}" for each in self.parameters if each.other_names]
        lines += [f"{foreign_setting(flag, True)}: {flag}" for flag in foreign_flags(self.parameters)]
        return "\n".join(("Names of other frameworks:", *lines)) if lines else ""

    def _show_advanced(self, shown: bool) -> None:
        for each in self._advanced:
            each.hidden = not shown  # type: ignore[attr-defined]


class Program(TyperGroup):
    """The group of all commands. It imports the command that is named; help and completion use the table alone."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _hide_types(self.get_params(ctx))
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        _, panel, text = COMMANDS.get(cmd_name, ("", "", ""))
        return TyperCommand(cmd_name, help=text, rich_help_panel=panel) if text else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = find_command(args[0])
        return (name, load_command(name), args[1:]) if name else super().resolve_command(ctx, args)


app = typer.Typer(name="poolcli", cls=Program, pretty_exceptions_enable=False)


def _epilog(examples: Sequence[str], *others: str) -> str:
    """The end of a help page: examples, and other paragraphs."""
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
    """The program as a Click command; its `main(arguments)` runs it."""
    return get_command(app)


def find_command(word: str) -> str | None:
    """The command of this name, in any case, or of an operator's other name; None if there is none."""
    return next((name for name in (word, word.lower()) if name in COMMANDS), None) or find_operator(word)


def _hide_types(params: Sequence[Any]) -> None:
    """Leaves <bool> and <list[str]> out of the help, where the metavar says what is needed."""
    for each in params:
        each.metavar = each.metavar or ""
        if not each.opts[0].startswith("-"):
            each.display_type_rich = lambda ctx: ""


@cache
def load_command(name: str) -> Command:
    """Imports the module of a command and returns the command.

    Typer makes a Click command of each function that is declared in its app, which takes milliseconds for each, so an
    app of this command alone is made.
    """
    module, _, text = COMMANDS[name]
    with gc_disabled():
        declaring = import_module(f"poolcli.cli.{module}")
        if name in OPERATOR_HELP:
            declaring.declare(name)
    single = typer.Typer(add_completion=False)
    _DECLARED[name](single)
    command: Command = get_command(single)  # type: ignore[assignment]
    command.help = text
    return command


_DECLARED: dict[str, Callable[[typer.Typer], None]] = {}  # by the name of a command: adds it to an app


def command(
    name: str,
    record: type,
    *examples: str,
    exit_codes: str = EXIT_CODES,
    usage: str = "[OPTIONS]",
    without: Collection[str] = (),
) -> Callable[[Callable[[Any], int]], Callable[[Any], int]]:
    """Declares the command `name`: a function of a record whose fields, less those in `without`, are its options.

    Options are in the order of PANELS, and within a panel in the order of the fields.
    """

    def declare(function: Callable[[Any], int]) -> Callable[[Any], int]:
        def run(**typed: Any) -> int:
            return function(record(**typed))

        def add(app: typer.Typer) -> None:
            found = _typer_parameters(record, without)
            vars(run)["__signature__"] = inspect.Signature(found)
            run.__annotations__ = {each.name: each.annotation for each in found}
            epilog = _epilog(examples, exit_codes)
            app.command(name, cls=Command, add_help_option=False, options_metavar=usage, epilog=epilog)(run)

        _DECLARED[name] = add
        return function

    return declare


def _typer_parameters(record: type, without: Collection[str]) -> list[inspect.Parameter]:
    """The fields of a record, less those in `without`, as parameters of a function, in the order of their panels."""
    hints = get_type_hints(record, include_extras=True)
    panels: dict[str | None, list[inspect.Parameter]] = {panel: [] for panel in (None, *PANELS)}  # arguments have none
    for each in (own for own in fields(record) if own.name not in without):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        default = inspect.Parameter.empty if default is MISSING else default
        hint, kind = hints[each.name], inspect.Parameter.KEYWORD_ONLY
        made = inspect.Parameter(each.name, kind, annotation=hint, default=default)
        panels[get_args(hint)[1].rich_help_panel].append(made)
    return [each for panel in panels.values() for each in panel]


def _parameter(param: Any, annotation: Any) -> Parameter:
    """The Parameter of a parameter of Click."""
    hint, info = get_args(annotation)
    declared: Parameter = info.declared
    flags = tuple(param.opts) if param.opts[0].startswith("-") else ()
    others = tuple(f"--{name}" for name in OTHER_NAMES.get(param.name, ())) if flags else ()
    return replace(
        declared,
        name=param.name,
        value_type=next((part for part in get_args(hint) if part is not type(None)), hint),
        multiple=get_origin(hint) is list,
        flags=flags,
        off_flags=tuple(param.secondary_opts),
        other_names=others,
        names=(*flags, *param.secondary_opts, *others),
    )


def foreign_flags(parameters: Sequence[Parameter]) -> list[str]:
    """The flags of other frameworks that set an option of a command."""
    names, flags = {each.name for each in parameters}, {flag for each in parameters for flag in each.names}
    return [f"--{flag}" for flag, (name, _, _) in FLAGS.items() if name in names and f"--{flag}" not in flags]


def foreign_setting(flag: str, on: bool) -> str:
    """The option that such a flag, on or off, stands for."""
    name, true, false = FLAGS[flag.removeprefix("--")]
    return for_cli(field(name, true if on else false))
