"""Outputs that cannot be written: refused before anything is computed, with what can hold the result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from poolcli.errors import FileError, RequestError
from poolcli.formats import check_output, output_format
from poolcli.formats.atomic import atomic_file, atomic_folder, temporary_path, token_of, write_bytes
from poolcli.message_fields import for_cli
from tests.conftest import Cli


@pytest.mark.parametrize(
    ("path", "shape", "dtype", "layout", "message"),
    [
        ("y.png", (8, 8, 3), "float32", "HWC",
         "png cannot hold 3 channels of float32; use .tiff, .npy, .npz or .h5, or --rescale for 8 bits"),
        ("y.tif", (8, 8, 3), "bool", "HWC", "tiff cannot hold 3 channels of bool; use .npy, .npz or .h5, or "
            "--dtype uint8"),
        ("y.jpg", (8, 8), "float32", "HW",
         "jpeg cannot hold 1 channel of float32; use .tiff, .npy, .npz or .h5, or --rescale for 8 bits"),
        ("y.jpg", (2, 3, 8, 8), "uint8", "NCHW",
         "a jpeg file holds one image, but the result has N=2; use .tiff, .png, .webp, .npy, .npz or .h5, or take "
         "one image with --pages 1"),
        ("y.png", (1, 3, 4, 8, 8), "uint8", "NCDHW",
         "png images have the axes H, W and C, but the result has NCDHW; use .tif, .npy, .npz or .h5"),
        ("y.png", (1, 1, 1, 8, 8), "uint8", "NCDHW",
         "png images have the axes H, W and C, but the result has NCDHW; use .tif, .npy, .npz or .h5, or leave out "
         "axes of length 1: --output-layout CHW"),
        ("y.png", (64, 48, 2), "uint8", "NCW",
         "png images have the axes H, W and C, but the result has NCW; use .npy, .npz or .h5, or name the axes of "
         "the input, as in --layout HWC"),
        ("y.npy", (1, 1, 2), "bfloat16", "NCW", "npy files have no bfloat16; use --dtype float32"),
    ],
)  # fmt: skip
def test_what_an_output_format_cannot_hold_is_refused_with_those_that_can(
    path: str, shape: tuple[int, ...], dtype: str, layout: str, message: str
) -> None:
    with pytest.raises(RequestError) as caught:
        check_output(path, shape, dtype, layout)
    assert for_cli(caught.value.message) == message


def test_an_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        RequestError, match=r"^y\.doc: \.doc is not a format that poolcli writes; use one of \.npy, \.npz, "
    ):
        output_format("y.doc")


def test_results_get_names_in_new_files(cli: Cli, here: None) -> None:
    np.save("x.npy", np.ones((1, 1, 4, 4), np.float32))
    assert cli("max", "x.npy", "-o", "y.h5:/a/b", "--indices", "i.npz:at", "-k", "2", "-q").code == 0
    with h5py.File("y.h5") as file, np.load("i.npz") as indices:
        assert (file["a/b"].shape, indices["at"].shape) == ((1, 1, 3, 3), (1, 1, 3, 3))


@pytest.mark.parametrize("write", [atomic_file, atomic_folder])
def test_what_appears_under_the_name_of_an_output_meanwhile_is_not_replaced(write: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="exists; use overwrite"), write(str(tmp_path / "y"), False):
        (tmp_path / "y").write_text("precious")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


def test_links_are_not_followed_by_temporary_files_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    kept, pipe = tmp_path / "kept", tmp_path / "pipe"
    kept.write_bytes(b"kept")
    os.symlink(kept, temporary_path(os.path.realpath(tmp_path / "y"), token_of(os.getpid())))
    with pytest.raises(FileError, match="Too many levels of symbolic links"):
        write_bytes(str(tmp_path / "y"), b"new", False)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(str(pipe), b"new", True)
    assert (kept.read_bytes(), os.read(reader, 9), pipe.is_fifo()) == (b"kept", b"new", True)
    os.close(reader)
