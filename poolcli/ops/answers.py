"""Answers to calls that a function does not take: the whole call that is meant, from words of other libraries."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from typing import Any

from poolcli.errors import PoolError
from poolcli.layouts import read_axes
from poolcli.message_fields import brief
from poolcli.plan.attributes import Attributes, fit_size
from poolcli.suggestions import ALIASES, FLAGS, KEYWORDS, MEANT, by_word, did_you_mean, join_words, public_name
from poolcli.system.lazy_imports import numpy as np

NAMED = "the name of the function says it, as max_pool"
# Keywords of other libraries, beside those of `poolcli.suggestions`, also with a value: the same here, or a remark.
WORDS = KEYWORDS | by_word({
    "x": "inputs images img arr a data tensor value",
    "kernel": "window window-shape window-dimensions footprint selem structure",
    "--kernel 2 --strides 2": "pool-size",
    "--kernel 2 --auto-pad same_lower": "size",
    "output_size": "dsize",
    "threads": "num-threads",
    "ddof": "correction",
    "ddof=1": "unbiased",
    "auto_pad='same_upper'": "padding=same",
    "auto_pad='valid'": "padding=valid",
    "rounding_type='ceil'": "boundary=pad pooling-convention=full",
    "rounding_type='floor'": "boundary pooling-convention",
    "missing=float('nan')": "skipna nan-policy",
    "--like": "to",
    "leave it out": "name inplace copy interpolation",
    "leave it out: coordinates become the means of their windows": "coord-func",
    "leave it out: windows begin at the first element": "side",
    "leave it out: along columns, indices i are i // (H * W) * H * W + i % W * H + i // W % H": "storage-order",
    "leave it out: only averages have a divisor": "count-include-pad exclude-pad divisor-override",
    "it is for calls of maxima and minima, as max_pool(x, 2, return_indices=True)": "return-indices",
    NAMED: "func op method filter reduction pool-type pooling-type",
    "use layout, one letter for each axis: H and W are pooled, N and C are not": "axis axes dim dims",
    "use kernel and strides, their numbers in the order D, H, W": "lat lon latitude longitude time y z",
    "use missing=..., or a masked array, as numpy.ma.array(x, mask=mask)": "mask",
    f"use {MEANT['cval']}": "mode",
})  # fmt: skip
SERIES: dict[str, Any] = {"shape": int, "output_size": int, "layers": str | Attributes}  # given as one value
# What PyTorch's functions take behind the kernel.
BEHIND = ["stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
BEHIND_OF_MAX = ["stride", "padding", "dilation", "ceil_mode", "return_indices"]
PER_AXIS = ("strides", "pads", "pads_begin", "pads_end", "dilations")
OF_PYTORCH = {"kernel_size", "norm_type", *BEHIND[:-1], *BEHIND_OF_MAX[:-1]}


def answer(function: str, known: Mapping[str, Parameter], given: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The message about a call that a function does not take, with the whole call that is meant; "" of other calls."""
    own = [name for name, each in known.items() if name != "self" and each.kind is not Parameter.VAR_KEYWORD]
    by_place = [name for name in own if known[name].kind is Parameter.POSITIONAL_OR_KEYWORD]
    faults, texts, remarks = list[str](), dict[str, str](), dict[str, list[str]]()
    if len(given) > len(by_place):
        if text := _too_many_values(function, by_place, given, own):
            return text
        faults.append(f"takes {join_words(by_place, 'and')} by place and the rest by name")
    x = given[0] if given else None
    if variables := getattr(x, "data_vars", None):  # of a Dataset of xarray
        x, texts["x"] = next((array, f"x[{name!r}]") for name, array in variables.items())
    values = _as_in_pytorch(own, by_place, given, keywords) | dict(keywords)
    takes_others = any(each.kind is Parameter.VAR_KEYWORD for each in known.values())
    unknown = [name for name in keywords if name in values and name not in own and not takes_others]
    if not faults and not unknown:
        return ""
    _keep_spatial_numbers(values, getattr(x, "ndim", 0))
    meant, is_translated = function, bool(faults)
    for name in sorted(values, key=lambda name: name not in own):
        found, remark = _meant(name, values, own)
        if remark == NAMED and (operator := _operator_named(values[name])):
            meant = operator
        elif not found and values[name] is not None:
            remark = remark or did_you_mean(name, own)[2:] or f"it takes {join_words(own, 'and')}"
            remarks.setdefault(remark, []).append(name)
            continue
        texts = found | texts
        is_translated = is_translated or name not in own
    if like := _dialect(own, values, texts, len(given) > len(by_place)):
        texts.setdefault("like", repr(like))
    needed = [name for name in by_place if known[name].default is Parameter.empty]
    shown = [texts.get(name, name) for name in needed]
    shown += [f"{name}={texts[name]}" for name in own if name in texts and name not in needed]
    told = [f"use {meant}({', '.join(shown)})"] if is_translated else []
    told += ["sizes are height, width"] * ("size" in unknown and "output_size" in texts)
    told += [f"{join_words(who, 'and')}: {text}" if len(unknown) > 1 else text for text, who in remarks.items()]
    faults += [f"has no {join_words(unknown)}"] if unknown else []
    return f"{function}() {', and '.join(faults)}; {'; '.join(told)}"


def _as_in_pytorch(
    own: Collection[str], by_place: Sequence[str], given: Sequence[Any], keywords: Collection[str]
) -> dict[str, Any]:
    """The values given by place, by the names that PyTorch, or for words TensorFlow, has for them."""
    behind = (BEHIND_OF_MAX if "index_element_type" in own else BEHIND) if "kernel" in own else ["return_indices"]
    order = [*by_place, *behind]
    if "p" in own and len(given) + ("kernel_size" in keywords) > len(by_place):  # the power comes before the kernel
        order = [*by_place[:-1], "p", by_place[-1], "stride", "ceil_mode"]
    values = dict(zip(order, given, strict=False))
    for name in order[len(by_place) : len(given)]:
        if isinstance(value := values[name], str) and value.lower() not in ("same", "valid"):
            values["data_format"] = values.pop(name)
    return {name: value for name, value in values.items() if value is not None}


def _dialect(own: Collection[str], values: Mapping[str, Any], texts: Mapping[str, str], is_by_place: bool) -> str:
    """The framework whose words a call has, if its rules give another result than OpenVINO's; else ""."""
    if "kernel_shape" in values or "pool_size" in values:
        return "onnx" if "kernel_shape" in values else "tensorflow"  # whose arrays have channels last
    lacks = {"pads", "dilations"} if "p" in own else {"dilations"} if "exclude_pad" in own else set[str]()
    if "kernel" not in own or (lacks | {"auto_pad"}) & texts.keys() or not (is_by_place or OF_PYTORCH & values.keys()):
        return ""
    is_same = "strides" in texts and not re.search("[1-9]", texts.get("pads", "")) and "p" not in own
    return "" if is_same and texts.get("rounding_type") != "'ceil'" and "return_indices" not in texts else "pytorch"


def _keep_spatial_numbers(values: dict[str, Any], rank: int) -> None:
    """Drops the 1 for batch and channels of TensorFlow's lists, and parts ONNX's pads, whose ends come last."""
    kernel = values.get("kernel_shape")
    for name, value in [*values.items()]:
        if not isinstance(value, list | tuple):
            continue
        if name == "pads" and isinstance(kernel, list | tuple) and len(value) == 2 * len(kernel):
            del values[name]
            values |= {"pads_begin": value[: len(kernel)], "pads_end": value[len(kernel) :]}
        elif len(value) == rank > 3 and value[0] == 1 in (value[1], value[-1]):
            is_last = value[1] != 1
            values[name] = value[1:-1] if is_last else value[2:]
            values |= {"layout": "channels_last"} if is_last and "data_format" not in values else {}


def _operator_named(value: Any) -> str:
    """The function of an operator by its name, or by a function of numpy; "" for others."""
    word = re.sub("^(nan|a(?=m))", "", str(getattr(value, "__name__", value)).lower())
    found = re.match(r"; use poolcli.(\w+)\(", public_name(f"{word}pool", ()))
    return found[1] if found else ""


def _meant(name: str, given: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, str], str]:
    """The own keywords, with their values as text, that a keyword is; or a remark; neither for an unknown word."""
    value, plain = given[name], re.sub("(?<=[a-z])(?=[A-Z])|_", "-", name).lower()
    if name in names or value is None:
        return {name: _text(name, value)} if value is not None else {}, ""
    text = WORDS.get(f"{plain}={value}".lower()) or WORDS.get(plain) or ALIASES.get(plain) or MEANT.get(plain, plain)
    own, *values = FLAGS.get(plain, ("", ""))
    if own in names:
        return {own: repr(values[not value])}, ""
    options = re.findall(r"--([\w-]+)(?: (\w+))?", text) or [(text, "")]
    pairs = {KEYWORDS.get(option, option.replace("-", "_")).partition("="): example for option, example in options}
    first, has_all = next(iter(pairs))[0], all(own in names for own, *_ in pairs)
    if has_all and (" " not in text or re.fullmatch(r"(poolcli avg )?(--[\w-]+( \w+)? ?)+(\(.*\))?", text)):
        value = value[::-1] if plain == "dsize" and isinstance(value, tuple) else value  # width before height
        return {
            own: set_to or _text(own, value if example.isdigit() else example or value)
            for (own, _, set_to), example in pairs.items()
        }, ""
    if "output_size" in names and (first == "kernel" or "poolcli a" in text or plain == "fit"):
        return {"output_size": _size(plain, value, given.get("x"))}, ""
    if "--" in text:
        return {}, f"use {text.replace(f'--{options[0][0]}', first)}" if first in names else ""
    return {}, "" if " " not in text else text if plain in WORDS else f"use {text}"


def _size(name: str, value: Any, x: Any) -> str:
    """An output size that has another name, height before width; "output_size" if it is not known."""
    if name == "fit" or (type(value) is float and 0 < value < 1 and name not in ("fx", "fy")):
        with suppress(PoolError):
            fit = value if name == "fit" else f"{100 * value:.6g}%"
            return repr(fit_size(np.shape(x), read_axes(np.shape(x), 2).layout, fit))
    if name != "size" or not isinstance(value, int | tuple | list):
        return "output_size"
    return repr(value[::-1] if type(x).__module__.startswith("PIL") and not isinstance(value, int) else value)


def _text(name: str, value: Any) -> str:
    """A value as Python has it, if it is short and can be the same here, else the name of a keyword."""
    value, shape = getattr(value, "__name__", value), getattr(value, "shape", None)
    if isinstance(shape, tuple) and len(shape) < 2:
        value = value.tolist()
    elif isinstance(shape, tuple):
        value = (*shape,) if name == "kernel" else None  # of a footprint its shape
    text = repr(tuple(value) if isinstance(value, tuple) else value)
    if isinstance(value, float) and name in ("kernel", "strides"):
        return "kernel"
    return name if name == "x" or value is None or len(text) >= 60 else text


def _too_many_values(function: str, by_place: Sequence[str], values: Sequence[Any], names: Collection[str]) -> str:
    """The message about values that are the items of one list, and about calls of no operators; "" of others."""
    for i, name in enumerate(by_place):
        series: Any = [each for each in values[i:] if type(each) is not bool and isinstance(each, SERIES.get(name, ()))]
        if len(series) > 1 and series[0] is values[i]:
            series = series if name == "layers" else tuple(series)
            shown = [*map(_text, by_place[:i], values), brief(series)]
            return f"{function}() takes {name} as one {type(series).__name__}, as in {function}({', '.join(shown)})"
    if {"kernel", "output_size"} & {*by_place}:
        return ""
    by_name = [name for name in names if name not in by_place]
    also = f" by place, and {join_words(by_name, 'and')} by name" if by_name else ""
    told = f"{function}() takes {join_words(by_place or ['no values'], 'and')}{also}"
    return f"{told}; {len(values)} value{'s were' if len(values) > 1 else ' was'} given"
