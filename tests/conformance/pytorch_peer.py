"""Asking PyTorch: its functional operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from poolcli.attributes import per_axis

Array = np.ndarray[Any, np.dtype[Any]]


def ask(op: Any, x: Array) -> tuple[Array, Array | None]:
    """Values and indices of one operator."""
    rank = x.ndim - 2
    axes, data = "DHW"[-rank:], torch.from_numpy(x)
    function = getattr(torch.nn.functional, f"{op.name.replace('-', '_')}_pool{rank}d")

    def numbers(name: str) -> tuple[int, ...]:
        return per_axis(name, getattr(op, name), axes, 0)

    if op.name == "adaptive-avg":
        return function(data, numbers("output_size")).numpy(), None
    if op.name == "adaptive-max":
        values, indices = function(data, numbers("output_size"), return_indices=True)
        return values.numpy(), indices.numpy()
    options: dict[str, Any] = {
        "stride": None if op.strides is None else numbers("strides"),
        "padding": numbers("pads_begin"),
        "ceil_mode": op.rounding_type == "ceil",
    }
    if op.name == "avg":
        options["count_include_pad"] = op.exclude_pad is not True
        if op.divisor_override is not None:
            options["divisor_override"] = op.divisor_override
        return function(data, numbers("kernel"), **options).numpy(), None
    values, indices = function(data, numbers("kernel"), dilation=numbers("dilations"), return_indices=True, **options)
    return values.numpy(), indices.numpy()
