"""Versions of runtimes that compute otherwise than their framework's rules, found by running them.

A row is what a range of versions does, and on which poolings. `tests/conformance/test_versions.py` installs versions on
both sides of each range, and runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poolcli.plan import Plan
from poolcli.windows import Sliding, ceil_div

NEWEST_OPSET = 22


@dataclass(frozen=True, slots=True)
class Deviation:
    """What some versions of a runtime do.

    Attributes
    ----------
    like : str
        The dialect that the runtime otherwise follows.
    runtime : str
        Its name.
    since, fixed : str or None, str
        The first version that deviates (None: the oldest that was run does, too), and the first that no longer does.
    opsets : range
        The opsets of the models on which it does.
    case, does : str
        On which poolings in short, and what, in a main clause.
    holds : callable
        Whether a plan of that dialect is such a pooling.
    """

    like: str
    runtime: str
    since: str | None
    fixed: str
    opsets: range
    case: str
    does: str
    holds: Callable[[Plan], bool]

    @property
    def versions(self) -> str:
        """The versions, as in `1.21 to before 1.25`."""
        return f"{self.since} to before {self.fixed}" if self.since else f"before {self.fixed}"

    @property
    def opset_words(self) -> str:
        """The opsets, as in `opset 18 or lower`."""
        if self.opsets.stop <= NEWEST_OPSET:
            return f"opset {self.opsets.stop - 1} or lower"
        return f"opset {self.opsets.start} or higher" if self.opsets.start > 1 else "any opset"

    def __str__(self) -> str:
        return f"{self.runtime} {self.versions}, {self.opset_words}: {self.does}"


def deviations(plan: Plan, opset: int | None = None) -> list[str]:
    """A sentence for each row that such a pooling meets, in a model of `opset` where that is known."""
    return [
        str(row)
        for row in DEVIATIONS
        if row.like == plan.like and (opset is None or opset in row.opsets) and row.holds(plan)
    ]


def _sliding(plan: Plan) -> list[Sliding]:
    return [w for w in plan.windows if isinstance(w, Sliding)]


def _counts_padding(plan: Plan) -> bool:
    return plan.reducer.divides and plan.attributes.get("exclude_pad") is False


def _overhangs(plan: Plan) -> bool:
    """Whether padding counts and a window goes past the end of the padded input."""
    ends = [(w.start(w.output - 1) + w.extent, w.size + w.pad_end) for w in _sliding(plan)]
    return _counts_padding(plan) and any(last > end for last, end in ends)


def _drops(plan: Plan) -> bool:
    """Whether a window that starts past the input is dropped."""
    if plan.attributes.get("rounding_type") != "ceil":
        return False
    spans = [(w.size + w.pad_begin + w.pad_end - w.extent, w) for w in _sliding(plan)]
    return any(ceil_div(span, w.stride) + 1 > w.output for span, w in spans)


def _uneven(plan: Plan) -> bool:
    """Whether padding counts and same_upper pads one more at the end than at the beginning."""
    same = plan.attributes.get("auto_pad") == "same_upper"
    return same and _counts_padding(plan) and any(w.pad_end > w.pad_begin for w in _sliding(plan))


OVERHANG = "averages that count padding, ceil"
WHOLE = "a ceil window that goes past the padded input is divided by the whole kernel"
DEVIATIONS = (
    Deviation("onnx", "ONNX Runtime", None, "1.29", range(1, 19), OVERHANG, WHOLE, _overhangs),
    Deviation("onnx", "ONNX Runtime", None, "1.21", range(19, 100), OVERHANG, WHOLE, _overhangs),
    Deviation(
        "onnx", "ONNX Runtime", None, "1.21", range(1, 100), "all poolings, ceil",
        "a last window that starts past the input is kept", _drops,
    ),
    Deviation(
        "onnx", "ONNX Runtime", "1.21", "1.25", range(19, 100),
        "averages that count padding, SAME_UPPER",
        "windows at the end have too small a divisor where SAME_UPPER pads more there",
        _uneven,
    ),
)  # fmt: skip
