"""A compiled library, from which its files are written: functions, arguments and results, code, weights."""

from __future__ import annotations

from axla.aot.names import Name
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.program.interface import Interface
from axla.runtime.manifest import Role, Weights
from axla.target.machine import CpuTarget

__all__ = ["LibraryFunction", "CompiledLibrary", "Role", "Tensor", "LibraryValue", "Weights"]


@dataclass(frozen=True, slots=True)
class LibraryValue:
    """An argument or a result: a row-major array that the caller owns."""

    name: str  # a C identifier, unique among the arguments or the results of its function
    label: str  # its origin, for comments: `params['w']`, a parameter's name
    shape: Shape
    bytes: int  # in memory; types of less than a byte take one byte per element
    role: Role
    packed: str = ""  # a description of the array packed in its bytes, for comments; or empty

    @property
    def type(self) -> str:
        """The shape as text for comments; for a packed array, the description of the array in it."""
        return self.packed or self.shape.to_string(layout=False)

    @property
    def is_written(self) -> bool:
        """Whether a run writes to the array."""
        return self.role in (Role.VARIABLE, Role.RESULT)

    @property
    def dtype(self) -> DType:
        """The element type of the array."""
        return self.shape.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the array's dimensions."""
        return self.shape.dims

    @property
    def count(self) -> int:
        """The number of elements."""
        return self.shape.size


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """One function of a library: `{symbol}_run(args, results, workspace)` and `{symbol}_run_frame(frame)`.

    `arguments` has every parameter leaf in order. `results` has, in order, the result leaves for which
    callers provide memory; a leaf that overwrites a parameter (`interface.aliases`) is not included, and that
    parameter is a VARIABLE.
    """

    name: Name
    arguments: tuple[LibraryValue, ...]
    results: tuple[LibraryValue, ...]
    interface: Interface
    module: Module  # before optimization, to run it elsewhere and to count its work

    @property
    def symbol(self) -> str:
        """The prefix of the function's symbols."""
        return self.name.prefix

    @property
    def signature(self) -> str:
        """The signature, for comments: `(z: f32[2,2]) = foo::MatMul(x: f32[2,3], y: f32[3,2])`."""
        made, given = (
            ", ".join(f"{value.name}: {value.type}" for value in values)
            for values in (self.results, self.arguments)
        )
        return f"({made}) = {self.name}({given})"

    @property
    def workspace_bytes(self) -> int:
        """The memory that a caller must provide, in bytes."""
        return self.interface.workspace_bytes

    @property
    def array_bytes(self) -> int:
        """The size of all arguments and results together, in bytes."""
        return sum(value.bytes for value in (*self.arguments, *self.results))

    @property
    def variables(self) -> tuple[LibraryValue, ...]:
        """The arguments that are kept between calls."""
        return tuple(a for a in self.arguments if a.role is not Role.ARGUMENT)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array in the constants segment. `name` is its unique name in the program."""

    name: str
    offset: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class CompiledLibrary:
    """Functions compiled for one target into one object, with their common constants.

    `batches`: for functions that differ only in a number of rows, pairs of this number and the function's
    index in `functions`.
    """

    name: Name
    target: CpuTarget
    functions: tuple[LibraryFunction, ...]
    image: bytes  # name.o
    weights: Weights
    constants: bytes  # the constants segment: 64-byte aligned where it is loaded
    constants_image: bytes = b""  # name_weights.o when weights is SEPARATE
    batches: tuple[tuple[int, int], ...] = ()
    tensors: tuple[Tensor, ...] = ()  # the arrays in the constants, by offset

    @property
    def prefix(self) -> str:
        """The prefix of files, symbols and macros."""
        return self.name.prefix

    @property
    def packed(self) -> bool:
        """Whether arguments or results have two elements per byte."""
        return any(value.packed for f in self.functions for value in (*f.arguments, *f.results))

    @property
    def takes_weights(self) -> bool:
        """Whether the functions' last argument is the address of the constants."""
        return self.weights is Weights.FILE

    @property
    def has_loader(self) -> bool:
        """Whether P_loader.c is needed: the constants or the values of variables are loaded from files."""
        return self.takes_weights or any(function.variables for function in self.functions)

    @property
    def externals(self) -> list[str]:
        """The names of functions that the user of the library must provide."""
        return sorted(self.target.form.externals)

    @property
    def constants_place(self) -> str:
        """The name of the file that holds the constants, as the header and the size report print it."""
        if self.weights is Weights.OBJECT:
            return f"{self.prefix}.o"
        return f"{self.prefix}{'_weights.o' if self.weights is Weights.SEPARATE else '.weights'}"

    @property
    def weights_symbol(self) -> str:
        """The symbol of the constants that all functions share."""
        return f"{self.prefix}_weights"
