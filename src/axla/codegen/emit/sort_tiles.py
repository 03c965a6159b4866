"""Sorts by thread blocks: tiles are sorted in local memory, longer lines by merging pairs of runs.

A tile has a *slot* for each element, in the order of the line. The compared values stay in place in local
memory; slot numbers are sorted, through a network in which each thread compares and exchanges pairs. Of equal
elements the one in the lower slot comes first, so the order is stable, and the same as by merging, if the
comparator defines an order. Otherwise (`NE`, several keys with NaN) the network determines it. Slots beyond
the end of a line come last. Finally every slot copies its element from the source, in all operands.

The parts of two runs that make up a tile are found by binary search over the halves of the runs, from the
whole down: whatever the comparator returns, every element is in exactly one tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axla.codegen.array import DenseArray, element_address
from axla.codegen.emit.order import Order, key_bits
from axla.codegen.function import Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.core.dtypes import BY_NAME, DType
from axla.kernels.sort import SortPlan

SortSlot = Callable[[Ssa], Ssa]
"""Maps a slot number to a property of its element, such as the element's offset in an array, in elements."""


class TileSort:
    """Writes a phase of a sort whose plan has tiles."""

    def __init__(self, k: KernelWriter, plan: SortPlan):
        self.k, self.f, self.plan = k, k.f, plan
        self.order = Order(k, plan)
        f, scratch = k.f, k.scratch()
        work = [f.gep("i8", scratch, offset) for offset in plan.array_offsets()[:-1]]
        buffers = [self._flat([o.pointer for o in k.outputs]), self._flat(work)]
        left = plan.passes - k.phase  # passes after this one; the last one writes the outputs
        self.target = buffers[left % 2]
        readonly = k.phase == 0
        inputs = self._flat([a.pointer for a in k.inputs], readonly=readonly)
        self.source = inputs if readonly else buffers[(left + 1) % 2]
        self.kinds = plan.dtypes if plan.key is None else (_key_type(plan.key.dtype),)
        self.data = [k.share.local(plan.tile * d.itemsize) for d in self.kinds]
        self.slots = k.share.local(4 * plan.tile)

    def _flat(self, pointers: Sequence[Ssa], *, readonly: bool = False) -> list[DenseArray]:
        count, values = self.plan.lines * self.plan.length, self.k.values
        pairs = zip(pointers, self.plan.dtypes, strict=True)
        return [DenseArray(values, p, dtype, (count,), readonly=readonly) for p, dtype in pairs]

    def emit(self) -> None:
        """Writes the phase: the first phase sorts tiles, each later one merges runs in pairs."""
        if self.k.phase:
            self.merged()
        else:
            self.sorted()

    # -- elements ------------------------------------------------------------------------------------------

    def address(self, line: Ssa, position: Ssa) -> Ssa:
        """The offset in an array of the element at a position of a line, in elements."""
        f, stride, length = self.f, self.plan.stride, self.plan.length
        begin = f.add(f.mul(f.udiv(line, stride), length * stride), f.urem(line, stride))
        return f.add(begin, f.mul(position, stride))

    def compared(self, address: Ssa) -> list[Value]:
        """The values by which the element at the offset `address` of the source is compared: its key, or the
        element in all operands.
        """
        element = [a.load((Index(self.f, address),), 1) for a in self.source]
        if self.plan.key is None:
            return element
        return [key_bits(self.order.e, self.order.computation, self.plan.key, element)]

    def before(self, a: Sequence[Value], b: Sequence[Value]) -> Ssa:
        """Whether an element comes strictly before another, by the compared values."""
        if self.plan.key is None:
            return self.order.before(a, b)
        return self.k.values.compare("LT", a[0], b[0]).ssa

    def held(self, slot: Ssa) -> list[Value]:
        """Loads the compared values of the element in a slot."""
        pairs = zip(self.data, self.kinds, strict=True)
        return [self.k.values.load(d, element_address(self.f, p, d, slot), 1) for p, d in pairs]

    def slot(self, at: Ssa) -> Ssa:
        """Loads the slot number at position `at` of the tile."""
        found = self.f.load("i32", self.f.gep("i32", self.slots, at), 4)
        return self.f.cast("zext", found, self.f.module.index_type)

    def put(self, at: Ssa, slot: Ssa) -> None:
        """Stores a slot number at position `at` of the tile."""
        self.f.store(self.f.cast("trunc", slot, "i32"), self.f.gep("i32", self.slots, at), 4)

    # -- tiles ---------------------------------------------------------------------------------------------

    def sorted(self) -> None:
        """Sorts a tile: several short lines, or a part of a long one."""
        f, plan = self.f, self.plan
        row, per = plan.row, plan.tile // plan.row
        block = self.k.share.begin
        line, first = f.mul(f.udiv(block, plan.tiles), per), f.mul(f.urem(block, plan.tiles), plan.tile)
        count = f.smin(f.sub(plan.length, first), row)

        def place(slot: Ssa) -> Ssa:
            inside = f.smin(f.urem(slot, row), f.sub(count, 1))
            here = f.smin(f.add(line, f.udiv(slot, row)), plan.lines - 1)
            return self.address(here, f.add(first, inside))

        def real(slot: Ssa) -> Ssa:
            there = f.icmp("slt", f.add(line, f.udiv(slot, row)), plan.lines)
            return f.binary("and", f.icmp("slt", f.urem(slot, row), count), there)

        self.fill(place, lambda at: at)
        sort_network(self.k, plan.tile, row, lambda low, high: self.exchange(low, high, real))
        self.write(place, place, real)

    def merged(self) -> None:
        """Merges the parts of two runs that are in a tile."""
        f, plan = self.f, self.plan
        block = self.k.share.begin
        line, tile = f.udiv(block, plan.tiles), f.urem(block, plan.tiles)
        first = f.mul(tile, plan.tile)
        a, split, b, end = self.runs(line, first)
        here = f.sub(split, a)
        count = f.add(here, f.sub(end, b))

        def place(slot: Ssa) -> Ssa:
            inside = f.smin(slot, f.sub(count, 1))
            later = f.add(b, f.sub(inside, here))
            return self.address(line, f.select(f.icmp("slt", inside, here), f.add(a, inside), later))

        def real(slot: Ssa) -> Ssa:
            return f.icmp("slt", slot, count)

        def bitonic(at: Ssa) -> Ssa:
            """The slot for a position of a bitonic sequence: the first run ascending, then missing elements,
            then the second run descending.
            """
            mirrored = f.sub(f.add(here, plan.tile - 1), at)
            return f.select(f.icmp("slt", at, here), at, mirrored)

        self.fill(place, bitonic)
        half = f.index(plan.tile // 2)
        halves(self.k, plan.tile, half, half, lambda low, high: self.exchange(low, high, real))
        self.write(place, lambda at: self.address(line, f.add(first, at)), real)

    def runs(self, line: Ssa, first: Ssa) -> list[Ssa]:
        """The parts [a, b) and [c, d) of two runs that, merged, are the tile from `first` on."""
        f, plan = self.f, self.plan
        width = plan.tile << (self.k.phase - 1)
        begin = f.mul(f.udiv(first, 2 * width), 2 * width)
        middle = f.smin(f.add(begin, width), plan.length)
        end = f.smin(f.add(middle, width), plan.length)
        with f.while_loop([f.index(width), begin, middle, middle, end]) as cuts:
            half, a, b, c, d = cuts.carried
            cuts.test(f.icmp("sge", half, plan.tile))
            wanted = f.smin(half, f.add(f.sub(b, a), f.sub(d, c)))
            taken = self.taken(line, a, b, c, d, wanted)
            x, y = f.add(a, taken), f.add(c, f.sub(wanted, taken))
            upper = f.icmp("ne", f.binary("and", first, half), 0)
            ends = (x, b, y, d), (a, x, c, y)
            cuts.yield_([f.udiv(half, 2), *(f.select(upper, p, q) for p, q in zip(*ends, strict=True))])
        return cuts.results[1:]

    def taken(self, line: Ssa, a: Ssa, b: Ssa, c: Ssa, d: Ssa, wanted: Ssa) -> Ssa:
        """The number of elements from the first run among the first `wanted` of the merged runs [a, b) and
        [c, d).
        """
        f = self.f
        least = f.smax(f.sub(wanted, f.sub(d, c)), 0)
        with f.while_loop([least, f.smin(wanted, f.sub(b, a))]) as search:
            low, high = search.carried
            search.test(f.icmp("slt", low, high))
            middle = f.udiv(f.add(low, high), 2)
            mine = self.compared(self.address(line, f.add(a, middle)))
            other = self.compared(self.address(line, f.add(c, f.sub(f.sub(wanted, middle), 1))))
            beyond = self.before(other, mine)
            above = f.add(middle, 1)
            search.yield_([f.select(beyond, low, above), f.select(beyond, middle, high)])
        return search.results[0]

    def fill(self, place: SortSlot, slot: SortSlot) -> None:
        """Loads the compared values of all slots; `place` returns the offset of a slot's element, and `slot`
        the slot that a position of the tile has at first.
        """
        f = self.f
        with self.k.walk(f.index(0), f.index(self.plan.tile), 1) as loop:
            at = loop.index
            for value, pointer in zip(self.compared(place(at)), self.data, strict=True):
                self.k.values.store(value, element_address(f, pointer, value.dtype, at))
            self.put(at, slot(at))
        self.k.share.barrier()

    def exchange(self, low: Ssa, high: Ssa, real: SortSlot) -> None:
        """Orders two positions of the tile: the element that comes first gets the lower one. `real(slot)` is
        true if the slot has an element.
        """
        f = self.f
        a, b = self.slot(low), self.slot(high)
        x, y = f.smin(a, b), f.smax(a, b)
        swap = f.binary("and", real(y), self.before(self.held(y), self.held(x)))
        self.put(low, f.select(swap, y, x))
        self.put(high, f.select(swap, x, y))

    def write(self, place: SortSlot, goal: SortSlot, real: SortSlot) -> None:
        """Copies the elements in sorted order. For each position p of the tile with `real(p)`, copies the
        element of the slot there, from the offset `place(slot)` of the source to the offset `goal(p)`.
        """
        f = self.f
        with self.k.walk(f.index(0), f.index(self.plan.tile), 1) as loop, f.if_(real(loop.index)):
            source, to = Index(f, place(self.slot(loop.index))), Index(f, goal(loop.index))
            for a, b in zip(self.source, self.target, strict=True):
                b.store((to,), a.load((source,), 1))


def _key_type(dtype: DType) -> DType:
    """The unsigned integer type for keys from `ordered_bits`."""
    return BY_NAME[f"u{dtype.bits if dtype.is_float else max(8, dtype.bits)}"]


Exchange = Callable[[Ssa, Ssa], None]
"""Orders two positions: the element that comes first gets the lower one."""


def sort_network(k: KernelWriter, tile: int, row: int, exchange: Exchange) -> None:
    """Sorts each group of `row` positions of a tile, a power of two, with all threads of a step. `exchange`
    orders two positions.
    """
    f = k.f
    with f.while_loop([f.index(2)]) as runs:
        (width,) = runs.carried
        runs.test(f.icmp("sle", width, row))
        # The first step compares the runs from both ends.
        halves(k, tile, f.udiv(width, 2), f.sub(width, 1), exchange)
        runs.yield_([f.add(width, width)])


def halves(k: KernelWriter, tile: int, distance: Ssa, mask: Ssa, exchange: Exchange) -> None:
    """Orders pairs of positions: first p and p ^ `mask`, where `distance` is the highest bit of `mask`, then
    positions that are half of `distance` apart, and so on. `exchange` orders two positions; `tile` is the
    number of all positions.
    """
    f = k.f
    with f.while_loop([distance, mask]) as steps:
        distance, mask = steps.carried
        steps.test(f.icmp("sgt", distance, 0))
        with k.walk(f.index(0), f.index(tile // 2), 1) as loop:
            pair = loop.index
            low = f.sub(f.add(pair, pair), f.binary("and", pair, f.sub(distance, 1)))
            exchange(low, f.binary("xor", low, mask))
        k.share.barrier()
        half = f.udiv(distance, 2)
        steps.yield_([half, half])
