"""Writes matrix multiplications by thread blocks, which load slices of the operands to local memory.

A block computes a tile of the result, slice by slice of k. Local memory has two halves: while the slice in
one half is multiplied, the next slice is loaded from global memory through registers into the other; one
barrier for each slice.

    bring slice 0;  barrier
    for slice:  load the next one;  multiply this one;  store the next one;  barrier
    for part of the tile:  sums to local memory;  barrier;  ops after the product, element by element

The sums of an element are taken in the order of k. Where groups of threads share a slice, each takes its part
of all slices, and the sums of the groups are added in their order. Nothing depends on the timing of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.array import element_address
from axla.codegen.emit.product import Matrix, Product
from axla.codegen.function import Ssa
from axla.codegen.kernel import KernelWriter
from axla.codegen.nvptx import WARP, ThreadBlock
from axla.codegen.value import Value, merged, parts_of, rebuilt
from axla.core.dataclass import dataclass
from axla.core.dtypes import PRED, U16, U32, DType
from axla.kernels.blocks import SQUARE, BlockCut, Staging, neighbours
from axla.kernels.dot import DotPlan

TileSum = tuple[int, Ssa, Ssa, Value]
"""Finished sums of a thread: the number of the tile's part that contains them, their row and first column in
it, and their values.
"""


class MatrixOffsets:
    """A matrix in memory. The offset of an element is the sum of an offset for its k and one for its row of
    lhs, or column of rhs.
    """

    start: Ssa

    def across(self, x: Ssa) -> Ssa:
        """The offset of a row of lhs, or of a column of rhs."""
        raise NotImplementedError

    def along(self, k: Ssa) -> Ssa:
        """The offset of an index along k."""
        raise NotImplementedError


class Dense(MatrixOffsets):
    """A matrix with constant strides; `along_k`: elements with neighbouring k are adjacent."""

    def __init__(self, matrix: Matrix, *, along_k: bool):
        self.start, self._f = matrix.start, matrix.sums.f
        self._strides = (matrix.stride, 1) if along_k else (1, matrix.stride)

    def across(self, x: Ssa) -> Ssa:
        """The offset of a row of lhs, or of a column of rhs."""
        return self._f.mul(x, self._strides[0])

    def along(self, k: Ssa) -> Ssa:
        """The offset of a position along k."""
        return self._f.mul(k, self._strides[1])


@dataclass(frozen=True)
class _Slot:
    """A vector of an operand's slice that one thread loads. `start` is its offset in the operand for the
    slice at k = 0, `k` its k within the slice, `place` its index in local memory.
    """

    start: Ssa
    k: Ssa
    place: Ssa


class TileSide:
    """Loads and stores a block's part of the slices of one operand.

    `first` is the row of lhs, or the column of rhs, at which the block begins; `total` is the number of all
    rows or columns.
    """

    def __init__(
        self, product: Blocks, operand: MatrixOffsets, staging: Staging, first: Ssa, total: int, base: int
    ):
        self.product, self.f, self.values = product, product.f, product.values
        self.operand, self.staging, self.base = operand, staging, base
        self.first, self.total = first, total
        self.slots = [self._slot(n) for n in range(-(-staging.vectors // product.cut.threads))]

    def _slot(self, number: int) -> _Slot:
        f, staging, threads = self.f, self.staging, self.product.cut.threads
        vector = f.add(self.product.thread, number * threads)
        if staging.vectors < threads:  # several threads load the same vector
            vector = f.urem(vector, staging.vectors)
        per_line = staging.minor // staging.lanes
        major, minor = f.udiv(vector, per_line), f.mul(f.urem(vector, per_line), staging.lanes)
        x, k = (major, minor) if staging.along_k else (minor, major)
        at = f.add(self.first, x)
        if self.total % staging.extent:  # loads beyond the edge are clamped; the sums there are not used
            at = f.smin(at, self.total - (1 if staging.along_k else staging.lanes))
        return _Slot(self.operand.across(at), k, self.product.placed(staging, x, k))

    def load(self, first: Ssa) -> list[Value]:
        """Loads this thread's part of the slice that begins at `first` of k; zeros beyond the last k."""
        f, values, spec = self.f, self.values, self.product.spec
        step = self.staging.lanes if self.staging.along_k else 1
        found = []
        for slot in self.slots:
            k = f.add(first, slot.k)
            inside = f.icmp("slt", k, spec.k)
            cut = spec.k % self.product.cut.depth != 0
            k = f.smin(k, spec.k - step) if cut else k
            index = f.add(slot.start, self.operand.along(k))
            value = self.product.fetch(self.operand.start, index, self.staging.lanes)
            if cut:
                zero = values.constant(value.dtype, 0, value.lanes)
                value = values.select(Value(PRED, 1, (inside,)), value, zero)
            found.append(value)
        return found

    def store(self, half: Ssa, loaded: Sequence[Value]) -> None:
        """Stores loaded vectors in the half of local memory that begins at byte `half`."""
        for slot, value in zip(self.slots, loaded, strict=True):
            self.product.put(self, half, slot.place, value)

    def address(self, half: Ssa, place: Ssa | int) -> Ssa:
        """The address of element `place` in the half of local memory that begins at byte `half`."""
        f = self.f
        start = f.gep("i8", self.product.local, f.add(half, self.base))
        return f.gep(f"[{self.staging.size} x i8]", start, place)


class Blocks(Product):
    """Writes the kernel of a plan with a `BlockCut`. Subclasses define how sums and slices are
    represented.
    """

    cut: BlockCut

    def __init__(self, k: KernelWriter, plan: DotPlan):
        super().__init__(k, plan)
        f, cut = self.f, self.cut
        assert isinstance(k.share, ThreadBlock)
        self.share, self.thread = k.share, k.share.thread
        self.local = self.share.local(cut.local_bytes)
        f.attributes += ' "nvvm.minctasm"="2"'  # two blocks fit: one multiplies while one waits
        team = self._team()
        self.across = f.urem(team, cut.across)
        self.down = f.urem(f.udiv(team, cut.across), cut.down)
        self.group = f.udiv(team, cut.across * cut.down)

    def _team(self) -> Ssa:
        """The number, within the block, of this thread or of its warp, whichever of them computes a register
        tile.
        """
        raise NotImplementedError

    def placed(self, staging: Staging, x: Ssa, k: Ssa) -> Ssa:
        """The index in local memory of an element, given its row of lhs or column of rhs and its k."""
        raise NotImplementedError

    def fetch(self, start: Ssa, index: Ssa, lanes: int) -> Value:
        """Loads `lanes` elements of an operand, from element `index` of the array at `start` on, in the form
        in which local memory holds them.
        """
        raise NotImplementedError

    def put(self, side: TileSide, half: Ssa, place: Ssa, value: Value) -> None:
        """Stores the result of `fetch` at element `place` in a half of local memory."""
        raise NotImplementedError

    def zeros(self) -> list[Value]:
        """The sums of a thread before the first slice."""
        raise NotImplementedError

    def multiply(self, sides: Sequence[TileSide], half: Ssa, sums: Sequence[Value]) -> Sequence[Value]:
        """Adds the products of a slice to the sums; the slice is in the half of local memory that begins at
        byte `half`.
        """
        raise NotImplementedError

    def finished(self, sums: Sequence[Value]) -> list[TileSum]:
        """The sums of a thread with their positions in the tile."""
        raise NotImplementedError

    # -- the kernel ----------------------------------------------------------------------------------------

    def emit(self) -> None:
        """Writes the loop over tiles of the result. An iteration computes the sums over all slices of k, and
        stores the tile.
        """
        f, spec, cut = self.f, self.spec, self.cut
        with self.share.steps() as unit:
            stripes, panels = -(-spec.m // cut.rows), -(-spec.n // cut.columns)
            row = f.mul(f.urem(unit, stripes), cut.rows)
            rest = f.udiv(unit, stripes)
            col = f.mul(f.urem(rest, panels), cut.columns)
            batch = f.udiv(rest, panels)
            lhs, rhs = self.operands(batch)
            sides = [
                TileSide(self, lhs, cut.lhs, row, spec.m, 0),
                TileSide(self, rhs, cut.rhs, col, spec.n, cut.lhs.bytes),
            ]
            self._finish(self._accumulate(sides), batch, row, col)

    def operands(self, batch: Ssa) -> tuple[MatrixOffsets, MatrixOffsets]:
        """The operands (lhs, rhs) of product number `batch`."""
        lhs, rhs = self.matrices(batch)
        return Dense(lhs, along_k=self.cut.lhs.along_k), Dense(rhs, along_k=self.cut.rhs.along_k)

    def _accumulate(self, sides: Sequence[TileSide]) -> Sequence[Value]:
        """Computes the sums over all slices."""
        f, cut, share = self.f, self.cut, self.share
        slices, zeros, start = -(-self.spec.k // cut.depth), self.zeros(), f.index(0)
        for side in sides:
            side.store(start, side.load(start))
        share.barrier()
        if slices == 1:
            found = self.multiply(sides, start, zeros)
            share.barrier()
            return found
        with f.loop(0, slices, 1, parts_of(zeros)) as loop:
            half = f.mul(f.binary("and", loop.index, f.index(1)), cut.half_bytes)
            branch = f.branch(f.icmp("slt", loop.index, slices - 1))
            with branch.then():
                first = f.mul(f.add(loop.index, 1), cut.depth)
                loaded = [value for side in sides for value in side.load(first)]
            none = [Value(v.dtype, v.lanes, tuple(f.undef(x.type) for x in v.parts)) for v in loaded]
            loaded = merged(branch, loaded, none)
            sums = self.multiply(sides, half, rebuilt(zeros, loop.carried))
            for side in sides:
                side.store(f.sub(cut.half_bytes, half), loaded[: len(side.slots)])
                loaded = loaded[len(side.slots) :]
            share.barrier()
            loop.yield_(parts_of(sums))
        return rebuilt(zeros, loop.results)

    def _finish(self, sums: Sequence[Value], batch: Ssa, row: Ssa, col: Ssa) -> None:
        """Writes the results of the tile, in parts that fit in local memory: neighbouring threads then have
        neighbouring columns, and the ops after the product are emitted once.
        """
        cut, parts = self.cut, self.finished(sums)
        for number in range(cut.rows // cut.part_rows):
            if number:
                self.share.barrier()
            for part, r, c, value in parts:
                if part == number:
                    at = self.f.add(self.f.mul(r, cut.columns), c)
                    self.values.store(value, self._sum(self.group, at), align=self._aligned(value.lanes))
            self.share.barrier()
            self._give_part(batch, self.f.add(row, number * cut.part_rows), col)

    def _give_part(self, batch: Ssa, row: Ssa, col: Ssa) -> None:
        """Computes and stores the results of one part of the tile, whose sums are in local memory. The part
        begins at row `row` and column `col` of matrix number `batch`.
        """
        f, cut, spec = self.f, self.cut, self.spec
        with self.k.walk(f.index(0), f.index(cut.part_rows * cut.columns), 1) as loop:
            at_row = f.add(row, f.udiv(loop.index, cut.columns))
            at_col = f.add(col, f.urem(loop.index, cut.columns))
            inside = [f.icmp("slt", at_row, spec.m)] if spec.m % cut.rows else []
            inside += [f.icmp("slt", at_col, spec.n)] if spec.n % cut.columns else []
            with f.if_(f.binary("and", inside[0], inside[-1]) if inside else f.const("i1", True)):
                total = self.values.load(self.dtype, self._sum(f.index(0), loop.index), 1)
                for group in range(1, cut.groups):
                    more = self.values.load(self.dtype, self._sum(f.index(group), loop.index), 1)
                    total = self.add(total, more)
                self.give(total, batch, at_row, at_col)

    def _sum(self, group: Ssa, place: Ssa) -> Ssa:
        """The address in local memory of a sum: that of group `group` of threads at position `place` of the
        part.
        """
        at = self.f.add(self.f.mul(group, self.cut.part_rows * self.cut.columns), place)
        return element_address(self.f, self.local, self.dtype, at)

    def _aligned(self, lanes: int) -> int:
        return min(16, lanes * self.dtype.itemsize)


class Threads(Blocks):
    """A product in which each thread multiplies and adds numbers in the sums' type, for a few rows and
    columns.

    A slice is stored in local memory by k, so that neighbouring rows of lhs, or columns of rhs, are one
    access.
    """

    def _team(self) -> Ssa:
        return self.thread

    def placed(self, staging: Staging, x: Ssa, k: Ssa) -> Ssa:
        """The index of an element in local memory, where neighbours are rows or columns of one k."""
        return self.f.add(self.f.mul(k, staging.pitch), x)

    def fetch(self, start: Ssa, index: Ssa, lanes: int) -> Value:
        """Loads elements and converts them to the type of sums."""
        dtype, values = self.spec.dtype, self.values
        address = element_address(self.f, start, dtype, index)
        return values.convert(values.load(dtype, address, lanes, align=lanes * dtype.itemsize), self.dtype)

    def put(self, side: TileSide, half: Ssa, place: Ssa, value: Value) -> None:
        """Stores a vector, or its lanes one by one if they are neighbours in k."""
        address = side.address(half, place)
        if not side.staging.along_k:
            self.values.store(value, address, align=self._aligned(value.lanes))
            return
        for lane in range(value.lanes):
            at = element_address(self.f, address, self.dtype, lane * side.staging.pitch)
            self.values.store(self.values.lane(value, lane), at)

    def zeros(self) -> list[Value]:
        """A zero for each element of the thread's tile."""
        return [self.zero(1)] * (self.tile.rows * self.tile.columns)

    def multiply(self, sides: Sequence[TileSide], half: Ssa, sums: Sequence[Value]) -> Sequence[Value]:
        """Adds the products of all pairs of a row and a column, one step of k after the other."""
        for step in range(self.cut.depth // self.cut.groups):
            a = self._read(sides[0], half, step, self.tile.rows, self.down, self.cut.down)
            b = self._read(sides[1], half, step, self.tile.columns, self.across, self.cut.across)
            pairs = [(x, y) for x in a for y in b]
            sums = [self.multiply_add(x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]
        return sums

    def _read(self, side: TileSide, half: Ssa, step: int, count: int, number: Ssa, teams: int) -> list[Value]:
        """Loads this thread's `count` elements for step `step` of k: vectors of adjacent elements, between
        which lie those of the other threads. The block's rows of lhs, or columns of rhs, are divided among
        `teams` threads; this is number `number`.
        """
        f, pitch, lanes = self.f, side.staging.pitch, neighbours(self.spec, count)
        steps = self.cut.depth // self.cut.groups
        first = f.add(f.mul(self.group, steps * pitch), f.mul(number, lanes))
        start = side.address(half, first)
        found = []
        for vector in range(count // lanes):
            place = element_address(f, start, self.dtype, step * pitch + vector * teams * lanes)
            value = self.values.load(self.dtype, place, lanes, align=self._aligned(lanes))
            found += [self.values.lane(value, lane) for lane in range(lanes)]
        return found

    def finished(self, sums: Sequence[Value]) -> list[TileSum]:
        """The sums of a thread as vectors of neighbouring columns."""
        f, cut, wide = self.f, self.cut, self.tile.columns
        high, lanes = (neighbours(self.spec, count) for count in (self.tile.rows, wide))
        found = []
        for number in range(0, len(sums), lanes):
            i, j = divmod(number, wide)
            r = f.add(f.mul(self.down, high), i % high)
            c = f.add(f.mul(self.across, lanes), j * cut.across)
            found.append((i // high, r, c, self.values.join(sums[number : number + lanes])))
        return found


class Warps(Blocks):
    """A product in which each warp multiplies matrices of 16 x 16 16-bit floats by tensor core instructions,
    with sums in f32.

    A slice is stored in local memory in the operand's order, and transposed when it is read, if needed.
    """

    def _team(self) -> Ssa:
        return self.f.udiv(self.thread, WARP)

    def placed(self, staging: Staging, x: Ssa, k: Ssa) -> Ssa:
        """The index of an element in local memory, where neighbours are neighbours in the operand too."""
        major, minor = (x, k) if staging.along_k else (k, x)
        return self.f.add(self.f.mul(major, staging.pitch), minor)

    def fetch(self, start: Ssa, index: Ssa, lanes: int) -> Value:
        """Loads 16-bit elements as words, without conversion."""
        address = element_address(self.f, start, U16, index)
        dtype = _word(lanes)
        return self.values.load(dtype, address, 2 * lanes // dtype.itemsize, align=2 * lanes)

    def put(self, side: TileSide, half: Ssa, place: Ssa, value: Value) -> None:
        """Stores words of 16-bit elements."""
        self.values.store(value, side.address(half, place), align=value.lanes * value.dtype.itemsize)

    def zeros(self) -> list[Value]:
        """A zero for each element of the warp's tile whose sum this thread computes."""
        return [self.zero(1)] * (self.tile.rows * self.tile.columns // WARP)

    def multiply(self, sides: Sequence[TileSide], half: Ssa, sums: Sequence[Value]) -> Sequence[Value]:
        """Adds the products of 16 x 16 squares of lhs and rhs, by tensor cores."""
        share, tile, total = self.share, self.tile, [value.ssa for value in sums]
        for k in range(0, self.cut.depth, SQUARE):
            a = [
                self._squares(sides[0], half, k, n, self.down, self.cut.down)
                for n in range(tile.rows // SQUARE)
            ]
            b = [
                self._squares(sides[1], half, k, n, self.across, self.cut.across)
                for n in range(tile.columns // SQUARE)
            ]
            # Words 0 and 2 of a square of rhs are its left eight columns.
            pairs = [(x, (y[n], y[n + 2])) for x in a for y in b for n in range(2)]
            for number, (x, y) in enumerate(pairs):
                at = slice(4 * number, 4 * number + 4)
                total[at] = share.multiply_halves(self.spec.dtype, x, y, total[at])
        return [Value(self.dtype, 1, (x,)) for x in total]

    def _squares(self, side: TileSide, half: Ssa, k: int, number: int, team: Ssa, teams: int) -> list[Ssa]:
        """Loads block number `number` of 16 x 16 elements for this warp, from step `k` of the slice on;
        returns the four words of this thread. The rows of lhs, or columns of rhs, are divided among `teams`
        warps; this is number `team`.
        """
        f, staging = self.f, side.staging
        lane = f.urem(self.thread, WARP)
        far = f.mul(f.udiv(lane, SQUARE), 8)
        if staging.along_k:
            x, at = f.urem(lane, SQUARE), far
        else:
            x, at = f.binary("and", lane, f.index(8)), f.add(far, f.urem(lane, 8))
        place = self.placed(staging, f.add(f.mul(team, SQUARE), x), at)
        further = self.placed(staging, f.index(number * teams * SQUARE), f.index(k))
        row = side.address(half, f.add(place, further))
        return self.share.squares(row, transposed=not staging.along_k)

    def finished(self, sums: Sequence[Value]) -> list[TileSum]:
        """The sums of a thread as pairs of columns, as tensor cores distribute them."""
        f, cut = self.f, self.cut
        lane = f.urem(self.thread, WARP)
        found = []
        for number in range(0, len(sums), 2):
            rest, lower = divmod(number // 2, 2)
            i, j = divmod(rest, self.tile.columns // 8)
            r = f.add(f.add(f.mul(self.down, SQUARE), f.udiv(lane, 4)), 8 * lower)
            c = f.add(f.add(f.mul(self.across, SQUARE), f.mul(f.urem(lane, 4), 2)), j % 2 * 8)
            c = f.add(c, j // 2 * SQUARE * cut.across)
            found.append((i, r, c, self.values.join(sums[number : number + 2])))
        return found


def _word(lanes: int) -> DType:
    return U16 if lanes == 1 else U32
