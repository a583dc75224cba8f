"""What the program says of itself."""

from __future__ import annotations

from poolcli.version import VERSION


def version_line() -> str:
    """Name and version, as `--version` shows them."""
    return f"poolcli {VERSION}"
