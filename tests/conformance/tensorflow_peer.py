"""Asking TensorFlow: tf.nn's pooling, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tests.conformance.peers import Answer, Array, spread

PADDING = {"same_upper": "SAME", "same_lower": "SAME_LOWER", "valid": "VALID"}


def _padding(op: Any, rank: int) -> Any:
    """The word, or the list of pads of every axis."""
    pads = list(zip(spread(op.pads_begin, rank), spread(op.pads_end, rank), strict=True))
    if op.auto_pad != "explicit":
        return PADDING[op.auto_pad]
    return [[0, 0], *map(list, pads), [0, 0]] if any(map(any, pads)) else "VALID"


def _ask(op: Any, x: Array, indexed: bool = True) -> Answer:
    rank = x.ndim - 2
    if op.rounding_type != "floor" or max(spread(op.dilations, rank)) > 1 or getattr(op, "exclude_pad", None) is False:
        raise TypeError("no such keyword")
    data = tf.constant(np.moveaxis(x, 1, -1))
    kernel, strides, padding = spread(op.kernel, rank), spread(op.strides, rank), _padding(op, rank)
    values = getattr(tf.nn, f"{op.name}_pool{rank}d")(data, kernel, strides, padding).numpy()
    indices = None
    if indexed and op.name == "max" and rank == 2 and isinstance(padding, str):
        found = tf.nn.max_pool_with_argmax(data, kernel, strides, padding, output_dtype=tf.int64)
        indices = np.moveaxis(found.argmax.numpy(), -1, 1)
    return np.moveaxis(values, -1, 1).astype(x.dtype, copy=False), indices


def ask(questions: Sequence[tuple[Any, Array]], indices: bool = True) -> list[Answer]:
    """Values of each (operator, input), and indices of maxima over two axes, which alone have them."""
    return [_ask(op, x, indices) for op, x in questions]


def refuses(op: Any, x: Array) -> bool:
    """Whether the call fails; a keyword that the function does not have counts, and so does a maximum without windows.

    On some processors the latter ends the process: TensorFlow 2.21 divides by zero on AMD.
    """
    if op.name == "max" and not op.auto_pad.startswith("same") and _has_no_window(op, x):
        return True
    try:
        _ask(op, x)
    except (tf.errors.OpError, AttributeError, TypeError, ValueError):
        return True
    return False


def _has_no_window(op: Any, x: Array) -> bool:
    sizes = np.array(x.shape[2:])
    if op.auto_pad == "explicit":
        sizes = sizes + spread(op.pads_begin, x.ndim - 2) + spread(op.pads_end, x.ndim - 2)
    return bool((spread(op.kernel, x.ndim - 2) > sizes).any())
