"""What a person has said of a pooling that is looked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from poolcli.arguments import one_of
from poolcli.errors import RequestError
from poolcli.message_fields import field
from poolcli.ops import OPERATORS
from poolcli.plan.attributes import Attributes
from poolcli.suggestions import did_you_mean

NUMBERS = ("kernel", "strides", "pads_begin", "dilations")  # those that guesses are made of


@dataclass(frozen=True, slots=True)
class Constraints:
    """The operator and the attributes that stay; refused where no operator has them."""

    op: str | None
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.op is not None:
            one_of("op", self.op, tuple(OPERATORS))
        if not any(map(self.takes, OPERATORS.values())):
            which = "no operator" if self.op is None else self.op
            names = [name for name in self.given if self.op is None or not _has(OPERATORS[self.op], name)]
            known = [own.name for op in OPERATORS.values() if self.op in (None, op.name) for own in fields(op)]
            meant = did_you_mean(names[0], known) if len(names) == 1 and names[0] not in known else ""
            which = f"{which} has {'no' if self.op or meant else 'all of'}"
            raise RequestError(f"{which} {' and '.join(map(field, names))}{meant}")

    def takes(self, record: type[Attributes]) -> bool:
        """Whether an operator may be the one, going by its name and by the attributes that it has."""
        return self.op in (None, record.name) and all(_has(record, name) for name in self.given)

    def numbers(self, i: int, rank: int) -> dict[str, int]:
        """The numbers that are given for axis `i` of `rank`."""
        found: dict[str, int] = {}
        for name in NUMBERS:
            if name in self.given:
                value = self.given[name]
                listed = (value,) if isinstance(value, int) else tuple(value)
                if len(listed) not in (1, rank):
                    raise RequestError(
                        f"{field(name)} has {len(listed)} numbers, the input has {rank} spatial axes; give 1 or {rank}"
                    )
                found[name] = listed[i] if len(listed) > 1 else listed[0]
        return found

    def kept(self, op: Attributes) -> Attributes | None:
        """`op` with what is given; None where that cannot be planned with the rest."""
        try:
            return replace(op, **self.given) if self.takes(type(op)) else None
        except RequestError:
            return None


def _has(record: type[Attributes], name: str) -> bool:
    return any(own.name == name for own in fields(record))
