"""File formats: a table of what each can do, and the questions that are asked of every one of them."""

from poolcli.formats.files import (
    check_holds_several,
    check_output,
    holds_several,
    list_arrays,
    opened,
    read,
    read_header,
    sink,
    write,
    write_several,
)
from poolcli.formats.recognise import can_crash, folder_format, parse_source
from poolcli.formats.records import (
    Header,
    Metadata,
    Named,
    Opened,
    ReadOptions,
    Sink,
    Source,
    Spec,
    Tensor,
    WriteOptions,
)
from poolcli.formats.table import FORMATS, Format, format_of

__all__ = [
    "FORMATS",
    "Format",
    "Header",
    "Metadata",
    "Named",
    "Opened",
    "ReadOptions",
    "Sink",
    "Source",
    "Spec",
    "Tensor",
    "WriteOptions",
    "can_crash",
    "check_holds_several",
    "check_output",
    "folder_format",
    "format_of",
    "holds_several",
    "list_arrays",
    "opened",
    "parse_source",
    "read",
    "read_header",
    "sink",
    "write",
    "write_several",
]
