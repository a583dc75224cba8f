"""Suggestions for messages: known words of similar spelling (difflib ratio of at least 0.7), and tables of the names
that other programs have for fields, options and commands.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

MIN_RATIO = 0.7  # difflib's ratio is 1 for equal words
MAX_SUGGESTIONS = 3
NONE: Mapping[str, str] = {}


def closest(word: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known words of the most similar spelling; several if they are equally similar, none if no word is.

    >>> closest("kernal", ["kernel", "all"]), closest("flot", ["int8", "float16", "float32"]), closest("x", ["kernel"])
    (('kernel',), ('float16', 'float32'), ())
    >>> closest("agv", ["avg", "area"])
    ('avg',)
    """
    plain = _plain(word)
    likeness = {each: _likeness(_plain(each), plain) for each in dict.fromkeys(known)}
    best = max(likeness.values(), default=0)
    if best < MIN_RATIO:
        begun = [each for each in likeness if len(plain) > 1 and f"-{_plain(each)}".find(f"-{plain}") >= 0]
        return tuple(begun) if len(begun) <= MAX_SUGGESTIONS else ()
    return tuple(each for each, ratio in likeness.items() if ratio == best)[:MAX_SUGGESTIONS]


def did_you_mean(word: str, known: Iterable[str], short: Mapping[str, str] = NONE) -> str:
    """The question at the end of a message, or "" without a similar word; `short` has other names of known words.

    >>> did_you_mean("same", ["explicit", "same_upper", "same_lower"])
    '; did you mean same_upper or same_lower?'
    """
    found = tuple(dict.fromkeys(short.get(each, each) for each in closest(word, (*known, *short))))
    return f"; did you mean {join_words(found)}?" if found else ""


def did_you_mean_file(path: str) -> str:
    """The same for a file that does not exist, with the names in its folder."""
    whole, colon, key = path.rpartition(":")
    if colon and os.path.isfile(whole):
        return f"; {whole} holds one array, without a name: leave :{key} out"
    folder, name = os.path.split(path)
    if "*" in name:
        from glob import iglob

        found = min(iglob(path), default=None)
        return f"; patterns are not expanded here; name a file, such as {found}" if found else ""
    try:
        names = sorted(each for each in os.listdir(folder or ".") if each != name)
    except OSError:
        return ""
    stem, extension = os.path.splitext(name)  # an extension that both have does not make names similar
    parts = {each: os.path.splitext(each) for each in names}
    similar = (each for each, (own, ext) in parts.items() if ext.lower() != extension.lower() or closest(stem, [own]))
    alike = closest(name, similar) if name else ()
    return f"; did you mean {join_words(os.path.join(folder, each) for each in alike)}?" if alike else ""


def join_words(words: Iterable[str], joint: str = "or") -> str:
    """The words joined as in a sentence.

    >>> join_words(["avg", "max", "adaptive-avg"]), join_words(["avg", "max"], "and"), join_words(["avg"])
    ('avg, max or adaptive-avg', 'avg and max', 'avg')
    """
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def _likeness(known: str, word: str) -> float:
    """The ratio of two words, also high for short ones with letters swapped: that of avg and agv would be 0.67."""
    from difflib import SequenceMatcher

    ratio = SequenceMatcher(None, known, word).ratio()
    return max(ratio, 0.9) if sorted(known) == sorted(word) else ratio


def _plain(word: str) -> str:
    """The form in which words are compared, without the dashes that all options begin with."""
    return word.lower().replace("_", "-").removeprefix("--")


# Each row has poolcli's name first, and other names behind it. The value that was typed replaces an example in braces.
T = TypeVar("T")

# Names of fields in other frameworks. The command line accepts these as options.
OTHER_NAMES = {
    "kernel": ("kernel-size", "kernel-shape", "ksize", "pool-size", "window-size"),
    "output_size": ("output-shape",),
    "strides": ("stride",),
    "pads": ("padding", "pad"),
    "dilations": ("dilation",),
    "rounding_type": ("rounding",),
    "p": ("norm-type",),
    "like": ("dialect", "framework"),
    "layout": ("data-format",),
    "dtype": ("output-dtype",),
    "indices": ("return-indices",),
    "output": ("out",),
}
# Flags of other frameworks: the field that each sets, and its values for true and false. Accepted as options.
FLAGS: dict[str, tuple[str, str | bool, str | bool]] = {
    "ceil-mode": ("rounding_type", "ceil", "floor"),
    "count-include-pad": ("exclude_pad", False, True),
    "include-pad": ("exclude_pad", False, True),
}
# Keywords of other libraries that only Python functions suggest names for.
KEYWORDS = {
    "x": ("input", "image", "array", "value", "x", "data"),
    "kernel": ("k",),
    "strides": ("s",),
    "pads": ("p",),
    "return_indices": ("indices", "include-batch-in-index"),
}


def _by_word(rows: Mapping[T, str]) -> dict[str, T]:
    return {word: meaning for meaning, words in rows.items() for word in words.split()}


# Of several settings the first whose option the command has is meant; one with @ is another command's: of the sliding
# operator for an adaptive one, and the reverse.
SETTINGS: dict[str, tuple[str, ...]] = _by_word({
    ("--output-size 1", "@adaptive-avg --output-size 1"): "global global-pool",
    ("--overwrite",): "force replace clobber yes f y overwrite-existing",
    ("--resume",): "continue restart no-clobber no-overwrite keep-existing ignore-existing skip",
    ("--jobs {4}",): "threads workers num-workers n-jobs cores num-threads",
    ("--quiet",): "silent no-progress no-report",
    ("--rounding-type ceil", "--edge ceil"): "ceil",
    ("--rounding-type floor", "--edge floor"): "floor no-ceil-mode",
    ("--rounding-type {ceil}", "--edge {ceil}"): "rounding-mode round round-mode",
    ("--output-size {7}", "--kernel {2}", "--solve {28}", "--input-shape NAME={1,3,640,640}"):
        "size shape output-dim out-size",
    ("--output-size {7}", "--solve {28}", "@adaptive-avg --output-size {7}"):
        "target-size target new-size resize-to output-dims",
    ("--fit {100}", "@adaptive-avg --fit {100}"):
        "width height output-height output-width max-size max-width max-height longest-side long-side",
    ("--kernel {2} --strides {2}", "--kernel {2}", "@avg --kernel {2} --strides {2}"):
        "factor scale-factor scale scale-by scale-down rescale-factor resize-factor downsample downsampling shrink "
        "reduce ratio zoom bin binning bin-size block block-size",
    ("--kernel {2} --strides {2}", "--kernel {2}", "--output-size {7}"):
        "vf filter resize downscale geometry thumbnail",
    ("--kernel {2}",): "filter-size window-shape window win win-size kernel-width kernel-height ks",
    ("--strides {2}",): "step steps subsample hop hop-length window-strides",
    ("--pads {1}",): "pad-width padding-size pad-size pads-both",
    ("--pads-begin {1}",): "padding-begin padding-start pad-before pads-start pad-begin",
    ("--pads-end {1}",): "padding-end pad-after pad-end",
    ("--dilations {2}",): "rate dilation-rate atrous window-dilation window-dilations",
    ("--auto-pad {same_upper}",): "padding-type pad-mode pad-type autopad",
    ("--p {2.0}",): "norm power ord order pnorm exponent",
    ("--divisor-override {4}",): "divisor",
    ("--exclude-pad",): "exclusive ignore-pad no-pad-count no-include-pad no-count-include-pad",
    ("--include-pad",): "count-pad pad-included no-exclude-pad",
    ("--layout {NCHW}",):
        "input-layout layout-in input-format axes axis-order dims order-of-axes data-layout channel-order channel-axis",
    ("--layout NHWC",): "channels-last channel-last nhwc",
    ("--layout NCHW",): "channels-first channel-first nchw",
    ("--output-layout {NCHW}",): "layout-out out-layout",
    ("--dtype {float32}",): "type output-type out-dtype out-type astype cast precision",
    ("--dtype float16",): "half half-precision",
    ("--ddof 1",): "unbiased bessel sample-std",
    ("--ddof {1}",): "correction delta-ddof",
    ("--input-dtype {float32}",): "input-type in-dtype",
    ("--dataset {/data}",): "key array variable var dataset-name name group",
    ("--pages {1}",): "page frame frames",
    ("--missing {nan}",): "nodata no-data nan fill-value fillvalue ignore-value mask-value",
    ("--rescale", "--rescale {0,1}"): "normalize stretch autoscale",
    ("--linear-light",): "gamma linear srgb",
    ("--indices {where.npy}",): "return-index return-mask argmax argmin with-indices index output-indices",
    ("--index-element-type {i64}",): "index-type index-dtype argmax-dtype targmax",
    ("--format {npy}",): "ext extension suffix output-format out-format file-format",
    ("--output {y.npy}", "--picture {plan.svg}"):
        "dest destination outfile output-file output-dir outdir out-dir output-path to-file save "
        "dst target-file result",
    ("--recursive",): "subfolders subdirs walk",
    ("--quality {90}",): "q jpeg-quality compression-quality compression quality-factor",
    ("--engine {auto}",): "backend impl",
    ("--max-memory {2G}",): "mem memory memory-limit ram max-ram mem-limit",
    ("--cluster {local}",): "scheduler dask address client",
    ("--dry-run",): "simulate dryrun plan what-if no-act just-print",
    ("--explain", "--verbose"): "why steps-shown show formula",
    ("--debug",): "trace traceback backtrace",
    ("--atol {1e-6}",): "tolerance tol eps epsilon abs-tol threshold thresh max-diff",
    ("--rtol {1e-5}",): "rel-tol relative",
    ("--input-shape NAME=1,3,640,640",): "batch input-size",
    ("--input-shape NAME={1,3,640,640}",): "input dims-in",
    ("--to {pytorch}",): "framework-to convert export",
    ("--like {pytorch}",): "semantics style compat",
    ("--picture {plan.svg}",): "plot draw image svg png html figure",
    ("--scale {z=1,y=1,x=1}",): "spacing voxel-size resolution pixel-size",
    ("--unit {micrometer}",): "units",
    ("--levels {3}",): "num-levels n-levels max-level max-layer scales",
    ("--op {avg}",): "mode method reducer function func agg aggregation reduction",
    ("--ngff {0.5}",): "version format-version",
    ("--chunks {64}",): "chunk chunksize chunk-size",
    ("--layer {pool1}",): "layer-name node",
})  # fmt: skip

# Other words for a command. The arguments that were typed replace INPUT, SHAPE and so on.
COMMAND_SYNONYMS = _by_word({
    "avg INPUT -k 2 -s 2":
        "resize scale downscale downsample halve thumbnail shrink bin reduce pool pooling",
    "adaptive-avg INPUT --output-size 1": "gap",
    "adaptive-max INPUT --output-size 1": "gmp",
    "shape OP SHAPE -k 2 --to pytorch": "convert",
    "shape OP SHAPE -k 2 --explain": "explain",
    "shape OP SHAPE -k 2 --windows": "windows",
    "shape OP SHAPE -k 2": "plan size",
    "shape OP SHAPE --solve 2": "solve",
    "shape OP SHAPE -k 2 --picture plan.svg": "picture plot draw",
    "compare INPUT INPUT": "diff cmp",
    "check MODEL": "verify validate lint",
    "info INPUT": "ls list show inspect header headers",
    "identify INPUT INPUT": "guess find",
    "cache clear": "clean clear",
    "cache warm": "warm",
    "--version": "version",
})  # fmt: skip

# Options that poolcli has no equivalent for, and why.
REASONS = _by_word({
    "poolcli computes on the CPU; leave it out": "device gpu cuda cpu mps",
    "inputs are positional arguments; leave it out": "i in infile input-file src source",
    "a file is one tensor, whatever its batch; leave it out": "batch-size bs",
    "only constant padding exists; --include-pad controls the divisor":
        "padding-mode padding-value border border-mode boundary edge-mode fill cval",
})  # fmt: skip

# Parts of names that are never suggested for each other.
OPPOSITES = (
    ("input", "output"), ("in", "out"), ("begin", "end"), ("start", "end"), ("before", "after"), ("include", "exclude"),
    ("min", "max"), ("upper", "lower"), ("atol", "rtol"), ("width", "height"),
)  # fmt: skip

# What a fraction of the length is given to: 0.5 is a factor of 2.
FACTORS = (
    "factor", "scale-factor", "scale", "scale-by", "scale-down", "rescale-factor", "resize-factor", "ratio", "zoom",
)  # fmt: skip

# Options whose values people write as width by height.
WIDTH_FIRST = ("geometry", "resize", "thumbnail", "size", "target-size", "new-size", "resize-to")


def unknown_keyword(function: str, name: str, value: object, names: Collection[str]) -> str:
    """The message about an unknown keyword of a Python function, with the name that is probably meant.

    >>> unknown_keyword("avg_pool", "kernel_size", 3, ["x", "kernel"])
    'avg_pool() has no kernel_size; use kernel'
    >>> unknown_keyword("avg_pool", "ceil_mode", True, ["kernel", "rounding_type"])
    "avg_pool() has no ceil_mode; use rounding_type='ceil'"
    >>> unknown_keyword("adaptive_avg_pool", "kernel_size", 3, ["x", "output_size"])
    'adaptive_avg_pool() has no kernel_size; it takes x and output_size'
    """
    plain, words = name.lower().replace("_", "-"), str(value).lower()
    flag = FLAGS.get(plain)
    if name in ("padding", "auto_pad") and words in ("same", "valid") and "auto_pad" in names:
        use = f"; use auto_pad={'same_upper' if words == 'same' else 'valid'!r}"
    elif flag and flag[0] in names:
        use = f"; use {flag[0]}={flag[1] if value else flag[2]!r}"
    elif meant := _field_meant(plain, names):
        use = f"; use {meant}"
    else:
        use = did_you_mean(name, names) or f"; it takes {join_words(names, 'and')}"
    return f"{function}() has no {name}{use}"


def _field_meant(word: str, names: Collection[str]) -> str | None:
    """The one of `names` that `word` stands for by the tables of this module, or None."""
    found = [own for rows in (OTHER_NAMES, KEYWORDS) for own, others in rows.items() if word in others]
    for template in SETTINGS.get(word, ()):
        option = template.split()[0].strip("-@").replace("-", "_")
        found.append({"indices": "return_indices"}.get(option, option))
    return next((own for own in found if own in names), None)
