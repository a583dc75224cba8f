"""The Typer program: the help of operators, the table of commands, which are imported when called, and help pages."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from poolcli.arguments import one_of
from poolcli.cli.values import HELP, own_flags, prepare
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import MEANT, join_words
from poolcli.system.lazy_imports import gc_disabled

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 129, 130 or 143 stopped."
# Panels of options, in their order in the help.
PANELS = ("Usual options", "Windows", "Result", "Explain", "Files", "Run and report")
POOL, PYRAMIDS, CHECK, MAINTAIN = "Pool files", "Pyramids", "Explain and check", "Maintenance"  # panels of commands


class Operator(NamedTuple):
    """The help of an operator: a line, other names, and the arguments of examples.

    Names in frameworks need no alias if they differ by a suffix: `AvgPool-14` and `avg_pool2d` are found as avg.
    """

    text: str
    aliases: str
    examples: tuple[str, ...]


# fmt: off
OPERATOR_HELP = {
    "avg": Operator("Average of every window (OpenVINO AvgPool, nGraph AvgPool).", "average mean", (
        "samples/astronaut.png -o half.png -k 2 -s 2", "samples -o small/ -k 2 -s 2",
        "samples/features.npy -o y.npy -k 3 -s 2 -p 1 --include-pad")),
    "max": Operator("Maximum of every window; argmax with --indices (MaxPool).", "maximum", (
        "samples -o small/ -k 2 -s 2", "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3",
        "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy")),
    "min": Operator("Minimum of every window; argmin with --indices.", "minimum", (
        "samples -o small/ -k 2 -s 2", "samples/features.npy -o y.npy -k 2 -s 2 --indices where.npy")),
    "mode": Operator("Most frequent value (mode) of every window, for label maps.", "majority", (
        "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2", "samples/astronaut.png -o small.png -k 2 -s 2")),
    "median": Operator("Median of every window; integers round half to even.", "med", (
        "samples/volume.h5 -o half.h5 -k 2,2,2 -s 2", "samples/astronaut.png -o calm.png -k 3 -s 2 -p 1")),
    "sum": Operator("Sum of every window; integers become int64 or uint64.", "total add", (
        "samples/volume.h5 -o y.h5 -k 2,2,2 -s 2", "samples/astronaut.png -o sums.npy -k 3 -s 3")),
    "std": Operator("Standard deviation of every window, as floats.", "stdev stddev deviation", (
        "samples/volume.h5 -o y.h5 -k 2,3,3 -s 2,3,3", "samples/astronaut.png -o spread.npy -k 5 -s 5 --ddof 1")),
    "lp": Operator("The p-norm of every window (ONNX LpPool, PyTorch lp_pool).", "norm lpnorm", (
        "samples/features.npy -o y.npy -k 2 -s 2", "samples/features.npy -o z.npy -k 3 -s 2 --p 3 --like pytorch")),
    "adaptive-avg": Operator("Average to a given output size (OpenVINO AdaptiveAvgPool).",
        "adaptive-average adaptive-mean adaptive", (
        "samples -o small/ --output-size 8", "samples/astronaut.png -o small.png --output-size 64,64")),
    "adaptive-max": Operator("Maximum to a given output size (OpenVINO AdaptiveMaxPool).", "adaptive-maximum", (
        "samples/features.npy -o y.npy --output-size 7", "samples/volume.h5 -o y.h5 --output-size 4,8,8")),
    "area": Operator("Mean over equal areas, to any output size (as OpenCV INTER_AREA).", "inter-area box", (
        "'samples/*.png' -o small/ --fit 100x80", "samples/features.npy -o y.npy --output-size 12")),
}
# fmt: on

# The suffix of an operator's name in frameworks, as in max_pool2d.
_POOL_SUFFIX = re.compile(r"pool(ing)?(\d?d?\d*)$")
# Of each command: its module in `poolcli.cli`, its panel in the help, and what it does.
COMMANDS = {
    **{op: ("pool", POOL, row.text) for op, row in OPERATOR_HELP.items()},
    "pyramid": ("pyramid", PYRAMIDS, "Write an OME-Zarr pyramid: an array and downsampled levels."),
    "shape": ("shape", CHECK, "Show and explain the output shape, from a shape or a file's header."),
    "chain": ("shape", CHECK, "Follow shape, stride and receptive field through a sequence of layers."),
    "check": ("check", CHECK, "Recompute the output shapes of a model's pooling layers and compare."),
    "compare": ("arrays", CHECK, "Compare two arrays: max abs error, mean, ULPs, and where."),
    "identify": ("arrays", CHECK, "Find which pooling turns one array into another."),
    "info": ("arrays", CHECK, "List the arrays in files, with shapes and types."),
    "cache": ("arrays", MAINTAIN, "Show, fill or empty the cache of compiled kernels."),
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
        epilog = "\n".join(("Examples:", *examples, "", exit_codes)).rstrip()
        settings = {"help_option_names": list(HELP), "allow_extra_args": True}
        _APPS[called] = typer.Typer(add_completion=False)
        _APPS[called].command(
            called, cls=Command, help=COMMANDS[called][2], epilog=epilog, options_metavar=usage,
            context_settings=settings,
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
        module = import_module(f"poolcli.cli.{COMMANDS[name][0]}")
        if name in OPERATOR_HELP:
            module.declare(name)
        return cast("Command", get_command(_APPS[name]))


def field_names(name: str) -> set[str]:
    """The names by which messages call the options and arguments of a command."""
    return {str(each.name) for each in load_command(name).params}


def parse_operator(name: str, text: str) -> str:
    """The operator that `text` names; refuses other words as values of the field `name`."""
    if found := find_operator(text):
        return found
    meant = instead_of(text)
    if meant.startswith("poolcli"):
        raise RequestError(f"{field(name)} is {text!r}; use {meant.replace('poolcli ', '')}")
    if name == "op" and (text[:1].isdigit() or os.path.exists(text)):
        raise RequestError(f"{field(name)} is {text!r}; the operator comes first, as in poolcli shape max {text}")
    return one_of(name, text, tuple(OPERATOR_HELP))


def instead_of(word: str) -> str:
    """What to use in place of a word that is no command; "" if that is not known."""
    plain = _POOL_SUFFIX.sub("", word.lower().replace("_", "-")).rstrip("-") or "pool"
    return next((meant for known, meant in MEANT.items() if _plain(known) == _plain(plain)), "")


def find_operator(word: str) -> str | None:
    """The operator that `word` names, or None."""
    plain = _POOL_SUFFIX.sub("", _plain(word.rpartition(".")[2]))
    return next((op for op, row in OPERATOR_HELP.items() if plain in map(_plain, (op, *row.aliases.split()))), None)


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def find_command(word: str) -> str | None:
    """The command of this name, in any case, or of an operator's other name; None if there is none."""
    return next((name for name in (word, word.lower()) if name in COMMANDS), None) or find_operator(word)


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

    def get_help_option_names(self, ctx: Any) -> list[str]:
        return list(ctx.help_option_names)  # Click gives them as a set

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
            first = ctx.args[0] if ctx.args[0] in args else words.split()[0]  # numbers that are typed apart were joined
            before = args[args.index(first) - 1]
            inputs = [f"one {each.metavar}" for each in self.params if each.param_type_name == "argument"]
            end = f"{name} takes {join_words(inputs, 'and')} at a time"
            if before in own_flags(self.params):
                end = f"{before} takes no value"
            elif ctx.params.get("output", 0) is None and os.path.splitext(first)[1]:
                stem, suffix = os.path.splitext(first)
                target = first if name != "pyramid" or suffix == ".zarr" else f"{stem}.ome.zarr"
                end = f"write {field('output', target)}"
            elif ctx.params.get("kernel", 0) is None and re.fullmatch(r"(\d+([,xX]\d+){0,2} ?){1,3}", words):
                op = find_operator(str(ctx.params.get("op")))
                flags = ("--output-size",) if op and "output_size" in field_names(op) else ("-k", "-s", "-p")
                end = f"write {' '.join(map(' '.join, zip(flags, words.split(), strict=False)))}"
            raise RequestError(f"{name}: unexpected argument {words}; {end}")
        return rest


class Program(TyperGroup):
    """The group of all commands. Its help and completion use the table alone."""

    get_help_option_names = Command.get_help_option_names

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


@app.callback(
    context_settings={"help_option_names": HELP[:2]},
    epilog=f"""Examples:
poolcli avg samples/astronaut.png -o half.png -k 2 -s 2
poolcli area 'samples/*.png' -o small/ --fit 256
poolcli shape max 1,64,56,56 -k 3 -s 2 --compare

poolcli COMMAND --help explains a command.
{EXIT_CODES}""",
)
def _root(version: Annotated[bool, typer.Option("-V", "--version", help="Show the version.")] = False) -> None:
    """Pool tensors and images exactly as OpenVINO does, and explain the output shape."""


def program() -> Any:
    """The program as a Click command; its `main(arguments)` runs it."""
    return get_command(app)
