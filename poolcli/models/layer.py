"""A pooling layer as its model file states it, and the refusals and reductions that all readers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, BinaryIO

from poolcli.errors import RequestError
from poolcli.message_fields import in_words, without_hints
from poolcli.plan.attributes import Attributes, SlidingAttributes

EXPORT_TORCH = "write it in Python: torch.onnx.export(model, inputs, 'model.onnx')"
EXPORT_KERAS = "write it in Python: model.export('model.onnx', format='onnx')"
EXPORT_SAVED = "convert it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
EXPORT_FROZEN = (
    "convert it: python -m tf2onnx.convert --graphdef FILE --inputs NAME:0 --outputs NAME:0 --output model.onnx"
)
EXPORT_SCRIPT = "write it in Python: torch.onnx.export(torch.jit.load('model.pt'), inputs, 'model.onnx', dynamo=False)"


class NotOnnxError(RequestError):
    """The file is no ONNX model."""


class TruncatedError(RequestError):
    """The bytes are not what the format has there."""


def read_exactly(stream: BinaryIO, start: int, count: int) -> bytes:
    """The `count` bytes from `start` on; a TruncatedError where the file does not have them."""
    if start >= 0:
        stream.seek(start)
        data = stream.read(count)
        if len(data) == count:
            return data
    raise TruncatedError(f"nothing lies at byte {start + count:,}")


Dim = int | str | None  # a number, the name of a dynamic dimension, or nothing known
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """One window over all spatial axes, of an operator whose windows slide: its kernel is known with the input."""

    record: type[SlidingAttributes]
    options: tuple[tuple[str, Any], ...] = ()

    def over(self, sizes: Sequence[int]) -> Attributes:
        """The operator on spatial axes of these lengths."""
        return self.record(kernel=tuple(sizes), **dict(self.options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: `op` is None where the file does not say enough for one, which `problem` explains, or where the
    framework takes no such layer, which `invalid` explains.

    `given` are the attributes as the file spells them; shapes are None where the file states none. `layout` names the
    axes of the data, None for N, C and the spatial ones; `keeps_axes` is False where pooled axes are dropped.
    `framework` is whose model it is. `moved` says that the input is not the one that the file states shapes for,
    `stopped` names the node at which the inference of its input's lengths stopped, `shape_only` why
    the values of the layer are none that `op` computes, only its shape.
    """

    name: str
    type: str
    version: str
    framework: str
    op: Attributes | Whole | None = None
    problem: str | None = None
    invalid: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    input_shape: Shape | None = None
    declared_shape: Shape | None = None
    layout: str | None = None
    keeps_axes: bool = True
    moved: bool = False
    shape_only: str | None = None
    stopped: str | None = None
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def alike(shape: Shape | None) -> Shape | None:
    """The shape, of equal ones the first: layers of one model often have the same."""
    return shape


def is_number(dim: Dim) -> bool:
    """Whether the length is known; 0 stands for a dynamic one, as -1 does."""
    return isinstance(dim, int) and dim > 0


def is_pooling(axes: Sequence[int] | None, shape: Shape | None, *, keeps: bool, last: bool = False) -> bool:
    """Whether these are the spatial axes of N, C and spatial ones, or of N, spatial ones and C.

    With one spatial axis both orders look alike, and what the format has by default decides: axis 1 where channels are
    `last`, else axis 2. Called -1, the last axis is that of a normalisation where the reduction `keeps` it, to be
    broadcast; where it is dropped, that of a pooling.
    """
    if axes is None or shape is None or not 3 <= len(shape) <= 5:
        return False
    rank = len(shape)
    if rank == 3:
        return tuple(axes) in (((1,), (-2,)) if last else ((2,),) if keeps else ((2,), (-1,)))
    found = sorted(axis % rank if -rank <= axis < rank else rank for axis in axes)
    return found == list(range(2, rank)) or found == list(range(1, rank - 1))


def channels_last(rank: int) -> str:
    """The layout of as many axes with the channels last: `NHWC`."""
    return "N" + "DHW"[5 - rank :] + "C"


def spatial_layout(axes: Sequence[int], shape: Shape | None) -> str | None:
    """The layout that such axes tell of; None for N, C and spatial axes."""
    rank = len(shape or ())
    return None if min(axis % rank for axis in axes) == 2 else channels_last(rank)


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

    def __init__(self, message: str, does: str = "refuses it", **more: Any) -> None:
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
