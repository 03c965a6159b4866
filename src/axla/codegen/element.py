"""Element generators: the value of any instruction at any index.

`Elements` walks a computation from a root at an index towards its parameters and emits what is on the way.
Elementwise ops combine the values of their operands; movement ops ask for their operand at
`op.source(index)`; the rest have a function below. Emitted values are remembered per (instruction, index)
while the region that holds them is open, so a value used twice is computed once and, through the function
builder, outside of every loop it does not depend on.

The same code serves kernels (an index of many lanes), scalar regions (indices are Python ints) and one-lane
targets.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from math import prod

import axla.hlo  # noqa: F401 - fills OPS
from axla.codegen.array import Array
from axla.codegen.bitcast import bitcast_convert
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, delinearize, index_key, linear
from axla.codegen.position import index_value, inside_everywhere
from axla.codegen.value import Value, Values
from axla.core.dtypes import F32, PRED, DType
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape, TupleShape
from axla.ir.graph import Computation, Instruction
from axla.ir.op import OPS, Op

Indices = tuple[AnyIndex, ...]
Leaf = Callable[[Indices], Value | tuple[Value, ...]]

UNROLL_REDUCTION = 16
"""Reductions of at most so many elements inside an element generator are written out."""


class Elements:
    """The values of a computation's instructions in a function being written."""

    def __init__(self, values: Values, lanes: int, *, scalar: bool = False):
        self.values = values
        self.f = values.f
        self.lanes = lanes
        # In a scalar region every element of every array is a register, and instructions are visited in
        # order.
        self.scalar = scalar
        self.branched = False  # within one of the sides of `where_inside`
        self.leaves: dict[Instruction, Leaf] = {}
        self._memo: dict[tuple, tuple[Value, ...]] = {}

    def bind(self, inst: Instruction, leaf: Leaf | Array | Value) -> None:
        """Says where the value of `inst` (a parameter, mostly) comes from."""
        if isinstance(leaf, Array):
            array = leaf
            self.leaves[inst] = lambda index: array.load(index, self.lanes)
        elif isinstance(leaf, Value):
            value = leaf
            self.leaves[inst] = lambda index: value
        else:
            self.leaves[inst] = leaf

    def __call__(self, inst: Instruction, index: Indices) -> Value:
        """The value of an array instruction at an index; uniform indices give one-lane values."""
        return self.all(inst, index)[0]

    def all(self, inst: Instruction, index: Indices) -> tuple[Value, ...]:
        """The values of all leaves of a (possibly tuple-shaped) instruction at one index."""
        found = self._known(inst, index)
        if found is not None:
            return found
        if self.scalar and inst not in self.leaves and any(not isinstance(i, int) for i in index):
            return self.pick(inst.shape.dims, lambda at: self.all(inst, at), index)  # type: ignore[attr-defined]
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
                if part.region is not None and not part.region.open:
                    return None
        return found

    def _remember(self, inst: Instruction, index: Indices, found: tuple[Value, ...]) -> tuple[Value, ...]:
        self._memo[inst, index_key(index)] = found
        return found

    def _elementwise_below(self, inst: Instruction, index: Indices) -> list[Instruction]:
        """Elementwise instructions below `inst` that are needed at the same index, operands first.

        Long chains are emitted from this list, so that Python's stack does not grow with them.
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
                or not _plain_elementwise(node)
                or self._known(node, index)
            ):
                continue
            seen.add(node)
            stack.append((node, True))
            stack.extend((o, False) for o in node.operands if _dims(o) == _dims(node))
        return order

    def _generate(self, inst: Instruction, index: Indices) -> tuple[Value, ...]:
        leaf = self.leaves.get(inst)
        if leaf is not None:
            found = leaf(index)
            return found if isinstance(found, tuple) else (found,)
        op = inst.op
        if op.elementwise and type(op) not in ELEMENT:
            return (self._elementwise(inst, index),)
        generator = ELEMENT.get(type(op))
        if generator is None:
            if hasattr(op, "source"):
                operand = inst.operands[0]
                return (self(operand, tuple(op.source(index, operand.shape))),)  # type: ignore[attr-defined]
            what = getattr(op, "custom_call_target", "") or op.opcode
            raise UnsupportedError(f"{inst!r}: the cpu backend does not compile {what} here, within a kernel")
        found = generator(self, inst, index)
        return found if isinstance(found, tuple) else (found,)

    def _elementwise(self, inst: Instruction, index: Indices) -> Value:
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
        """The element at an index known only at run time, chosen among all (few) elements."""
        offset = linear(index, dims)
        found: tuple[Value, ...] | None = None
        for number, at in enumerate(itertools.product(*map(range, dims))):
            here = element(at)
            if found is None:
                found = here
                continue
            condition = self.in_range(offset, number, number + 1)
            found = tuple(
                choose(self.values, condition, lambda a=a: a, lambda b=b: b)
                for a, b in zip(here, found, strict=True)
            )
        assert found is not None
        return found

    # -- computations applied to scalars -----------------------------------------------------------------

    def apply(self, computation: Computation, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The results of a computation on scalars (each a value of any lane count)."""
        inner = Elements(self.values, self.lanes, scalar=self.scalar)
        for parameter, argument in zip(computation.parameters, arguments, strict=True):
            inner.bind(parameter, argument)
        return inner.results(computation, ())

    def inline(self, computation: Computation, operands: Sequence[Instruction]) -> Elements:
        """Generators of a computation whose parameters are instructions of this one."""
        inner = Elements(self.values, self.lanes, scalar=self.scalar)
        for parameter, operand in zip(computation.parameters, operands, strict=True):
            inner.bind(parameter, lambda index, operand=operand: self(operand, index))
        return inner

    def results(self, computation: Computation, index: Indices) -> tuple[Value, ...]:
        root = computation.root
        if isinstance(root.shape, TupleShape) and root.op.opcode == "tuple":
            return tuple(self(o, index) for o in root.operands)
        return self.all(root, index)

    # -- indices from values -----------------------------------------------------------------------------

    def start_index(self, value: Value, limit: int) -> AnyIndex:
        """An integer value as an index clamped to [0, limit]."""
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
        """The clamped start of a window of `sizes` in an array of `dims`."""
        if len(starts) == 1 and len(dims) != 1 or (starts and _dims(starts[0]) != ()):
            found = [self(starts[0], (d,)) for d in range(len(dims))]  # the old form: one vector of starts
        else:
            found = [self(s, ()) for s in starts]
        return [self.start_index(v, dim - size) for v, dim, size in zip(found, dims, sizes, strict=True)]

    def checked_index(self, value: Value, limit: int) -> tuple[AnyIndex, Value | bool]:
        """(an integer value clamped to [0, limit], whether it was inside already)."""
        if limit < 0:
            return 0, False
        values, dtype = self.values, value.dtype
        conditions: list[Value | bool] = []
        if dtype.is_signed:
            conditions.append(values.compare("GE", value, values.constant(dtype, 0)))
        if limit < 1 << (dtype.bits - (1 if dtype.is_signed else 0)):
            conditions.append(values.compare("LE", value, values.constant(dtype, limit)))
        return self.start_index(value, limit), all_of(values, conditions)

    def in_range(self, index: AnyIndex, low: int, high: int) -> Value | bool:
        """Whether low <= index < high, as a pred value; a Python bool where everything is known."""
        known = index if isinstance(index, int) else index.constant
        if known is not None:
            return low <= known < high
        assert isinstance(index, Index)
        f, lanes = self.f, 1 if index.uniform else index.lanes
        position = index.base if lanes == 1 else index.vector(lanes)
        above = f.icmp("sge", position, f.const(position.type, low))
        below = f.icmp("slt", position, f.const(position.type, high))
        return Value(PRED, lanes, (f.binary("and", above, below),))

    def clamp_index(self, index: AnyIndex, size: int) -> AnyIndex:
        """`index` forced into [0, size): what out-of-range lanes read instead (their value is not used)."""
        f = self.f
        if isinstance(index, int):
            return min(max(index, 0), size - 1)
        low, high = f.index(0), f.index(size - 1)
        if index.uniform:
            return Index(f, f.smin(f.smax(index.base, low), high), limit=size)
        lanes = index.lanes
        vec = f.smin(f.smax(index.vector(lanes), f.splat(low, lanes)), f.splat(high, lanes))
        return Index(f, f.index(0), 0, lanes, vec=vec, limit=size)


def where_inside(
    e: Elements, condition: Value | None, lanes: int, inside: Callable[[], tuple[Value, ...]],
    anywhere: Callable[[], tuple[Value, ...]],
) -> tuple[Value, ...]:  # fmt: skip
    """`anywhere`, by way of the simpler code `inside` where that gives the same. Not nested: both are written
    out.
    """
    if condition is None or e.branched:
        return anywhere()

    def side(make: Callable[[], tuple[Value, ...]]) -> tuple[Value, ...]:
        return tuple(e.values.splat(v, lanes) for v in make())

    e.branched = True
    try:
        return either(e, condition, lambda: side(inside), lambda: side(anywhere))
    finally:
        e.branched = False


def _plain_elementwise(inst: Instruction) -> bool:
    return inst.op.elementwise and inst.shape.is_array


def _dims(inst: Instruction) -> tuple[int, ...] | None:
    shape = inst.shape
    return shape.dims if isinstance(shape, Shape) else None


def all_of(values: Values, conditions: Sequence[Value | bool]) -> Value | bool:
    """The conjunction of conditions, some of which may be known."""
    found: Value | bool = True
    for condition in conditions:
        if condition is False or found is False:
            return False
        if condition is True:
            continue
        found = condition if found is True else values.binary("and", found, condition)  # type: ignore[arg-type]
    return found


def choose(values: Values, condition: Value | bool, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
    """a if condition else b; only what can be needed is emitted."""
    if isinstance(condition, bool):
        return a() if condition else b()
    return values.select(condition, a(), b())


# -- generators ------------------------------------------------------------------------------------------


def _constant(e: Elements, inst: Instruction, index: Indices) -> Value:
    literal: Literal = inst.op.literal  # type: ignore[attr-defined]
    dtype = inst.shape.dtype  # type: ignore[attr-defined]
    if literal.is_uniform():
        return e.values.constant(dtype, literal.array.flat[0])
    if all(isinstance(i, int) for i in index):
        return e.values.constant(dtype, literal.array[index])  # type: ignore[index]
    pointer = constant_global(e, literal)
    return Array(e.values, pointer, dtype, literal.array.shape).load(index, e.lanes)


def constant_global(e: Elements, literal: Literal) -> Ssa:
    """The address of a small literal in the module's read-only data."""
    data = literal.array.tobytes()
    name = "c" + hashlib.blake2b(data, digest_size=8).hexdigest()
    text = "".join(f"\\{byte:02X}" for byte in data)
    e.f.module.globals.setdefault(
        name, f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{text}", align 64'
    )
    return Ssa(f"@{name}", "ptr", None)


def _get_tuple_element(e: Elements, inst: Instruction, index: Indices) -> Value:
    return e.all(inst.operands[0], index)[inst.op.index]  # type: ignore[attr-defined]


def _tuple(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    return tuple(e(o, index) for o in inst.operands)


def _iota(e: Elements, inst: Instruction, index: Indices) -> Value:
    dtype: DType = inst.shape.dtype  # type: ignore[attr-defined]
    position = index[inst.op.iota_dimension]  # type: ignore[attr-defined]
    return index_value(e, position, dtype)


def _broadcast(e: Elements, inst: Instruction, index: Indices) -> Value:
    dimensions = inst.op.dimensions  # type: ignore[attr-defined]
    return e(inst.operands[0], tuple(index[d] for d in dimensions))


def _reshape(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand = inst.operands[0]
    return e(operand, reshape_index(index, inst.shape.dims, operand.shape.dims))  # type: ignore[attr-defined]


def reshape_index(index: Indices, result: Sequence[int], operand: Sequence[int]) -> Indices:
    """The operand's index for an index of the reshaped result: group by group, so that what is kept stays
    simple.
    """
    found: list[AnyIndex] = []
    r = o = 0
    while r < len(result) or o < len(operand):
        r_end, o_end = r, o
        r_size = o_size = 1
        while True:  # the smallest groups of equal size
            if r_size == o_size and (r_end > r or o_end > o):
                break
            if r_end < len(result) and (r_size <= o_size or o_end == len(operand)):
                r_size *= result[r_end]
                r_end += 1
            else:
                o_size *= operand[o_end]
                o_end += 1
        while r_end < len(result) and result[r_end] == 1:
            r_end += 1
        while o_end < len(operand) and operand[o_end] == 1:
            o_end += 1
        offset = linear(index[r:r_end], result[r:r_end])
        found.extend(delinearize(offset, operand[o:o_end]))
        r, o = r_end, o_end
    return tuple(found)


def _compare(e: Elements, inst: Instruction, index: Indices) -> Value:
    a, b = (e(o, index) for o in inst.operands)
    op = inst.op
    total = getattr(op, "type", "") == "TOTALORDER"
    return e.values.compare(op.direction, a, b, total_order=total)  # type: ignore[attr-defined]


def _select(e: Elements, inst: Instruction, index: Indices) -> Value:
    condition, a, b = inst.operands
    at = () if condition.shape.dims == () else index  # type: ignore[attr-defined]
    return e.values.select(e(condition, at), e(a, index), e(b, index))


def _clamp(e: Elements, inst: Instruction, index: Indices) -> Value:
    low, x, high = inst.operands
    low_at, high_at = (() if o.shape.dims == () else index for o in (low, high))  # type: ignore[attr-defined]
    return e.values.clamp(e(low, low_at), e(x, index), e(high, high_at))


def _convert(e: Elements, inst: Instruction, index: Indices) -> Value:
    return e.values.convert(e(inst.operands[0], index), inst.shape.dtype)  # type: ignore[attr-defined]


def _reduce_precision(e: Elements, inst: Instruction, index: Indices) -> Value:
    op = inst.op
    return e.values.reduce_precision(e(inst.operands[0], index), op.exponent_bits, op.mantissa_bits)  # type: ignore[attr-defined]


def _copy(e: Elements, inst: Instruction, index: Indices) -> Value:
    return e(inst.operands[0], index)


def _pad(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand = inst.operands[0]
    dims, edges = _dims(operand) or (), pad_dims(inst)
    moved = tuple(i - low for i, (low, _, _) in zip(index, edges, strict=True))
    simple = not any(interior for _, _, interior in edges)
    condition = inside_everywhere(e, moved, dims) if simple else None
    (found,) = where_inside(
        e, condition, _widest(index), lambda: (e(operand, moved),), lambda: (_padded(e, inst, index),)
    )
    return found


def _padded(e: Elements, inst: Instruction, index: Indices) -> Value:
    """The general case: edges, and holes between elements."""
    operand, padding = inst.operands
    conditions: list[Value | bool] = []
    at: list[AnyIndex] = []
    for i, size, (low, _, interior) in zip(index, operand.shape.dims, pad_dims(inst), strict=True):  # type: ignore[attr-defined]
        moved = i - low
        step = interior + 1
        conditions.append(e.in_range(moved, 0, (size - 1) * step + 1) if size else False)
        if step > 1 and size:
            clamped = e.clamp_index(moved, (size - 1) * step + 1)
            rest = clamped % step
            conditions.append(e.in_range(rest, 0, 1))
            at.append(clamped // step)
        else:
            at.append(moved if conditions[-1] is True else e.clamp_index(moved, max(size, 1)))
    condition = all_of(e.values, conditions)
    return choose(e.values, condition, lambda: e(operand, tuple(at)), lambda: e(padding, ()))


def pad_dims(inst: Instruction) -> list[tuple[int, int, int]]:
    """(low, high, interior) of each dimension of a pad."""
    padding = inst.op.padding  # type: ignore[attr-defined]
    return list(zip(padding.low, padding.high, padding.interior, strict=True))


def _concatenate(e: Elements, inst: Instruction, index: Indices) -> Value:
    dimension = inst.op.dimensions[0]  # type: ignore[attr-defined]
    position = index[dimension]
    pieces, offset = [], 0
    for operand in inst.operands:
        size = operand.shape.dims[dimension]  # type: ignore[attr-defined]
        if size:
            pieces.append((operand, offset, size))
        offset += size

    def piece(number: int) -> Value:
        operand, start, size = pieces[number]
        here = e.clamp_index(position - start, size)
        return e(operand, (*index[:dimension], here, *index[dimension + 1 :]))

    if isinstance(position, int):
        number = next(k for k, (_, start, size) in enumerate(pieces) if start <= position < start + size)
        operand, start, _ = pieces[number]
        return e(operand, (*index[:dimension], position - start, *index[dimension + 1 :]))
    found = piece(len(pieces) - 1)
    for number in range(len(pieces) - 2, -1, -1):
        _, start, size = pieces[number]
        condition = e.in_range(position, 0, start + size)
        found = choose(e.values, condition, lambda number=number: piece(number), lambda found=found: found)
    return found


def _dynamic_slice(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand, *starts = inst.operands
    dims, sizes = operand.shape.dims, inst.shape.dims  # type: ignore[attr-defined]
    at = [s + i for s, i in zip(e.window_start(starts, dims, sizes), index, strict=True)]
    return e(operand, tuple(at))


def dynamic_update_slice(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand, update, *starts = inst.operands
    dims, sizes = operand.shape.dims, update.shape.dims  # type: ignore[attr-defined]
    conditions: list[Value | bool] = []
    at: list[AnyIndex] = []
    for start, i, size in zip(e.window_start(starts, dims, sizes), index, sizes, strict=True):
        moved: AnyIndex = i - start if isinstance(start, int) else (start * -1) + i
        conditions.append(e.in_range(moved, 0, size))
        at.append(e.clamp_index(moved, max(size, 1)))
    condition = all_of(e.values, conditions)
    return choose(e.values, condition, lambda: e(update, tuple(at)), lambda: e(operand, index))


def _gather(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand, starts = inst.operands
    at = gather_index(e, inst.op, operand.shape.dims, starts, index)  # type: ignore[attr-defined]
    return e(operand, at)


def gather_index(e: Elements, op: Op, dims: Sequence[int], starts: Instruction, index: Indices) -> Indices:
    """Where in the operand a gather reads for an index of its result."""
    offset_dims = op.offset_dims  # type: ignore[attr-defined]
    batch = [index[d] for d in range(len(index)) if d not in offset_dims]
    offsets = [index[d] for d in offset_dims]
    vector_dim = op.index_vector_dim  # type: ignore[attr-defined]
    collapsed = (*op.collapsed_slice_dims, *op.operand_batching_dims)  # type: ignore[attr-defined]
    start: dict[int, AnyIndex] = {}
    for k, d in enumerate(op.start_index_map):  # type: ignore[attr-defined]
        where = list(batch)
        if vector_dim < starts.shape.rank:  # type: ignore[attr-defined]
            where.insert(vector_dim, k)
        size = op.slice_sizes[d]  # type: ignore[attr-defined]
        start[d] = e.start_index(e(starts, tuple(where)), dims[d] - size)
    found: list[AnyIndex] = []
    remaining = iter(offsets)
    batch_of = dict(zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True))  # type: ignore[attr-defined]
    for d in range(len(dims)):
        i = start.get(d, 0)
        if d in batch_of:
            position = batch_of[d] - (1 if batch_of[d] > vector_dim else 0)
            i = batch[position]
        elif d not in collapsed:
            i = next(remaining) + i
        found.append(i)
    return tuple(found)


def _reduce(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    op = inst.op
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    dims = inputs[0].shape.dims  # type: ignore[attr-defined]
    reduced = op.dimensions  # type: ignore[attr-defined]
    kept = [d for d in range(len(dims)) if d not in reduced]

    def step(accumulators: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        full: list[AnyIndex] = [0] * len(dims)
        for d, i in zip(kept, index, strict=True):
            full[d] = i
        for d, i in zip(reduced, at, strict=True):
            full[d] = i
        arguments = [e(x, tuple(full)) for x in inputs]
        return e.apply(op.to_apply, (*accumulators, *arguments))  # type: ignore[attr-defined]

    first = tuple(e(x, ()) for x in inits)
    return accumulate(e, [dims[d] for d in reduced], first, step, _widest(index))


def _widest(index: Indices) -> int:
    return max((i.lanes for i in index if isinstance(i, Index) and not i.uniform), default=1)


def accumulate(
    e: Elements, sizes: Sequence[int], first: tuple[Value, ...],
    step: Callable[[tuple[Value, ...], Sequence[AnyIndex]], tuple[Value, ...]], lanes: int,
) -> tuple[Value, ...]:  # fmt: skip
    """Folds `step` over an index space, written out when it is small, as loops otherwise."""
    if 0 in sizes:
        return first
    if prod(sizes) <= UNROLL_REDUCTION:
        found = first
        for at in itertools.product(*map(range, sizes)):
            found = step(found, at)
        return found
    f, values = e.f, e.values
    carried = [values.splat(v, lanes) for v in first]
    parts = [p for v in carried for p in v.parts]

    def unpack(ssas: Sequence[Ssa]) -> tuple[Value, ...]:
        rest = iter(ssas)
        return tuple(Value(v.dtype, v.lanes, tuple(next(rest) for _ in v.parts)) for v in carried)

    def nest(depth: int, at: tuple[AnyIndex, ...], carry: Sequence[Ssa]) -> list[Ssa]:
        if depth == len(sizes):
            results = [values.splat(v, lanes) for v in step(unpack(carry), at)]
            return [p for v in results for p in v.parts]
        with f.loop(0, sizes[depth], 1, carry) as loop:
            here = Index(f, loop.index, limit=sizes[depth])
            loop.yield_(nest(depth + 1, (*at, here), loop.carried))
        return loop.results

    return unpack(nest(0, (), parts))


def _dot(e: Elements, inst: Instruction, index: Indices) -> Value:
    lhs, rhs = inst.operands
    op = inst.op
    out: DType = inst.shape.dtype  # type: ignore[attr-defined]
    batch = list(index[: len(op.lhs_batch_dims)])  # type: ignore[attr-defined]
    lhs_used = (*op.lhs_batch_dims, *op.lhs_contracting_dims)  # type: ignore[attr-defined]
    rhs_used = (*op.rhs_batch_dims, *op.rhs_contracting_dims)  # type: ignore[attr-defined]
    lhs_free = [d for d in range(lhs.shape.rank) if d not in lhs_used]  # type: ignore[attr-defined]
    rhs_free = [d for d in range(rhs.shape.rank) if d not in rhs_used]  # type: ignore[attr-defined]
    free = list(index[len(batch) :])
    accumulator = accumulation_type(out)

    def operand(x: Instruction, batch_dims, contracting, free_dims, free_index, at) -> Value:
        full: list[AnyIndex] = [0] * x.shape.rank  # type: ignore[attr-defined]
        for dims, positions in ((batch_dims, batch), (contracting, at), (free_dims, free_index)):
            for d, i in zip(dims, positions, strict=True):
                full[d] = i
        return e.values.convert(e(x, tuple(full)), accumulator)

    def step(accumulators: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        a = operand(lhs, op.lhs_batch_dims, op.lhs_contracting_dims, lhs_free, free[: len(lhs_free)], at)  # type: ignore[attr-defined]
        b = operand(rhs, op.rhs_batch_dims, op.rhs_contracting_dims, rhs_free, free[len(lhs_free) :], at)  # type: ignore[attr-defined]
        if accumulator is PRED:
            return (e.values.binary("or", accumulators[0], e.values.binary("and", a, b)),)
        return (e.values.binary("add", accumulators[0], e.values.binary("multiply", a, b)),)

    sizes = [lhs.shape.dims[d] for d in op.lhs_contracting_dims]  # type: ignore[attr-defined]
    (total,) = accumulate(e, sizes, (e.values.constant(accumulator, 0),), step, _widest(index))
    return e.values.convert(total, out)


def accumulation_type(dtype: DType) -> DType:
    """What sums of products are kept in: f32 for the floats below it, the type itself otherwise."""
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


def _map(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    return e.apply(inst.op.to_apply, [e(o, index) for o in inst.operands])  # type: ignore[attr-defined]


def _call(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    (computation,) = inst.op.computations()
    return e.inline(computation, inst.operands).results(computation, index)


def _conditional(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    """A conditional inside a kernel or a combiner: one side of a branch where lanes agree, both sides and a
    choice else.
    """
    selector = e(inst.operands[0], ())
    computations = inst.op.computations()
    results = [
        lambda c=c, o=o: e.inline(c, (o,)).results(c, index)
        for c, o in zip(computations, inst.operands[1:], strict=True)
    ]

    def pick(condition: Value | bool, a: Callable[[], tuple[Value, ...]], b: Callable[[], tuple[Value, ...]]):
        if isinstance(condition, bool):
            return a() if condition else b()
        if condition.lanes == 1:
            return either(e, condition, a, b)
        pairs = zip(a(), b(), strict=True)
        return tuple(e.values.select(condition, x, y) for x, y in pairs)

    if selector.dtype.is_pred:
        return pick(selector, results[0], results[1])

    def among(first: int) -> tuple[Value, ...]:
        if first == len(results) - 1:  # also for selectors out of range
            return results[first]()
        condition = e.values.compare("EQ", selector, e.values.constant(selector.dtype, first))
        return pick(condition, results[first], lambda: among(first + 1))

    return among(0)


def either(
    e: Elements, condition: Value, a: Callable[[], tuple[Value, ...]], b: Callable[[], tuple[Value, ...]]
) -> tuple[Value, ...]:
    """Values of one of two sides, of which only the chosen one runs."""
    branch = e.f.branch(condition.ssa)
    with branch.then():
        x = a()
        lanes = [v.lanes for v in x]
    with branch.otherwise():
        y = b()
        wide = [max(n, v.lanes) for n, v in zip(lanes, y, strict=True)]
        y = tuple(e.values.splat(v, n) for v, n in zip(y, wide, strict=True))
    if wide != lanes:
        raise UnsupportedError(
            "conditional: its sides have different lane counts here; the interpreter runs it"
        )
    merged = iter(
        branch.merge(
            [(p, q) for v, w in zip(x, y, strict=True) for p, q in zip(v.parts, w.parts, strict=True)]
        )
    )
    return tuple(Value(v.dtype, v.lanes, tuple(next(merged) for _ in v.parts)) for v in x)


ELEMENT: dict[type[Op], Callable[[Elements, Instruction, Indices], Value | tuple[Value, ...]]] = {
    OPS[opcode]: generator
    for opcode, generator in {
        "constant": _constant,
        "get-tuple-element": _get_tuple_element,
        "tuple": _tuple,
        "iota": _iota,
        "broadcast": _broadcast,
        "reshape": _reshape,
        "compare": _compare,
        "select": _select,
        "clamp": _clamp,
        "convert": _convert,
        "reduce-precision": _reduce_precision,
        "copy": _copy,
        "opt-barrier": _copy,
        "bitcast-convert": bitcast_convert,
        "pad": _pad,
        "concatenate": _concatenate,
        "dynamic-slice": _dynamic_slice,
        "dynamic-update-slice": dynamic_update_slice,
        "gather": _gather,
        "reduce": _reduce,
        "dot": _dot,
        "map": _map,
        "call": _call,
        "fusion": _call,
        "conditional": _conditional,
    }.items()
}
"""How each op that is neither elementwise nor pure movement makes an element."""
