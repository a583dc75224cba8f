"""What computing needs, got while the input is read: reading and decoding let other threads run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from poolcli.engine import call_of
from poolcli.plan import Plan
from poolcli.plan.region import whole
from poolcli.system.lazy_imports import loading

_last: deque[Plan] = deque(maxlen=1)


def make_ready() -> None:
    """Loads what every kernel needs, whatever it computes: what says which of those that are kept are its."""
    with suppress(Exception):  # whoever computes meets it again
        from poolcli.engine.compiled import kernel_cache

        kernel_cache.opened()


@contextmanager
def meanwhile_loaded(plan: Plan, indices: bool, engine: str) -> Iterator[None]:
    """Imports the engine and loads the kernel of a plan, where one is kept, while what is inside runs; done at its end.

    A picture of 12 megapixels takes as long to be decoded as numpy and a kernel to be loaded: 0.1 s. Nothing is left to
    load for the plan of the last array, which that of the next one is in most folders.
    """
    if any(plan is last for last in _last):
        yield
        return
    helper = threading.Thread(target=_load, args=(plan, indices, engine), name="poolcli")
    helper.start()
    try:
        yield
    finally:
        with loading():
            helper.join()
    _last.append(plan)


def _load(plan: Plan, indices: bool, engine: str) -> None:
    with suppress(Exception):  # whoever computes meets it again
        call_of(whole(plan), indices=indices, engine=engine)
