"""Which processes are known to be gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from poolcli.system.subprocesses import context, has_exited, process_token, start, token_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="where processes tell when they began")


def changed(part: int) -> str:
    """The owner that this process is, with another place or another start."""
    fields = token_of(os.getpid()).split("-")
    fields[part] = "01234567"
    return "-".join(fields)


def ended() -> str:
    with subprocess.Popen(["sleep", "9"]) as process:
        owner = token_of(process.pid)
        process.kill()
    return owner


OWNERS: dict[str, tuple[Callable[[], str], bool]] = {
    "this process": (lambda: token_of(os.getpid()), False),
    "its parent": (lambda: token_of(os.getppid()), False),
    "one that has ended": (ended, True),
    "one whose number another has now": (lambda: changed(2), True),
    "one of another host or namespace": (lambda: changed(0), False),
    "one of another host, of a number that is free here": (lambda: "01234567" + ended()[8:], False),
    "a number": (lambda: "4194304", False),
    "a huge number": (lambda: f"{token_of(1)[:9]}{10**20}-01234567", False),
    "no number": (lambda: f"{token_of(1)[:9]}²-01234567", False),
    "nothing": (lambda: "", False),
}


@pytest.mark.parametrize("name", OWNERS)
def test_only_a_process_of_this_place_can_be_known_to_be_gone(name: str) -> None:
    make, gone = OWNERS[name]
    assert has_exited(make()) is gone


UNSHARED = "import os; from poolcli.system.subprocesses import token_of; print(token_of(os.getpid()), end='')"


@pytest.mark.parametrize("spaces", [["--pid", "--fork"], ["--pid", "--fork", "--mount-proc"]])
def test_a_process_of_another_namespace_is_never_known_to_be_gone(spaces: list[str]) -> None:
    done = subprocess.run(["unshare", *spaces, sys.executable, "-c", UNSHARED], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this user may make no namespace")
    assert len(done.stdout.split("-")) == 3
    assert not has_exited(done.stdout)


def test_a_process_that_is_forked_is_an_owner_of_its_own() -> None:
    assert process_token() == token_of(os.getpid())
    here, there = context().Pipe()
    process = start(lambda: there.send(process_token()))
    assert here.recv() == token_of(process.pid) != process_token()
    process.join()
