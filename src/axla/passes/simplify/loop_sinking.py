"""Moves dots after loops: dots that a loop only adds up, or only stores, become one dot after the loop.

The gradient of a scan adds x[i]^T g[i] to the gradient of a matrix in each trip. The sum is one dot of all x
and all g, which the loop stores. A dot of a value with an invariant matrix, stored in every trip, is a slice
of one dot of all values. Dots of few rows wait for memory, those of many rows do not. XLA does not do this.

The sum is then taken in the order of a single dot, in which the order is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

import axla.hlo as hlo
from axla.analysis.trip_count import values_in_trips
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import GetTupleElement
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop, elements_of, rebuilt
from axla.passes.simplify.dce import effectful_computations, remove_dead_computations
from axla.passes.simplify.loop_dots import MOST_ROWS, loops_with_products, rows_of, with_own_body
from axla.passes.simplify.loop_motion import copied, invariants
from axla.passes.simplify.loop_slices import MOST_BYTES, Slices, Taken
from axla.passes.simplify.match import constant


def while_loop_dot_sinking(module: Module) -> None:
    """Computes after a loop, as one dot, the dots that its trips only add up or only store."""
    effectful = effectful_computations(module)
    session = rewrite.current_session()
    changed = False
    for loop, trips, is_shared in loops_with_products(module):
        if {loop.body, loop.condition} & effectful or rewrite.control_bound(loop.body):
            continue
        sinking = _Sinking.of(loop, trips)
        found = [*sinking.sums(), *sinking.stores()]
        if not found or not session.may_fire("while-loop-dot-sinking", loop.inst):
            continue
        if is_shared:
            sinking = _Sinking.of(with_own_body(loop), trips)
            found = [*sinking.sums(), *sinking.stores()]
        sinking.sink(found)
        changed = True
    if changed:
        remove_dead_computations(module)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A dot, `product`, that the body adds to element `element` of the tuple. `total`: the sum with the dot;
    `rest`: the sum without it; `term`: the dot with its dimensions permuted. In each trip, the operands of
    the dot belong at index `start` of the arrays that have their values from all trips.
    """

    element: int
    total: Instruction
    rest: Instruction
    term: Instruction
    product: Instruction
    start: Instruction


@dataclass(frozen=True, slots=True)
class _Store:
    """A value, computed by dots, that the body only stores: in element `element` of the tuple, as the slice
    `taken`. `leaves`: the values, except invariant ones, from which it is computed.
    """

    element: int
    value: Instruction
    taken: Taken
    leaves: tuple[Instruction, ...]
    slices: Slices


@dataclass(slots=True)
class _Sinking:
    """Finds the dots of one loop that can be computed after it, and moves them there. `stored` has the values
    that every trip stores in an array: it maps (value, index at which it is stored) to the slice and to the
    array after the store.
    """

    loop: Loop
    trips: int
    slices: Slices
    carries: dict[int, Instruction]  # element number -> value, if only one instruction reads it, in the body
    stored: dict[tuple[Instruction, Instruction], tuple[Taken, Instruction]] = field(default_factory=dict)
    # array of zeros -> the array after the store into it
    added: dict[Instruction, Instruction] = field(default_factory=dict)
    _covers: dict[Instruction, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, loop: Loop, trips: int) -> _Sinking:
        slices = Slices(loop.body, set(invariants(loop, ()).work), trips)
        read = elements_of(loop.body.parameters[0])
        often = Counter(n for n, _ in (*read, *elements_of(loop.condition.parameters[0])))
        sinking = cls(loop, trips, slices, {n: g for n, g in read if often[n] == 1})
        for value in post_order(loop.body):
            if value not in slices.invariant and type(value.op) is not hlo.Dot:
                slices.learn(value)
        for n, end in enumerate(loop.next):
            if (place := sinking._place(n, end)) is not None:
                value, taken = place
                sinking.stored[value, taken.start] = taken, end
        return sinking

    def _covers_all(self, start: Instruction) -> bool:
        """Whether an index has each value from 0 to the trip count - 1 in exactly one trip."""
        if start not in self._covers:
            values = values_in_trips(start, self.loop.inst, self.trips)
            self._covers[start] = values is not None and np.array_equal(
                np.sort(values), np.arange(self.trips)
            )
        return self._covers[start]

    def _place(self, n: int, end: Instruction) -> tuple[Instruction, Taken] | None:
        """The value that the body stores in element `n` of the tuple, and the slice in which it is stored.
        `end` is the element after a trip. None unless all trips together fill the element.
        """
        if type(end.op) is not hlo.DynamicUpdateSlice or end.operands[0] is not self.carries.get(n):
            return None
        part = end.operands[1]
        dims, sizes = shape_of(end).dims, shape_of(part).dims
        along = [d for d, size in enumerate(dims) if size != sizes[d]]
        if len(along) != 1 or sizes[along[0]] != 1 or dims[along[0]] != self.trips:
            return None
        (d,), value = along, part.operands[0]
        if type(part.op) is not hlo.Reshape or shape_of(value).dims != sizes[:d] + sizes[d + 1 :]:
            return None
        taken = Taken(end.operands[2 + d], self.trips, d)
        return (value, taken) if self._covers_all(taken.start) else None

    def sums(self) -> Iterator[_Sum]:
        """Yields the dots that are added up, and are worth computing after the loop."""
        once = Counter(self.loop.next)
        for n, inst in self.carries.items():
            end, path = self.loop.next[n], []
            while inst is not end and len(inst.users) == 1:
                (total,) = inst.users
                left, right = total.operands if type(total.op) is hlo.Add else (inst, inst)
                if left is right:
                    break
                path.append((total, inst, right if inst is left else left))
                inst = total
            if inst is end and len(end.users) == once[end] == 1:
                for total, rest, term in reversed(path):
                    yield from self._sum(n, total, rest, term)

    def _sum(self, n: int, total: Instruction, rest: Instruction, term: Instruction) -> Iterator[_Sum]:
        product = term
        while type(product.op) in (hlo.Transpose, hlo.Reshape) and len(product.users) == 1:
            product = product.operands[0]
        op = product.op
        if type(op) is not hlo.Dot or op.sparsity or len(product.users) != 1:
            return
        known = [t.start for o in product.operands if (t := self.slices.taken.get(o))]
        start = next((s for s in (*known, *(s for _, s in self.stored)) if self._covers_all(s)), None)
        if start is None:
            return
        new = [shape_of(o) for o in dict.fromkeys(product.operands) if not self._is_whole(o, start)]
        rows = prod(shape_of(product.operands[0]).dims[d] for d in op.lhs_contracting_dims)
        if rows <= MOST_ROWS and sum(s.size for s in new) <= op.shape.size and self._fit(new):
            yield _Sum(n, total, rest, term, product, start)

    def _fit(self, shapes: list[Shape]) -> bool:
        """Whether arrays with the values of these shapes from all trips are small enough."""
        return all(shape.byte_size * self.trips <= MOST_BYTES for shape in shapes)

    def _is_whole(self, value: Instruction, start: Instruction) -> bool:
        """Whether there is an array that has the value of `value` in every trip, at index `start`."""
        return (
            self.slices.taken.get(value, None) == self._taken(value, start) or (value, start) in self.stored
        )

    def _taken(self, value: Instruction, start: Instruction) -> Taken:
        """The slice of an array, at index `start`, that is `value` in the current trip. The array has the
        value in all trips.
        """
        taken = self.slices.taken.get(value)
        if taken is not None and taken.start is start and taken.size == self.trips:
            return taken
        return self.stored[value, start][0] if (value, start) in self.stored else Taken(start, self.trips, 0)

    def stores(self) -> Iterator[_Store]:
        """Yields the values that are only stored, and are worth computing after the loop."""
        places: dict[int, tuple[Instruction, Taken]] = {}
        owner: dict[Instruction, int] = {}
        once = Counter(self.loop.next)
        for n, end in enumerate(self.loop.next):
            place = self._place(n, end)
            if (
                place is not None
                and once[end] == 1
                and all(len(i.users) == 1 for i in (end, *end.operands[:2]))
            ):
                places[n], owner[end.operands[1]] = place, n
        leaves: dict[int, list[Instruction]] = {n: [] for n in places}
        inside: dict[int, list[Instruction]] = {n: [] for n in places}
        for inst in reversed(post_order(self.loop.body)):
            users = {owner.get(u, -1) for u in inst.users}
            if inst in self.slices.invariant or inst in owner or users <= {-1}:
                continue
            n = max(users)
            value, taken = places[n]
            if len(users) == 1 and self._may_follow(inst, value, taken.start):
                owner[inst] = n
                inside[n].append(inst)
            else:
                for n in users - {-1}:
                    leaves[n].append(inst)
        for n, (value, taken) in places.items():
            yield from self._store(_Store(n, value, taken, tuple(leaves[n]), self.slices.like()), inside[n])

    def _may_follow(self, inst: Instruction, value: Instruction, start: Instruction) -> bool:
        """Whether `inst`, on which the stored value `value` depends, can move after the loop with it: a dot
        with an invariant matrix, an elementwise op, or one that moves elements. False if an array already has
        the values of `inst` in all trips.
        """
        op = inst.op
        if (inst is not value and self._is_whole(inst, start)) or not isinstance(inst.shape, Shape):
            return False
        if type(op) is hlo.Dot:
            return not op.sparsity and any(o in self.slices.invariant for o in inst.operands)
        return op.elementwise or type(op) in (hlo.Reshape, hlo.Broadcast, hlo.Transpose)

    def _store(self, store: _Store, inside: list[Instruction]) -> Iterator[_Store]:
        start, read = store.taken.start, 0
        for inst in inside:
            if type(inst.op) is hlo.Dot:
                (side,) = (n for n, o in enumerate(inst.operands) if o not in self.slices.invariant)
                if rows_of(inst, side) > MOST_ROWS:
                    return
                read += shape_of(inst.operands[1 - side]).size
        new = [leaf.shape for leaf in store.leaves if not self._is_whole(leaf, start)]
        arrays = [shape for shape in new if isinstance(shape, Shape)]
        if len(arrays) < len(new) or not read or sum(s.size for s in arrays) > read:
            return
        if not self._fit([*arrays, *(shape_of(i) for i in inside)]):
            return
        for leaf in store.leaves:
            store.slices.taken[leaf] = self._taken(leaf, start)
        for inst in reversed(inside):
            store.slices.learn(inst)
        if store.value in store.slices.taken:
            yield store

    def sink(self, found: list[_Sum | _Store]) -> None:
        """Removes dots from the body, and computes their results after the loop."""
        loop, body, computation = self.loop, self.loop.body, self.loop.inst.computation
        late: dict[Instruction, int] = {}  # value to compute after the loop -> its element
        for one in found:
            if isinstance(one, _Sum):
                late[self._product_of_all(one)] = one.element
            else:
                for leaf in one.leaves:
                    taken = self._taken(leaf, one.taken.start)
                    one.slices.seed(leaf, taken, self._whole(leaf, one.taken.start))
                late[one.slices.placed(one.value, one.taken.along)] = one.element
        ends = {end: n for n, end in enumerate(loop.next)}
        for one in found:
            if isinstance(one, _Sum):
                body.replace(one.total, one.rest)
            else:
                end = loop.next[one.element]
                body.replace(end, end.operands[0])
        first = {array: self._zeros(computation, shape_of(array)) for array in self.added}
        made = rebuilt(loop, added=first, after=self.added)
        new = next(i for i in reversed(computation.instructions) if i.op is made)
        ends |= {end: n for n, end in enumerate(self.added.values(), loop.size)}
        known = {end: computation.add(GetTupleElement(n), [new], end.shape) for end, n in ends.items()}
        copies = copied(loop, list(late), computation, known)
        for n in dict.fromkeys(late.values()):
            added = [copies[inst] for inst, element in late.items() if element == n]
            for g in [g for index, g in elements_of(new) if index == n]:
                value = added[0]
                if n in {one.element for one in found if isinstance(one, _Sum)}:
                    value = computation.add(GetTupleElement(n), [new], g.shape)
                    for term in added:
                        value = computation.add(hlo.Add(), [value, term])
                computation.replace(g, value)

    def _zeros(self, computation: Computation, shape: Shape) -> Instruction:
        zero = constant(computation, Literal(Shape(shape.dtype), np.zeros((), shape.dtype.numpy)))
        return computation.add(hlo.Broadcast(shape, ()), [zero])

    def _whole(self, value: Instruction, start: Instruction) -> Instruction:
        """The array that has, after the loop, the value of `value` in every trip, at index `start`. If there
        is no such array, the body is changed to store the value in one.
        """
        if (value, start) in self.stored:
            return self.stored[value, start][1]
        if self._is_whole(value, start):
            return self.slices.whole(value)
        body, shape = self.loop.body, shape_of(value)
        array = self._zeros(body, Shape(shape.dtype, (self.trips, *shape.dims)))
        part = hlo.Reshape(Shape(shape.dtype, (1, *shape.dims)))(value)
        zero = constant(body, Literal(start.shape, np.zeros((), shape_of(start).dtype.numpy)))
        end = hlo.DynamicUpdateSlice()(array, part, start, *[zero] * shape.rank)
        self.added[array] = end
        self.stored[value, start] = Taken(start, self.trips, 0), end
        return end

    def _product_of_all(self, one: _Sum) -> Instruction:
        """The sum of a dot over all trips, as one dot, with the dimensions of the term that the body adds."""
        op, numbers, operands = op_of(one.product, hlo.Dot), {}, []
        for own, operand in zip(("lhs", "rhs"), one.product.operands, strict=True):
            along = self._taken(operand, one.start).along
            for name in (f"{own}_contracting_dims", f"{own}_batch_dims"):
                numbers[name] = tuple(d + (d >= along) for d in getattr(op, name))
            numbers[f"{own}_contracting_dims"] += (along,)
            operands.append(self._whole(operand, one.start))
        found = self.loop.body.add(replace(op, **numbers), operands, extra=one.product.extra)
        path, inst = [], one.term
        while inst is not one.product:
            path.append(inst)
            inst = inst.operands[0]
        for inst in reversed(path):
            found = self.loop.body.add(inst.op, [found], inst.shape, extra=inst.extra)
        return found
