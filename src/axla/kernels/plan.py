"""Plans of kernels: the decisions of a kind's planner for a computation and a Target.

Phases, scratch memory, how the index space is cut, which instructions of the kernel (by name) are treated
specially. Plans are values: planning the same computation again for an equal Target gives an equal plan.
Emitters read computation, plan and Target, and make none of these decisions.

Below is what the planners share: costs, and how index spaces are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, DType
from axla.core.shape import Shape
from axla.ir.graph import Computation, Instruction
from axla.target.machine import Limits, Target

SHORT_ROW = 8
"""Elements of a row from which on lanes stay in it: across rows they are read one by one."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One call of a kernel function: `count` steps of its outer index space, distributed in pieces of
    `grain`.

    `parallel`: worth several threads. A phase is complete before the next begins. `threads` run each step
    together.
    """

    symbol: str
    count: int
    grain: int
    parallel: bool
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Space:
    """A row-major index space cut for a kernel: `outer` sizes, then `inner` elements that lanes run along, in
    `block`s.

    The kernel's outer index counts blocks: (outer..., block number). `threads` share the elements of a step.
    """

    outer: tuple[int, ...]
    inner: int
    block: int
    lanes: int
    threads: int = 1

    @property
    def blocks(self) -> int:
        """The number of blocks of the inner elements; the last may be smaller."""
        return -(-self.inner // self.block)

    @property
    def count(self) -> int:
        """The number of steps: blocks of all outer indices."""
        return prod(self.outer) * self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a kernel is called. Each kind has its own class of plans, with what its emitter needs."""

    phases: tuple[Phase, ...]
    scratch_bytes: int = 0

    @property
    def blocks(self) -> tuple[int, int] | None:
        """The numbers of blocks and of elements per block that its one function computes; None where it is
        called differently.
        """
        return None


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A kernel to plan: a computation and a name. `in_place`: (output, input) pairs that share memory."""

    name: str
    computation: Computation
    in_place: tuple[tuple[int, int], ...]

    def cost(self, target: Target) -> int:
        """The number of operations for one element of the kernel's index space: loads and stores, combining
        steps of reductions, and arithmetic, which vectors do for many elements at once.
        """
        folds = computed = 0
        for inst in self.computation.instructions:
            if inst.op.elementwise:
                computed += target.limits.function_cost if inst.op.expensive else 1
            elif inst.op.opcode == "reduce":
                folds += 1
        # Half of the lanes: functions of f64 are longer, and vectors have edges.
        return 1 + 2 * folds + -(-computed // max(1, target.lanes(widest(self.computation)) // 2))

    def phase(self, count: int, cost: int, limits: Limits, threads: int = 1, symbol: str = "") -> Phase:
        """A phase of `count` steps of `cost` each, cut by shapes only: results never depend on the number of
        threads.
        """
        grain, parallel = max(count, 1), False
        if count * cost >= limits.parallel_cost and count > 1:
            grain, parallel = max(1, min(count // 2, limits.chunk_cost // max(cost, 1))), True
        return Phase(symbol or self.name, count, grain, parallel, threads)


def widest(computation: Computation, single: int = 0) -> DType:
    """The widest element type in the instructions of a kernel, the first of equal ones. Arrays with at most
    `single` elements count only if there are no larger ones.
    """
    return widest_of(computation.instructions, single)


def widest_of(instructions: Iterable[Instruction], single: int = 0) -> DType:
    """The same for some instructions."""
    leaves = (shape for inst in instructions for shape in inst.shape.leaves())
    shapes = [shape for shape in leaves if isinstance(shape, Shape)]
    long = [shape for shape in shapes if shape.size > single]
    return max((shape.dtype for shape in long or shapes), key=_width)


def _width(dtype: DType) -> tuple[int, bool]:
    return max(dtype.real.bits, 32) if dtype.is_inexact else dtype.bits, dtype.is_complex


def lines_per_piece(lines: int, cost: int, limits: Limits) -> int:
    """The number of lines in a piece of a kernel that works line by line, each of `cost` element
    operations.
    """
    if lines > 1 and lines * cost >= limits.parallel_cost:
        return max(1, min(lines // 2, limits.parallel_cost // 2 // cost), -(-lines // limits.parts))
    return max(1, lines)


def fitting(lanes: int, count: int) -> int:
    """`lanes`, a power of two, or as few as `count` elements fill; at least one."""
    return max(1, min(lanes, 1 << max(count, 1).bit_length() - 1))


def accumulation_type(dtype: DType) -> DType:
    """The type in which sums of products are accumulated: f32 for smaller floats, else the type itself."""
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


def cut(dims: Sequence[int], lanes: int, cost: int, mergeable: Sequence[bool], target: Target) -> Space:
    """The space for a loop over `dims`; mergeable[d]: dimensions d and d+1 may be merged without cost.

    Threads of `target` share each step.
    """
    threads = target.threads
    groups: list[int] = []
    for d, size in enumerate(dims):
        if d and (mergeable[d - 1] or size == 1 or groups[-1] == 1):
            groups[-1] *= size
        else:
            groups.append(size)
    if not groups:
        groups = [1]
    inner = groups.pop()
    if threads > 1 and groups:
        lanes = gcd(lanes, inner)  # no thread's elements lie in two rows
    short = inner < lanes * threads if threads > 1 else inner < min(lanes, SHORT_ROW)
    if short and groups:  # lanes and threads run across rows; fewer lanes, where they have elements to fill
        inner *= prod(groups)
        groups = []
    lanes = fitting(lanes, inner)
    block = max(1, inner)  # there may be no elements
    least = lanes * threads * 4 if threads == 1 else max(lanes, 4) * threads
    step = max(least, target.limits.step_cost // max(cost, 1) // least * least)
    if inner > 2 * step:
        block = step
    return Space(tuple(groups), inner, block, lanes, fitting(threads, block // lanes))
