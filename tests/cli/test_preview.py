"""`--preview`: input and output side by side, as wide as the terminal, in the colours that it has, or in a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from poolcli.cli import run
from tests.conftest import Cli

POOL = ("-k", "2", "-s", "2", "-o", "o.npy", "-q")
STEPS = """\
input  N=1 C=1 H=2 W=8    output  N=1 C=1 H=1 W=4
      ░░░▒▒▒▒▒▒▓▓▓██████        ▒▒▒▒▒▒▓▓▓▓▓▓██████
      ░░░▒▒▒▒▒▒▓▓▓██████        ▒▒▒▒▒▒▓▓▓▓▓▓██████
      ░░░▒▒▒▒▒▒▓▓▓██████        ▒▒▒▒▒▒▓▓▓▓▓▓██████
black 0, white 7
"""


@pytest.fixture
def steps(folder: Path) -> str:
    """Two equal rows, from 0 to 7."""
    np.save("steps.npy", np.tile(np.arange(8, dtype=np.float32), (1, 1, 2, 1)))
    return "steps.npy"


def test_without_colour_it_is_shades_that_fit_the_width(cli: Cli, steps: str) -> None:
    done = cli("max", steps, *POOL, "--preview", "text", columns=50)
    assert (done.code, done.err, done.out) == (0, "", STEPS)
    wide = cli("max", steps, *POOL, "--preview", "text", "--overwrite", columns=120)
    assert max(map(len, wide.out.splitlines())) <= 120


def test_in_colour_two_pixels_are_one_character(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = np.zeros((2, 14, 3), np.uint8)
    pixels[0], pixels[1] = (255, 0, 0), (0, 0, 255)
    Image.fromarray(pixels).save("two.png")
    for name, value in {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm", "COLUMNS": "30"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run(["avg", "two.png", "-k", "1", "-s", "1", "-o", "o.png", "-q", "--preview"]) == 0
    row = "\x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[0m" * 14
    assert capsys.readouterr().out.splitlines()[1:] == [f"{row}  {row}"]


def test_a_pipe_gets_none_unless_it_is_asked_for(cli: Cli, steps: str) -> None:
    assert cli("max", steps, *POOL, "--preview").out == ""
    assert cli("max", steps, *POOL, "--preview", "text", "--overwrite").out != ""


def test_channels_are_a_grid_and_what_is_left_out_is_named(cli: Cli, folder: Path) -> None:
    x = np.zeros((2, 64, 4, 6, 6), np.float32)
    x[0, :, 2] = np.arange(64, dtype=np.float32)[:, None, None]
    np.save("maps.npy", x)
    done = cli("max", "maps.npy", *POOL, "--preview", "text", columns=80)
    *_, note = done.out.splitlines()
    assert note == "N 0 of 2; C 0 to 8 of 64; D 2 of 4; black 0, white 8"
    narrow = cli("max", "maps.npy", *POOL, "--preview", "text", "--overwrite", columns=40)
    assert "C 0 to 3 of 64" in narrow.out


def test_a_file_holds_both_in_their_own_pixels(cli: Cli, folder: Path) -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[:2] = (200, 100, 40)
    Image.fromarray(pixels).save("half.png")
    done = cli("avg", "half.png", "-k", "2", "-s", "2", "-o", "o.png", "--preview", "seen.png", "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    with Image.open("seen.png") as image:
        left, right = (16 + 5, 16 + 28 + 5), (2 * 16 + 480 + 5, 16 + 28 + 5)
        assert [image.getpixel(at) for at in (left, right)] == [(200, 100, 40)] * 2
        assert image.getpixel((right[0] + 400, right[1] + 460)) == (0, 0, 0)
        assert image.size == (3 * 16 + 2 * 480, 480 + 3 * 16 + 24)
    again = cli("avg", "half.png", "-k", "2", "-o", "p.png", "--preview", "seen.png")
    assert (again.code, again.err) == (2, "poolcli: seen.png exists; use --overwrite to replace it\n")


def test_nan_is_magenta_and_transparent_pixels_are_white(cli: Cli, folder: Path) -> None:
    np.save("nan.npy", np.array([[[[np.nan, np.nan], [np.nan, 1]]]], np.float32))
    assert cli("max", "nan.npy", "-k", "1", "-o", "o.npy", "-q", "--preview", "n.png").code == 0
    Image.fromarray(np.zeros((2, 2, 4), np.uint8)).save("clear.png")
    assert cli("max", "clear.png", "-k", "1", "-o", "o.png", "-q", "--preview", "c.png").code == 0
    seen = [Image.open(name).getpixel((30, 60)) for name in ("n.png", "c.png")]
    assert seen == [(255, 0, 255), (255, 255, 255)]


def test_inks_are_shown_as_colours(cli: Cli, folder: Path) -> None:
    Image.new("CMYK", (2, 2), (255, 51, 0, 51)).save("inks.tif")
    assert cli("max", "inks.tif", "-k", "1", "-s", "1", "-o", "o.tif", "-q", "--preview", "p.png").code == 0
    with Image.open("p.png") as image:
        assert image.getpixel((30, 60)) == (0, 163, 204)


def test_of_a_large_plane_rows_are_read_evenly(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolcli.explain.preview.MAX_ELEMENTS", 100)
    monkeypatch.setattr("poolcli.explain.preview.SAMPLED_ROWS", 4)
    x = np.repeat(np.arange(64, dtype=np.float32), 64).reshape(1, 1, 64, 64)
    np.save("tall.npy", x)
    done = cli("max", "tall.npy", *POOL, "--preview", "text", columns=30)
    assert (done.code, done.out.splitlines()[-1]) == (0, "black 0, white 48")  # rows 0, 16, 32, 48


def test_an_array_added_to_a_file_is_found_there(cli: Cli, folder: Path) -> None:
    assert cli("max", "x.npy", "-k", "2", "-o", "all.h5:/first", "-q").code == 0
    done = cli("max", "x.npy", "-k", "2", "-s", "2", "-o", "all.h5:/second", "-q", "--preview", "text", columns=80)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].endswith("output  N=1 C=2 H=3 W=4")


def test_an_input_after_the_option_is_an_input(cli: Cli, folder: Path) -> None:
    done = cli("avg", "--preview", "photo.png", "-k", "2", "-o", "o.png", "-q")
    assert (done.code, done.err) == (0, "")
    assert Path("o.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["x.npy", "photo.png", "-o", "out/", "--preview", "p.png"],
            "--preview p.png is for one input, and there are several; write --preview alone",
        ),
        (
            ["x.npy", "-n", "--preview"],
            "--preview and --dry-run contradict each other; give one",
        ),
        (
            ["x.npy", "-o", "-", "--preview"],
            "--preview reads input and output again, and - cannot be read twice; name files",
        ),
        (
            ["x.npy", "-o", "o.npy", "--preview", "p.jpg"],
            "--preview p.jpg: use a file that ends in .png, text, or --preview alone",
        ),
    ],
)
def test_what_cannot_be_seen_is_refused_before_anything_is_written(
    arguments: list[str], message: str, cli: Cli, folder: Path
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    done = cli("avg", *arguments, "-k", "2")
    assert (done.code, done.out, done.err) == (2, "", f"poolcli: {message}\n")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_with_json_the_terminal_is_not_for_pictures(cli: Cli, folder: Path) -> None:
    done = cli("avg", "x.npy", "-k", "2", "-o", "o.npy", "--json", "--preview")
    assert done.code == 2
    assert done.json["error"]["message"] == ("--preview would print into the JSON; write it with --preview seen.png")
    assert cli("avg", "x.npy", "-k", "2", "-o", "o.npy", "--json", "--preview", "seen.png").json["op"] == "avg"


def test_of_several_inputs_the_first_few_are_shown_each_under_its_name(cli: Cli, folder: Path) -> None:
    np.save("steps.npy", np.repeat(np.arange(4.0, dtype=np.float32), 2).reshape(1, 1, 1, 8))
    names = ["bad.npy", *(f"{name}.npy" for name in "abcde")]
    for name in names[1:]:
        Path(name).write_bytes(Path("steps.npy").read_bytes())
    done = cli("max", *names, "-k", "1,2", "-s", "1,2", "-o", "out/", "--preview", "text", columns=30)
    planes = "    ░░░▓▓▓▓███      ░░░▓▓▓▓███\n                    ░░░▓▓▓▓███"
    shown = f"{{}}.npy\ninput  N=1 C=…  output  N=1 C…\n{planes}\nblack 0, white 3"
    assert done.out.split("\n\n")[:2] == [shown.format(name) for name in "ab"]
    assert "\n\nthe first 4 of 6 are shown\n" in done.out
    assert cli("max", *names, "-k", "1,2", "-o", "out/", "--skip-existing", "--preview", "text", "-q").out == ""
