"""Reports as a person sees them: the whole text at a fixed width, on the right stream."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from poolcli.cli import messages, run
from poolcli.pooling import tiles
from tests.conftest import SAMPLES, Cli

TIMES = re.compile(r"[\d.]+ m?s\b")
LOADING = re.compile(r"load [\d.]+ m?s, ")  # which is said of the first file of a process

AVG_80 = """\
avg pooling, as OpenVINO
input   N=1 C=4 H=28 W=28  float32  features.npy
output  N=1 C=4 H=14 W=14  float32  y.npy

axis  input  kernel  stride  dilation  pads  output  formula
H        28       3       2         1   0,1      14  ceil((28+0+1-3)/2) + 1 = 14
W        28       3       2         1   0,1      14  ceil((28+0+1-3)/2) + 1 = 14

rules    auto_pad same_upper, rounding_type ceil, exclude_pad false
axes     N,C,H,W (assumed; --layout NHWC to change)
divisor  the window's full size, 9 (include; overhang counts because a pad is
         not 0)
note     the given pads are ignored: auto_pad same_upper sets them
numpy, 1 thread: read TIME, compute TIME, write TIME
"""

MAX_120 = """\
max pooling, as ONNX
input    N=1 C=4 H=28 W=28  float32  features.npy
output   N=1 C=4 H=6 W=6    float32  y.npy
indices  N=1 C=4 H=6 W=6    int64    at.npy

axis input kernel stride dilation pads output formula
H       28      2      5        1  1,0      6 ceil((28+1+0-2)/5) + 1 - 1 = 6
W       28      2      5        1  1,0      6 ceil((28+1+0-2)/5) + 1 - 1 = 6

rules    auto_pad explicit, rounding_type ceil
axes     N,C,H,W (assumed; --layout NHWC to change)
indices  int64, flat position over N,C,H,W
note     axis H: one window less, because the last one would start past the input
note     axis W: one window less, because the last one would start past the input
note     axis H: 17 of 28 input elements are unused
note     axis W: 17 of 28 input elements are unused
numpy, 1 thread: read TIME, compute TIME, write TIME
"""

ADAPTIVE_80 = """\
adaptive-avg pooling, as OpenVINO
input   N=1 C=1 D=16 H=32 W=32  uint8  volume.h5:/volume
output  N=1 C=1 D=5 H=7 W=64    uint8  small.npy

axis  input  output  windows
D        16       5  equal to kernel 4, stride 3
H        32       7  5 or 6 long
W        32      64  1 long

axes     N,C,D,H,W (assumed; --layout NDHWC to change)
divisor  the number of elements in the bin
note     larger than the input on W: elements repeat, nothing is interpolated
note     averages are rounded to uint8; --dtype float32 keeps fractions
dry run: nothing was written; the result would be 2.19 KiB
"""

SCREENS = {
    "avg at 80 columns": (
        80, "avg features.npy -o y.npy -k 3 -s 2 -p 1 --auto-pad same_upper --rounding-type ceil --include-pad", AVG_80,
    ),
    "max at 120 columns": (
        120, "max features.npy -o y.npy -k 2 -s 5 --pads-begin 1 --rounding-type ceil --like onnx --indices at.npy",
        MAX_120,
    ),
    "adaptive at 80 columns": (80, "adaptive-avg volume.h5 -o small.npy --output-size 5,7,64 -n", ADAPTIVE_80),
}  # fmt: skip


@pytest.fixture
def samples(folder: Path) -> Path:
    """The working folder with the samples in it under their plain names."""
    for path in SAMPLES.iterdir():
        if path.suffix != ".py" and path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize(("columns", "command", "screen"), SCREENS.values(), ids=SCREENS)
def test_the_report_of_one_file(cli: Cli, samples: Path, columns: int, command: str, screen: str) -> None:
    result = cli(*command.split(), columns=columns)
    assert (result.code, result.err) == (0, "")
    assert TIMES.sub("TIME", LOADING.sub("", result.out)) == screen


def test_a_formula_of_three_digits_stays_on_its_line(cli: Cli) -> None:
    shown = cli("shape", "max", "1,64,112,112", "-k", 3, "-s", 2, "-p", 1, "--ceil-mode", columns=80).out
    assert "\nW      112      3      2        1  1,1     57 ceil((112+1+1-3)/2) + 1 = 57\n" in shown


def test_the_report_of_several_files_has_failures_on_standard_error(cli: Cli, samples: Path) -> None:
    inputs = ["features.npy", "bad.npy", "photo.png", "x.npy"]
    result = cli("avg", *inputs, "-o", "out/", "-k", "2", "-n", columns=120)
    assert result.code == 1
    assert result.out == (
        "input         shape              output shape       output\n"
        "features.npy  N=1 C=4 H=28 W=28  N=1 C=4 H=27 W=27  out/features.npy\n"
        "photo.png     H=6 W=8 C=3        H=5 W=7 C=3        out/photo.png\n"
        "x.npy         N=1 C=2 H=6 W=8    N=1 C=2 H=5 W=7    out/x.npy\n"
        "3 planned, 0 skipped, 1 failed\n"
        "note  strides not given: 1 on every axis; PyTorch and Keras take the kernel: use --strides 2 (3 of 4 files)\n"
    )
    assert result.err == "poolcli: bad.npy: is not a .npy file (its first bytes are not those of one)\n"


def test_names_longer_than_the_line_are_folded_and_never_cut(cli: Cli, folder: Path) -> None:
    name = "n" * 150 + ".npy"
    np.save(name, np.zeros((1, 1, 4), np.float32))
    result = cli("max", name, "-o", "y.npy", "-k", "2", columns=90)
    assert max(map(len, result.out.splitlines())) <= 90
    assert name in re.sub(r"\s", "", result.out)


def test_the_last_column_of_a_wide_table_is_below_the_others(cli: Cli, samples: Path) -> None:
    result = cli("avg", "features.npy", "photo.png", "-o", "a_folder_of_their_own/", "-k", 2, "-s", 2, "-n", columns=80)
    assert result.out.splitlines()[:4] == [
        "input         shape              output shape",
        "  output",
        "features.npy  N=1 C=4 H=28 W=28  N=1 C=4 H=14 W=14",
        "  a_folder_of_their_own/features.npy",
    ]


@pytest.mark.parametrize(
    ("shape", "layout", "remedy"),
    [
        ((48, 64, 3), "NCW: only W is pooled", "axis W is 3 long, as of colours: if so, use --layout HWC"),
        ((20, 48, 64), "NCW: only W is pooled", "otherwise use --layout CHW or --layout DHW"),
        ((8, 48, 64, 3), "NCHW", "axis W is 3 long, as of colours: if so, use --layout NHWC"),
        ((2, 16, 48, 64, 4), "NCDHW", "axis W is 4 long, as of colours: if so, use --layout NDHWC"),
        ((3, 48, 64), "NCW: only W is pooled", "axis N is 3 long, as of colours: if so, use --layout CHW"),
        ((56, 56, 64), "NCW: only W is pooled", "otherwise use --layout HWC or --layout DHW"),
        ((16, 7, 3), "NCW: only W is pooled", "otherwise use --layout HWC or --layout NWC"),
    ],
)
def test_axes_that_may_be_others_are_doubted(
    cli: Cli, folder: Path, shape: tuple[int, ...], layout: str, remedy: str
) -> None:
    np.save("a.npy", np.zeros(shape, np.uint8))
    doubt = f"note     assuming layout {layout}; {remedy}"
    again = f"{doubt} (and --overwrite)"
    size = ",".join(map(str, shape))
    for command, told in (
        (["avg", "a.npy", "-o", "b.npy"], again), (["avg", "a.npy", "-n"], doubt), (["shape", "avg", size], doubt),
    ):  # fmt: skip
        assert told in cli(*command, "-k", "1", columns=150).out.splitlines()
    for more, said in (((), f"poolcli: a.npy: {doubt[9:]}\n"), (("-q",), "")):
        result = cli("avg", "a.npy", "-o", "b.npy", "--overwrite", "-k", "1", "--json", *more)
        assert (result.err, doubt[9:] in result.json["notes"]) == (said, True)
    np.save("c.npy", np.zeros(shape, np.uint8))
    assert cli("avg", "a.npy", "c.npy", "-o", "o/", "-k", "1", "--json").err == f"poolcli: a.npy: {doubt[9:]}\n"
    assert "note" not in cli("shape", "avg", size, "-k", "1", "--layout", "NCDHW"[: len(shape) - 1] + "E").out


def test_axes_that_are_most_likely_what_they_are_taken_for_are_said_and_not_doubted(cli: Cli) -> None:
    for shape in ("1,512,4,4", "1,3,48,64", "8,64,1,1"):
        shown = cli("shape", "avg", shape, "-k", "1").out
        assert "axes     N,C,H,W (assumed; --layout NHWC to change)\n" in shown
        assert "note" not in shown
    shown = cli("shape", "max", "1,64,56,56", "-k", "2", "-s", "2", "--like", "tensorflow", columns=150).out
    assert "assuming layout NHWC; axes W and C are 56 long, as of an image: if so, use --layout NCHW\n" in shown


def test_an_array_keeps_the_layout_that_was_named_for_it(cli: Cli, folder: Path) -> None:
    np.save("a.npy", np.zeros((48, 64, 3), np.uint8))
    assert cli("avg", "a.npy", "-o", "b.npy", "-k", "2", "-s", "2", "--layout", "HWC", "-q").code == 0
    assert np.load("b.npy").shape == (24, 32, 3)
    assert (
        cli("avg", "a.npy", "-o", "c.npy", "-k", "2", "-s", "2", "--layout", "HWC", "--output-layout", "NCHW").code == 0
    )
    assert np.load("c.npy").shape == (1, 3, 24, 32)


def test_notes_that_differ_in_numbers_alone_are_one_line_over_many_files(cli: Cli, folder: Path) -> None:
    for size in (7, 9, 11):
        np.save(f"{size}.npy", np.zeros((1, 3, 4, size), np.float32))
    shown = cli("avg", "7.npy", "9.npy", "11.npy", "-o", "out/", "-k", "2", "-s", "2", columns=120).out
    assert shown == (
        "3 done, 0 skipped, 0 failed\nnote  axis W: 1 of 7 input elements is unused (similar in 3 of 3 files)\n"
    )


def test_what_goes_to_no_terminal_is_not_wrapped(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    name = "n" * 150 + ".npy"
    np.save(name, np.zeros((1, 2, 6, 8), np.float32))
    assert run(["avg", name, "x.npy", "-o", "out/", "-k", "2", "-s", "2", "-n"]) == 0
    assert f"{name}  N=1 C=2 H=6 W=8  N=1 C=2 H=3 W=4  out/{name}\n" in capsys.readouterr().out


def test_a_terminal_that_cannot_redraw_a_line_gets_no_bar(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    shown = io.StringIO()
    monkeypatch.setattr(sys.stderr, "write", shown.write)
    with messages.progress(1, False) as draw:
        draw(0, 2)
    assert shown.getvalue() == ""


class Screen(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True

    def frames(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()).split("\r")


def bar_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error as a terminal of 100 columns, whose bar is drawn after every step."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(messages, "BAR_INTERVAL", -1)
    monkeypatch.setenv("COLUMNS", "100")
    return screen


def test_an_error_is_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = bar_screen(monkeypatch)
    assert run(["avg", "x.npy", "-k", "2", "--dtype", "flot"]) == 2
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert [len(line) <= 100 for line in lines] == [True, True]
    assert lines[0].startswith("poolcli: --dtype is 'flot'; it must be one of bool, uint8, uint16, ")


def test_a_notice_takes_the_place_of_the_bar_which_is_drawn_again_below(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = bar_screen(monkeypatch)
    with messages.progress(3, False):
        before = screen.getvalue()
        messages.print_notice("photo.png: is damaged")
    told = screen.getvalue().removeprefix(before)
    assert re.match(r"\r?\x1b\[2K", told)
    assert re.search(r"poolcli:\x1b\[0m photo.png: is damaged *\n", told)
    assert any("0/3" in frame for frame in screen.frames()[len(before.split("\r")) :])


def test_the_bar_of_several_files_is_there_before_the_first_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = bar_screen(monkeypatch)
    with messages.progress(3, False) as draw:
        assert re.fullmatch(r"━+ 0/3\s+-:--:--\s*", screen.frames()[-1])
        draw(1, 3)
        assert re.fullmatch(r"[━╸╺]+ 1/3\s+-:--:--\s*", screen.frames()[-1])


@pytest.mark.parametrize(("suffix", "is_shown"), [("npy", True), ("npz", True), ("npy", False)])
def test_the_bar_of_a_large_array_is_there_before_it_is_read(
    suffix: str, is_shown: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, name = bar_screen(monkeypatch), f"x.{suffix}"
    monkeypatch.setattr(messages, "BAR_INTERVAL", 3600)
    monkeypatch.setattr(tiles, "SHOWN_BYTES", 600 if is_shown else 2**20)  # of 384 B of input and 280 B of output
    np.savez("x.npz", np.load("x.npy"))
    monkeypatch.setattr(sys, "stdout", screen)
    assert run(["avg", name, "-o", "y.npy", "-k", "2"]) == 0
    assert screen.getvalue().split("avg pooling")[0].endswith("\x1b[2K\x1b[1m" if is_shown else "\x1b[1m")
    assert any(re.search(r"━+ 0/\d+ bytes\s+-:--:--", frame) for frame in screen.frames()) is is_shown


def test_the_bar_moves_while_an_array_in_memory_is_pooled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = bar_screen(monkeypatch)
    monkeypatch.setattr(tiles, "SHOWN_BYTES", 600)
    monkeypatch.setattr(tiles, "TILE_BYTES", 100)
    np.savez("x.npz", np.load("x.npy"))
    assert run(["avg", "x.npz", "-o", "y.npy", "-k", "2"]) == 0
    assert any(re.search(r" [1-9]\d*/664 bytes", frame) for frame in screen.frames())
