"""Attention in blocks: two dots and the ops between them, computed block by block.

Between its dots, `softmax(q k^T) v` has an array with a row for each query and a column for each key, for
each matrix of the batch. Rows and matrices are independent of each other, so a trip of a loop computes one
block of them: its part of the first dot, of the ops after it, and of the second dot. The whole array never
exists, and its blocks stay in the caches.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import prod

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.core.shape import Shape, TupleShape
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Extra, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import computations_callees_first, needed_first, post_order
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.expand.expander import full, scalar
from axla.target.machine import Target

LARGE = 16 << 20
"""The least size in bytes of the array between two dots for which they are computed in blocks."""
BLOCK = 4 << 20
"""The most bytes of a block, if the dimension that is cut allows it."""
LEAST_ROWS = 64
"""The fewest rows of a block of one matrix. With fewer, the other operands would be read too often."""
READ_AGAIN = 2
"""The most bytes of other operands that each block may read again, per byte of the block."""


def attention_blocking(
    module: Module, target: Target, large: int = LARGE, block: int = BLOCK, rows: int = LEAST_ROWS
) -> None:
    """Computes two dots and the ops between them in a loop over blocks of the batch or of rows, if the array
    between them has at least `large` bytes. A block has at most `block` bytes where possible, and at least
    `rows` rows of one matrix.
    """
    if not target.blocks_products:
        return
    session = rewrite.current_session()
    work = list(computations_callees_first(module))
    while work:
        computation = work.pop()
        bound = rewrite.control_bound(computation)
        for product in post_order(computation):
            if type(product.op) is not hlo.Dot or product.op.sparsity or product in bound:
                continue
            if product not in computation.instructions or max(_bytes(o) for o in product.operands) < large:
                continue
            chain = _Chain.before(product, bound, _Sizes(large, block, rows))
            if chain is not None and session.may_fire("attention-blocking", product):
                work.append(chain.replace())


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The options of the pass: see `attention_blocking`."""

    large: int
    block: int
    rows: int


@dataclass(slots=True)
class _Chain:
    """Two dots and the ops between them, which can be cut along one dimension of the second dot's result."""

    product: Instruction
    dim: int
    sizes: _Sizes
    cut: dict[Instruction, int | None] = field(default_factory=dict)
    """The dimension along which each value is cut; None if each block needs the whole value."""
    inner: set[Instruction] = field(default_factory=set)
    """The instructions that are computed in the loop. All others in `cut` are computed before it."""
    block: int = 0
    """The size of a block along the dimension that is cut."""

    @classmethod
    def before(cls, product: Instruction, bound: frozenset[Instruction], sizes: _Sizes) -> _Chain | None:
        """Finds the instructions before the dot `product` that can be computed in blocks with it, and the
        dimension to cut; batch dimensions are tried first. None if there are no such instructions, or if
        blocks do not pay. Instructions in `bound` stay outside of the loop.
        """
        for dim, size in enumerate(shape_of(product).dims):
            found = cls(product, dim, sizes)
            if size > 1 and found._grow(bound) and found._pays():
                return found
        return None

    def _grow(self, bound: frozenset[Instruction]) -> bool:
        """Collects the instructions that are computed in blocks. Returns False if no other dot is among them,
        or if a value would be cut along two dimensions. Instructions in `bound` are left out.
        """
        product, root = self.product, self.product.computation.root
        sources = _cut_operands(product, self.dim)
        if sources is None:
            return False
        ends = list(zip(product.operands, sources, strict=True))
        stack = [ends.pop(max(range(2), key=lambda side: _bytes(product.operands[side])))]
        while stack:
            inst, dim = stack.pop()
            if self.cut.setdefault(inst, dim) != dim:
                return False
            is_own = inst is not root and all(user is product or user in self.inner for user in inst.users)
            if dim is None or inst in self.inner or inst in bound or not is_own:
                continue
            operands = _cut_operands(inst, dim)
            if operands is not None:
                self.inner.add(inst)
                found = zip(inst.operands, operands, strict=True)
                (ends if type(inst.op) is hlo.Dot else stack).extend(found)
        for inst, dim in ends:
            if inst in self.inner or self.cut.setdefault(inst, dim) != dim:
                return False
        return any(type(inst.op) is hlo.Dot for inst in self.inner)

    def _pays(self) -> bool:
        """Chooses the size of a block. Returns whether there is one for which the data that every block reads
        again is small compared with the block.
        """
        product = self.product
        size = shape_of(product).dims[self.dim]
        each = max(_bytes(inst) for inst in self.inner) // size
        least = 1 if self.dim < len(op_of(product, hlo.Dot).lhs_batch_dims) else self.sizes.rows
        most = max(least, min(self.sizes.block // each, size // 2))
        self.block = next((n for n in range(most, least - 1, -1) if size % n == 0), 0)
        again = sum(_bytes(inst) for inst, dim in self.cut.items() if dim is None)
        return 0 < self.block < size and again <= READ_AGAIN * self.block * each

    def replace(self) -> Computation:
        """Replaces the second dot by a loop. Returns the body of the loop."""
        product, computation = self.product, self.product.computation
        module, extra = computation.module, Extra(location=product.extra.location)
        made = [inst for inst in self.cut if inst not in self.inner and _is_made(inst)]
        given = [inst for inst in self.cut if inst not in self.inner and inst not in made]
        first = [scalar(computation, S32, 0), *given, full(computation, shape_of(product), 0)]
        state = TupleShape([inst.shape for inst in first])

        body = module.add_computation(f"{product.name}.block")
        parameter = body.add(Parameter(state, 0))
        counter, *values, result = (body.add(GetTupleElement(n), (parameter,)) for n in range(len(first)))
        start = hlo.Multiply()(counter, scalar(body, S32, self.block))
        copies = dict(zip(given, values, strict=True)) | {inst: body.add(inst.op) for inst in made}
        for inst, copy in copies.items():
            dim = self.cut[inst]
            if dim is not None:
                sizes = self._shape(inst, dim).dims
                copies[inst] = hlo.DynamicSlice(sizes)(copy, *_starts(copy, dim, start))
        for inst in needed_first((product,), lambda inst: () if inst in copies else inst.operands):
            if inst not in copies:
                dim = self.cut.get(inst, self.dim)
                assert dim is not None
                shape = self._shape(inst, dim)
                op = replace(inst.op, shape=shape) if inst.op.holds_shape else inst.op  # type: ignore[call-arg]
                copies[inst] = body.add(op, [copies[o] for o in inst.operands], shape, extra=inst.extra)
        after = hlo.DynamicUpdateSlice()(result, copies[product], *_starts(result, self.dim, start))
        body.set_root(body.add(Tuple(), (hlo.Add()(counter, scalar(body, S32, 1)), *values, after)))

        condition = module.add_computation(f"{product.name}.block_condition")
        counter = condition.add(GetTupleElement(0), (condition.add(Parameter(state, 0)),))
        trips = scalar(condition, S32, shape_of(product).dims[self.dim] // self.block)
        condition.set_root(hlo.Compare(Direction.LT)(counter, trips))

        loop = computation.add(hlo.While(condition, body), (computation.add(Tuple(), first),), extra=extra)
        computation.replace(
            product, computation.add(GetTupleElement(len(first) - 1), (loop,), extra=product.extra)
        )
        rewrite.sweep(computation, (product,))
        return body

    def _shape(self, inst: Instruction, dim: int) -> Shape:
        """The shape of a block of a value that is cut along dimension `dim`."""
        shape = shape_of(inst)
        return Shape(shape.dtype, (*shape.dims[:dim], self.block, *shape.dims[dim + 1 :]))


def _starts(array: Instruction, dim: int, start: Instruction) -> list[Instruction]:
    """The start indices of a block of an array: `start` along the dimension that is cut, 0 along the
    others.
    """
    zero = scalar(array.computation, S32, 0)
    return [start if d == dim else zero for d in range(shape_of(array).rank)]


def _is_made(inst: Instruction) -> bool:
    """Whether each trip creates a value (an iota or a scalar constant) instead of reading it from the loop's
    state.
    """
    return type(inst.op) is hlo.Iota or (type(inst.op) is Constant and not shape_of(inst).rank)


def _bytes(inst: Instruction) -> int:
    return inst.shape.byte_size if isinstance(inst.shape, Shape) else 0


def _cut_operands(inst: Instruction, dim: int) -> list[int | None] | None:
    """For each operand, the dimension along which it is cut if the result is cut along `dim`; None for an
    operand of which every block needs all. The list is None if blocks of the result cannot be computed alone.
    """
    op, operands = inst.op, inst.operands
    if not isinstance(inst.shape, Shape) or any(inst.shape.dynamic):
        return None
    if op.elementwise:
        ranks = {shape_of(o).rank for o in operands} - {0, inst.shape.rank}
        return None if ranks else [dim if shape_of(o).rank else None for o in operands]
    if isinstance(op, hlo.Broadcast):
        return [op.dimensions.index(dim) if dim in op.dimensions else None]
    if isinstance(op, hlo.Transpose):
        return [op.dimensions[dim]]
    if isinstance(op, hlo.Reduce):
        kept = [d for d in range(shape_of(operands[0]).rank) if d not in op.dimensions]
        return [kept[dim], None]
    if isinstance(op, hlo.Reshape):
        before, dims = shape_of(inst).dims, shape_of(operands[0]).dims
        ahead, size = prod(before[:dim]), before[dim]
        same = next((d for d, n in enumerate(dims) if n == size and prod(dims[:d]) == ahead), None)
        return None if same is None else [same]
    if type(op) is hlo.Dot and not op.sparsity:
        left, right = (shape_of(o).rank for o in operands)
        batch, rows, columns = op.lhs_batch_dims, op.lhs_free(left), op.rhs_free(right)
        sides = [
            *zip(batch, op.rhs_batch_dims, strict=True),
            *((d, None) for d in rows),
            *((None, d) for d in columns),
        ]
        return list(sides[dim])
    return None
