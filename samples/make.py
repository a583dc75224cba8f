"""Makes the sample files. Needs scikit-image, whose package holds the photograph (NASA, public domain).

Run from the project's root: python samples/make.py
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from PIL import Image
from skimage.data import astronaut

HERE = Path(__file__).parent


def main() -> None:
    """Writes a photograph, a feature map, a volume and a model beside this script."""
    photo = Image.fromarray(astronaut()).crop((96, 0, 352, 192))
    photo.save(HERE / "astronaut.png", optimize=True)
    np.save(HERE / "features.npy", features(np.asarray(photo.convert("L"), np.float32)))
    with h5py.File(HERE / "volume.h5", "w") as file:
        dataset = file.create_dataset("volume", data=ball(16, 32, 32), chunks=(1, 1, 8, 16, 16), compression="gzip")
        dataset.attrs["spacing_mm"] = (2.0, 1.0, 1.0)
    (HERE / "backbone.xml").write_text(backbone())


def backbone() -> str:
    """A small network without weights as OpenVINO IR: three poolings between layers that fold pixels into channels."""
    pads = 'pads_begin="{0},{0}" pads_end="{0},{0}"'
    layers = (
        ("image", "Parameter", "opset1", ("-1", 3, 220, 220), 'shape="-1,3,220,220" element_type="f32"'),
        ("patches", "SpaceToDepth", "opset1", ("-1", 12, 110, 110), 'mode="blocks_first" block_size="2"'),
        ("stem", "MaxPool", "opset8", ("-1", 12, 55, 55), 'dilations="1,1" kernel="3,3" strides="2,2" '
         f'{pads.format(1)} rounding_type="floor" auto_pad="explicit" index_element_type="i64" axis="0"'),
        ("transition", "AvgPool", "opset1", ("-1", 12, 28, 28), 'kernel="2,2" strides="2,2" '
         f'{pads.format(0)} exclude-pad="false" rounding_type="ceil" auto_pad="explicit"'),
        ("fold", "SpaceToDepth", "opset1", ("-1", 192, 7, 7), 'mode="blocks_first" block_size="4"'),
        ("head", "AvgPool", "opset1", ("-1", 192, 1, 1), 'kernel="7,7" strides="1,1" '
         f'{pads.format(0)} exclude-pad="true" rounding_type="floor" auto_pad="valid"'),
        ("scores", "Result", "opset1", (), ""),
    )  # fmt: skip
    lines, before = ['<?xml version="1.0"?>', '<net name="backbone" version="11">', "  <layers>"], ()
    for i, (name, kind, version, shape, data) in enumerate(layers):
        lines.append(f'    <layer id="{i}" name="{name}" type="{kind}" version="{version}">')
        lines += [f"      <data {data}/>"] * bool(data)
        for tag, lengths in (("input", before), ("output", shape)):
            dims = "".join(f"<dim>{n}</dim>" for n in lengths)
            port = f'<port id="{tag == "output":d}" precision="FP32">{dims}</port>'
            lines += [f"      <{tag}>{port}</{tag}>"] * bool(lengths)
        if kind == "MaxPool":  # indices
            lines[-1] = lines[-1].replace("</output>", f'<port id="2" precision="I64">{dims}</port></output>')
        lines.append("    </layer>")
        before = shape
    edge = '    <edge from-layer="{}" from-port="1" to-layer="{}" to-port="0"/>'
    edges = [edge.format(i, i + 1) for i in range(len(layers) - 1)]
    return "\n".join([*lines, "  </layers>", "  <edges>", *edges, "  </edges>", "</net>", ""])


def features(gray: np.ndarray) -> np.ndarray:
    """A small feature map, N=1 C=4 H=28 W=28: brightness, two edge filters and their strength."""
    small = gray[:168, :168].reshape(28, 6, 28, 6).mean((1, 3)) / 255
    dy, dx = np.gradient(small)
    return np.stack([small, dx, dy, np.hypot(dx, dy)])[None].astype(np.float32)


def ball(depth: int, height: int, width: int) -> np.ndarray:
    """A soft ball in a volume, N=1 C=1 D H W, 0 to 255."""
    d, h, w = np.ogrid[-1 : 1 : depth * 1j, -1 : 1 : height * 1j, -1 : 1 : width * 1j]
    return np.clip(255 * (1.2 - np.sqrt(d * d + h * h + w * w)), 0, 255).astype(np.uint8)[None, None]


if __name__ == "__main__":
    main()
