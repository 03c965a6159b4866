"""Plans of reductions: over trailing dimensions row by row, also chains of them, such as softmax and layer
norm; over leading or middle dimensions column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import gcd, prod
from typing import ClassVar

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.hlo import Broadcast, Compare, Iota, Or, Reduce, Select
from axla.ir.attributes import Direction, FusionKind
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import below
from axla.ir.typed import op_of, shape_of
from axla.kernels.access import AccessKeys, KernelBody, accesses, elements, kernel_roots
from axla.kernels.geometry import ReduceGeometry, reduce_geometry
from axla.kernels.kind import Form, Kind
from axla.kernels.loop import LoopKind, in_a_row
from axla.kernels.plan import KernelTask, Phase, Plan, Space, accumulation_type, fitting, widest, widest_of
from axla.target.machine import Limits, Target, aligned

_SUMS = frozenset({"add", "multiply"})


class Reducing:
    """A reduce, or a scan, in a kernel: its computation, the types of its accumulators, and whether elements
    may be combined in any order.
    """

    def __init__(self, inst: Instruction):
        self.inst = inst
        self.count = len(inst.operands) // 2
        self.inputs = inst.operands[: self.count]
        self.inits = inst.operands[self.count :]
        (self.computation,) = inst.op.computations()
        self.any_order = _any_order(self.computation)
        root = self.computation.root
        self.plain = root.op.opcode if self.any_order and len(root.operands) == 2 else ""
        """The opcode of a combiner that is this one op and may be applied in any order; "" for others."""
        wide = self.count == 1 and self.computation.root.op.opcode in _SUMS
        self.results: tuple[DType, ...] = tuple(x.shape.dtype for x in self.inits)
        self.accumulators = tuple(accumulation_type(d) if wide else d for d in self.results)


def _any_order(computation: Computation) -> bool:
    """Whether a combiner computes each of its results from the result's own two parameters, by an
    associative, commutative op.

    Combiners that compare, such as that of an argmax, depend on the order where values are equal or NaN.
    """
    root = computation.root
    found = root.operands if root.op.opcode == "tuple" else (root,)
    count = len(found)
    for number, inst in enumerate(found):
        if not (inst.op.associative and inst.op.commutative):
            return False
        numbers = sorted(getattr(o.op, "parameter_number", -1) for o in inst.operands)
        if numbers != [number, number + count]:
            return False
    return True


def searched(lowest: Instruction) -> Instruction | None:
    """The maximum or minimum of a row whose first index `lowest` finds; None if it finds none. `lowest` must
    be the minimum, over a row, of an iota along the row, for those elements that are equal to the extreme or
    NaN, and of its initial value for all other elements.
    """
    chosen, reduced, reducing = lowest.operands[0], op_of(lowest, Reduce).dimensions, Reducing(lowest)
    wraps = reducing.results[0].bits < 32  # an iota of a narrow type may wrap
    if wraps or reducing.plain != "minimum" or not isinstance(chosen.op, Select):
        return None
    hit, places, none = chosen.operands
    long = [d for d in reduced if shape_of(chosen).dims[d] > 1]
    if not isinstance(places.op, Iota) or [places.op.iota_dimension] != long:
        return None
    if not isinstance(none.op, Broadcast) or none.operands != reducing.inits:
        return None
    parts = hit.operands if isinstance(hit.op, Or) else (hit,)
    pairs = {_compared(part): part.operands for part in parts}
    if len(pairs) < len(parts) or pairs.keys() not in ({Direction.EQ}, {Direction.EQ, Direction.NE}):
        return None
    element, spread = pairs[Direction.EQ]
    extreme = spread.operands[0] if isinstance(spread.op, Broadcast) else spread
    itself = (element, element)
    if not isinstance(extreme.op, Reduce) or pairs.get(Direction.NE, itself) != itself:
        return None
    found = Reducing(extreme)
    same = found.plain in ("maximum", "minimum") and found.inputs == (element,)
    return extreme if same and extreme.op.dimensions == reduced else None


def _compared(inst: Instruction) -> Direction | None:
    """The direction of a comparison without total order, in which -0 equals 0; None for other
    instructions.
    """
    return inst.op.direction if isinstance(inst.op, Compare) and not inst.op.is_total_order else None


def is_inner_reduce(inst: Instruction, limits: Limits) -> bool:
    """Whether a reduce is short enough to be a loop within each element of another kernel."""
    geometry = reduce_geometry(inst)
    if geometry is None:
        size = max(1, elements(inst.shape))
        return elements(inst.operands[0].shape) // size <= limits.inner_column
    return geometry.reduced <= (limits.inner_row if geometry.is_row else limits.inner_column)


class ReduceKind(Kind):
    """The base class of the row and the column kind. All heroes of a kernel are reduces that read arrays of
    the same simplified shape [outer, reduced, inner], and are too long to be loops within an element.
    """

    heroes = (Reduce,)
    fusion = FusionKind.INPUT
    side_by_side = True
    several = True
    by_rows: ClassVar[bool]
    """Whether the reduced dimensions are the trailing ones, so that `inner` is 1."""

    @classmethod
    def geometry(cls, inst: Instruction, limits: Limits) -> ReduceGeometry | None:
        """The sizes [outer, reduced, inner] of a reduce that can be a hero of this kind; None for other
        instructions.
        """
        found = reduce_geometry(inst)
        known = found is not None and found.is_row == cls.by_rows
        return found if known and not is_inner_reduce(inst, limits) else None

    @classmethod
    def why_not_joined(cls, inst: Instruction, limits: Limits) -> str | None:
        """The reason why a reduce that cannot be a hero has a kernel of its own: its dimensions are not
        adjacent. None for a short reduce, which other kernels compute as a loop within an element.
        """
        return None if is_inner_reduce(inst, limits) else "reduces dimensions that are not adjacent"

    @classmethod
    def reduces(cls, body: KernelBody, limits: Limits) -> tuple[list[Instruction], ReduceGeometry] | None:
        """The heroes of a kernel and their sizes [outer, reduced, inner]. None if the sizes differ, or if a
        hero is not read at the indices of the roots.
        """
        reduces = (i for i in body.order if isinstance(i.op, Reduce) and not is_inner_reduce(i, limits))
        heroes = [i for i in reduces if reduce_geometry(i) is not None]
        spaces = [cls.geometry(inst, limits) for inst in heroes]
        first = spaces[0] if spaces else None
        if first is None or any(s is None or s.sizes != first.sizes for s in spaces):
            return None
        found = accesses(body, heroes, cls.operand_keys).heroes
        return (heroes, first) if len(found) == len(heroes) else None


def stages_of(body: KernelBody, heroes: Sequence[Instruction]) -> dict[Instruction, int]:
    """For each instruction that is, or depends on, a hero: the largest number of heroes on a path to it,
    itself included.
    """
    chosen = set(heroes)
    level: dict[Instruction, int] = {}
    for inst in body.order:
        below = max((level.get(o, 0) for o in inst.operands), default=0) + (inst in chosen)
        if below:
            level[inst] = below
    return level


@dataclass(frozen=True, slots=True)
class RowPlan(Plan):
    """The plan of reductions over the trailing dimensions of `rows` x `columns`, in stages, each with the
    names of its reduces.

    `full_roots` and `row_roots`: the numbers of the roots with a value per element, and with a value per row.
    A row is reduced in `pieces` of `piece` columns each (the last piece has the remainder). With one piece, a
    step computes a whole row, or `beside` rows at once, each with threads of its own.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    stages: tuple[tuple[str, ...], ...]
    full_roots: tuple[int, ...]
    row_roots: tuple[int, ...]
    lanes: int
    pieces: int
    piece: int
    beside: int = 1

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return prod(self.rows)

    @property
    def row_size(self) -> int:
        """The number of elements of a row."""
        return prod(self.columns)


@dataclass(frozen=True, slots=True)
class RowKind(ReduceKind):
    """Reductions over the trailing dimensions, with elementwise ops on rows and on values per row. Rows are
    independent of each other.

    The index space is `rows` x `columns`. A value of the kernel is *full* (row-major linear index row *
    row_size + column), a *row value* (linear index row), or another value that depends on no reduce and is
    read at any index. `stages` are the reduces; those of stage k depend on results of earlier stages only.
    Every reduce is read at its own row only, so it can be bound to the scalar of the current row.
    `full_roots` and `row_roots` are numbers of roots; each may be empty. A reduction of a whole array is the
    case rows == ().
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    row_count: int
    row_size: int
    stages: tuple[tuple[Instruction, ...], ...]
    full_roots: tuple[int, ...]
    row_roots: tuple[int, ...]

    name = "row"
    planned = RowPlan
    emission = "axla.codegen.emit.row:emit"
    companions = True
    by_rows = True

    def __str__(self) -> str:
        reduces = "+".join(str(len(s)) for s in self.stages)
        return f"row {list(self.rows)} x {list(self.columns)}, stages {reduces}"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this reduce as its hero: the numbers of rows and columns. None if it
        cannot be a hero. Reduces of equal forms share a kernel.
        """
        geometry = cls.geometry(inst, limits)
        return geometry and (cls, geometry.outer, geometry.reduced)

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys of the operands: arrays are read at the linear index, initial values as scalars."""
        half = len(hero.operands) // 2
        return [keys.lin(elements(hero.operands[0].shape))] * half + [keys.lin(1)] * half

    @classmethod
    def root_sizes(cls, form: Form) -> set[int]:
        """The numbers of elements that results may have: one per row, or all of the space."""
        _, rows, columns = form
        return {rows, rows * columns}

    @classmethod
    def why_not_results(cls, form: Form, hero: Instruction, sizes: set[int], limits: Limits) -> str | None:
        """The reason why results of these sizes are not in the kernel: the sizes are not in `root_sizes`, or
        a single long row is reduced by all threads in a kernel of its own. None if they are.
        """
        _, rows, columns = form
        if not sizes <= cls.root_sizes(form):
            return f"the kernel's results have neither {rows} nor {rows * columns} elements"
        if rows == 1 and columns > limits.whole_row:
            return "a reduction of a whole array is done by all threads, in a kernel of its own"
        return None

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> RowKind | None:
        """The kind of a kernel, if all heroes have the same numbers of rows and columns, and a root has one
        element per row or per element of the rows; else None.
        """
        found = cls.reduces(body, limits)
        if found is None:
            return None
        heroes, geometry = found
        rows, full = geometry.outer, geometry.outer * geometry.reduced
        sizes = [elements(r.shape) for r in body.roots]
        if any(s not in (rows, full) for s in sizes):
            return None
        level = stages_of(body, heroes)
        stages: list[list[Instruction]] = [[] for _ in range(max(level.values()))]
        for hero in heroes:
            stages[level[hero] - 1].append(hero)
        dims = heroes[0].operands[0].shape.dims
        return cls(
            dims[: geometry.split], dims[geometry.split :], rows, geometry.reduced, tuple(map(tuple, stages)),
            tuple(n for n, s in enumerate(sizes) if s == full),
            tuple(n for n, s in enumerate(sizes) if s == rows),
        )  # fmt: skip

    def served(self, computation: Computation, target: Target) -> Kind:
        """A loop over rows, with lanes across them, if the combiners depend on the order; else this kind."""
        in_order = not any(r.any_order for r in self.reductions)
        enough = self.row_count >= 2 * target.lanes(widest(computation)) > 2
        across = len(self.stages) == 1 and not self.full_roots and in_order and enough
        return LoopKind(self.rows, self.stages[0]) if across else self

    @property
    def reductions(self) -> list[Reducing]:
        """All reduces, stage by stage."""
        return [Reducing(inst) for stage in self.stages for inst in stage]

    def plan(self, task: KernelTask, target: Target) -> RowPlan:
        """Plans a phase over rows in parallel or, for few long rows, one over pieces of rows and one that
        combines the results of the pieces.
        """
        reductions = self.reductions
        most = in_a_row(task.computation, target, len(reductions), self.row_count)
        lanes = gcd(most, self.row_size) if target.threads > 1 else fitting(most, self.row_size)
        cost = task.cost(target) * self.row_size
        pieces, piece = self._pieces(reductions, cost, most, target)
        beside = 1
        if pieces > 1:
            scratch = _scratch(reductions, pieces * self.row_count)
            phases = (
                Phase(f"{task.name}_parts", pieces * self.row_count, 1, True, target.threads),
                Phase(task.name, self.row_count, self.row_count, False, fitting(target.threads, pieces)),
            )
        else:
            scratch = 0
            # Each of the threads that share a row has at least one vector of it; a row that must be combined
            # in order has one thread.
            shared = all(r.any_order for r in reductions)
            threads = fitting(target.threads, self.row_size // lanes) if shared else 1
            beside = self._beside(threads, target)
            steps = -(-self.row_count // beside)
            phases = (task.phase(steps, cost * beside, target.limits, threads * beside),)
        stages = tuple(tuple(inst.name for inst in stage) for stage in self.stages)
        return RowPlan(
            self.rows, self.columns, stages, self.full_roots, self.row_roots, lanes, pieces, piece, beside,
            phases=phases, scratch_bytes=scratch,
        )  # fmt: skip

    def _beside(self, threads: int, target: Target) -> int:
        """The number of rows that share a step, with `threads` threads each. If the threads of a row need
        barriers, the number divides that of all rows, so that every step is full; otherwise the last step may
        have fewer rows.
        """
        if threads > target.warp > 1:
            return 1
        beside = fitting(target.threads // threads, self.row_count)
        return beside if target.warp > 1 else gcd(beside, self.row_count)

    def _pieces(self, reductions: list[Reducing], cost: int, lanes: int, target: Target) -> tuple[int, int]:
        """The number of pieces in which each row is reduced, and the number of columns of all pieces but the
        last.

        There is one piece if rows are short, or numerous enough to be distributed over threads.
        """
        limits, least = target.limits, lanes * target.threads  # elements that a step reads at once
        if self.row_count > 8 or len(self.stages) != 1 or self.full_roots or cost < 2 * limits.parallel_cost:
            return 1, self.row_size
        if not all(r.any_order for r in reductions):
            return 1, self.row_size
        pieces = max(1, min(limits.parts, cost // limits.chunk_cost, self.row_size // (least * 16)))
        if target.threads > 1:
            pieces = max(1, min(limits.busy_blocks // self.row_count, self.row_size // (least * 4)))
        size = -(-self.row_size // pieces // least) * least
        # The last piece has the remainder: it may be shorter, or longer by less than `least`, but never
        # shorter than `least`.
        return max(1, (self.row_size + size - least) // size), size


@dataclass(frozen=True, slots=True)
class Teams:
    """The arrangement of the threads of a step that reduce `pieces` of `piece` rows each (the last piece has
    the remainder).

    `columns` threads with adjacent columns form a team. The `teams` teams take rows in turn, `rows` at once.
    Every piece has at least as many rows as all teams take at once.
    """

    columns: int
    teams: int
    rows: int
    pieces: int
    piece: int

    @property
    def threads(self) -> int:
        """The number of threads that share a step."""
        return self.columns * self.teams


@dataclass(frozen=True, slots=True)
class ColumnPlan(Plan):
    """The plan of reductions of [outer, reduced, inner] over the middle dimension; `space` is that of [outer,
    inner].

    `lanes`: the number of columns whose results are computed at a time; their type may be wider than that of
    the reduced values. `kept_in`: for each reduce, the number of the root whose outputs hold its partial
    results, or -1 for scratch memory. `teams`: if threads share a step, their arrangement in each phase. A
    second phase reduces the results of the first phase's pieces, which are in scratch memory.
    """

    outer: int
    reduced: int
    inner: int
    reduces: tuple[str, ...]
    space: Space
    lanes: int
    kept_in: tuple[int, ...]
    teams: tuple[Teams, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnKind(ReduceKind):
    """Reductions of a space [outer, reduced, inner] over its middle dimension; roots have outer * inner
    elements.

    The reduces share the space and do not depend on each other. Values before them are read at (o, r, i) or
    at any index, values after them at (o, i).
    """

    outer: int
    reduced: int
    inner: int
    columns: tuple[Instruction, ...]

    name = "column"
    planned = ColumnPlan
    emission = "axla.codegen.emit.column:emit"
    by_rows = False

    def __str__(self) -> str:
        return f"column [{self.outer},({self.reduced}),{self.inner}], {len(self.columns)} reduces"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this reduce as its hero: the sizes outer, reduced and inner. None if it
        cannot be a hero. Reduces of equal forms share a kernel.
        """
        geometry = cls.geometry(inst, limits)
        return geometry and (cls, *geometry.sizes)

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys of the operands: arrays are read at the index of the space, initial values as scalars."""
        geometry, half = reduce_geometry(hero), len(hero.operands) // 2
        assert geometry is not None
        space = keys.special(("mid", *geometry.sizes), elements(hero.operands[0].shape))
        return [space] * half + [keys.lin(1)] * half

    @classmethod
    def root_sizes(cls, form: Form) -> set[int]:
        """The number of elements that results must have: one for each outer and inner index."""
        _, outer, _, inner = form
        return {outer * inner}

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> ColumnKind | None:
        """The kind of a kernel, if all heroes have the same sizes [outer, reduced, inner] and none depends on
        another; else None.
        """
        found = cls.reduces(body, limits)
        if found is None:
            return None
        heroes, geometry = found
        size = geometry.outer * geometry.inner
        if any(elements(r.shape) != size for r in body.roots) or max(stages_of(body, heroes).values()) > 1:
            return None
        return cls(*geometry.sizes, tuple(heroes))

    def plan(self, task: KernelTask, target: Target) -> ColumnPlan:
        """Plans blocks of columns in parallel."""
        if target.threads > 1:
            return self._shared(task, target)
        return self._cut(task, target, self._space(self._reduced_type(), target))

    def variants(self, task: KernelTask, target: Target) -> Iterator[ColumnPlan]:
        """Yields plans that differ from that of `plan` in the number of columns per block; none for targets
        whose threads share steps. The results are equal, since each column has its own sum.
        """
        space = self._space(self._reduced_type(), target)
        for size in (space.block // 4, space.block // 2, 2 * space.block, 4 * space.block, self.inner):
            block = min(self.inner, size // space.lanes * space.lanes)
            if block and target.threads == 1:
                yield self._cut(task, target, replace(space, block=block))

    def _cut(self, task: KernelTask, target: Target, space: Space) -> ColumnPlan:
        while 0 < self.inner % space.block < space.lanes:  # the last block must not be shorter than a vector
            space = replace(space, block=min(self.inner, space.block + space.lanes))
        lanes = min(space.lanes, target.lanes(widest(task.computation)))
        cost = (task.cost(target) + 1) * self.reduced * space.block
        reductions = list(map(Reducing, self.columns))
        kept_in = tuple(_root_of(task, r) for r in reductions)
        apart = [r for r, root in zip(reductions, kept_in, strict=True) if root < 0]
        return ColumnPlan(
            self.outer, self.reduced, self.inner, tuple(inst.name for inst in self.columns), space, lanes,
            kept_in,
            phases=(task.phase(space.count, cost, target.limits),),
            scratch_bytes=_scratch(apart, self.outer * self.inner),
        )  # fmt: skip

    def _reduced_type(self) -> DType:
        """The widest element type among the values before the reductions, which are computed for every
        row.
        """
        done: set[Instruction] = set()
        return widest_of([inst for root in self.columns for inst in below(root, done)])

    def _shared(self, task: KernelTask, target: Target) -> ColumnPlan:
        """The plan for threads that share columns and rows. If there are few columns, rows are divided into
        pieces.
        """
        reductions = list(map(Reducing, self.columns))
        free = all(r.any_order for r in reductions)
        first = self._teams(self.reduced, self.inner, target, free=free)
        teams, names = [first], tuple(inst.name for inst in self.columns)
        symbols = [task.name]
        if first.pieces > 1:
            teams.append(replace(self._teams(first.pieces, self.inner, target, free=True), pieces=1))
            symbols.insert(0, f"{task.name}_parts")
        phases = tuple(
            Phase(symbol, self.outer * t.pieces * -(-self.inner // t.columns), 1, True, t.threads)
            for symbol, t in zip(symbols, teams, strict=True)
        )
        kept = first.pieces * self.outer * self.inner if first.pieces > 1 else 0
        space = Space((self.outer,), self.inner, self.inner, 1)
        return ColumnPlan(
            self.outer, self.reduced, self.inner, names, space, 1, (-1,) * len(names), tuple(teams),
            phases=phases, scratch_bytes=_scratch(reductions, kept),
        )  # fmt: skip

    def _teams(self, reduced: int, inner: int, target: Target, *, free: bool) -> Teams:
        """The arrangement of threads that reduce `reduced` rows of `inner` columns. `free`: rows may be
        combined in any order.
        """
        limits = target.limits
        if not free:
            columns = fitting(target.threads, 2 * inner - 1)
            return Teams(columns, 1, 1, 1, reduced)
        columns = fitting(min(limits.transpose_block, target.threads), 2 * inner - 1)
        rows = fitting(limits.column_rows, reduced // 8)
        teams = fitting(target.threads // columns, reduced // rows)
        together = rows * teams
        blocks = self.outer * -(-inner // columns)
        pieces = max(1, min(limits.parts, limits.busy_blocks // blocks, reduced // (4 * together)))
        piece = -(-reduced // pieces // together) * together
        return Teams(columns, teams, rows, max(1, (reduced + piece - together) // piece), piece)

    def _space(self, dtype: DType, target: Target) -> Space:
        lanes = fitting(target.lanes(dtype), self.inner)
        most = target.limits.column_bytes // dtype.itemsize // lanes * lanes
        block = max(lanes, min(self.inner, most))
        # If rows are long enough, there are at least two blocks, for two threads.
        if self.outer == 1 and self.inner >= 8 * lanes:
            block = min(block, -(-self.inner // 2 // lanes) * lanes)
        return Space((self.outer,), self.inner, block, lanes)


def _scratch(reductions: Sequence[Reducing], count: int) -> int:
    """The bytes of scratch memory for `count` accumulators of each reduction."""
    return sum(aligned(d.itemsize * count) for r in reductions for d in r.accumulators)


def _root_of(task: KernelTask, r: Reducing) -> int:
    """The number of the root that is the reduce `r` itself and whose outputs can hold its partial results; -1
    if there is none.
    """
    if r.accumulators != r.results or task.in_place:
        return -1
    return next((number for number, root in enumerate(kernel_roots(task.computation)) if root is r.inst), -1)
