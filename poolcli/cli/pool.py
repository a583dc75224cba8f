"""The commands `avg`, `max` and so on: one function, from which a command is made for each operator."""

from inspect import signature
from typing import Annotated, Any

from poolcli.cli import options
from poolcli.cli.operators import OPERATOR_HELP
from poolcli.cli.options import FILES, RESULT, RUN, PoolOptions, file_argument, option, record_of
from poolcli.cli.program import command
from poolcli.cli.values import ATTRIBUTES, attribute_names, offers

INPUTS = ".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy stream."


# fmt: off
def pool(
    op: str,
    inputs: Annotated[list[str] | None, file_argument("INPUT", INPUTS)] = None,
    kernel: options.Kernel = None,
    output_size: options.OutputSize = None,
    fit: options.Fit = None,
    strides: options.Strides = None,
    pads: options.Pads = None,
    output: options.Output = None,
    pads_begin: options.PadsBegin = None,
    pads_end: options.PadsEnd = None,
    dilations: options.Dilations = None,
    auto_pad: options.AutoPad = None,
    rounding_type: options.RoundingType = None,
    exclude_pad: options.ExcludePad = None,
    divisor_override: options.DivisorOverride = None,
    p: options.P = None,
    ddof: options.Ddof = None,
    like: options.Like = None,
    axis: options.Axis = None,
    index_element_type: options.IndexElementType = None,
    layout: options.Layout = None,
    output_layout: Annotated[str | None, option(
        RESULT, "AXES", "--output-layout", hidden=True, help="Axes of the output. Default: those of the input.",
    )] = None,
    missing: options.Missing = [],  # noqa: B006  # read only
    min_count: options.MinCount = None,
    dtype: options.Dtype = None,
    linear_light: Annotated[bool, option(
        RESULT, None, "--linear-light", hidden=True, help="Average images in linear light instead of sRGB values.",
    )] = False,
    rescale: Annotated[str | None, option(
        RESULT, "LOW,HIGH", "--rescale", hidden=True,
        help="Write float results as an image: LOW becomes 0, HIGH 255. Without a value: the range of each result.",
    )] = None,
    indices: Annotated[str | None, option(
        FILES, "PATH", "--indices", help="Also write the positions of the extremes (argmax, argmin).",
    )] = None,
    pages: options.Pages = None,
    allow_external: options.AllowExternal = False,
    dataset: options.Dataset = [],  # noqa: B006
    chunks: options.Chunks = None,
    shards: options.Shards = None,
    overwrite: options.Overwrite = False,
    resume: options.Resume = False,
    recursive: Annotated[bool, option(FILES, None, "-r", "--recursive", help="Search folders recursively.")] = False,
    output_format: Annotated[str | None, option(
        FILES, "SUFFIX", "--format", help="Format of outputs in a folder, such as png.",
    )] = None,
    every_array: Annotated[bool, option(
        FILES, None, "--all", hidden=True, help="Pool every array of HDF5, Zarr and .npz inputs under its own name.",
    )] = False,
    raw: Annotated[str | None, option(
        FILES, "SHAPE,TYPE", "--raw", hidden=True,
        help="Read headerless files as this shape and type: 1,3,64,64,uint8 (>f4: big-endian).",
    )] = None,
    files_from: Annotated[str | None, option(
        FILES, "LIST", "--files-from", hidden=True,
        help="Read the names of inputs from a list, one per line, or - for stdin.",
    )] = None,
    quality: Annotated[int | None, option(
        FILES, "N", "--quality", hidden=True,
        help="Quality of .jpg and .webp outputs, 1 to 100. Default: that of a JPEG input, or 95; .webp is lossless.",
    )] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, option(
        RUN, None, "-v", "--verbose", hidden=True, help="Report each of several inputs.",
    )] = False,
    debug: options.Debug = False,
    max_memory: options.MaxMemory = None,
    engine: options.Engine = "auto",
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    dry_run: options.DryRun = False,
) -> int:
    """Pools the inputs; returns the exit code."""
    values = locals() | {"inputs": inputs or [], "format": output_format, "all": every_array}
    from poolcli.cli.run_pool import run_pool  # slow to import, and not needed for the help

    return run_pool(op, values, record_of(PoolOptions, values))
# fmt: on


def declare(op: str) -> None:
    """Declares the command of an operator: `pool` with the options that the operator has."""
    others = {"op", *(name for name in (*ATTRIBUTES, "indices", "linear_light") if not offers(op, name))}
    own = [each for each in signature(pool).parameters.values() if each.name not in others]

    def pool_with(**typed: Any) -> int:
        return pool(op, **typed)

    pool_with.__signature__ = signature(pool).replace(parameters=own)  # type: ignore[attr-defined]
    pool_with.__annotations__ = {each.name: each.annotation for each in own}
    window = "-k K" if "kernel" in attribute_names(op) else "--output-size S"
    examples = [f"poolcli {op} {words}" for words in OPERATOR_HELP[op].examples]
    command(*examples, name=op, usage=f"{window} -o PATH [OPTIONS]")(pool_with)
