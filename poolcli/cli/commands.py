"""The commands of the program, one row each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from poolcli.cli.requests.request import Request
from poolcli.cli.words import OPERATOR_WORDS
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import BinAttributes
from poolcli.system.gc import gc_disabled

EXIT_CODES = "Exit codes: 0 done, 1 an input or output failed, 2 the request is wrong, 130 or 143 stopped."


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    `asked` is `module.Class` of `poolcli.cli.requests`, `body` `module.function` of this package: imported when the
    command is named. The body takes a request and returns the exit code. A command that is an operator names it in
    `op`, and in `without` the fields that it does not offer. `needs` are options that have a default and yet are needed
    as a rule, for the line of usage.
    """

    name: str
    asked: str
    body: str
    text: str
    examples: tuple[str, ...]
    exit_codes: str = ""
    op: str | None = None
    without: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def request(self) -> type[Request]:
        """The class of its requests."""
        found: type[Request] = _named(f"requests.{self.asked}")
        return found

    def run(self, request: Request) -> int:
        """Does what is asked; returns the exit code."""
        code: int = _named(self.body)(request)
        return code


def _named(path: str) -> Any:
    """What a module of this package calls so."""
    module, name = path.rsplit(".", 1)
    with gc_disabled():
        return getattr(import_module(f"poolcli.cli.{module}"), name)


def _pooling(op: str) -> Command:
    words, reducer = OPERATOR_WORDS[op], OPERATORS[op].reducer
    offered = {"indices": reducer.picks, "linear_light": reducer.divides}
    without = tuple(name for name, has in offered.items() if not has)
    window = "output_size" if issubclass(OPERATORS[op], BinAttributes) else "kernel"
    needs = (window, "output")
    return Command(op, "pool.PoolRequest", "pool.pool", words.text, words.examples, EXIT_CODES, op, without, needs)


COMMANDS = (
    *map(_pooling, OPERATORS),
    Command(
        "pyramid",
        "pyramid.PyramidRequest",
        "pyramid.pyramid",
        "An OME-Zarr store of an array and of ever smaller levels of it.",
        (
            "poolcli pyramid samples/volume.h5 -o v.ome.zarr --levels 3 --scale z=2",
            "poolcli pyramid samples/volume.h5 -o labels.ome.zarr --op mode --from source",
            "poolcli pyramid samples/astronaut.png -o photo.ome.zarr --levels 3",
        ),
        EXIT_CODES,
        needs=("output",),
    ),
    Command(
        "shape",
        "shape.ShapeRequest",
        "shape.shape",
        "The output shape and why, from a typed shape or a file's header.",
        (
            "poolcli shape avg 1,3,32,32 -k 5 -s 3 -p 1 --explain",
            "poolcli shape max samples/astronaut.png -k 3 -s 2 -p 1 --compare",
            "poolcli shape avg 1,3,56,56 --solve 28",
            "poolcli shape avg 1,3,56,56 -k 3 -s 2 --like pytorch --to openvino",
        ),
        needs=("kernel",),
    ),
    Command(
        "check",
        "check.CheckRequest",
        "check.check_command",
        "The pooling layers of a model file: declared shapes against computed ones.",
        (
            "poolcli check samples/backbone.xml",
            "poolcli check samples/backbone.xml --against pytorch",
            "poolcli check samples/backbone.xml --to pytorch --json",
        ),
        "Exit codes: 0 none is wrong, 1 a layer differs or is invalid, 2 the model cannot be read.",
    ),
    Command(
        "compare",
        "compare.CompareRequest",
        "compare.compare_command",
        "How far two files are from each other, and where.",
        (
            "poolcli compare samples/features.npy samples/features.npy",
            "poolcli compare samples/features.npy samples/features.npy --atol 1e-6 --rtol 1e-5",
            "poolcli compare samples/volume.h5:/volume samples/volume.h5 --json",
        ),
        "Exit codes: 0 equal within the tolerance, 1 different, 2 they cannot be compared.",
    ),
    Command(
        "identify",
        "identify.IdentifyRequest",
        "identify.identify_command",
        "Which operator, attributes and framework turn one array into another.",
        (
            "poolcli max samples/features.npy -o pooled.npy -k 3 -s 2 -p 1",
            "poolcli identify samples/features.npy pooled.npy",
            "poolcli identify samples/features.npy pooled.npy --op max --like onnx --json",
        ),
        "Exit codes: 0 found, 1 nothing fits (the nearest is shown), 2 the arrays are not of one pooling.",
    ),
    Command(
        "info",
        "info.InfoRequest",
        "info.info",
        "What files hold: arrays, shapes, types.",
        (
            "poolcli info samples/volume.h5 samples/astronaut.png",
            "poolcli info samples/volume.h5:/volume",
            "poolcli info samples/features.npy --json",
        ),
        without=("quiet",),
    ),
    Command(
        "merge",
        "merge.MergeRequest",
        "merge.merge_command",
        "One manifest, or one store, of all shards of a run, when each has ended.",
        (
            "poolcli avg samples -o pooled/ -k 2 -s 2 --shard 1/2",
            "poolcli avg samples -o pooled/ -k 2 -s 2 --shard 2/2",
            "poolcli merge pooled",
        ),
        "Exit codes: 0 merged, 1 shards are missing or not done, 2 the parts are not of one run.",
    ),
    Command(
        "cache",
        "cache.CacheRequest",
        "cache.cache",
        "Compiled kernels kept between runs.",
        ("poolcli cache info", "poolcli cache warm", "poolcli cache clear"),
    ),
)
BY_NAME = {command.name: command for command in COMMANDS}
