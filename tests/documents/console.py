"""Runs the console blocks of a document and puts what they print in the place of what is shown."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from poolcli.cli import run
from tests.documents.markdown import ROOT, Block, blocks, links, sessions

COLUMNS = 100
TIMES = re.compile(r"[\d.]+ (ms|s)\b")
DRAWN = ("architecture.svg", "speed.svg")  # pictures that no command makes
LOADING = re.compile(r"load [\d.]+ m?s, ")  # which is said of the first file of a process


@contextmanager
def workplace(folder: Path) -> Iterator[None]:
    """Works in `folder`, on a terminal of a fixed width without colour.

    The folder gets the samples, and `photos` in place of one of the reader's own.
    """
    shutil.copytree(ROOT / "samples", folder / "samples")
    for name in ("photos/flight.png", "photos/launch.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / "samples" / "astronaut.png", folder / name)
    with chdir(folder), patch.dict(os.environ, {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}):
        os.environ.pop("FORCE_COLOR", None)
        yield


def renewed(text: str) -> str:
    """The document with what its commands print now, run one after the other in the working folder.

    Where only times and spaces at the ends of lines differ, what is shown stays. A command may end with another exit
    code than 0 only where the next one is `echo $?`.
    """
    screens = [(block.place, run_block(block)) for block in blocks(text, "console")]
    for place, screen in reversed(screens):
        text = text[: place.start] + screen + text[place.stop :]
    return text


def pictures(document: Path) -> list[tuple[Path, Path]]:
    """The pictures that the document shows and its commands make: as made in the working folder, and as kept."""
    shown = (document.parent / target for target in links(document.read_text()) if target.endswith((".svg", ".png")))
    return [(Path(kept.name), kept) for kept in shown if kept.name not in DRAWN]


def run_block(block: Block) -> str:
    """The block with what its commands print now."""
    parts, code = [], 0
    for command, shown in sessions(block):
        if command == "$ echo $?":
            printed, code = f"{code}\n", 0
        else:
            _refuse_unseen(code, block)
            printed, code = typed(command)
        parts.append(f"{command}\n{shown if untimed(shown) == untimed(printed) else printed}")
    _refuse_unseen(code, block)
    return "".join(parts)


def _refuse_unseen(code: int, block: Block) -> None:
    if code:
        raise AssertionError(f"a command ends with exit code {code}, and nothing shows it:\n{block.text}")


def typed(command: str) -> tuple[str, int]:
    """What `$ poolcli ...` shows on a terminal, both streams together, and its exit code."""
    program, *arguments = shlex.split(command.removeprefix("$ "))
    if program != "poolcli":
        raise AssertionError(f"{command!r} is no command of poolcli")
    screen = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(screen), redirect_stderr(screen):
        code = run(arguments)
    screen.seek(0)
    return screen.read(), code


def untimed(text: str) -> str:
    """The text with every duration replaced, and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in TIMES.sub("TIME", LOADING.sub("", text)).splitlines())
