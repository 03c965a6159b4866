"""The transpose emitter: square blocks go through registers, so that both reads and writes are contiguous.
Where threads share a step, blocks go through local memory.

Blocks of rows of the output are the parallel unit. Elements that are left over beside whole blocks are copied
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from axla.codegen.array import DenseArray
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, base_of, placed
from axla.codegen.kernel import KernelWriter, least, store
from axla.codegen.value import Value
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.kernels.transpose import TransposePlan


def emit(k: KernelWriter, plan: TransposePlan) -> None:
    """Writes the kernel of a `TransposePlan`."""
    if plan.tile:
        _Tiles(k, plan).emit()
    else:
        _Transpose(k, plan).emit()


class _Transpose:
    """Writes the kernel of a plan whose blocks go through registers."""

    def __init__(self, k: KernelWriter, plan: TransposePlan):
        self.k, self.f, self.lanes, self.block = k, k.f, plan.lanes, plan.block
        self.input_dims, self.permutation, self.steps = plan.input_dims, plan.permutation, plan.steps
        self.output_dims, self.outer, self.p, self.q = plan.output_dims, plan.outer, plan.p, plan.q
        self.heroes = [k.named[name] for name in plan.heroes]

    def output_index(self, outer: Sequence[AnyIndex], p: AnyIndex, q: AnyIndex) -> tuple[AnyIndex, ...]:
        return placed(len(self.output_dims), (self.outer, outer), ((self.p, self.q), (p, q)))

    def emit(self) -> None:
        f, k, lanes, dims = self.f, self.k, self.lanes, self.output_dims
        rows, columns = dims[self.p], dims[self.q]
        with k.steps(*self.steps) as (*outer, block):
            low = f.mul(base_of(f, block), self.block)
            high = f.smin(f.add(low, self.block), rows)
            whole_rows, whole_columns = rows - rows % lanes, columns - columns % lanes
            tiles_end = f.smin(high, whole_rows)
            with f.loop(0, whole_columns, self.block) as q_block:
                q_end = f.smin(f.add(q_block.index, self.block), whole_columns)
                with (
                    f.loop(low, tiles_end, lanes) as p,
                    f.loop(q_block.index, q_end, lanes, nonempty=True) as q,
                ):
                    self.tile(outer, p.index, q.index)
            if columns % lanes:
                self.singles(outer, (low, high), (f.index(whole_columns), f.index(columns)))
            if rows % lanes:
                rest = f.smax(low, whole_rows), high
                self.singles(outer, rest, (f.index(0), f.index(whole_columns)))

    def tile(self, outer: Sequence[AnyIndex], p: Ssa, q: Ssa) -> None:
        """Transposes a block of lanes x lanes elements: loads rows of the input, transposes them in
        registers, and writes rows of the output. `p` and `q` are the first indices of the block in the output
        dimensions p and q; `outer` has those in all others.
        """
        f, lanes, dims = self.f, self.lanes, self.output_dims
        wide = self.k.elements(lanes)
        loaded: list[list[Value]] = []
        for j in range(lanes):
            along_p = Index(f, p, 1, lanes, multiple=lanes, limit=dims[self.p])
            column = Index(f, f.add(q, j), limit=dims[self.q])
            output = self.output_index(outer, along_p, column)
            at = placed(len(output), (self.permutation, output))
            loaded.append([wide.values.splat(self.below(wide, hero, at), lanes) for hero in self.heroes])
        columns = [transposed(f, rows) for rows in zip(*loaded, strict=True)]
        for r in range(lanes):
            row = Index(f, f.add(p, r), limit=dims[self.p])
            along_q = Index(f, q, 1, lanes, multiple=lanes, limit=dims[self.q])
            e = self.k.elements(lanes)
            for hero, values in zip(self.heroes, columns, strict=True):
                e.bind(hero, values[r])
            self.store(e, self.output_index(outer, row, along_q))

    def below(self, e: Elements, hero: Instruction, at: tuple[AnyIndex, ...]) -> Value:
        """The value of the hero's operand at index `at` of the collapsed input."""
        operand = hero.operands[0]
        return e(operand, reshape_index(at, self.input_dims, operand.shape.dims))

    def store(self, e: Elements, at: tuple[AnyIndex, ...]) -> None:
        self.k.write(e, at, self.output_dims)

    def singles(self, outer: Sequence[AnyIndex], rows: tuple[Ssa, Ssa], columns: tuple[Ssa, Ssa]) -> None:
        """Copies elements one by one: those at `rows` of output dimension p and `columns` of output dimension
        q, each a range (first, end).
        """
        f, dims = self.f, self.output_dims
        if columns[0].constant is not None and columns[0].constant == columns[1].constant:
            return
        with f.loop(rows[0], rows[1], 1) as p, f.loop(columns[0], columns[1], 1) as q:
            row = Index(f, p.index, limit=dims[self.p])
            column = Index(f, q.index, limit=dims[self.q])
            self.store(self.k.elements(1), self.output_index(outer, row, column))


BATCH = 8
"""The number of elements that a thread reads before it writes the first of them."""


class _Tiles(_Transpose):
    """Writes the kernel for threads that share a tile of (p, q): they read it along p, store it in local
    memory, and write it along q. Positions outside of the array are read as its last element, and not
    written.
    """

    def __init__(self, k: KernelWriter, plan: TransposePlan):
        super().__init__(k, plan)
        self.tile_dims = plan.tile

    def emit(self) -> None:
        k, (p_size, q_size) = self.k, self.tile_dims
        # Rows have one element more than the tile, so that neighbouring threads access different banks.
        tiles = [k.local_array(shape_of(hero).dtype, (q_size, p_size + 1)) for hero in self.heroes]
        with k.steps(*self.steps) as (*outer, p_block, q_block):
            start = p_block * p_size, q_block * q_size
            with self.batches() as numbers:
                self.fill(tiles, outer, start, numbers)
            k.share.barrier()
            with self.batches() as numbers:
                self.drain(tiles, outer, start, numbers)

    @contextmanager
    def batches(self) -> Iterator[list[Index]]:
        """Yields the numbers of this thread's elements in the tile, a few at a time; neighbouring threads
        have neighbouring elements.
        """
        f, threads, size = self.f, self.k.share.threads, self.tile_dims[0] * self.tile_dims[1]
        batch = min(BATCH, size // threads)
        own = self.k.share.start(f.index(0), 1)
        if batch * threads == size:
            yield [Index(f, f.add(own, n * threads), limit=size) for n in range(batch)]
            return
        with f.loop(own, size, batch * threads, nonempty=True) as loop:
            yield [Index(f, f.add(loop.index, n * threads), limit=size) for n in range(batch)]

    def within(self, start: AnyIndex, offset: AnyIndex, dim: int, tile: int) -> Index:
        """The index `start + offset` in output dimension `dim`, or the last index of the dimension if that is
        lower. `tile` is the size of the tile in this dimension.
        """
        f, size = self.f, self.output_dims[dim]
        at = f.add(base_of(f, start), base_of(f, offset))
        return Index(f, least(f, at, size - 1, needed=size % tile != 0), limit=size)

    def fill(self, tiles: list[DenseArray], outer: list, start: tuple, numbers: list[Index]) -> None:
        e, (p_size, q_size) = self.k.elements(1), self.tile_dims
        found = []
        for number in numbers:
            place = number // p_size, number % p_size
            q = self.within(start[1], place[0], self.q, q_size)
            p = self.within(start[0], place[1], self.p, p_size)
            at = placed(len(self.output_dims), (self.permutation, self.output_index(outer, p, q)))
            found.extend(
                (tile, place, self.below(e, hero, at)) for tile, hero in zip(tiles, self.heroes, strict=True)
            )
        for tile, place, value in found:
            tile.store(place, value)

    def drain(self, tiles: list[DenseArray], outer: list, start: tuple, numbers: list[Index]) -> None:
        k, (p_size, q_size) = self.k, self.tile_dims
        found = []
        for number in numbers:
            place = number // q_size, number % q_size
            p = self.within(start[0], place[0], self.p, p_size)
            q = self.within(start[1], place[1], self.q, q_size)
            e = k.elements(1)
            for tile, hero in zip(tiles, self.heroes, strict=True):
                e.bind(hero, tile.load((place[1], place[0]), 1))
            found.append((place, k.computed(e, self.output_index(outer, p, q), self.output_dims)))
        for place, values in found:
            with self.inside(start, place):
                store(values)

    def inside(self, start: tuple, place: tuple) -> AbstractContextManager[None]:
        """Opens code that runs only if an element of the tile is in the array. `start` is the (p, q) index at
        which the tile begins, `place` the index of the element within the tile.
        """
        f = self.f
        found = None
        for first, offset, dim, tile in zip(start, place, (self.p, self.q), self.tile_dims, strict=True):
            if self.output_dims[dim] % tile:
                at = f.add(base_of(f, first), base_of(f, offset))
                here = f.icmp("slt", at, self.output_dims[dim])
                found = here if found is None else f.binary("and", found, here)
        return nullcontext() if found is None else f.if_(found)
