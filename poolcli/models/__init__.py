"""Checks a model file (`poolcli check`, `poolcli.check`): recognises its format, and compares the declared shape of
each pooling layer with the computed one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from pathlib import Path

from poolcli.arguments import MAX_INT, one_of, whole_number
from poolcli.dialects import DIALECTS
from poolcli.errors import MissingFileError, RequestError
from poolcli.formats.checks import memory_limit_of
from poolcli.message_fields import field
from poolcli.models.judge import Finding as Finding
from poolcli.models.judge import Verdict as Verdict
from poolcli.models.judge import judge
from poolcli.models.layer import EXPORT_KERAS, EXPORT_TORCH, SAVED_MODEL, Given, Layer
from poolcli.suggestions import did_you_mean
from poolcli.system.processes import parse_size

MAX_LISTED = 10  # layer names in a message


def check(
    model: str | os.PathLike[str],
    *,
    input_shape: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    against: str | None = None,
    layer: str | None = None,
    max_memory: int | str | None = None,
) -> list[Finding]:
    """Recompute the output shape of each pooling layer of a model and compare it with the declared one.

    Parameters
    ----------
    model : str or path
        OpenVINO IR (`.xml`), ONNX, TensorFlow Lite, or an archive of torch.export.
    input_shape : mapping of str to sequence of int, or sequence of int, optional
        Shapes of the model's inputs, by name, in place of dynamic dimensions; of the only input also without a name.
    against : {"openvino", "ngraph", "onnx", "pytorch", "tensorflow"}, optional
        Framework whose interpretation of the same attributes is added to the warnings.
    layer : str, optional
        Name of the only layer to check.
    max_memory : int or str, optional
        Memory that reading the model may take, in bytes or as "2G". Default: no limit, except that a file of less than
        1 MiB may take 768 MiB.

    Returns
    -------
    list of Finding
        One per layer, in the order of the file.

    Raises
    ------
    RequestError
        For another kind of file, and for a layer that is not in it.

    Examples
    --------
    >>> [(finding.layer.type, finding.verdict) for finding in check("samples/backbone.xml")]
    [('MaxPool', 'agrees'), ('AvgPool', 'agrees'), ('AvgPool', 'agrees')]
    """
    path, allowed = os.fspath(model), _byte_count(max_memory)
    against = None if against is None else one_of("against", against, tuple(DIALECTS))
    lengths = _checked_lengths({} if input_shape is None else input_shape)
    found, names, wrong = list[Finding](), list[str](), None
    for each in read_model(path, lengths, memory_limit_of(path, allowed, allowed)):
        finding = judge(each, against, bool(lengths), wrong)
        if wrong is None and finding.verdict == "differs":
            wrong = each.name
        if layer in (None, each.name):
            found.append(finding)
        elif len(names) < MAX_LISTED:
            names.append(each.name)
    if layer is not None and not found:
        raise RequestError(
            f"{path}: no pooling layer is called {layer}; there are: {', '.join(names) or 'none'}"
            + did_you_mean(layer, names)
        )
    return found


def _byte_count(given: int | str | None) -> int | None:
    """Bytes from a number, or from a size such as "2G"."""
    if given is None or isinstance(given, str):
        return None if given is None else parse_size(given, field("max_memory"))
    count = whole_number("max_memory", given)
    if count < 1:
        raise RequestError(f"{field('max_memory')} is {count}; give bytes from 1 on, or a size such as '2G'")
    return count


def _checked_lengths(given: Mapping[str, Sequence[int]] | Sequence[int]) -> Given:
    """The given lengths of inputs, as positive integers; those without a name under ""."""
    try:
        named = given if isinstance(given, Mapping) else {"": given}
        lengths = {name: tuple(map(index, each)) for name, each in named.items()}
    except TypeError:
        example = {"x": (1, 3, 640, 640)}
        raise RequestError(
            f"{field('input_shape')} is {given!r:.60}; give lengths by name, such as {example}"
        ) from None
    for name, each in lengths.items():
        if not all(0 < length <= MAX_INT for length in each):
            of = f" of {name}" if name else ""
            raise RequestError(f"{field('input_shape')}{of} is {each}; lengths are from 1 to 2**63 - 1")
    return lengths


SUPPORTED = "check reads ONNX, OpenVINO IR (.xml), TensorFlow Lite and torch.export (.pt2)"
SIGNATURE_BYTES = 64  # by which a format is recognised
TEXT_BYTES = bytes({*range(32, 127), *b"\t\n\r"})
OTHER_FILES: dict[tuple[bytes, ...], str] = {  # by their first bytes
    (b"GGUF",): f"a GGUF file, which holds weights and no layers; export the model itself: {EXPORT_TORCH}",
    (b"\x89HDF",): f"an HDF5 file; if it is a Keras model, {EXPORT_KERAS}",
    (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"): (
        f"a pickle, which is never opened; if it is a PyTorch model, {EXPORT_TORCH}"
    ),
    (b"\x89PNG", b"\xff\xd8\xff", b"\x93NUMPY"): f"an image or an array, not a model; {SUPPORTED}",
}


def read_model(path: str, given: Given | None = None, limit: int | None = None) -> Iterable[Layer]:
    """The pooling layers of the model at `path`; a RequestError if it cannot be read.

    `given` are the lengths of inputs by name, `limit` is the memory that reading may take, in bytes.
    """
    found = Path(path)
    try:
        if found.is_dir():
            saved = (found / "saved_model.pb").is_file()
            raise RequestError(f"{path}: {SAVED_MODEL if saved else f'a folder, not a model file; {SUPPORTED}'}")
        if not found.is_file():
            if found.exists():
                raise RequestError(f"{path}: no file")
            raise MissingFileError(f"{path}: no such file")
        with open(path, "rb") as stream:
            head = stream.read(SIGNATURE_BYTES)
    except MissingFileError:
        raise
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror or error}") from None
    return _reader(path, head)(path, given or {}, limit)


def _reader(path: str, head: bytes) -> Callable[[str, Given, int | None], Iterable[Layer]]:
    """The function that reads a file with this beginning."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        from poolcli.models.ir import read_ir

        return read_ir
    if head[4:8] == b"TFL3":
        from poolcli.models.tflite import read_tflite

        return read_tflite
    if head.startswith(b"PK"):
        from poolcli.models.pt2 import read_pt2

        return read_pt2
    other = next((kind for signatures, kind in OTHER_FILES.items() if head.startswith(signatures)), None)
    if not head:
        other = "not a model: the file is empty"
    elif not head.translate(None, TEXT_BYTES):
        other = f"a text file, not a model; {SUPPORTED}"
    elif head[4:8] == b"ORTM":
        other = "an ONNX Runtime model (.ort); check the ONNX model that it was made from"
    if other:
        raise RequestError(f"{path}: {other}")
    from poolcli.models.onnx_layers import read_onnx

    return read_onnx
