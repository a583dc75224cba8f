"""Reading and writing arrays in any format: recognises the format, and calls the functions of its row in `table.py`."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from math import prod
from typing import TypeVar

from poolcli.errors import FileError, PoolError, RequestError, unexpected
from poolcli.formats.atomic import is_device
from poolcli.formats.checks import check_memory, check_name, human_bytes, memory_limit_of, open_chosen, tensor_layout
from poolcli.formats.files import check_url, is_url
from poolcli.formats.records import (
    ArrayContainer,
    ArrayReader,
    Header,
    Metadata,
    NamedArray,
    ReadOptions,
    RegionWriter,
    Source,
    Spec,
    Tensor,
    WriteOptions,
    whole_region,
)
from poolcli.formats.table import FORMATS, USES, Format, format_by_magic, format_by_suffix, output_format, suffixes_of
from poolcli.message_fields import field
from poolcli.suggestions import not_found, other_program
from poolcli.windows import ceil_div

__all__ = [
    "FORMATS", "ArrayContainer", "ArrayReader", "Header", "Metadata", "NamedArray", "ReadOptions", "RegionWriter",
    "Source", "Spec", "Tensor", "WriteOptions", "output_format",
]  # fmt: skip

DEFAULTS = ReadOptions()
MOST_COMPRESSION = 50  # by zstd and deflate photographs shrink to 1/1.2, rain to 1/16, masks to 1/30 to 1/60
START = 1024  # bytes of a file by which its format is recognised
MODEL_SUFFIXES = (".xml", ".onnx", ".tflite", ".pt2")
Result = TypeVar("Result")


def parse_source(text: str, dataset: str | None = None) -> Source:
    """Splits `a.npz:key` at the first colon after a folder or a container's extension, unless such a file exists."""
    check_name(text)
    check_url(text)
    if dataset is not None or ":" not in text or os.path.lexists(text):
        return Source(text, dataset)
    keyed = suffixes_of(lambda row: row.is_container) + (".zip",) * is_url(text)
    colons = (i for i, sign in enumerate(text) if sign == ":" and not text.startswith("::", i))
    place = next((i for i in colons if text[:i].lower().endswith(keyed) or os.path.isdir(text[:i])), None)
    return Source(text) if place is None else Source(text[:place], text[place + 1 :])


def folder_format(path: str) -> Format | None:
    """The format of a folder or URL that is one input, such as a Zarr store; None for any other path."""
    if is_url(path):
        return format_by_suffix(path) or next(row for row in FORMATS.values() if row.remote)
    if not os.path.isdir(path):
        return None
    rows = [row for row in FORMATS.values() if row.is_folder]
    marked = (row for row in rows if any(os.path.lexists(os.path.join(path, name)) for name in row.markers))
    named = format_by_suffix(path)
    return next(marked, named if named in rows else None)


def recognised(source: Source) -> Source:
    """The source with its format, by which it is opened without another look at its first bytes."""
    return source if source.format else replace(source, format=recognise(source.path).name)


def recognise(path: str) -> Format:
    """The format of an input by its magic number, or else by its extension; `-` is .npy."""
    if path == "-":
        return FORMATS["npy"]
    named = format_by_suffix(path)
    if is_url(path) and named and not named.remote:
        raise FileError(f"{path}: only Zarr is read from URLs; copy the file first")
    found = folder_format(path)
    start = b"" if found else _start_of(path)
    found = found or format_by_magic(start)
    is_certain = found is not None and found.name not in ("npz", "npy.gz")  # which any archive may be
    if not is_certain and (other := other_program(path, start)):
        raise FileError(f"{path}: {other}")
    found = found or named
    if not found:
        if path.lower().endswith(MODEL_SUFFIXES):
            raise FileError(f"{path}: is a model, not an array; use poolcli check {path}")
        raise FileError(f"{path}: is not in a format that poolcli reads ({', '.join(FORMATS)})")
    return found


def _start_of(path: str) -> bytes:
    """The first bytes of a regular file; devices, pipes and folders are refused without blocking."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            is_regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            start = stream.read(START) if is_regular else b""
    except OSError as error:
        if isinstance(error, IsADirectoryError):
            raise FileError(f"{path}: is a folder; name its files, as in {path.rstrip('/')}/*") from error
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise FileError(f"{path}: {error.strerror}{not_found(path) if is_missing else ''}") from error
    if not start:
        raise FileError(f"{path}: is {'empty' if is_regular else 'not a regular file'}")
    return start


def is_fragile(source: Source, output: str | None = None) -> bool:
    """Whether a library may crash on a damaged `source` or on a full disk at `output`."""
    rows = [format_by_suffix(output)] if output else []
    with suppress(FileError):
        rows.append(FORMATS[str(recognised(source).format)])
    return any(row is not None and row.fragile for row in rows)


def in_subprocess_if_fragile(path: str, look: Callable[[], Result]) -> Result:
    """The result of `look`, called in a subprocess if the format at `path` is fragile; a crash becomes a PoolError."""
    processes = sys.modules.get("multiprocessing.process")  # importing it takes 10 ms
    is_worker = processes is not None and processes.current_process().daemon  # its parent handles crashes
    if not is_worker and sys.platform == "linux" and is_fragile(Source(path)):
        from poolcli.system.processes import run_in_subprocess

        return run_in_subprocess(path, look)
    try:
        return look()
    except PoolError:
        raise
    except Exception as error:
        raise unexpected(error, path) from error


@contextmanager
def open_array(source: Source, options: ReadOptions = DEFAULTS) -> Iterator[ArrayReader]:
    """Opens an input of any format. Raises a FileError if it cannot be read."""
    row, named = FORMATS[str(recognised(source).format)], format_by_suffix(source.path)
    functions, options = row.functions, _with_limit(source.path, options)
    with ExitStack() as stack:
        if hasattr(functions, "open_array"):
            file = stack.enter_context(functions.open_array(source, options))
        else:
            container = stack.enter_context(functions.open_container(source.path, options))
            file = open_chosen(container, source, options.ndim)
        if named not in (None, row):
            note = f"the file is {row.name}, despite its extension"
            file.header = replace(file.header, notes=(note, *file.header.notes))
        yield file


def open_container(path: str, options: ReadOptions) -> AbstractContextManager[ArrayContainer]:
    """Opens a file of several arrays."""
    return recognise(path).functions.open_container(path, _with_limit(path, options))  # type: ignore[no-any-return]


def _with_limit(path: str, options: ReadOptions) -> ReadOptions:
    return replace(options, limit=memory_limit_of(path, options.limit, options.allowed))


def read_header(source: Source, options: ReadOptions = DEFAULTS) -> Header:
    """The header of an array; its data is not read."""
    with open_array(source, options) as file:
        return file.header


def read(source: Source, options: ReadOptions = DEFAULTS) -> Tensor:
    """Reads a whole array. Raises a FileError if it needs more memory than the limit."""
    with open_array(source, options) as file:
        needed = file.header.nbytes + file.header.extra_memory
        check_memory(f"{source}: needs", needed, memory_limit_of(source.path, options.limit, options.allowed))
        array = file.read(whole_region(file.header.shape))
        return Tensor(array, file.header, file.metadata)


def check_output(path: str, shape: Sequence[int], dtype: str, layout: str, mode: str | None = None) -> str:
    """The layout in which the output at `path` stores the array; refuses shapes and dtypes that the format lacks."""
    row = output_format(path)
    if row.is_image:
        from poolcli.formats.image.modes import stored_layout

        return stored_layout(row.name, shape, dtype, layout, mode)
    if dtype in row.unsupported_dtypes:
        raise RequestError(f"{row.name} files have no {dtype}; use {field('dtype', 'float32')}")
    return layout if mode is None else tensor_layout(layout)


def check_space(arrays: Iterable[tuple[str, int, Header | None]]) -> None:
    """Refuses arrays that together need more than the free space of their disk: paths, sizes in bytes, and the headers
    of inputs whose storage they keep. Those that will be compressed may be MOST_COMPRESSION times as large.
    """
    needed = dict[int, int]()  # by disks
    for path, size, kept in arrays:
        if path == "-" or is_url(path) or is_device(path):
            continue
        folder = os.path.dirname(os.path.realpath(path))
        while not os.path.exists(folder):  # it will be made
            folder = os.path.dirname(folder)
        disk, (total, _, free) = os.stat(folder).st_dev, shutil.disk_usage(folder)
        row = output_format(path)
        known = kept.compressed if kept and kept.format == row.name else None
        compresses = row.compresses if known is None else known
        needed[disk] = needed.get(disk, 0) + ceil_div(size, MOST_COMPRESSION if compresses else 1)
        if needed[disk] > free and total:  # some network drives say 0 of everything
            takes = f"{'takes at least' if compresses else 'is'} {human_bytes(needed[disk])}"
            raise RequestError(
                f"the result {takes}, more than the {human_bytes(free)} that are free where {path} is written; "
                f"make it smaller, or use another {field('output')}"
            )


def check_options(given: Collection[str], inputs: Sequence[Source], outputs: Sequence[Source] = ()) -> None:
    """Refuses options that no file of a run uses; of several files they are for those that do."""
    for name, use in USES.items():
        files = outputs if use.of_output else inputs
        if name in given and files and not any(_is_for(each, use.has, use.of_output) for each in files):
            raise RequestError(f"{files[0].path}: {field(name)} is for {use.files}; leave it out")


def _is_for(file: Source, has: str, of_output: bool) -> bool:
    """Whether an option is for a file; true if the format is unknown, which is refused where the file is used."""
    with suppress(PoolError):
        row = output_format(file.path) if of_output else FORMATS[str(recognised(file).format)]
        return bool(getattr(row, has))
    return True


def open_writer(path: str, spec: Spec, options: WriteOptions) -> AbstractContextManager[RegionWriter] | None:
    """Opens an output to be written region by region; None if an array of this size is written from memory."""
    row = output_format(path)
    return row.functions.open_writer(path, spec, options) if prod(spec.shape) >= row.streams_from else None
