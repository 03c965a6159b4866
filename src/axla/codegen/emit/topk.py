"""Selects the k largest (or smallest) elements of every line, for small k, by a heap of the best so far.

A candidate is one number, with its key in the high bits and the complement of its position in the low bits,
so that of equal elements the first is better. The worst of the best candidates is on top of the heap; vectors
of elements are compared with its key, and only those with a better element are examined.
"""

from __future__ import annotations

from axla.codegen.array import DenseArray
from axla.codegen.emit.order import ordered_bits
from axla.codegen.emit.sort_tiles import sort_network
from axla.codegen.function import Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.core.dtypes import S32, U32, U64
from axla.kernels.sort import TopKPlan


def emit(k: KernelWriter, plan: TopKPlan) -> None:
    """Writes the kernel of a `TopKPlan`."""
    if plan.tile:
        _Together(k, plan).together()
    elif plan.lines and plan.k:
        _Selection(k, plan).emit(plan.per_piece)


class _Selection:
    """Writes the kernel for single threads, each of which selects the best elements of whole lines."""

    def __init__(self, k: KernelWriter, plan: TopKPlan):
        self.kernel = k
        self.f, self.values = k.f, k.values
        self.largest = plan.largest
        self.lines, self.length, self.count = plan.lines, plan.length, plan.k
        (whole,) = k.inputs
        self.elements = self.flat(whole, self.length)

    def flat(self, array: DenseArray, row: int) -> DenseArray:
        """A one-dimensional view of an array that has `row` elements per line."""
        readonly = array.readonly
        return DenseArray(self.values, array.pointer, array.dtype, (self.lines * row,), readonly=readonly)

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
        """The keys of `lanes` elements from a position on; better elements have larger keys."""
        index = Index(self.f, self.f.add(self.base, position), 1, lanes)
        bits = ordered_bits(
            self.values, self.elements.load((index,), lanes), total_order=True, descending=not self.largest
        )
        return self.values.convert(bits, U32)

    def candidate(self, position: Ssa) -> Ssa:
        """The element at a position as a candidate, which is one number."""
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
        """Inserts a candidate at a node of the heap or below it, so that no candidate is above a worse one.
        `place` is the number of the node, `size` that of all nodes.
        """
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
        """Builds a heap of the first elements."""
        f, size = self.f, self.f.index(self.count)
        with f.loop(0, self.count, 1) as loop:
            self.put(loop.index, self.candidate(loop.index))
        half = self.count // 2
        if half:
            with f.loop(0, half, 1) as loop:
                place = f.sub(half - 1, loop.index)
                self.sift(place, self.at(place), size)

    def scan(self) -> None:
        """Compares all other elements with the heap, and inserts the better ones."""
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
        """Moves the heap to the results, from the worst, which is the last, to the best."""
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


class _Together(_Selection):
    """Writes a phase in which the threads of a block select together.

    Candidates better than the worst of the current best are appended after these, in any order, until local
    memory is full. Then all are sorted, the best first. No two candidates are equal, so the order of
    appending does not matter.
    """

    def __init__(self, k: KernelWriter, plan: TopKPlan):
        super().__init__(k, plan)
        self.plan, self.threads = plan, k.share.threads
        self.heap, self.used = k.share.local(8 * plan.tile), k.share.local(4)
        self.gathers = k.phase == 1  # reads the candidates of the pieces
        self.gives = plan.pieces > 1 and not k.phase  # writes candidates to scratch memory

    def together(self) -> None:
        f, plan = self.f, self.plan
        block = self.kernel.share.begin
        begin, line, end = f.index(0), block, f.index(plan.length)
        if self.gathers:
            end = f.index(plan.pieces * plan.k)
            self.base = f.mul(block, end)
        else:
            if self.gives:
                line = f.udiv(block, plan.pieces)
                begin = f.mul(f.urem(block, plan.pieces), plan.piece)
                end = f.smin(f.add(begin, plan.piece), plan.length)
            self.base = f.mul(line, plan.length)
        self.cleared(f.index(0), f.index(plan.best))
        with f.loop(begin, end, self.threads) as loop:
            self.gather(loop.index, end)
            count = self.gathered()
            with f.if_(f.icmp("sgt", count, plan.tile - self.threads)):
                self.sort(count)
        self.sort(self.gathered())
        self.give(block)

    def cleared(self, low: Ssa, high: Ssa) -> None:
        """Clears positions [low, high) of the candidates, and marks all positions after the best ones as
        free.
        """
        f = self.f
        with self.kernel.walk(low, high, 1) as loop:
            self.put(loop.index, f.const("i64", 0))
        with self.kernel.share.once():
            f.store(f.const("i32", self.plan.best), self.used, 4)
        self.kernel.share.barrier()

    def gather(self, first: Ssa, end: Ssa) -> None:
        """Appends those candidates that are better than the worst of the current best. Each thread reads one
        element: from `first` on, but none from `end` on.
        """
        f = self.f
        worst = self.at(f.index(self.plan.k - 1))
        with self.kernel.walk(first, f.smin(f.add(first, self.threads), end), 1) as loop:
            if self.gathers:
                place = f.gep("i64", self.kernel.scratch(), f.add(self.base, loop.index))
                candidate = f.load("i64", place, 8)
            else:
                candidate = self.candidate(loop.index)
            with f.if_(f.icmp("ugt", candidate, worst)):
                one = f.const("i32", 1)
                add = f'atomicrmw add {self.used!r}, {one!r} syncscope("device") monotonic'
                self.put(f.cast("zext", f.effect("i32", add), f.module.index_type), candidate)
        self.kernel.share.barrier()

    def gathered(self) -> Ssa:
        """The number of used positions. All threads read it before one of them uses or frees a position."""
        count = self.f.load("i32", self.used, 4)
        self.kernel.share.barrier()
        return self.f.cast("zext", count, self.f.module.index_type)

    def sort(self, count: Ssa) -> None:
        """Sorts the `count` candidates, the best first."""
        self.cleared(count, self.f.index(self.plan.tile))
        sort_network(self.kernel, self.plan.tile, self.plan.tile, self.exchange)

    def exchange(self, low: Ssa, high: Ssa) -> None:
        f = self.f
        a, b = self.at(low), self.at(high)
        better = f.icmp("ugt", b, a)
        self.put(low, f.select(better, b, a))
        self.put(high, f.select(better, a, b))

    def give(self, block: Ssa) -> None:
        """Writes the best candidates of piece number `block` to scratch memory or, in the last phase, stores
        those of line number `block` as results: their elements and positions.
        """
        f, values, count = self.f, self.values, self.count
        elements, places = (self.flat(o, count) for o in self.kernel.outputs)
        with self.kernel.walk(f.index(0), f.index(count), 1) as loop:
            best, here = self.at(loop.index), f.add(f.mul(block, count), loop.index)
            if self.gives:
                f.store(best, f.gep("i64", self.kernel.scratch(), here), 8)
            else:
                position = values.unary("not", Value(U32, 1, (f.cast("trunc", best, "i32"),)))
                base = f.mul(block, self.length)
                source = Index(f, f.add(base, values.to_index(position)))
                elements.store((Index(f, here),), self.elements.load((source,), 1))
                places.store((Index(f, here),), values.bitcast_convert(position, S32))
