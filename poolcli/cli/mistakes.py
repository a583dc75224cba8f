"""Words that nothing answers to: what to type instead, out of all that exists."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from poolcli.arguments import one_of
from poolcli.cli.operators import OPERATOR_WORDS, adaptive, operator_called, operator_named
from poolcli.cli.program import COMMANDS, Parameter, made, settings
from poolcli.cli.synonyms import COMMANDS_MEANT, OPPOSITES, REASONS, WIDTH_FIRST
from poolcli.cli.synonyms import SETTINGS as MEANT
from poolcli.cli.values import is_number_list
from poolcli.dtypes import dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.suggestions import did_you_mean, listed

OF_THE_PROGRAM = ("--help", "--version", "--install-completion", "--show-completion")
GLOBAL = "global"


def usage_error(error: Any, name: str, words: Sequence[str]) -> RequestError:
    """What Typer refuses of command `name`, in poolcli's words.

    Typer's exceptions are told apart by name: their module is not public.
    """
    kind = type(error).__name__
    if name not in COMMANDS:
        return no_command(words)
    if kind == "NoSuchOption":
        return no_option(name, error.option_name, words)
    if kind == "MissingParameter":
        taken = {each.name: each for each in made(name).taken}
        missing = taken[error.param.name]
        return RequestError(f"{name} needs {field(missing.name)}, for example {missing.setting}")
    return RequestError(f"{error.format_message()}; poolcli {name} --help shows how it is used")


def no_option(command: str, word: str, words: Sequence[str] = ()) -> RequestError:
    """The refusal of an option that the command does not have: what does the same, or whose option it is."""
    taken = made(command).taken
    name = word.partition("=")[0]
    plain = name.strip("-").lower().replace("_", "-")
    if word[1:].replace(",", "").replace(".", "").isdigit():
        return _number(command, word, taken)
    typed = _typed_for(name, words)
    own = {flag for each in taken for flag in each.names} | {*settings(taken)}
    meant = _meant(plain, own, typed, command, words)
    if meant:
        return RequestError(f"{command} has no option {name}; write {meant}")
    if plain in REASONS:
        return RequestError(f"{command} has no option {name}; {REASONS[plain]}")
    if name.partition(":")[0] in own and ":" in name:
        return RequestError(f"{command} has no option {name}; write {name.replace(':', ' ', 1)}")
    others = [other for other in COMMANDS if other != command and _takes(other, name)]
    if others:
        return _of_others(command, name, others)
    end = _opposite(plain, own) or _placed(command, plain, taken, words) or _other_case(name, own)
    end = end or did_you_mean(name if len(name) > 2 else word, _alike(name, own))
    return RequestError(f"{command} has no option {name}{end or f'; poolcli {command} --help-all shows all'}")


def no_command(words: Sequence[str]) -> RequestError:
    """The refusal of a first word that is no command: the nearest one, or the command line that was meant."""
    word, rest = words[0], words[1:]
    if word in ("-h", "--help"):
        return RequestError(f"there is no command {rest[0]}{_like(rest[0], rest[1:])}")
    if word.startswith("-"):
        return _before_the_command(word, words)
    if os.path.lexists(word) or word.lower().endswith(_suffixes("reads")):
        named = next((each for each in rest if each in COMMANDS), None)
        others = [each for each in words if each not in (named, "--json")]
        line = _behind(named or "avg", others)
        return RequestError(f"{word} is no command, it comes behind one: poolcli {line}")
    if is_number_list(word):
        window = () if any(each[:2] == "-k" or each.startswith("--") for each in rest) else ("-k", "2")
        return RequestError(
            f"{word} is no command; for a shape write poolcli shape avg {shlex.join((*words, *window))}"
        )
    if word.lower().startswith(GLOBAL):
        return RequestError(f"there is no command {word}; write {global_line(word, rest)}")
    return RequestError(f"there is no command {word}{_like(word, rest)}")


def global_line(word: str, rest: Sequence[str], command: str = "") -> str:
    """The command line that pools globally: the operator of `word`, and the words behind it without their windows."""
    rest = _without(rest, "-k", "--kernel", "-s", "--strides", "-p", "--pads", "--output-size")
    rest = rest if command else _with_output(rest)
    return shlex.join(["poolcli", *([command] if command else []), adaptive(word), *rest, "--output-size", "1"])


def refuse_misplaced(command: str, placed: Sequence[str], left: Sequence[str], words: Sequence[str]) -> None:
    """Refuses words at the places of others, and words that nothing is `left` to take; `words` are all of the line."""
    if command == "shape" and placed and is_number_list(placed[0]):
        op = next((word for word in (*placed, *left) if operator_named(word)), "avg")
        rest = [word for word in words if word not in (op, placed[0])]
        raise RequestError(f"the operator comes before the shape: poolcli shape {shlex.join([op, placed[0], *rest])}")
    if command == "shape" and placed and placed[0].lower().startswith(GLOBAL):
        rest = [word for word in words if word != placed[0]]
        raise RequestError(f"there is no operator {placed[0]}; write {global_line(placed[0], rest, 'shape')}")
    if command == "shape" and placed and os.path.lexists(placed[0]):
        op = next((word for word in words if operator_named(word)), "avg")
        rest = [word for word in words if word not in (op, placed[0])]
        line = shlex.join([op, placed[0], *rest])
        raise RequestError(f"{placed[0]} is no operator, which comes before it: poolcli shape {line}")
    if command == "shape" and placed:
        operator_called(placed[0])
    before = words[words.index(left[0]) - 1] if left else ""
    if before.startswith("--"):
        raise RequestError(f"{before} takes no value, found {left[0]}; write {before} alone")
    lengths = [word.strip(",") for word in (*placed[1:], *left)]
    if command == "shape" and left and all(word.isdecimal() for word in left) and all(map(is_number_list, lengths)):
        others = [word for word in words if word not in (*placed, *left)]
        option = "--output-size" if operator_called(placed[0]).startswith("adaptive") else "--kernel"
        if "," in lengths[0] and len(left) == 1 and {option, option[1:3]}.isdisjoint(others):
            line = shlex.join([*placed, option, left[0], *others])
            raise RequestError(f"{left[0]} is a value without its option; write poolcli shape {line}")
        line = shlex.join([placed[0], ",".join(lengths), *others])
        raise RequestError(f"a shape is one word: poolcli shape {line}")
    if left:
        more = f"{command}: unexpected argument {left[0]}"
        if _takes(command, "--output") and not os.path.lexists(left[0]) and {"-o", "--output"}.isdisjoint(words):
            raise RequestError(f"{more}; if it is the output, write {field('output', shlex.quote(left[0]))}")
        raise RequestError(f"{more}; poolcli {command} --help shows what it takes")


def unread_number(flag: str, number: str, taken: Sequence[Parameter], words: Sequence[str]) -> RequestError:
    """The refusal of a number behind an option that takes none: -q 90 is the quality of an image elsewhere."""
    lossy = any(word.lower().endswith((".jpg", ".jpeg", ".webp")) for word in words)
    meant = flag == "-q" and lossy and any("--quality" in each.flags for each in taken)
    return RequestError(
        f"{flag} takes no value, found {number}; write {f'--quality {number}' if meant else f'{flag} alone'}"
    )


def _meant(plain: str, own: Collection[str], typed: str | None, command: str, words: Sequence[str]) -> str:
    """The setting that people mean by an option, with the value that they typed; empty where none is known."""
    templates = MEANT.get(plain, ())
    size = re.fullmatch(r"(\d+)[xX](\d+)", typed or "")
    if size and plain in WIDTH_FIRST:
        templates, typed = MEANT["target-size"], f"{size[2]},{size[1]}"
    for template in templates:
        if template.startswith("@"):
            if command in OPERATOR_WORDS and not command.startswith("adaptive"):
                rest = _without(words[1:], plain, "-k", "--kernel", "-s", "--strides", "-p", "--pads")
                line = shlex.join([adaptive(command), *rest])
                return f"poolcli {line} {_filled(template.partition(' ')[2], typed)}"
        elif {word for word in template.split() if word.startswith("--")} <= {*own}:
            return _filled(template, typed if _is_word(template.split()[0], typed, command) else None)
    return ""


def _is_word(flag: str, typed: str | None, command: str) -> bool:
    """Whether what was typed is one of the words of an option, or the option takes any value."""
    words = next((each.words for each in made(command).taken if flag in each.names), ())
    try:
        return not words or typed is None or bool(one_of("", dtype_from_alias(typed) or typed, words))
    except RequestError:
        return False


def _filled(template: str, typed: str | None) -> str:
    """The template with what was typed in the place of its examples, where that is a value of the same kind."""

    def value(found: re.Match[str]) -> str:
        example = found[1]
        if typed is None or _is_number(example) != _is_number(typed):
            return example
        return shlex.quote(typed)

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
    """The words without these options, in whatever spelling, and their values."""
    gone, kept, skip = {flag.lstrip("-") for flag in flags}, list[str](), False
    for word in words:
        name, sign, _ = word.partition("=")
        if word.startswith("-") and name.lstrip("-").lower().replace("_", "-") in gone:
            skip = not sign
        elif not (word[:2] in flags and word[1:2].isalpha()) and not (skip and not word.startswith("-")):
            kept.append(word)
            skip = False
        else:
            skip = False
    return kept


def _number(command: str, word: str, taken: Sequence[Parameter]) -> RequestError:
    if command == "shape":
        return RequestError(f"{word}: a dimension is 0 or more; for a dynamic axis use any positive number")
    valued = next((each for each in taken if each.flags and not each.is_flag), None)
    example = f", as in {valued.flags[-1]}={word}" if valued else ""
    return RequestError(f"{command} has no option {word}; a value that begins with - follows its option{example}")


def _takes(command: str, name: str) -> bool:
    taken = made(command).taken
    return name in settings(taken) or any(name in each.names for each in taken)


def _of_others(command: str, name: str, others: Sequence[str]) -> RequestError:
    others = [each for each in others if each in OPERATOR_WORDS] or others
    own = next((each for each in ("--kernel", "--output-size") if _takes(command, each)), "")
    is_window = name in ("-k", "--kernel", "--output-size") and command in OPERATOR_WORDS
    instead = f"{command} goes by {own}" if is_window and own else "leave it out"
    return RequestError(f"{command} has no {name}, which is an option of {listed(others, 'and')}; {instead}")


def _opposite(plain: str, own: Collection[str]) -> str:
    """Of `--no-this`: the flag that turns it off, or none at all."""
    if not plain.startswith("no-"):
        return ""
    counts, leaves_out = ("--include-pad", "--exclude-pad")
    opposites = {"exclude-pad": counts, "include-pad": leaves_out, "count-include-pad": leaves_out}
    positive = plain.removeprefix("no-")
    if positive in opposites and opposites[positive] in own:
        return f"; write {opposites[positive]}"
    return f"; leave --{positive} out" if f"--{positive}" in own else ""


def _placed(command: str, plain: str, taken: Sequence[Parameter], words: Sequence[str]) -> str:
    """Of what is given by its place, and of one of its words."""
    for each in taken:
        metavar = each.metavar
        if each.flags:
            continue
        if plain in each.words:
            return f"; write poolcli {command} {plain}"
        if len(plain) > 1 and plain in (each.name, each.name.rstrip("s"), metavar.lower()):
            kept = [word for word in words[1:] if word.strip("-").lower().replace("_", "-") != plain]
            line = shlex.join(kept) if len(kept) < len(words) - 1 and kept else each.setting
            return f"; {metavar} is a positional argument: poolcli {command} {line}"
    return ""


def _other_case(name: str, own: Collection[str]) -> str:
    other = name.swapcase()
    return f"; did you mean {other}?" if len(name) == 2 and other in own else ""


def _alike(name: str, own: Iterable[str]) -> list[str]:
    """The options that may be meant by one that is spelt alike: none that says the opposite of a part of it."""
    parts = set(name.strip("-").lower().replace("_", "-").split("-"))
    against = {b for pair in OPPOSITES for a, b in (pair, pair[::-1]) if a in parts and b not in parts}
    return [flag for flag in own if len(flag) > 2 and against.isdisjoint(flag.strip("-").split("-"))]


def _before_the_command(word: str, words: Sequence[str]) -> RequestError:
    found = next((each for each in words[1:] if each in COMMANDS), None)
    if found:
        line = _behind(found, [each for each in words if each != found])
        return RequestError(f"the command comes first: poolcli {line}")
    meant = "; did you mean -V?" if word == "-v" else did_you_mean(word, OF_THE_PROGRAM)
    meant = meant or "; options follow a command, as in poolcli avg x.npy -o y.npy -k 2"
    return RequestError(f"poolcli has no option {word.partition('=')[0]} of its own{meant}")


def _like(word: str, rest: Sequence[str]) -> str:
    """The end of the refusal of a command: what does the like, the nearest one, or all that there are."""
    known = COMMANDS_MEANT.get(word.lower().strip("-_"))
    if known:
        return f"; write poolcli {_line(known, rest)}"
    return did_you_mean(word, [*COMMANDS, "help"]) or f"; there are {listed(COMMANDS, 'and')}"


def _line(template: str, rest: Sequence[str]) -> str:
    """The template with the files that were typed in their places; names in capitals stay where there are none."""
    files = [word for word in rest if os.path.lexists(word)]
    found = iter(files)
    words = []
    for word in template.split():
        taken = next(found, word) if word in ("INPUT", "MODEL", "FOLDER") else word
        taken = next(iter(_shapes(rest)), word) if word == "SHAPE" else taken
        taken = next((op for op in map(operator_named, rest) if op), "avg") if word == "OP" else taken
        if word == "OUTPUT":
            named = _without_files(rest, files)
            taken = named or _output(files[0] if files else "")
        words.append(taken if taken == word else shlex.quote(taken))
    return " ".join(words)


def _behind(command: str, words: Sequence[str]) -> str:
    """The line of a command: that of a pooling with an output and a window, where they are missing."""
    if command not in OPERATOR_WORDS or command.startswith("adaptive"):
        return shlex.join([command, *words])
    has_window = any(word.partition("=")[0] in ("--kernel", "--kernel-size") or word[:2] == "-k" for word in words)
    return shlex.join([command, *_with_output(words), *(() if has_window else ("-k", "2"))])


def _with_output(words: Sequence[str]) -> list[str]:
    has_output = any(word.partition("=")[0] in ("--output", "-n", "--dry-run") or word[:2] == "-o" for word in words)
    first = next((word for word in words if not word.startswith("-")), "")
    return [*words, *(() if has_output else ("-o", _output(first)))]


def _shapes(rest: Sequence[str]) -> Iterator[str]:
    return (word for word in rest if os.path.lexists(word) or is_number_list(word))


def _without_files(rest: Sequence[str], files: Sequence[str]) -> str:
    """The output that was typed: behind -o, or a last name that is not a file yet."""
    if "-o" in rest[:-1]:
        return rest[rest.index("-o") + 1]
    written = _suffixes("writes")
    return next((word for word in rest if word not in files and word.lower().endswith(written)), "")


def _output(word: str) -> str:
    """A name for the output of an input."""
    suffix = Path(word).suffix.lower()
    return f"pooled{suffix}" if suffix in _suffixes("writes") else "OUTPUT"


def _suffixes(able: str) -> tuple[str, ...]:
    """The suffixes of the formats that poolcli reads, or writes."""
    from poolcli.formats.table import suffixes_of  # formats take longer to load than a line without a mistake to read

    return suffixes_of(lambda row: bool(getattr(row, able)))
