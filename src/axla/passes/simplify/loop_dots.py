"""Moves dots out of loops: dots of slices with an invariant matrix become one dot before the loop.

If each trip multiplies another slice of an invariant array by an invariant matrix, each product is a slice of
the product of the whole array and the matrix. That product is invariant, and one dot is faster: many narrow
dots wait for memory, one large dot does not. A dot of a concatenation with such slices among its operands
becomes a sum of two dots. XLA does neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod

import axla.hlo as hlo
from axla.analysis.trip_count import trip_count
from axla.core.shape import Shape
from axla.ir.attributes import SliceDims
from axla.ir.clone import clone_computation
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first, post_order
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop
from axla.passes.simplify.dce import effectful_computations, remove_dead_computations
from axla.passes.simplify.loop_motion import carried, invariants
from axla.passes.simplify.loop_slices import MOST_BYTES, Slices, Taken

MOST_ROWS = 128
"""The most rows of a dot that is limited by reading its matrix. With more rows it is as fast as a large one.
"""
NEAR = 8 << 10
"""The most bytes of a matrix that stays in the L1 cache. For such a matrix one dot instead of many gains
little, so the result of the dot may take no more memory than the arrays that the loop carries.
"""
FEW = 4
"""The fewest trips of a loop; also the most runs of operands of a concatenation."""
CONTIGUOUS = 64
"""The fewest contiguous elements of a slice that is read fast."""
TURNING, TURNED_ROWS, TURNED = 16, 8, 4096
"""A matrix is transposed if the loop has at least TURNING trips, the other operand at most TURNED_ROWS rows,
and the matrix at least TURNED elements. Dots of one row, and of more rows than that, are as fast with the
contracting dimensions last.
"""


def while_loop_dot_batching(module: Module) -> None:
    """Replaces dots of an invariant matrix with slices of an invariant array, a different slice in each trip,
    by one dot before the loop.
    """
    effectful = set(effectful_computations(module))
    session = rewrite.current_session()
    changed = False
    for loop, trips, is_shared in loops_with_products(module):
        if _Batching.of(loop, trips, effectful, None).run():
            own = with_own_body(loop) if is_shared else loop
            batching = _Batching.of(own, trips, effectful, session)
            if batching.run():
                carried(own, batching.moved, effectful)
            changed = True
    if changed:
        remove_dead_computations(module)


def while_loop_dot_layout(module: Module) -> None:
    """Transposes invariant matrices before a loop if dots in the loop would read them against their order in
    memory. Only for dots with so few rows that a transpose in each trip does not pay.
    """
    effectful = set(effectful_computations(module))
    session = rewrite.current_session()
    changed = False
    for loop, trips, is_shared in loops_with_products(module):
        if trips < TURNING or not (products := _against_order(loop, effectful)):
            continue
        if not session.may_fire("while-loop-dot-layout", loop.inst):
            continue
        if is_shared:
            loop = with_own_body(loop)
            products = _against_order(loop, effectful)
        carried(loop, [_transposed(*found) for found in products], effectful)
        changed = True
    if changed:
        remove_dead_computations(module)


def loops_with_products(module: Module) -> Iterator[tuple[Loop, int, bool]]:
    """Yields the loops with dots in their bodies: (loop, trip count, whether other loops share the body)."""
    callers: Counter[Computation] = Counter()
    for computation in module.computations:
        callers.update(c for inst in computation.instructions for c in inst.op.computations())
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if isinstance(i.op, hlo.While)]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            body = op_of(inst, hlo.While).body
            if inst in bound or not any(type(i.op) is hlo.Dot for i in body.instructions):
                continue
            loop, trips = Loop.of(inst), trip_count(inst) or 0
            if loop is not None and trips >= FEW:
                yield loop, trips, callers[body] > 1


def with_own_body(loop: Loop) -> Loop:
    """The loop with its own copy of the body, so that changes do not affect other loops."""
    op = hlo.While(loop.condition, clone_computation(loop.body))
    loop.inst.computation.set_op(loop.inst, op)
    own = Loop.of(loop.inst)
    assert own is not None
    return own


def _against_order(loop: Loop, effectful: Container[Computation]) -> list[tuple[Instruction, int]]:
    """Dots of few rows with an invariant matrix in which the contracting dimensions are not first, as pairs
    (dot, number of the operand that is the matrix).
    """
    known, found = invariants(loop, effectful).work, []
    bound = rewrite.control_bound(loop.body)
    for inst in loop.body.instructions:
        op = inst.op
        if type(op) is not hlo.Dot or op.sparsity or op.lhs_batch_dims or inst in bound:
            continue
        for side, dims in enumerate((op.lhs_contracting_dims, op.rhs_contracting_dims)):
            matrix = inst.operands[side]
            rank, inner = matrix.shape.rank, len(dims)
            if matrix not in known or inst.operands[1 - side] in known or shape_of(matrix).size < TURNED:
                continue
            is_first, is_last = (sorted(dims) == list(range(k, k + inner)) for k in (0, rank - inner))
            if not is_first and 1 + is_last <= rows_of(inst, 1 - side) <= TURNED_ROWS:
                found.append((inst, side))
    return found


def _transposed(product: Instruction, side: int) -> Instruction:
    """Makes a dot read its operand number `side`, a matrix, with the contracting dimensions first. Returns
    the transposed matrix.
    """
    body, op = product.computation, op_of(product, hlo.Dot)
    matrix, other = product.operands[side], product.operands[1 - side]
    pairs = [(pair[side], pair[1 - side]) for pair in op.pairs]
    free = (op.rhs_free if side else op.lhs_free)(matrix.shape.rank)
    transposed = hlo.Transpose((*(own for own, _ in pairs), *free))(matrix)
    precision = op.operand_precision if side else op.operand_precision[::-1]
    new = hlo.Dot.of(
        shape_of(other), shape_of(transposed), shape_of(product).dtype,
        lhs_contracting_dims=tuple(across for _, across in pairs),
        rhs_contracting_dims=tuple(range(len(pairs))), operand_precision=precision, algorithm=op.algorithm,
    )  # fmt: skip
    made = body.add(new, [other, transposed], extra=product.extra)
    if not side:
        rank, last = made.shape.rank, len(free)
        made = hlo.Transpose((*range(rank - last, rank), *range(rank - last)))(made)
    body.replace(product, made)
    return transposed


@dataclass(slots=True)
class _Batching:
    """Batches the dots of one body. Without a session it only finds out whether any dot can be batched."""

    body: Computation
    slices: Slices
    invariant: set[Instruction]
    bound: Container[Instruction]
    held: int
    """The size in bytes of the arrays that the loop carries."""
    session: rewrite.RuleSession | None
    moved: list[Instruction] = field(default_factory=list)
    """The instructions to compute before the loop."""

    @classmethod
    def of(
        cls, loop: Loop, trips: int, effectful: Container[Computation], session: rewrite.RuleSession | None
    ) -> _Batching:
        known = set(invariants(loop, effectful).work)
        bound = rewrite.control_bound(loop.body)
        held = sum(shape.byte_size for shape in loop.inst.shape.leaves() if isinstance(shape, Shape))
        return cls(loop.body, Slices(loop.body, known, 2 * trips), known, bound, held, session)

    def run(self) -> bool:
        for inst in list(post_order(self.body)):
            if inst in self.invariant or inst in self.bound:
                continue
            if type(inst.op) is not hlo.Dot or inst.op.sparsity:
                self.slices.learn(inst)
            elif (self._split(inst) or self._batched(inst)) and self.session is None:
                return True
        return bool(self.moved)

    def _fires(self, product: Instruction) -> bool:
        return self.session is not None and self.session.may_fire("while-loop-dot-batching", product)

    def _pays(self, product: Instruction, side: int, size: int) -> bool:
        """Whether one dot for all `size` slices is faster, and its result not too large. `side` is the number
        of the sliced operand.
        """
        is_near = shape_of(product.operands[1 - side]).byte_size <= NEAR
        most = self.held if is_near else MOST_BYTES
        return rows_of(product, side) <= MOST_ROWS and shape_of(product).byte_size * size <= most

    def _batched(self, product: Instruction) -> bool:
        """Replaces a dot of a slice by a slice of the dot of all slices. Returns whether that is possible."""
        for side, operand in enumerate(product.operands):
            taken = self.slices.taken.get(operand)
            if taken is None or product.operands[1 - side] not in self.invariant:
                continue
            if not self._pays(product, side, taken.size):
                return False
            if not self._fires(product):
                return self.session is None
            self.slices.learn(product)
            place, dims = self.slices.taken[product], shape_of(product).dims
            if prod(dims[place.along :]) < CONTIGUOUS:
                place = replace(place, along=0)
            whole = self.slices.placed(product, place.along)
            self.body.replace(product, self.slices.put(whole, place, dims))
            self.invariant.add(whole)
            self.moved.append(whole)
            return True
        return False

    def _split(self, product: Instruction) -> bool:
        """Replaces a dot of a concatenation by a sum of dots, if only some of the concatenated arrays are
        known before the loop. Returns whether that is possible.
        """
        for side, joined in enumerate(product.operands):
            if type(joined.op) is not hlo.Concatenate or product.operands[1 - side] not in self.invariant:
                continue
            op, (d,) = op_of(product, hlo.Dot), joined.op.dimensions
            pairs = [pair for pair in op.pairs[len(op.lhs_batch_dims) :] if pair[side] == d]
            runs = [(kind, list(run)) for kind, run in groupby(joined.operands, self._kind)]
            sizes = [kind.size if isinstance(kind, Taken) else 1 for kind, _ in runs if kind]
            if not pairs or not 0 < len(sizes) < len(runs) <= FEW or shape_of(product).dtype.bits < 32:
                continue
            if not self._pays(product, side, max(sizes)):
                continue
            if not self._fires(product):
                return self.session is None
            parts = self._parts(product, side, d, pairs[0][1 - side], [run for _, run in runs])
            total = parts[0]
            for part in parts[1:]:
                total = self.body.add(hlo.Add(), [total, part], extra=product.extra)
            self.body.replace(product, total)
            for part in parts:
                if not self._batched(part):
                    self.moved.append(part.operands[1 - side])
            return True
        return False

    def _kind(self, inst: Instruction) -> Taken | bool:
        return self.slices.taken.get(inst, inst in self.invariant)

    def _parts(
        self, product: Instruction, side: int, d: int, across: int, runs: list[list[Instruction]]
    ) -> list[Instruction]:
        """The dots into which `product` is split, one for each of `runs`, which are the arrays concatenated
        in its operand number `side`. Each run is concatenated along `d`, and multiplied by its part of the
        other operand: a slice along dimension `across`.
        """
        matrix, start, found = product.operands[1 - side], 0, []
        dims = shape_of(matrix).dims
        for run in runs:
            piece = run[0]
            if len(run) > 1:
                piece = self.body.add(hlo.Concatenate((d,)), run, extra=product.extra)
                self.slices.learn(piece)
            limit = start + shape_of(piece).dims[d]
            starts = tuple(start if k == across else 0 for k in range(len(dims)))
            limits = tuple(limit if k == across else n for k, n in enumerate(dims))
            part = self.body.add(hlo.Slice(SliceDims(starts, limits)), [matrix], extra=product.extra)
            self.invariant.add(part)
            operands = [part, piece] if side else [piece, part]
            found.append(self.body.add(product.op, operands, product.shape, extra=product.extra))
            start = limit
        return found


def rows_of(product: Instruction, side: int) -> int:
    """The number of rows of the operand `side` of a dot: the product of its free dimensions."""
    op, shape = op_of(product, hlo.Dot), shape_of(product.operands[side])
    return prod(shape.dims[d] for d in (op.rhs_free if side else op.lhs_free)(shape.rank))
