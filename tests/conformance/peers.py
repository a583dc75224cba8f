"""The frameworks that can be asked: the dialect, types and words of each."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, np.dtype[Any]]
Answer = tuple[Array, Array | None]  # values, and indices of a maximum

LARGE = {"pytorch": "torch", "tensorflow": "tensorflow"}
HALVES = ("float16", "bfloat16")
SMALL = ("uint8", "int8")
WIDE = ("uint16", "int16", "uint32", "int32", "int64")


@dataclass(frozen=True)
class Peer:
    """A framework under one dialect: which types each operator takes, and the words that it knows."""

    name: str
    framework: str
    like: str
    dtypes: dict[str, tuple[str, ...]]
    auto_pads: tuple[str, ...] = ("explicit", "explicit", "same_upper", "same_lower", "valid")
    roundings: tuple[str, ...] = ("floor", "ceil")
    avg_dilation: bool = True
    max_dilation: bool = True

    def dilates(self, op_name: str) -> bool:
        """Whether the operator has dilations here."""
        return self.avg_dilation if op_name in ("avg", "lp") else self.max_dilation

    @property
    def adapter(self) -> Any:
        """The module that asks the framework; the tests of a large one are skipped where it is not installed."""
        if self.framework in LARGE:
            pytest.importorskip(LARGE[self.framework], reason=f"{self.name} is compared where it is installed")
        return importlib.import_module(f"tests.conformance.{self.framework}_peer")

    def ask(self, questions: Sequence[tuple[Any, Array]]) -> list[Answer]:
        """The framework's answer to each (operator, input)."""
        answers: list[Answer] = self.adapter.ask(questions)
        return answers

    def refuses(self, op: Any, x: Array) -> bool:
        """Whether the framework refuses the operator on this input."""
        return bool(self.adapter.refuses(op, x))


OPENVINO = Peer(
    "OpenVINO",
    "openvino",
    "openvino",
    {
        "avg": ("float32", "float32", "float64", *HALVES, *SMALL, *WIDE),
        "max": ("float32", "float32", "float64", *HALVES, *SMALL, *WIDE, "bool"),
        "adaptive-avg": ("float32", "float32", "float64", *HALVES, *SMALL, *WIDE),
        "adaptive-max": ("float32", "float32", "float64", *HALVES, *SMALL, *WIDE),
    },
    roundings=("floor", "ceil", "ceil_torch"),
)
NGRAPH = Peer(
    "nGraph, as AvgPool-1",
    "openvino",
    "ngraph",
    {"avg": ("float32", "float64", *HALVES, *SMALL), "max": ("float32", "float64", "float16", *SMALL)},
    avg_dilation=False,
    max_dilation=False,
)
ONNX = Peer(
    "ONNX Runtime",
    "onnx",
    "onnx",
    {
        "avg": ("float32", "float32", "float16"),
        "max": ("float32", "float32", "float64", "float16", *SMALL),
        "lp": ("float32", "float16"),
    },
)
PYTORCH = Peer(
    "PyTorch",
    "pytorch",
    "pytorch",
    {
        "avg": ("float32", "float32", "float64", *HALVES, "int64"),
        "max": ("float32", "float32", "float64", *HALVES, *SMALL, "int16", "int32", "int64"),
        "lp": ("float32", "float64"),
        "adaptive-avg": ("float32", "float32", "float64", *HALVES),
        "adaptive-max": ("float32", "float32", "float64", *HALVES),
    },
    auto_pads=("explicit",),
    avg_dilation=False,
)
TENSORFLOW = Peer(
    "TensorFlow",
    "tensorflow",
    "tensorflow",
    {
        "avg": ("float32", "float32", "float64", "float16"),
        "max": ("float32", "float32", "float64", *HALVES, *SMALL, "uint16", "int16", "int32", "int64"),
    },
    auto_pads=("explicit", "same_upper", "valid"),
    roundings=("floor",),
    avg_dilation=False,
    max_dilation=False,
)
PEERS = (OPENVINO, NGRAPH, ONNX, PYTORCH, TENSORFLOW)


def spread(value: Any, rank: int) -> list[int]:
    """One number for each axis, unchecked: what is refused is the framework's own answer."""
    return [value] * rank if isinstance(value, int) else list(value)
