"""What the program says of itself."""

from __future__ import annotations


def version_line() -> str:
    """Name and version, as `--version` shows them."""
    from importlib.metadata import version

    return f"poolcli {version('poolcli')}"
