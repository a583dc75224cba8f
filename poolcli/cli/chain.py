"""The `chain` command: shapes, strides and receptive fields through a sequence of layers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from poolcli.cli.options import Layout, Like, Reporting
from poolcli.cli.program import Command, Typed, app, examples, takes
from poolcli.cli.values import parse_numbers
from poolcli.explain.chain import chain


@dataclass(frozen=True, kw_only=True)
class ChainOptions(Reporting):
    """What `chain` takes."""

    # fmt: off
    shape: Annotated[
        str, typer.Argument(metavar="SHAPE", help="Shape of the input, such as 1,3,224,224."),
        Typed(example="1,3,224,224"),
    ]
    layers: Annotated[
        list[str],
        typer.Argument(metavar="LAYER", help="NAME[:kK][,sS][,pP][,dD][,ceil][,oC]: conv:k7,s2,p3,o64, max:k3,s2,p1, "
                       "adaptive-avg:7, global-avg.", show_default=False),
        Typed(example="max:k3,s2,p1"),
    ]
    # fmt: on
    like: Like = None
    layout: Layout = None


@app.command(
    "chain",
    cls=Command,
    add_help_option=False,
    options_metavar="[OPTIONS]",
    epilog=examples(
        "poolcli chain 1,3,224,224 conv:k7,s2,p3,o64 max:k3,s2,p1 avg:k2",
        "poolcli chain 1,64,56,56 max:k3,s2,p1,ceil global-avg --like pytorch --json",
        exit_codes="",
    ),
)
@takes(ChainOptions)
def chain_command(request: ChainOptions) -> int:
    """Prints shape, cumulative stride, receptive field and padding after each layer."""
    found = chain(parse_numbers("SHAPE", request.shape), request.layers, like=request.like, layout=request.layout)
    if request.json:
        from poolcli.report.as_json import chain_document, to_json

        print(to_json(chain_document(found)))
    elif request.quiet:
        print(",".join(map(str, found.layers[-1].output)))
    else:
        from poolcli.report.console import show
        from poolcli.report.explain import chain_view

        show(chain_view(found), sys.stdout)
    return 0
