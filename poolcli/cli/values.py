"""Readers of options: each takes the name of an option and its text, and returns the value or refuses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from poolcli.arguments import AUTO_PADS, Missing, one_of
from poolcli.dtypes import DTYPES, dtype_from_alias
from poolcli.errors import RequestError
from poolcli.message_fields import field

if TYPE_CHECKING:
    from poolcli.pooling.colour import Limits

Reader = Callable[[str, Any], Any]
Numbers = tuple[int, ...]
MAX_DIGITS = 20  # 2**63 has 19
AUTO_RANGE = "auto"  # --rescale without a value
NO_NODATA = "none"  # --missing none


def numbers(name: str, text: str) -> Numbers:
    """The integers in `text`, separated by commas or x, in brackets or not.

    >>> numbers("kernel", "3"), numbers("kernel", "2x3"), numbers("shape", "[1, 3, 32, 32]")
    ((3,), (2, 3), (1, 3, 32, 32))
    """
    inner = text.strip()
    inner = inner[1:-1] if inner[:1] + inner[-1:] in ("[]", "()") else inner
    items = [item.strip() for item in re.split("[,xX×]", inner)]
    if all(re.fullmatch(rf"-?\+?[0-9]{{1,{MAX_DIGITS}}}", item) for item in items):
        return tuple(map(int, items))
    word = inner.lower().replace("-", "_")
    if name.startswith("pads") and word in ("same", *AUTO_PADS):
        raise RequestError(
            f"{field(name)} takes numbers; use {field('auto_pad', 'same_upper' if word == 'same' else word)}"
        )
    example = "1,3,224,224" if name == "shape" else "2 or 2,3 or 2x3"
    raise RequestError(f"{field(name)} is {text[:40]!r}; whole numbers are needed, for example {example}")


def auto_pad(name: str, text: str) -> str:
    """One of the words; `same`, which only TensorFlow has, is judged by the record of the operator."""
    return text if text.lower() == "same" else one_of(name, text, AUTO_PADS)


def is_number_list(text: str) -> bool:
    """Whether `numbers` accepts `text`."""
    try:
        numbers("", text)
    except RequestError:
        return False
    return True


def whole(least: int | None = None, most: int | None = None) -> Reader:
    """A whole number, of at least `least` and at most `most`."""
    wanted = f"at least {least}" if most is None else f"from {least} to {most}"

    def read(name: str, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise RequestError(f"{field(name)} is {text[:40]!r}; a whole number is needed") from None
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


def word_of(words: Collection[str]) -> Reader:
    """One of `words`, in any case or in a usual short form."""
    return lambda name, text: one_of(name, text, tuple(words))


def dtype(name: str, text: str) -> str:
    """A type of elements, also by the names of numpy, C and PyTorch."""
    return dtype_from_alias(text) or one_of(name, text, tuple(DTYPES))


def nodata_values(name: str, texts: Sequence[str]) -> Missing:
    """The nodata values; () for `none`."""
    if tuple(texts) == (NO_NODATA,):
        return ()
    found: list[int | float] = []
    for text in texts:
        try:
            found.append(int(text) if re.fullmatch(r"[-+]?\d+", text.strip()) else float(text))
        except ValueError:
            raise RequestError(
                f"{field(name)} is {text[:40]!r}; write a number, nan, or {NO_NODATA} (no nodata value)"
            ) from None
    return tuple(found)


def rescale_range(name: str, text: str) -> Limits:
    """The values that become 0 and 255; () for the range of each result."""
    if text == AUTO_RANGE:
        return ()
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = 0
    if not -inf < low < high < inf:
        raise RequestError(
            f"{field(name)} is {text[:40]!r}; write LOW,HIGH, such as {field(name, '0,1')}, "
            f"or {field(name)} alone for the range of each result"
        )
    return low, high


def memory(name: str, text: str) -> int:
    """A size such as 500M, in bytes."""
    from poolcli.system.processes import parse_size

    return parse_size(text, field(name))


def cluster(name: str, text: str) -> str:
    """Where Dask runs."""
    from poolcli.runs.dask import check_cluster

    check_cluster(text)
    return text
