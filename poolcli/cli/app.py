"""Running the program: the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from poolcli.errors import PoolError

ASKED = "_POOLCLI_COMPLETE"  # the variable in which a shell asks: a line, up to the cursor
HELP = {"-h", "--help", "--help-all"}


def run(arguments: Sequence[str]) -> int:
    """Runs the program; returns its exit code. Only a bug, or --debug, lets an exception through."""
    if list(arguments) in (["--version"], ["-V"]):  # answered before anything is loaded: scripts ask for it
        from poolcli.cli.about import version_line

        print(version_line())
        return 0
    if ASKED in os.environ:
        from poolcli.cli.listing import begun
        from poolcli.cli.typed_line import file_asked

        listing = begun(file_asked(os.environ[ASKED]))  # before the commands are loaded, which takes as long
        from poolcli.cli.question import answers

        print(*answers(os.environ[ASKED], listing), sep="\n")
        return 0
    from poolcli.cli.arguments import arranged

    try:
        return _run(arranged(arguments))
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (error.typed,)  # what the traceback ends in
            raise
        from poolcli.cli.messages import refuse

        refuse(error, arguments)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read standard output is gone; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: Sequence[str]) -> int:
    if words == ["--man"]:
        from poolcli.cli.manual import manual

        print(manual(), end="")
        return 0
    if not HELP.isdisjoint(words):
        from poolcli.cli.help import help_asked, styled

        text = help_asked(words)
        if text:
            print(styled(text))
            return 0
    from poolcli.cli.parameters import request_of
    from poolcli.cli.plain import plainly_typed

    plain = plainly_typed(words)
    if plain:
        command, typed = plain
        return command.run(request_of(command, typed))
    from poolcli.cli.program import run_words

    return run_words(words)
