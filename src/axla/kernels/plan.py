"""Plans of kernels: all decisions of a kind's planner for a computation and a Target.

A plan has phases, scratch memory, the division of the index space into steps, and the names of instructions
that are treated specially. Plans are values: an equal computation and an equal Target give an equal plan.
Emitters read computation, plan and Target, and make none of these decisions.

This file also has functions that the planners share: costs, and the division of index spaces.
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
"""The length of rows from which on all lanes of a vector are in one row; across rows, elements are loaded one
by one.
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """A call of a kernel function for `count` steps of its outer index space, which threads take in ranges of
    `grain` steps.

    `parallel`: the work is worth several threads. A phase ends before the next one begins. `threads` is the
    number of threads that run each step together.
    """

    symbol: str
    count: int
    grain: int
    parallel: bool
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Space:
    """A row-major index space, divided for a kernel: the sizes `outer`, then `inner` elements along which
    lanes run, in blocks of `block` elements.

    The kernel's outer index counts blocks: (outer..., block number). `threads` threads share the elements of
    a step.
    """

    outer: tuple[int, ...]
    inner: int
    block: int
    lanes: int
    threads: int = 1

    @property
    def blocks(self) -> int:
        """The number of blocks of the inner elements; the last block may be smaller."""
        return -(-self.inner // self.block)

    @property
    def count(self) -> int:
        """The number of steps: one for each block at each outer index."""
        return prod(self.outer) * self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a kernel. Each kind has a subclass of its own, with the fields that its emitter reads."""

    phases: tuple[Phase, ...]
    scratch_bytes: int = 0

    @property
    def blocks(self) -> tuple[int, int] | None:
        """The number of blocks, and of elements per block, that the kernel's single function computes; None
        if its steps are not such blocks.
        """
        return None


@dataclass(frozen=True, slots=True)
class KernelTask:
    """A kernel to plan: a name and a computation. `in_place` has the (output, input) pairs that share
    memory.
    """

    name: str
    computation: Computation
    in_place: tuple[tuple[int, int], ...]

    def cost(self, target: Target) -> int:
        """Estimates the operations for one element of the kernel's index space: 1 for loads and stores, 2 for
        each reduce, and those of the elementwise ops. The last are divided by half of the lanes of a vector,
        which computes several elements at once.
        """
        folds = computed = 0
        for inst in self.computation.instructions:
            if inst.op.elementwise:
                computed += target.limits.function_cost if inst.op.expensive else 1
            elif inst.op.opcode == "reduce":
                folds += 1
        # Half of the lanes count: functions of f64 are longer, and vectors are not always full.
        return 1 + 2 * folds + -(-computed // max(1, target.lanes(widest(self.computation)) // 2))

    def phase(self, count: int, cost: int, limits: Limits, threads: int = 1, symbol: str = "") -> Phase:
        """A phase of `count` steps with `cost` operations each; `threads` threads run each step together.
        `symbol` is the name of the phase's function, by default that of the kernel. The ranges of steps
        depend on shapes only, so that results never depend on the number of threads.
        """
        grain, parallel = max(count, 1), False
        if count * cost >= limits.parallel_cost and count > 1:
            grain, parallel = max(1, min(count // 2, limits.chunk_cost // max(cost, 1))), True
        return Phase(symbol or self.name, count, grain, parallel, threads)


def widest(computation: Computation, single: int = 0) -> DType:
    """The widest element type among the instructions of a kernel. Arrays of at most `single` elements count
    only if there are no larger ones.
    """
    return widest_of(computation.instructions, single)


def widest_of(instructions: Iterable[Instruction], single: int = 0) -> DType:
    """The widest element type among these instructions. Arrays of at most `single` elements count only if
    there are no larger ones.
    """
    leaves = (shape for inst in instructions for shape in inst.shape.leaves())
    shapes = [shape for shape in leaves if isinstance(shape, Shape)]
    long = [shape for shape in shapes if shape.size > single]
    return max((shape.dtype for shape in long or shapes), key=_width)


def _width(dtype: DType) -> tuple[int, bool]:
    return max(dtype.real.bits, 32) if dtype.is_inexact else dtype.bits, dtype.is_complex


def lines_per_piece(lines: int, cost: int, limits: Limits) -> int:
    """The number of lines that a thread takes at a time in a kernel that works line by line, with `cost`
    operations for each line.
    """
    if lines > 1 and lines * cost >= limits.parallel_cost:
        return max(1, min(lines // 2, limits.parallel_cost // 2 // cost), -(-lines // limits.parts))
    return max(1, lines)


def fitting(lanes: int, count: int) -> int:
    """`lanes`, or the largest lower power of two that is not above `count`; at least 1. `lanes` is a power of
    two.
    """
    return max(1, min(lanes, 1 << max(count, 1).bit_length() - 1))


def accumulation_type(dtype: DType) -> DType:
    """The type in which sums of products are accumulated: f32 for floats of less than 32 bits, else the type
    itself.
    """
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


def cut(dims: Sequence[int], lanes: int, cost: int, mergeable: Sequence[bool], target: Target) -> Space:
    """The space of a loop over `dims` with `cost` operations per element. mergeable[d] says that dimensions d
    and d+1 may be merged without cost. The threads of `target` share each step.
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
        lanes = gcd(lanes, inner)  # so that the elements of a thread are in one row
    short = inner < lanes * threads if threads > 1 else inner < min(lanes, SHORT_ROW)
    if short and groups:  # rows are too short: lanes and threads run across several
        inner *= prod(groups)
        groups = []
    lanes = fitting(lanes, inner)
    block = max(1, inner)  # at least 1, even without elements
    least = lanes * threads * 4 if threads == 1 else max(lanes, 4) * threads
    step = max(least, target.limits.step_cost // max(cost, 1) // least * least)
    if inner > 2 * step:
        block = step
    return Space(tuple(groups), inner, block, lanes, fitting(threads, block // lanes))
