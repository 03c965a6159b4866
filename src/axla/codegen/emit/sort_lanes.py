"""Sorts short lines of 32-bit numbers by a sorting network: the sequence of comparisons is always the same,
so a comparison of vectors is one minimum and one maximum, and no jump depends on it.

The keys of a line are `rows` vectors in scratch memory. In the sorted line, position c * rows + r is lane c
of vector r: positions less than `rows` apart are compared as whole vectors, and only the last steps of the
network exchange lanes. The keys are first stored in memory order; a transpose writes the sorted line.

    read the keys;  sort each lane;  merge lanes by 2, 4, ...;  write the line

Elements are computed back from their keys. Where that would change bits (of -0, and of some NaNs), the line
must be sorted by its elements instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.emit.order import from_ordered_bits, key_bits
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.kernel import KernelWriter, least
from axla.codegen.value import Value, parts_of, rebuilt
from axla.core.dtypes import U32
from axla.ir.graph import Computation
from axla.kernels.sort import Network, SortPlan
from axla.target.machine import aligned


class NetworkSort:
    """Writes code that sorts the lines of a plan, one after the other. `at` is the start of its scratch
    memory.
    """

    def __init__(self, k: KernelWriter, plan: SortPlan, network: Network, comparator: Computation, at: Ssa):
        self.f, self.values, self.e = k.f, k.values, k.elements(1)
        self.network, self.rows, self.lanes = network, network.rows, network.lanes
        self.comparator, self.dtype, self.length = comparator, plan.dtypes[0], plan.length
        self.keys = k.f.gep("i8", at, plan.network_offset)
        self.ordered = k.f.gep("i8", self.keys, aligned(network.key_bytes))

    # -- the line and its keys -----------------------------------------------------------------------------

    def read(self, line: Ssa) -> Ssa:
        """Stores the keys of a line, and the greatest key at positions after its end. Returns whether all its
        elements can be computed back from their keys.
        """
        f, values, lanes = self.f, self.values, self.lanes
        size = self.rows * lanes
        with f.loop(min(self.length // lanes * lanes, size - lanes), size, lanes) as loop:
            values.store(values.constant(U32, -1, lanes), f.gep("i32", self.keys, loop.index))
        with f.loop(0, self.length, lanes, parts_of(none := [values.constant(U32, 0, lanes)])) as loop:
            at = self.inside(loop.index)
            element = values.load(self.dtype, f.gep("i32", line, at), lanes)
            bits = key_bits(self.e, self.comparator, self.network.key, (element,))
            values.store(bits, f.gep("i32", self.keys, at))
            changed = values.binary("xor", values.bitcast_convert(element, U32), self.element_bits(bits))
            loop.yield_(parts_of([values.binary("or", changed, *rebuilt(none, loop.carried))]))
        differ = rebuilt(none, loop.results)
        (differ,) = values.across_lanes(differ, lambda a, b: (values.binary("or", *a, *b),))
        return values.compare("EQ", differ, values.constant(U32, 0)).ssa

    def inside(self, position: Ssa) -> Ssa:
        """The position at which a vector of the line is loaded or stored: `position`, or less for the last
        vector, which ends at the end of the line and overlaps the one before it.
        """
        return least(self.f, position, self.length - self.lanes, needed=self.length % self.lanes != 0)

    def element_bits(self, bits: Value) -> Value:
        """The bits of the elements that have these keys."""
        key = self.network.key
        return from_ordered_bits(self.values, bits, self.dtype, descending=key.descending)

    def write(self, line: Ssa) -> None:
        """Stores the elements of the sorted keys in the line."""
        f, values, lanes = self.f, self.values, self.lanes
        target = line if self.length == self.rows * lanes else self.ordered
        with f.loop(0, self.rows, lanes) as loop:
            rows = [self.load(f.add(loop.index, number)) for number in range(lanes)]
            for lane, column in enumerate(transposed(f, [self.element_bits(row) for row in rows])):
                values.store(column, f.gep("i32", target, f.add(loop.index, lane * self.rows)))
        if target is not line:
            with f.loop(0, self.length, lanes) as loop:
                at = self.inside(loop.index)
                values.store(values.load(U32, f.gep("i32", target, at), lanes), f.gep("i32", line, at))

    def load(self, row: Ssa) -> Value:
        """Loads the keys of a row, one per lane."""
        return self.values.load(U32, self.address(row), self.lanes, align=4 * self.lanes)

    def store(self, row: Ssa, keys: Value) -> None:
        """Stores the keys of a row, one per lane."""
        self.values.store(keys, self.address(row), align=4 * self.lanes)

    def address(self, row: Ssa) -> Ssa:
        """The address of a row of keys."""
        return self.f.gep("i32", self.keys, self.f.mul(row, self.lanes))

    # -- the network ---------------------------------------------------------------------------------------

    def sort(self) -> None:
        """Sorts all keys: runs of rows in registers, then longer ones, then lanes with each other."""
        f, rows, held = self.f, self.rows, self.network.held
        with f.loop(0, rows, held) as loop:
            self.exchanged([f.add(loop.index, number) for number in range(held)], _sorted_pairs(held))
        longer, merges = (rows // held).bit_length() - 1, self.lanes.bit_length() - 1
        with f.loop(0, longer + merges, 1) as levels:
            for number in range(merges):
                with f.if_(f.icmp("eq", levels.index, longer + number)):
                    self.merge_lanes(2 << number)
            is_longer, half = f.icmp("slt", levels.index, longer), f.index(rows // 2)
            distance = f.binary("shl", f.index(held), levels.index)
            # The first step compares two runs from both ends, as in `merge_lanes`.
            mask = f.select(is_longer, f.sub(f.add(distance, distance), 1), half)
            self.halve(f.select(is_longer, distance, half), mask)

    def halve(self, distance: Ssa, mask: Ssa) -> None:
        """Orders pairs of rows: first rows r and r ^ `mask`, where `distance` is the highest bit of `mask`,
        then rows that are half of `distance` apart, and so on.
        """
        f, rows, held = self.f, self.rows, self.network.held
        with f.while_loop([distance, mask]) as steps:
            distance, mask = steps.carried
            steps.test(f.icmp("sge", distance, held))
            with f.loop(0, rows // 2, 1) as loop:
                pair = loop.index
                low = f.sub(f.add(pair, pair), f.binary("and", pair, f.sub(distance, 1)))
                self.exchanged([low, f.binary("xor", low, mask)], [(0, 1)])
            half = f.udiv(distance, 2)
            steps.yield_([half, half])
        with f.loop(0, rows, held) as loop:
            self.exchanged([f.add(loop.index, number) for number in range(held)], _halving_pairs(held))

    def exchanged(self, places: Sequence[Ssa], pairs: Sequence[tuple[int, int]]) -> None:
        """Loads the rows with the numbers `places`, orders the pairs of them at the indices `pairs` of that
        list, and stores all rows.
        """
        found = [self.load(place) for place in places]
        for a, b in pairs:
            found[a], found[b] = self.both(found[a], found[b])
        for place, row in zip(places, found, strict=True):
            self.store(place, row)

    def both(self, a: Value, b: Value) -> tuple[Value, Value]:
        """(minimum, maximum) of two rows, lane by lane."""
        return self.values.binary("minimum", a, b), self.values.binary("maximum", a, b)

    def merge_lanes(self, group: int) -> None:
        """Writes the first steps that merge lanes sorted in groups of `group // 2` to groups of `group`:
        those that compare positions in different lanes.
        """
        f, lanes, shuffle = self.f, range(self.lanes), self.values.shuffle
        mirrored = [lane // group * group + group - 1 - lane % group for lane in lanes]
        with f.loop(0, self.rows // 2, 1) as loop:
            other = f.sub(f.index(self.rows - 1), loop.index)
            a, b = self.load(loop.index), self.load(other)
            low, high = self.both(a, shuffle(b, b, mirrored))
            upper = [lane + len(lanes) * (lane % group >= group // 2) for lane in lanes]
            b = shuffle(high, low, upper)
            found = [shuffle(low, high, upper), shuffle(b, b, mirrored)]
            distance = group // 4
            while distance:
                upper = [lane + len(lanes) * bool(lane & distance) for lane in lanes]
                partner = [lane ^ distance for lane in lanes]
                found = [shuffle(*self.both(row, shuffle(row, row, partner)), upper) for row in found]
                distance //= 2
            self.store(loop.index, found[0])
            self.store(other, found[1])


def _sorted_pairs(count: int) -> list[tuple[int, int]]:
    """The pairs to order, one after the other, to sort `count` values, a power of two."""
    if count == 1:
        return []
    half = _sorted_pairs(count // 2)
    ends = [(n, count - 1 - n) for n in range(count // 2)]
    rest = _halving_pairs(count // 2)
    both = [(a + low, b + low) for low in (0, count // 2) for a, b in half]
    return both + ends + [(a + low, b + low) for low in (0, count // 2) for a, b in rest]


def _halving_pairs(count: int) -> list[tuple[int, int]]:
    """The pairs of positions, among `count` positions, that are half of `count` apart, then those that are a
    quarter of `count` apart, and so on.
    """
    found, distance = [], count // 2
    while distance:
        found += [(n, n + distance) for n in range(count) if not n & distance]
        distance //= 2
    return found
