"""Every path through the compiled engine, and poolings made to take it.

Drawn at large, poolings hardly ever meet the rarer paths; so each path has a row that draws poolings for it, and a
test that takes none but those that did take it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from hypothesis import strategies as st

from poolcli.engine.compiled.geometry import FixedWindow
from poolcli.engine.compiled.kernel_choice import THRESHOLDS, Thresholds
from poolcli.plan import Plan
from tests.engine.poolings import ANY, LONG, ONE, SHORT, VERY_LONG, Pooling, adaptive, any_two_axes, sliding
from tests.engine.poolings import between as _r
from tests.engine.watched import Taken

SHORT_BUFFERS = Thresholds(row_bytes=1 << 13, block_row_bytes=1 << 13)
READS_AHEAD = Thresholds(cached_bytes=0, touched_row_bytes=0)
# Kernels for one size of windows, however small the work.
CONSTANT = Thresholds(fixed_outputs=0, fixed_outputs_argmax=0)

Check = Callable[[Taken, Plan], bool]


@dataclass(frozen=True)
class Path:
    """A path: poolings that take it, how to tell that they did, and the types on which quick runs take it too.

    `reducers`: `mean`, `max`, or `at` for maxima with indices. `limits` are those of the choice of kernels meanwhile.
    """

    poolings: st.SearchStrategy[Pooling]
    took: Check
    quick: tuple[str, ...] = ("float32", "uint8")
    reducers: tuple[str, ...] = ("mean", "max")
    limits: Thresholds = THRESHOLDS


def _is(kernel: str, check: Callable[[Taken], bool] = lambda taken: True) -> Check:
    return lambda taken, plan: taken.kernel == kernel and check(taken)


def _is_long(check: Callable[[Taken], bool] = lambda taken: True) -> Check:
    """Long bins: windows of one row are read in place, except floats that are converted before they are summed."""
    return lambda taken, plan: taken.kernel in ("irregular", "irregular_row") and check(taken)


def _points(taken: Taken, plan: Plan) -> bool:
    return taken.kernel in ("argmax", "argmax_row")


def _slides(check: Callable[[Taken], bool]) -> Check:
    return _is("slide", check)


def _is_by(kernel: int, stride: int, check: Callable[[Taken], bool] = lambda taken: True) -> Check:
    return lambda taken, plan: taken.kernel == "slide" and _has(taken, kernel, stride) and check(taken)


def _has(taken: Taken, kernel: int, stride: int) -> bool:
    return taken.fixed is not None and (taken.fixed.kernel, taken.fixed.stride) == (kernel, stride)


def _in_pieces(taken: Taken) -> bool:
    return taken.windows.outputs > taken.windows.piece


def _group(taken: Taken) -> int:
    found: int = taken.rest[1]
    return found


def _merged(taken: Taken, plan: Plan) -> bool:
    return (
        len(plan.axes) > 1
        and taken.view.axes[2].windows is None
        and bool(taken.view.axes[2].size > plan.windows[-1].size)
    )


def _glued(taken: Taken, plan: Plan) -> bool:
    return taken.view.outer < prod(plan.input_shape[:2]) and taken.view.axes[2].output > 1


PATHS: dict[str, Path] = {
    "slide, rows in groups": Path(
        sliding((ANY, ANY), (ONE, ONE), (SHORT, SHORT)), _slides(lambda t: _group(t) > 1 and not _in_pieces(t))
    ),
    "slide, a row a task": Path(
        sliding((_r(2, 3), ANY), (ONE, ONE), (_r(0, 3), LONG), channels=ONE), _slides(lambda t: _group(t) == 1),
        limits=Thresholds(group_bytes=1),
    ),
    "slide, in pieces": Path(
        sliding((_r(1, 2), ANY), (ONE, _r(1, 3)), (ONE, VERY_LONG), channels=ONE),
        _slides(_in_pieces), ("float32",), limits=SHORT_BUFFERS,
    ),
    "slide, in pieces of channels": Path(
        sliding((_r(1, 2), _r(2, 4)), (ONE, _r(1, 2)), (ONE, _r(95, 120)), channels=_r(96), last=True),
        _slides(_in_pieces), ("float32",), limits=SHORT_BUFFERS,
    ),
    "slide, dilated": Path(
        sliding((ANY, _r(2, 4)), (_r(1, 2), ONE), (SHORT, SHORT), _r(2, 3)), _slides(lambda t: t.windows.dilation > 1)
    ),
    "slide, windows of 5 to 15": Path(
        sliding((_r(1, 2), _r(5, 15)), (ONE, ONE), (SHORT, SHORT)), _slides(lambda t: t.windows.kernel > 4)
    ),
    "slide, every second of windows of odd length": Path(
        sliding((ANY, _r(3)), (ANY, _r(2)), (SHORT, SHORT)), _slides(lambda t: t.windows.stride == 2)
    ),
    "slide, every second of windows of even length": Path(
        sliding((ANY, _r(4)), (ANY, _r(2)), (SHORT, SHORT)), _slides(lambda t: t.windows.stride == 2)
    ),
    "slide, every third": Path(
        sliding((ANY, _r(1, 5)), (ANY, _r(3)), (SHORT, SHORT)), _slides(lambda t: t.windows.stride == 3)
    ),
    "slide, every second of 3 channels": Path(
        sliding((ANY, _r(3, 4)), (ANY, _r(2)), (SHORT, SHORT), channels=_r(3), last=True),
        _slides(lambda t: t.view.inner == 3 and t.windows.stride == 2),
    ),
    "slide, every second of other channels": Path(
        sliding((ANY, _r(3, 4)), (ANY, _r(2)), (SHORT, SHORT), channels=_r(4, 5), last=True),
        _slides(lambda t: t.view.inner > 3 and t.windows.stride == 2),
    ),
    "slide, rows of several planes": Path(
        sliding((_r(2, 3), _r(1, 3), ANY), (ANY, ANY, ONE), (_r(0, 3), _r(0, 4), SHORT)),
        _slides(lambda t: max(t.rows) > 1 and t.view.axes[0].size > 1),
    ),
    "slide, rows that are prefetched": Path(
        sliding((_r(3, 5), ANY), (_r(2), ANY), (SHORT, SHORT)), _slides(lambda t: t.rest[-1].elements > 0),
        ("float32",), limits=READS_AHEAD,
    ),
    "slide, rows that are touched": Path(
        sliding((_r(2), ANY), (_r(2), ANY), (SHORT, SHORT)) | sliding((_r(3), ANY), (_r(3), ANY), (SHORT, SHORT)),
        _slides(lambda t: t.rest[-1].touches == 1), ("float32",), limits=READS_AHEAD,
    ),
    "slide_blocks": Path(sliding((_r(9, 12), ANY), (ONE, ONE), (SHORT, SHORT)), _is("slide_blocks")),
    "slide_blocks, windows far apart": Path(
        sliding((_r(17, 20), ANY), (_r(2), _r(1, 3)), (SHORT, SHORT)), _is("slide_blocks")
    ),
    "slide_blocks, in pieces": Path(
        sliding((_r(9, 10), ANY), (ONE, ONE), (_r(0, 4), VERY_LONG), channels=ONE),
        _is("slide_blocks", _in_pieces), ("float32",), limits=SHORT_BUFFERS,
    ),
    "slide by 1 over 3": Path(
        sliding((ANY, _r(3)), (ANY, ONE), (SHORT, SHORT), _r(1, 2)), _is_by(3, 1), ("float32",), limits=CONSTANT
    ),
    "slide by 2 over 3": Path(sliding((_r(2, 4), _r(3)), (ANY, _r(2)), (SHORT, SHORT)), _is_by(3, 2), limits=CONSTANT),
    "slide by 3 over 5": Path(sliding((ANY, _r(5)), (ANY, _r(3)), (SHORT, SHORT)), _is_by(5, 3), (), limits=CONSTANT),
    "slide by 4 over 9": Path(sliding((ANY, _r(9)), (ANY, _r(4)), (SHORT, SHORT)), _is_by(9, 4), (), limits=CONSTANT),
    "slide by 3 over 1": Path(
        sliding((ANY, _r(1)), (ANY, _r(3)), (SHORT, SHORT), padded=False), _is_by(1, 3), (),
        limits=CONSTANT._replace(short_tile=0),
    ),
    "slide by 4 over 4": Path(sliding((_r(2, 4), _r(4)), (ANY, _r(4)), (SHORT, SHORT)), _is_by(4, 4), limits=CONSTANT),
    "slide by 3 over 3 of many channels": Path(
        sliding((_r(1, 2), _r(3)), (ANY, _r(3)), (SHORT, SHORT), channels=_r(16, 18), last=True),
        _is_by(3, 3), (), limits=CONSTANT,
    ),
    "slide_row by 4 over 8": Path(
        sliding((_r(8),), (_r(4),), (LONG,)), _is("slide_row"), ("float32",), limits=CONSTANT
    ),
    "slide_row by 2 over 3, in pieces": Path(
        sliding((_r(3),), (_r(2),), (VERY_LONG,), channels=ONE), _is("slide_row", _in_pieces), (), limits=CONSTANT
    ),
    "slide_row by 3 over 3": Path(
        sliding((_r(3),), (_r(3),), (SHORT,)), _is("slide_row"), (), limits=CONSTANT
    ),
    "slide by 2 over 3 of many channels": Path(
        sliding((_r(1, 2), _r(3)), (ANY, _r(2)), (SHORT, SHORT), channels=_r(16, 18), last=True),
        _is_by(3, 2), ("float32",), limits=CONSTANT,
    ),
    "slide by 2 over 3 in pieces": Path(
        sliding((_r(2), _r(3)), (ONE, _r(2)), (ONE, VERY_LONG), channels=ONE),
        _is_by(3, 2, _in_pieces), ("float32",), limits=CONSTANT,
    ),
    "slide_blocks by 2 over 3": Path(
        sliding((_r(9, 12), _r(3)), (ONE, _r(2)), (SHORT, SHORT)),
        lambda t, plan: t.kernel == "slide_blocks" and t.fixed == FixedWindow(3, 2), ("float32",), limits=CONSTANT,
    ),
    "slide_planes": Path(
        st.builds(
            lambda n, k, h, w, pad, d, e: Pooling((n, 3, h + k - 1, w + 2), {"kernel": (k, 3), "strides": (1, 1),
                "pads_begin": (min(pad, k - 1), d), "pads_end": (k - 1, d), "dilations": (1, d), "exclude_pad": e}),
            st.integers(1, 20), st.integers(1, 8), st.integers(1, 30), st.integers(1, 38), st.integers(0, 3),
            st.integers(1, 2), st.booleans(),
        ),
        _is("slide_planes"), ("float32",), limits=CONSTANT,
    ),
    "tiles": Path(
        sliding((_r(2), _r(2)), (_r(2), _r(2)), (SHORT, SHORT), padded=False),
        _is("tiles", lambda t: t.rows == {2}),
    ),
    "tiles of other sizes": Path(
        sliding((_r(1, 4), _r(1, 3)), (_r(1, 5), _r(3, 5)), (_r(4, 30), _r(4, 30)), padded=False),
        _is("tiles"), limits=CONSTANT._replace(short_tile=4),
    ),
    "tiles of 3 channels": Path(
        sliding((_r(2), _r(2)), (_r(2), _r(2)), (SHORT, SHORT), padded=False, channels=_r(3), last=True),
        _is("rgb_tiles", lambda t: t.rows == {2}),
    ),
    "tiles of which rows are padding": Path(
        st.builds(
            lambda h, w, k, s, begin, end: Pooling((2, 2, h, w), {"kernel": (2, k), "strides": (s, k),
                "pads_begin": (begin, 0), "pads_end": (end, 0)}),
            st.integers(2, 9), st.integers(4, 60), st.integers(1, 2), st.integers(1, 3), st.just(1),
            st.integers(0, 1),
        ),
        _is("tiles", lambda t: t.rows == {1, 2}), ("float32",), limits=CONSTANT,
    ),
    "tiles of 1 or 3 rows of 3 channels": Path(
        sliding((_r(1), _r(2)), (ONE, _r(2)), (SHORT, SHORT), padded=False, channels=_r(3), last=True)
        | sliding((_r(3), _r(2)), (_r(1, 3), _r(2)), (SHORT, SHORT), padded=False, channels=_r(3), last=True),
        _is("rgb_tiles", lambda t: t.rows != {2}),
    ),
    "tiles of which rows are touched": Path(
        sliding((_r(2), _r(2)), (_r(2), _r(2)), (SHORT, SHORT), padded=False),
        _is("tiles", lambda t: t.rest[0].touches == 1), ("float32",), limits=READS_AHEAD,
    ),
    "tiles of 2 planes": Path(
        sliding((_r(2), _r(1), _r(2)), (ANY, ONE, _r(2)), (SHORT, _r(0, 3), SHORT), padded=False),
        _is("tiles", lambda t: t.rows == {2} and t.view.axes[0].size > 1),
    ),
    "irregular, short": Path(
        adaptive((_r(3, 9), _r(10, 14)), (_r(1, 4), _r(6, 9))), _is("irregular_short")
    ),
    "irregular, more outputs than inputs": Path(
        adaptive((_r(3, 5), _r(3, 5)), (_r(2, 9), _r(7, 9))), _is("irregular_short")
    ),
    "irregular, long": Path(
        adaptive((_r(2, 6), _r(23, 30)), (ONE, _r(2, 4))), _is("irregular", lambda t: t.rows != {1})
    ),
    "irregular, long of channels": Path(
        adaptive((_r(2, 6), _r(23, 30)), (ONE, _r(2, 4)), last=True),
        _is_long(lambda t: t.view.inner > 1),
    ),
    "irregular, in place": Path(
        adaptive((_r(3), _r(23, 29)), (_r(3), _r(2, 4))),
        _is_long(lambda t: t.rows == {1} and t.view.inner == 1),
    ),
    "irregular, in place of channels": Path(
        adaptive((ONE, _r(23, 29)), (ONE, _r(2, 4)), last=True),
        _is_long(lambda t: t.rows == {1} and t.view.inner > 1),
    ),
    "irregular_inner": Path(
        adaptive((_r(2, 6), _r(23, 30)), (ONE, _r(2, 4)), last=True, channels=_r(16, 18)),
        _is("irregular_inner", lambda t: t.rows != {1}), ("float32",),
    ),
    "irregular_inner, of one row": Path(
        adaptive((ONE, _r(23, 29)), (ONE, _r(2, 4)), last=True, channels=_r(16, 18)),
        _is("irregular_inner", lambda t: t.rows == {1}), (),
    ),
    "irregular, long windows side by side": Path(
        sliding((_r(1, 2), _r(16, 18)), (ANY, _r(19, 20)), (SHORT, _r(0, 60))),
        _is_long(),
    ),
    "irregular, far out in the padding": Path(
        st.builds(
            lambda n, k, pad: Pooling((1, 2, 3, n), {"kernel": (1, k), "strides": (1, 1), "pads_begin": (0, pad),
                                                     "exclude_pad": False}),
            st.integers(2, 9), st.integers(1, 3), st.integers(5000, 5010),
        ),
        _is("irregular_short", lambda t: t.view.axes[2].windows is not None),
    ),
    "merged axes": Path(
        st.builds(
            lambda k, h, w: Pooling((2, 2, h, w), {"kernel": (k, w), "strides": (k, 1)}),
            st.integers(1, 3), st.integers(4, 6), st.integers(3, 9),
        ),
        _merged,
    ),
    "glued planes": Path(
        st.builds(lambda n, h, w: Pooling((n, 3, h, w), {"output_size": (1, 1)}), *[st.integers(1, 6)] * 3), _glued
    ),
    "64-bit integers": Path(
        sliding((ANY, ANY), (ANY, ANY), (SHORT, SHORT)), _slides(lambda t: True), ("int64", "uint64"), ("mean",)
    ),
    "argmax": Path(
        any_two_axes(),
        _points, reducers=("at",),
    ),
    "slide_argmax by 2 over 3": Path(
        sliding((ANY, _r(3)), (ANY, _r(2)), (SHORT, SHORT)), _is("slide_argmax"), ("float32",), ("at",), limits=CONSTANT
    ),
    "slide_argmax by 1 over 2": Path(
        sliding((_r(1, 9), _r(2)), (ANY, ONE), (SHORT, SHORT), _r(1, 2)),
        _is("slide_argmax"), (), ("at",), limits=CONSTANT,
    ),
    "slide_argmax of several planes and channels": Path(
        sliding((_r(2, 3), ANY, _r(3)), (ANY, ANY, ONE), (_r(0, 2), SHORT, SHORT), last=True, channels=_r(2, 3)),
        _is("slide_argmax", lambda t: t.view.inner > 1), ("float32",), ("at",), limits=CONSTANT,
    ),
    "argmax of every second of many channels": Path(
        sliding((_r(1, 2), _r(3)), (ANY, _r(2)), (SHORT, SHORT), channels=_r(16, 18), last=True),
        _is("argmax", lambda t: t.view.inner > 1), ("float32",), ("at",), limits=CONSTANT,
    ),
    "slide beside planes of padding": Path(
        st.builds(
            lambda h, w, e: Pooling((2, 3, 1, h, w), {"kernel": (2, 3, 3), "strides": (1, 1, 1), "exclude_pad": e,
                                                      "pads_begin": (1, 1, 1), "pads_end": (1, 1, 1)}),
            st.integers(2, 9), st.integers(2, 20), st.booleans(),
        ),
        _is_by(3, 1), ("float32",), limits=CONSTANT,
    ),
    "argmax, of many elements in one line": Path(
        adaptive((_r(3), _r(40, 90)), (_r(3), _r(2, 3))), _is("argmax_row"), reducers=("at",)
    ),
    "argmax, of several planes and channels": Path(
        sliding((_r(2, 3), ANY, ANY), (ANY, ANY, ANY), (_r(0, 2), SHORT, SHORT), last=True, channels=_r(2, 3)),
        _is("argmax", lambda t: t.view.inner > 1 and t.view.axes[0].size > 1), reducers=("at",),
    ),
    "argmax, of glued planes": Path(
        st.builds(lambda n, h, w: Pooling((n, 3, h, w), {"output_size": (1, 1)}), *[st.integers(1, 6)] * 3),
        lambda taken, plan: _points(taken, plan) and _glued(taken, plan), reducers=("at",),
    ),
}  # fmt: skip
