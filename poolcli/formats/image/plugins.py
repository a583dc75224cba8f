"""Pillow's plugins: those that it may try on a file, and the one that it needs."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from poolcli.formats.table import FORMATS, Format

PACKAGE = "poolcli.formats.image"
HEIF = "HEIF"  # known to Pillow after pillow_heif has said so


def pillow_names() -> tuple[str, ...]:
    """The formats that Pillow may try: those of the table and no others (it would start Ghostscript for EPS)."""
    return tuple(row.name.upper() for row in FORMATS.values() if row.module == PACKAGE)


def likeliest_first(start: bytes) -> tuple[str, ...]:
    """The formats in the order in which Pillow tries them, the one first that a file has by its first bytes."""
    likely = [row for row in FORMATS.values() if row.plugin and start.startswith(row.magic)]
    for row in likely:
        load_plugin(row)
    first = tuple(row.name.upper() for row in likely)
    return (*first, *(name for name in pillow_names() if name not in (*first, HEIF)))


def load_plugin(row: Format) -> None:
    """Loads the plugin of a format: for one that it does not know yet, Pillow loads all of its forty, in 50 ms."""
    with suppress(ImportError):
        import_module(row.plugin)
