"""`XlaComputation`: what a builder returns, and what ops such as While and Reduce call."""

from __future__ import annotations

from axla.core.errors import InvalidArgument
from axla.core.shape import ProgramShape
from axla.ir.graph import Computation, Module


class XlaComputation:
    """A finished program. It can be compiled, or called by ops of any builder. Its module must not be
    changed.
    """

    __slots__ = ("_module", "__weakref__")

    def __init__(self, module: Module | None = None) -> None:
        self._module = module

    @property
    def is_null(self) -> bool:
        """Whether this object is empty: it then represents a computation that could not be built."""
        return self._module is None

    @property
    def module(self) -> Module:
        """The module of this computation. Raises InvalidArgument if the computation is empty."""
        if self._module is None:
            message = "computation: it is empty, since building it failed; see the builder's first error"
            raise InvalidArgument(message)
        return self._module

    @property
    def entry(self) -> Computation:
        """The entry computation of the module."""
        return self.module.entry

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.module.name

    @property
    def program_shape(self) -> ProgramShape:
        """The shapes of the parameters and of the result of the entry computation."""
        return self.entry.program_shape

    def get_program_shape(self) -> ProgramShape:
        """Returns `program_shape`. JAX's `XlaComputation` has this method."""
        return self.program_shape

    def get_hlo_module(self) -> Module:
        """Returns `module`. JAX's `XlaComputation` has this method."""
        return self.module

    def as_hlo_text(self) -> str:
        """Returns the module as HLO text."""
        return self.module.to_string()

    def __repr__(self) -> str:
        inside = "" if self._module is None else f"{self.name}: {self.program_shape}"
        return f"XlaComputation({inside})"


def computation_of(value: object, what: str) -> Computation:
    """Returns the entry computation of an XlaComputation or Module, or a Computation itself. InvalidArgument
    for any other value; `what` names the argument.
    """
    if isinstance(value, XlaComputation):
        return value.entry
    if isinstance(value, Module):
        return value.entry
    if isinstance(value, Computation):
        return value
    raise InvalidArgument(f"{what}: found {type(value).__name__}, wanted an XlaComputation")
