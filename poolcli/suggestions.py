"""What people may have meant: similar spellings (difflib), and one table of the words of other programs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

MIN_RATIO, MAX_SUGGESTIONS = 0.7, 3  # difflib's ratio is 1 for equal words
NONE: Mapping[str, str] = {}


def by_word(rows: Mapping[str, str]) -> dict[str, str]:
    return {word: meaning for meaning, words in rows.items() for word in words.split()}


# Names of options in other frameworks, which the command line accepts; poolcli's name is in front.
ALIASES = by_word({
    "kernel": "kernel-size kernel-shape ksize pool-size window window-size",
    "output-size": "output-shape",
    "strides": "stride",
    "pads": "padding pad",
    "dilations": "dilation",
    "rounding-type": "rounding round-mode rounding-mode",
    "p": "norm-type",
    "like": "dialect framework",
    "layout": "data-format",
    "dtype": "output-dtype",
    "indices": "return-indices with-indices return-argmax with-argmax return-mask argmax",
    "output": "out",
})  # fmt: skip
# Flags of other frameworks, which are accepted too: the field that each sets, and its values for true and false.
FLAGS: dict[str, tuple[str, str | bool, str | bool]] = {
    "ceil-mode": ("rounding_type", "ceil", "floor"),
    "count-include-pad": ("exclude_pad", False, True),
    "include-pad": ("exclude_pad", False, True),
    "exclude-pad": ("exclude_pad", True, False),  # of which there is --no-exclude-pad
}
# Other words for options and commands, which are not accepted: what a message proposes instead (and a remark).
MEANT = by_word({
    "--overwrite": "force f y",
    "--jobs": "threads workers num-workers n-jobs",
    "--jobs for more cores: poolcli runs on the CPU": "gpu device cuda",
    "--resume": "skip-existing",
    "--max-memory": "memory max-pixels",
    "--rounding-type ceil": "ceil",
    "--rounding-type floor": "floor",
    "--dtype float16": "fp16 half float16",
    "--strides": "step steps",
    "--dilations": "d",
    "--format": "ext extension",
    "poolcli pyramid --levels 3": "pyramid level levels overviews",
    "--dtype": "precision t ot",
    "--atol": "epsilon eps tolerance",
    "the names of inputs alone, as in poolcli avg x.npy": "i input inputs infile in-file",
    "--jobs, the number of files at once: each is pooled by itself": "batch batch-size",
    "none: outputs are compressed as their inputs are": "co compress compression",
    "--exclude-pad": "exclusive",
    "--auto-pad same_upper or valid": "same valid same-size keep-size",
    "--missing nan (without --missing, what a file calls missing is left out)": "skipna",
    "--missing": "nodata no-data ignore a-nodata srcnodata dstnodata",
    "--like": "from",
    "poolcli shape avg --to pytorch for the call there, --like pytorch for its rules": "to",
    "--against": "like",
    "--picture": "svg html draw plot image",
    "--dataset": "key variable var array",
    "--output, a folder in which names are kept; --format sets the extension": "suffix prefix postfix name",
    "a quoted glob, as 'photos/*.png', or --files-from with a list of names": "exclude include pattern glob",
    "--output": "output-dir outdir out-dir outfile out-file",
    "--output, whose extension names the format": "of",
    "--kernel, such as --kernel 5 --pads 2 for a radius of 2": "radius footprint",
    "--layout NHWC": "channels-last",
    "numbers without names, as 4,4 for lat and lon (order D,H,W); --layout, one letter per axis, pools others: "
        "NWC the second of three": "lat lon latitude longitude",
    "--kernel 7,1,1 --strides 7,1,1 --layout DHW for windows along the first of three axes alone (1,7,1: the second)":
        "dim dims axes axis a time",
    "--missing -9999 for the file that numpy.save('masked.npy', numpy.where(numpy.load('mask.npy'), -9999, "
        "numpy.load('x.npy'))) writes in Python, if the mask is True where values are to be ignored": "mask",
    "none: NaN equals NaN already": "equal-nan nan-equal",
    "none: all bands are pooled; select one before (gdal_translate, tifffile), or of the result (pages: --pages)":
        "channel channels band bands b",
    "numpy.pad(x, widths, 'edge') first, or 'reflect', ...: padding has no values here":
        "padding-mode pad-mode border border-type cval pad-value fill-value",
    "none: windows end inside, as trim; --rounding-type ceil keeps the rest, as pad": "boundary",
    "y[..., 0, 0]: axes of length 1 are kept": "keepdims keepdim",
    "the operator as the first word, as in poolcli max or poolcli shape max":
        "op mode method func filter",
    "none: windows are pooled, and nothing is interpolated": "interpolation resampling",
    "poolcli area --fit 256, WxH or 50%, which keeps the aspect, or --output-size H,W":
        "resize thumbnail thumb thumbnails rescale interpolate size target-size max-size max-dim longest-edge "
        "longest-side width height dsize geometry vf outsize ts convert mogrify magick gdalwarp gdal-translate",
    "poolcli avg --kernel 2 --strides 2 (for half the size, 10 and 10 for a tenth; images: poolcli area)":
        "bin binning rebin coarsen scale fx fy block-reduce factor scale-factor downsample downscale shrink reduce "
        "block-size percent percentage halve",
    "poolcli avg --kernel N --strides N (N: the new pixel size divided by that of the input)":
        "tr res resolution",
    "poolcli adaptive-avg --output-size 1 (or adaptive-max; other operators take a --kernel of the input's size)":
        "global gap global-avg global-average",
    "none: colours stay; for grey, PIL.Image.open(path).convert('L') first": "grayscale greyscale gray grey",
    "poolcli avg or poolcli max": "pool",
    "poolcli avg --kernel 3 --pads 1": "blur smooth box-filter uniform-filter",
    "poolcli area --output-size H,W, which may be larger than the input": "upsample enlarge zoom",
    "poolcli avg of the part that numpy.save('part.npy', x[..., 8:72, 8:72]) writes": "crop slice roi",
    "poolcli compare": "diff cmp",
    "poolcli mode --kernel 2 --strides 2, for label maps": "nearest near",
    "poolcli max with --indices, and then numpy ('Put maxima back' in docs/recipes.md)": "unpool max-unpool max-un un",
    "poolcli shape avg": "plan",
    "poolcli info": "list ls show view describe inspect ncdump gdalinfo h5ls",
    "poolcli chain 1,3,224,224 conv:k7,s2,p3": "conv conv1d conv2d conv3d receptive-field",
    "poolcli pyramid --output y.ome.zarr": "gdaladdo",
})  # fmt: skip
KEEPS_SHAPE = "keeps the shape; a chain needs another layer"
# Words that are no layers of a chain, in lower case and up to the first digit, and what to do with them.
LAYERS = by_word({
    KEEPS_SHAPE: "relu gelu silu sigmoid tanh softmax bn batchnorm dropout identity",
    "ends the spatial axes; end the chain before it": "flatten linear fc dense",
    "write global-avg": "gap globalaveragepool globalavgpool",
    "a name, a colon and settings make one word, as in conv:k7,s2,p3,o64; MaxPool2d(2) of PyTorch is max:k2,s2":
        "conv max avg min sum lp k s p d o same_upper same_lower valid ceil floor",
})  # fmt: skip
# Files of other programs, which are not read: their suffixes, what they are, and the array in one, in Python.
OTHER_FILES = (
    ((".pt", ".pth"), "a file of PyTorch",
     "torch.load({!r}).numpy()) of a tensor, ...['NAME'].numpy() of a dict; "
     "a module is for poolcli check, as .pt2 of torch.export"),
    ((".nii.gz", ".nii"), "a NIfTI volume",
     "nibabel.load({!r}).get_fdata()), whose axes are x,y,z"),
    ((".dcm",), "a DICOM image", "pydicom.dcmread({!r}).pixel_array)"),
    ((".csv",), "a table in text", "numpy.loadtxt({!r}, delimiter=',')), with skiprows=1 if a heading comes first"),
    ((".txt",), "text", "numpy.loadtxt({!r})), if it holds numbers alone"),
    ((".fits", ".fit"), "a FITS file", "astropy.io.fits.getdata({!r}))"),
    ((".nrrd", ".mha", ".mhd"), "a volume of ITK", "SimpleITK.GetArrayFromImage(SimpleITK.ReadImage({!r})))"),
    ((".parquet",), "a table", "pandas.read_parquet({!r}).to_numpy())"),
    ((".mp4", ".mov", ".avi", ".mkv", ".webm"), "a video",
     "imageio.v3.imread({!r})), with pip install 'imageio[pyav]'; its layout is NHWC"),
    ((".wav",), "a sound", "scipy.io.wavfile.read({!r})[1].T)"),
    ((".pkl", ".pickle"), "a pickle, which may run code", "pickle.load(open({!r}, 'rb')))"),
    ((".bin", ".raw", ".dat"), "raw data", "numpy.fromfile({!r}, 'float32').reshape(HEIGHT, WIDTH))"),
)  # fmt: skip
SIGNATURES = (  # of files without a suffix: the place of some bytes, these bytes, and the suffix
    (128, b"DICM", ".dcm"), (344, b"n+1\0", ".nii"), (344, b"ni1\0", ".nii"), (4, b"n+2\0", ".nii"),
    (0, b"SIMPLE  =", ".fits"), (0, b"NRRD0", ".nrrd"),
)  # fmt: skip
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".7z", ".rar")
# What other files are, by their first bytes in lower case.
OTHER_CONTENTS = {
    b"<!doctype html": "an HTML page", b"<html": "an HTML page", b"%pdf-": "a PDF document",
    b"version https://git": "a Git LFS pointer (git lfs pull gets the file)",
}  # fmt: skip
# Files that are not written: how Python makes one of an .npy, by suffixes.
OTHER_OUTPUTS = {
    ".csv": "x = numpy.load({1!r}); numpy.savetxt({0!r}, x.reshape(-1, x.shape[-1]), delimiter=',')",
    ".txt": "x = numpy.load({1!r}); numpy.savetxt({0!r}, x.reshape(-1, x.shape[-1]))",
    ".pt": "torch.save(torch.from_numpy(numpy.load({1!r})), {0!r})",
    ".mat": "scipy.io.savemat({!r}, {{'x': numpy.load({!r}){}}})",
    ".bin": "numpy.load({1!r}).tofile({0!r})",
}
# Names that the Python package does not have, without _, and what to do instead.
NAMES = by_word({
    "use avg_pool or max_pool": "pool pooling pool1d pool2d pool3d",
    "the functions are poolcli's own, as avg_pool, and the layers AvgPool": "nn functional f layers",
    "poolcli pools arrays; read files with numpy.load, h5py, Pillow, ...": "load read open imread",
    "numpy does it in one line ('Put maxima back' in docs/recipes.md)": "unpool maxunpool maxunpool2d",
    "import poolcli.dask first": "dask",
    "use AvgPool(kernel).plan(shape)": "plan",
    "use AvgPool(kernel, strides=...).plan(shape).output_shape": "shape outputshape outputsize",
    "use area_pool(x, (height, width))": "resize resizelocalavg interpolate thumbnail",
    "use avg_pool(x, 2, strides=2), or max_pool, ...": "blockreduce downscalelocalavg coarsen downsample",
    "use avg_pool(x, kernel, pads=...)": "uniformfilter blur boxfilter rolling",
    "use max_pool(x, kernel, pads=...)": "maximumfilter dilate greydilation",
    "use min_pool(x, kernel, pads=...)": "minimumfilter erode greyerosion",
    "use median_pool(x, kernel, pads=...)": "medianfilter medianblur",
    "use std_pool(x, kernel) ** 2": "varpool variancepool",
})  # fmt: skip
# Attributes that operators and plans lack.
MEMBERS = {
    "forward": "op(x)", "run": "op(x) of the operator", "shape": "output_shape", "output_size": "output_shape",
    "output_shape": "plan(shape).output_shape", "divisor": "divisors", "pads": "pads_begin and pads_end",
    "explain": "plan(shape).explain()",
}  # fmt: skip
# What some options are as keywords.
KEYWORDS = {
    "input": "x", "image": "x", "array": "x", "k": "kernel", "s": "strides", "indices": "return_indices",
    "jobs": "threads",
}  # fmt: skip


def closest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known words of the most similar spelling; several if they are equally similar, none if no word is."""
    plain = _plain(word)
    likeness = {each: _likeness(_plain(each), plain) for each in dict.fromkeys(known)}
    best = max(likeness.values(), default=0)
    if best < MIN_RATIO:
        begun = [each for each in likeness if len(plain) > 1 and f"-{plain}" in f"-{_plain(each)}"]
        return tuple(begun) if len(begun) <= MAX_SUGGESTIONS else ()
    return tuple(each for each, ratio in likeness.items() if ratio == best)[:MAX_SUGGESTIONS]


def _plain(word: str) -> str:
    return word.lower().replace("_", "-").removeprefix("--").removeprefix(".")


def _likeness(known: str, word: str) -> float:
    """difflib's ratio; high also for short words with letters swapped, and for the last part of a path."""
    from difflib import SequenceMatcher

    ratio = SequenceMatcher(None, known, word).ratio()
    return max(ratio, 0.9) if sorted(known) == sorted(word) or known.endswith(f"/{word}") else ratio


def did_you_mean(word: str, known: Iterable[str], short: Mapping[str, str] = NONE) -> str:
    """The question at the end of a message, or "" without a similar word; `short` has other names of known words."""
    found = tuple(dict.fromkeys(short.get(each, each) for each in closest(word, (*known, *short))))
    return f"; did you mean {join_words(found)}?" if found else ""


def other_program(path: str, start: bytes = b"") -> str:
    """What a file of another program is, by its start or name, and, of a path, how to get an .npy; "" for others."""
    known = next((suffix for at, magic, suffix in SIGNATURES if start.startswith(magic, at)), path.lower())
    for suffixes, kind, array in OTHER_FILES:
        for suffix in suffixes:
            if known.endswith(suffix):
                target = f"{path[: -len(suffix)] if path.lower().endswith(suffix) else path}.npy"
                save = f"; save it as .npy in Python: numpy.save({target!r}, {array.format(path)}"
                return f"is {kind}{save if path else ''}"
    if path.lower().endswith(ARCHIVES):
        return "is an archive; unpack it, then name its files, or their folder"
    plain = start.lstrip().lower()
    return next((f"is {kind}" for magic, kind in OTHER_CONTENTS.items() if plain.startswith(magic)), "")


def not_found(path: str) -> str:
    """Why a file of this name is not found: the name of an array, one that the shell did not expand, or a slip."""
    for at in (n for n, sign in enumerate(path) if sign in ":/[" and os.path.isfile(path[:n])):
        key = path[at + 1 :].strip(":[]'\"")
        return "" if key.isdigit() else f"; an array in a file is written {path[:at]}:{key}"
    if (driver := re.match('[A-Za-z0-9]+:"?([^:"]+)"?[:/]*(.*)', path)) and os.path.isfile(driver[1]):  # as in GDAL
        return f"; an array in a file is written {driver[1]}:{driver[2] or 'NAME'}"
    if path[:1] == "~" or "$" in path:
        return "; the shell does not expand ~ and $ in single quotes"
    folder, name = os.path.split(path)
    with suppress(OSError):
        others = [each for each in os.listdir(folder or ".") if each != name]  # it may be a broken link
        others.sort(key=lambda each: each.endswith(os.path.splitext(name)[1]))  # the last of a stem counts
        paths = {each.partition(".")[0]: shlex.quote(os.path.join(folder, each)) for each in others}
        return did_you_mean(name.partition(".")[0], (), paths)
    return ""


def join_words(words: Iterable[str], joint: str = "or") -> str:
    """The words joined as in a sentence."""
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def no_member(self: Any, name: str) -> Any:
    """A value of the attributes of a plan; raises the error of what it or an operator lacks, with what to use."""
    own = ALIASES.get(name.replace("_", "-"), name).replace("-", "_")
    known = () if name.startswith("_") else self.__dataclass_fields__
    values = self.attributes if "attributes" in known else {}
    if name in values:
        return values[name]
    use = MEMBERS.get(name) or MEMBERS.get(own) or (own if own in known or own in values else "")
    meant = f"; use {use}" if use else ""
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{meant}", name=name, obj=self)


def public_name(name: str, names: Collection[str]) -> str:
    """What to use in place of a name that poolcli does not have: an operator, or a similar name."""
    plain = name.replace("_", "").lower().replace("average", "avg").replace("mean", "avg")
    if plain in NAMES:
        return "; " + re.sub(r"(?<=use )(?=\w+(\(| or))", "poolcli.", NAMES[plain])
    found = re.fullmatch(r"(global|adaptive)?(avg|max|min|lp|sum|std|median|mode)pool(ing|ed)?([123]d)?", plain)
    if not found:
        return did_you_mean(name, names)
    prefix, kind, is_class = found[1], found[2], name[:1].isupper()
    operator = f"adaptive_{kind}" if prefix else kind
    called = "".join(word.capitalize() for word in (*operator.split("_"), "pool")) if is_class else f"{operator}_pool"
    size = {"global": "1", "adaptive": "output_size"}.get(prefix, "2, strides=2")
    return f"; use poolcli.{called}({'' if is_class else 'x, '}{size})"
