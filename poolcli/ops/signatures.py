"""Signatures and docstrings of the operators' functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, wraps
from inspect import Signature, cleandoc, signature
from typing import Any, ParamSpec, TypeVar, cast

from poolcli.errors import RequestError
from poolcli.ops.records import RunOptions, prepared
from poolcli.plan.attributes import Attributes

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., Any])


def with_answers(function: Callable[P, R], title: str = "") -> Callable[P, R]:
    """Makes a function or a method answer calls that it does not take; `title` is the name that users know."""
    shown = title or function.__name__

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except (TypeError, RequestError) as error:
            from poolcli.ops.answers import answer

            known = dict(signature(call).parameters)
            text = answer(shown, known, args["self" in known :], keywords)
            if not text and str(error).startswith(f"{function.__qualname__}() missing"):
                text = str(error).replace(function.__qualname__, shown, 1)
            if not text:
                raise
            raise (RequestError if isinstance(error, RequestError) else TypeError)(text) from None

    return call


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
