"""What happens where no kernel can be built or loaded: numba or llvmlite is missing, changed or broken.

An engine that was chosen by `auto` gives way to numpy and says so once; one that was asked for by name is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from poolcli.errors import PoolError, RequestError, said_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.choose import Pool

Tell = Callable[[str], None]


class KernelError(RequestError):
    """No kernel can be built or loaded in this process; the numpy engine can compute the same."""


@contextmanager
def kernel_errors() -> Iterator[None]:
    """Turns whatever numba and llvmlite raise into a KernelError: what breaks in them is not foreseen here."""
    try:
        yield
    except (PoolError, MemoryError):
        raise
    except Exception as error:
        kind, text = type(error).__name__, said_by(error)
        reason = kind if text == kind else f"{kind}: {text}"
        raise KernelError(f"numba cannot compile kernels here ({reason}); use engine numpy or auto") from error


_warned: list[str] = []


def warn_once(reason: str) -> None:
    """Says in Python, once in a process, why numpy computes what `auto` would have given to numba."""
    if not _warned:
        _warned.append(reason)
        warnings.warn(f"poolcli computes with numpy: {reason}", RuntimeWarning, stacklevel=2)


def with_fallback(make: Callable[[], Pool], make_other: Callable[[], Pool], tell: Tell) -> Pool:
    """The function that `make` gives, or that of `make_other` from the moment that no kernel can be had, which `tell`
    is told with the reason. Kernels are built when an array comes, so that both may be found out.
    """
    found: list[Pool] = []

    def give_way(error: KernelError) -> Pool:
        tell(reason_of(error))
        found[:] = [make_other()]
        return found[0]

    try:
        found.append(make())
    except KernelError as error:
        return give_way(error)

    def pool(slab: NDArray[Any], out: NDArray[Any], threads: int | None) -> NDArray[Any] | None:
        try:
            return found[0](slab, out, threads)
        except KernelError as error:
            return give_way(error)(slab, out, threads)

    return pool


def reason_of(error: KernelError) -> str:
    """The message of the error without what it proposes."""
    return str(error).partition(";")[0]
