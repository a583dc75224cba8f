"""The command `cache`: compiled kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from poolcli.arguments import one_of
from poolcli.cli.options import Reporting
from poolcli.cli.program import argument, command
from poolcli.engine.compiled import kernel_cache as kernels
from poolcli.message_fields import printable

ACTIONS = ("info", "warm", "clear")


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Reporting):
    """The arguments and options of `cache`."""

    action: Annotated[
        str,
        argument("info|warm|clear", choices=ACTIONS, help="Show the cache, compile all kernels into it, or empty it."),
    ]


@command("cache", CacheOptions, "poolcli cache info", "poolcli cache warm", "poolcli cache clear", exit_codes="")
def cache(request: CacheOptions) -> int:
    """Shows, fills or empties the cache; returns the exit code."""
    action = one_of("action", request.action, ACTIONS)
    if action == "clear":
        freed = kernels.clear()
        _answer(request, {"freed": freed}, f"removed {freed:,} bytes")
        return 0
    if action == "warm":
        _warm()
    found = kernels.info()
    document = {"folder": found.folder, "kernels": list(found.kernels), "bytes": found.size, "usable": found.usable}
    state = "" if found.usable else " (not writable, or open to others: kernels are compiled for each run)"
    _answer(request, document, f"{found.folder}{state}: {len(found.kernels)} kernels, {found.size:,} bytes")
    return 0


def _warm() -> None:
    """Compiles the kernels of the usual types that are not in the cache yet."""
    import numpy as np

    from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

    for dtype in ("uint8", "uint16", "float32", "float64"):
        x = np.ones((1, 1, 12, 12), dtype)
        for kernel, stride in ((3, 1), (2, 2), (7, 1)):
            AvgPool(kernel, stride)(x, engine="numba")
            MaxPool(kernel, stride)(x, engine="numba")
            MaxPool(kernel, stride)(x, engine="numba", return_indices=True)
        for size in (1, 2, 5):  # bins of whole planes, long ones and short ones
            AdaptiveAvgPool(size)(x, engine="numba")
            AdaptiveMaxPool(size)(x, engine="numba")
            AdaptiveMaxPool(size)(x, engine="numba", return_indices=True)


def _answer(request: Reporting, document: Mapping[str, Any], text: str) -> None:
    request.answer(lambda: document, lambda: printable(text))
