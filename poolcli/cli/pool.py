"""The pooling commands, one an operator, and their options."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from typing import Annotated

import typer

from poolcli.cli.attributes import attribute_names
from poolcli.cli.operators import OPERATOR_WORDS
from poolcli.cli.options import Arrays, Dtype, Inputs, Windows
from poolcli.cli.program import FILES, RESULT, RUN, Command, Typed, app, examples, takes
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import BinAttributes

PREVIEWS = r"terminal|text|.+\.(png|apng|jpe?g|svg|html|gif|webp|tiff?|bmp)"  # what is no input behind --preview


@dataclass(frozen=True, kw_only=True)
class PoolOptions(Arrays, Windows):
    """What the pooling commands take."""

    inputs: Inputs = dataclasses.field(default_factory=list)
    # fmt: off
    output_layout: Annotated[
        str | None,
        typer.Option("--output-layout", metavar="AXES", help="Axes of the output. Default: those of the input.",
                     rich_help_panel=RESULT, hidden=True),
        Typed(example="NHWC"),
    ] = None
    dtype: Dtype = None
    linear_light: Annotated[
        bool,
        typer.Option("--linear-light", help="Average images in linear light instead of sRGB values.",
                     rich_help_panel=RESULT, hidden=True),
    ] = False
    rescale: Annotated[
        str | None,
        typer.Option("--rescale", metavar="LOW,HIGH", rich_help_panel=RESULT, hidden=True,
                     help="Write float results as an image: LOW becomes 0, HIGH 255. Alone: the range of each result."),
        Typed(example="0,1", alone="auto", value=r"auto|[-+.\deE]+,[-+.\deE]+"),
    ] = None
    indices: Annotated[
        str | None,
        typer.Option("--indices", metavar="PATH", help="Also write the positions of the extremes (argmax, argmin).",
                     rich_help_panel=FILES),
        Typed("return-indices", example="where.npy", writes=True),
    ] = None
    recursive: Annotated[
        bool, typer.Option("-r", "--recursive", help="Search folders recursively.", rich_help_panel=FILES)
    ] = False
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="SUFFIX", help="Format of outputs in a folder, such as png.",
                     rich_help_panel=FILES),
        Typed(example="npy"),
    ] = None
    all: Annotated[
        bool,
        typer.Option("--all", help="Pool every array of HDF5, Zarr and .npz inputs under its own name.",
                     rich_help_panel=FILES, hidden=True),
    ] = False
    raw: Annotated[
        str | None,
        typer.Option("--raw", metavar="SHAPE,TYPE", rich_help_panel=FILES, hidden=True,
                     help="Read files without a header as this array: 1,3,64,64,uint8 (>f4: big-endian)."),
        Typed(example="1,3,64,64,uint8"),
    ] = None
    files_from: Annotated[
        str | None,
        typer.Option("--files-from", metavar="LIST", help="Read the inputs from a list, one a line, or - for stdin.",
                     rich_help_panel=FILES, hidden=True),
        Typed(example="list.txt"),
    ] = None
    quality: Annotated[
        int | None,
        typer.Option("--quality", metavar="N", rich_help_panel=FILES, hidden=True,
                     help="Quality of .jpg and .webp outputs, 1 to 100. Default: a JPEG's own or 95; .webp lossless."),
        Typed(example="90"),
    ] = None
    skip_existing: Annotated[
        bool,
        typer.Option("--skip-existing", help="Leave outputs that exist as they are.", rich_help_panel=FILES,
                     hidden=True),
    ] = False
    preview: Annotated[
        str | None,
        typer.Option("--preview", metavar="FILE", rich_help_panel=RUN, hidden=True,
                     help="Show input and output side by side; FILE.png: in that file; text: into a pipe, too."),
        Typed(example="seen.png", alone="terminal", value=PREVIEWS),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="Files processed at once. Default: the number of cores.",
                     rich_help_panel=RUN, hidden=True),
        Typed(example="2"),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", rich_help_panel=RUN, hidden=True,
                     help="Process part I of N of the inputs, as 1/8; merge combines the parts."),
        Typed(example="1/8"),
    ] = None
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first file that fails.", rich_help_panel=RUN, hidden=True)
    ] = False
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Report each of several inputs.", rich_help_panel=RUN, hidden=True)
    ] = False
    # fmt: on


def _not_offered(op: str) -> list[str]:
    """The options that operator `op` has no use for."""
    reducer = OPERATORS[op].reducer
    offered = {"indices": reducer.picks, "linear_light": reducer.divides}
    others = [each.name for each in fields(Windows) if each.name not in attribute_names(op)]
    return [*others, *(name for name, has in offered.items() if not has)]


for _op, _words in OPERATOR_WORDS.items():
    _window = "--output-size S" if issubclass(OPERATORS[_op], BinAttributes) else "-k K"

    @app.command(
        _op,
        cls=Command,
        add_help_option=False,
        epilog=examples(*_words.examples),
        options_metavar=f"{_window} -o PATH [OPTIONS]",
    )
    @takes(PoolOptions, without=_not_offered(_op))
    def _pool(asked: PoolOptions, op: str = _op) -> int:
        from poolcli.cli.pooling import pool  # which loads what the help does not need

        return pool(op, asked)
