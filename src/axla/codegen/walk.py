"""Element generators: the value of any instruction at any index.

`Elements` walks a computation from a root at an index towards its parameters and emits the instructions on
the way. Elementwise ops combine the values of their operands; movement ops take their operand at
`op.source(index)`; all others have a function in the table `ELEMENT` or, if another package defines the op,
a method `element(e, inst, index)`. Emitted values are cached per (instruction, index) while the region that
contains them is open, so a value used twice is computed once and, through the function builder, outside of
every loop it does not depend on.

The same code serves kernels (an index of many lanes), scalar regions (indices are Python ints) and one-lane
targets.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from axla.codegen.array import DenseArray
from axla.codegen.function import LlvmFunction
from axla.codegen.index import AnyIndex, Index, index_key, linear
from axla.codegen.value import Value, ValueGroup, Values, merged, parts_of, rebuilt
from axla.core import plugins
from axla.core.dtypes import PRED
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo import Add, Broadcast, Constant, Dot, Multiply, Reduce, ReduceWindow
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op, is_own
from axla.ir.traverse import post_order
from axla.ir.typed import shape_of

Indices = tuple[AnyIndex, ...]
ElementSource = Callable[[Indices], Value | tuple[Value, ...]]

ELEMENT: dict[type[Op], Callable[[Elements, Instruction[Any], Indices], Value | tuple[Value, ...]]] = {}
"""The function that writes an element of each op that is neither elementwise nor pure movement; `element.py`
fills the table.
"""

UNROLL_REDUCTION = 16
"""Reductions of at most so many elements inside an element generator are unrolled."""


class Elements:
    """Writes the values of a computation's instructions, at any index, into a function."""

    def __init__(self, values: Values, lanes: int, *, scalar: bool = False, least: int = 1):
        self.values = values
        self.least = least  # lane count of the scalars that this computation is applied to
        self.f = values.f
        self.lanes = lanes
        # In a scalar region every element of every array is a register, and instructions are visited in
        # order.
        self.scalar = scalar
        self.branched = False  # within one of the sides of `where_inside`
        self.leaves: dict[Instruction, ElementSource] = {}
        self._memo: dict[tuple, tuple[Value, ...]] = {}

    def lanes_at(self, index: Indices) -> int:
        """The lane count of an element at `index`."""
        return max(self.least, widest(index))

    def bind(self, inst: Instruction, leaf: ElementSource | DenseArray | Value | ValueGroup) -> None:
        """Makes `leaf` the source of the value of an instruction, which is usually a parameter."""
        if isinstance(leaf, DenseArray):
            self.leaves[inst] = lambda index: leaf.load(index, self.lanes)
        else:
            self.leaves[inst] = leaf if callable(leaf) else lambda index: leaf

    def forget(self, numbers: Iterable[Instruction]) -> None:
        """Drops the cached values of scalar instructions, so that they are computed again."""
        for inst in numbers:
            self.leaves.pop(inst, None)
            self._memo.pop((inst, index_key(())), None)

    def __call__(self, inst: Instruction, index: Indices) -> Value:
        """The value of an array instruction at an index; uniform indices give one-lane values."""
        return self.all(inst, index)[0]

    def all(self, inst: Instruction, index: Indices) -> tuple[Value, ...]:
        """The values of all leaves of a (possibly tuple-shaped) instruction at one index."""
        found = self._known(inst, index)
        if found is not None:
            return found
        if self.scalar and inst not in self.leaves and any(not isinstance(i, int) for i in index):
            return self.pick(inst.shape.dims, lambda at: self.all(inst, at), index)
        for pending in self._elementwise_below(inst, index):
            self._remember(pending, index, self._generate(pending, index))
        found = self._known(inst, index)
        if found is None:
            found = self._remember(inst, index, self._generate(inst, index))
        return found

    def _known(self, inst: Instruction, index: Indices) -> tuple[Value, ...] | None:
        found = self._memo.get((inst, index_key(index)))
        if found is None:
            return None
        for value in found:
            for part in value.parts:
                if not part.region.open:
                    return None
        return found

    def _remember(self, inst: Instruction, index: Indices, found: tuple[Value, ...]) -> tuple[Value, ...]:
        self._memo[inst, index_key(index)] = found
        return found

    def _elementwise_below(self, inst: Instruction, index: Indices) -> list[Instruction]:
        """The elementwise instructions that are needed to compute `inst` at the same index, operands first.

        Long chains are emitted from this list, which keeps Python's stack shallow.
        """
        order: list[Instruction] = []
        seen: set[Instruction] = set()
        stack: list[tuple[Instruction, bool]] = [(inst, False)]
        while stack:
            node, left = stack.pop()
            if left:
                order.append(node)
                continue
            if (
                node in seen
                or node in self.leaves
                or not (node.op.elementwise and node.shape.is_array)
                or self._known(node, index)
            ):
                continue
            seen.add(node)
            stack.append((node, True))
            stack.extend((o, False) for o in node.operands if dims_of(o) == dims_of(node))
        return order

    def _generate(self, inst: Instruction, index: Indices) -> tuple[Value, ...]:
        leaf = self.leaves.get(inst)
        if leaf is not None:
            found = leaf(index)
            return found if isinstance(found, tuple) else (found,)
        generator = ELEMENT.get(type(inst.op))
        if generator is None and not is_own(type(inst.op)):
            return self._of_package(inst, index)
        if generator is None:
            return (self._elementwise(inst, index) if inst.op.elementwise else self._moved(inst, index),)
        found = generator(self, inst, index)
        return found if isinstance(found, tuple) else (found,)

    def _of_package(self, inst: Instruction, index: Indices) -> tuple[Value, ...]:
        """The values of an op that another package defines, by the op's own methods; errors in them are
        reported with the name of the op.
        """
        generator = getattr(inst.op, "element", None)
        with plugins.blamed(f"{inst!r}: its element"):
            found = self._moved(inst, index) if generator is None else generator(self, inst, index)
        values = found if isinstance(found, tuple) else (found,)
        wanted = [leaf.dtype for leaf in inst.shape.arrays()]
        if [getattr(value, "dtype", None) for value in values] != wanted:
            given = ", ".join(str(v.dtype) if isinstance(v, Value) else repr(v) for v in values)
            raise UnsupportedError(f"{inst!r}: its element is {given}, wanted {', '.join(map(str, wanted))}")
        return values

    def _moved(self, inst: Instruction, index: Indices) -> Value:
        """The element of the operand that a movement op has at `index`."""
        op, what = inst.op, getattr(inst.op, "custom_call_target", "") or inst.opcode
        if hasattr(op, "source"):
            operand = inst.operands[0]
            return self(operand, tuple(op.source(index, operand.shape)))  # type: ignore[attr-defined]
        if is_own(type(op)):
            raise UnsupportedError(f"{inst!r}: the cpu backend does not compile {what} here, within a kernel")
        wanted = "the op has none of the methods element, source and expand"
        raise UnsupportedError(f"{inst!r}: the cpu backend does not compile {what}: {wanted}")

    def _elementwise(self, inst: Instruction, index: Indices) -> Value:
        step = _horner_step(inst)
        if step is not None:
            return self.values.multiply_add(*(self(o, index) for o in step))
        operands = [self(o, index) for o in inst.operands]
        if len(operands) == 1:
            return self.values.unary(inst.op.opcode, operands[0])
        a, b = operands
        if a.dtype is not b.dtype:  # HLO lets float types mix: the result has the widest
            widest = max(a.dtype, b.dtype, key=lambda d: d.bits)
            a, b = self.values.convert(a, widest), self.values.convert(b, widest)
        return self.values.binary(inst.op.opcode, a, b)

    def pick(
        self, dims: Sequence[int], element: Callable[[Indices], tuple[Value, ...]], index: Indices
    ) -> tuple[Value, ...]:
        """Selects the element at an index that is known only at run time, among all (few) elements."""
        offset = linear(index, dims)
        found: tuple[Value, ...] | None = None
        for number, at in enumerate(itertools.product(*map(range, dims))):
            here = element(at)
            if found is None:
                found = here
                continue
            condition = self.in_range(offset, number, number + 1)
            pairs = zip(here, found, strict=True)
            found = tuple(choose(self.values, condition, lambda a=a: a, lambda b=b: b) for a, b in pairs)
        assert found is not None
        return found

    # -- computations applied to scalars -----------------------------------------------------------------

    def apply(self, computation: Computation, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Applies a computation to scalars (each is a value of any lane count) and returns its results."""
        least = max((a.lanes for a in arguments), default=1)
        inner = Elements(self.values, self.lanes, scalar=self.scalar, least=max(least, self.least))
        for parameter, argument in zip(computation.parameters, arguments, strict=True):
            inner.bind(parameter, argument)
        return inner.results(computation, ())

    def inline(self, computation: Computation, operands: Sequence[Instruction]) -> Elements:
        """Element generators for a computation whose parameters have the values of `operands`, which are
        instructions of this computation.
        """
        inner = Elements(self.values, self.lanes, scalar=self.scalar, least=self.least)
        for parameter, operand in zip(computation.parameters, operands, strict=True):
            inner.bind(parameter, lambda index, operand=operand: self(operand, index))
        return inner

    def results(self, computation: Computation, index: Indices) -> tuple[Value, ...]:
        """The values of a computation's result at an index, one for each element of a tuple."""
        root = computation.root
        if isinstance(root.shape, TupleShape) and root.op.opcode == "tuple":
            return tuple(self(o, index) for o in root.operands)
        return self.all(root, index)

    # -- indices from values -----------------------------------------------------------------------------

    def start_index(self, value: Value, limit: int) -> AnyIndex:
        """Converts an integer value to an index, clamped to [0, limit]."""
        values = self.values
        if limit <= 0:
            return 0
        dtype = value.dtype
        if dtype.is_signed:
            value = values.binary("maximum", value, values.constant(dtype, 0))
        if limit < 1 << (dtype.bits - (1 if dtype.is_signed else 0)):
            value = values.binary("minimum", value, values.constant(dtype, limit))
        element = values.to_index(value)
        if value.lanes == 1:
            known = element.constant
            return known if known is not None else Index(self.f, element, limit=limit + 1)
        return Index(self.f, self.f.index(0), 0, value.lanes, vec=element, limit=limit + 1)

    def window_start(
        self, starts: Sequence[Instruction], dims: Sequence[int], sizes: Sequence[int]
    ) -> list[AnyIndex]:
        """The start index of a window of `sizes` in an array of `dims`, clamped so that the window lies
        inside. `starts` are the instructions that compute it.
        """
        if len(starts) == 1 and len(dims) != 1 or (starts and dims_of(starts[0]) != ()):
            found = [self(starts[0], (d,)) for d in range(len(dims))]  # the old form: one vector of starts
        else:
            found = [self(s, ()) for s in starts]
        return [self.start_index(v, dim - size) for v, dim, size in zip(found, dims, sizes, strict=True)]

    def checked_index(
        self, value: Value, limit: int, *, clamped: bool = True
    ) -> tuple[AnyIndex, Value | bool]:
        """(an integer value clamped to [0, limit], whether it was already inside). Without `clamped`, the
        index is valid only where it is inside.
        """
        if limit < 0:
            return 0, False
        values, dtype = self.values, value.dtype
        inside: Value | bool = True
        if limit < 1 << (dtype.bits - (1 if dtype.is_signed else 0)):
            a, b = values.together(value, values.constant(dtype, limit))
            inside = Value(PRED, a.lanes, (self.f.icmp("ule", a.ssa, b.ssa),))  # ule: negatives are large
        elif dtype.is_signed:
            inside = values.compare("GE", value, values.constant(dtype, 0))
        if clamped or value.lanes > 1:
            return self.start_index(value, limit), inside
        return Index(self.f, values.to_index(value), limit=limit + 1), inside

    def in_range(self, index: AnyIndex, low: int, high: int) -> Value | bool:
        """Whether low <= index < high, as a pred value; a Python bool where that is known at compile time."""
        known = index if isinstance(index, int) else index.constant
        if known is not None:
            return low <= known < high
        if low >= high:  # the range is empty: there is nothing to read
            return False
        assert isinstance(index, Index)
        f, lanes = self.f, 1 if index.uniform else index.lanes
        position = index.base if lanes == 1 else index.vector(lanes)
        above = f.icmp("sge", position, f.const(position.type, low))
        below = f.icmp("slt", position, f.const(position.type, high))
        return Value(PRED, lanes, (f.binary("and", above, below),))

    def clamp_index(self, index: AnyIndex, size: int) -> AnyIndex:
        """Clamps an index to [0, size). Lanes that were out of range then read some element, whose value is
        not used.
        """
        f = self.f
        if isinstance(index, int):
            return min(max(index, 0), size - 1)
        low, high = f.index(0), f.index(size - 1)
        if index.uniform:
            return Index(f, f.smin(f.smax(index.base, low), high), limit=size)
        lanes = index.lanes
        vec = f.smin(f.smax(index.vector(lanes), f.splat(low, lanes)), f.splat(high, lanes))
        return Index(f, f.index(0), 0, lanes, vec=vec, limit=size)


Making = Callable[[], tuple[Value, ...]]


def where_inside(
    e: Elements, cases: Sequence[tuple[Value | None, Making]], lanes: int, anywhere: Making
) -> tuple[Value, ...]:
    """Writes code that runs the first of `cases` whose condition holds, or else the general code, `anywhere`.
    A case is (condition or None, function that writes a simpler form). A call inside another call writes only
    `anywhere`, so that the code does not multiply.
    """
    asked = [(condition, make) for condition, make in cases if condition is not None]
    if not asked or e.branched:
        return anywhere()

    def side(make: Making) -> tuple[Value, ...]:
        return tuple(e.values.splat(v, lanes) for v in make())

    def among(number: int) -> tuple[Value, ...]:
        if number == len(asked):
            return side(anywhere)
        condition, make = asked[number]
        return either(e, condition, lambda: side(make), lambda: among(number + 1))

    e.branched = True
    try:
        return among(0)
    finally:
        e.branched = False


def dims_of(inst: Instruction) -> tuple[int, ...] | None:
    """The sizes of an instruction's array; None for tuples and tokens."""
    shape = inst.shape
    return shape.dims if isinstance(shape, Shape) else None


def all_of(values: Values, conditions: Sequence[Value | bool]) -> Value | bool:
    """The conjunction of conditions, some of which may be known at compile time."""
    found: Value | bool = True
    for condition in conditions:
        if condition is False or found is False:
            return False
        if condition is True:
            continue
        found = condition if found is True else values.binary("and", found, condition)
    return found


def choose(values: Values, condition: Value | bool, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
    """Selects `a` if the condition holds, else `b`. If the condition is known at compile time, only that side
    is written.
    """
    if isinstance(condition, bool):
        return a() if condition else b()
    return values.select(condition, a(), b())


def widest(index: Indices) -> int:
    """The largest lane count among the indices of an element; 1 if each index is the same in all lanes."""
    return max((i.lanes for i in index if isinstance(i, Index) and not i.uniform), default=1)


def accumulate(
    e: Elements, inst: Instruction, sizes: Sequence[int], first: tuple[Value, ...],
    step: Callable[[tuple[Value, ...], Sequence[AnyIndex]], tuple[Value, ...]], lanes: int,
) -> tuple[Value, ...]:  # fmt: skip
    """Writes a reduction over an index space of `sizes`: `step` combines the accumulators, which start as
    `first`, with the element at an index. The code is unrolled if the space is small, counting all reductions
    nested in a step; else it has loops. `lanes` is the lane count of the accumulators.
    """
    if 0 in sizes:
        return first
    below = 1 if e.scalar else inst.computation.fact("reductions", _reductions)[inst]
    if prod(sizes) * below <= UNROLL_REDUCTION:
        return fold(e.f, sizes, 0, first, step)
    values = e.values

    def splatted(found: Sequence[Value], at: Sequence[AnyIndex]) -> ValueGroup:
        return tuple(values.splat(v, lanes) for v in step(tuple(found), at))

    return fold(e.f, sizes, len(sizes), tuple(values.splat(v, lanes) for v in first), splatted)


def _reductions(computation: Computation) -> dict[Instruction, int]:
    """For each instruction, the largest number of elements that nested reductions combine for one element of
    an operand.
    """
    steps: dict[Instruction, int] = {}
    below: dict[Instruction, int] = {}
    for inst in post_order(computation):
        below[inst] = max((steps[operand] for operand in inst.operands), default=1)
        steps[inst] = below[inst] * _steps(inst)
    return below


def _steps(inst: Instruction) -> int:
    """The number of elements that one element of a reduction, product or window combines."""
    op = inst.op
    if isinstance(op, Reduce | Dot):
        dims = op.dimensions if isinstance(op, Reduce) else op.lhs_contracting_dims
        return prod(shape_of(inst.operands[0]).dims[d] for d in dims)
    return prod(op.window.size) if isinstance(op, ReduceWindow) else 1


def fold(
    f: LlvmFunction, sizes: Sequence[int], cut: int, first: ValueGroup,
    step: Callable[[ValueGroup, Indices], ValueGroup], unroll: int = 1,
) -> ValueGroup:  # fmt: skip
    """Writes loops over an index space of `sizes` that apply `step` to the accumulators, which start as
    `first`, and each index. Returns the accumulators. Dimensions from `cut` on are unrolled; the loop over
    the last dimension has `unroll` steps per iteration.
    """

    def nest(depth: int, at: Indices, values: ValueGroup) -> ValueGroup:
        if depth == len(sizes):
            return step(values, at)
        if depth >= cut:
            for n in range(sizes[depth]):
                values = nest(depth + 1, (*at, n), values)
            return values
        copies = unroll if depth == len(sizes) - 1 else 1
        with f.loop(0, sizes[depth], copies, parts_of(values)) as loop:
            inner = rebuilt(values, loop.carried)
            index = Index(f, loop.index, multiple=copies, limit=sizes[depth])
            for n in range(copies):
                inner = nest(depth + 1, (*at, index + n), inner)
            loop.yield_(parts_of(inner))
        return rebuilt(values, loop.results)

    return nest(0, (), first)


def either(
    e: Elements, condition: Value, a: Callable[[], tuple[Value, ...]], b: Callable[[], tuple[Value, ...]],
    likely: bool | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    """Writes a branch on `condition` and returns the values of the side that runs: `a` if the condition
    holds, else `b`.
    """
    branch = e.f.branch(condition.ssa, likely)
    with branch.then():
        x = a()
        lanes = [v.lanes for v in x]
    with branch.otherwise():
        y = b()
        wide = [max(n, v.lanes) for n, v in zip(lanes, y, strict=True)]
        y = tuple(e.values.splat(v, n) for v, n in zip(y, wide, strict=True))
    if wide != lanes:
        message = "conditional: its branches have different lane counts here; the interpreter runs it"
        raise UnsupportedError(message)
    return merged(branch, x, y)


def _horner_step(inst: Instruction) -> tuple[Instruction, Instruction, Instruction] | None:
    """(p, x, c) of an instruction p * x + c, where p is such a step too and c is a constant; None for other
    instructions. Polynomials of floats by Horner's rule are rounded once per step, where the machine can.
    """
    product = _shifted_product(inst)
    if product is None or not inst.shape.dtype.is_float or inst.shape.dtype.bits < 32:
        return None
    p, x = product.operands
    if _shifted_product(p) is None:
        p, x = x, p
    number = next(o for o in inst.operands if o is not product)
    return (p, x, number) if _shifted_product(p) is not None and p.shape == x.shape else None


def _shifted_product(inst: Instruction) -> Instruction | None:
    """The product to which an addition adds a constant; None if the instruction is not such an addition."""
    if not isinstance(inst.op, Add):
        return None
    for product, number in (inst.operands, inst.operands[::-1]):
        below = number.operands[0] if isinstance(number.op, Broadcast) else number
        if isinstance(product.op, Multiply) and isinstance(below.op, Constant):
            return product
    return None
