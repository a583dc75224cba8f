"""Mutants that no test can notice, and why: they are another way to say the same."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
