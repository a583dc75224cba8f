"""The help as text: made from the tables of commands and options, in columns where there is room for two."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from poolcli.cli.commands import COMMANDS, EXIT_CODES, Command
from poolcli.cli.options import PANELS, SETTINGS, Argument, Option
from poolcli.cli.parameters import Parameter, needed, parameters
from poolcli.cli.which import command_called

WIDEST = 100  # columns
BESIDE = 26  # columns of what is explained, where the explanation stands beside it
STACKED = 60  # columns, below which it stands under it
Rows = Sequence[tuple[str, str]]
HELP = ("-h, --help", "This help; --help-all shows every option.")
# What `--help` shows, in this order; `--help-all` shows everything.
FIRST = (
    "operator", "kernel", "levels", "levels_from", "edge", "scale", "unit", "output_size", "strides", "pads",
    "output", "p", "rounding_type", "auto_pad", "exclude_pad", "like", "indices", "layout", "dtype", "explain",
    "windows", "compare", "picture", "solve", "to", "recursive", "format", "overwrite", "resume", "dry_run", "json",
    "quiet",
)  # fmt: skip


def help_asked(words: Sequence[str]) -> str | None:
    """What a line shows that asks for help; None where it names nothing that there is."""
    if words[0] in ("-h", "--help"):
        asked = [word for word in words[1:] if not word.startswith("-")]
        named = command_called(asked[0]) if asked else None
        return command_help(named) if named else root_help() if not asked else None
    command = command_called(words[0])
    return command_help(command, "--help-all" in words) if command else None


def root_help() -> str:
    """What `poolcli --help` shows."""
    pools = [(row.name, row.text) for row in COMMANDS if row.op]
    others = [(row.name, row.text) for row in COMMANDS if not row.op]
    options = (
        ("-h, --help", "This help; behind a command, the help of that command."),
        ("-V, --version", "The version."),
        ("--install-completion", "Let the shell complete words; or name one: bash, zsh, fish."),
        ("--show-completion", "The same, only shown; --show-completion zsh names the shell."),
    )
    examples = (
        "poolcli avg samples/astronaut.png -o half.png -k 2 -s 2",
        "poolcli max samples/features.npy -o y.npy -k 3 -s 2 -p 1 --indices where.npy",
        "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
    )
    return _page(
        ("", _wrapped("Pooling of tensors and images, exactly as OpenVINO's operators define it.")),
        ("Usage", ["poolcli COMMAND ... [options]"]),
        ("Pool files", _columns(pools)),
        ("Ask", _columns(others)),
        ("Options", _columns(options)),
        ("Examples", _commands(examples)),
        ("", _wrapped("poolcli help COMMAND explains a command, poolcli help --man everything.")),
        ("", _wrapped(EXIT_CODES)),
    )


def command_help(command: Command, everything: bool = False) -> str:
    """What `poolcli COMMAND --help` shows: what most people need, or everything."""
    taken = list(parameters(command))
    arguments = [each for each in taken if isinstance(each.row, Argument)]
    parts = [
        ("", _wrapped(command.text)),
        ("Usage", _wrapped(usage(command), indent=4)),
        ("", _columns([(each.row.metavar, each.text) for each in arguments])),
        *(_panels(taken) if everything else _first(taken)),
        ("Examples", _commands(command.examples)),
    ]
    if everything:
        parts.append(("Names of other frameworks", _columns(_foreign(taken))))
    elif any(_is_shown_later(each) for each in taken):
        parts.append(("", _wrapped(f"poolcli {command.name} --help-all shows the other options.")))
    return _page(*parts, ("", _wrapped(command.exit_codes)))


def usage(command: Command) -> str:
    """The line that names what is needed."""
    by_name = {each.name: each for each in parameters(command)}
    arguments = [each.row.metavar for each in by_name.values() if isinstance(each.row, Argument)]
    options = [
        f"{row.names[0]} {row.metavar}" for name in needed(command) if isinstance(row := by_name[name].row, Option)
    ]
    return " ".join(("poolcli", command.name, *arguments, *options, "[options]"))


def option_rows(taken: Iterable[Parameter]) -> list[tuple[str, str]]:
    """The options as they are typed, each with its help."""
    return [(_typed(each.row), each.text) for each in taken if isinstance(each.row, Option)]


def styled(text: str) -> str:
    """The help with headings that stand out where the terminal can do that."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    lines = text.split("\n")
    return "\n".join(f"\033[1m{line}\033[0m" if line[:1].isalpha() and line.endswith(":") else line for line in lines)


def _first(taken: Sequence[Parameter]) -> list[tuple[str, list[str]]]:
    by_name = {each.name: each for each in taken}
    shown = [by_name[name] for name in FIRST if name in by_name] or taken
    return [("Options", _columns([*option_rows(shown), HELP]))]


def _is_shown_later(each: Parameter) -> bool:
    return isinstance(each.row, Option) and each.name not in FIRST


def _panels(taken: Sequence[Parameter]) -> Iterator[tuple[str, list[str]]]:
    for panel, rows in PANELS.items():
        yield panel, _columns(option_rows(each for each in taken if each.name in rows))


def _foreign(taken: Sequence[Parameter]) -> Rows:
    """The options that frameworks call otherwise, and what they call them."""
    names = {each.name for each in taken}
    rows = [
        (each.row.names[-1], each.row.also.replace(" ", ", "))
        for each in taken
        if isinstance(each.row, Option) and each.row.also
    ]
    return [*rows, *((typed, flag) for flag, (name, typed) in SETTINGS.items() if name in names)]


def _typed(row: Option) -> str:
    flags = ", ".join((*row.names, row.turns_off) if row.turns_off else row.names)
    return f"{flags} {row.metavar}".rstrip()


def _page(*parts: tuple[str, Sequence[str]]) -> str:
    """The parts that hold anything, each under its heading, an empty line between them."""
    blocks = []
    for heading, lines in parts:
        if lines:
            indent = "  " if heading else ""
            blocks.append("\n".join(((f"{heading}:",) if heading else ()) + tuple(indent + line for line in lines)))
    return "\n\n".join(blocks)


def _columns(rows: Rows) -> list[str]:
    """What is explained and its explanation, side by side; one under the other where there is little room."""
    width = _width()
    beside = min(BESIDE, max((len(name) for name, _ in rows), default=0)) if width >= STACKED else 0
    lines: list[str] = []
    for name, text in rows:
        told = textwrap.wrap(text, width - 4 - (beside + 2 if beside else 2), break_on_hyphens=False)
        if beside and len(name) <= beside:
            lines.append(f"{name:{beside}}  {told[0] if told else ''}".rstrip())
            told = told[1:]
        else:
            lines.append(name)
        lines += [" " * (beside + 2 if beside else 4) + line for line in told]
    return lines


def _commands(lines: Iterable[str]) -> list[str]:
    """Lines to be typed, each as it is, or in several where there is little room, as a shell joins them again."""
    found = list[str]()
    for line in lines:
        whole = re.sub(r" (-\S+) (?=[^-])", " \\1\N{NO-BREAK SPACE}", line)  # an option and its value
        wrapped = textwrap.wrap(whole, _width() - 4, subsequent_indent="    ", break_on_hyphens=False)
        parts = [part.replace("\N{NO-BREAK SPACE}", " ") for part in wrapped]
        found += [*(f"{part} \\" for part in parts[:-1]), parts[-1]] if len(line) > _width() - 2 else [line]
    return found


def _wrapped(text: str, indent: int = 0) -> list[str]:
    return textwrap.wrap(
        text, _width() - 2, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )


def _width() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)
