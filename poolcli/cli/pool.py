"""The commands `avg`, `max` and so on, one for each operator: their options. `run_pool.py` runs them."""

from dataclasses import dataclass, field, fields
from typing import Annotated

from poolcli.cli.operators import OPERATOR_HELP
from poolcli.cli.options import Dtype, MakesArrays, Windows, attribute_names, complete_inputs
from poolcli.cli.program import FILES, RESULT, RUN, argument, command, option
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import BinAttributes


# fmt: off
@dataclass(frozen=True, kw_only=True)
class PoolOptions(MakesArrays, Windows):
    """The options of the commands that pool files."""

    inputs: Annotated[list[str], argument(
        "INPUT", complete=complete_inputs, example="x.npy",
        help=".npy, .npz[:key], .h5[:/dataset], .zarr[:/array], an image, a folder, a quoted glob, or - for a .npy "
             "stream.",
    )] = field(default_factory=list)
    output_layout: Annotated[str | None, option(
        "--output-layout", metavar="AXES", panel=RESULT, hidden=True, example="NHWC",
        help="Axes of the output. Default: those of the input.",
    )] = None
    dtype: Dtype = None
    linear_light: Annotated[bool, option(
        "--linear-light", panel=RESULT, hidden=True, help="Average images in linear light instead of sRGB values.",
    )] = False
    rescale: Annotated[str | None, option(
        "--rescale", metavar="LOW,HIGH", panel=RESULT, hidden=True, example="0,1", flag_value="auto",
        value_pattern=r"auto|[-+.\deE]+,[-+.\deE]+",
        help="Write float results as an image: LOW becomes 0, HIGH 255. Without a value: the range of each result.",
    )] = None
    indices: Annotated[str | None, option(
        "--indices", metavar="PATH", panel=FILES, example="where.npy", is_output=True,
        help="Also write the positions of the extremes (argmax, argmin).",
    )] = None
    recursive: Annotated[bool, option("-r", "--recursive", panel=FILES, help="Search folders recursively.")] = False
    format: Annotated[str | None, option(
        "--format", metavar="SUFFIX", panel=FILES, example="npy", help="Format of outputs in a folder, such as png.",
    )] = None
    all: Annotated[bool, option(
        "--all", panel=FILES, hidden=True, help="Pool every array of HDF5, Zarr and .npz inputs under its own name.",
    )] = False
    raw: Annotated[str | None, option(
        "--raw", metavar="SHAPE,TYPE", panel=FILES, hidden=True, example="1,3,64,64,uint8",
        help="Read headerless files as this shape and type: 1,3,64,64,uint8 (>f4: big-endian).",
    )] = None
    files_from: Annotated[str | None, option(
        "--files-from", metavar="LIST", panel=FILES, hidden=True, example="list.txt",
        help="Read the names of inputs from a list, one per line, or - for stdin.",
    )] = None
    quality: Annotated[int | None, option(
        "--quality", metavar="N", panel=FILES, hidden=True, example="90",
        help="Quality of .jpg and .webp outputs, 1 to 100. Default: that of a JPEG input, or 95; .webp is lossless.",
    )] = None
    verbose: Annotated[bool, option(
        "-v", "--verbose", panel=RUN, hidden=True, help="Report each of several inputs.",
    )] = False
# fmt: on


def _not_offered(op: str) -> list[str]:
    """The options that operator `op` does not have."""
    reducer, own = OPERATORS[op].reducer, attribute_names(op)
    others = [each.name for each in fields(Windows) if each.name not in own]
    return [*others, *([] if reducer.picks else ["indices"]), *([] if reducer.divides else ["linear_light"])]


def declare(op: str) -> None:
    """Declares the command of an operator."""
    window = "--output-size S" if issubclass(OPERATORS[op], BinAttributes) else "-k K"
    usage, examples = f"{window} -o PATH [OPTIONS]", OPERATOR_HELP[op].examples

    @command(op, PoolOptions, *examples, usage=usage, without=_not_offered(op))
    def run(asked: PoolOptions) -> int:
        from poolcli.cli.run_pool import pool  # slow to import, and not needed for the help

        return pool(op, asked)
