"""Which types each framework takes, and where its numbers differ from poolcli's: the tables of docs/differences.md.

Every type, operator, number of axes and kind of answer (with and without indices) is asked the same questions, each of
which has a mark. `python -m tests.conformance.sweep` writes the tables of the frameworks that are installed, and
`python -m tests.conformance.sweep PyTorch max 2 int64` prints the answers that differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from poolcli import AdaptiveAvgPool, RequestError
from poolcli.engine import run
from poolcli.layouts import default_layout
from poolcli.ops import OPERATORS
from tests.conformance.differences import markdown
from tests.conformance.peers import HALVES, ONNX, OPENVINO, PYTORCH, TENSORFLOW, Array, Peer

DOCUMENT = Path(__file__).parents[2] / "docs" / "differences.md"
INTEGERS = [f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)]
TYPES = ("bool", *INTEGERS, *HALVES, "float32", "float64")
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # of a significand, in bits
MARKS = {
    "=": "the result of poolcli, bit for bit, in all of the cases below",
    "no": "the framework refuses the type, poolcli does not",
    "+": "the framework computes it, poolcli needs `--dtype`",
    "-": "both refuse it; poolcli computes it with `--dtype`",
    "x": "ordinary numbers: 1, 3 and 16 channels, channels last in memory, no batch axis",
    "c": "one batch of one channel, longer than 1 along one axis",
    "r": "averages of integers that lie half-way",
    "s": "sums of more digits than the type holds, such as 2**24 + 1 + 1 + 1 in float32",
    "l": "the largest and lowest numbers of the type, integers beyond 2**24, powers beyond float32",
    "i": "windows that hold nothing but the lowest value of the type (floats: -inf)",
    "n": "nan and infinities",
    "z": "zeros of both signs",
    "e": "windows without input",
    "g": "adaptive averages with a single output",
    "d": "divisor_override that is negative or smaller than the window",
}
# What a framework says when it has no code for a type. A refusal for another reason is a `?`.
REASONS = {
    "OpenVINO": ("Supported primitive descriptors list is empty",),
    "ONNX Runtime": ("Could not find an implementation", "of input parameter (x0) of operator"),
    "PyTorch": ("not implemented for '",),
    "TensorFlow": ("is not in the list of allowed values", "Could not find device for node"),
}
# What oneDNN computes otherwise, which TensorFlow uses on some processors alone: not asked over so many axes.
VARY = {("avg", "bfloat16", "s"): (1, 2, 3), ("avg", "float32", "n"): (3,), ("max", "float32", "i"): (3,)}
SWEPT = (OPENVINO, ONNX, PYTORCH, TENSORFLOW)
nan, inf = np.nan, np.inf


@dataclass(frozen=True)
class Question:
    """One call; its mark stands in the table where the answers differ."""

    mark: str
    op: Any
    x: Array
    layout: str | None = None


def array(values: Any, dtype: str) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def operator(peer: Peer, name: str, kernel: tuple[int, ...], sizes: tuple[int, ...], **more: Any) -> Any:
    """Windows side by side, as a sliding or an adaptive pooling."""
    record: Any = OPERATORS[name]
    if not name.startswith("adaptive"):
        return record(kernel, like=peer.like, strides=kernel, **more)
    if "max" in name:
        more["index_element_type"] = "i32" if peer is OPENVINO else "i64"
    return record(tuple(n // k for n, k in zip(sizes, kernel, strict=True)), like=peer.like, **more)


def ordinary(peer: Peer, name: str, rank: int, dtype: str, lead: tuple[int, int]) -> Question:
    """Windows of 2 along each axis, whose means and norms any type holds."""
    corner: Any = (..., *[slice(1, None, 2)] * rank)
    x: Array = np.random.default_rng(7).integers(0 if dtype[0] == "u" else -15, 16, (*lead, *[4] * rank)) * 8
    if name == "lp":
        x[...] = 0
        x[tuple([...] + [slice(None, None, 2)] * rank)] = 3
        x[corner] = 4
    elif dtype == "bool":
        x = x > 60
        x[corner] = True
    return Question("x", operator(peer, name, (2,) * rank, x.shape[2:]), array(x, dtype))


def windows(name: str, dtype: str) -> Iterator[tuple[str, list[tuple[Any, ...]], dict[str, Any]]]:
    """(mark, the numbers of each window, attributes)"""
    low, high = 0, 1
    if dtype != "bool":
        info: Any = np.iinfo(dtype) if "int" in dtype else ml_dtypes.finfo(array(0, dtype).dtype)
        low, high = (array(end, dtype).item() for end in (info.min, info.max))
    if "avg" in name and "int" in dtype:
        yield "r", [(v, v + 1) for v in (0, 1, 2, 3, *[-1, -2, -3] * (low < 0))], {}
        for wide in (2**24 + 1, 2**53 + 1):
            if wide < high:
                yield "s", [(wide,) * 4, (0,) * 4], {}
    if "avg" in name:
        yield "l", [(high,) * 4, (low,) * 4], {}
    if "max" in name:
        lowest = -inf if "float" in dtype else low
        yield "i", [(lowest, lowest), (0, 0), (lowest, lowest)], {}
        wider = [v for v in (2**24 + 1, 2**31 + 1, 2**40 + 1, 2**53 + 1) if v < high] if "int" in dtype else []
        yield "l", [(low, high, high, low), (low, low, high, low), *[(v, v - 1, v - 1, v) for v in wider]], {}
    if "float" not in dtype:
        return
    one, far = 2.0 ** DIGITS[dtype], 2.0 ** {"float16": 10, "float64": 600}.get(dtype, 100)
    yield "z", [(-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0)], {"p": 1} if name == "lp" else {}
    if name == "lp":
        yield "s", [(one, 1, 1, 1), (one, 1, 1, -one)], {"p": 1}
        yield "l", [(3 * far, 4 * far), (3 / far, 4 / far)], {}
        yield "n", [(nan, 1), (inf, 1), (-inf, 1), (-inf, inf)], {}
    elif "avg" in name:
        yield "s", [(one, 1, 1, 1), (1, 1, 1, 1)], {}
        yield "n", [(nan, 1), (inf, 1), (-inf, 1), (-inf, inf)], {}
    else:
        yield "n", [(nan, 1, 2), (1, nan, 2), (nan, nan, nan), (1, inf, -inf), (-inf, 1, -inf)], {}


def questions(peer: Peer, name: str, rank: int, dtype: str) -> Iterator[Question]:
    """All that one cell of the table asks."""
    before = (1,) * (rank - 1)  # along the other axes

    def line(mark: str, groups: list[tuple[Any, ...]], channels: int = 16, **more: Any) -> Question:
        kernel, values = (*before, len(groups[0])), array(np.array(sum(groups, ()), object), dtype)
        x = np.tile(values.reshape(1, 1, *before, -1), (1, channels, *before, 1))
        return Question(mark, operator(peer, name, kernel, x.shape[2:], **more), x)

    first = ordinary(peer, name, rank, dtype, (2, 3))
    yield first  # an answer to it says that the type is taken
    yield ordinary(peer, name, rank, dtype, (2, 16))
    yield ordinary(peer, name, rank, dtype, (2, 1))
    if peer is PYTORCH:
        op, x = first.op, first.x
        yield Question("x", op, np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1))
        yield Question("x", op, x[0], layout="C" + "DHW"[3 - rank :])
    for mark, groups, more in windows(name, dtype):
        if peer is not TENSORFLOW or rank not in VARY.get((name, dtype, mark), ()):
            yield line(mark, groups, **more)
    if name == "adaptive-avg" and dtype != "bool":
        x = np.tile([101, 102], (1, 3, *[4] * (rank - 1), 2))
        yield Question("g", AdaptiveAvgPool(1, like=peer.like), array(x, dtype))
    if name == "avg" and peer is PYTORCH and rank > 1:
        yield line("d", [(0, 0), (6, 9)], divisor_override=-3)
        yield line("d", [(0, 0), (6, 9)], divisor_override=1)
    shared: dict[str, Any] = {"kernel": (*before, 2), "pads": (*[0] * (rank - 1), 1), "like": peer.like}
    if peer is OPENVINO and name in ("avg", "max"):  # ceil keeps a window behind the input
        shared |= {"strides": (*before, 4), "rounding_type": "ceil", "pads": 0}
        yield Question("e", OPERATORS[name](**shared), array(np.ones((1, 3, *before, 7)), dtype))
    elif peer is ONNX or (peer is PYTORCH and name == "max"):  # a dilated window lies around the input
        shared |= {"strides": 1, "dilations": (*before, 2)} | ({"exclude_pad": True} if name == "avg" else {})
        yield Question("e", OPERATORS[name](**shared), array(np.ones((1, 3, *before, 1)), dtype))
    yield line("c", [(0, 0), (1, 1)], channels=1)  # the last: OpenVINO refuses all of a model for it


def theirs(peer: Peer, asked: list[Question], indices: bool) -> list[Any]:
    """Answers, or the messages of refusals: at once if possible, since making a model is what takes time."""
    try:
        return list(peer.adapter.ask([(q.op, q.x) for q in asked], indices))
    except Exception as error:  # of a class of the framework's own
        if len(asked) > 1:
            return [answer for q in asked for answer in theirs(peer, [q], indices)]
        known = [reason for reason in REASONS[peer.name] if reason in str(error)]
        return [known[0] if known else f"? {error}"]


def ours(question: Question, indices: bool) -> Any:
    """The answer of poolcli, or the message of its refusal."""
    x = question.x
    try:
        plan = question.op.plan(x.shape, x.dtype, layout=question.layout or default_layout(x.ndim))
        return run(plan, x, engine="numpy", indices=indices)
    except RequestError as error:
        return str(error)


def written(answer: Any) -> Any:
    """An answer as text, in which nan equals nan and -0.0 is not 0; None for a refusal."""
    if isinstance(answer, str):
        return None
    return [(str(a.dtype), a.shape, ["nan" if v != v else str(v) for v in a.ravel().tolist()])
            for a in answer if a is not None]  # fmt: skip


def cell(peer: Peer, name: str, rank: int, dtype: str, indices: bool, show: bool = False) -> str:
    """The marks of one cell."""
    *together, alone = questions(peer, name, rank, dtype)
    answers = theirs(peer, together, indices) + theirs(peer, [alone], indices)
    marks = set()
    for question, answer in zip([*together, alone], answers, strict=True):
        mine = ours(question, indices)
        if show and written(answer) != written(mine):
            said = [written(a) or a for a in (answer, mine)]
            print(question.mark, question.op, written([question.x]), *said, sep="\n    ")
        if str(answer).startswith("?"):
            return "?"
        if question is together[0] and isinstance(answer, str):
            return "-" if isinstance(mine, str) else "no"
        if question is together[0] and isinstance(mine, str):
            return "+"
        marks |= {question.mark} if written(answer) != written(mine) else set()
    return "".join(sorted(marks)) or "="


def without(peer: Peer, name: str, rank: int, indices: bool, lead: tuple[int, int]) -> str:
    """The mark of an empty batch or of no channels, of float32."""
    question = ordinary(peer, name, rank, "float32", lead)
    return "no" if isinstance(theirs(peer, [question], indices)[0], str) else "="


def rows(peer: Peer, ranks: tuple[int, ...] = (1, 2, 3)) -> list[tuple[str, ...]]:
    """The table of one framework; numbers of axes with the same marks are one row."""
    found: dict[tuple[str, ...], list[int]] = {}
    for name in peer.dtypes:
        for indices in (False, True) if "max" in name else (False,):
            for rank in (2,) if indices and peer is TENSORFLOW else ranks:
                marks = [cell(peer, name, rank, dtype, indices) for dtype in TYPES]
                marks += [without(peer, name, rank, indices, lead) for lead in ((0, 3), (2, 0))]
                found.setdefault((f"{name}, indices" if indices else name, *marks), []).append(rank)
    return [(key[0], ",".join(map(str, ranks)), *key[1:]) for key, ranks in found.items()]


def installed() -> list[Peer]:
    needed = {"onnx": "onnxruntime", "pytorch": "torch"}
    return [peer for peer in SWEPT if find_spec(needed.get(peer.framework, peer.framework))]


def own() -> list[tuple[str, ...]]:
    """Which types poolcli takes."""
    asked = [[ordinary(PYTORCH, name, 2, dtype, (1, 1)) for dtype in TYPES] for name in PYTORCH.dtypes]
    taken = [["dtype" if isinstance(ours(q, False), str) else "=" for q in line] for line in asked]
    return [(name, *line) for name, line in zip(PYTORCH.dtypes, taken, strict=True)]


def table(*lines: tuple[str, ...]) -> str:
    head, *body = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


def tables(peers: list[Peer], ranks: tuple[int, ...] = (1, 2, 3)) -> dict[str, str]:
    """The parts of the document that are made by this module and by the rows of differences.py."""
    short = [t.replace("uint", "u").replace("bfloat", "bf").replace("float", "f").replace("int", "i") for t in TYPES]
    parts = {peer.name: table((peer.name, "axes", *short, "N=0", "C=0"), *rows(peer, ranks)) for peer in peers}
    parts |= {"marks": table(("mark", "case"), *MARKS.items()), "poolcli": table(("poolcli", *short), *own())}
    return parts | {"differences": markdown()}


def split(text: str, part: str) -> tuple[str, str, str]:
    """What stands before, in and after a part of the document."""
    before, rest = text.split(f"<!-- {part} -->\n")
    inside, after = rest.split(f"<!-- /{part} -->")
    return f"{before}<!-- {part} -->\n", inside.rstrip("\n"), f"\n<!-- /{part} -->{after}"


def main(words: list[str]) -> None:
    if words:
        (peer,) = (p for p in installed() if p.name == words[0])
        print(*(cell(peer, words[1], int(words[2]), words[3], i, show=True) for i in {False, "max" in words[1]}))
        return
    text = DOCUMENT.read_text()
    for part, made in tables(installed()).items():
        before, _, after = split(text, part)
        text = before + made + after
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
