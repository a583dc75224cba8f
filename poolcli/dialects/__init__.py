"""The rules of each framework, one file each. Bugs of frameworks are not copied; see `poolcli.dialects.dialect`."""

from __future__ import annotations

from poolcli.arguments import one_of
from poolcli.dialects.dialect import Dialect, IndexBase, SlidingCall, Support
from poolcli.dialects.onnx import ONNX
from poolcli.dialects.openvino import NGRAPH, OPENVINO
from poolcli.dialects.pytorch import PYTORCH
from poolcli.dialects.tensorflow import TENSORFLOW

__all__ = ["DIALECTS", "Dialect", "IndexBase", "SlidingCall", "Support", "dialect_of"]

DIALECTS = {dialect.name: dialect for dialect in (OPENVINO, NGRAPH, ONNX, PYTORCH, TENSORFLOW)}


def dialect_of(name: str) -> Dialect:
    """The dialect called `name`; refuses unknown names."""
    return DIALECTS[one_of("like", name, tuple(DIALECTS))]
