"""Writes chains of reductions over the trailing dimensions, such as softmax and layer norm, row by row.

A row is read from memory once and stays in cache while the stages process it: the reduces of each stage in
one pass, then one pass that writes. Expensive values of a row that a later pass needs again are stored
(stashed) where an output row will be written. Where a maximum is followed by the search for its first
position (`argmax`), the first pass records, lane by lane, in which chunk of the row it occurred first, and
only that chunk is searched. A reduction of everything (or of a few long rows) is split into pieces by shape:
phase 0 reduces pieces into scratch memory, phase 1 combines them in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import gcd

import axla.hlo as hlo
from axla.codegen.array import DenseArray
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.loop import vectors
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, delinearize
from axla.codegen.kernel import KernelWriter, store
from axla.codegen.reduction import Reduction, combined, folded, registers, scratch_arrays
from axla.codegen.value import Value, ValueGroup, parts_of, rebuilt
from axla.core.dtypes import BF16, PRED, S32
from axla.core.shape import Shape
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.kernels.kind import is_costly
from axla.kernels.plan import Space
from axla.kernels.reduce import RowPlan, searched

CHUNK = 8
"""The number of vectors in a chunk of a row; the position of the row's maximum is searched for in one chunk.
"""

S32_MOST = (1 << 31) - 1
MOST_HELD = 8
"""The largest number of vectors of a row that a thread holds in registers from its first pass to its last,
instead of reading them again.
"""


def emit(k: KernelWriter, plan: RowPlan) -> None:
    """Writes the kernels of a `RowPlan`."""
    if plan.pieces > 1:
        return _emit_combine(k, plan) if k.phase else _emit_parts(k, plan)
    with _rows(k, plan) as number:
        row = _Row(k, plan, number, plan.lanes)
        for number, stage in enumerate(row.stages):
            row.reduce(_reductions(k, stage), *row.span(stage), row.stash_plan(number))
        row.write_rows()
        row.write_full()


def _reductions(k: KernelWriter, stage: Sequence[Instruction]) -> list[Reduction]:
    return [Reduction(inst, mirrored=k.target.has_ordered_maximum) for inst in stage]


@contextmanager
def _rows(k: KernelWriter, plan: RowPlan) -> Iterator[Index]:
    """Writes a loop over the rows of this call; yields their numbers."""
    f, beside, count = k.f, plan.beside, plan.row_count
    with k.share.steps() as step:
        if beside == 1:
            yield Index(f, step, limit=count)
            return
        number = f.add(f.mul(step, beside), k.share.split(k.share.threads // beside))
        with f.if_(f.icmp("slt", number, count)) if count % beside else nullcontext():
            yield Index(f, number, limit=count)


class _Row:
    """Writes code for one row of a kernel; has the reduction results so far and the stashed values."""

    def __init__(self, k: KernelWriter, plan: RowPlan, row: Index, lanes: int):
        self.k = k
        self.plan = plan
        self.stages = [[k.named[name] for name in stage] for stage in plan.stages]
        self.row = row
        self.lanes = lanes
        self.known: dict[Instruction, tuple[Value, ...]] = {}
        self.stashed: dict[Instruction, DenseArray] = {}
        self.row_index = delinearize(row, plan.rows) if plan.rows else ()
        self.space = (*plan.rows, *plan.columns)
        self.chunk = lanes * CHUNK
        self.starts: dict[Instruction, Ssa] = {}
        """For a maximum or minimum: the first column of the first chunk that contains it."""
        self.held: list[tuple[Index, Ssa | None]] = []
        if k.share.threads > 1 and plan.pieces == 1:
            self.held = self._held()
        self.kept = k.elements(lanes)

    def _held(self) -> list[tuple[Index, Ssa | None]]:
        """The columns that a thread keeps in registers, each with the condition that it exists (None: it
        always does); missing columns repeat the last one. Empty where there are too many, or where columns
        must be combined in order.
        """
        f, lanes, size, threads = self.k.f, self.lanes, self.plan.row_size, self.k.share.threads
        together = lanes * threads
        parts = -(-size // together)
        ordered = not all(Reduction(inst).any_order for stage in self.stages for inst in stage)
        if parts > MOST_HELD or ordered or size % lanes:
            return []
        found: list[tuple[Index, Ssa | None]] = []
        for number in range(parts):
            base, inside = f.add(self.k.share.start(f.index(0), lanes), number * together), None
            if (number + 1) * together > size:
                inside, base = f.icmp("slt", base, size), f.smin(base, size - lanes)
            found.append((self._column(base, 0, lanes), inside))
        return found

    def elements(self, lanes: int) -> Elements:
        e = self.k.elements(lanes)
        for inst, values in self.known.items():
            e.bind(inst, values)
        for inst, array in self.stashed.items():
            e.bind(inst, array)
        return e

    def at(self, column: AnyIndex) -> tuple[AnyIndex, ...]:
        """The index of a column of this row in the space of the kernel."""
        return (*self.row_index, *delinearize(column, self.plan.columns))

    def index(self, column: AnyIndex, dims: Sequence[int]) -> tuple[AnyIndex, ...]:
        """The index into a value of shape `dims` for a column of this row."""
        return reshape_index(self.at(column), self.space, dims)

    def stash_plan(self, stage: int) -> dict[Instruction, DenseArray]:
        """The expensive row values that stage `stage` computes and that later passes read again, with the
        output that stores each of them.

        Only an output that is written in the last pass, has the same type and shape, and shares no memory can
        store one. A root computed from an expensive value is stored where it will be written.
        """
        k, plan = self.k, self.plan
        taken = set(map(id, self.stashed.values()))
        outputs = [output for number in plan.full_roots for output in k.outputs_of(number)]
        free = [output for output in outputs if not k.kernel.in_place and id(output) not in taken]
        if not free:
            return {}
        now = _below([x for inst in self.stages[stage] for x in inst.operands], self.known)
        found: dict[Instruction, DenseArray] = {}
        for number in plan.full_roots:
            root, output = k.roots[number], k.outputs_of(number)[0]
            new = root in now and root not in self.stashed and output in free
            if new and any(map(is_costly, _below([root], {**self.known, **self.stashed}))):
                found[root] = output
                free.remove(output)
        later_roots = [x for s in self.stages[stage + 1 :] for inst in s for x in inst.operands]
        known = {**self.known, **found, **dict.fromkeys(self.stages[stage], ())}
        later = _below([*later_roots, *k.roots], known)
        for inst in now:
            shape = inst.shape
            if (
                not is_costly(inst)
                or inst not in later
                or inst in self.stashed
                or not isinstance(shape, Shape)
            ):
                continue
            match = next((a for a in free if a.dtype is shape.dtype and a.dims == shape.dims), None)
            if match is not None and shape.size == plan.row_count * plan.row_size:
                found[inst] = match
                free.remove(match)
        return found

    def reduce(
        self, reductions: Sequence[Reduction], low: Ssa, size: int, stash: dict[Instruction, DenseArray]
    ) -> dict[Instruction, tuple[Value, ...]]:
        """Reduces columns [low, low + size) of the row and records the results."""
        if self.held:
            accumulated, stash = self._accumulate_held(reductions), {}
        elif self._is_searched_for(reductions):
            accumulated, stash = [self._by_chunks(*reductions)], {}
        else:
            accumulated = self.accumulate(reductions, low, size, stash)
        e = self.elements(1)
        for r, values in zip(reductions, accumulated, strict=True):
            self.known[r.inst] = r.finish(e, values)
            self.kept.bind(r.inst, self.known[r.inst])
        self.stashed.update(stash)
        return self.known

    def _accumulate_held(self, reductions: Sequence[Reduction]) -> list[ValueGroup]:
        """Combines the columns that threads keep in registers; the values computed for them are available in
        later passes.
        """
        e, count, values = self.kept, len(reductions), self.k.values
        found = self._values(e, reductions, [column for column, _ in self.held], {})
        current = found[:count]
        for number, (_, inside) in enumerate(self.held[1:], 1):
            joined = combined(e, reductions, current, found[number * count : (number + 1) * count])
            if inside is not None:
                here = Value(PRED, 1, (inside,))
                pairs = [zip(a, b, strict=True) for a, b in zip(joined, current, strict=True)]
                joined = [tuple(values.select(here, a, b) for a, b in pair) for pair in pairs]
            current = joined
        return self._together(reductions, current)

    def _together(self, reductions: Sequence[Reduction], current: Sequence[ValueGroup]) -> list[ValueGroup]:
        """Combines the partial results of lanes and threads."""
        wide = self.elements(self.lanes)
        single = [r.across_lanes(wide, v) for r, v in zip(reductions, current, strict=True)]
        return self.across_threads(reductions, single)

    def across_threads(
        self, reductions: Sequence[Reduction], current: Sequence[ValueGroup]
    ) -> list[ValueGroup]:
        """Combines the partial results of threads."""
        e = self.elements(1)
        pairs = zip(reductions, current, strict=True)
        return [self.k.share.combine(v, lambda a, b, r=r: r.combine(e, a, b)) for r, v in pairs]

    def accumulate(
        self, reductions: Sequence[Reduction], low: Ssa, size: int, stash: dict[Instruction, DenseArray]
    ) -> list[tuple[Value, ...]]:
        """Combines the columns [low, low + size). Initial values take part only if a combiner depends on the
        order: then columns are combined in order, from the initial values on.
        """
        f, lanes, share = self.k.f, self.lanes, self.k.share
        if not all(r.any_order for r in reductions):
            return self._in_order(reductions, low, size, stash)
        together = lanes * share.threads  # columns that are read at once
        unroll = next((u for u in self._unrolls(reductions) if size >= 2 * u * together), 1)
        chunk = together * unroll
        e = self.elements(lanes)

        read = [x for r in reductions for x in r.inputs]
        pairs = not stash and unroll > 1 and share.threads == 1 and self._in_pairs(read)

        def new(at: Ssa) -> list[ValueGroup]:
            return self._values(e, reductions, self._columns(at, chunk, pairs=pairs), stash)

        own = share.start(low, lanes)
        current, whole = new(own), size // chunk * chunk
        if whole > chunk:
            start, stop = f.add(own, chunk), f.add(own, whole)
            loop = f.loop(start, stop, chunk, registers(current), nonempty=True)
            current = folded(e, [*reductions] * unroll, loop, current, new)
        aligned = size // lanes * lanes
        first = _joined(e, reductions, current)
        current = self._rest(e, reductions, (low, whole, aligned), self.k.walk, first, stash)
        single = self._together(reductions, current)
        return self._rest(self.elements(1), reductions, (low, aligned, size), f.loop, single, stash)

    def span(self, stage: Sequence[Instruction]) -> tuple[Ssa, int]:
        """(first column, number of columns) that a stage must reduce: one chunk if it searches for the
        position of a maximum or minimum found before, else the row.
        """
        extreme = searched(stage[0]) if len(stage) == 1 else None
        if extreme is not None and extreme in self.starts:
            return self.starts[extreme], self.chunk
        return self.k.f.index(0), self.plan.row_size

    def _is_searched_for(self, reductions: Sequence[Reduction]) -> bool:
        """Whether there is one reduction, a maximum or minimum, and another stage only searches for its first
        position.
        """
        plan, first = self.plan, reductions[0].inst
        size_fits = 4 * self.chunk <= plan.row_size <= S32_MOST
        if len(reductions) > 1 or plan.full_roots or self.k.share.threads > 1 or not size_fits:
            return False
        return any(len(stage) == 1 and searched(stage[0]) is first for stage in self.stages)

    def _by_chunks(self, r: Reduction) -> ValueGroup:
        """Computes the maximum, or minimum, of the row. Each lane also keeps the start of the chunk that
        contained its own extreme first; the lowest such start, among the lanes that have the row's extreme,
        is recorded in `starts`. The last chunk may overlap the one before it.
        """
        f, values, lanes, size = self.k.f, self.k.values, self.lanes, self.plan.row_size
        e, pairs = self.elements(lanes), self._in_pairs(r.inputs)

        def chunk(at: Ssa) -> Value:
            columns = self._columns(at, self.chunk, pairs=pairs)
            ((found,),) = _joined(e, [r], self._values(e, [r], columns, {}))
            return found

        def start(at: Ssa) -> Value:
            return values.splat(values.from_index(at, S32), lanes)

        def further(current: ValueGroup, at: Ssa) -> ValueGroup:
            most, first = current
            (now,) = r.combine(e, (most,), (chunk(at),))
            differs = values.compare(Direction.NE, now, most)
            grows = values.binary("and", differs, values.compare(Direction.EQ, most, most))  # not after NaN
            return now, values.select(grows, start(at), first)

        current, whole = (chunk(f.index(0)), start(f.index(0))), size // self.chunk * self.chunk
        with f.loop(self.chunk, whole, self.chunk, parts_of(current)) as loop:
            loop.yield_(parts_of(further(rebuilt(current, loop.carried), loop.index)))
        current = rebuilt(current, loop.results)
        if whole < size:
            current = further(current, f.index(size - self.chunk))
        most, first = current
        found = r.across_lanes(e, (most,))
        equal = values.compare(Direction.EQ, most, values.splat(found[0], lanes))
        has = values.binary("or", equal, values.compare(Direction.NE, most, most))
        starts = values.select(has, first, values.constant(S32, S32_MOST, lanes))
        (lowest,) = values.across_lanes((starts,), lambda a, b: (values.binary("minimum", *a, *b),))
        self.starts[r.inst] = values.to_index(lowest)
        return found

    def _unrolls(self, reductions: Sequence[Reduction]) -> tuple[int, ...]:
        """The numbers of vectors that may be combined at a time: several hide the latency of additions; one
        is enough for an exp.
        """
        below = _below([x for r in reductions for x in r.inputs], self.known)
        costly = any(inst.op.expensive and inst not in self.stashed and self._is_full(inst) for inst in below)
        return () if costly else (4, 2)

    def _is_full(self, inst: Instruction) -> bool:
        """Whether a value may have several elements per row."""
        return not isinstance(inst.shape, Shape) or inst.shape.size > self.plan.row_count

    def _in_pairs(self, roots: Sequence[Instruction]) -> bool:
        """Whether even and odd columns are computed separately: it is so if all arrays that `roots` read in a
        row are bf16. Reading a word of two elements and splitting it is faster than widening them one by one.
        """
        if self.k.f.module.byte_order != "little":
            return False
        if sum(size > 1 for size in self.plan.columns) != 1 or self.lanes < 4 or self.plan.row_size % 2:
            return False
        below = [inst for inst in _below(roots, {**self.known, **self.stashed}) if self._is_full(inst)]
        read = [inst for inst in below if isinstance(inst.op, hlo.Parameter)]
        simple = all(inst.op.elementwise or isinstance(inst.op, _SIMPLE) for inst in below)
        arrays = (*(inst.shape for inst in read), *self.stashed.values())
        return simple and all(getattr(array, "dtype", None) is BF16 for array in arrays)

    def _pair(self, base: Ssa, offset: int, lanes: int) -> tuple[Index, Index]:
        """The even and the odd columns among 2 * `lanes` columns from base + offset on. Pieces of rows begin
        at multiples of `lanes` only.
        """
        f, limit, multiple = self.k.f, self.plan.row_size, gcd(self.plan.piece, 2 * lanes)
        even = Index(f, f.add(base, offset), 2, lanes, multiple=multiple, limit=limit)
        return even, even + 1

    def _column(self, base: Ssa, offset: int, lanes: int) -> Index:
        f, size = self.k.f, self.plan.row_size
        multiple = gcd(lanes, size) if self.starts else lanes  # the last chunk ends where the row does
        return Index(f, f.add(base, offset), 1, lanes, multiple=multiple, limit=size)

    def _columns(self, base: Ssa, count: int, *, pairs: bool) -> list[Index]:
        """The columns [base, base + count) as vectors of one thread; with `pairs`, vectors of even and odd
        columns.
        """
        together = self.lanes * self.k.share.threads
        if pairs:
            offsets = range(0, count, 2 * together)
            return [column for offset in offsets for column in self._pair(base, offset, self.lanes)]
        return [self._column(base, offset, self.lanes) for offset in range(0, count, together)]

    def _values(
        self,
        e: Elements,
        reductions: Sequence[Reduction],
        columns: Sequence[Index],
        stash: dict[Instruction, DenseArray],
    ) -> list[ValueGroup]:
        """The inputs of each reduction at each of the columns; also stores the values to stash."""
        found = []
        for column in columns:
            for r in reductions:
                values = [e(x, self.index(column, x.shape.dims)) for x in r.inputs]
                wide = [e.values.splat(v, e.lanes) for v in values]
                found.append(r.lift(wide, e.values))
            for inst, array in stash.items():
                at = self.index(column, array.dims)
                array.store(at, e(inst, at))
        return found

    def _rest(self, e, reductions, columns, opened, current, stash):
        """Combines `current` with the columns [start, stop), counted from `low`, in vectors as wide as those
        of `e`. `columns` is (low, start, stop); `opened` opens the loop.
        """
        low, start, stop = columns
        if start >= stop:
            return current
        f, lanes = self.k.f, e.lanes
        loop = opened(f.add(low, start), f.add(low, stop), lanes, registers(current))

        def new(at: Ssa) -> list[ValueGroup]:
            return self._values(e, reductions, [self._column(at, 0, lanes)], stash)

        return folded(e, reductions, loop, current, new)

    def _in_order(self, reductions, low, size, stash):
        """Combines element by element, from the initial values and the first column on."""
        e = self.elements(1)
        first = self._values(e, reductions, [self._column(low, 0, 1)], stash)
        first = combined(e, reductions, [r.initial(e) for r in reductions], first)
        for r in reductions:
            r.started = True
        return self._rest(self.elements(1), reductions, (low, 1, size), self.k.f.loop, first, stash)

    def write_rows(self) -> None:
        """Writes the outputs that have one value per row."""
        if self.plan.row_roots:
            with self.k.share.once():
                self.k.write(self.elements(1), self.row_index, self.plan.rows, self.plan.row_roots)

    def _writes_pairs(self, roots: Sequence[Instruction]) -> bool:
        """Whether even and odd columns of the outputs are computed separately and stored together."""
        return self._in_pairs(roots) and all(getattr(root.shape, "dtype", None) is BF16 for root in roots)

    def write_full(self) -> None:
        """Writes the outputs that have a value per element, in one pass over the row."""
        plan, k = self.plan, self.k
        if not plan.full_roots:
            return
        if self.held:
            found = [k.computed(self.kept, self.at(c), self.space, plan.full_roots) for c, _ in self.held]
            for values, (_, inside) in zip(found, self.held, strict=True):
                with nullcontext() if inside is None else k.f.if_(inside):
                    store(values)
            return

        roots = [k.roots[number] for number in plan.full_roots]
        if k.share.threads == 1 and plan.row_size % (2 * plan.lanes) == 0 and self._writes_pairs(roots):
            with k.walk(k.f.index(0), k.f.index(plan.row_size), 2 * plan.lanes, nonempty=True) as loop:
                e, pair = self.elements(plan.lanes), self._pair(loop.index, 0, plan.lanes)
                found = [k.computed(e, self.at(c), self.space, plan.full_roots) for c in pair]
                for (output, at, low), (_, _, high) in zip(*found, strict=True):
                    output.store_pairs(at, *(k.values.splat(value, plan.lanes) for value in (low, high)))
            return

        def body(e: Elements, column: AnyIndex) -> None:
            k.write(self.elements(e.lanes), self.at(column), self.space, plan.full_roots)

        space = Space((), plan.row_size, plan.row_size, self.lanes)
        once = bool(k.kernel.in_place) or bool(self.stashed)
        vectors(k, space, k.f.index(0), k.f.index(plan.row_size), body, once)


_SIMPLE = (hlo.Parameter, hlo.Broadcast, hlo.Reshape, hlo.Bitcast, hlo.Constant, hlo.Convert)
"""The ops, besides elementwise ones, that may be computed for even and odd columns separately: for columns
that are two apart, their code is the same as for adjacent columns.
"""


def _joined(
    e: Elements, reductions: Sequence[Reduction], values: Sequence[ValueGroup]
) -> Sequence[ValueGroup]:
    """Combines, for each reduction, its values at several columns. `values` has those of all reductions for
    the first column, then for the next one, and so on.
    """
    count = len(reductions)
    copies = [values[n : n + count] for n in range(0, len(values), count)]
    while len(copies) > 1:
        halves = zip(copies[::2], copies[1::2], strict=True)
        copies = [combined(e, reductions, a, b) for a, b in halves]
    return copies[0]


def _below(roots: Sequence[Instruction], known: Mapping[Instruction, object]) -> dict[Instruction, None]:
    """All instructions that must be computed for `roots`, given the `known` ones."""
    found: dict[Instruction, None] = {}
    stack = list(roots)
    while stack:
        inst = stack.pop()
        if inst in found or inst in known:
            continue
        found[inst] = None
        stack.extend(inst.operands)
    return found


def _emit_parts(k: KernelWriter, plan: RowPlan) -> None:
    """Writes phase 0: step s reduces piece s % pieces of row s // pieces. All pieces but the last have one
    size.
    """
    f, pieces, size = k.f, plan.pieces, plan.piece
    reductions = _reductions(k, [k.named[name] for name in plan.stages[0]])
    arrays = scratch_arrays(k, reductions, (pieces * plan.row_count,))
    with k.share.steps() as step:
        here = Index(f, step, limit=pieces * plan.row_count)
        row, piece = here // pieces, here % pieces
        part = _Row(k, plan, row, plan.lanes)
        low = f.mul(piece.base, size)
        last = plan.row_size - (pieces - 1) * size

        def store(count: int) -> None:
            found = part.accumulate(reductions, low, count, {})
            with k.share.once():
                for group, values in zip(arrays, found, strict=True):
                    for array, value in zip(group, values, strict=True):
                        array.store((here,), value)

        if last == size:
            store(size)
        else:
            branch = f.branch(f.icmp("slt", piece.base, pieces - 1))
            with branch.then():
                store(size)
            with branch.otherwise():
                store(last)
            branch.merge([])


def _emit_combine(k: KernelWriter, plan: RowPlan) -> None:
    """Writes phase 1: combines the pieces of each row in order, then computes what follows the reduction."""
    f, pieces = k.f, plan.pieces
    reductions = _reductions(k, [k.named[name] for name in plan.stages[0]])
    arrays = scratch_arrays(k, reductions, (pieces * plan.row_count,))
    with k.share.steps() as step:
        row = Index(f, step, limit=plan.row_count)
        start = row * pieces
        here = _Row(k, plan, row, 1)
        e = here.elements(1)

        def piece(at: AnyIndex) -> list[ValueGroup]:
            return [tuple(a.load((at,), 1) for a in group) for group in arrays]

        own, threads = k.share.start(f.index(0), 1), k.share.threads
        first = piece(start + Index(f, own, limit=threads))
        loop = f.loop(f.add(own, threads), pieces, threads, registers(first))
        total = folded(e, reductions, loop, first, lambda n: piece(start + Index(f, n, limit=pieces)))
        total = here.across_threads(reductions, total)
        for r, values in zip(reductions, total, strict=True):
            here.known[r.inst] = r.finish(e, values)
        here.write_rows()
