"""HDF5 files through h5py: read through a gate that lets nothing in but what was named, and written."""

from poolcli.formats.hdf5.append import holds
from poolcli.formats.hdf5.arrays import open_array, open_container
from poolcli.formats.hdf5.write import open_writer, write

__all__ = ["holds", "open_array", "open_container", "open_writer", "write"]
