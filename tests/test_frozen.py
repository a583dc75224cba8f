"""Frozen records are what frozen dataclasses with slots are."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from poolcli.core.frozen import frozen


@frozen
class Base:
    """A record that others derive from."""

    x: int
    like: str = "a"


@frozen
class Derived(Base):
    """One with a default of its own, and a value that is made for each."""

    like: str = "b"
    names: list[str] = field(default_factory=list, hash=False)
    noted: object = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is below 0")


@frozen(kw_only=True)
class Named(Base):
    """One whose own fields are named."""

    y: float
    z: float = 0.5


@frozen
class Shown:
    """One that shows itself otherwise."""

    def __repr__(self) -> str:
        return "<shown>"


@dataclass(frozen=True, slots=True)
class BasePeer:
    x: int
    like: str = "a"


@dataclass(frozen=True, slots=True)
class DerivedPeer(BasePeer):
    like: str = "b"
    names: list[str] = field(default_factory=list, hash=False)
    noted: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPeer(BasePeer):
    y: float
    z: float = 0.5


@pytest.mark.parametrize(("ours", "peer"), [(Base, BasePeer), (Derived, DerivedPeer), (Named, NamedPeer)])
def test_a_record_is_made_shown_hashed_and_taken_apart_as_a_dataclass(ours: Any, peer: Any) -> None:
    more = {"y": 1.5} if ours is Named else {}

    def said(kind: Any) -> list[object]:
        one = kind(3, **more)
        other = replace(one, like="c")
        return [
            [(each.name, each.annotation, each.kind) for each in inspect.signature(kind).parameters.values()],
            repr(one).replace("Peer", ""),
            hash(one) == hash(kind(3, **more)),
            (one == kind(3, **more), one == other, one == asdict(one)),
            asdict(other),
            [(each.name, each.type, each.kw_only) for each in fields(one)],
            kind.__slots__,
            kind.__match_args__,
        ]

    assert said(ours) == said(peer)


def test_each_record_has_a_list_of_its_own() -> None:
    assert Derived(1).names is not Derived(1).names


def test_what_is_not_compared_makes_no_difference_and_kinds_do() -> None:
    assert Derived(1, noted="x") == Derived(1)
    assert Base(1, "b") != Derived(1)
    assert repr(Shown()) == "<shown>"


@pytest.mark.parametrize(
    "change",
    [lambda one: setattr(one, "x", 2), lambda one: delattr(one, "x"), lambda one: setattr(one, "other", 2)],
)
def test_a_record_cannot_be_changed(change: Callable[[Base], None]) -> None:
    one = Base(1)
    with pytest.raises(FrozenInstanceError):
        change(one)
    assert one == Base(1)


def test_what_a_record_says_of_its_values_is_heard() -> None:
    with pytest.raises(ValueError, match="x is below 0"):
        Derived(-1)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301  # its own
def test_a_record_is_copied_and_pickled(again: Callable[[object], object]) -> None:
    for one in (Base(1), Derived(2, names=["a"]), Named(1, y=2.5)):
        assert (again(one), type(again(one))) == (one, type(one))
