"""What a framework does with a layer that it does not take."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from poolcli.core.errors import RequestError
from poolcli.core.fields import in_python
from poolcli.plan.attributes import Attributes


class InvalidError(RequestError):
    """The framework itself refuses the layer, or crashes on it; `does` is which of the two."""

    def __init__(self, message: str, does: str = "refuses it", **more: str | None) -> None:
        super().__init__(message, **more)
        self.does = does

    def __str__(self) -> str:
        return f"{self.does}: {super().__str__()}"


@lru_cache(maxsize=1024)  # layers of one model are often alike
def made(record: Any, **given: Any) -> Attributes:
    """The operator with these attributes; an InvalidError where it takes none such."""
    try:
        operator: Attributes = record(**given)
    except RequestError as error:
        raise InvalidError(in_python(error.message)) from None
    return operator


def meant(name: str, known: tuple[str, ...]) -> str:
    """The known attribute that a misspelt one looks like, as the end of a sentence; empty where none does."""
    found = get_close_matches(name.replace("-", "_"), [each.replace("-", "_") for each in known], 1)
    near = [each for each in known if found and each.replace("-", "_") == found[0]]
    return f"; {near[0]} is one" if near else ""
