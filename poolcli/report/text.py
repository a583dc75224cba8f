"""How numbers, times and options are written in reports."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from poolcli.dialects import DIALECTS
from poolcli.message_fields import field, on_command_line
from poolcli.plan.attributes import Attributes


def number(value: object) -> str:
    """A number, a list `2,2` or a word as it is shown in reports."""
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def duration(seconds: float) -> str:
    """A time with three digits: `4.21 ms`, `1.30 s`."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms"


SHORT = {"kernel": "-k", "strides": "-s"}
UNSAID = ("like", "axis", "index_element_type")  # what is said elsewhere, and what is of indices alone


def options_of(op: Attributes) -> str:
    """The options that give these attributes; those that are as they are by default are left out.

    >>> from poolcli import AvgPool
    >>> options_of(AvgPool((3, 3), 2, 1, (1, 0), exclude_pad=False))
    '-k 3 -s 2 --pads-begin 1 --pads-end 1,0 --include-pad'
    """
    values = {own.name: _plain(getattr(op, own.name)) for own in fields(op) if own.name not in UNSAID}
    if values.get("exclude_pad") == DIALECTS[op.like].default_exclude_pad:
        del values["exclude_pad"]
    for pad in ("pads_begin", "pads_end"):
        if values.get(pad, 0) == 0 and values.get("pads_begin") == values.get("pads_end"):
            values = {name: value for name, value in values.items() if name not in ("pads_begin", "pads_end")}
    if "pads_begin" in values and values["pads_begin"] == values["pads_end"]:
        values["pads_end"] = None
        values = {"-p" if name == "pads_begin" else name: value for name, value in values.items()}
    defaults = {own.name: own.default for own in fields(op)}
    return " ".join(_typed(name, value) for name, value in values.items() if _said(name, value, defaults))


def _said(name: str, value: Any, defaults: dict[str, Any]) -> bool:
    kept = name in ("pads_begin", "pads_end", "p")
    return value is not None and (kept or value != defaults.get(name))


def _typed(name: str, value: Any) -> str:
    listed = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    if name == "-p" or name in SHORT:
        return f"{SHORT.get(name, name)} {listed}"
    return on_command_line(field(name, value))


def _plain(value: Any) -> Any:
    """One number where all axes have the same."""
    return value[0] if isinstance(value, tuple | list) and len({*value}) == 1 else value
