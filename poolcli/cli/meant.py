"""What other programs call an option, and how it is said here: for messages alone, none of these words is taken."""

from __future__ import annotations

from collections.abc import Collection

from poolcli.cli.commands import Command
from poolcli.cli.options import Argument
from poolcli.cli.parameters import parameters

# Of several settings the first that the command has is meant.
SETTINGS = {
    "force": ("--overwrite",),
    "replace": ("--overwrite",),
    "clobber": ("--overwrite",),
    "yes": ("--overwrite",),
    "f": ("--overwrite",),
    "y": ("--overwrite",),
    "j": ("--jobs 4", "--threads 4"),
    "workers": ("--jobs 4", "--threads 4"),
    "num-workers": ("--jobs 4", "--threads 4"),
    "processes": ("--jobs 4", "--threads 4"),
    "parallel": ("--jobs 4", "--threads 4"),
    "cores": ("--jobs 4", "--threads 4"),
    "silent": ("--quiet",),
    "ceil": ("--rounding-type ceil", "--edge ceil"),
    "floor": ("--rounding-type floor", "--edge floor"),
    "size": ("--output-size 7", "--kernel 2", "--input-shape NAME=1,3,640,640"),
    "factor": ("--kernel 2 --strides 2", "--kernel 2", "--output-size 7"),
    "scale-factor": ("--kernel 2 --strides 2", "--kernel 2", "--output-size 7"),
    "downsample": ("--kernel 2 --strides 2", "--kernel 2", "--output-size 7"),
    "padding-begin": ("--pads-begin 1",),
    "padding-start": ("--pads-begin 1",),
    "padding-end": ("--pads-end 1",),
    "norm": ("--p 2",),
    "power": ("--p 2",),
    "ord": ("--p 2",),
    "tolerance": ("--atol 1e-6",),
    "eps": ("--atol 1e-6",),
    "epsilon": ("--atol 1e-6",),
    "batch": ("--input-shape NAME=1,3,640,640",),
    "input-type": ("--input-dtype float32",),
}
# What people type for a command.
COMMANDS_MEANT = {
    "version": "--version",
    "resize": "avg INPUT -o OUTPUT -k 2 -s 2",
    "scale": "avg INPUT -o OUTPUT -k 2 -s 2",
    "downscale": "avg INPUT -o OUTPUT -k 2 -s 2",
    "downsample": "avg INPUT -o OUTPUT -k 2 -s 2",
    "halve": "avg INPUT -o OUTPUT -k 2 -s 2",
    "thumbnail": "avg INPUT -o OUTPUT -k 2 -s 2",
    "pool": "avg INPUT -o OUTPUT -k 2, or max",
    "pooling": "avg INPUT -o OUTPUT -k 2, or max",
    "convert": "shape OP SHAPE --to NAME for a pooling, or check MODEL --to NAME for those of a model",
    "explain": "shape OP SHAPE --explain",
    "windows": "shape OP SHAPE --windows",
    "plan": "shape OP SHAPE",
    "solve": "shape OP SHAPE --solve N",
    "picture": "shape OP SHAPE --picture FILE",
    "plot": "shape OP SHAPE --picture FILE",
    "draw": "shape OP SHAPE --picture FILE",
    "preview": "avg INPUT -o OUTPUT -k 2 --preview",
    "diff": "compare A B",
    "cmp": "compare A B",
    "verify": "check MODEL",
    "validate": "check MODEL",
    "ls": "info FILE",
    "list": "info FILE",
    "show": "info FILE",
    "inspect": "info FILE",
    "guess": "identify INPUT OUTPUT",
    "clean": "cache clear",
    "warm": "cache warm",
    "clear": "cache clear",
    "join": "merge FOLDER",
}
# What there is nothing for.
REASONS = {
    "device": "poolcli computes on the CPU; leave it out",
    "gpu": "poolcli computes on the CPU; leave it out",
    "cuda": "poolcli computes on the CPU; leave it out",
    "cpu": "poolcli computes on the CPU alone; leave it out",
    "i": "inputs stand without an option",
    "global": "write poolcli adaptive-avg or adaptive-max with --output-size 1",
    "padding-mode": "padding has no values; --include-pad counts it in the divisor of averages",
}


def instead(command: Command, name: str, flags: Collection[str]) -> str:
    """The end of the refusal of an option: what to type; empty where nothing is known."""
    plain = name.strip("-").lower().replace("_", "-")
    known = next((each for each in SETTINGS.get(plain, ()) if each.split()[0] in flags), None)
    if known:
        return f"; write {known}"
    if plain in REASONS:
        return f"; {REASONS[plain]}"
    return _opposite(plain, flags) or _argument(command, plain) or _other_case(name, flags)


def _opposite(plain: str, flags: Collection[str]) -> str:
    """Of `--no-this`: the flag that turns it off, or none at all."""
    if not plain.startswith("no-"):
        return ""
    counts, leaves_out = ("--include-pad", "--exclude-pad")
    opposites = {"exclude-pad": counts, "include-pad": leaves_out, "count-include-pad": leaves_out}
    positive = plain.removeprefix("no-")
    if positive in opposites and opposites[positive] in flags:
        return f"; write {opposites[positive]}"
    return f"; leave --{positive} out" if f"--{positive}" in flags else ""


def _argument(command: Command, plain: str) -> str:
    """Of what is given by its place, and of one of its words."""
    for each in parameters(command):
        if not isinstance(each.row, Argument):
            continue
        if plain in each.row.words:
            return f"; write poolcli {command.name} {plain}"
        if len(plain) > 1 and plain in (each.name, each.name.rstrip("s"), each.row.metavar.lower().rstrip(".")):
            return f"; {each.row.metavar} stands without one: poolcli {command.name} {each.row.example}"
    return ""


def _other_case(name: str, flags: Collection[str]) -> str:
    other = name.swapcase()
    return f"; did you mean {other}?" if len(name) == 2 and other in flags else ""
