"""What every command may be asked."""

from __future__ import annotations

from poolcli.core.frozen import frozen


@frozen(kw_only=True)
class Request:
    """How a command reports."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
