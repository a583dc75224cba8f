"""What the filters of a chunk make of it, one after another, held to the bytes that the chunk must have.

HDF5 itself believes them: what is too long it unpacks to its end, and what is too short it fills with whatever lies
behind it in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from poolcli.errors import FileError
from poolcli.formats.checks import human_bytes
from poolcli.formats.hdf5.builtin_filters import BUILT_IN, FLETCHER32, Unpacked
from poolcli.formats.hdf5.plugin_filters import unpacked_by_plugin

Filter = tuple[int, tuple[int, ...]]  # its number and its values
MORE = 64  # bytes that a filter may add to the numbers before the next one packs them


def unpacked(where: str, data: bytes, filters: Sequence[Filter], size: int) -> bytes | None:
    """A chunk of `size` bytes, without its filters (numbers and values); None where h5py is to unpack it.

    A FileError for one that is more or less, or damaged.
    """
    found: Unpacked | None = data
    for code, values in reversed(filters):
        if not isinstance(found, bytes):
            return None  # of what h5py is to unpack, nothing is known before
        undo = BUILT_IN.get(code)
        found = undo(found, values, size + MORE) if undo else unpacked_by_plugin(code, found, values, size + MORE)
        if found == b"" or (isinstance(found, int) and found > size + MORE):
            break
    if found is None:
        return None
    length = found if isinstance(found, int) else len(found)
    if length != size:
        what = f"unpacks to {'more' if length > size else 'less'}" if length else "cannot be unpacked"
        raise FileError(f"{where}: has a chunk of {human_bytes(size)} that {what}")
    summed = any(code == FLETCHER32 for code, _ in filters)  # which h5py compares
    return found if isinstance(found, bytes) and not summed else None
