"""A target for numba that knows what kernels call, and no more: numba loads everything that any program might call, and
types a call anew wherever it stands. Together that was a third of its time.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from numba import jit
from numba.core.cpu import CPUContext, CPUTargetOptions
from numba.core.descriptors import TargetDescriptor
from numba.core.dispatcher import Dispatcher
from numba.core.target_extension import CPU, dispatcher_registry, jit_registry, target_registry
from numba.core.types import Callable
from numba.core.typing.context import Context

NAME = "poolcli"


class _Kernels(CPU):
    """The target's mark."""


class _Typing(Context):
    """What calls give, each found once."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Any] = {}
        super().__init__()

    def load_additional_registries(self) -> None:
        """The functions of numpy; those of Python are always there."""
        from numba.core.typing import npydecl

        self.install_registry(npydecl.registry)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """The signature of a call; None where there is none."""
        if not isinstance(func, Callable):
            return super().resolve_function_type(func, args, kws)
        call = func, tuple(args), tuple(dict(kws).items())
        found = self._found.get(call)
        if found is None:
            found = self._found[call] = super().resolve_function_type(func, args, kws)
        return found


class _Lowering(CPUContext):
    """How what was typed is written in LLVM."""

    def load_additional_registries(self) -> None:
        """Numbers, ranges and tuples, which register themselves; the functions of numpy, and what those call."""
        from numba.cpython import builtins, mathimpl, numbers, rangeobj, tupleobj  # noqa: F401  they register themselves
        from numba.np import npyimpl

        self.install_registry(mathimpl.registry)
        self.install_registry(npyimpl.registry)

    def post_lowering(self, module: Any, library: Any) -> None:
        """Nothing: kernels use none of numba's run time."""


class _Descriptor(TargetDescriptor):
    options = CPUTargetOptions

    @cached_property
    def typing_context(self) -> _Typing:
        """The same for all kernels."""
        return _Typing()

    @cached_property
    def target_context(self) -> _Lowering:
        """The same for all kernels."""
        return _Lowering(self.typing_context, NAME)


target_registry[NAME] = _Kernels


class _Dispatcher(Dispatcher):
    targetdescr = _Descriptor(NAME)


dispatcher_registry[_Kernels] = _Dispatcher
jit_registry[_Kernels] = partial(jit, _target=NAME)
