"""Which file and which array in it a word on the command line means."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolcli.formats import Source, parse_source


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "path", "key"),
    [
        ("x.npy", "x.npy", None),
        ("x.npz:a", "x.npz", "a"),
        ("x.h5:/g/a", "x.h5", "/g/a"),
        ("a:b.png", "a:b.png", None),
        ("k.h5:/m/bias:0", "k.h5", "/m/bias:0"),
        ("a.h5:b.npz:c:0", "a.h5", "b.npz:c:0"),
    ],
)
def test_a_key_follows_the_colon_of_files_that_hold_several_arrays(text: str, path: str, key: str | None) -> None:
    assert parse_source(text) == Source(path, key)


def test_a_file_of_the_whole_name_is_meant() -> None:
    Path("a.h5:b.npz:c:0").touch()
    assert parse_source("a.h5:b.npz:c:0") == Source("a.h5:b.npz:c:0")
    assert parse_source("a.h5:x", "y") == Source("a.h5:x", "y")
