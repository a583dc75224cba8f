"""Pooling of tensors as OpenVINO's operators define it: average, max, adaptive and more."""

from __future__ import annotations

from importlib import import_module

__version__ = "1.0.0"

TYPE_CHECKING = False  # importing typing takes longer than the rest of this module
if TYPE_CHECKING:
    from poolcli.errors import (
        FileError as FileError,
        LayoutWarning as LayoutWarning,
        PoolError as PoolError,
        RequestError as RequestError,
    )
    from poolcli.explain.chain import Chain as Chain, ChainLayer as ChainLayer, chain as chain
    from poolcli.explain.diff_arrays import Difference as Difference, compare as compare
    from poolcli.explain.export import Conversion as Conversion, convert as convert
    from poolcli.explain.identify import identify as identify
    from poolcli.explain.solve import solve as solve
    from poolcli.layouts import convert_layout as convert_layout
    from poolcli.models import Finding as Finding, check as check
    from poolcli.ops import *  # noqa: F403  # every operator is public
    from poolcli.ops.avg import *  # noqa: F403
    from poolcli.ops.max import *  # noqa: F403
    from poolcli.ops.plan import Plan as Plan
    from poolcli.ops.statistics import *  # noqa: F403
    from poolcli.plan.attributes import fit_size as fit_size

    __all__: list[str]

# The modules of public names, which are imported on first use, so that a command imports only what it needs.
_MODULES = {
    **dict.fromkeys(("FileError", "LayoutWarning", "PoolError", "RequestError"), "errors"),
    **dict.fromkeys(("Chain", "ChainLayer", "chain"), "explain.chain"),
    **dict.fromkeys(("Conversion", "convert"), "explain.export"),
    **dict.fromkeys(("Finding", "check"), "models"),
    **dict.fromkeys(("Difference", "compare"), "explain.diff_arrays"),
    "convert_layout": "layouts",
    "fit_size": "plan.attributes",
    "identify": "explain.identify",
    "Plan": "ops.plan",
    "solve": "explain.solve",
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used."""
    found: object
    if name == "__all__":
        found = sorted((*_MODULES, *import_module("poolcli.ops").__all__))
    elif name in _MODULES:
        if _MODULES[name].startswith("explain"):
            import_module("poolcli.ops")  # which fills the table of operators
        module = import_module(f"poolcli.{_MODULES[name]}")
        found = getattr(module, name)
        if name.islower():  # a function, which is also looked up in its module when it is unpickled
            found = import_module("poolcli.ops.signatures").with_answers(found)
            setattr(module, name, found)
    elif not name.startswith("_") and name in import_module("poolcli.ops").__all__:
        found = getattr(import_module("poolcli.ops"), name)
    else:
        meant = ""
        if not name.startswith("_"):
            from poolcli.suggestions import public_name

            meant = public_name(name, __dir__())
        raise AttributeError(f"module 'poolcli' has no attribute {name!r}{meant}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]  # type: ignore[misc]  # it is a list of names
