"""The few things that Click does not read on a command line: other names of options, `--flag=false`, empty values."""

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
    own, fields = own_flags(params), {each.name for each in params}
    rest, result = list(words), list[str]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        if not word:
            raise RequestError("an argument is empty (an unset variable?); name a file")
        _refuse_dashes(word, own)
        name, equals, value = word.partition("=")
        flag = flag_of(word)
        option = own.get(flag)
        if flag[2:] in FLAGS and flag not in own and FLAGS[flag[2:]][0] in fields:
            result.append(_foreign_flag(flag, value if equals else "true"))
        elif option is not None and option.is_flag and equals:
            result += _switched(flag, value, option)
        elif option is not None and not option.is_flag and not equals:
            result += [word, _value_of(flag, rest, own)]
            result += [word, _value_of(flag, rest, own)] if flag == "--also" else []  # --also X Y
        else:
            result.append(f"{name}{value}" if equals and len(name) == 2 else word)  # -k=2
    return result


def _value_of(flag: str, rest: list[str], own: Mapping[str, Any]) -> str:
    """The value of an option, from the next word; refuses another option in its place, and an empty value."""
    if flag == "--rescale" and not (rest and RANGE.fullmatch(rest[0])):
        return "auto"
    named = for_cli(field(str(own[flag].name)))
    if not rest or flag_of(rest[0]) in own:
        raise RequestError(f"{named} needs a value; --help shows examples")
    if not rest[0]:
        raise RequestError(f"{named} is empty (an unset variable?); it needs a value")
    return rest.pop(0)


def _switched(flag: str, value: str, option: Any) -> list[str]:
    """`--flag=true` is the flag, and `--flag=false` the opposite flag, or none."""
    on = _boolean(flag, value) == (flag in option.opts)
    return [option.opts[-1]] if on else [*option.secondary_opts[:1]]


def _foreign_flag(flag: str, value: str) -> str:
    """The option that a flag of another framework stands for."""
    name, true, false = FLAGS[flag[2:]]
    return for_cli(field(name, true if _boolean(flag, value) else false)).replace(" ", "=")


def _boolean(flag: str, value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise RequestError(f"{flag} takes no value (found {value}); write {flag} alone")
    return BOOLEANS[value.lower()]


def _refuse_dashes(word: str, own: Mapping[str, Any]) -> None:
    """Refuses a typographic dash before an option, and one dash before a long name: -output y means -o utput."""
    if not set(word[:2]).isdisjoint(DASHES) and not os.path.lexists(word):
        name = word.lstrip(DASHES + "-")
        hyphens = "--" if name[1:2].isalpha() else "-"
        raise RequestError(f"{word} begins with a dash that is not a hyphen; write {hyphens}{name}")
    flag = flag_of(f"-{word}")
    if re.match("-[a-z]{2}", word) and (flag in own or flag[2:] in FLAGS):
        raise RequestError(f"{word} has one dash; write {flag}{''.join(word.partition('=')[1:])}")
