"""The interface of a compiled program: all that a runtime needs to call it, without its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.core.shape import Shape
from axla.custom.site import TableFunction

# A leaf index, or a tuple of trees: `(0, (1, 2))` stands for a result `(a, (b, c))`.
Tree = int | tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """An array among the parameters or results; `bytes` is its size in memory (an element of less than 8 bits
    takes a byte).
    """

    name: str
    shape: Shape
    bytes: int

    def __str__(self) -> str:
        return f"{self.name}: {self.shape.logical.to_string(layout=False)}, {self.bytes} bytes"


@dataclass(frozen=True, slots=True)
class Alias:
    """Says that result leaf `result` is written to the memory of parameter leaf `parameter`.

    The runtime passes the same address for the parameter and the result: that of the caller's array if it is
    donated, else that of a copy. If `must`, the program demands the alias (must-alias); an array whose memory
    is shared, or belongs to another owner, is copied nevertheless.
    """

    result: int
    parameter: int
    must: bool = False

    def __str__(self) -> str:
        return f"result {self.result} <- parameter {self.parameter} ({'must' if self.must else 'may'}-alias)"


@dataclass(frozen=True, slots=True)
class SizeOf:
    """Says where the actual size of a dynamic dimension is: in scalar `number` among the parameters (or
    results) of the code.

    Leaf `leaf` has memory for the largest size of the dimension. The elements with indices below the actual
    sizes are valid, at the positions that they would have in an array of the largest size.
    """

    leaf: int
    dimension: int
    number: int


def sizes_of(specs: Sequence[ValueSpec]) -> tuple[SizeOf, ...]:
    """The scalars with the actual sizes of all dynamic dimensions. They are s32 and follow the leaves
    `specs`, in the order of the leaves and of each leaf's dimensions in memory.
    """
    places = [
        (leaf, d)
        for leaf, spec in enumerate(specs)
        if spec.shape.is_dynamic
        for d in reversed(spec.shape.layout.minor_to_major)
        if spec.shape.dynamic[d]
    ]
    return tuple(SizeOf(leaf, d, len(specs) + n) for n, (leaf, d) in enumerate(places))


@dataclass(frozen=True, slots=True)
class RendezvousKey:
    """Identifies a rendezvous of collectives: `members` are the participants (as replica * partitions +
    partition) of a group. Each channel has rendezvous of its own, and so has each asynchronous collective,
    since several may be in progress: `pair` is its number from 1, and 0 for other collectives.
    """

    members: tuple[int, ...]
    channel: int | None = None
    pair: int = 0  # 1, 2...: for asynchronous collectives

    def __str__(self) -> str:
        of = f"of {self.members}" + (f" on channel {self.channel}" if self.channel is not None else "")
        return of + (f", of pair {self.pair}" if self.pair else "")


@dataclass(frozen=True, slots=True)
class Interface:
    """A compiled program as its caller sees it. Leaves are numbered in tree order.

    The code of a program with dynamic sizes has the sizes as additional parameters and results (`sizes_of`);
    `of_code` is the interface with them.
    """

    name: str
    parameters: tuple[ValueSpec, ...]
    results: tuple[ValueSpec, ...]
    result_tree: Tree = 0
    parameter_trees: tuple[Tree, ...] | None = None  # None: every parameter is an array
    aliases: tuple[Alias, ...] = ()
    workspace_bytes: int = 0
    constants_bytes: int = 0
    messages: tuple[str, ...] = ()  # messages of the error codes from abi.FIRST_MESSAGE on
    functions: tuple[TableFunction, ...] = ()  # the function table, in order
    participants: tuple[int, int] = (1, 1)  # replicas, and partitions of each
    rendezvous_keys: tuple[RendezvousKey, ...] = ()
    # Whether a run may take more than some 20 us, may loop without a constant bound, or calls Python. Such a
    # run releases the interpreter lock and can be interrupted. A short run keeps the lock, which is faster.
    long_running: bool = True

    @property
    def is_dynamic(self) -> bool:
        """Whether a parameter or result has a dynamic size."""
        return any(spec.shape.is_dynamic for spec in (*self.parameters, *self.results))

    @property
    def donated(self) -> set[int]:
        """The parameter leaves whose memory results reuse."""
        return {alias.parameter for alias in self.aliases}

    def of_code(self) -> Interface:
        """The interface of the code: all dimensions have their largest size, and dynamic sizes are additional
        scalars. If no size is dynamic, returns this interface.
        """
        if not self.is_dynamic:
            return self
        results = _with_sizes(self.results)
        one = not isinstance(self.result_tree, tuple) and len(results) == 1
        return replace(
            self, parameters=_with_sizes(self.parameters), results=results,
            result_tree=0 if one else tuple(range(len(results))), parameter_trees=None,
        )  # fmt: skip

    def to_text(self) -> str:
        """The interface as text, one fact per line."""
        lines = [f"interface {self.name} {{"]
        lines += [f"  parameter {i} {spec}" for i, spec in enumerate(self.parameters)]
        lines += [f"  result {i} {spec}" for i, spec in enumerate(self.results)]
        for what, specs in (("parameter", self.parameters), ("result", self.results)):
            lines += [
                f"  {what} {size.number}: size of {what} {size.leaf}, dimension {size.dimension}"
                for size in sizes_of(specs)
            ]
        if self.parameter_trees is not None:
            lines.append(f"  parameters {' '.join(map(tree_text, self.parameter_trees))}")
        lines.append(f"  returns {tree_text(self.result_tree)}")
        lines += [f"  alias {alias}" for alias in self.aliases]
        lines.append(f"  workspace {self.workspace_bytes} bytes, constants {self.constants_bytes} bytes")
        if self.participants != (1, 1):
            lines.append("  {} replicas of {} partitions".format(*self.participants))
        lines += [f"  rendezvous {i} {rendezvous}" for i, rendezvous in enumerate(self.rendezvous_keys)]
        lines += [f"  function {i} {function}" for i, function in enumerate(self.functions)]
        lines += [f"  message {i} {text!r}" for i, text in enumerate(self.messages)]
        lines.append(f"  {'long' if self.long_running else 'short'} running")
        return "\n".join([*lines, "}"])

    __str__ = to_text


def array_numbers(leaves: Sequence[object | None]) -> dict[int, int]:
    """Maps the position of each leaf that is an array to its number among the arrays, as callers count:
    tokens (None here) are not arguments.
    """
    arrays = [leaf for leaf, found in enumerate(leaves) if found is not None]
    return {leaf: number for number, leaf in enumerate(arrays)}


def _with_sizes(specs: tuple[ValueSpec, ...]) -> tuple[ValueSpec, ...]:
    fixed = [replace(spec, shape=Shape(spec.shape.dtype, spec.shape.dims)) for spec in specs]
    scalar = Shape(S32)
    fixed += [ValueSpec(f"{specs[s.leaf].name}.size", scalar, scalar.byte_size) for s in sizes_of(specs)]
    return tuple(fixed)


def tree_text(tree: Tree) -> str:
    """A tree as text: `(0, (1, 2))`. Without recursion, since a program may nest tuples deeply."""
    out: list[str] = []
    stack: list[Tree | str] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack.append(")")
            for i, child in enumerate(reversed(item)):
                stack.append(child)
                if i + 1 < len(item):
                    stack.append(", ")
            out.append("(")
        else:
            out.append(str(item))
    return "".join(out)


def tree_leaves(tree: Tree) -> list[int]:
    """The leaf indices of a tree, in order."""
    leaves: list[int] = []
    stack: list[Tree] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack.extend(reversed(item))
        else:
            leaves.append(item)
    return leaves


def is_flat(tree: Tree) -> bool:
    """Whether a tree is the leaf 0, or a tuple of the leaves 0, 1, 2... without nested tuples."""
    return tree == 0 if not isinstance(tree, tuple) else tree == tuple(range(len(tree)))
