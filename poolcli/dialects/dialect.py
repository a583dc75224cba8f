"""The record of a framework's rules (`Dialect`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

IndexBase = Literal["axis", "channels_last"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """An operator in a framework: its name there, and which attributes it takes.

    `variant` names the framework's own arithmetic, if it has one.
    """

    name: str
    dilations: bool = True
    pads: bool = True
    include_pad: bool = True
    divisor_override: bool = False
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class SlidingCall:
    """A call of a sliding-window operator with one number per spatial axis; the pads are those that `auto_pad` sets."""

    operator: str
    axes: str
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    auto_pad: str
    options: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The rules of one framework.

    Attributes
    ----------
    operators : mapping
        The operators that it has, by poolcli's names; others are refused.
    default_strides, default_exclude_pad, ceil
        Defaults, and the rounding rule that its word `ceil` means.
    keeps_short : bool
        Whether `ceil` keeps the one window that its formula gives where the window is longer than the padded input.
    rounding_types, auto_pads : tuple of str
        The words that it knows.
    included : {"clipped", "kernel"}
        What the divisor counts where padding is included: the part of the window in the padded input, or the kernel.
    index_axis, index_base, axis_option
        What max indices count, and whether `axis` can change it.
    pad_limit, symmetric_pads
        Limits of explicit pads.
    compared : tuple
        The rounding types with which comparisons show it.
    channels_last : bool
        Whether arrays have their channels last by default.
    retired : bool
        Shown last and never proposed.
    refuses(call)
        Why the framework takes no such windows; None: it does.
    """

    name: str
    title: str
    operators: Mapping[str, Support]
    default_strides: Literal["one", "kernel", "required"]
    default_exclude_pad: bool
    ceil: Literal["ceil", "ceil_torch"]
    keeps_short: bool = False
    rounding_types: tuple[str, ...]
    auto_pads: tuple[str, ...]
    included: Literal["clipped", "kernel"]
    index_axis: int
    index_base: IndexBase = "axis"
    axis_option: bool = False
    pad_limit: Literal["half_kernel", "below_kernel"] | None = None
    symmetric_pads: bool = False
    compared: tuple[str | None, ...] = (None,)
    channels_last: bool = False
    retired: bool = False
    refuses: Callable[[SlidingCall], str | None] = lambda _: None

    def rounding_rule(self, word: object) -> str:
        """Return the rule that a rounding word means: only `ceil` depends on the framework."""
        return self.ceil if word == "ceil" else str(word)
