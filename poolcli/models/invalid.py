"""What a framework does with a layer that it does not take."""

from __future__ import annotations

from difflib import get_close_matches

from poolcli.core.errors import RequestError


class InvalidError(RequestError):
    """The framework itself refuses the layer, or crashes on it; `does` is which of the two."""

    def __init__(self, message: str, does: str = "refuses it", **more: str | None) -> None:
        super().__init__(message, **more)
        self.does = does

    def __str__(self) -> str:
        return f"{self.does}: {super().__str__()}"


def meant(name: str, known: tuple[str, ...]) -> str:
    """The known attribute that a misspelt one looks like, as the end of a sentence; empty where none does."""
    found = get_close_matches(name.replace("-", "_"), [each.replace("-", "_") for each in known], 1)
    near = [each for each in known if found and each.replace("-", "_") == found[0]]
    return f"; {near[0]} is one" if near else ""
