"""What commands are given by its place."""

from __future__ import annotations

from poolcli.cli.options.option import Argument
from poolcli.cli.words import OPERATOR_WORDS
from poolcli.suggestions import listed

ARGUMENTS: dict[str, Argument] = {
    "inputs": Argument(
        "INPUT...",
        ".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy stream.",
        example="x.npy",
        path="input",
    ),
    "source": Argument(
        "INPUT", "A .npy, .npz[:key], .h5[:/dataset], .zarr[:/array] or an image.", example="x.zarr", path="input"
    ),
    "op": Argument("OP", f"{listed(OPERATOR_WORDS)}.", tuple(OPERATOR_WORDS), "avg"),
    "shape": Argument(
        "SHAPE|FILE", "A shape such as 1,3,32,32, or a file whose header is read.", example="1,3,32,32", path="input"
    ),
    "action": Argument(
        "info|warm|clear",
        "Show the cache, compile all kernels into it, or empty it.",
        ("info", "warm", "clear"),
        "info",
    ),
    "folder": Argument("FOLDER", "The output of all shards: a folder, or a .zarr.", example="pooled", path="any"),
    "first": Argument(
        "A", "A file, or an array in one: a.npy, a.h5:/data, a.npz:key, a picture.", example="a.npy", path="input"
    ),
    "second": Argument("B", "What it is compared with, of the same shape.", example="b.npy", path="input"),
    "files": Argument("FILE...", "Files to look into.", example="x.npy", path="input"),
    "x": Argument(
        "INPUT", "The array before: .npy, .npz[:key], .h5[:/dataset], ..., an image.", example="x.npy", path="input"
    ),
    "y": Argument("OUTPUT", "The array after, read in the same way.", example="y.npy", path="input"),
    "model": Argument(
        "MODEL",
        "An OpenVINO .xml, an .onnx, a .tflite or a .pt2; weights are not needed.",
        example="model.onnx",
        path="model",
    ),
}
