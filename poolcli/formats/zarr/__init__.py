"""Zarr stores, of version 2 and 3, in folders and in object stores, through zarr-python."""

from poolcli.formats.zarr.arrays import open_array, open_container
from poolcli.formats.zarr.write import open_writer, open_writers, write

__all__ = ["open_array", "open_container", "open_writer", "open_writers", "write"]
