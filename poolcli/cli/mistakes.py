"""Messages about mistakes on the command line: what is wrong, and what to type instead.

`poolcli/suggestions.py` has the tables of names that people and other programs use.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from poolcli.cli.operators import OPERATOR_HELP, adaptive, find_operator, parse_operator, sliding
from poolcli.cli.options import attribute_names, is_number_list
from poolcli.cli.program import COMMANDS, PROGRAM_OPTIONS, Parameter, foreign_flags, load_command
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import (
    COMMAND_SYNONYMS,
    FACTORS,
    OPPOSITES,
    REASONS,
    SETTINGS,
    WIDTH_FIRST,
    did_you_mean,
    join_words,
)

OUTPUT_FLAGS = ("-o", "--output", "-n", "--dry-run")
SIZE_FLAGS = ("-k", "--kernel", "--kernel-size", "--output-size")
OPERATOR_OPTIONS = ("op", *(name for name, templates in SETTINGS.items() if templates == ("--op {avg}",)))
WINDOW_FLAGS = (*SIZE_FLAGS, "-s", "--strides", "-p", "--pads")


def usage_error(error: Any, command: str) -> RequestError:
    """The error of Typer as a RequestError."""
    if type(error).__name__ == "MissingParameter":  # by name, because no public module of Typer has the class
        missing = next(each for each in load_command(command).parameters if each.name == error.param.name)
        return RequestError(f"{command} needs {field(missing.name)}, for example {missing.usage}")
    return RequestError(error.format_message())


def unknown_option(command: str, word: str, words: Sequence[str]) -> RequestError:
    """The refusal of an option that the command does not have, with a remedy; `words` are all of its arguments."""
    parameters, name = load_command(command).parameters, word.partition("=")[0]
    if os.path.lexists(word):
        return RequestError(f"{command} has no option {word}; the file of that name is typed as ./{word}")
    own = {flag for each in parameters for flag in each.names} | {*foreign_flags(parameters)}
    plain = _plain(name)
    if word[1:].replace(",", "").replace(".", "").isdigit():
        return _negative_number(command, word, parameters)
    typed = _value_of(name, words)
    meant = _find_setting(command, plain, typed, words)
    if command in OPERATOR_HELP and plain in OPERATOR_OPTIONS and (operator := find_operator(typed or "")):
        meant = f"poolcli {operator} {shlex.join(_without_options(words, plain))}"
    positive = plain.removeprefix("no-")
    if meant or plain in REASONS:
        end = f"; write {meant}" if meant else f"; {REASONS[plain]}"
    elif ":" in name and name.partition(":")[0] in own:
        end = f"; write {name.replace(':', ' ', 1)}"
    elif others := [other for other in COMMANDS if other != command and _has_option(other, _dashed(name))]:
        return _option_of_others(command, _dashed(name), others)
    elif positive != plain and f"--{positive}" in own:
        end = f"; leave --{positive} out"
    elif len(name) == 2 and name.swapcase() in own:
        end = f"; did you mean {name.swapcase()}?"
    else:
        end = _positional_hint(command, plain, parameters, words)
        end = end or did_you_mean(name if len(name) > 2 else word, _candidates(name, own))
    return RequestError(f"{command} has no option {name}{end or f'; poolcli {command} --help-all shows all'}")


def unexpected_value(command: str, flag: str, found: str, words: Sequence[str]) -> RequestError:
    """The refusal of a value behind a flag; other programs write -q 90 for the quality of an image."""
    lossy = command in OPERATOR_HELP and any(word.lower().endswith((".jpg", ".jpeg", ".webp")) for word in words)
    meant = f"--quality {found}" if flag == "-q" and lossy else f"{flag} alone"
    return RequestError(f"{flag} takes no value (found {found}); write {meant}")


def unknown_command(words: Sequence[str]) -> RequestError:
    """The refusal of a first word that is not a command, with the command line that is probably meant."""
    word, *rest = words
    known = COMMAND_SYNONYMS.get(_plain(word))
    named = next((each for each in rest if each in COMMANDS), "avg")
    others = [each for each in words if each not in (named, "--json")]
    if word.startswith("-") and named in rest:
        return RequestError(f"the command comes first; write {_complete_command(named, others)}")
    if word.startswith("-"):
        meant = "; did you mean -V?" if word == "-v" else did_you_mean(word, PROGRAM_OPTIONS)
        meant = meant or "; options follow a command, as in poolcli avg x.npy -o y.npy -k 2"
        return RequestError(f"poolcli has no option {word.partition('=')[0]} of its own{meant}")
    if os.path.lexists(word) or word.lower().endswith(_suffixes()):
        return RequestError(f"{word} is not a command; write {_complete_command(named, others)}")
    if is_number_list(word):
        return RequestError(f"{word} is not a command; for a shape write {_complete_command('shape', ['avg', *words])}")
    if word.lower().startswith("global"):
        line = _complete_command(adaptive(word), _without_options(rest, *WINDOW_FLAGS))
        return RequestError(f"there is no command {word}; write {line}")
    if known:
        return RequestError(f"there is no command {word}; write {_fill_command(known, rest)}")
    end = did_you_mean(word, [*COMMANDS, "help"]) or f"; there are {join_words(COMMANDS, 'and')}"
    return RequestError(f"there is no command {word}{end}")


def extra_argument(command: str, words: Sequence[str], places: Sequence[int], takes: int) -> RequestError:
    """The refusal of arguments beyond those that a command `takes`; `places` are in `words`, of all positional ones."""
    filled, extra = ([words[i] for i in part] for part in (places[:takes], places[takes:]))
    before = words[places[takes] - 1]
    if before.startswith("--") and before != "--":
        return unexpected_value(command, before, extra[0], words)
    if command == "shape":
        _refuse_split_shape(filled, extra, [word for i, word in enumerate(words) if i not in places])
    more = f"{command}: unexpected argument {extra[0]}"
    if _has_option(command, "--also") and len(extra) == 2:
        return RequestError(f"{more}; another input and output are given as {field('also')} {shlex.join(extra)}")
    pools = command != "shape" and _has_option(command, "--output")  # the output of `shape` is a model
    if pools and not os.path.lexists(extra[0]) and {"-o", "--output"}.isdisjoint(words):
        return RequestError(f"{more}; if it is the output, write {field('output', extra[0])}")
    return RequestError(f"{more}; poolcli {command} --help shows what it takes")


def refuse_no_operator(first: str, words: Sequence[str]) -> None:
    """Refuses a first argument of `shape` that is not an operator."""
    at = words.index(first)
    rest = [*words[:at], *words[at + 1 :]]
    if first.lower().startswith("global"):
        line = _complete_command("shape", [adaptive(first), *_without_options(rest, *WINDOW_FLAGS)])
        raise RequestError(f"there is no operator {first}; write {line}")
    if not find_operator(first) and (is_number_list(first) or os.path.lexists(first)):
        op = next(filter(find_operator, rest), "avg")
        if op in rest:
            rest.remove(op)
        line = shlex.join([op, first, *rest])
        raise RequestError(f"the operator comes before the shape; write poolcli shape {line}")
    parse_operator(first)


def _refuse_split_shape(filled: Sequence[str], extra: Sequence[str], others: Sequence[str]) -> None:
    """Refuses a shape in several words, and a number behind a shape that has no option; `others` are the options."""
    lengths = [word.strip(",") for word in (*filled[1:], *extra)]
    if not all(word.isdecimal() for word in extra) or not all(map(is_number_list, lengths)):
        return
    option = "--output-size" if "output_size" in attribute_names(parse_operator(filled[0])) else "--kernel"
    if "," in lengths[0] and len(extra) == 1 and {option, option[1:3]}.isdisjoint(others):
        line = shlex.join([*filled, option, extra[0], *others])
        raise RequestError(f"{extra[0]} is a value without its option; write poolcli shape {line}")
    line = shlex.join([filled[0], ",".join(lengths), *others])
    raise RequestError(f"a shape is one comma-separated argument; write poolcli shape {line}")


def _find_setting(command: str, plain: str, typed: str | None, words: Sequence[str]) -> str:
    """The options that an unknown option stands for, with the value that was typed; empty if it is not in the table."""
    templates = SETTINGS.get(plain, ())
    size = re.fullmatch(r"(\d+)[xX](\d+)", typed or "")
    if size and plain in WIDTH_FIRST:
        templates, typed = SETTINGS["target-size"], f"{size[2]},{size[1]}"
    if plain in FACTORS and typed and re.fullmatch(r"0?\.\d*[1-9]\d*", typed):
        typed = str(max(2, round(1 / float(typed))))
    for template in templates:
        other, _, setting = template.removeprefix("@").partition(" ")
        takes_size = _has_option(command, "--output-size")
        if other != template.split()[0] and command in OPERATOR_HELP and takes_size != other.startswith("adaptive"):
            rest = shlex.join(_without_options(words, plain, *WINDOW_FLAGS))
            pools = adaptive(command) if other.startswith("adaptive") else sliding(command)
            return f"poolcli {pools} {rest} {_fill_setting(setting, typed)}"
        options = [word for word in template.split() if word.startswith("--")]
        if options and all(_has_option(command, each) for each in options):
            return _fill_setting(template, typed if _accepts(command, options[0], typed) else None)
    return ""


def _accepts(command: str, flag: str, typed: str | None) -> bool:
    """Whether an option accepts the value that was typed, if one was."""
    option = next(each for each in load_command(command).parameters if flag in each.names)
    try:
        return typed is None or bool(option.parse(typed))
    except RequestError:
        return False


def _fill_setting(template: str, typed: str | None) -> str:
    """The template with the value that was typed in place of its examples {2}, if it is a value of the same kind."""

    def value(found: re.Match[str]) -> str:
        is_kind = is_number_list if is_number_list(found[1]) else _is_number
        return found[1] if typed is None or is_kind(found[1]) != is_kind(typed) else shlex.quote(typed)

    return re.sub(r"\{(.*?)\}", value, template)


def _is_number(text: str) -> bool:
    return is_number_list(text) or bool(re.fullmatch(r"[-+]?([\d.]+(e[-+]?\d+)?|nan|inf)", text))


def _value_of(name: str, words: Sequence[str]) -> str | None:
    """The value of an unknown option: behind = or as the next word."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            is_value = following and (not following.startswith("-") or _is_number(following))
            return following if is_value and not os.path.lexists(following) else None
    return None


def _without_options(words: Sequence[str], *flags: str) -> list[str]:
    """The words without some options, in any spelling, and without their values."""
    plain, rest, value_follows = {_plain(flag) for flag in flags}, list[str](), False
    for word in words:
        name, equals, _ = word.partition("=")
        is_option, is_joined = word.startswith("-"), word[:2] in flags and word[1:2].isalpha()  # -k2
        if is_option and _plain(name) in plain:
            value_follows = not equals
            continue
        if not is_joined and not (value_follows and not is_option):
            rest.append(word)
        value_follows = False
    return rest


def _plain(word: str) -> str:
    return word.strip("-").lower().replace("_", "-")


def _dashed(flag: str) -> str:
    return flag if len(flag) == 2 else f"--{_plain(flag)}"


def _negative_number(command: str, word: str, parameters: Sequence[Parameter]) -> RequestError:
    if command == "shape":
        return RequestError(f"{word}: dimensions cannot be negative; for a dynamic axis use any positive number")
    valued = next((each for each in parameters if each.flags and not each.is_flag), None)
    example = f", as in {valued.flags[-1]}={word}" if valued else ""
    return RequestError(f"{command} has no option {word}; a value that begins with - follows its option{example}")


def _has_option(command: str, name: str) -> bool:
    parameters = load_command(command).parameters
    return name in foreign_flags(parameters) or any(name in each.names for each in parameters)


def _option_of_others(command: str, name: str, others: Sequence[str]) -> RequestError:
    others = [each for each in others if each in OPERATOR_HELP] or others
    own = next((each for each in ("--kernel", "--output-size") if _has_option(command, each)), "")
    is_window = name in ("-k", "--kernel", "--output-size", "--output-shape") and command in OPERATOR_HELP
    instead = f"{command} uses {own}" if is_window and own else "leave it out"
    return RequestError(f"{command} has no {name}, which is an option of {join_words(others, 'and')}; {instead}")


def _positional_hint(command: str, plain: str, parameters: Sequence[Parameter], words: Sequence[str]) -> str:
    """The remedy for an option that is a positional argument of the command, or one of its choices."""
    for each in parameters:
        if not each.flags and plain in each.choices:
            return f"; write poolcli {command} {plain}"
        if not each.flags and len(plain) > 1 and plain in (each.name, each.name.rstrip("s"), each.metavar.lower()):
            rest = [word for word in words if _plain(word) != plain]
            line = shlex.join(rest) if len(rest) < len(words) and rest else each.usage
            return f"; {each.metavar} is a positional argument: poolcli {command} {line}"
    return ""


def _candidates(name: str, own: Collection[str]) -> list[str]:
    """The options that a misspelt one may stand for, without those that say the opposite of a part of its name."""
    parts = set(_plain(name).split("-"))
    against = {b for pair in OPPOSITES for a, b in (pair, pair[::-1]) if a in parts and b not in parts}
    return [flag for flag in own if len(flag) > 2 and against.isdisjoint(flag.strip("-").split("-"))]


def _fill_command(template: str, rest: Sequence[str]) -> str:
    """The command line of a template, with typed words in place of INPUT, SHAPE and so on as far as there are any."""
    files = [word for word in rest if os.path.lexists(word)]
    found, shapes = iter(files), (word for word in rest if word in files or is_number_list(word))
    typed = {"OP": next((op for op in map(find_operator, rest) if op), "avg"), "SHAPE": next(shapes, "SHAPE")}
    command, *words = (
        next(found, word) if word in ("INPUT", "MODEL", "FOLDER") else typed.get(word, word)
        for word in template.split()
    )
    outputs = [word for word in rest if word not in files and word.lower().endswith(_suffixes(written=True))]
    output = rest[rest.index("-o") + 1] if "-o" in rest[:-1] else next(iter(outputs), "")
    return _complete_command(command, [*words, "-o", output] if output and command in OPERATOR_HELP else words)


def _complete_command(command: str, words: Sequence[str]) -> str:
    """The command line, with an output and a window if the command pools and they are missing."""
    line = [command, *words]
    names = {word.partition("=")[0] if word[:2] == "--" else word[:2] for word in words}
    if command in OPERATOR_HELP and names.isdisjoint(OUTPUT_FLAGS):
        able = _suffixes(written=True)
        suffix = next((suffix for word in words if (suffix := Path(word).suffix.lower()) in able), "")
        line += ["-o", f"pooled{suffix}" if suffix else "OUTPUT"]
    op = next((word for word in line[:2] if word in OPERATOR_HELP), "")
    if op and names.isdisjoint(SIZE_FLAGS):
        line += ["--output-size", "1"] if op.startswith("adaptive") else ["-k", "2"]
    return f"poolcli {shlex.join(line)}"


def _suffixes(written: bool = False) -> tuple[str, ...]:
    """The extensions of all formats, or of those that are written."""
    from poolcli.formats.table import suffixes_of  # slow to import

    return suffixes_of(lambda row: row.writes or not written)
