"""Asking PyTorch: its functional operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from tests.conformance.peers import Answer, Array, spread


def _tensor(x: Array) -> Any:
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _array(tensor: Any) -> Array:
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16)).view(ml_dtypes.bfloat16)
    return np.asarray(tensor)


def _ask(op: Any, x: Array, indices: bool = True) -> Answer:
    sizes = op.output_size if op.name.startswith("adaptive") else op.kernel
    rank, data = len(sizes) if isinstance(sizes, tuple) else x.ndim - 2, _tensor(x)  # a batch axis may be missing
    function = getattr(torch.nn.functional, f"{op.name.replace('-', '_')}_pool{rank}d")
    if op.name == "adaptive-avg":
        return _array(function(data, spread(op.output_size, rank))), None
    if op.name == "adaptive-max":
        return _maximum(function(data, spread(op.output_size, rank), return_indices=indices), indices)
    if op.name == "lp":
        return _lp(function, op, data, rank), None
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
        return _array(function(data, kernel, **options)), None
    options["dilation"] = spread(op.dilations, rank)
    return _maximum(function(data, kernel, return_indices=indices, **options), indices)


def _maximum(answer: Any, indices: bool) -> Answer:
    return (_array(answer[0]), _array(answer[1])) if indices else (_array(answer), None)


def _lp(function: Any, op: Any, data: Any, rank: int) -> Array:
    """lp_pool, which has neither padding nor dilation."""
    if any(spread(op.pads_begin, rank) + spread(op.pads_end, rank)) or max(spread(op.dilations, rank)) > 1:
        raise TypeError("no such keyword")
    kernel = op.kernel if isinstance(op.kernel, int) else op.kernel[0] if rank == 1 else tuple(op.kernel)
    stride = None if op.strides is None else spread(op.strides, rank)
    return _array(function(data, float(op.p), kernel, stride=stride, ceil_mode=op.rounding_type == "ceil"))


def ask(questions: Sequence[tuple[Any, Array]], indices: bool = True) -> list[Answer]:
    """Values of each (operator, input), and indices of maxima; without indices it runs other code."""
    return [_ask(op, x, indices) for op, x in questions]


def refuses(op: Any, x: Array) -> bool:
    """Whether the call fails; a keyword that the function does not have counts."""
    try:
        _ask(op, x)
    except (RuntimeError, TypeError, ValueError):
        return True
    return False
