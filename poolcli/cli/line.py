"""The few things that Click does not read on a command line: flags of other frameworks, `--flag=false`, `-k=2`."""

import re
from collections.abc import Sequence
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.suggestions import ALIASES, FLAGS

HELP = ("-h", "--help", "--help-all")
BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
RANGE = re.compile(r"auto|[-+.\deE]+,[-+.\deE]+")  # values of --rescale, which may be left out


def canonical(name: str) -> str:
    """The name of an option, without dashes: in lower case, with - for _, and poolcli's own for that of a framework.

    >>> canonical("Kernel_Size"), canonical("k")
    ('kernel', 'k')
    """
    plain = name.lower().replace("_", "-") if len(name) > 1 else name
    return ALIASES.get(plain, plain)


def own_flags(params: Sequence[Any]) -> dict[str, Any]:
    """The parameters of a Click command by their flags."""
    return {flag: each for each in params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}


def prepare(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """The arguments of a command as Click takes them."""
    own, names = own_flags(params), {each.name for each in params}
    rest, result = list(words), list[str]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        name, equals, value = word.partition("=")
        if re.fullmatch("-[A-Za-z][A-Za-z_-]+", name) and f"--{canonical(name[1:])}" in own:
            raise RequestError(f"{name} has one dash; write -{name}")
        flag = f"--{canonical(name[2:])}" if name[:2] == "--" else name
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
        elif not rest or rest[0] in own:
            raise RequestError(f"{field(option.name)} needs a value; --help shows examples")
        else:
            result += [word, rest.pop(0)]  # a value may begin with -
    return result


def _boolean(flag: str, value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise RequestError(f"{flag} takes no value (found {value}); write {flag} alone")
    return BOOLEANS[value.lower()]
