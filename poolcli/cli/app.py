"""The program: its commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from poolcli.cli.operators import SHAPE_ATTRIBUTES, attribute_options
from poolcli.cli.options import EXPLAIN_OPTIONS, FILE_OPTIONS, RESULT_OPTIONS, RUN_OPTIONS, add_command
from poolcli.core.errors import PoolError
from poolcli.core.fields import on_command_line
from poolcli.ops import OPERATORS
from poolcli.report.text import printable_lines

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 130 or 143 stopped."
app = typer.Typer(
    name="poolcli",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Start with: poolcli shape avg 1,3,32,32 -k 2 -s 2\n\n{EXIT_CODES}",
)

POOL_HELP = {
    "avg": (
        "Average of every window (OpenVINO AvgPool, nGraph AvgPool).",
        "poolcli avg photo.png -o half.png -k 2 -s 2\n\n"
        "poolcli avg x.npy -o y.npy -k 3 -s 2 -p 1 --include-pad --rounding-type ceil",
    ),
    "max": (
        "Maximum of every window, and where it is (OpenVINO MaxPool).",
        "poolcli max x.npy -o y.npy -k 2 -s 2 --indices where.npy\n\n"
        "poolcli max volumes/ -o pooled/ -k 2,3,3 -s 2,3,3 -r",
    ),
    "adaptive-avg": (
        "Averages to a given output size (OpenVINO AdaptiveAvgPool).",
        "poolcli adaptive-avg photos/ -o thumbs/ --output-size 224,224",
    ),
    "adaptive-max": (
        "Maxima to a given output size, and where they are (OpenVINO AdaptiveMaxPool).",
        "poolcli adaptive-max x.h5:/features -o y.npy --output-size 7,7 --indices where.npy",
    ),
}


@app.callback()
def _program(
    version: Annotated[bool, typer.Option("--version", help="Show the version.", is_eager=True)] = False,
) -> None:
    """Pooling of tensors and images, exactly as OpenVINO's operators define it."""


def _pool_body(name: str) -> Callable[[Mapping[str, Any]], None]:
    def body(values: Mapping[str, Any]) -> None:
        from poolcli.cli.pool import pool

        raise typer.Exit(pool(name, values))

    return body


for _name in OPERATORS:
    _indices = ("indices",) if "max" in _name else ("linear_light",)
    _text, _examples = POOL_HELP[_name]
    add_command(
        app,
        _name,
        _pool_body(_name),
        ("inputs", *attribute_options(_name), *RESULT_OPTIONS, *_indices, *FILE_OPTIONS, *RUN_OPTIONS),
        _text,
        f"Examples:\n\n{_examples}\n\n{EXIT_CODES}",
    )


def _late(module: str, name: str) -> Callable[[Mapping[str, Any]], None]:
    """The body of a command in its own module, imported when it runs."""

    def body(values: Mapping[str, Any]) -> None:
        raise typer.Exit(getattr(import_module(f"poolcli.cli.{module}"), name)(values))

    return body


add_command(
    app,
    "shape",
    _late("shape", "shape"),
    (
        "op",
        "shape",
        *SHAPE_ATTRIBUTES,
        *EXPLAIN_OPTIONS,
        "layout",
        "input_dtype",
        "dtype",
        "dataset",
        "overwrite",
        "json",
        "quiet",
        "debug",
    ),
    "The output shape and why, from a typed shape or a file's header.",
    "Examples:\n\npoolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain\n\n"
    "poolcli shape max photo.png -k 3 -s 2 -p 1 --compare\n\n"
    "poolcli shape avg 1,3,56,56 --solve 28\n\n"
    "poolcli shape avg 1,3,56,56 -k 3 -s 2 --like pytorch --to openvino",
)
add_command(
    app,
    "check",
    _late("check", "check_command"),
    ("model", "against", "layer", "run", "json", "quiet", "debug"),
    "The pooling layers of a model file: declared shapes against computed ones.",
    "Examples:\n\npoolcli check model.xml\n\npoolcli check model.onnx --against pytorch\n\n"
    "Exit codes: 0 all agree, 1 a declared shape differs, 2 the model cannot be read.",
)
add_command(
    app,
    "info",
    _late("info", "info"),
    ("files", "json", "debug"),
    "What files hold: arrays, shapes, types.",
    "Example:\n\npoolcli info volume.h5 photo.png",
)

add_command(
    app,
    "cache",
    _late("cache", "cache"),
    ("action", "json", "quiet", "debug"),
    "Compiled kernels kept between runs.",
    "Example:\n\npoolcli cache warm",
)


def run(arguments: Sequence[str]) -> int:
    """Runs the program; returns its exit code. Only a bug, or --debug, lets an exception through."""
    if list(arguments) == ["--version"]:
        from importlib.metadata import version

        print(f"poolcli {version('poolcli')}")
        return 0
    try:
        return app(args=list(arguments), prog_name="poolcli", standalone_mode=False) or 0
    except typer.Exit as stop:
        return stop.exit_code
    except TyperException as error:
        return _usage_error(error)
    except PoolError as error:
        if "--debug" in arguments:
            error.args = (on_command_line(error.message),)  # what the traceback ends in
            raise
        complain(error)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read standard output is gone; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def complain(error: PoolError) -> None:
    """Writes the error to standard error, after whatever standard output holds."""
    sys.stdout.flush()
    print(f"poolcli: {printable_lines(on_command_line(error.message))}", file=sys.stderr)


def _usage_error(error: TyperException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
        return 2
    path = context.command_path if context else "poolcli"
    print(f"poolcli: {printable_lines(error.format_message())} ({path} --help shows the options)", file=sys.stderr)
    return 2
