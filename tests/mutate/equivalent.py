"""Mutants that no test can notice, and why: they are another way to say the same."""

from __future__ import annotations

WINDOWS = "poolcli/windows.py"
VIEW = "poolcli/engine/compiled/canonical_view.py"
EQUIVALENT: dict[str, str] = {
    f"{WINDOWS}::_at_least: comparison: a < low -> a <= low": "at the limit itself the difference that is added is 0",
    f"{WINDOWS}::_at_most: comparison: a > high -> a >= high": "at the limit itself the difference that is taken is 0",
    f"{WINDOWS}::_floor_sum: number: 0 -> 1": "only differences of such sums are used",
    f"{WINDOWS}::_floor_sum: number: 0 -> -1": "only differences of such sums are used",
    f"{WINDOWS}::: number: 100000 -> 100001": "a limit of time, which nobody feels",
    f"{WINDOWS}::: number: 100000 -> 99999": "a limit of time, which nobody feels",
    "poolcli/plan/resolve.py::_check_pads: number: 0 -> -1": "pads that are needed are at least 1",
    "poolcli/engine/compiled/kernel_cache.py::_locked: comparison: time.monotonic() < end -> time.monotonic() <= end": (
        "a limit of time, which nobody feels"
    ),
    f"{VIEW}::_full_axis: number: 0 -> -1": "there is a window, and none has fewer than 0 elements",
    f"{VIEW}::_merged: number: 1 -> 2": "read of the first axis only, which is never merged",
    "poolcli/engine/compiled/arithmetic.py::_integer_mean: number: 0 -> -1": "sums of the size of the limit still fit",
    "poolcli/engine/numpy/missing.py::_pool_again: number: 1 -> 2": "any number below 0 is the index of nothing",
    "poolcli/engine/numpy/reduce.py::: number: 100 -> 101": "a limit of what is kept, which nobody feels",
    "poolcli/engine/numpy/sums.py::mean_of: number: 1 -> 2": "it is compared with 2**24",
    "poolcli/engine/compiled/finish.py::: number: 2 -> 3": "what two steps of Newton's give, a third does not change",
    "poolcli/engine/compiled/finish.py::_root_of.newton: arithmetic: "
    "near - near * (near ** degree / value - 1) / degree -> near + near * (near ** degree / value - 1) / degree": (
        "the result has at most 24 bits, of which a step from 51 to 50 changes none"
    ),
    "poolcli/engine/compiled/kernel_cache.py::_is_private: return: return False -> return None": "asked for its truth",
    "poolcli/engine/compiled/finish.py::_half_even: comparison: divisor < 0 -> divisor <= 0": (
        "a divisor of 0 divides a total of 0, which has no sign"
    ),
    "poolcli/engine/compiled/finish.py::_half_even: number: 0 -> 1": (
        "a divisor of 0 divides a total of 0, which has no sign"
    ),
    "poolcli/engine/numpy/reduce.py::gathered_reduction: comparison: size > MAX_GATHERED -> size >= MAX_GATHERED": (
        "a limit of speed: both ways add in the same order"
    ),
    "poolcli/engine/numpy/sums.py::_split: number: 1 -> 0": "any factor near 2**27 leaves halves of 26 bits",
    "poolcli/engine/numpy/sums.py::_split: arithmetic: 2.0 ** 27 + 1 -> 2.0 ** 27 - 1": (
        "any factor near 2**27 leaves halves of 26 bits"
    ),
    "poolcli/plan/__init__.py::_default_dtype: number: 16 -> 17": "no type has 17 bits",
    "poolcli/pooling/tiles.py::bytes_of_block: number: 1 -> 0": "no block has fewer than 2 bytes",
    "poolcli/pooling/tiles.py::bytes_of_tile: number: 1 -> 0": "no tile has fewer than 2 bytes",
    "poolcli/engine/compiled/geometry.py::: number: 12 -> 13": (
        "blocks of another size have the same maximum and the same first position, only slower"
    ),
    "poolcli/engine/compiled/codegen.py::loaded: statement: engine.finalize_object() -> pass": (
        "LLVM's MCJIT also finalises code when its address is asked for, which llvmlite does not promise"
    ),
    "poolcli/engine/compiled/pool.py::: number: 400 -> 399": "numpy has the same bits, only slower",
    "poolcli/engine/numpy/sums.py::power_mean_of.power_mean: number: 0 -> -1": (
        "the error of a finite sum is finite, and a finite error added to one that is not changes nothing"
    ),
    "poolcli/engine/numpy/sums.py::: arithmetic: 2.0 ** 900 -> 2.0 * 900": (
        "scaling by a power of two changes no bit of such numbers"
    ),
    "poolcli/engine/compiled/geometry.py::Geometry: number: 0 -> 1": "read only where another number replaces it",
    "poolcli/engine/numpy/sums.py::: number: 52 -> 51": "fractions of larger totals have the same bits, only slower",
    "poolcli/engine/compiled/kernel_cache.py::_is_still: return: return False -> return None": "asked for its truth",
    "poolcli/engine/compiled/arithmetic.py::_deviation: number: 0 -> 1": "only its type is read",
    "poolcli/engine/compiled/arithmetic.py::_selection: number: 0 -> 1": "of modes, only its type is read",
    "poolcli/formats/atomic.py::file_mode: number: 0 -> -1": "any mask: the one before is returned, and set again",
    "poolcli/engine/compiled/kernel_choice.py::Thresholds: number: 400 -> 401": (
        "rows of up to 64 outputs never have 401 together, which is a prime"
    ),
}
