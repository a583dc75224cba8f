"""GIFs are written with all their frames, durations and loop; what they cannot hold is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence

from poolcli.formats import Source, read, write
from poolcli.formats.image.write import GIF_NOTE
from poolcli.formats.records import Metadata
from tests.conftest import Cli

HALVE = ("-k", "2", "-s", "2")
RNG = np.random.default_rng(3)
FEW = RNG.integers(0, 256, (40, 3), np.uint8)[RNG.integers(0, 40, (3, 6, 8))]  # three frames of 40 colours
MANY = RNG.integers(0, 256, (2, 40, 50, 3), np.uint8)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def held() -> tuple[Any, list[Any], object]:
    """Frames as RGBA, their durations, and the loop."""
    with Image.open("x.gif") as image:
        loop = image.info.get("loop")
        frames = [(np.array(f.convert("RGBA")), f.info.get("duration")) for f in ImageSequence.Iterator(image)]
    return np.stack([frame for frame, _ in frames]), [duration for _, duration in frames], loop


def with_alpha(colours: Any, alpha: Any) -> Any:
    return np.concatenate([colours, np.broadcast_to(alpha, (*colours.shape[:-1], 1)).astype(np.uint8)], -1)


def test_frames_of_few_colours_are_kept_to_the_last_bit() -> None:
    beside = Metadata(image={"duration": [50, 100, 200], "loop": 0})
    assert write("x.gif", FEW, "NHWC", metadata=beside) == ()
    frames, durations, loop = held()
    np.testing.assert_array_equal(frames, with_alpha(FEW, 255))
    assert (durations, loop) == ([50, 100, 200], 0)


@pytest.mark.parametrize("colours", [FEW, FEW[:1]], ids=["frames", "one picture"])
def test_holes_stay_holes(colours: Any) -> None:
    pages = with_alpha(colours, 255 * RNG.integers(0, 2, (*colours.shape[:-1], 1)))
    assert write("x.gif", pages, "NHWC") == ()
    expected = np.where(pages[..., 3:] > 0, pages, 0)
    frames = held()[0]
    np.testing.assert_array_equal(np.where(frames[..., 3:] > 0, frames, 0), expected)


def test_grey_is_kept_with_all_its_256_values() -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert write("x.gif", grey, "HW") == ()
    with Image.open("x.gif") as image:
        np.testing.assert_array_equal(np.array(image.convert("L")), grey)


def test_what_a_gif_cannot_hold_is_said_and_near() -> None:
    pages = with_alpha(MANY, RNG.integers(0, 256, (*MANY.shape[:-1], 1)))
    notes = write("x.gif", pages, "NHWC", metadata=Metadata(image={"duration": [33, 40]}))
    assert notes == (GIF_NOTE,)
    frames, durations, _ = held()
    assert durations == [30, 40]
    np.testing.assert_array_equal(frames[..., 3] > 0, pages[..., 3] > 127)
    seen = frames[..., 3] > 0
    assert abs(frames[..., :3].astype(int) - MANY)[seen].mean() < 20


@pytest.mark.parametrize("loop", [None, 0, 3])
def test_a_gif_becomes_a_gif(loop: int | None, cli: Cli) -> None:
    frames = [Image.fromarray(frame) for frame in FEW]
    more: Any = {} if loop is None else {"loop": loop}
    frames[0].save("in.gif", save_all=True, append_images=frames[1:], duration=[20, 40, 60], **more)
    result = cli("max", "in.gif", "-o", "x.gif", *HALVE)
    assert result.code == 0, result.err
    made, durations, found = held()
    assert (made.shape, durations, found) == ((3, 3, 4, 4), [20, 40, 60], loop)
    expected = read(Source("in.gif")).array.reshape(3, 3, 2, 4, 2, 4).max((2, 4))
    np.testing.assert_array_equal(made, expected)


def test_one_frame_of_several_has_no_duration_and_uneven_ones_are_said(cli: Cli) -> None:
    frames = [Image.fromarray(frame) for frame in FEW]
    frames[0].save("in.webp", save_all=True, append_images=frames[1:], duration=[15, 25, 40], lossless=True)
    deep = ("--layout", "DHWC", "-k", "3,1,1", "--output-layout", "HWC")
    assert cli("max", "in.webp", "-o", "x.gif", *deep, "-q").err == ""
    assert len(held()[1]) == 1
    assert GIF_NOTE in cli("max", "in.webp", "-o", "y.gif", *HALVE, columns=200).out
