"""Which format a model file is in, told by what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from poolcli.errors import RequestError
from poolcli.models.layer import EXPORT_FROZEN, EXPORT_KERAS, EXPORT_SAVED, EXPORT_TORCH, Layer, NotOnnxError
from poolcli.suggestions import did_you_mean_file

Given = Mapping[str, tuple[int, ...]]
GGUF = "a GGUF file, which holds weights and no layers; export the model itself: " + EXPORT_TORCH
READ = "check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
HEAD = 64  # bytes by which a format is told
CORE_ML = f"a Core ML model, which is not read; check what it was converted from; {EXPORT_TORCH}"
TENSORRT = "a TensorRT engine, which has no layers left to check; check the ONNX model that it was built from"
NAMED = {  # files that are protobuf as ONNX is, or that have no mark
    ".mlmodel": CORE_ML,
    ".engine": TENSORRT,
    ".plan": TENSORRT,
    ".trt": TENSORRT,
    "saved_model.pb": f"a SavedModel of TensorFlow; {EXPORT_SAVED}",
    ".pb": f"a frozen graph of TensorFlow; {EXPORT_FROZEN}",
    ".pdmodel": "a PaddlePaddle model, which is not read; convert it: paddle2onnx --model_dir FOLDER",
    ".gguf": GGUF,
}
TEXT = bytes({*range(32, 127), *b"\t\n\r"})  # of which no model consists


def read_model(path: str, given: Given | None = None, limit: int | None = None) -> Iterator[Layer]:
    """The pooling layers of the model at `path`, its inputs as long as `given` says, while it is read; `limit` is the
    memory that reading may take, in bytes.

    A RequestError of one line for what is no model that can be read.
    """
    found = Path(path)
    try:
        if found.is_dir() or not found.is_file():
            what = (
                _folder(found)
                if found.is_dir()
                else "no file"
                if found.exists()
                else f"no such file{did_you_mean_file(path)}"
            )
            raise RequestError(f"{path}: {what}")
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from None
    yield from _reader(path, head, limit)(path, given or {})


def _folder(path: Path) -> str:
    """What a folder is."""
    if (path / "saved_model.pb").is_file():
        return f"a SavedModel of TensorFlow; {EXPORT_SAVED}"
    if path.suffix == ".mlpackage" or (path / "Data" / "com.apple.CoreML").is_dir():
        return CORE_ML
    return f"a folder, not a model file; {READ}"


def _reader(path: str, head: bytes, limit: int | None) -> Callable[[str, Given], Iterable[Layer]]:
    """The reader of what begins with `head`."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        from poolcli.models.ir import read_ir

        return read_ir
    if head[4:8] == b"TFL3":
        from poolcli.models.tflite import read_tflite

        return read_tflite
    if head.startswith(b"PK"):
        from poolcli.models.pt2 import read_pt2

        return partial(read_pt2, limit=limit)
    for matches, why in OTHERS:
        if matches(head):
            raise RequestError(f"{path}: {why}")
    return partial(_read_onnx, limit=limit)


def _read_onnx(path: str, given: Given, limit: int | None) -> Iterator[Layer]:
    """The layers of an ONNX file. What it is instead is told by its name: protobuf has no mark of its own."""
    from poolcli.models.onnx_layers import read_onnx

    try:
        yield from read_onnx(path, given, limit)
    except NotOnnxError:
        what = next((why for ends, why in NAMED.items() if path.lower().endswith(ends)), None)
        if what is None:
            raise
        raise RequestError(f"{path}: {what}") from None


def _begins(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(starts)


OTHERS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (lambda head: not head, "not a model: the file is empty"),
    (lambda head: not head.strip(b"\0"), f"not a model: only zeros; {READ}"),
    (lambda head: not head.translate(None, TEXT), f"a text file, not a model; {READ}"),
    (_begins(b"GGUF"), GGUF),
    (_begins(b"ptrt", b"ftrt"), TENSORRT),
    (lambda head: head[4:8] == b"ORTM", "an ONNX Runtime model (.ort); check the ONNX model that it was made from"),
    (_begins(b"\x89HDF"), f"an HDF5 file; if it is a Keras model, {EXPORT_KERAS}"),
    (
        _begins(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        f"a pickle, which is never opened; if it is a PyTorch model, {EXPORT_TORCH}",
    ),
    (
        _begins(b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"RIFF"),
        f"an image, not a model; {READ}",
    ),
    (_begins(b"\x93NUMPY"), f"an array, not a model; {READ}"),
    (_begins(b"\x7fELF", b"%PDF", b"\x1f\x8b"), f"not a model; {READ}"),
)
