"""Element types as records, so that plans do not need numpy, and their names in other programs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from poolcli.errors import RequestError
from poolcli.message_fields import brief
from poolcli.suggestions import did_you_mean
from poolcli.system.lazy_imports import need, numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """One element type: its name as numpy writes it, kind (bool, uint, int, float) and bits."""

    name: str
    kind: str
    bits: int

    @property
    def is_integer(self) -> bool:
        return self.kind in ("uint", "int")

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return max(self.bits // 8, 1)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest and the highest value of an integer or bool type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest value; -inf and inf for floats."""
        return (-inf, inf) if self.kind == "float" else self.limits


DTYPES = {
    dtype.name: dtype
    for dtype in (
        DType("bool", "bool", 1),
        *(DType(f"uint{bits}", "uint", bits) for bits in (8, 16, 32, 64)),
        *(DType(f"int{bits}", "int", bits) for bits in (8, 16, 32, 64)),
        *(DType(f"float{bits}", "float", bits) for bits in (16, 32, 64)),
        DType("bfloat16", "float", 16),
    )
}

# Short names of numpy, little-endian or native: `f4` is float32, `?` bool.
NUMPY_SHORT = {"?": "bool", "b1": "bool"} | {
    f"{dtype.kind[0]}{dtype.bits // 8}": dtype.name
    for dtype in DTYPES.values()
    if dtype.kind != "bool" and dtype.name != "bfloat16"
}
PYTHON_TYPES = {"int": "int64", "float": "float64", "half": "float16", "double": "float64"}  # as in numpy

# Names in OpenVINO, ONNX and C, on the command line only, because `u8` has 8 bits there but 8 bytes in numpy.
ALIASES = {
    **{f"{prefix}{bits}": f"float{bits}" for prefix in ("f", "fp") for bits in (16, 32, 64)},
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    "half": "float16", "double": "float64", "bf16": "bfloat16", "boolean": "bool",
}  # fmt: skip


def dtype_from_alias(word: str) -> str | None:
    """The name of the type that `word` stands for on the command line, or None."""
    plain = word.lower().rpartition(".")[2]  # np.float32, torch.half
    found = ALIASES.get(plain) or NUMPY_SHORT.get(plain.lstrip("<=|")) or PYTHON_TYPES.get(plain) or plain
    return found if found in DTYPES else None


def lookup(name: object) -> DType:
    """The type called `name`; also accepts numpy dtypes, scalar types, `f4` and Python's float."""
    text = str(getattr(name, "name", None) or getattr(name, "__name__", None) or name)
    text = text.removeprefix("torch.")
    bare = text.lstrip("<=|")
    try:
        return DTYPES[NUMPY_SHORT.get(bare) or PYTHON_TYPES.get(text) or text]
    except KeyError:
        known = ", ".join(DTYPES)
        found = brief(name) if getattr(name, "shape", None) else f"{text:.60}"
        meant = did_you_mean(text, DTYPES) if isinstance(name, str) else conversion(text)
        raise RequestError(f"dtype {found} is not supported; use one of {known}{meant}") from None


# How arrays of other types become arrays of these, by the starts of their names.
CONVERSIONS = {
    "complex": "x.real, x.imag or abs(x)", "datetime": "x.astype('int64')", "timedelta": "x.astype('int64')",
    "float128": "x.astype('float64')", "float8": "x.astype('float32')", "void": "x['NAME'] if it has fields",
}  # fmt: skip


def conversion(name: str) -> str:
    """What to do with an array x of a type that is not supported, after a semicolon; "" if nothing is known."""
    way = next((way for start, way in CONVERSIONS.items() if name.startswith(start)), "")
    return f"; in numpy, take {way}" if way else ""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype called `name`; bfloat16 comes from ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    (ml_dtypes,) = need("ml_dtypes", why="bfloat16 needs ml_dtypes")
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


# Bits of the significand, the hidden one included, and the largest exponent.
FLOAT_LAYOUTS = {"float16": (11, 15), "bfloat16": (8, 127), "float32": (24, 127), "float64": (53, 1023)}


def becomes_infinite(dtype: DType, number: float) -> bool:
    """Whether a finite number is so large that the float type rounds it to infinity."""
    bits, exponent = FLOAT_LAYOUTS[dtype.name]
    return ((1 << bits + 1) - 1) << (exponent - bits) <= abs(number) < inf


def can_hold(dtype: DType, number: float) -> bool:
    """Whether an element of the type can equal the number, which float types round, but not to infinity."""
    if dtype.kind == "float":
        return not becomes_infinite(dtype, number)
    low, high = dtype.limits
    return low <= number <= high and number == int(number)
