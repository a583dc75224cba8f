"""Versions of runtimes that compute otherwise than the rules of their framework, or refuse what it has.

They were found by running them: `tests/conformance/test_versions.py` installs versions on both sides of ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from poolcli.plan import Plan
from poolcli.windows import Bins, Sliding, ceil_div

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
    opsets : range or None
        The opsets of the models on which it does; None for other models than those of ONNX.
    case, does : str
        On which poolings in short, and what, in a main clause.
    holds : callable
        Whether a plan of that dialect is such a pooling.
    """

    like: str
    runtime: str
    since: str | None
    fixed: str
    opsets: range | None
    case: str
    does: str
    holds: Callable[[Plan], bool]

    @property
    def versions(self) -> str:
        """The versions, as in `1.21 to before 1.25`."""
        return f"{self.since} to before {self.fixed}" if self.since else f"before {self.fixed}"

    @property
    def opset_words(self) -> str:
        """The opsets, as in `opset 18 or lower`; nothing for other models than those of ONNX."""
        if self.opsets is None:
            return ""
        if self.opsets.stop <= NEWEST_OPSET:
            return f"opset {self.opsets.stop - 1} or lower"
        return f"opset {self.opsets.start} or higher" if self.opsets.start > 1 else "any opset"

    def __str__(self) -> str:
        on = f", {self.opset_words}" if self.opsets else ""
        return f"{self.runtime} {self.versions}{on}: {self.does}"


def deviations(plan: Plan, opset: int | None = None) -> list[str]:
    """A sentence for each deviation that concerns the plan, in a model of `opset` where that is known."""
    return [
        str(row)
        for row in DEVIATIONS
        if row.like == plan.like and (opset is None or not row.opsets or opset in row.opsets) and row.holds(plan)
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


def _picks(plan: Plan) -> bool:
    """Whether it takes maxima of sliding windows."""
    return plan.reducer.picks and bool(_sliding(plan))


def _is_torch(plan: Plan) -> bool:
    return plan.attributes.get("rounding_type") == "ceil_torch"


def _half(plan: Plan) -> bool:
    return plan.dtype == "float16"


def _three(plan: Plan) -> bool:
    return len(plan.windows) == 3


def _adaptive(plan: Plan) -> bool:
    return all(isinstance(w, Bins) for w in plan.windows)


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
    Deviation(
        "openvino", "OpenVINO", None, "2024.1", None, "maxima, ceil_torch",
        "ceil_torch of maxima is not known", lambda plan: _is_torch(plan) and _picks(plan),
    ),
    Deviation(
        "openvino", "OpenVINO", None, "2024.2", None, "averages, ceil_torch",
        "ceil_torch of averages is not known, or not computed", lambda plan: _is_torch(plan) and plan.reducer.divides,
    ),
    Deviation(
        "openvino", "OpenVINO", "2024.2", "2024.3", None, "all poolings, ceil_torch",
        "windows at the end may be dropped or kept otherwise", _is_torch,
    ),
    Deviation(
        "openvino", "OpenVINO", None, "2024.3", None, "float16",
        "infinities of float16 become its largest finite numbers", _half,
    ),
    Deviation(
        "pytorch", "PyTorch", None, "2.1", None, "maxima, integers", "maxima of integers are refused",
        lambda plan: _picks(plan) and plan.dtype.startswith(("int", "uint")),
    ),
    Deviation(
        "pytorch", "PyTorch", None, "2.2", None, "maxima and adaptive poolings, float16",
        "maxima and adaptive poolings of float16 are refused",
        lambda plan: _half(plan) and (_picks(plan) or (_adaptive(plan) and not (_three(plan) and plan.reducer.picks))),
    ),
    Deviation(
        "pytorch", "PyTorch", None, "2.6", None, "adaptive maxima over three axes, float16",
        "adaptive maxima of float16 over three axes are refused",
        lambda plan: _half(plan) and _three(plan) and _adaptive(plan) and plan.reducer.picks,
    ),
    Deviation(
        "pytorch", "PyTorch", None, "2.3", None, "averages over one and two axes, float16",
        "averages of float16 over one and two axes are refused",
        lambda plan: _half(plan) and not _three(plan) and not _adaptive(plan) and plan.reducer.divides,
    ),
    Deviation(
        "pytorch", "PyTorch", None, "2.3", None, "norms over three axes", "there is no lp_pool3d",
        lambda plan: _three(plan) and plan.reducer.power is not None,
    ),
)  # fmt: skip
