"""A limit to the memory that a library may take while it unpacks what a file says is small."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from poolcli.errors import FileError
from poolcli.system.signals import is_own_process

LEAST = 2**25  # bytes that any library may take for its own ends
LARGER = 16  # times what is unpacked: what some decoders take for what lies in between


@contextmanager
def limit_memory(where: str, unpacked: int, beside: int = 0) -> Iterator[None]:
    """Lets the process take `beside` bytes more than now, and as many as it may take to unpack so many at a time.

    A library that asks for more gets none, and says so as it can; where it is by a MemoryError, that becomes a
    FileError. The system counts this on Linux; elsewhere there is no limit. It holds for all threads of the process,
    so there is none either in a process with threads that are not poolcli's: of a notebook, of Dask.
    """
    if sys.platform != "linux" or not is_own_process():
        yield
        return
    import resource

    soft, hard = before = resource.getrlimit(resource.RLIMIT_DATA)
    most = _taken() + LEAST + LARGER * unpacked + beside
    lowest = min([most, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, hard))
    try:
        yield
    except MemoryError as error:
        raise FileError(f"{where}: takes far more memory to unpack than its chunks say") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _taken() -> int:
    """The bytes of memory that the process may write to."""
    with open("/proc/self/status", "rb") as status:
        line = next(line for line in status if line.startswith(b"VmData:"))
    return int(line.split()[1]) * 1024
