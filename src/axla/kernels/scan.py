"""Plans of scans: each element of a line is combined with all elements before (or after) it."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.hlo import Constant, Parameter, ReduceWindow
from axla.ir.graph import Instruction
from axla.ir.typed import op_of
from axla.kernels.access import KernelBody, accesses
from axla.kernels.kind import Form, Kind
from axla.kernels.plan import KernelTask, Phase, Plan, Space, fitting, widest
from axla.kernels.reduce import Reducing
from axla.target.machine import Limits, Target, aligned

CHUNK = 8
"""The highest number of adjacent elements of a thread, which are in registers."""
PIECE = 8192
"""The least number of elements in a piece of a line that one thread scans alone."""
BESIDE = 8
"""The number of lines that is enough for all threads; fewer lines are divided into pieces."""
LEAST_BYTES = 2048
"""The least bytes of a row in a step across lines. If cores write closer to each other, the prefetcher of one
takes cache lines away from the other.
"""
LEAST_GROUP = 16
"""The least number of vectors in a group: the total of each group costs one more combination."""


@dataclass(frozen=True, slots=True)
class ScanGeometry:
    """A scan of [outer, length, inner] over the middle dimension. `reverse`: from the last element to the
    first.
    """

    outer: int
    length: int
    inner: int
    reverse: bool


def scan_geometry(inst: Instruction) -> ScanGeometry | None:
    """The space of a reduce-window that is a scan: its window reaches from each element of a line to one of
    its ends, and its combiner is elementwise. None for other instructions. Combiners are taken to be
    associative, as in XLA (`TryOptimizeCumSumOrProd` of reduce-window-rewriter, for lines of more than 16).
    """
    window_op, shape = op_of(inst, ReduceWindow), inst.shape
    window = window_op.window
    if not isinstance(shape, Shape) or not shape.size or len(inst.operands) != 2:
        return None
    along = [d for d, size in enumerate(window.size) if size != 1]
    if len(along) != 1 or any(
        n != 1 for n in (*window.stride, *window.window_dilation, *window.base_dilation)
    ):
        return None
    (d,), dims = along, shape.dims
    pads = [pad for pad in zip(window.low, window.high, strict=True) if pad != (0, 0)]
    reach = dims[d] - 1
    if window.size[d] != dims[d] or pads not in ([(reach, 0)], [(0, reach)]):
        return None
    body = window_op.to_apply.instructions
    simple = all(i.op.elementwise or isinstance(i.op, Parameter | Constant) for i in body)
    if {o.shape.dtype for o in inst.operands} != {shape.dtype} or not simple:
        return None
    return ScanGeometry(prod(dims[:d]), dims[d], prod(dims[d + 1 :]), window.high[d] > 0)


@dataclass(frozen=True, slots=True)
class ScanCut:
    """The division of lines among thread blocks. A block has tiles of `rows` x `size` x `columns` elements:
    `size` elements of each line. Each thread has `chunk` adjacent elements of a line, and `team` threads
    share a line. Lines have `pieces` pieces of `piece` elements (the last has the remainder); a piece is one
    tile, or consecutive tiles.
    """

    rows: int
    columns: int
    team: int
    chunk: int
    pieces: int
    piece: int

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.rows * self.team * self.columns

    @property
    def size(self) -> int:
        """The number of elements of a line in a tile."""
        return self.team * self.chunk


@dataclass(frozen=True, slots=True)
class ScanPlan(Plan):
    """The plan of a scan of [outer, length, inner]: in one phase, or, for few long lines, in three. Then the
    first phase writes the totals of pieces to scratch memory, the second scans them there, and the third
    starts each piece with the scan of the totals before it.

    If threads do not cooperate, `space` divides [outer, pieces], or [outer, inner] with all elements of a
    line, among them. `group` vectors or rows of a line have a total of their own, which shortens the chain of
    roundings.
    """

    hero: str
    geometry: ScanGeometry
    cuts: tuple[ScanCut, ...] = ()  # one for each phase of thread blocks
    space: Space | None = None
    pieces: int = 1
    piece: int = 0
    group: int = 0


@dataclass(frozen=True, slots=True)
class ScanKind(Kind):
    """A reduce-window over all elements before (or after) each element, with elementwise ops before and after
    it.
    """

    hero: Instruction

    name: ClassVar[str] = "scan"
    heroes = (ReduceWindow,)
    planned = ScanPlan
    emission: ClassVar[str] = "axla.codegen.emit.scan:emit"

    def __str__(self) -> str:
        return f"scan of {self.hero.operands[0].shape}"

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this reduce-window as its hero, if it is a scan of long lines and the
        target supports scans; else None.
        """
        geometry = scan_geometry(inst) if limits.scans else None
        return (cls, inst.id) if geometry is not None and geometry.length > limits.tiny else None

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> ScanKind | None:
        """The kernel, if it has one scan, at the linear index of the roots; else None."""
        candidates = [i for i in body.order if isinstance(i.op, ReduceWindow) and cls.form(i, limits)]
        if not candidates or not body.uniform:
            return None
        heroes = accesses(body, candidates, cls.operand_keys).heroes
        return cls(heroes[0]) if len(heroes) == len(candidates) == 1 else None

    def plan(self, task: KernelTask, target: Target) -> ScanPlan:
        """Plans parallel steps for the tiles of lines or, if lines have several pieces, for the tiles of
        pieces, in three phases. If threads do not cooperate, see `_alone`.
        """
        geometry = scan_geometry(self.hero)
        assert geometry is not None
        (held,) = Reducing(self.hero).accumulators
        if target.threads == 1:
            return self._alone(task, geometry, held.itemsize, target)
        # In local memory, a tile has one slot for each element, one more for each thread, and twice a total
        # for each thread.
        most = fitting(target.threads, target.local_bytes // ((CHUNK + 3) * held.itemsize))
        first = _cut(geometry, geometry.length, most, target.limits)
        cuts, symbols, scratch = [first], [task.name], 0
        if first.pieces > 1:
            starts = _cut(geometry, first.pieces, most, target.limits, whole=True)
            cuts, symbols = [first, starts, first], [f"{task.name}_parts", f"{task.name}_starts", task.name]
            scratch = aligned(held.itemsize * geometry.outer * first.pieces * geometry.inner)
        phases = tuple(
            Phase(symbol, _blocks(geometry, cut) * cut.pieces, 1, True, cut.threads)
            for symbol, cut in zip(symbols, cuts, strict=True)
        )
        return ScanPlan(self.hero.name, geometry, tuple(cuts), phases=phases, scratch_bytes=scratch)

    def _alone(self, task: KernelTask, g: ScanGeometry, size: int, target: Target) -> ScanPlan:
        """The plan for threads that do not cooperate: vectors run along lines, or across lines if `inner` is
        above 1. An element has `size` bytes.
        """
        limits, cost = (
            target.limits,
            task.cost(target) + 2 * len(op_of(self.hero, ReduceWindow).to_apply.instructions),
        )
        lanes, pieces, piece = target.lanes(widest(task.computation)), 1, g.length
        if g.inner > 1:
            lanes = fitting(lanes, g.inner)
            few = -(-g.inner * g.outer // (BESIDE * lanes)) * lanes
            least, most = (bytes_ // size // lanes * lanes for bytes_ in (LEAST_BYTES, limits.column_bytes))
            block = max(4 * lanes, least, min(most, few))
            space = Space((g.outer,), g.inner, block, lanes)
            phases = (task.phase(space.count, cost * g.length * block, limits),)
            return ScanPlan(self.hero.name, g, (), space, 1, piece, _group(g.length), phases=phases)
        lanes = fitting(lanes, g.length)
        if g.outer < BESIDE and g.length >= 2 * PIECE:
            pieces = min(limits.parts // g.outer, g.length // PIECE)
            piece = -(-g.length // pieces // lanes) * lanes
            pieces = -(-g.length // piece)
        main = task.phase(g.outer * pieces, cost * piece, limits)
        phases = (main,)
        if pieces > 1:
            parts = task.phase(g.outer * (pieces - 1), cost * piece, limits, symbol=f"{task.name}_parts")
            phases = (parts, Phase(f"{task.name}_starts", 1, 1, False), main)
        scratch = aligned(size * g.outer * pieces) if pieces > 1 else 0
        space, group = Space((g.outer,), pieces, 1, lanes), _group(piece // lanes)
        return ScanPlan(
            self.hero.name, g, (), space, pieces, piece, group, phases=phases, scratch_bytes=scratch
        )


def _group(count: int) -> int:
    """The number of vectors in a group, for lines of `count` vectors: about the square root of `count`, so
    that the sums within groups and over groups are about equally long.
    """
    return max(LEAST_GROUP, 1 << count.bit_length() // 2)


def _cut(g: ScanGeometry, length: int, most: int, limits: Limits, *, whole: bool = False) -> ScanCut:
    """The division of lines of `length` elements, for blocks of at most `most` threads. `whole`: each line is
    one piece.

    With several pieces, every element is read twice. So they are used only for lines that would leave most of
    a device idle.
    """
    chunk = min(CHUNK, _power(length))
    columns = min(limits.transpose_block, most, _power(g.inner))
    team = min(most // columns, _power(-(-length // chunk)))
    rows = min(most // columns // team, _power(g.outer))
    found = ScanCut(rows, columns, team, chunk, 1, length)
    tiles = -(-length // found.size)
    pieces = min(limits.busy_blocks // _blocks(g, found), tiles // 2)
    if whole or pieces < 4:
        return found
    piece = -(-tiles // pieces) * found.size
    return ScanCut(rows, columns, team, chunk, -(-length // piece), piece)


def _blocks(g: ScanGeometry, cut: ScanCut) -> int:
    """The number of thread blocks that scan one piece of every line in parallel."""
    return -(-g.outer // cut.rows) * -(-g.inner // cut.columns)


def _power(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()
