"""What is typed: flags that Click does not read, and the texts of options.

A `Reader` takes the name of an option and its text, and returns the value or refuses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from itertools import takewhile
from math import inf
from typing import TYPE_CHECKING, Any, cast

from poolcli.arguments import AUTO_PADS, Numbers, Reader, one_of, refuse_words
from poolcli.dtypes import DTYPES, dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field, for_cli
from poolcli.suggestions import ALIASES, FLAGS, join_words

if TYPE_CHECKING:
    from poolcli.pooling.outcome import Limits

ONE_DASH = re.compile("-[A-Za-z][A-Za-z_-]+")
TYPESET = re.compile("^-?[\\u2010-\\u2015\\u2212]+-?")  # dashes of word processors
MAX_DIGITS = 20  # 2**63 has 19
AUTO_RANGE = "auto"  # --rescale without a value
HELP = ("-h", "--help", "--help-all")
BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
EXAMPLES = {
    "shape": "1,3,224,224; layers follow it",
    "input_shape": "1,3,640,640 or NAME=1,3,640,640",
    "indices": "indices.npy",
    "levels": "5 for factors of 2, 4, 8 and 16",
}
RANGE = re.compile(r"auto|[-+.\deE]+[, ][-+.\deE]+")  # values of --rescale, which may be left out
PART = re.compile(r"[\[(]?[-+]?[\d.]+[,;]?[\])]?|[,xX×]")  # of numbers that are typed as several words


def canonical(name: str) -> str:
    """The name of an option, without dashes: in lower case, with - for _, and poolcli's own for that of a framework."""
    plain = name.lower().replace("_", "-") if len(name) > 1 else name
    return ALIASES.get(plain, plain)


def own_flags(params: Sequence[Any]) -> dict[str, Any]:
    """The parameters of a Click command by their flags."""
    return {flag: each for each in params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}


def prepare(words: Sequence[str], params: Sequence[Any]) -> list[str]:
    """The arguments of a command as Click takes them: flags of other frameworks, `--flag=false` and `-k=2` replaced."""
    own, names = own_flags(params), {each.name for each in params}
    needed = sum(each.param_type_name == "argument" and each.nargs == 1 for each in params)
    rest, result, apart = list(words), list[str](), dict[str, str]()
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        name, equals, value = word.partition("=")
        flag = f"--{canonical(name[2:])}" if name[:2] == "--" else name
        option = own.get(flag)
        plain = flag[2:].removeprefix("no-") if name[:2] == "--" else ""
        foreign = FLAGS[plain] if option is None and plain in FLAGS and FLAGS[plain][0] in names else None
        if option is None and not foreign and getattr(own.get(f"--{plain}"), "is_flag", False):
            option = own[f"--{plain}"]  # --no-overwrite is --overwrite=false
        if equals and option and not option.is_flag:
            rest.insert(0, value)
        is_flag = foreign or (option and option.is_flag)
        if is_flag and not equals and rest and rest[0].lower() in BOOLEANS and not os.path.exists(rest[0]):
            equals, value = "=", rest.pop(0)  # as in --ceil-mode True
        if foreign:
            setting, true, false = foreign
            chosen = true if (not equals or _boolean(flag, value)) == (plain == flag[2:]) else false
            result.append(for_cli(field(setting, chosen)).replace(" ", "="))
        elif option is None:
            _refuse_dashes(word, own, takes_shape="shape" in names)
            # Click would take -outsize for -o utsize; short flags alone stand together, as in -nr or -nk 2.
            together = all(getattr(own.get(f"-{each}"), "is_flag", False) for each in name[1:-1])
            is_one = ONE_DASH.fullmatch(name) and not (together and f"-{name[-1]}" in own)
            if "shape" in names and PART.fullmatch(word):
                count = _count_parts(rest, own, needed, [*result, name])
                word, rest = " ".join((word, *rest[:count])), rest[count:]
            result.append(f"-{word}" if is_one else word)
        elif option.is_flag:
            on = (not equals or _boolean(flag, value)) == (flag in option.opts)
            result += [option.opts[-1]] if on else option.secondary_opts[:1]
        else:
            # The value, which may begin with -, and numbers behind it, which its reader judges.
            count = max(1, _count_parts(rest, own, needed, [*result, name]))
            text = " ".join(rest[:count])
            if flag == "--rescale" and not equals and not RANGE.fullmatch(text):
                text, count = AUTO_RANGE, 0
            elif not equals and (not rest or rest[0] in own):
                example = EXAMPLES.get(option.name, option.metavar)
                raise RequestError(f"{field(option.name)} needs a value ({example}): {option.help.rstrip('.')}")
            if count > 1 and text.replace(" ", "").isdecimal():
                apart[option.name] = text
            del rest[:count]
            result.append(f"{option.opts[-1]}={text}")
    if len(apart) > 1:
        found = join_words([f"{field(name)} is {text[:40]!r}" for name, text in apart.items()], "and")
        written = " ".join(f"{field(name)} {text.replace(' ', ',')}" for name, text in apart.items())
        raise RequestError(f"{found}; write {written}")
    return result


def _refuse_dashes(word: str, own: Collection[str], takes_shape: bool) -> None:
    """Refuses a word that is no option because of its dashes, and a negative shape."""
    name, equals, value = word.partition("=")
    plain = name.lstrip("-")
    meant = f"--{plain}" if plain[1:] else f"-{plain}"
    is_option = name[:1] == "-" or (equals and not os.path.exists(word))
    if is_option and meant != name and (meant in own or f"--{canonical(plain)}" in own):
        raise RequestError(f"{word} is written {meant}{equals}{value}")
    if takes_shape and re.fullmatch(r"-\d+([,xX]-?\d+)+", word):
        shape = f"any positive number for a dynamic axis, as in {word.replace('-', '')}"
        raise RequestError(f"{field('shape')} is {word}; write {shape}")
    if word[:1] == "-" != word and os.path.exists(word):
        raise RequestError(f"{word} begins with a dash; write ./{word}")
    if (plain := TYPESET.sub("", word)) != word and not os.path.exists(word):
        typed = f"-{plain}" if len(plain.partition("=")[0]) == 1 else f"--{plain}"
        raise RequestError(f"{word} begins with a dash of typesetting; type {typed}")


def _count_parts(words: Sequence[str], own: Collection[str], needed: int, before: Sequence[str]) -> int:
    """How many words at the start are parts of numbers; 0 if one may be a file, or if fewer than the `needed` arguments
    stand before and behind.
    """
    found = len([*takewhile(lambda each: PART.fullmatch(each) and each not in own, words)])
    is_free = sum(each[:1] != "-" for each in (*before, *words[found:])) >= needed
    return found if is_free and not any(map(os.path.exists, words[:found])) else 0


def _boolean(flag: str, value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise RequestError(f"{flag} takes no value (found {value}); write {flag} alone")
    return BOOLEANS[value.lower()]


def numbers(name: str, text: str) -> Numbers:
    """The integers in `text`, separated by commas or x, in brackets or not.

    >>> numbers("kernel", "3.0"), numbers("kernel", "2x3"), numbers("shape", "[1, 3, 32, 32,]")
    ((3,), (2, 3), (1, 3, 32, 32))
    """
    inner = text.removeprefix("torch.Size").strip(" '\"[](),")
    items = [item.strip() for item in re.split("[,xX×]", inner)]
    kept = ["None"] if name == "output_size" else []  # the length of the input, as in Python
    if all(re.fullmatch(rf"-?\+?[0-9]{{1,{MAX_DIGITS}}}(\.0{{1,9}})?", item) or item in kept for item in items):
        return cast("Numbers", tuple(None if item in kept else int(item.partition(".")[0]) for item in items))
    refuse_words(name, inner)
    parts = inner.split()
    if len(parts) > 1 and all(part.isdecimal() for part in parts):
        typed = ",".join(parts)
        remedy = typed if name == "shape" else f"{field(name)} {typed}"
        raise RequestError(f"{field(name)} is {text[:40]!r}; write {remedy}")
    needed = f"whole numbers are needed, for example {EXAMPLES.get(name, '2 or 2,3 or 2x3')}"
    if (share := re.fullmatch(r"(\d{1,9}|\d{0,9}\.\d{1,9})(%?)([,xX ]+\1\2)?", inner)) and float(share[1]):
        percent = float(share[1]) if share[2] else 100 * float(share[1]) ** (1 if name == "output_size" else -1)
        if name in ("kernel", "strides", "output_size") and percent < 100:
            area = "" if name == "output_size" else "poolcli area "
            needed = f"for {percent:.6g}% of the size, use {area}{field('fit', f'{percent:.6g}%')}"
    raise RequestError(f"{field(name)} is {text[:40]!r}; {needed}")


def auto_pad(name: str, text: str) -> str:
    """One of the words; `same`, which only TensorFlow has, is judged by the record of the operator."""
    return text if text.lower() == "same" else one_of(name, text, AUTO_PADS)


def whole(least: int | None = None, most: int | None = None) -> Reader:
    """A whole number, of at least `least` and at most `most`."""
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"

    def read(name: str, text: Any) -> int:
        try:
            number = int(text)
        except ValueError:
            example = f", such as {EXAMPLES[name]}" if name in EXAMPLES else ""
            raise RequestError(f"{field(name)} is {text[:40]!r}; a whole number is needed{example}") from None
        if (least is not None and number < least) or (most is not None and number > most):
            raise RequestError(f"{field(name)} is {number}; it must be {wanted}")
        return number

    return read


def decimal(name: str, text: str) -> float:
    """A number, finite or not."""
    try:
        return float(text)
    except ValueError:
        raise RequestError(f"{field(name)} is {text[:40]!r}; a number is needed") from None


def dtype(name: str, text: str) -> str:
    """A type of elements, also by the names of numpy, C and PyTorch."""
    return dtype_from_alias(text) or one_of(name, text, tuple(DTYPES))


def rescale_range(name: str, text: str) -> Limits:
    """The values that become 0 and 255; () for the range of each result."""
    if text == AUTO_RANGE:
        return ()
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = 0
    if not -inf < low < high < inf:
        alone = f"or {field(name)} alone for the range of each result"
        raise RequestError(f"{field(name)} is {text[:40]!r}; write LOW,HIGH, such as {field(name, '0,1')}, {alone}")
    return low, high


def cluster(name: str, text: str) -> str:
    """Where Dask runs."""
    from poolcli.runs.dask import check_cluster

    check_cluster(text)
    return text
