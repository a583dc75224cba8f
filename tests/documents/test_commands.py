"""Every command and every snippet of the documents runs, and prints what the document shows."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import poolcli
from poolcli import ops
from tests.bench.__main__ import PACKAGES
from tests.documents.console import pictures, renewed, typed, workplace
from tests.documents.markdown import DOCUMENTS, ROOT, Block, anchors, blocks, links, name_of

TEXTS = {name_of(path): path.read_text() for path in DOCUMENTS}
CI = "".join(path.read_text() for path in (ROOT / ".ci" / "run", ROOT / ".pre-commit-config.yaml") if path.exists())
MARKS = ("job command", "test command")
HEAVY = {"docs/dask.md": pytest.mark.heavy}  # xarray


@pytest.fixture(params=[pytest.param(name, marks=HEAVY.get(name, ())) for name in TEXTS])
def document(request: pytest.FixtureRequest) -> str:
    """The name of each document in turn."""
    return str(request.param)


def test_commands_print_what_the_document_shows(document: str, tmp_path: Path) -> None:
    with workplace(tmp_path):
        assert renewed(TEXTS[document]).splitlines() == TEXTS[document].splitlines()
        assert [kept.name for new, kept in pictures(ROOT / document) if new.read_bytes() != kept.read_bytes()] == []


def test_snippets_of_python_run_and_give_what_they_show(document: str) -> None:
    names: dict[str, object] = {}
    for block in blocks(TEXTS[document], "python"):
        if ">>>" not in block.text:
            exec(compile(block.text, document, "exec"), names)  # noqa: S102  # the document's own text
            continue
        example = doctest.DocTestParser().get_doctest(block.text, names, document, document, 0)
        reports: list[str] = []
        doctest.DocTestRunner().run(example, out=reports.append, clear_globs=False)
        names |= example.globs
        assert reports == []


def shell_lines(text: str) -> list[str]:
    """Commands of sh blocks that stand for themselves, one a line or joined by &&."""
    lines = [line for block in blocks(text, "sh") if block.mark not in MARKS for line in block.text.splitlines()]
    return [part.removeprefix(".venv/bin/") for line in lines for part in re.split(r" && | +#.*$", line) if part]


def test_shell_commands_are_run_here_or_by_ci(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with workplace(tmp_path):
        for line in shell_lines(TEXTS[document]):
            program, *arguments = shlex.split(line)
            if program == "poolcli":
                shown, code = typed(line)
                assert code == 0, shown
            elif program == "python" and arguments[1].startswith("tests."):
                run_module(arguments[1], arguments[2:], monkeypatch)
            else:
                assert held_by_ci(line), line


def run_module(name: str, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs `python -m name options` here; no row is timed and no document written."""
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "0")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", str(1 << 40))
    monkeypatch.setattr("tests.bench.cold.cold_starts", lambda rounds: [])
    monkeypatch.setattr("tests.documents.markdown.DOCUMENTS", ())
    nothing = {
        "tests.bench": ["--only", "no row is called so"],
    }
    monkeypatch.setattr(sys, "argv", [name, *options, *nothing.get(name, [])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the module has been imported before
        try:
            runpy.run_module(name, run_name="__main__")
        except SystemExit as end:
            assert not end.code, name


def held_by_ci(line: str) -> bool:
    """Whether the command stands in what CI runs, or installs what CI or the benchmark knows."""
    if line.startswith("pip install "):
        known = {".", "-e", "--upgrade", "--group", "dev", "docs", "heavy", "pip>=25.1", *PACKAGES}
        return all(word in known or word.startswith(".[") for word in shlex.split(line)[2:])
    marked = (block.text for block in blocks(TEXTS["README.md"], "sh") if block.mark in MARKS)
    return any(line in text for text in (CI, *marked))


def test_the_marked_commands_are_there_for_ci_to_run() -> None:
    marked = [block for block in blocks(TEXTS["README.md"], "sh") if block.mark in MARKS]
    assert [block.mark for block in marked] == ["job command", "test command"]
    assert [block.text.count("\n") for block in marked] == [1, 1]


def test_the_readme_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name in extras if f"`{name}`" not in TEXTS["README.md"]] == []


def test_every_block_is_of_a_kind_that_is_tested(document: str) -> None:
    fences = re.findall(r"^```(.+)$", TEXTS[document], re.MULTILINE)
    assert set(fences) <= {"console", "sh", "python"}
    assert TEXTS[document].count("\n```") == 2 * len(fences)


def test_links_lead_somewhere(document: str) -> None:
    for target in (each for each in links(TEXTS[document]) if not each.startswith("https://")):
        path, _, anchor = target.partition("#")
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text()), target


def test_the_reference_of_python_has_every_public_name() -> None:
    blocks = re.findall(
        r"^::: [\w.]+\.(\w+)\n(?: +options: {heading: (\w+))?", TEXTS["docs/reference/python.md"], re.MULTILINE
    )
    assert sorted(heading or name for name, heading in blocks) == sorted({*poolcli.__all__} - {*ops.__all__})


def test_files_that_are_named_are_there(document: str) -> None:
    names = re.findall(r"`((?:poolcli|tests|docs|samples|\.ci)/[^`*\s]*|pyproject\.toml)`", TEXTS[document])
    assert [name for name in names if not (ROOT / name.partition("::")[0]).exists()] == []


def test_a_block_knows_its_language_its_text_and_its_mark() -> None:
    text = "a\n\n<!-- job command -->\n```sh\none\n```\n\n```console\n$ two\nthree\n```\n"
    found = [
        Block("sh", "one\n", slice(30, 34), "job command"),
        Block("console", "$ two\nthree\n", slice(50, 62), None),
    ]
    assert blocks(text, "sh", "console") == found
