"""Call sites: custom calls as data, which do not depend on a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.shape import AnyShape, Shape, TupleShape, show
from axla.core.shape_util import inverse, major_to_minor

# Calling conventions of functions. The first three are the versions of XLA's untyped interface.
ORIGINAL = "original"  # void f(void *out, void **in)
STATUS = "status_returning"  # void f(void *out, void **in, status *)
UNIFIED = (
    "status_returning_unified"  # void f(void *out, void **in, const char *opaque, size_t length, status *)
)
FFI = "ffi"  # XLA_FFI_Error *f(XLA_FFI_CallFrame *): XLA's typed interface
UNTYPED = "untyped"  # one of the first three, depending on the version of the call
AXLA = "axla"  # int32_t f(axla_frame *, void **operands, void **results, const char *opaque, int64_t length)
PYTHON = "python"  # a Python function of NumPy arrays
COLLECTIVE = "collective"  # the runtime's function for collectives
LIBRARY = "library"  # a routine of LAPACK or BLAS, called as its plan says
EXTERNAL = "external"  # as ORIGINAL, but the target is a symbol that the linker resolves
REPORT = "report"  # the runtime's function that stores the message of a failed status
CHECK = "axla.check"  # stops a program, with the configuration as message, if its operand is false

NATIVE = (ORIGINAL, STATUS, UNIFIED, UNTYPED, FFI, AXLA)


@dataclass(frozen=True, slots=True)
class CallSite:
    """A custom call: its target, the shapes of operands and result in the layouts that the target sees, its
    configuration.

    Leaves are numbered depth first, over all operands. Tokens are leaves too.
    """

    target: str
    operands: tuple[AnyShape, ...]
    result: AnyShape
    version: str = "API_VERSION_ORIGINAL"
    config: str = ""
    aliases: tuple[tuple[int, int], ...] = ()  # pairs (result leaf, operand leaf) that share memory
    where: str = ""  # the instruction and its source location, for messages

    def __str__(self) -> str:
        return f"custom-call {self.target!r}" + (f" ({self.where})" if self.where else "")

    @property
    def operand_leaves(self) -> tuple[AnyShape, ...]:
        """The shapes of the arrays and tokens of all operands, depth first."""
        return tuple(leaf for shape in self.operands for leaf in shape.leaves())

    @property
    def result_leaves(self) -> tuple[AnyShape, ...]:
        """The shapes of the arrays and tokens of the result, depth first."""
        return tuple(self.result.leaves())


@dataclass(frozen=True, slots=True)
class TableFunction:
    """An entry of a program's function table. `name` is a registered target or a routine of a library.

    `site` is set for a Python function, which is wrapped for one call site, and for messages.
    """

    name: str
    api: str = AXLA
    site: CallSite | None = None

    def __str__(self) -> str:
        return f"{self.api} {self.name}" + (f" for {self.site.where}" if self.site is not None else "")


def in_memory_order(array: Any, shape: Shape) -> Any:
    """Transposes an array of the sizes `shape.dims` to the order of its dimensions in memory, major first."""
    return array.transpose(major_to_minor(shape))


def from_memory_order(array: Any, shape: Shape) -> Any:
    """The inverse of `in_memory_order`: transposes an array whose dimensions are in memory order to the sizes
    `shape.dims`.
    """
    return array.transpose(inverse(major_to_minor(shape)))


def nest(shape: AnyShape, leaves: Iterator[Any], tuple_of: Callable[[list[Any]], Any] = tuple) -> Any:
    """Arranges leaves as nested tuples like those of `shape`. `tuple_of` makes a tuple of its elements. Not
    recursive.
    """
    if not isinstance(shape, TupleShape):
        return next(leaves)
    open_: list[tuple[Iterator[AnyShape], list[Any]]] = [(iter(shape.elements), [])]
    while True:
        elements, made = open_[-1]
        element = next(elements, None)
        if isinstance(element, TupleShape):
            open_.append((iter(element.elements), []))
        elif element is not None:
            made.append(next(leaves))
        else:
            open_.pop()
            if not open_:
                return tuple_of(made)
            open_[-1][1].append(tuple_of(made))


def flatten(shape: AnyShape, value: Any) -> list[Any]:
    """The leaves of nested tuples. ValueError, with the position, if the tuples are not nested like those of
    `shape`.
    """
    leaves: list[Any] = []
    stack: list[tuple[AnyShape, Any, str]] = [(shape, value, "the result")]
    while stack:
        wanted, found, place = stack.pop()
        if not isinstance(wanted, TupleShape):
            leaves.append(found)
            continue
        if found is None and not wanted.elements:
            found = ()
        if not isinstance(found, tuple | list) or len(found) != len(wanted.elements):
            raise ValueError(
                f"{place} is {_described(found)}, wanted a tuple of {len(wanted.elements)}: {show(wanted)}"
            )
        inner = "result" if place == "the result" else place
        parts = [(s, v, f"{inner}[{k}]") for k, (s, v) in enumerate(zip(wanted.elements, found, strict=True))]
        stack.extend(reversed(parts))
    return leaves


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"of type {type(value).__name__}"


def leaf_number(shape: AnyShape, index: Sequence[int]) -> int:
    """The number of the leaf at `index`, a path through nested tuples. If there is a tuple at `index`, the
    number of its first leaf.
    """
    first = 0
    for i in index:
        assert isinstance(shape, TupleShape)
        first += shape.leaf_starts[i]
        shape = shape.elements[i]
    return first
