"""The command `cache`: the compiled kernels."""

from typing import Annotated

from poolcli.cli.messages import answer
from poolcli.cli.options import Report, argument
from poolcli.cli.program import command
from poolcli.engine.compiled import kernel_cache as kernels
from poolcli.message_fields import printable

ACTIONS = ("info", "warm", "clear")


@command("poolcli cache info", "poolcli cache warm", "poolcli cache clear", exit_codes="")
def cache(
    action: Annotated[str, argument("|".join(ACTIONS),
        "Show the cache, compile all kernels into it, or empty it.", words=ACTIONS)],
    report: Report,
) -> int:  # fmt: skip
    """Shows, fills or empties the cache; returns the exit code."""
    if action == "clear":
        freed = kernels.clear()
        answer(lambda: {"freed": freed}, lambda: f"removed {freed:,} bytes", report)
        return 0
    if action == "warm":
        _warm()
    found = kernels.info()
    state = "" if found.usable else " (not writable, or open to others: kernels are compiled for each run)"
    text = f"{found.folder}{state}: {len(found.kernels)} kernels, {found.size:,} bytes"
    document = {"folder": found.folder, "kernels": list(found.kernels), "bytes": found.size, "usable": found.usable}
    answer(lambda: document, lambda: printable(text), report)
    return 0


def _warm() -> None:
    """Compiles the kernels of the usual types that are not in the cache yet."""
    import numpy as np

    from poolcli.ops import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool

    for dtype in ("uint8", "uint16", "float32", "float64"):
        x = np.ones((1, 1, 12, 12), dtype)
        for kernel, stride in ((3, 1), (2, 2), (7, 1)):
            AvgPool(kernel, strides=stride)(x, engine="numba")
            MaxPool(kernel, strides=stride)(x, engine="numba")
            MaxPool(kernel, strides=stride)(x, engine="numba", return_indices=True)
        for size in (1, 2, 5):  # bins of whole planes, long ones and short ones
            AdaptiveAvgPool(size)(x, engine="numba")
            AdaptiveMaxPool(size)(x, engine="numba")
            AdaptiveMaxPool(size)(x, engine="numba", return_indices=True)
