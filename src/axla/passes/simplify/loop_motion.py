"""What is moved out of loops: values that are the same in every trip.

A value of the body is invariant if it follows from constants and from elements that the loop passes on. It is
computed before the loop, and carried, where computing it again takes longer than reading it would.

A product of a slice of an invariant array, a different one in each trip, with an invariant matrix is a slice
of the product of the whole array with the matrix. That is invariant, and faster: many narrow products wait
for memory, a large one does not. XLA does not do this.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import field
from math import prod

import numpy as np

import axla.hlo as hlo
from axla.analysis.trip_count import trip_count
from axla.core.dataclass import dataclass
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.ir.clone import called_first
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Constant, GetTupleElement, Parameter
from axla.ir.traverse import computations_callees_first, post_order
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop, rebuilt
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations
from axla.passes.simplify.match import constant

INFLATION = 8
"""Operations for each element that are worth an array larger than all that it is computed from."""
MOST_INFLATED = 1 << 26
"""Bytes of such an array."""
SMALL = 256  # bytes of an array that is worth carrying whatever it is computed from
MOST_ROWS = 128
"""Of a product that waits for its matrix: with more of them it is as fast as a large one."""
_FEW = 4  # trips
_FUNCTION = 12  # operations that a transcendental function takes as long as
_ALWAYS = 1 << 62  # operations of what is worth moving at any size


def while_loop_invariant_code_motion(module: Module) -> None:
    """Computes before a loop what its body would compute again in every trip, if that takes longer than to
    read it.
    """
    _move(module, _moved)


def while_loop_dot_batching(module: Module) -> None:
    """Computes before a loop, as one product, the products of an invariant matrix with the slices of an
    invariant array that its trips take.
    """
    _move(module, _batched_products)


_Choose = Callable[[Loop, Container[Computation], rewrite.Session], list[Instruction]]
"""Gives the values of a loop's body that are to be computed before the loop, in the order of the body."""


def _move(module: Module, choose: _Choose) -> None:
    session = rewrite.current_session()
    effectful = set(effectful_computations(module))
    changed = False
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if isinstance(i.op, hlo.While)]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            loop = Loop.of(inst) if inst not in bound else None
            if loop is None or not (moved := choose(loop, effectful, session)):
                continue
            made = rebuilt(loop, added=_copied(loop, moved))
            for new, old in ((made.condition, loop.condition), (made.body, loop.body)):
                if old in effectful:
                    effectful.add(new)
            changed = True
    if changed:
        remove_dead_computations(module)


@dataclass(slots=True)
class Invariants:
    """The invariant values of a body, with what they take to compute: `work` counts operations on elements,
    `largest` is the size of the largest array that is read for it, in bytes.
    """

    work: dict[Instruction, int] = field(default_factory=dict)
    largest: dict[Instruction, int] = field(default_factory=dict)

    def add(self, inst: Instruction) -> None:
        operands = dict.fromkeys(inst.operands)
        own = _work(inst)
        self.work[inst] = min(_ALWAYS, own + sum(self.work[o] for o in operands))
        read = max((self.largest[o] for o in operands), default=0)
        self.largest[inst] = max(read, inst.shape.array_bytes) if own == _ALWAYS else read

    def why_stay(self, inst: Instruction) -> str | None:
        """The reason not to carry an invariant value; None if it is worth that."""
        shape = inst.shape
        if not isinstance(shape, Shape):
            return "it is no array"
        work, size = self.work[inst], shape.array_bytes
        if not work:
            return "nothing is computed"
        if size > self.largest[inst] and size > SMALL:
            if work < INFLATION * shape.size:
                return "it is larger than what it is computed from, and cheap"
            if size > MOST_INFLATED:
                return "it is large, and what it is computed from is not"
        return None


def _work(inst: Instruction) -> int:
    """About how many operations on elements an instruction takes."""
    op, shape = inst.op, inst.shape
    if op.structural or op.free or op.moves or op.passes_on or type(op) is Constant:
        return 0
    if op.elementwise and isinstance(shape, Shape):
        return shape.size * (_FUNCTION if op.transcendental or op.expensive else 1)
    if isinstance(op, hlo.Gather | hlo.DynamicSlice | hlo.Iota | hlo.Broadcast):
        return 0
    return _ALWAYS


def _invariants(loop: Loop, effectful: Container[Computation]) -> Invariants:
    body, passed = loop.body, set(loop.unchanged)
    bound = rewrite.control_bound(body)
    runs = bool(trip_count(loop.inst))
    found = Invariants()
    for inst in post_order(body):
        if isinstance(inst.op, GetTupleElement) and inst.operands[0] is body.parameters[0]:
            if inst.op.index in passed:
                found.work[inst], found.largest[inst] = 0, inst.shape.array_bytes
        elif inst in bound or any(o not in found.work for o in inst.operands):
            continue
        elif _may_move(inst, runs, effectful):
            found.add(inst)
    return found


def _moved(loop: Loop, effectful: Container[Computation], session: rewrite.Session) -> list[Instruction]:
    """The invariants of the body that are worth to be carried."""
    body, found = loop.body, _invariants(loop, effectful)
    effects = (inst for inst in body.instructions if has_effect(inst, effectful))
    wanted = {body.root, *rewrite.control_bound(body), *effects}
    moved: list[Instruction] = []
    # From the end: what does not move needs its operands in the body.
    for inst in reversed(post_order(body)):
        if inst in wanted or not any(user in wanted for user in inst.users):
            continue
        if inst in found.work and found.why_stay(inst) is None:
            moved.append(inst)
        else:
            wanted.add(inst)
    moved.reverse()
    fires = moved and session.may_fire("while-loop-invariant-code-motion", loop.inst)
    return moved if fires else []


def _batched_products(
    loop: Loop, effectful: Container[Computation], session: rewrite.Session
) -> list[Instruction]:
    """Replaces products of slices, in the body, by slices of products of whole arrays, which it gives."""
    trips = trip_count(loop.inst)
    products = [i for i in loop.body.instructions if type(i.op) is hlo.Dot and not i.op.sparsity]
    if trips is None or trips < _FEW or not products:
        return []
    found, made, bound = _invariants(loop, effectful), [], rewrite.control_bound(loop.body)
    for product in [i for i in products if i not in bound]:
        for side in range(2):
            taken = _taken(product.operands[side], found, trips)
            if taken is not None and product.operands[1 - side] in found.work:
                made += _batched(product, side, *taken, session)
                break
    return made


def _taken(inst: Instruction, found: Invariants, trips: int) -> tuple[Instruction, int] | None:
    """The dynamic-slice that takes a value, without the dimension along which it takes it, out of an
    invariant array, and this dimension; None for anything else, or if the loop takes few of the array.
    """
    if type(inst.op) is not hlo.Reshape or type(inst.operands[0].op) is not hlo.DynamicSlice:
        return None
    part = inst.operands[0]
    source, sizes = part.operands[0], op_of(part, hlo.DynamicSlice).dynamic_slice_sizes
    along = [d for d, size in enumerate(shape_of(source).dims) if size != sizes[d]]
    if len(along) != 1 or sizes[along[0]] != 1 or source not in found.work:
        return None
    (d,) = along
    if shape_of(inst).dims != sizes[:d] + sizes[d + 1 :] or shape_of(source).dims[d] > 2 * trips:
        return None
    return part, d


def _batched(
    product: Instruction, side: int, part: Instruction, d: int, session: rewrite.Session
) -> list[Instruction]:
    """Replaces a product by a slice of the product of all slices, which it gives; nothing where that is
    large, or a single product is fast.
    """
    source, start = part.operands[0], part.operands[1 + d]
    op, computation = op_of(product, hlo.Dot), product.computation
    own = ("lhs", "rhs")[side]
    changed = {
        name: tuple(k + (k >= d) for k in getattr(op, name))
        for name in (f"{own}_contracting_dims", f"{own}_batch_dims")
    }
    taken = {k for dims in changed.values() for k in dims}
    free = [k for k in range(len(shape_of(source).dims)) if k not in taken]
    operands = [source if n == side else o for n, o in enumerate(product.operands)]
    numbers = {name.name: getattr(op, name.name) for name in op.attributes} | changed
    left, right = map(shape_of, operands)
    whole = hlo.Dot.of(left, right, shape_of(product).dtype, **numbers)
    dims = whole.shape.dims
    rows = prod(shape_of(source).dims[k] for k in free if k != d)
    if rows > MOST_ROWS or whole.shape.byte_size > MOST_INFLATED:
        return []
    if not session.may_fire("while-loop-dot-batching", product):
        return []
    at = free.index(d) + (len(dims) - len(free) if side else len(op.lhs_batch_dims))
    all_products = computation.add(whole, operands, extra=product.extra)
    zero = constant(computation, Literal(start.shape, np.zeros((), shape_of(start).dtype.numpy)))
    starts = [start if k == at else zero for k in range(len(dims))]
    row = hlo.DynamicSlice(tuple(1 if k == at else size for k, size in enumerate(dims)))(
        all_products, *starts
    )
    computation.replace(product, hlo.Reshape(shape_of(product))(row))
    return [all_products]


def _may_move(inst: Instruction, runs: bool, effectful: Container[Computation]) -> bool:
    """Whether an instruction may run before the loop, if its operands are there. `runs`: the loop makes at
    least one trip.
    """
    op = inst.op
    if type(op) is Parameter or isinstance(op, hlo.OptBarrier) or has_effect(inst, effectful):
        return False
    if op.collective is not None or op.ends is not None or op.ended_by is not None:
        return False
    if any(array.is_dynamic for array in inst.shape.arrays()) or not all(
        s.is_array for s in inst.shape.parts
    ):
        return False
    return runs or not any(_may_not_end(i) for i in _within(inst))


def _may_not_end(inst: Instruction) -> bool:
    """Whether running an instruction may fail, or take forever: not before a loop that makes no trip."""
    return isinstance(inst.op, hlo.CustomCall) or (
        isinstance(inst.op, hlo.While) and trip_count(inst) is None
    )


def _within(inst: Instruction) -> Iterator[Instruction]:
    """An instruction, and all that it runs."""
    yield inst
    for computation in {c for root in inst.op.computations() for c in called_first(root)}:
        yield from computation.instructions


def _copied(loop: Loop, moved: list[Instruction]) -> dict[Instruction, Instruction]:
    """Copies what `moved` are, with all they take, to before the loop; gives the copies."""
    computation, parameter = loop.inst.computation, loop.body.parameters[0]
    copies: dict[Instruction, Instruction] = {}
    stack = list(reversed(moved))
    while stack:
        inst = stack[-1]
        if inst in copies:
            stack.pop()
        elif isinstance(inst.op, GetTupleElement) and inst.operands[0] is parameter:
            copies[inst] = loop.init[inst.op.index]
        elif missing := [o for o in inst.operands if o not in copies]:
            stack += missing
        else:
            operands = [copies[o] for o in inst.operands]
            copies[inst] = computation.add(inst.op, operands, inst.shape, name=inst.name, extra=inst.extra)
    return {inst: copies[inst] for inst in moved}
