"""The few things that Click does not read on a command line: flags of other frameworks, `--flag=false`, `-k=2`."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.suggestions import ALIASES, FLAGS

HELP = ("-h", "--help", "--help-all")
# Hyphens, dashes and minus signs that word processors and web pages make of "-".
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
RANGE = re.compile(r"auto|[-+.\deE]+,[-+.\deE]+")  # values of --rescale, which may be left out


def canonical(name: str) -> str:
    """The name of an option, without dashes: in lower case, with - for _, and poolcli's own for that of a framework.

    >>> canonical("Kernel_Size"), canonical("k")
    ('kernel', 'k')
    """
    plain = name.lower().replace("_", "-") if len(name) > 1 else name
    return ALIASES.get(plain, plain)


def flag_of(word: str) -> str:
    """The flag of an option, as in `--kernel_size=3`; other words stay."""
    name = word.partition("=")[0]
    return f"--{canonical(name[2:])}" if name[:2] == "--" else name


def own_flags(params: Sequence[Any]) -> dict[str, Any]:
    """The parameters of a Click command by their flags."""
    return {flag: each for each in params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}


def prepare(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """The arguments of a command as Click takes them; refuses those that it would misread."""
    own, names = own_flags(params), {each.name for each in params}
    rest, result = list(words), list[str]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        _refuse_misread(word, own)
        name, equals, value = word.partition("=")
        flag = flag_of(word)
        option = own.get(flag)
        if option is None and flag[2:] in FLAGS and FLAGS[flag[2:]][0] in names:
            setting, true, false = FLAGS[flag[2:]]
            chosen = true if not equals or _boolean(flag, value) else false
            result.append(for_cli(field(setting, chosen)).replace(" ", "="))
        elif option is None or (option.is_flag and not equals):
            result.append(word)
        elif option.is_flag:
            on = _boolean(flag, value) == (flag in option.opts)
            result += [option.opts[-1]] if on else option.secondary_opts[:1]
        elif equals:
            result.append(f"{name}{value}" if len(name) == 2 else word)  # -k=2
        elif flag == "--rescale" and not RANGE.fullmatch("".join(rest[:1])):
            result.append("--rescale=auto")
        elif not rest or flag_of(rest[0]) in own:
            raise RequestError(f"{field(option.name)} needs a value; --help shows examples")
        elif flag == "--also" and len(rest) > 1:  # --also X Y
            result += [word, rest.pop(0), word, rest.pop(0)]
        else:
            result += [word, _not_empty(rest.pop(0), word)]
    return result


def _not_empty(value: str, name: str) -> str:
    if not value:
        raise RequestError(f"{name} is empty (an unset variable?); it needs a value")
    return value


def extra_arguments(command: str, words: Sequence[str]) -> RequestError:
    """The refusal of arguments beyond those that a command takes."""
    numbers = command == "shape" and all(map(str.isdecimal, words))
    end = "a shape or a value is one word: 1,3,32,32" if numbers else f"{command} --help shows what it takes"
    return RequestError(f"{command}: unexpected argument {' '.join(words)}; {end}")


def _boolean(flag: str, value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise RequestError(f"{flag} takes no value (found {value}); write {flag} alone")
    return BOOLEANS[value.lower()]


def _refuse_misread(word: str, own: Mapping[str, Any]) -> None:
    """Refuses an empty word, a typographic dash, and one dash before a long name (-output is -o utput)."""
    _not_empty(word, "an argument")
    if not set(word[:2]).isdisjoint(DASHES) and not os.path.lexists(word):
        name = word.lstrip(DASHES + "-")
        hyphens = "--" if name[1:2].isalpha() else "-"
        raise RequestError(f"{word} begins with a dash that is not a hyphen; write {hyphens}{name}")
    flag = flag_of(f"-{word}")
    if re.match("-[a-z]{2}", word) and (flag in own or flag[2:] in FLAGS):
        raise RequestError(f"{word} has one dash; write {flag}{''.join(word.partition('=')[1:])}")
