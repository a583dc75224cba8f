"""Checks a model file (`poolcli check`, `poolcli.check`): recognises its format, and compares the declared shape of
each pooling layer with the computed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from operator import index

from poolcli.arguments import MAX_INT, one_of
from poolcli.dialects import DIALECTS
from poolcli.errors import FileError, MissingFileError, RequestError
from poolcli.formats.atomic import os_errors
from poolcli.formats.checks import check_name, memory_limit_of
from poolcli.message_fields import field
from poolcli.models.judge import Finding as Finding, Verdict as Verdict, judge
from poolcli.models.layer import Given, Layer, no_model
from poolcli.suggestions import did_you_mean, not_found
from poolcli.system.processes import parse_size

MAX_LISTED, MAX_ASKED = 10, 1000  # layer names in a message, and those that are compared with a misspelt one


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
    against : "openvino", "ngraph", "onnx", "pytorch" or "tensorflow", optional
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
    if not isinstance(model, str | bytes | os.PathLike):
        is_torch = any(kind.__module__.startswith("torch.") for kind in type(model).__mro__)
        save = "torch.export.save(torch.export.export(model, (x,)), 'model.pt2')"
        save = save if is_torch else "onnx.save(model, 'model.onnx')"
        raise TypeError(f"model is a {type(model).__name__}; give a file, as of {save}")
    path = os.fspath(model)
    allowed = None if max_memory is None else parse_size("max_memory", str(max_memory))
    against = None if against is None else one_of("against", against, tuple(DIALECTS))
    lengths = _checked_lengths({} if input_shape is None else input_shape)
    found, wrong = list[Finding](), None
    try:
        for each in read_model(path, lengths, memory_limit_of(path, allowed, allowed)):
            found.append(judge(each, against, bool(lengths), wrong))
            if wrong is None and found[-1].verdict == "differs":
                wrong = each.name
    except FileError as error:
        raise RequestError(error.message) from error
    names = [finding.layer.name for finding in found]
    if layer is not None and layer not in names:
        known = f"{', '.join(names[:MAX_LISTED]) or 'none'}{did_you_mean(layer, names[:MAX_ASKED])}"
        raise RequestError(f"{path}: no pooling layer is called {layer}; there are: {known}")
    return [finding for finding in found if layer in (None, finding.layer.name)]


def _checked_lengths(given: Mapping[str, Sequence[int]] | Sequence[int]) -> Given:
    """The given lengths of inputs, as positive integers; those without a name under ""."""
    with suppress(TypeError):
        named = given if isinstance(given, Mapping) else {"": given}
        lengths = {name: tuple(map(index, each)) for name, each in named.items()}
        if all(0 < length <= MAX_INT for each in lengths.values() for length in each):
            return lengths
    needed = "give whole numbers from 1 to 2**63 - 1 for each input"
    raise RequestError(f"{field('input_shape')} is {given!r:.60}; {needed}")


SIGNATURE_BYTES = 64  # by which a format is recognised
TEXT_BYTES = bytes({*range(32, 127), *b"\t\n\r"})
OTHER_FILES = {  # by their first bytes
    b"GGUF": "a GGUF file, which holds weights and no layers",
    b"\x89HDF": "an HDF5 file, such as of Keras",
    b"\x80": "a pickle, which is never opened",
    **dict.fromkeys((b"\x89PNG", b"\xff\xd8\xff", b"\x93NUMPY"), "an image or an array, not a model"),
}


def read_model(path: str, given: Given | None = None, limit: int | None = None) -> Iterable[Layer]:
    """The pooling layers of the model at `path`; a RequestError if it cannot be read.

    `given` are the lengths of inputs by name, `limit` is the memory that reading may take, in bytes.
    """
    check_name(path)
    if os.path.isdir(path):
        raise no_model(path, "a folder, not a model file")
    if not os.path.isfile(path):
        missing = MissingFileError(f"{path}: no such file{not_found(path)}")
        raise RequestError(f"{path}: no file") if os.path.exists(path) else missing
    with os_errors(path), open(path, "rb") as stream:
        head = stream.read(SIGNATURE_BYTES)
    layers: Iterable[Layer] = import_module(f"poolcli.models.{_reader(path, head)}").read(path, given or {}, limit)
    return layers


def _reader(path: str, head: bytes) -> str:
    """The module that reads a file with this beginning."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "ir"
    if head[4:8] == b"TFL3":
        return "tflite"
    if head.startswith(b"PK"):
        return "pt2"
    other = next((kind for signature, kind in OTHER_FILES.items() if head.startswith(signature)), None)
    if not head.translate(None, TEXT_BYTES):
        other = "a text file, not a model" if head else "not a model: the file is empty"
    if path.endswith(".bin") and os.path.isfile(model := f"{path[:-4]}.xml"):
        raise RequestError(f"{path}: holds the weights of an OpenVINO IR; its layers are in {model}: give that")
    if other:
        raise no_model(path, other)
    return "onnx_layers"
