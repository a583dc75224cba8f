"""Who can run a row: poolcli, and each framework that is installed and has the operator for that type."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from poolcli.arguments import per_axis
from tests.bench.plain_loop import plain_loop
from tests.bench.rows import Array, Row

Call = Callable[[], Array]
CORES = len(os.sched_getaffinity(0))


def contenders(row: Row, x: Array) -> Iterator[tuple[str, Call]]:
    """Names and calls; poolcli comes first. A framework that has no such operator is left out, or its call fails."""
    yield "poolcli", partial(_poolcli, row, x)
    for name, make in PEERS.items():
        with suppress(Exception):  # not installed, or the framework has no such operator for this type
            call = make(row, x)
            if call is not None:
                yield name, call


def _poolcli(row: Row, x: Array) -> Array:
    call = partial(row.op, x, layout=row.layout, engine="numba")
    values: Array = call(return_indices=True)[0] if row.indices else call()
    return values


def _channels_first(row: Row, x: Array) -> Array:
    """What frameworks without the layout would be given; the transposition is not timed."""
    if row.layout == "NHWC":
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    if row.layout == "HWC":
        return np.ascontiguousarray(x.transpose(2, 0, 1)[None])
    return x


def _openvino(row: Row, x: Array) -> Call:
    import openvino as ov
    from openvino import opset8

    from tests.conformance.openvino_peer import node

    data = _channels_first(row, x)
    parameter = opset8.parameter(list(data.shape), ov.Type(data.dtype))
    made = node(row.op, parameter, data.ndim - 2)
    outputs = made.outputs() if row.indices else [made.output(0)]
    model = ov.Model([opset8.result(output) for output in outputs], [parameter])
    hints = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": CORES, "PERFORMANCE_HINT": "LATENCY"}
    request = ov.Core().compile_model(model, "CPU", hints).create_infer_request()
    tensor = ov.Tensor(data, shared_memory=True)
    tensor_of = {"x": (tensor, data)}

    def call() -> Array:
        request.set_input_tensor(tensor_of["x"][0])  # also keeps the array alive, which the request does not
        request.infer()
        return np.asarray(request.get_output_tensor(0).data)

    return call


def _onnx_runtime(row: Row, x: Array) -> Call | None:
    if row.op.name.startswith("adaptive"):
        return None
    import onnxruntime
    from onnx import TensorProto, helper

    from tests.conformance.onnx_peer import node

    data = _channels_first(row, x)
    names = ["y", "at"] if row.indices else ["y"]
    element = helper.np_dtype_to_tensor_dtype(data.dtype)
    types = [element, TensorProto.INT64]
    graph = helper.make_graph(
        [node(row.op, data.ndim - 2, "x", names)],
        "bench",
        [helper.make_tensor_value_info("x", element, data.shape)],
        [helper.make_tensor_value_info(n, t, [None] * data.ndim) for n, t in zip(names, types, strict=False)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": data})[0]


def _pytorch(row: Row, x: Array) -> Call | None:
    import torch

    data = _channels_first(row, x)
    rank, op = data.ndim - 2, row.op
    tensor = torch.from_numpy(data)
    if row.layout == "NHWC":
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    function = getattr(torch.nn.functional, f"{op.name.replace('-', '_')}_pool{rank}d")
    axes = "DHW"[-rank:]
    if op.name.startswith("adaptive"):
        size = per_axis("output_size", op.output_size, axes)
        more: dict[str, Any] = {"return_indices": True} if row.indices else {}
        return lambda: _first(function(tensor, size, **more))
    if op.pads_begin != op.pads_end or (op.name == "avg" and op.dilations != 1):
        return None
    options: dict[str, Any] = {"padding": op.pads_begin, "ceil_mode": op.rounding_type == "ceil"}
    if op.name == "avg":
        options["count_include_pad"] = op.exclude_pad is False
    else:
        options |= {"dilation": op.dilations, "return_indices": row.indices}
    return lambda: _first(function(tensor, op.kernel, op.strides, **options))


def _pytorch_channels_last(row: Row, x: Array) -> Call | None:
    """PyTorch over channels that lie last in memory, where they do so in the row's array."""
    is_last = x.ndim == 4 and row.layout is None and x.transpose(0, 2, 3, 1).flags.c_contiguous
    return _pytorch(row, x) if is_last and not x.flags.c_contiguous else None


def _first(result: Any) -> Array:
    return np.asarray((result[0] if isinstance(result, tuple) else result).numpy())


def _opencv(row: Row, x: Array) -> Call | None:
    """INTER_AREA of areas and where windows tile the image; blur and medianBlur where they slide by 1."""
    import cv2

    op = row.op
    images = [x] if row.layout == "HWC" else list(x[0]) if x.ndim == 4 and x.shape[0] == 1 else []
    if not images or x.dtype.name in ("float16", "float64"):
        return None
    layout = (lambda planes: planes[0]) if row.layout == "HWC" else (lambda planes: np.stack(planes)[None])
    if op.name == "area":
        size = op.output_size[::-1]
        return lambda: layout([cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images])
    if op.name not in ("avg", "median") or op.dilations != 1:
        return None
    height, width = images[0].shape[:2]
    k = op.kernel
    if op.name == "median":
        fits = op.strides == 1 and op.pads_begin == k // 2
        return (lambda: layout([cv2.medianBlur(image, k) for image in images])) if fits else None
    if op.strides == k and op.pads_begin == 0 and height % k == 0 and width % k == 0:
        size = (width // k, height // k)
        return lambda: layout([cv2.resize(image, size, interpolation=cv2.INTER_AREA) for image in images])
    if op.strides == 1 and op.pads_begin == k // 2:
        return lambda: layout([cv2.blur(image, (k, k), borderType=cv2.BORDER_REFLECT) for image in images])
    return None


def _pillow(row: Row, x: Array) -> Call | None:
    from PIL import Image

    if row.layout != "HWC" or row.op.name != "avg" or row.op.strides != row.op.kernel or row.op.pads_begin:
        return None
    image = Image.fromarray(x)
    return lambda: np.asarray(image.reduce(row.op.kernel))


def _numpy(row: Row, x: Array) -> Call | None:
    """Sums and deviations of windows that tile the planes."""
    op = row.op
    if op.name not in ("sum", "std") or row.layout or op.strides != op.kernel or op.pads_begin or x.ndim != 4:
        return None
    k = op.kernel
    tiled = x.reshape(*x.shape[:2], x.shape[2] // k, k, x.shape[3] // k, k)
    return lambda: getattr(tiled, op.name)((3, 5))


PEERS: dict[str, Callable[[Row, Array], Call | None]] = {
    "OpenVINO": _openvino,
    "ONNX Runtime": _onnx_runtime,
    "PyTorch": _pytorch,
    "PyTorch, channels last": _pytorch_channels_last,
    "plain loop": plain_loop,
    "OpenCV": _opencv,
    "Pillow": _pillow,
    "numpy": _numpy,
}
