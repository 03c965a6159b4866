"""A kernel as a C function.

A kernel's computation is a small graph. Some of its instructions are *kept*: each has an array and a loop
nest that writes it. Of all others, elements are computed where they are read: `element` writes the statements
for one element and gives the name of a variable with it. What is read more than once, or reads much itself,
is kept; so nothing is computed twice for one reader.
"""

from __future__ import annotations

from typing import Any

from axla import Shape, UnsupportedError
from axla.ir.graph import Computation
from axla.ir.traverse import post_order
from axla.program.kernels import Kernel, output_shapes
from axla.target.machine import aligned

from . import elementwise, movement, reduction
from .writer import Index, Leaf, Node, Writer, c_type, flat, leaf, number


class KernelWriter:
    """Writes one kernel: `text` is the function, `scratch` the bytes that it needs for arrays of its own."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.out = Writer()
        self.arrays: dict[Leaf, str] = {}  # C expressions of type pointer
        self.scratch = 0

    def text(self) -> str:
        computation: Any = self.kernel.computation
        shapes = output_shapes(computation)
        given = [f"const {c_type(p.shape.dtype)} *p{n}" for n, p in enumerate(computation.parameters)]
        made = [f"{c_type(shape.dtype)} *r{n}" for n, shape in enumerate(shapes)]
        self.arrays = {(p, 0): f"p{n}" for n, p in enumerate(computation.parameters)}
        results = results_of(computation)
        updates = self._nests(computation, results)
        # A result in the place of an operand is written when nobody reads the operand any more.
        for n in updates:
            movement.update_in_place(self, results[n][0], f"r{n}")
            self.arrays[results[n]] = f"r{n}"
        for n, (array, shape) in enumerate(zip(results, shapes, strict=True)):
            if (source := self.arrays[array]) != f"r{n}":
                self.out.line(f"memmove(r{n}, {source}, {shape.byte_size});")
        head = ", ".join([*given, *made, "char *scratch", "Stop *stop"])
        return self.out.text(f"static void {self.kernel.name}({head})") + "\n"

    # Loop nests.

    def _nests(self, computation: Computation, results: list[Leaf]) -> list[int]:
        """The loops of all that has an array. What is left are results that are updates of an operand, whose
        memory they take.
        """
        over = {n: (computation.parameters[p], 0) for n, p in self.kernel.in_place}
        updates = [
            n for n, (inst, _) in enumerate(results)
            if n in over and inst.opcode == "dynamic-update-slice" and leaf(inst.operands[0]) == over[n]
        ]  # fmt: skip
        kept = keeps(computation, {results[n][0] for n in updates})
        places = {array: f"r{n}" for n, array in enumerate(results) if n not in over}
        for inst in post_order(computation):
            if inst in kept:
                for n, shape in enumerate(inst.shape.leaves()):
                    self.arrays[inst, n] = places.get((inst, n)) or self._room(shape)
                self._nest(inst)
        return updates

    def _room(self, shape: Any) -> str:
        kind, name = c_type(shape.dtype), self.out.name("a")
        self.out.line(f"{kind} *const {name} = ({kind} *)(scratch + {self.scratch});")
        self.scratch += aligned(shape.byte_size)
        return name

    def _nest(self, inst: Node) -> None:
        """The loops that write the arrays of an instruction."""
        shapes = list(inst.shape.leaves())
        write = reduction.NESTS.get(inst.opcode)
        with self.out.loops(shapes[0].dims, polls=bool(write) or shapes[0].rank > 1) as index:
            values = write(self, inst, index) if write else [self.compute(inst, index)]
            for n, (shape, value) in enumerate(zip(shapes, values, strict=True)):
                self.out.line(f"{self.arrays[inst, n]}[{flat(index, shape)}] = {value};")

    # Elements.

    def element(self, inst: Node, index: Index) -> str:
        """A C variable with an element."""
        array = leaf(inst)
        key = array, index
        if (known := self.out.known(key)) is not None:
            return known
        if array not in self.arrays:
            return self.out.remember(key, self.compute(inst, index))
        value = f"{self.arrays[array]}[{flat(index, inst.shape)}]"
        return self.out.remember(key, self.out.value(inst.shape.dtype, value))

    def compute(self, inst: Node, index: Index) -> str:
        """An element by what its instruction does."""
        if inst.opcode == "constant":
            return self._constant(inst, index)
        if inst.opcode in movement.ELEMENTS:
            return movement.ELEMENTS[inst.opcode](self, inst, index)
        values = [self.element(o, index if o.shape.rank else ()) for o in inst.operands]
        return self.out.value(inst.shape.dtype, elementwise.expression(inst, values))

    def _constant(self, inst: Node, index: Index) -> str:
        name, dtype = self.out.name("c"), inst.shape.dtype
        numbers = [number(value, dtype) for value in inst.op.literal.array.reshape(-1).tolist()]
        if len(numbers) == 1:
            return numbers[0]
        self.out.line(f"static const {c_type(dtype)} {name}[] = {{{', '.join(numbers) or 0}}};")
        return f"{name}[{flat(index, inst.shape)}]"

    def apply(self, computation: Computation, values: list[str]) -> list[str]:
        """Writes a computation on scalars for the given values; returns its result."""
        for parameter, value in zip(computation.parameters, values, strict=True):
            self.out.remember(((parameter, 0), ()), value)
        for inst in post_order(computation):
            if inst.opcode in ("parameter", "tuple"):
                continue
            if inst.opcode == "get-tuple-element" or not isinstance(inst.shape, Shape) or inst.shape.rank:
                raise UnsupportedError(f"{inst!r}: c-source applies computations on scalars only")
            self.out.remember(((inst, 0), ()), self.compute(inst, ()))
        return [str(self.out.known((result, ()))) for result in results_of(computation)]


def results_of(computation: Computation) -> list[Leaf]:
    """The arrays that a computation gives, in order."""
    root: Node = computation.root
    given = root.operands if root.opcode == "tuple" else [root]
    return [(leaf(inst)[0], leaf(inst)[1] + n) for inst in given for n, _ in enumerate(inst.shape.leaves())]


REREAD = {"broadcast", "convolution", "dot", "gather", "reduce-window"}
"""Ops that read an element of an operand many times."""
CHEAP = {"broadcast", "constant", "iota"}
NO_VALUES = {"get-tuple-element", "parameter", "tuple"}
"""Ops that only say where an array is."""


def keeps(computation: Computation, updates: set[Node]) -> set[Node]:
    """The instructions that have arrays of their own, but for `updates`, which are written in place."""
    kept: set[Node] = {inst for inst, _ in results_of(computation)}
    reread: set[Node] = set()  # those of which some element is read many times
    for inst in reversed(post_order(computation)):
        often = inst in reread or len(inst.users) > 1 or any(user in updates for user in inst.users)
        if inst.opcode in reduction.NESTS or (often and inst.opcode not in CHEAP):
            kept.add(inst)
        if inst.opcode in ("bitcast", "bitcast-convert"):
            kept.update(o for o in inst.operands if o.shape.dtype is not inst.shape.dtype)
        if inst.opcode in REREAD or (inst in reread and (inst not in kept or inst.opcode in NO_VALUES)):
            reread.update(inst.operands)
    return {inst for inst in kept - updates if inst.opcode not in NO_VALUES}
