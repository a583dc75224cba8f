"""Signatures and docstrings of the operators' functions, and answers to keywords that they do not have."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, ParamSpec, TypeVar, cast

from poolcli.ops.records import RunOptions, prepared
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import too_many_values, unknown_keyword

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])


def with_name_suggestions(function: Callable[P, R], title: str = "", made: Signature | None = None) -> Callable[P, R]:
    """Makes a function answer unknown keywords; `title` is the name of a record, and `made` the signature to show."""

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except TypeError:
            parameters = signature(call).parameters
            names = [name for name in parameters if name != "self"]
            unknown = [(name, value, names) for name, value in keywords.items() if name not in names]
            if unknown:
                told = (unknown_keyword(title or function.__name__, *each) for each in unknown)
                raise TypeError("; ".join(told)) from None
            given = args[1:] if title else args  # of records, the first is self
            by_place = [name for name in names if parameters[name].kind is Parameter.POSITIONAL_OR_KEYWORD]
            if len(given) > len(by_place):
                raise TypeError(too_many_values(title or function.__name__, by_place, given, names)) from None
            raise

    made = made or signature(function)
    own = [
        each.replace(annotation=_ALIAS.sub(lambda found: ALIASES[found[0]], each.annotation))
        if isinstance(each.annotation, str)
        else each
        for each in made.parameters.values()
    ]
    result = _ALIAS.sub(lambda found: ALIASES[found[0]], str(made.return_annotation))
    call.__signature__ = made.replace(parameters=own, return_annotation=result)  # type: ignore[attr-defined]  # of any
    return call


# What the aliases of annotations stand for, in signatures that help() and editors show.
ALIASES = {
    "InitVar[PerAxis | None]": "int | Sequence[int] | None", "Picked": "Pooled | tuple[Pooled, Pooled]",
    "Given": "ArrayLike", "Array": "ndarray", "PerAxis": "int | Sequence[int]", "DType": "DTypeLike", "AutoPad": "str",
    "RoundingType": "str", "Like": "str", "Engine": "str", "IndexType": "str",
}  # fmt: skip
_ALIAS = re.compile("|".join(rf"\b{re.escape(name)}(?!\w)" for name in ALIASES))


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
        return cast("Function", prepared(with_name_suggestions(function, made=made)))

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
