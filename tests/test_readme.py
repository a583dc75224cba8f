"""Every command and every snippet of the README runs, and prints what the README shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
CONSOLE = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
SESSIONS = [s for block in CONSOLE for s in re.split(r"^(?=\$ )", block, flags=re.MULTILINE) if s]
TIMES = re.compile(r"[\d.]+ (ms|s)\b")


def untimed(text: str) -> str:
    """The text with every duration replaced, and without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in TIMES.sub("TIME", text).splitlines())


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the samples and nothing else: the commands run in it in the README's order."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "samples", folder / "samples")
    return folder


@pytest.mark.parametrize("session", SESSIONS, ids=[s.splitlines()[0] for s in SESSIONS])
def test_each_command_prints_what_the_readme_shows(workplace: Path, session: str) -> None:
    command, _, shown = session.partition("\n")
    arguments = shlex.split(command.removeprefix("$ poolcli "))
    done = subprocess.run(
        [sys.executable, "-m", "poolcli", *arguments],
        cwd=workplace,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert untimed(done.stdout) == untimed(shown)


def test_the_python_snippets_run() -> None:
    snippets = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})  # noqa: S102  # the README's own text


def test_the_marked_commands_are_there_for_ci_to_run() -> None:
    marked = re.findall(r"<!-- (job|test) command -->\n```sh\n(.+)\n```", TEXT)
    assert [name for name, _ in marked] == ["job", "test"]
