"""HDF5 files through h5py: read through a gate that lets nothing in but what was named, and written."""

from poolcli.formats.hdf5.append import holds
from poolcli.formats.hdf5.arrays import opened, opened_several
from poolcli.formats.hdf5.write import sink, write

__all__ = ["holds", "opened", "opened_several", "sink", "write"]
