"""Signatures and docstrings of the operators' functions, and answers to calls that they do not take."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, ParamSpec, TypeVar, cast

from poolcli.layouts import BATCH, SPATIAL
from poolcli.message_fields import brief
from poolcli.ops.records import RunOptions, prepared
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import ALIASES, FLAGS, KEYWORDS, MEANT, by_word, did_you_mean, join_words

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])
# Keywords of other libraries, beside those of `poolcli.suggestions`, also with a value: the same here, or a remark.
WORDS = KEYWORDS | by_word({
    "x": "inputs images img arr a data tensor value",
    "kernel": "size window window-shape window-dimensions footprint selem structure",
    "--kernel 2 --strides 2": "pool-size",
    "output_size": "dsize",
    "threads": "num-threads",
    "ddof": "correction",
    "ddof=1": "unbiased",
    "like='pytorch'": "stride=none",
    "auto_pad='same_upper'": "padding=same",
    "auto_pad='valid'": "padding=valid",
    "rounding_type='ceil'": "boundary=pad pooling-convention=full",
    "rounding_type='floor'": "boundary pooling-convention",
    "missing=float('nan')": "skipna nan-policy",
    "leave it out": "name inplace copy interpolation",
    "leave it out: coordinates become the means of their windows": "coord-func",
    "leave it out: windows begin at the first element": "side",
    "leave it out: along columns, indices i are i // (H * W) * H * W + i % W * H + i // W % H": "storage-order",
    "leave it out: only averages have a divisor": "count-include-pad exclude-pad divisor-override",
    "leave it out: only maxima and minima have indices": "return-indices index-element-type",
    "the name of the function says it, as max_pool": "func op method filter reduction pool-type pooling-type",
    "use layout, one letter for each axis: H and W are pooled, N and C are not": "axis axes dim dims",
    "use kernel and strides, their numbers in the order D, H, W": "lat lon latitude longitude time y z",
    "use output_size=fit_size(x.shape, layout, fit)": "fit",
    f"use {MEANT['cval']}": "mode",
})  # fmt: skip
RULES = {"kernel_size": "like='pytorch'", "kernel_shape": "like='onnx'"}  # without which results may differ
SERIES: dict[str, Any] = {"shape": int, "output_size": int, "layers": str | Attributes}  # given as one value
# What PyTorch's functions take behind the kernel.
BEHIND = ["strides", "padding", "ceil_mode", "count_include_pad", "divisor_override"]
BEHIND_OF_MAX = ["strides", "padding", "dilations", "ceil_mode", "return_indices"]


def with_answers(function: Callable[P, R], title: str = "") -> Callable[P, R]:
    """Makes a function or a method answer calls that it does not take; `title` is the name that users know."""
    shown = title or function.__name__

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            kinds = {name: each.kind for name, each in signature(call).parameters.items()}
            given, text = args["self" in kinds :], str(error).replace(function.__qualname__, shown, 1)
            names = [name for name, kind in kinds.items() if name != "self" and kind is not Parameter.VAR_KEYWORD]
            by_place = [name for name in names if kinds[name] is Parameter.POSITIONAL_OR_KEYWORD]
            if Parameter.VAR_KEYWORD not in kinds.values() and not keywords.keys() <= {*names}:
                text = _unknown_keywords(shown, keywords, names, [*getattr((*given, None)[0], "dims", ())])
            elif len(given) > len(by_place):
                text = _too_many_values(shown, by_place, given, names)
            elif not str(error).startswith(f"{function.__qualname__}() missing"):
                raise
            raise TypeError(text) from None

    return call


def _unknown_keywords(function: str, given: Mapping[str, Any], names: Collection[str], dims: Sequence[Any]) -> str:
    """The message about keywords that a function does not have, with what is probably meant; `dims`: those of x."""
    unknown = [name for name in given if name not in names]
    settings, remarks = dict[str, None](), dict[str, list[str]]()
    pooled = [name for name in dims if name in unknown]
    if pooled and "kernel" in names and len(pooled) <= len(SPATIAL) and len(dims) <= len(BATCH):  # as coarsen has them
        letters, batch = iter(SPATIAL[-len(pooled) :]), iter(BATCH)
        layout = "".join(next(letters if name in pooled else batch) for name in dims)
        size = tuple(given[name] for name in pooled) if len(pooled) > 1 else given[pooled[0]]
        return f"{function}() takes no names of axes; use kernel={size}, strides={size}, layout={layout!r}"
    for name in unknown:
        own, remark = _meant(name, given, names)
        settings |= dict.fromkeys(own)
        if not own:
            remark = remark or did_you_mean(name, names)[2:] or f"it takes {join_words(names, 'and')}"
            remarks.setdefault(remark, []).append(name)
    if settings and "like" in names and "like" not in given:
        settings |= dict.fromkeys(RULES[name] for name in unknown if name in RULES)
    told = [f"use {', '.join(settings)}"] if settings else []
    told += [f"{join_words(who, 'and')}: {text}" if len(unknown) > 1 else text for text, who in remarks.items()]
    return f"{function}() has no {join_words(unknown)}; {'; '.join(told)}"


def _meant(name: str, given: Mapping[str, Any], names: Collection[str]) -> tuple[list[str], str]:
    """What a keyword of another library is here: settings, or a remark; neither for a word that is not known."""
    value, plain = given[name], re.sub("(?<=[a-z])(?=[A-Z])|_", "-", name).lower()
    text = WORDS.get(f"{plain}={value}".lower()) or WORDS.get(plain) or ALIASES.get(plain) or MEANT.get(plain, plain)
    own, *values = FLAGS.get(plain, ("", ""))
    if own in names:
        return [f"{own}={values[not value]!r}"], ""
    options = re.findall(r"--([\w-]+)(?: (\w+))?", text) or [(text, "")]
    pairs = {KEYWORDS.get(option, option.replace("-", "_")): example for option, example in options}
    first, has_all = next(iter(pairs)), all(own.partition("=")[0] in names for own in pairs)
    if has_all and (" " not in text or re.fullmatch(r"(poolcli avg )?(--[\w-]+( \w+)? ?)+", text)):
        value = value[::-1] if plain == "dsize" and isinstance(value, tuple) else value  # width before height
        free = [(own, example) for own, example in pairs.items() if given.get(own) is None]
        return [_setting(own, example if example.isalpha() else value) for own, example in free], ""
    if "output_size" in names and (first == "kernel" or "poolcli a" in text):
        return [], "use output_size"
    if "--" in text:
        return [], f"use {text.replace(f'--{options[0][0]}', first)}" if first in names else ""
    return [], "" if " " not in text else text if plain in WORDS else f"use {text}"


def _setting(name: str, value: object) -> str:
    """A keyword with its value, if that is short and can be the same here."""
    shape = getattr(value, "shape", ())
    text = brief((*shape,) if name == "kernel" and len(shape) > 1 else value)  # of a footprint its shape
    is_other = name == "x" or "=" in name or value is None or text.startswith("an array") or len(text) >= 60
    return name if is_other or (isinstance(value, float) and name in ("kernel", "strides")) else f"{name}={text}"


def _too_many_values(function: str, by_place: Sequence[str], values: Sequence[Any], names: Collection[str]) -> str:
    """The message about values that must be named, or that are the items of one list."""
    shown = ["x" if name == "x" else brief(value) for name, value in zip(by_place, values, strict=False)]
    for i, name in enumerate(by_place):
        series: Any = [each for each in values[i:] if type(each) is not bool and isinstance(each, SERIES.get(name, ()))]
        if len(series) > 1 and series[0] is values[i]:
            series = series if name == "layers" else tuple(series)
            example = f"{function}({', '.join((*shown[:i], brief(series)))})"
            return f"{function}() takes {name} as one {type(series).__name__}, as in {example}"
    told, more = f"{function}() takes {join_words(by_place or ['no values'], 'and')}", [*values[len(by_place) :]]
    if not {"kernel", "output_size"} & {*by_place}:  # not of operators
        by_name = [name for name in names if name not in by_place]
        also = f" by place, and {join_words(by_name, 'and')} by name" if by_name else ""
        return f"{told}{also}; {len(values)} value{'s were' if len(values) > 1 else ' was'} given"
    behind = (BEHIND_OF_MAX if "return_indices" in names else BEHIND) if "kernel" in names else ["return_indices"]
    if "p" in names:  # of norms: the power, the kernel, strides
        more, behind, shown[-1] = [values[len(by_place) - 1], *more[1:]], ["p", "strides", "ceil_mode"], brief(more[0])
    for name, value in zip(behind, more, strict=False):
        word = "data_format" if isinstance(value, str) and value.lower() not in ("same", "valid") else name
        if value is not None and value is not False:
            shown += [_setting(word, value)] if word in names else _meant(word, {word: value}, names)[0]
    if "p" in names or (len(more) > 1 and not any(isinstance(value, str) for value in more)):
        shown.append(RULES["kernel_size"])
    return f"{told} by place and the rest by name, as in {function}({', '.join(shown)})"


def with_signature(function: Callable[P, R], made: Signature | None = None, title: str = "") -> Callable[P, R]:
    """Makes a function show real types, or the signature `made`, and answer calls that it does not take."""
    call = with_answers(function, title)
    made = made or signature(function)
    own = [
        each.replace(annotation=_ALIAS.sub(lambda found: TYPES[found[0]], each.annotation))
        if isinstance(each.annotation, str)
        else each
        for each in made.parameters.values()
    ]
    result = _ALIAS.sub(lambda found: TYPES[found[0]], str(made.return_annotation))
    call.__signature__ = made.replace(parameters=own, return_annotation=result)  # type: ignore[attr-defined]  # of any
    return call


# What the aliases of annotations stand for, in signatures that help() and editors show.
TYPES = {
    "InitVar[PerAxis | None]": "int | Sequence[int] | None", "Picked": "Pooled | tuple[Pooled, Pooled]",
    "Given": "ArrayLike", "Array": "ndarray", "PerAxis": "int | Sequence[int]", "DType": "DTypeLike", "AutoPad": "str",
    "RoundingType": "str", "Like": "str", "Engine": "str", "IndexType": "str",
}  # fmt: skip
_ALIAS = re.compile("|".join(rf"\b{re.escape(name)}(?!\w)" for name in TYPES))


def operator_function(record: type[Attributes], other: Callable[..., Any]) -> Callable[[Function], Function]:
    """Completes the keywords, in place of `**options`, and the docstring of an operator by those of `other`."""

    def complete(function: Function) -> Function:
        *own, _ = signature(function).parameters.values()
        has, named = record.__dataclass_fields__, [each.name for each in own]
        rest = [
            each.replace(default=has[name].default) if name in has else each
            for name, each in signature(other).parameters.items()
            if name not in named and (name in has or name in RunOptions.__annotations__)
        ]
        made = signature(function).replace(parameters=[*own, *rest])
        if function.__doc__ and other.__doc__:  # python -OO drops both
            theirs, mine = _sections(other.__doc__), _sections(function.__doc__)
            entries = _entries(theirs["Parameters"]) | _entries(mine.get("Parameters", ""))
            parameters = {entries[name]: None for name in made.parameters}  # an entry may be of several names
            whole = theirs | mine | {"Parameters": "\n".join(("Parameters\n----------", *parameters))}
            function.__doc__ = "\n\n".join(whole.values())
        return cast("Function", prepared(with_signature(function, made)))

    return complete


@cache
def _sections(doc: str) -> dict[str, str]:
    """The sections of a numpy docstring by title; the summary has the title ""."""
    summary, *sections = re.split(r"\n\n(?=[^\n]+\n---)", cleandoc(doc))
    return {"": summary} | {section.partition("\n")[0]: section for section in sections}


@cache
def _entries(section: str) -> dict[str, str]:
    """The entries of the section Parameters by name."""
    entries = re.findall(r"^\w.* : .*(?:\n .*)*", section, re.MULTILINE)
    return {name: entry for entry in entries for name in entry.partition(" : ")[0].split(", ")}
