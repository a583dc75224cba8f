"""The colours of drawings by what they stand for, on light and on dark pages."""

from __future__ import annotations

from typing import Literal

Role = Literal[
    "page", "ink", "soft", "grid", "faint", "padding", "first", "second", "last", "other", "on",
    "read0", "read1", "read2", "read3", "read4",
]  # fmt: skip
READ: tuple[Role, ...] = ("read0", "read1", "read2", "read3", "read4")  # by no window, by 1, 2, 3, and by 4 or more
THEMES = ("auto", "light", "dark")  # `auto`: an SVG follows whoever looks at it, a PNG is light

COLOURS: dict[Role, tuple[str, str]] = {
    "page": ("#ffffff", "#0f172a"),
    "ink": ("#111827", "#f1f5f9"),
    "soft": ("#4b5563", "#94a3b8"),
    "grid": ("#9ca3af", "#64748b"),
    "faint": ("#cbd0d8", "#475569"),
    "padding": ("#f3f4f6", "#1e293b"),
    "first": ("#dc2626", "#f87171"),
    "second": ("#b45309", "#fbbf24"),
    "last": ("#7c3aed", "#c4b5fd"),
    "other": ("#6b7280", "#94a3b8"),
    "on": ("#ffffff", "#0f172a"),  # words on first, second and last
    "read0": ("#ffffff", "#0f172a"),
    "read1": ("#e0efff", "#172f52"),
    "read2": ("#b9d9ff", "#1d4480"),
    "read3": ("#86bcff", "#225fb8"),
    "read4": ("#559bf5", "#2c7be5"),
}


def colour(role: Role, theme: str) -> str:
    """The colour of a role; `auto` begins as light."""
    return COLOURS[role][theme == "dark"]
