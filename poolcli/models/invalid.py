"""What a framework does with a layer that it does not take, in the words of its files."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import in_words, without_hints
from poolcli.plan.attributes import Attributes

# How the files of each framework spell the fields, and the settings, that messages name.
WORDS = {
    "ONNX Runtime": {
        "kernel": "kernel_shape", "pads": "pads", "pads_begin": "pads", "pads_end": "pads",
        "exclude_pad": "count_include_pad",
        "exclude_pad=True": "count_include_pad=0", "exclude_pad=False": "count_include_pad=1",
    },
    "OpenVINO": {
        "exclude_pad": "exclude-pad", "exclude_pad=True": "exclude-pad=true", "exclude_pad=False": "exclude-pad=false",
    },
    "PyTorch": {
        "kernel": "kernel_size", "strides": "stride", "pads": "padding", "pads_begin": "padding",
        "pads_end": "padding", "dilations": "dilation", "exclude_pad": "count_include_pad",
        "exclude_pad=True": "count_include_pad=False", "exclude_pad=False": "count_include_pad=True",
    },
    "TensorFlow Lite": {"kernel": "filter", "strides": "stride", "auto_pad": "padding"},
}  # fmt: skip


def in_words_of(framework: str, message: str) -> str:
    """The message as whoever changes the model's file reads it."""
    return in_words(without_hints(message), WORDS[framework])


class InvalidError(RequestError):
    """The framework itself refuses the layer, or crashes on it; `does` is which of the two."""

    def __init__(self, message: str, does: str = "refuses it", **more: str | None) -> None:
        super().__init__(message, **more)
        self.does = does

    @property
    def told(self) -> str:
        """What the framework does, and why; fields are marked."""
        return f"{self.does}: {self.message}"


def counted(count: int) -> str:
    """So many numbers."""
    return f"{count} number{'' if count == 1 else 's'}"


@lru_cache(maxsize=1024)  # layers of one model are often alike
def made(record: Any, **given: Any) -> Attributes:
    """The operator with these attributes; an InvalidError where it takes none such."""
    try:
        operator: Attributes = record(**given)
    except RequestError as error:
        raise InvalidError(error.message) from None
    return operator


def meant(name: str, known: tuple[str, ...]) -> str:
    """The known attribute that a misspelt one looks like, as the end of a sentence; empty where none does."""
    found = get_close_matches(name.replace("-", "_"), [each.replace("-", "_") for each in known], 1)
    near = [each for each in known if found and each.replace("-", "_") == found[0]]
    return f"; {near[0]} is one" if near else ""
