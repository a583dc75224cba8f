"""What tests of runs over folders, and of faults, share."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

from tests.processes import forked, fresh
from tests.profiles import sized

poolcli = sized(forked, fresh)  # what starts in a tenth of the time, or what a user starts
HALVE = ("-k", "2", "-s", "2")
EACH = "each  N=1 C=1 H=4 W=4 to N=1 C=1 H=2 W=2\n"
DEEPER = f", 1 ignored\n{EACH}note  ignored: in/deep/; use -r (and --overwrite) for subfolders\n"  # without -r
MANIFEST = ".poolcli.jsonl"


def tree(folder: str) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def outputs(folder: str) -> dict[str, str]:
    """The files but for the manifest, which holds times."""
    return {name: digest for name, digest in tree(folder).items() if name != MANIFEST}


def counts(result: Any) -> str:
    return str(result.out).splitlines()[0]


def wait_for(what: Any) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)
