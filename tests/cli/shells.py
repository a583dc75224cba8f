"""Interactive shells in terminals of their own: what a line becomes when somebody presses the tabulator."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self


class Shell(NamedTuple):
    """How a shell is started without anybody's settings; how its words are completed, and a key writes its line."""

    start: tuple[str, ...]
    settings: str


SHELLS = {
    "bash": Shell(
        ("bash", "--norc", "--noprofile", "-i"),
        'source ./script; bind -x \'"\\C-xq": printf %s "$READLINE_LINE" >line.part; mv line.part line\'',
    ),
    "zsh": Shell(
        ("zsh", "-f", "-i"),
        "autoload -U compinit; compinit -u -D; source ./script; unsetopt zle_bracketed_paste; "
        "dump() { print -rn -- $BUFFER >line.part; mv line.part line }; zle -N dump; bindkey '^Xq' dump",
    ),
    "fish": Shell(
        ("fish", "--no-config", "-i"),
        "source ./script; bind \\cxq 'commandline | string collect | read -z -l it; "
        "printf %s (string trim -r -c \\n -- $it) >line.part; mv line.part line'",
    ),
}
CLEAR, TAB, DUMP, ENTER = "\x15", "\t", "\x18q", "\r"
PATIENCE = 60.0  # seconds


class Typist:
    """Types into a shell whose `script` completes words, in the folder."""

    def __init__(self, shell: Shell, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(shell.start[0], shell.start, {**environment, "TERM": "xterm", "HOME": str(folder)})  # noqa: S606
        self._type(f"{shell.settings}; touch ready{ENTER}")
        self._wait_for(folder / "ready")

    def completed(self, typed: str) -> str:
        """The line after the tabulator."""
        line = self._folder / "line"
        line.unlink(missing_ok=True)
        self._type(f"{CLEAR}{typed}{TAB}{DUMP}")
        self._wait_for(line)
        return line.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.close(self._terminal)
        os.waitpid(self._pid, 0)

    def _type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def _wait_for(self, file: Path) -> None:
        """Until the file is there; what the shell shows meanwhile is taken from it, so that it does not wait for us."""
        shown, end = b"", time.monotonic() + PATIENCE
        while not file.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"the shell shows {shown.decode(errors='replace')!r}")
            if select.select([self._terminal], [], [], 0.02)[0]:
                shown += os.read(self._terminal, 65536)
