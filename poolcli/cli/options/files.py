"""Options of files: what is read, what is written, and what becomes of outputs that exist."""

from __future__ import annotations

from poolcli.cli.options.option import ELEMENTS, Option

FILES = {
    "output": Option(
        "-o --output",
        "Output file, folder (keeps names and tree), or - for .npy on stdout.",
        "PATH",
        "--out",
        example="y.npy",
        path="output",
    ),
    "indices": Option(
        "--indices",
        f"Write the positions of the {ELEMENTS} there as well.",
        "PATH",
        "--return-indices",
        example="where.npy",
        path="output",
    ),
    "dataset": Option(
        "--dataset",
        "Dataset or key inside HDF5, Zarr and .npz inputs; several times for several.",
        "NAME",
        example="/data",
        path="array",
    ),
    "all": Option("--all", "Pool every array of HDF5, Zarr and .npz inputs under its own name."),
    "format": Option("--format", "Suffix of the outputs in a folder: npy, png, ...", "SUFFIX", example="npy"),
    "recursive": Option("-r --recursive", "Take the subfolders of folders too."),
    "raw": Option(
        "--raw", "Read files without a header as this array: 1,3,64,64,uint8 (>f4: high bytes first).", "SHAPE,TYPE"
    ),
    "files_from": Option(
        "--files-from",
        "Take the inputs from a list, one a line, or - for stdin.",
        "LIST",
        example="list.txt",
        path="any",
    ),
    "pages": Option("--pages", "Of several pages or frames: all (default), 1, or 2-5.", "P", example="1"),
    "quality": Option(
        "--quality",
        "Of .jpg and .webp outputs, 1 to 100. Default: a JPEG's own, else 95; .webp without loss.",
        "N",
        example="90",
    ),
    "chunks": Option(
        "--chunks", "Of .zarr outputs: 64, or 64,64 (order D,H,W). Default: the input's, or about 2**20.", "C"
    ),
    "shards": Option("--shards", "Of .zarr outputs: so much in one file, a multiple of the chunks.", "S"),
    "max_pixels": Option("--max-pixels", "Refuse larger pictures. Default: 178,956,970.", "N", example="200000000"),
    "allow_external": Option("--allow-external", "Let HDF5 inputs read the other files that they name."),
    "overwrite": Option("--overwrite", "Replace outputs that exist."),
    "skip_existing": Option("--skip-existing", "Leave outputs that exist as they are."),
    "resume": Option("--resume", "Go on where a run was stopped: make what is missing or out of date."),
}
