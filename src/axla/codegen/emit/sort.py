"""Sorts each line along a dimension: by merging, or by digits where the comparator compares keys (radix
sort).

A line is sorted in two buffers of contiguous elements: the output itself, where the dimension is the minor
one, and scratch memory. The output may share memory with the operand, which is read before it is overwritten.
Short runs are sorted by insertion and merged in pairs, back and forth between the buffers. Equal elements
always keep their order.

    for each line of the piece:  count digits, then one pass per digit;  or runs, then passes of merges

Short lines whose elements have nothing but a 32-bit key are sorted by a network (`sort_lanes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.array import DenseArray, element_address
from axla.codegen.element import Elements
from axla.codegen.emit.order import Order, key_bits
from axla.codegen.emit.sort_lanes import NetworkSort
from axla.codegen.emit.sort_tiles import TileSort
from axla.codegen.function import UNPOLLED_INDICES, LlvmFunction, Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.core.dtypes import DType
from axla.hlo import Sort
from axla.ir.typed import op_of
from axla.kernels.sort import DIGIT, SortKey, SortPlan

RUN = 8
"""The number of elements in the runs that insertion sorts."""
ONE_RUN = 20
"""Lines up to this length are one run: they are sorted by insertion alone."""


def emit(k: KernelWriter, plan: SortPlan) -> None:
    """Writes the kernel of a `SortPlan`."""
    if plan.tile:
        TileSort(k, plan).emit()
    elif plan.pieces:
        _Sort(k, plan).emit()


class _Line:
    """A line in each operand, as arrays that begin at its first element."""

    def __init__(self, arrays: Sequence[DenseArray]):
        self.arrays = arrays
        self.pointers = [array.pointer for array in arrays]

    def load(self, position: Ssa) -> tuple[Value, ...]:
        return tuple(a.load((Index(a.values.f, position), 0), 1) for a in self.arrays)

    def store(self, position: Ssa, elements: Sequence[Value]) -> None:
        for a, value in zip(self.arrays, elements, strict=True):
            a.store((Index(a.values.f, position), 0), value)


class _Sort:
    """Writes the kernel of a plan in which each thread sorts whole lines."""

    def __init__(self, k: KernelWriter, plan: SortPlan):
        self.k = k
        self.f: LlvmFunction = k.f
        self.e: Elements = k.elements(1)
        self.layout = plan
        self.computation = op_of(k.named[plan.hero], Sort).to_apply
        self.before = Order(k, plan).before
        self.length = self.f.index(plan.length)

    def line(self, pointers: Sequence[Ssa], stride: int = 1) -> _Line:
        """The line whose elements are `stride` elements apart. `pointers` has the address of the first
        element in each operand.
        """
        dims, pairs = (self.layout.length, stride), zip(pointers, self.layout.dtypes, strict=True)
        return _Line([DenseArray(self.k.values, p, dtype, dims, readonly=False) for p, dtype in pairs])

    def emit(self) -> None:
        f, k, found = self.f, self.k, self.layout
        scratch = k.scratch_of_call(found.piece_bytes)
        with k.lines(found.per_piece, found.lines) as line:
            stripe, column = f.udiv(line.index, found.stride), f.urem(line.index, found.stride)
            base = f.add(f.mul(stripe, found.length * found.stride), column)

            def whole(arrays: Sequence[DenseArray]) -> _Line:
                pointers = [element_address(k.values.f, a.pointer, a.dtype, base) for a in arrays]
                return self.line(pointers, found.stride)

            source, target = whole(k.inputs), whole(k.outputs)
            places = found.buffer_offsets()
            buffers = [self.line([f.gep("i8", scratch, o) for o in offsets]) for offsets in places]
            if found.stride == 1:
                buffers.insert(0, target)
            if found.network is None:
                self.by_elements(source, target, buffers, scratch)
                return
            network = NetworkSort(k, found, found.network, self.computation, scratch)
            branch = f.branch(network.read(source.pointers[0]), likely=True)
            with branch.then():
                network.sort()
                network.write(target.pointers[0])
            with branch.otherwise():
                self.by_elements(source, target, buffers, scratch)
            branch.merge([])

    def by_elements(self, source: _Line, target: _Line, buffers: list[_Line], scratch: Ssa) -> None:
        """Sorts a line from `source` to `target`: by digits if the sort has a key, else by merging. `buffers`
        are the two lines between which passes move elements; `scratch` has space for the counts of digits.
        """
        key = self.layout.key
        if key is not None:
            self.by_digits(source, target, buffers, scratch, key)
        else:
            self.by_merging(source, target, buffers)

    # -- merging -----------------------------------------------------------------------------------------

    def by_merging(self, source: _Line, target: _Line, buffers: list[_Line]) -> None:
        length = self.layout.length
        run = length if length <= ONE_RUN else RUN
        passes, width = 0, run
        while width < length:
            width, passes = 2 * width, passes + 1
        if passes % 2 and self.layout.stride == 1:  # so that the last pass writes the output
            buffers = buffers[::-1]
        self.runs(source, buffers[0], run)
        if passes:
            self.passes(buffers, run, passes)
        if self.layout.stride != 1:
            self.copy(buffers[passes % 2], target, self.f.index(0), self.length)

    def runs(self, source: _Line, target: _Line, run: int) -> None:
        """Sorts each run of `run` elements by insertion, from `source` to `target`."""
        f = self.f
        with f.loop(0, self.length, run, nonempty=True) as runs:
            first = runs.index
            last = f.smin(f.add(first, run), self.length)
            with f.loop(first, last, 1, nonempty=True) as loop:
                new = source.load(loop.index)
                with f.while_loop([loop.index]) as search:
                    (place,) = search.carried
                    previous = f.sub(place, 1)
                    inside = f.branch(f.icmp("sgt", place, first))
                    with inside.then():
                        earlier = self.before(new, target.load(previous))
                    (go_on,) = inside.merge([(earlier, f.const("i1", False))])
                    search.test(go_on)
                    target.store(place, target.load(previous))
                    search.yield_([previous])
                target.store(search.results[0], new)

    def passes(self, buffers: list[_Line], run: int, passes: int) -> None:
        """Runs `passes` passes, from one buffer to the other and back. Each merges pairs of neighbouring
        runs; runs have `run` elements before the first pass, and twice as many after each.
        """
        f = self.f
        count = len(self.layout.dtypes)
        state = [f.index(run), *buffers[0].pointers, *buffers[1].pointers]
        with f.loop(0, passes, 1, state) as steps:
            width, *pointers = steps.carried
            a, b = self.line(pointers[:count]), self.line(pointers[count:])
            with f.while_loop([f.index(0)]) as pairs:
                (first,) = pairs.carried
                pairs.test(f.icmp("slt", first, self.length))
                middle = f.smin(f.add(first, width), self.length)
                last = f.smin(f.add(middle, width), self.length)
                self.merge(a, b, first, middle, last)
                pairs.yield_([last])
            steps.yield_([f.add(width, width), *b.pointers, *a.pointers])

    def merge(self, source: _Line, target: _Line, first: Ssa, middle: Ssa, last: Ssa) -> None:
        """Merges the sorted ranges [first, middle) and [middle, last) of `source` into the same positions of
        `target`; polls for cancellation at intervals.
        """
        f = self.f
        one, most = f.index(1), f.index(UNPOLLED_INDICES)
        with f.while_loop([first, middle, first]) as rounds:
            low, high, _ = rounds.carried
            rounds.test(f.binary("and", f.icmp("slt", low, middle), f.icmp("slt", high, last)))
            f.poll()
            ends = [f.add(s, f.smin(f.sub(e, s), most)) for s, e in ((low, middle), (high, last))]
            with f.while_loop(rounds.carried) as loop:
                low, high, place = loop.carried
                loop.test(f.binary("and", f.icmp("slt", low, ends[0]), f.icmp("slt", high, ends[1])))
                a, b = source.load(low), source.load(high)
                take = self.before(b, a)
                chosen = Value(self.pred, 1, (take,))
                target.store(place, [self.k.values.select(chosen, y, x) for x, y in zip(a, b, strict=True)])
                step = f.cast("zext", take, f.module.index_type)
                loop.yield_([f.add(low, f.sub(one, step)), f.add(high, step), f.add(place, one)])
            rounds.yield_(loop.results)
        low, high, place = rounds.results
        self.copy(source, target, low, middle, place)
        self.copy(source, target, high, last, f.add(place, f.sub(middle, low)))

    @property
    def pred(self) -> DType:
        return self.computation.root.shape.dtype

    def copy(self, source: _Line, target: _Line, first: Ssa, last: Ssa, place: Ssa | None = None) -> None:
        """Copies elements [first, last) of the source to the target: to positions from `place` on, or to the
        same positions if it is None.
        """
        f = self.f
        shift = f.index(0) if place is None else f.sub(place, first)
        with f.loop(first, last, 1) as loop:
            target.store(f.add(loop.index, shift), source.load(loop.index))

    # -- digits ------------------------------------------------------------------------------------------

    def by_digits(
        self, source: _Line, target: _Line, buffers: list[_Line], counts: Ssa, key: SortKey
    ) -> None:
        """Sorts by the lowest digit, then by the next one, and so on; a digit that all elements share is
        skipped. `counts` is the address of the tables of counts, one for each digit.
        """
        f, digits = self.f, self.layout.digits
        self.count_digits(source, buffers[0], counts, key)
        state = [*buffers[0].pointers, *buffers[1].pointers]
        half = len(state) // 2
        for digit in range(digits):
            table = f.gep("i8", counts, digit * 4 << DIGIT)
            common = self.starts(table)
            branch = f.branch(common)
            with branch.otherwise():
                self.distribute(self.line(state[:half]), self.line(state[half:]), table, key, digit)
            state = branch.merge(list(zip(state, [*state[half:], *state[:half]], strict=True)))
        here = self.line(state[:half])
        if self.layout.stride != 1:
            self.copy(here, target, f.index(0), self.length)
            return
        with f.if_(f.icmp("ne", state[0], target.pointers[0])):
            self.copy(here, target, f.index(0), self.length)

    def digit_of(self, bits: Value, digit: int) -> Ssa:
        values = self.k.values
        if digit:
            bits = values.binary("shift-right-logical", bits, values.constant(bits.dtype, digit * DIGIT))
        if bits.dtype.bits > DIGIT:
            bits = values.binary("and", bits, values.constant(bits.dtype, (1 << DIGIT) - 1))
        return values.to_index(bits)

    def count_digits(self, source: _Line, target: _Line, counts: Ssa, key: SortKey) -> None:
        """Copies the line from `source` to `target`. In the tables at `counts`, counts for each digit how
        often each of its values occurs.
        """
        f, digits = self.f, self.layout.digits
        with f.loop(0, digits << DIGIT, 16) as loop:
            f.store(f.zero("<16 x i32>"), f.gep("i32", counts, loop.index), 4)
        with f.loop(0, self.length, 1, nonempty=True) as loop:
            element = source.load(loop.index)
            target.store(loop.index, element)
            bits = key_bits(self.e, self.computation, key, element)
            for digit in range(digits):
                place = f.gep("i32", counts, f.add(self.digit_of(bits, digit), digit << DIGIT))
                count = f.load("i32", place, 4)
                f.store(f.add(count, f.const("i32", 1)), place, 4)

    def starts(self, table: Ssa) -> Ssa:
        """Replaces the counts in the table of a digit by positions: for each value of the digit, where its
        elements begin.

        Returns whether one value has all elements.
        """
        f = self.f
        total = f.const("i32", self.layout.length)
        with f.loop(0, 1 << DIGIT, 1, [f.const("i32", 0), f.const("i1", False)]) as loop:
            position, common = loop.carried
            place = f.gep("i32", table, loop.index)
            count = f.load("i32", place, 4)
            f.store(position, place, 4)
            loop.yield_([f.add(position, count), f.binary("or", common, f.icmp("eq", count, total))])
        return loop.results[1]

    def distribute(self, source: _Line, target: _Line, table: Ssa, key: SortKey, digit: int) -> None:
        """Copies each element to the next free position for its value of digit number `digit`. `table` has
        these positions, by value.
        """
        f = self.f
        with f.loop(0, self.length, 1, nonempty=True) as loop:
            element = source.load(loop.index)
            place = f.gep(
                "i32", table, self.digit_of(key_bits(self.e, self.computation, key, element), digit)
            )
            position = f.load("i32", place, 4)
            f.store(f.add(position, f.const("i32", 1)), place, 4)
            target.store(f.cast("zext", position, f.module.index_type), element)
