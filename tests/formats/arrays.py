"""Arrays written to files of any format and found in them, without the command line."""

from __future__ import annotations

from typing import Any

from poolcli.formats import (
    Header,
    Metadata,
    NamedArray,
    ReadOptions,
    Source,
    Spec,
    WriteOptions,
    open_container,
    output_format,
    read_header,
    recognise,
)

NOTHING = Metadata()
NEW = WriteOptions()


def write(
    path: str,
    array: Any,
    layout: str,
    *,
    key: str | None = None,
    metadata: Metadata = NOTHING,
    options: WriteOptions = NEW,
) -> Any:
    """Writes one array; returns the notes on what was dropped."""
    spec = Spec(array.shape, array.dtype.name, layout, key, metadata)
    return output_format(path).functions.write(path, [NamedArray(spec, array)], options)


def list_arrays(path: str) -> list[Header]:
    """The headers of the arrays in a file that can be pooled."""
    if not recognise(path).is_container:
        return [read_header(Source(path))]
    with open_container(path, ReadOptions()) as file:
        return list(file.headers)
