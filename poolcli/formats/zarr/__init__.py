"""Zarr stores, of version 2 and 3, in folders and in object stores, through zarr-python."""

from poolcli.formats.zarr.arrays import opened, opened_several
from poolcli.formats.zarr.write import sink, sinks, write

__all__ = ["opened", "opened_several", "sink", "sinks", "write"]
