"""Asking PyTorch: its functional operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.conformance.peers import Answer, Array, spread


def _tensor(x: Array) -> Any:
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _array(tensor: Any, dtype: np.dtype[Any]) -> Array:
    array: Array = tensor.view(torch.int16).numpy().view(dtype) if dtype.name == "bfloat16" else tensor.numpy()
    return array


def _ask(op: Any, x: Array) -> Answer:
    rank, data = x.ndim - 2, _tensor(x)
    function = getattr(torch.nn.functional, f"{op.name.replace('-', '_')}_pool{rank}d")
    if op.name == "adaptive-avg":
        return _array(function(data, spread(op.output_size, rank)), x.dtype), None
    if op.name == "adaptive-max":
        values, indices = function(data, spread(op.output_size, rank), return_indices=True)
        return _array(values, x.dtype), indices.numpy()
    if op.name == "lp":
        return _lp(function, op, data), None
    options: dict[str, Any] = {
        "stride": None if op.strides is None else spread(op.strides, rank),
        "padding": spread(op.pads_begin, rank),
        "ceil_mode": op.rounding_type == "ceil",
    }
    kernel = spread(op.kernel, rank)
    if op.name == "avg":
        if op.exclude_pad is not None:
            options["count_include_pad"] = not op.exclude_pad
        if op.divisor_override is not None:
            options["divisor_override"] = op.divisor_override
        return _array(function(data, kernel, **options), x.dtype), None
    values, indices = function(data, kernel, dilation=spread(op.dilations, rank), return_indices=True, **options)
    return _array(values, x.dtype), indices.numpy()


def _lp(function: Any, op: Any, data: Any) -> Array:
    """lp_pool, which has neither padding nor dilation."""
    rank = data.ndim - 2
    if any(spread(op.pads_begin, rank) + spread(op.pads_end, rank)) or max(spread(op.dilations, rank)) > 1:
        raise TypeError("no such keyword")
    kernel = op.kernel if isinstance(op.kernel, int) else op.kernel[0] if rank == 1 else tuple(op.kernel)
    stride = None if op.strides is None else spread(op.strides, rank)
    values: Array = function(data, float(op.p), kernel, stride=stride, ceil_mode=op.rounding_type == "ceil").numpy()
    return values


def ask(questions: Sequence[tuple[Any, Array]]) -> list[Answer]:
    """Values and indices of each (operator, input)."""
    return [_ask(op, x) for op, x in questions]


def refuses(op: Any, x: Array) -> bool:
    """Whether the call fails; a keyword that the function does not have counts."""
    try:
        _ask(op, x)
    except (RuntimeError, TypeError, ValueError):
        return True
    return False
