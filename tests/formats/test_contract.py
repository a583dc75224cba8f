"""What every format promises, whichever it is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import cache
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolcli.errors import FileError, PoolError
from poolcli.formats import FORMATS, Source, Spec, WriteOptions, check_output, open_array, read, read_header
from poolcli.formats.atomic import token_of
from poolcli.formats.image.write import GIF_NOTE
from poolcli.windows import slices
from tests.formats import toy
from tests.formats.arrays import list_arrays, write

WRITTEN = [name for name, row in FORMATS.items() if row.writes]
NAMES = [*WRITTEN, "toy"]
ODD = ("jpeg",)  # what is read is close to what was written


def array_for(name: str) -> tuple[Any, str]:
    """An array that the format can hold without loss, and its layout."""
    if FORMATS[name].is_image:
        smooth = np.linspace(0, 255, 12 * 16, dtype=np.uint8).reshape(12, 16)
        return np.stack([smooth, smooth[::-1], smooth[:, ::-1]], -1), "HWC"
    return np.arange(2 * 3 * 5 * 7, dtype=np.float32).reshape(2, 3, 5, 7), "NCHW"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that is added to the table at run time must keep every promise, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(FORMATS, "toy", toy.ROW)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def path_of(name: str) -> str:
    return "x" + FORMATS[name].suffixes[0]


def data_of(name: str) -> Path:
    """The file with the data: that of the first chunk, where the format is a folder."""
    files = (file for file in sorted(Path(path_of(name)).rglob("*")) if file.is_file())
    markers = FORMATS[name].markers
    return next(file for file in files if file.name not in markers) if markers else Path(path_of(name))


def test_what_is_written_is_read_again(name: str) -> None:
    x, layout = array_for(name)
    assert {*write(path_of(name), x, layout)} <= {GIF_NOTE}  # of colours
    tensor = read(Source(path_of(name)))
    if name in ODD:
        assert abs(tensor.array.astype(int) - x).max() < 12
    else:
        np.testing.assert_array_equal(tensor.array, x)
    assert tensor.array.dtype == x.dtype


def test_the_header_says_what_reading_gives_and_the_listing_too(name: str) -> None:
    x, layout = array_for(name)
    write(path_of(name), x, layout)
    header = read_header(Source(path_of(name)))
    assert (header.shape, header.dtype, header.format) == (x.shape, x.dtype.name, name)
    assert list_arrays(path_of(name)) == [header]
    assert read(Source(path_of(name), header.key)).header == header


def regions_of(shape: tuple[int, ...], unit: tuple[int, ...] | None = None) -> list[tuple[range, ...]]:
    """The array in parts of several sizes, in no order that any format likes."""
    steps = unit or (2,) * len(shape)
    cuts = [[range(at, min(at + n, end)) for at in range(0, end, n)] for n, end in zip(steps, shape, strict=True)]
    parts = list(product(*cuts))
    np.random.default_rng(1).shuffle(parts)
    return [tuple(part) for part in parts]


ROWS = [*FORMATS.values(), toy.ROW]
STREAMS_OUT = [row.name for row in ROWS if row.streams_from < inf]
STREAMS_IN = [row.name for row in ROWS if row.streams and row.writes]


@pytest.mark.parametrize("name", STREAMS_OUT)
def test_regions_are_written_in_any_order(name: str) -> None:
    x, layout = array_for(name)
    spec, options = Spec(x.shape, x.dtype.name, layout), WriteOptions(chunks=(1, 2, 2, 4)[-x.ndim :])
    with FORMATS[name].functions.open_writer(path_of(name), spec, options) as sink:
        for region in regions_of(x.shape, sink.unit):
            assert not sink.holds(region)
            sink(region, x[slices(region)])
    np.testing.assert_array_equal(read(Source(path_of(name))).array, x)


@pytest.mark.parametrize("name", STREAMS_IN)
def test_regions_are_read_in_any_order(name: str) -> None:
    x, layout = array_for(name)
    write(path_of(name), x, layout)
    with open_array(Source(path_of(name))) as file:
        assert file.streams
        for region in regions_of(x.shape):
            np.testing.assert_array_equal(file.read(region), x[slices(region)])


def test_an_existing_file_is_refused_and_untouched_without_overwrite(name: str) -> None:
    x, layout = array_for(name)
    Path(path_of(name)).write_bytes(b"precious")
    with pytest.raises(FileError, match="exists; use overwrite, or another name"):
        write(path_of(name), x, layout)
    assert Path(path_of(name)).read_bytes() == b"precious"
    assert os.listdir() == [path_of(name)]
    write(path_of(name), x, layout, options=WriteOptions(overwrite=True))
    assert read(Source(path_of(name))).array.shape == x.shape


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_leaves_no_file_at_all(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:  # as a disk that learns only now that it is full
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    x, layout = array_for(name)
    with pytest.raises(FileError, match=f"{os.strerror(number)}$"):
        write(path_of(name), x, layout)
    assert os.listdir() == []


def test_a_file_system_that_cannot_sync_is_written_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", refuse)
    x, layout = array_for(name)
    assert {*write(path_of(name), x, layout)} <= {GIF_NOTE}  # of colours
    assert os.listdir() == [path_of(name)]


def test_an_interrupted_write_leaves_no_file_at_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(part: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("poolcli.formats.atomic.sync", interrupt)
    x, layout = array_for(name)
    with pytest.raises(KeyboardInterrupt):
        write(path_of(name), x, layout)
    assert os.listdir() == []


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_one_error_or_has_lost_nothing_of_the_array(name: str, cut: float) -> None:
    x, layout = array_for(name)
    write(path_of(name), x, layout)
    whole = np.array(read(Source(path_of(name))).array)
    data = data_of(name).read_bytes()
    data_of(name).write_bytes(data[: int(len(data) * cut)])
    try:
        tensor = read(Source(path_of(name)))
    except PoolError as error:
        assert str(error).startswith(path_of(name))
        assert "\n" not in str(error)
    else:
        np.testing.assert_array_equal(tensor.array, whole)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_keeps_its_own(name: str) -> None:
    x, layout = array_for(name)
    mask = os.umask(0o027)
    try:
        write(path_of(name), x, layout)
        assert os.stat(path_of(name)).st_mode & 0o777 == (0o750 if FORMATS[name].is_folder else 0o640)
        assert os.umask(0o027) == 0o027
        os.chmod(path_of(name), 0o704)
        write(path_of(name), x, layout, options=WriteOptions(overwrite=True))
        assert os.stat(path_of(name)).st_mode & 0o777 == 0o704
    finally:
        os.umask(mask)


def test_what_a_killed_process_left_is_swept_by_the_next_write(name: str) -> None:
    os.mkdir(name)  # a process sweeps each folder once, and pytest may use the name of its own again
    os.chdir(name)
    x, layout = array_for(name)
    gone, running = owner_that_is_gone(), token_of(os.getppid())
    elsewhere = "00000000" + gone[8:]
    owners = (running, elsewhere, gone + "-0", "4194304", "²", "x")
    others = [f".{path_of(name)}.{owner}.part" for owner in owners]
    for other in others:  # of a process that runs, or of one that cannot be asked for
        Path(other).touch()
    Path(f".{path_of(name)}.{gone}.part").touch()
    write(path_of(name), x, layout)
    assert sorted(os.listdir()) == sorted([*others, path_of(name)])


FOLDERS = [row.name for row in ROWS if row.is_folder and row.writes]


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("able", [True, False])
def test_a_folder_is_replaced_whole_or_not_at_all(name: str, able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one step where the system can exchange names; elsewhere what is replaced comes back when that fails."""
    if not able:
        monkeypatch.setattr("poolcli.formats.atomic._exchange", lambda one, other: False)
    x, layout = array_for(name)
    write(path_of(name), x, layout)
    rename = os.rename

    def failing(source: str, target: str) -> None:
        if target == os.path.realpath(path_of(name)) and not source.endswith(".old"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr("poolcli.formats.atomic.os.rename", failing)
    if able:
        write(path_of(name), x + 1, layout, options=WriteOptions(overwrite=True))
    else:
        with pytest.raises(FileError, match="No space left"):
            write(path_of(name), x + 1, layout, options=WriteOptions(overwrite=True))
    np.testing.assert_array_equal(read(Source(path_of(name))).array, x + able)
    monkeypatch.setattr("poolcli.formats.atomic.os.rename", rename)
    write(path_of(name), x + 2, layout, options=WriteOptions(overwrite=True))
    np.testing.assert_array_equal(read(Source(path_of(name))).array, x + 2)
    assert os.listdir() == [path_of(name)]


@cache
def owner_that_is_gone() -> str:
    code = "import os; from poolcli.formats.atomic import token_of; print(token_of(os.getpid()), end='')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_a_link_is_followed_and_stays_a_link(name: str) -> None:
    x, layout = array_for(name)
    os.mkdir("deep")
    os.symlink(f"deep/{path_of(name)}", path_of(name))
    write(path_of(name), x, layout)
    assert os.path.islink(path_of(name))
    assert os.listdir("deep") == [path_of(name)]


def test_a_name_of_255_bytes_can_be_written(name: str) -> None:
    x, layout = array_for(name)
    suffix = FORMATS[name].suffixes[0]
    long = "ä" * ((255 - len(suffix)) // 2) + suffix
    write(long, x, layout)
    assert os.listdir() == [long]


def test_the_suffix_does_not_decide_what_a_file_is(name: str) -> None:
    x, layout = array_for(name)
    write(path_of(name), x, layout)
    other = "y.png" if name != "png" else "y.npy"
    os.rename(path_of(name), other)
    header = read_header(Source(other))
    assert header.format == name
    assert header.notes[0] == f"the file is {name}, despite its extension"


def test_an_empty_file_and_a_folder_are_no_inputs(name: str) -> None:
    Path(path_of(name)).touch()
    with pytest.raises(FileError, match=f"^{path_of(name)}: is empty$"):
        read(Source(path_of(name)))
    os.mkdir("folder")
    with pytest.raises(
        FileError, match=r"^folder: (is not a regular file|is a folder; name its files, as in folder/\*)$"
    ):
        read(Source("folder"))


def test_every_array_is_stored_in_a_layout_that_the_format_names(name: str) -> None:
    x, layout = array_for(name)
    stored = check_output(path_of(name), x.shape, x.dtype.name, layout)
    assert stored == layout
    if layout == "NCHW":
        assert check_output(path_of(name), (12, 16, 3), "uint8", "HWC") == "HWC"
        assert check_output(path_of(name), (12, 16), "uint8", "HW") == "HW"
        assert check_output(path_of(name), (12, 16, 3), "uint8", "HWC", "RGB") == "NCHW"
        assert check_output(path_of(name), (12, 16), "uint8", "HW", "L") == "NCHW"
