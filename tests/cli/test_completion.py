"""What an unfinished word may become, as Typer answers a shell that asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolcli.cli import run

LINES = {
    "poolcli av": ["avg"],
    "poolcli --sh": ["--show-completion"],
    "poolcli avg --ker": ["--kernel"],
    "poolcli avg x.npy --output-l": ["--output-layout"],
    "poolcli avg x.npy --like p": ["pytorch"],
    "poolcli avg x.npy --like=p": ["pytorch"],
    "poolcli avg x.npy --dtype floa": ["float16", "float32", "float64"],
    "poolcli avg x.npy -k 2 --auto-pad same": ["same_upper", "same_lower"],
    "poolcli shape ma": ["max"],
    "poolcli identify x.npy y.npy --op adaptive-m": ["adaptive-max"],
    "poolcli cache c": ["clear"],
    # Names of files are left to the shell, which quotes them as it needs.
    "poolcli avg ": [],
    "poolcli avg x.npy -k ": [],
}


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """What the script of fish is answered for the last word of a line: words, some with an explanation after a tab."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("_POOLCLI_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        run([])
    return [word for word in capsys.readouterr().out.splitlines() if word]


@pytest.mark.parametrize("line", LINES)
def test_a_shell_completes_commands_options_and_values(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = completed(monkeypatch, capsys, line)
    assert [word.partition("\t")[0] for word in found] == LINES[line]


def test_a_description_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completed(monkeypatch, capsys, "poolcli avg --res") == [
        "--rescale\tWrite float results as an image: LOW becomes 0, HIGH 255. "
        "Without a value: the range of each result.",
        "--resume\tWrite only missing or stale outputs.",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_shown_the_script_that_asks_the_program(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: (shell, f"/bin/{shell}"))
    with pytest.raises(SystemExit):
        run(["--show-completion"])
    assert f"_POOLCLI_COMPLETE=complete_{shell}" in capsys.readouterr().out
