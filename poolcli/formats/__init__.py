"""Reading and writing arrays in any format: detects the format, and calls the functions of its row in `table.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from math import prod

from poolcli.dtypes import DTYPES
from poolcli.errors import RequestError
from poolcli.formats.checks import byte_count, check_memory, memory_limit_of, tensor_layout
from poolcli.formats.npy import open_raw
from poolcli.formats.recognise import (
    folder_format,
    in_subprocess_if_fragile,
    is_fragile,
    parse_source,
    recognise,
    refuse_known_format,
)
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
from poolcli.formats.table import FORMATS, output_format, suffixes_of
from poolcli.message_fields import field
from poolcli.system.lazy_imports import Array

__all__ = [
    "FORMATS",
    "ArrayContainer",
    "ArrayReader",
    "Header",
    "Metadata",
    "NamedArray",
    "ReadOptions",
    "RegionWriter",
    "Source",
    "Spec",
    "Tensor",
    "WriteOptions",
    "check_chunks",
    "check_container",
    "check_output",
    "contains_array",
    "folder_format",
    "is_container",
    "is_fragile",
    "list_arrays",
    "open_array",
    "open_container",
    "open_writer",
    "output_format",
    "parse_source",
    "read",
    "read_header",
    "write",
]


DEFAULTS = ReadOptions()


@contextmanager
def open_array(source: Source, options: ReadOptions = DEFAULTS) -> Iterator[ArrayReader]:
    """Opens an input of any format. Raises a FileError if it cannot be read."""
    if options.raw is not None:
        refuse_known_format(source.path)
        with open_raw(source, options.raw) as file:
            yield file
        return
    options = _limited(source.path, options)
    row, notes = recognise(source.path)
    with row.functions.open_array(source, options) as file:
        if notes:
            file.header = replace(file.header, notes=(*notes, *file.header.notes))
        yield file


def open_container(path: str, options: ReadOptions) -> AbstractContextManager[ArrayContainer]:
    """Opens a file of several arrays."""
    return recognise(path)[0].functions.open_container(path, _limited(path, options))


def _limited(path: str, options: ReadOptions) -> ReadOptions:
    limit = memory_limit_of(path, options.limit, options.allowed)
    return options if limit == options.limit else replace(options, limit=limit)


def read_header(source: Source, options: ReadOptions = DEFAULTS) -> Header:
    """The header of an array; its data is not read."""
    with open_array(source, options) as file:
        return file.header


def read(source: Source, options: ReadOptions = DEFAULTS) -> Tensor:
    """Reads a whole array. Raises a FileError if it needs more memory than the limit."""
    with open_array(source, options) as file:
        needed = byte_count(file.header.shape, DTYPES[file.header.dtype].itemsize) + file.header.extra_memory
        check_memory(f"{source}: needs", needed, memory_limit_of(source.path, options.limit, options.allowed))
        array = file.read(whole_region(file.header.shape))
        return Tensor(array, file.header, file.metadata)


def list_arrays(path: str, options: ReadOptions = DEFAULTS) -> list[Header]:
    """The headers of the arrays in a file that can be pooled."""
    row = recognise(path)[0]
    if row.is_container:
        with open_container(path, options) as file:
            return list(file.headers)
    with row.functions.open_array(Source(path), _limited(path, options)) as file:
        return [file.header]


def is_container(path: str) -> bool:
    """Whether the file at `path` has a format of several arrays."""
    return path != "-" and recognise(path)[0].is_container


def contains_array(source: Source) -> bool:
    """Whether a file that arrays can be added to already contains an object of this name."""
    return in_subprocess_if_fragile(source.path, partial(output_format(source.path).functions.contains, source))


def check_container(path: str) -> None:
    """Refuses an output format of one array."""
    if not output_format(path).is_container:
        suffixes = " or ".join(suffixes_of(lambda row: row.is_container and row.writes)[:2])
        raise RequestError(f"{path}: cannot hold several arrays; use {suffixes}")


def check_output(path: str, shape: Sequence[int], dtype: str, layout: str, mode: str | None = None) -> str:
    """The layout in which the output at `path` stores the array; refuses shapes and dtypes that the format lacks."""
    row = output_format(path)
    if row.is_image:
        from poolcli.formats.image.modes import stored_layout

        return stored_layout(row.name, shape, dtype, layout, mode)
    if dtype in row.unsupported_dtypes:
        raise RequestError(f"{row.name} files have no {dtype}; use {field('dtype', 'float32')}")
    return layout if mode is None else tensor_layout(layout)


def check_chunks(
    path: str, shape: Sequence[int], layout: str, chunks: tuple[int, ...] | None, shards: tuple[int, ...] | None
) -> None:
    """Refuses chunks and shards that do not apply to the output at `path`."""
    if chunks is None and shards is None:
        return
    row = output_format(path)
    if not row.chunked:
        suffixes = " and ".join(suffixes_of(lambda row: row.chunked))
        option = field("chunks" if chunks else "shards")
        raise RequestError(f"{option} is for {suffixes} outputs, and {path} is {row.name}; leave it out")
    from poolcli.formats.zarr.storage import grid_of

    grid_of(shape, layout, asked=chunks, asked_shards=chunks and shards)


def write(
    path: str,
    array: Array,
    layout: str,
    *,
    key: str | None = None,
    metadata: Metadata | None = None,
    mode: str | None = None,
    options: WriteOptions | None = None,
) -> tuple[str, ...]:
    """Writes one array atomically; returns notes on what was dropped."""
    spec = Spec(array.shape, array.dtype.name, layout, key, metadata or Metadata(), mode)
    return output_format(path).functions.write(path, [NamedArray(spec, array)], options or WriteOptions())


def open_writer(path: str, spec: Spec, options: WriteOptions) -> AbstractContextManager[RegionWriter] | None:
    """Opens an output to be written region by region; None if an array of this size is written from memory."""
    row = output_format(path)
    if row.streams_from is None or prod(spec.shape) < row.streams_from:
        return None
    return row.functions.open_writer(path, spec, options)
