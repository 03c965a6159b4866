"""A built computation: the result of a builder, and the argument of ops that call code."""

from __future__ import annotations

from axla.core.errors import InvalidArgument
from axla.core.shape import ProgramShape
from axla.ir.graph import Computation, Module


class XlaComputation:
    """A finished program. It can be compiled, or called by an op of any builder; its module must not be
    changed afterwards.
    """

    __slots__ = ("_module", "__weakref__")

    def __init__(self, module: Module | None = None) -> None:
        self._module = module

    @property
    def is_null(self) -> bool:
        """Whether this is the empty computation, which represents one that could not be built."""
        return self._module is None

    @property
    def module(self) -> Module:
        """The module; InvalidArgument when building it failed."""
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
        """The shapes of the parameters and of the result."""
        return self.entry.program_shape

    def get_program_shape(self) -> ProgramShape:
        """Returns `program_shape`, under the name that JAX's `XlaComputation` has for it."""
        return self.program_shape

    def get_hlo_module(self) -> Module:
        """Returns `module`, under the name that JAX's `XlaComputation` has for it."""
        return self.module

    def as_hlo_text(self) -> str:
        """Returns the module as HLO text."""
        return self.module.to_string()

    def __repr__(self) -> str:
        inside = "" if self._module is None else f"{self.name}: {self.program_shape}"
        return f"XlaComputation({inside})"


def computation_of(value: object, what: str) -> Computation:
    """The entry computation of an argument that must be a computation."""
    if isinstance(value, XlaComputation):
        return value.entry
    if isinstance(value, Module):
        return value.entry
    if isinstance(value, Computation):
        return value
    raise InvalidArgument(f"{what}: found {type(value).__name__}, wanted an XlaComputation")
