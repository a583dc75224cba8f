"""Entry point of the `poolcli` command and of `python -m poolcli`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command line and exits with its code."""
    # OpenBLAS, which poolcli never calls, starts a thread and a buffer for each core when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from poolcli.cli.stop import Stopped, install_handlers

    install_handlers()
    try:
        from poolcli.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except Stopped as stop:
        print(f"poolcli: {stop}", file=sys.stderr)
        code = stop.exit_code
    except OSError as error:
        # Standard output itself cannot be written: a full disk, a closed pipe.
        if not isinstance(error, BrokenPipeError):
            print(f"poolcli: standard output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
