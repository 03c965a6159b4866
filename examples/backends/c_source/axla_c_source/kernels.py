"""A kernel as a C function.

A kernel's computation is a small graph. Some of its instructions are *kept*: each has an array and a loop
nest that writes it. Of all others, elements are computed where they are read: `element` writes the statements
for one element and gives the name of a variable with it. What is read more than once, or reads much itself,
is kept; so nothing is computed twice for one reader.
"""

from __future__ import annotations

from axla import Shape, UnsupportedError
from axla.ir.graph import Computation
from axla.ir.traverse import post_order
from axla.program.kernels import Kernel, output_shapes

from . import elementwise, movement, reduction
from .writer import Index, Leaf, Node, Writer, c_type, flat, leaf, number

ALIGNMENT = 64


def shapes_of(inst: Node) -> list[Shape]:
    return [shape for shape in inst.shape.leaves() if isinstance(shape, Shape)]


class KernelWriter:
    """Writes one kernel: `text` is the function, `scratch` the bytes that it needs for arrays of its own."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.out = Writer()
        self.arrays: dict[Leaf, str] = {}  # C expressions of type pointer
        self.constants: list[str] = []
        self.scratch = 0

    def text(self) -> str:
        computation = self.kernel.computation
        shapes = output_shapes(computation)
        for inst in computation.parameters:
            self.arrays[inst, 0] = f"p{inst.op.parameter_number}"
        given = [f"const {c_type(p.shape.dtype)} *p{n}" for n, p in enumerate(computation.parameters)]
        made = [f"{c_type(shape.dtype)} *r{n}" for n, shape in enumerate(shapes)]
        self._body([leaf(root) for root in roots_of(computation)])
        head = ", ".join([*given, *made, "char *scratch", "const volatile int32_t *stop"])
        return "\n".join([*self.constants, self.out.text(f"static void {self.kernel.name}({head})"), ""])

    # Loop nests.

    def _body(self, results: list[Leaf]) -> None:
        over = dict(self.kernel.in_place)
        updates = [n for n, (inst, _) in enumerate(results) if n in over and self._updates(inst, over[n])]
        places = {array: n for n, array in enumerate(results) if n not in over}
        kept = keeps(self.kernel.computation, {results[n][0] for n in updates})
        for inst in post_order(self.kernel.computation):
            if inst in kept:
                for n, shape in enumerate(shapes_of(inst)):
                    self.arrays[inst, n] = f"r{places[inst, n]}" if (inst, n) in places else self._room(shape)
                self._nest(inst)
        # A result in the place of an operand is written when nobody reads the operand any more.
        for n in updates:
            movement.update_in_place(self, results[n][0], f"r{n}")
            self.arrays[results[n]] = f"r{n}"
        for n, array in enumerate(results):
            if (source := self.arrays[array]) != f"r{n}":
                self.out.line(
                    f"memmove(r{n}, {source}, {output_shapes(self.kernel.computation)[n].byte_size});"
                )

    def _updates(self, inst: Node, parameter: int) -> bool:
        """Whether a result is its operand's memory with a part that is new."""
        over = self.kernel.computation.parameters[parameter]
        return inst.opcode == "dynamic-update-slice" and inst.operands[0] is over

    def _room(self, shape: Shape) -> str:
        place = f"(({c_type(shape.dtype)} *)(scratch + {self.scratch}))"
        self.scratch += -(-shape.byte_size // ALIGNMENT) * ALIGNMENT
        name = self.out.name("a")
        self.out.line(f"{c_type(shape.dtype)} *const {name} = {place};")
        return name

    def _nest(self, inst: Node) -> None:
        """The loops that write the arrays of an instruction."""
        shapes = shapes_of(inst)
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
        if array in self.arrays:
            value = f"{self.arrays[array]}[{flat(index, inst.shape)}]"
            return self.out.remember(key, self.out.value(inst.shape.dtype, value))
        return self.out.remember(key, self.compute(inst, index))

    def compute(self, inst: Node, index: Index) -> str:
        """An element by what its instruction does."""
        if inst.opcode == "constant":
            return self._constant(inst, index)
        if inst.opcode in movement.ELEMENTS:
            return movement.ELEMENTS[inst.opcode](self, inst, index)
        if inst.opcode == "map":
            return self.apply(inst.op.to_apply, [self.element(o, index) for o in inst.operands])[0]
        scalars = [() if not o.shape.rank else index for o in inst.operands]
        values = [self.element(o, at) for o, at in zip(inst.operands, scalars, strict=True)]
        return self.out.value(inst.shape.dtype, elementwise.expression(inst, values))

    def _constant(self, inst: Node, index: Index) -> str:
        array, dtype = inst.op.literal.array, inst.shape.dtype
        if array.size == 1:
            return number(array.reshape(()).item(), dtype)
        numbers = ", ".join(number(value, dtype) for value in array.reshape(-1).tolist())
        name = f"{self.kernel.name}_c{len(self.constants)}"
        self.constants.append(f"static const {c_type(dtype)} {name}[] = {{{numbers or 0}}};")
        return self.out.value(dtype, f"{name}[{flat(index, inst.shape)}]")

    def apply(self, computation: Computation, values: list[str]) -> list[str]:
        """What a computation on scalars gives for values."""
        for parameter, value in zip(computation.parameters, values, strict=True):
            self.out.remember(((parameter, 0), ()), value)
        found: dict[Node, list[str]] = {}
        for inst in post_order(computation):
            if inst.opcode == "tuple":
                found[inst] = [found[o][0] for o in inst.operands]
            elif isinstance(inst.shape, Shape) and not inst.shape.rank:
                value = None if inst.opcode == "parameter" else self.compute(inst, ())
                found[inst] = [value or str(self.out.known(((inst, 0), ())))]
                self.out.remember(((inst, 0), ()), found[inst][0])
            else:
                raise UnsupportedError(f"{inst!r}: c-source applies computations on scalars only")
        return found[computation.root]


def roots_of(computation: Computation) -> list[Node]:
    """The instructions that give the results."""
    root = computation.root
    return list(root.operands) if root.opcode == "tuple" else [root]


REREAD = {"broadcast", "convolution", "dot", "gather", "reduce-window"}
"""Ops that read an element of an operand many times."""
CHEAP = {"broadcast", "constant", "iota"}
NO_VALUES = {"get-tuple-element", "parameter", "tuple"}
"""Ops that only say where an array is."""


def keeps(computation: Computation, updates: set[Node]) -> set[Node]:
    """The instructions that have arrays of their own, but for `updates`, which are written in place."""
    kept: set[Node] = {leaf(root)[0] for root in roots_of(computation)}
    reread: set[Node] = set()  # those of which some element is read many times
    for inst in reversed(post_order(computation)):
        if inst.opcode not in NO_VALUES:
            often = inst in reread or len(inst.users) > 1 or any(user in updates for user in inst.users)
            if inst.opcode in reduction.NESTS or (often and inst.opcode not in CHEAP):
                kept.add(inst)
        if inst.opcode in ("bitcast", "bitcast-convert"):
            kept.update(o for o in inst.operands if o.shape.dtype is not inst.shape.dtype)
        if inst.opcode in REREAD or (inst in reread and inst not in kept):
            reread.update(inst.operands)
    return {inst for inst in kept - updates if inst.opcode not in NO_VALUES}
