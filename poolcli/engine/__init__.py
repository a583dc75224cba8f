"""Engines: a region of a plan and what it reads in, pooled values and indices out; all give the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolcli.core.errors import RequestError
from poolcli.core.lazy import need
from poolcli.engine.choose import choose_engine
from poolcli.engine.indices import plane_to_plan
from poolcli.engine.threads import allowed_threads
from poolcli.plan import Plan
from poolcli.plan.region import Region, whole

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

LARGEST_PADDED = 2**62  # positions of taps must fit the int64 of the kernels


def run(
    plan: Plan,
    x: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    indices: bool = False,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
    """Pooled values in the plan's output shape and dtype, and their indices when asked for."""
    return run_region(whole(plan), x, out=out, indices=indices, engine=engine, threads=threads)


def run_region(
    region: Region,
    slab: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    indices: bool = False,
    engine: str = "auto",
    threads: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
    """Pooled values of a region, and their indices in the whole array, from the `slab` of the input that it reads."""
    plan = region.plan
    chosen = choose_engine(plan, engine)
    if indices and plan.index is None:
        raise RequestError(f"{plan.op} has no indices: it picks no element of its windows")
    _check_size(plan)
    if slab.shape != region.input_shape:
        raise RequestError(f"the input has shape {slab.shape}, the plan reads {region.input_shape}")
    target = _output_array(region, out)
    if target.size:
        flat = chosen.load()(region, slab, target, indices=indices, threads=allowed_threads(threads))
    else:
        import numpy as np

        flat = np.empty(target.shape, np.int64) if indices else None
    if flat is None or plan.index is None:
        return target, None
    return target, plane_to_plan(flat, region, plan.index)


def prepare(plan: Plan, engine: str = "auto") -> str:
    """The engine that will run `plan`, by its name, loaded."""
    chosen = choose_engine(plan, engine)
    chosen.load()
    return chosen.name


def _check_size(plan: Plan) -> None:
    for axis in plan.axes:
        begin, end = getattr(axis.windows, "pad_begin", 0), getattr(axis.windows, "pad_end", 0)
        if axis.windows.size + begin + end >= LARGEST_PADDED:
            raise RequestError(
                f"axis {axis.name} with its pads is 2**62 or longer; only `shape` can answer for such sizes"
            )


def _output_array(region: Region, out: NDArray[Any] | None) -> NDArray[Any]:
    import numpy as np

    dtype, shape = numpy_dtype(region.plan.output_dtype), region.output_shape
    if out is None:
        try:
            return np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:
            size = dtype.itemsize
            for length in shape:
                size *= length
            raise RequestError(f"the output needs {size:,} bytes, more than can be allocated") from error
    if out.shape != shape or out.dtype != dtype:
        raise RequestError(f"out has shape {out.shape} and dtype {out.dtype}, the result has {shape} and {dtype}")
    if not out.flags.writeable:
        raise RequestError("out cannot be written to (its writeable flag is off)")
    return out


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype called `name`; bfloat16 comes from ml_dtypes."""
    import numpy as np

    if name != "bfloat16":
        return np.dtype(name)
    (ml_dtypes,) = need("ml_dtypes", why="bfloat16 needs ml_dtypes")
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype
