"""The k largest (or smallest) elements of every line, where k is small: a heap of the best so far.

A candidate is one number, its key above the complement of its position, so that of equal elements the first
is the better one. The worst of the best is on top of the heap; vectors of elements are compared with its key,
and only those that have a better one are looked at.
"""

from __future__ import annotations

from axla.codegen.array import Array
from axla.codegen.emit.order import ordered_bits
from axla.codegen.function import Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.core.dtypes import S32, U32, U64
from axla.kernels.sort import TopKPlan


def emit(k: KernelWriter, plan: TopKPlan) -> None:
    """Writes the kernel of a `TopKPlan`."""
    if plan.lines and plan.k:
        _Selection(k, plan).emit(plan.per_piece)


class _Selection:
    """Writes the kernel."""

    def __init__(self, k: KernelWriter, plan: TopKPlan):
        self.kernel = k
        self.f, self.values = k.f, k.values
        self.largest = plan.largest
        self.lines, self.length, self.count = plan.lines, plan.length, plan.k
        (whole,) = k.inputs
        self.elements = self.flat(whole, self.length)

    def flat(self, array: Array, row: int) -> Array:
        """The same array, all lines as one."""
        readonly = array.readonly
        return Array(self.values, array.pointer, array.dtype, (self.lines * row,), readonly=readonly)

    def emit(self, per: int) -> None:
        f, k = self.f, self.kernel
        self.heap = k.scratch_of_call(8 * self.count)
        with k.lines(per, self.lines) as line:
            self.base = f.mul(line.index, self.length)
            self.fill()
            self.scan()
            self.take(f.mul(line.index, self.count))

    # -- candidates --------------------------------------------------------------------------------------

    def key(self, position: Ssa, lanes: int) -> Value:
        """The keys of elements from a position on: the larger is the better."""
        index = Index(self.f, self.f.add(self.base, position), 1, lanes)
        bits = ordered_bits(
            self.values, self.elements.load((index,), lanes), total_order=True, descending=not self.largest
        )
        return self.values.convert(bits, U32)

    def candidate(self, position: Ssa) -> Ssa:
        """An element as one number."""
        values = self.values
        high = values.convert(self.key(position, 1), U64)
        high = values.binary("shift-left", high, values.constant(U64, 32))
        low = values.unary("not", values.from_index(position, U32))
        return values.binary("or", high, values.convert(low, U64)).ssa

    def at(self, place: Ssa) -> Ssa:
        return self.f.load("i64", self.f.gep("i64", self.heap, place), 8)

    def put(self, place: Ssa, candidate: Ssa) -> None:
        self.f.store(candidate, self.f.gep("i64", self.heap, place), 8)

    # -- the heap ----------------------------------------------------------------------------------------

    def sift(self, place: Ssa, candidate: Ssa, size: Ssa) -> None:
        """Puts a candidate at a place of the heap or below, so that none is above a worse one."""
        f = self.f
        one = f.index(1)
        with f.while_loop([place]) as loop:
            (here,) = loop.carried
            left = f.add(f.add(here, here), one)
            branch = f.branch(f.icmp("slt", left, size))
            with branch.then():
                right = f.smin(f.add(left, one), f.sub(size, one))
                a, b = self.at(left), self.at(right)
                smaller = f.icmp("ult", b, a)
                least, where = f.select(smaller, b, a), f.select(smaller, right, left)
                worse = f.icmp("ult", least, candidate)
            go_on, least, where = branch.merge(
                [(worse, f.const("i1", False)), (least, f.const("i64", 0)), (where, f.index(0))]
            )
            loop.test(go_on)
            self.put(here, least)
            loop.yield_([where])
        self.put(loop.results[0], candidate)

    def fill(self) -> None:
        """A heap of the first elements."""
        f, size = self.f, self.f.index(self.count)
        with f.loop(0, self.count, 1) as loop:
            self.put(loop.index, self.candidate(loop.index))
        half = self.count // 2
        if half:
            with f.loop(0, half, 1) as loop:
                place = f.sub(half - 1, loop.index)
                self.sift(place, self.at(place), size)

    def scan(self) -> None:
        """Offers all other elements to the heap."""
        f, values = self.f, self.values
        lanes = self.kernel.target.lanes(U32)
        rest = self.length - self.count
        whole = self.count + rest // lanes * lanes
        if whole > self.count and lanes > 1:
            with f.loop(self.count, whole, lanes) as loop:
                worst = f.cast("trunc", f.binary("lshr", self.at(f.index(0)), f.const("i64", 32)), "i32")
                better = values.compare("GT", self.key(loop.index, lanes), Value(U32, 1, (worst,)))
                some = f.any_lane(better.ssa)
                with (
                    f.if_(some),
                    f.loop(loop.index, f.add(loop.index, lanes), 1, nonempty=True) as inner,
                ):
                    self.offer(inner.index)
        else:
            whole = self.count
        if whole < self.length:
            with f.loop(whole, self.length, 1) as loop:
                self.offer(loop.index)

    def offer(self, position: Ssa) -> None:
        f = self.f
        candidate = self.candidate(position)
        with f.if_(f.icmp("ugt", candidate, self.at(f.index(0)))):
            self.sift(f.index(0), candidate, f.index(self.count))

    def take(self, start: Ssa) -> None:
        """Empties the heap into the results, the worst first and last."""
        f, values = self.f, self.values
        elements, places = (self.flat(o, self.count) for o in self.kernel.outputs)
        with f.loop(0, self.count, 1) as loop:
            last = f.sub(self.count - 1, loop.index)
            worst = self.at(f.index(0))
            self.sift(f.index(0), self.at(last), last)
            position = values.unary("not", Value(U32, 1, (f.cast("trunc", worst, "i32"),)))
            here = Index(f, f.add(start, last))
            source = f.add(self.base, values.to_index(position))
            elements.store((here,), self.elements.load((Index(f, source),), 1))
            places.store((here,), values.bitcast_convert(position, S32))
