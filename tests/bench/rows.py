"""The cases that are timed: an operator, an input, and what each row is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from poolcli import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AreaPool,
    AvgPool,
    LpPool,
    MaxPool,
    MedianPool,
    MinPool,
    StdPool,
    SumPool,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Row:
    """One case. `indices` asks for the positions of the maxima too."""

    name: str
    op: Any
    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str | None = None
    indices: bool = False
    alone: bool = False  # poolcli against itself and the limit: peers take minutes for large windows
    lying: Callable[[Array], Array] = np.asarray  # the same numbers in another order in memory

    def array(self) -> Array:
        """The input: reproducible noise that fills the type's usual range."""
        values = np.random.default_rng(0).random(self.shape, np.float32)
        is_whole = self.dtype.startswith(("u", "i"))
        return self.lying((values * 255).astype(self.dtype) if is_whole else values.astype(self.dtype))


def _ordered(*order: int) -> Callable[[Array], Array]:
    """The array with its axes in that order in memory."""
    return lambda x: np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


LYING: dict[str, Callable[[Array], Array]] = {
    "channels last": _ordered(0, 2, 3, 1),
    "part": lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[..., 1:-1, 1:-1],
    "rows reversed": lambda x: np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
    "columns reversed": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "transposed": _ordered(0, 1, 3, 2),
}


def _avg(k: int, s: int, p: int = 0, **more: Any) -> AvgPool:
    return AvgPool(k, strides=s, pads=p, **more)


def _max(k: int, s: int, p: int = 0, **more: Any) -> MaxPool:
    return MaxPool(k, strides=s, pads=p, **more)


MEGAPIXELS_12 = (1, 3, 3000, 4000)
LISTED = (
    Row("avg 8x64x112x112 k3 s2 p1", _avg(3, 2, 1), (8, 64, 112, 112)),
    Row("avg 8x256x35x35 k3 s1 p1", _avg(3, 1, 1), (8, 256, 35, 35)),
    Row("avg 12 MP k2 s2", _avg(2, 2), MEGAPIXELS_12),
    Row("avg 12 MP k4 s4", _avg(4, 4), MEGAPIXELS_12),
    Row("avg 3x1080x1920 k15 s1 p7", _avg(15, 1, 7), (1, 3, 1080, 1920)),
    Row("avg 3x1080x1920 k63 s1 p31", _avg(63, 1, 31), (1, 3, 1080, 1920)),
    Row("avg 3-D 8x64x256x256 k2 s2", _avg(2, 2), (1, 8, 64, 256, 256)),
    Row("avg 1-D 16x64x65536 k8 s4", _avg(8, 4), (16, 64, 65536)),
    Row("max 8x64x112x112 k3 s2 p1", _max(3, 2, 1), (8, 64, 112, 112)),
    Row("adaptive-avg 12 MP to 224", AdaptiveAvgPool(224), MEGAPIXELS_12),
    Row("adaptive-max 12 MP to 224, indices", AdaptiveMaxPool(224), MEGAPIXELS_12, indices=True),
    Row("adaptive-avg 64x2048x7x7 to 1", AdaptiveAvgPool(1), (64, 2048, 7, 7)),
    Row("adaptive-max 4x64x512x512 to 7, indices", AdaptiveMaxPool(7), (4, 64, 512, 512), indices=True),
    Row("adaptive-avg 64x100x100 to 224", AdaptiveAvgPool(224), (1, 64, 100, 100)),
    Row("uint8 HWC 12 MP k2 s2", _avg(2, 2), (3000, 4000, 3), "uint8", "HWC"),
    Row("uint8 HWC 12 MP k4 s4", _avg(4, 4), (3000, 4000, 3), "uint8", "HWC"),
)
FURTHER = (
    *(Row(f"avg 2x32x256x256 k{k} s{s}", _avg(k, s), (2, 32, 256, 256)) for k in (1, 2, 5, 7, 9) for s in (1, 3, 4)),
    *(Row(f"max 2x32x256x256 k{k} s{s}", _max(k, s), (2, 32, 256, 256)) for k in (2, 5, 9) for s in (1, 2, 3)),
    Row("avg 8x64x113x111 k3 s2 p1, odd sizes", _avg(3, 2, 1), (8, 64, 113, 111)),
    Row("avg 8x64x112x112 k3 s1 d2 p2, dilated", _avg(3, 1, 2, dilations=2), (8, 64, 112, 112)),
    Row("max 8x64x112x112 k3 s1 d2 p2, dilated", _max(3, 1, 2, dilations=2), (8, 64, 112, 112)),
    Row("avg 8x112x112x64 NHWC k3 s2 p1", _avg(3, 2, 1), (8, 112, 112, 64), layout="NHWC"),
    Row("avg 8x64x112x112 k3 s2 p1 include", _avg(3, 2, 1, exclude_pad=False), (8, 64, 112, 112)),
    Row("avg 8x64x112x112 k3 s2 ceil", _avg(3, 2, rounding_type="ceil"), (8, 64, 112, 112)),
    Row("avg 8x64x112x112 k3 s2, pads 0 and 1", AvgPool(3, strides=2, pads_begin=0, pads_end=1), (8, 64, 112, 112)),
    Row("avg 256x64x7x7 k3 s1 p1, small maps", _avg(3, 1, 1), (256, 64, 7, 7)),
    Row("avg 8x64x112x112 k3 s2 p1 float64", _avg(3, 2, 1), (8, 64, 112, 112), "float64"),
    Row("avg 8x64x112x112 k3 s2 p1 float16", _avg(3, 2, 1), (8, 64, 112, 112), "float16"),
    Row("avg 1x3x2000x3000 k2 s2 uint16", _avg(2, 2), (1, 3, 2000, 3000), "uint16"),
    Row("avg 1x3x2000x3000 k2 s2 int16", _avg(2, 2), (1, 3, 2000, 3000), "int16"),
    Row("avg 1x3x2000x3000 k2 s2 uint8", _avg(2, 2), (1, 3, 2000, 3000), "uint8"),
    Row("uint8 HWC 12 MP k8 s8", _avg(8, 8), (3000, 4000, 3), "uint8", "HWC"),
    Row("avg 12 MP k5 s3", _avg(5, 3), MEGAPIXELS_12),
    Row("max 12 MP k2 s2", _max(2, 2), MEGAPIXELS_12),
    Row("avg 3-D 8x64x256x256 k3 s1 p1", _avg(3, 1, 1), (1, 8, 64, 256, 256)),
    Row("adaptive-max 64x2048x7x7 to 1, indices", AdaptiveMaxPool(1), (64, 2048, 7, 7), indices=True),
    Row("lp 8x64x112x112 k3 s2 p1", LpPool(3, strides=2, pads=1), (8, 64, 112, 112)),
    Row("min 8x64x112x112 k3 s2 p1", MinPool(3, strides=2, pads=1), (8, 64, 112, 112)),
    Row("area uint8 HWC 12 MP to 1333x1000", AreaPool((1000, 1333)), (3000, 4000, 3), "uint8", "HWC"),
    Row("area 12 MP to 1024x768", AreaPool((768, 1024)), MEGAPIXELS_12),
    Row("median 12 MP k3 s1 p1 uint8", MedianPool(3, strides=1, pads=1), MEGAPIXELS_12, "uint8"),
    Row("sum 12 MP k2 s2", SumPool(2, strides=2), MEGAPIXELS_12),
    Row("std 12 MP k2 s2", StdPool(2, strides=2), MEGAPIXELS_12),
    Row("max 3x1080x1920 k31 s1 p15, large window", _max(31, 1, 15), (1, 3, 1080, 1920)),
    Row("max 8x64x112x112 k3 s2 p1, indices", _max(3, 2, 1), (8, 64, 112, 112), indices=True),
    *(
        Row(f"avg 8x64x112x112 k3 s2 p1, {name}", _avg(3, 2, 1), (8, 64, 112, 112), alone=True, lying=lying)
        for name, lying in LYING.items()
    ),
)
KERNELS = (3, 7, 15, 31, 63, 127, 255)
GROWTH: dict[str, Callable[[], tuple[Row, ...]]] = {
    "window, average": lambda: tuple(
        Row(f"avg 3x1080x1920 k{k} s1", _avg(k, 1, k // 2), (1, 3, 1080, 1920), alone=True) for k in KERNELS
    ),
    "window, maximum": lambda: tuple(
        Row(f"max 3x1080x1920 k{k} s1", _max(k, 1, k // 2), (1, 3, 1080, 1920), alone=True) for k in KERNELS
    ),
    "size": lambda: tuple(
        Row(f"avg 3x{n}x{n} k2 s2", _avg(2, 2), (1, 3, n, n), alone=True) for n in (64, 256, 1024, 4096)
    ),
}
