"""What is wrong with a command line, and what to type instead: the one place where the table of synonyms is asked."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from poolcli.cli.operators import OPERATOR_HELP, adaptive, find_operator, parse_operator, sliding
from poolcli.cli.program import COMMANDS, PROGRAM_OPTIONS, Parameter, made, settings
from poolcli.cli.values import attribute_names, is_number_list
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import (
    COMMANDS_MEANT,
    FACTORS,
    OPPOSITES,
    REASONS,
    SETTINGS,
    WIDTH_FIRST,
    did_you_mean,
    join_words,
)

GLOBAL = "global"
OUTPUT, WINDOW = ("-o", "--output", "-n", "--dry-run"), ("-k", "--kernel", "--kernel-size", "--output-size")
OF_WINDOWS = (*WINDOW, "-s", "--strides", "-p", "--pads")  # which global pooling has no use for


def usage_error(error: Any, command: str) -> RequestError:
    """What Typer refuses of a command, in poolcli's words.

    Typer's exceptions are told apart by name: their module is not public.
    """
    if type(error).__name__ == "MissingParameter":
        missing = next(each for each in made(command).taken if each.name == error.param.name)
        return RequestError(f"{command} needs {field(missing.name)}, for example {missing.setting}")
    return RequestError(error.format_message())


def no_option(command: str, word: str, words: Sequence[str]) -> RequestError:
    """The refusal of an option that the command does not have: what does the same, or whose option it is.

    `words` are all that stand behind the command.
    """
    taken, name = made(command).taken, word.partition("=")[0]
    own = {flag for each in taken for flag in each.names} | {*settings(taken)}
    plain = _plain(name)
    if word[1:].replace(",", "").replace(".", "").isdigit():
        return _negative_number(command, word, taken)
    meant = _meant(command, plain, _typed_for(name, words), words)
    positive = plain.removeprefix("no-")
    if meant or plain in REASONS:
        end = f"; write {meant}" if meant else f"; {REASONS[plain]}"
    elif ":" in name and name.partition(":")[0] in own:
        end = f"; write {name.replace(':', ' ', 1)}"
    elif others := [other for other in COMMANDS if other != command and _takes(other, name)]:
        return _of_others(command, name, others)
    elif positive != plain and f"--{positive}" in own:
        end = f"; leave --{positive} out"
    elif len(name) == 2 and name.swapcase() in own:
        end = f"; did you mean {name.swapcase()}?"
    else:
        end = _placed(command, plain, taken, words) or did_you_mean(name if len(name) > 2 else word, _alike(name, own))
    return RequestError(f"{command} has no option {name}{end or f'; poolcli {command} --help-all shows all'}")


def no_value(command: str, flag: str, found: str, words: Sequence[str]) -> RequestError:
    """The refusal of a value behind a flag: -q 90 is the quality of an image elsewhere."""
    lossy = command in OPERATOR_HELP and any(word.lower().endswith((".jpg", ".jpeg", ".webp")) for word in words)
    meant = f"--quality {found}" if flag == "-q" and lossy else f"{flag} alone"
    return RequestError(f"{flag} takes no value (found {found}); write {meant}")


def no_command(words: Sequence[str]) -> RequestError:
    """The refusal of a first word that is no command: the nearest one, or the command line that was meant."""
    word, *rest = words
    known = COMMANDS_MEANT.get(_plain(word))
    named = next((each for each in rest if each in COMMANDS), "avg")
    others = [each for each in words if each not in (named, "--json")]
    if word.startswith("-") and named in rest:
        return RequestError(f"the command comes first; write {_completed(named, others)}")
    if word.startswith("-"):
        meant = "; did you mean -V?" if word == "-v" else did_you_mean(word, PROGRAM_OPTIONS)
        meant = meant or "; options follow a command, as in poolcli avg x.npy -o y.npy -k 2"
        return RequestError(f"poolcli has no option {word.partition('=')[0]} of its own{meant}")
    if os.path.lexists(word) or word.lower().endswith(_suffixes("reads")):
        return RequestError(f"{word} is not a command; write {_completed(named, others)}")
    if is_number_list(word):
        return RequestError(f"{word} is not a command; for a shape write {_completed('shape', ['avg', *words])}")
    if word.lower().startswith(GLOBAL):
        return RequestError(
            f"there is no command {word}; write {_completed(adaptive(word), _without(rest, *OF_WINDOWS))}"
        )
    if known:
        return RequestError(f"there is no command {word}; write {_filled_line(known, rest)}")
    end = did_you_mean(word, [*COMMANDS, "help"]) or f"; there are {join_words(COMMANDS, 'and')}"
    return RequestError(f"there is no command {word}{end}")


def refuse_misplaced(command: str, placed: Sequence[str], left: Sequence[str], words: Sequence[str]) -> None:
    """Refuses words at the places of others, and words that nothing is `left` to take; `words` are all of the line."""
    if command == "shape" and placed:
        _refuse_no_operator(placed[0], words)
    if not left:
        return
    before = words[words.index(left[0]) - 1]
    if before.startswith("--"):
        raise no_value(command, before, left[0], words)
    if command == "shape":
        _refuse_lengths_apart(placed, left, words)
    more = f"{command}: unexpected argument {left[0]}"
    if _takes(command, "--also") and len(left) == 2:
        raise RequestError(f"{more}; another input and output are given as {field('also')} {shlex.join(left)}")
    takes = command != "shape" and _takes(command, "--output")  # there it writes a model
    if takes and not os.path.lexists(left[0]) and {"-o", "--output"}.isdisjoint(words):
        raise RequestError(f"{more}; if it is the output, write {field('output', left[0])}")
    raise RequestError(f"{more}; poolcli {command} --help shows what it takes")


def _refuse_no_operator(first: str, words: Sequence[str]) -> None:
    """Refuses a first word of `shape` that is no operator."""
    rest = [word for word in words if word != first]
    if first.lower().startswith(GLOBAL):
        line = _completed("shape", [adaptive(first), *_without(rest, *OF_WINDOWS)])
        raise RequestError(f"there is no operator {first}; write {line}")
    if not find_operator(first) and (is_number_list(first) or os.path.lexists(first)):
        op = next((word for word in rest if find_operator(word)), "avg")
        line = shlex.join([op, first, *(word for word in rest if word != op)])
        raise RequestError(f"the operator comes before the shape; write poolcli shape {line}")
    parse_operator(first)


def _refuse_lengths_apart(placed: Sequence[str], left: Sequence[str], words: Sequence[str]) -> None:
    """Refuses a shape in several words, and a number behind it that has no option."""
    lengths = [word.strip(",") for word in (*placed[1:], *left)]
    if not all(word.isdecimal() for word in left) or not all(map(is_number_list, lengths)):
        return
    others = [word for word in words if word not in (*placed, *left)]
    option = "--output-size" if "output_size" in attribute_names(parse_operator(placed[0])) else "--kernel"
    if "," in lengths[0] and len(left) == 1 and {option, option[1:3]}.isdisjoint(others):
        line = shlex.join([*placed, option, left[0], *others])
        raise RequestError(f"{left[0]} is a value without its option; write poolcli shape {line}")
    line = shlex.join([placed[0], ",".join(lengths), *others])
    raise RequestError(f"a shape is one comma-separated argument; write poolcli shape {line}")


def _meant(command: str, plain: str, typed: str | None, words: Sequence[str]) -> str:
    """The setting that people mean by an option, with the value that they typed; empty where none is known."""
    templates = SETTINGS.get(plain, ())
    size = re.fullmatch(r"(\d+)[xX](\d+)", typed or "")
    if size and plain in WIDTH_FIRST:
        templates, typed = SETTINGS["target-size"], f"{size[2]},{size[1]}"
    if plain in FACTORS and typed and re.fullmatch(r"0?\.\d*[1-9]\d*", typed):
        typed = str(max(2, round(1 / float(typed))))
    for template in templates:
        other, _, setting = template.removeprefix("@").partition(" ")
        takes_size = _takes(command, "--output-size")
        if other != template.split()[0] and command in OPERATOR_HELP and takes_size != other.startswith("adaptive"):
            rest = shlex.join(_without(words, plain, *OF_WINDOWS))
            pools = adaptive(command) if other.startswith("adaptive") else sliding(command)
            return f"poolcli {pools} {rest} {_filled(setting, typed)}"
        options = [word for word in template.split() if word.startswith("--")]
        if options and all(_takes(command, each) for each in options):
            return _filled(template, typed if _reads(command, options[0], typed) else None)
    return ""


def _reads(command: str, flag: str, typed: str | None) -> bool:
    """Whether an option takes what was typed."""
    try:
        return typed is None or bool(next(each for each in made(command).taken if flag in each.names).read(typed))
    except RequestError:
        return False


def _filled(template: str, typed: str | None) -> str:
    """The template with what was typed in the place of its examples, where that is a value of the same kind."""

    def value(found: re.Match[str]) -> str:
        is_kind = is_number_list if is_number_list(found[1]) else _is_number
        return found[1] if typed is None or is_kind(found[1]) != is_kind(typed) else shlex.quote(typed)

    return re.sub(r"\{(.*?)\}", value, template)


def _is_number(text: str) -> bool:
    return is_number_list(text) or bool(re.fullmatch(r"[-+]?([\d.]+(e[-+]?\d+)?|nan|inf)", text))


def _typed_for(name: str, words: Sequence[str]) -> str | None:
    """The value that was typed for an option which is not known: behind = or as the next word."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            is_value = following and (not following.startswith("-") or _is_number(following))
            return following if is_value and not os.path.lexists(following) else None
    return None


def _without(words: Sequence[str], *flags: str) -> list[str]:
    """The words without these options, in whatever spelling, and without their values."""
    gone, rest, skip = {_plain(flag) for flag in flags}, list[str](), False
    for word in words:
        name, sign, _ = word.partition("=")
        joined = word[:2] in flags and word[1:2].isalpha()  # -k2
        if word.startswith("-") and _plain(name) in gone:
            skip = not sign
        elif not joined and not (skip and not word.startswith("-")):
            rest.append(word)
            skip = False
        else:
            skip = False
    return rest


def _plain(word: str) -> str:
    return word.strip("-").lower().replace("_", "-")


def _negative_number(command: str, word: str, taken: Sequence[Parameter]) -> RequestError:
    if command == "shape":
        return RequestError(f"{word}: dimensions cannot be negative; for a dynamic axis use any positive number")
    valued = next((each for each in taken if each.flags and not each.is_flag), None)
    example = f", as in {valued.flags[-1]}={word}" if valued else ""
    return RequestError(f"{command} has no option {word}; a value that begins with - follows its option{example}")


def _takes(command: str, name: str) -> bool:
    taken = made(command).taken
    return name in settings(taken) or any(name in each.names for each in taken)


def _of_others(command: str, name: str, others: Sequence[str]) -> RequestError:
    others = [each for each in others if each in OPERATOR_HELP] or others
    own = next((each for each in ("--kernel", "--output-size") if _takes(command, each)), "")
    is_window = name in ("-k", "--kernel", "--output-size") and command in OPERATOR_HELP
    instead = f"{command} uses {own}" if is_window and own else "leave it out"
    return RequestError(f"{command} has no {name}, which is an option of {join_words(others, 'and')}; {instead}")


def _placed(command: str, plain: str, taken: Sequence[Parameter], words: Sequence[str]) -> str:
    """The end of the refusal of an option that is an argument here, or one of the words of an argument."""
    for each in taken:
        if not each.flags and plain in each.words:
            return f"; write poolcli {command} {plain}"
        if not each.flags and len(plain) > 1 and plain in (each.name, each.name.rstrip("s"), each.metavar.lower()):
            rest = [word for word in words if _plain(word) != plain]
            line = shlex.join(rest) if len(rest) < len(words) and rest else each.setting
            return f"; {each.metavar} is a positional argument: poolcli {command} {line}"
    return ""


def _alike(name: str, own: Collection[str]) -> list[str]:
    """The options that may be meant by one that is spelt alike: none that says the opposite of a part of it."""
    parts = set(_plain(name).split("-"))
    against = {b for pair in OPPOSITES for a, b in (pair, pair[::-1]) if a in parts and b not in parts}
    return [flag for flag in own if len(flag) > 2 and against.isdisjoint(flag.strip("-").split("-"))]


def _filled_line(template: str, rest: Sequence[str]) -> str:
    """The line of a template with what was typed in the places of its names; they stay where there is nothing."""
    files = [word for word in rest if os.path.lexists(word)]
    found, shapes = iter(files), (word for word in rest if word in files or is_number_list(word))
    typed = {"OP": next((op for op in map(find_operator, rest) if op), "avg"), "SHAPE": next(shapes, "SHAPE")}
    command, *words = (
        next(found, word) if word in ("INPUT", "MODEL", "FOLDER") else typed.get(word, word)
        for word in template.split()
    )
    outputs = [word for word in rest if word not in files and word.lower().endswith(_suffixes("writes"))]
    output = rest[rest.index("-o") + 1] if "-o" in rest[:-1] else next(iter(outputs), "")
    return _completed(command, [*words, "-o", output] if output and command in OPERATOR_HELP else words)


def _completed(command: str, words: Sequence[str]) -> str:
    """The line of a command that pools, with an output and a window where they are missing; any other as it is."""
    line = [command, *words]
    names = {word.partition("=")[0] if word[:2] == "--" else word[:2] for word in words}
    if command in OPERATOR_HELP and names.isdisjoint(OUTPUT):
        able = _suffixes("writes")
        suffix = next((suffix for word in words if (suffix := Path(word).suffix.lower()) in able), "")
        line += ["-o", f"pooled{suffix}" if suffix else "OUTPUT"]
    op = next((word for word in line[:2] if word in OPERATOR_HELP), "")
    if op and names.isdisjoint(WINDOW):
        line += ["--output-size", "1"] if op.startswith("adaptive") else ["-k", "2"]
    return f"poolcli {shlex.join(line)}"


def _suffixes(able: str) -> tuple[str, ...]:
    """The suffixes of the formats that poolcli reads, or writes."""
    from poolcli.formats.table import suffixes_of  # formats take longer to load than a line without a mistake to read

    return suffixes_of(lambda row: bool(getattr(row, able)))
