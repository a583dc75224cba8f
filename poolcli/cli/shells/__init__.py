"""The shells that complete words of poolcli: a script for each, beside this file, that asks the program.

The scripts are poolcli's own: what Typer has for zsh evaluates names of files, and what it has for bash does not quote
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from poolcli.arguments import one_of
from poolcli.errors import FileError, RequestError
from poolcli.suggestions import listed

SHELLS = ("bash", "zsh", "fish")
SHOW, INSTALL = "--show-completion", "--install-completion"


def complete_in(words: Sequence[str]) -> int:
    """Shows or installs the script of the shell that the words name, or of the one that runs; returns the exit code."""
    flag, _, name = words[0].partition("=")
    shell = _named(flag, [name] if name else words[1:])
    if flag == SHOW:
        print(script(shell), end="")
        return 0
    try:  # Typer knows where each shell looks; the script that it leaves there is replaced
        _, where = import_module("typer.completion").install(shell=shell, prog_name="poolcli")
        Path(where).write_text(script(shell))
    except OSError as error:
        raise FileError(
            f"{error.filename}: {error.strerror}; poolcli {SHOW} {shell} prints what belongs there"
        ) from None
    print(f"wrote {where}; a new {shell} completes words of poolcli")
    return 0


def script(shell: str) -> str:
    """What the shell is to read."""
    from importlib.resources import files  # which takes longer to import than to answer a shell

    return files("poolcli.cli.shells").joinpath(f"poolcli.{shell}").read_text("utf-8")


def _named(flag: str, words: Sequence[str]) -> str:
    if len(words) > 1:
        raise RequestError(f"{flag} takes one shell, found {' '.join(words)}; write {flag} {words[0]}")
    if words:
        return one_of(flag.strip("-").replace("-", "_"), words[0], SHELLS)
    detection = import_module("shellingham")
    try:
        running = str(detection.detect_shell()[0])
    except detection.ShellDetectionFailure:
        running = ""
    if running not in SHELLS:
        why = f"{running} is not among the shells that it knows" if running else "no shell is known to run here"
        raise RequestError(f"{flag}: {why}; write {listed(f'{flag} {shell}' for shell in SHELLS)}")
    return running
