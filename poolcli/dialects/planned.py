"""What is read of a plan that is written down for a framework. Plans stand above this room and know nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Counted(Protocol):
    """What indices count: so many elements."""

    @property
    def modulus(self) -> int: ...


class Reduced(Protocol):
    """Whether elements are added and divided, or one of them is picked."""

    @property
    def divides(self) -> bool: ...
    @property
    def picks(self) -> bool: ...


class Planned(Protocol):
    """A pooling whose attributes are numbers for each axis: an operator by poolcli's name, with what it counts."""

    @property
    def op(self) -> str: ...
    @property
    def reducer(self) -> Reduced: ...
    @property
    def attributes(self) -> Mapping[str, object]: ...
    @property
    def axes(self) -> Sequence[object]: ...
    @property
    def divisor_override(self) -> int | None: ...
    @property
    def index(self) -> Counted | None: ...
