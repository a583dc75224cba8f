"""Standard streams that a process was started without (`>&-`)."""

from __future__ import annotations

import os
import sys

STREAMS = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def replace_closed_streams() -> None:
    """Puts something in the place of closed streams, so that no file that is opened gets their numbers.

    Nothing can be read there, and what is printed on standard error is lost; standard output fails as soon as anything
    is written to it, as closed ones do.
    """
    for number, (name, mode, flags) in enumerate(STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # for as long as the process lives
