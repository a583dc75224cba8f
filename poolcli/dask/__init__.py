"""Pooling of dask arrays: lazy, for any chunks, with the bits that poolcli gives for the whole array.

Each function takes what poolcli's function of that name takes, except `out` and `threads`, and a dask array for `x`; it
gives a dask array, or two where indices are asked for. A block of the result reads those elements of the input that its
windows lie in, and no others: there is no rechunking, and no array of margins. Where every block reads one block of the
input alone (windows that do not overlap, in chunks that they divide), the work is fused with what is before and after.

>>> import dask.array as da
>>> y = avg_pool(da.ones((1, 1, 512, 512), chunks=(1, 1, 128, 128)), 2, strides=2)
>>> y.shape, y.dtype, y.chunksize
((1, 1, 256, 256), dtype('float64'), (1, 1, 64, 64))
>>> float(y.sum().compute())
65536.0
"""

from __future__ import annotations

from poolcli import ops
from poolcli.dask.lazily import lazily

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "lp_pool",
    "max_pool",
    "min_pool",
    "mode_pool",
]

avg_pool = lazily(ops.AvgPool, ops.avg_pool)
max_pool = lazily(ops.MaxPool, ops.max_pool)
min_pool = lazily(ops.MinPool, ops.min_pool)
mode_pool = lazily(ops.ModePool, ops.mode_pool)
lp_pool = lazily(ops.LpPool, ops.lp_pool)
adaptive_avg_pool = lazily(ops.AdaptiveAvgPool, ops.adaptive_avg_pool)
adaptive_max_pool = lazily(ops.AdaptiveMaxPool, ops.adaptive_max_pool)
