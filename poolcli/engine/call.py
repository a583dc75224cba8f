"""What computes an array of a shape and type again and again: all that need not be found anew for the next array."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from poolcli.engine.indices import plane_to_plan
from poolcli.engine.memory import empty_like
from poolcli.engine.threads import allowed_threads
from poolcli.errors import RequestError
from poolcli.plan.region import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from poolcli.engine.table import Pool


@dataclass(frozen=True, slots=True)
class Call:
    """A region and the function that pools it: all that need not be found anew for another array of that shape."""

    region: Region
    indices: bool
    pool: Pool
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(
        self, slab: NDArray[Any], out: NDArray[Any] | None = None, threads: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int64] | NDArray[np.int32] | None]:
        """Pooled values and indices, as `run_region` gives them."""
        if slab.shape != self.input_shape:
            raise RequestError(f"the input has shape {slab.shape}, the plan reads {self.input_shape}")
        if threads is not None:
            threads = allowed_threads(threads)
        if out is None:
            target = self._new(slab)
        else:
            target, slab = self._given(out), slab.copy() if np.may_share_memory(slab, out) else slab
        if target.size:
            flat = self.pool(slab, target, threads)
        else:
            flat = np.empty(target.shape, np.int64) if self.indices else None
        index = self.region.plan.index
        return target, None if flat is None or index is None else plane_to_plan(flat, self.region, index)

    def _new(self, slab: NDArray[Any]) -> NDArray[Any]:
        try:
            return empty_like(self.region.plan, slab, self.output_shape, self.dtype, self.indices)
        except (MemoryError, ValueError) as error:
            raise too_large(self.output_shape, self.dtype) from error

    def _given(self, out: NDArray[Any]) -> NDArray[Any]:
        if out.shape != self.output_shape or out.dtype != self.dtype:
            wanted = f"the result has {self.output_shape} and {self.dtype}"
            raise RequestError(f"out has shape {out.shape} and dtype {out.dtype}, {wanted}")
        if not out.flags.writeable:
            raise RequestError("out cannot be written to (its writeable flag is off)")
        return out


def too_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> RequestError:
    """The refusal of an output that no memory holds."""
    return RequestError(f"the output needs {prod(shape) * dtype.itemsize:,} bytes, more than can be allocated")
