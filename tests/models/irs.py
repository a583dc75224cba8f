"""OpenVINO models written by hand, as small as they can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PORTS = '<input><port id="0" precision="FP32">{}</port></input><output><port id="1" precision="FP32">{}</port></output>'
AVG = 'exclude-pad="true" kernel="2,2" pads_begin="0,0" pads_end="0,0" strides="2,2"'
PARAMETER = (
    '<layer id="1" name="x" type="Parameter" version="opset1"><data shape="{}" element_type="f32"/>'
    '<output><port id="0" precision="FP32">{}</port></output></layer>'
)


def dims(shape: Sequence[object]) -> str:
    return "".join(f"<dim>{size}</dim>" for size in shape)


def layer(
    data: str, inputs: Sequence[object], outputs: Sequence[object], kind: str = "AvgPool", version: str = "opset1",
    name: str = "pool",
) -> str:  # fmt: skip
    """A layer with one input and one output of these shapes."""
    ports = PORTS.format(dims(inputs), dims(outputs))
    return f'<layer id="0" name="{name}" type="{kind}" version="{version}"><data {data}/>{ports}</layer>'


def model(path: Path, *layers: str, edges: str = "") -> Path:
    """A model of these layers, which OpenVINO itself need not read."""
    text = f'<net name="m" version="11"><layers>{"".join(layers)}</layers><edges>{edges}</edges></net>'
    path.write_text(f'<?xml version="1.0"?>{text}')
    return path


def runnable(path: Path, one: str, inputs: Sequence[object]) -> Path:
    """A model of this layer alone, between an input and a result, as OpenVINO reads it."""
    given = PARAMETER.format(",".join(map(str, inputs)), dims(inputs))
    port = '<port id="0" precision="FP32"></port>'
    result = f'<layer id="2" name="r" type="Result" version="opset1"><input>{port}</input></layer>'
    edges = (
        '<edge from-layer="1" from-port="0" to-layer="0" to-port="0"/>'
        '<edge from-layer="0" from-port="1" to-layer="2" to-port="0"/>'
    )
    return model(path, given, one, result, edges=edges)
