"""Kernels: functions that compute one fused computation, called as the target's `Distribution` says.

What planners share (costs, and how index spaces are cut), and what emitters do (`KernelWriter`). A module of
`codegen.emit` has both for a kind of kernel: `plan(task, kind, target)` gives the plan, `emit(k, plan)`
writes the function of a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod

from axla.codegen.array import Array
from axla.codegen.distribute import Distribution, team_size
from axla.codegen.element import Elements
from axla.codegen.function import Function, Loop, Module, Ssa
from axla.codegen.index import AnyIndex, Index, delinearize
from axla.codegen.nvptx import Block
from axla.codegen.value import Value, Values
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, array
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import shape_of
from axla.program.kernels import Kernel, kernel_roots, output_shapes
from axla.program.plans import Space
from axla.target.machine import Limits, Target

LARGEST_32_BIT = (1 << 31) - (1 << 16)
"""Elements of an array where indices have 32 bits: an index one step behind the end must not overflow."""


@dataclass(frozen=True, slots=True)
class KernelTask:
    """What is to be planned: a computation, under a name. `in_place`: (output, input) pairs that share
    memory.
    """

    name: str
    computation: Computation
    in_place: tuple[tuple[int, int], ...]


def root_shape(root: Instruction) -> Shape:
    """The shape of a root; of one with several results, which have equal dimensions, that of the first."""
    return array(next(iter(root.shape.leaves())))


def widest(computation: Computation) -> DType:
    """The widest element type that the instructions of a kernel compute with."""
    found: DType | None = None
    for inst in computation.instructions:
        for shape in inst.shape.leaves():
            if isinstance(shape, Shape) and (found is None or _width(shape.dtype) > _width(found)):
                found = shape.dtype
    assert found is not None
    return found


def _width(dtype: DType) -> int:
    return max(dtype.real.bits, 32) if dtype.is_inexact else dtype.bits


def body_cost(computation: Computation, limits: Limits) -> int:
    """Element operations for one element of a kernel's index space."""
    cost = 1
    for inst in computation.instructions:
        if inst.op.elementwise:
            cost += limits.function_cost if inst.op.expensive else 1
        elif inst.op.opcode == "reduce":
            cost += 2
    return cost


def grain_of(count: int, cost_per_step: int, limits: Limits) -> tuple[int, bool]:
    """(grain, parallel) of an index space. Depends on shapes only: results never depend on threads."""
    total = count * cost_per_step
    if total < limits.parallel_cost or count < 2:
        return max(count, 1), False
    grain = max(1, min(count // 2, limits.chunk_cost // max(cost_per_step, 1)))
    return grain, True


def lines_per_piece(lines: int, cost: int, limits: Limits) -> int:
    """How many lines a piece has of a kernel that goes line by line, each of `cost` element operations."""
    if lines > 1 and lines * cost >= limits.parallel_cost:
        return max(1, min(lines // 2, limits.parallel_cost // 2 // cost), -(-lines // limits.parts))
    return max(1, lines)


def fitting(lanes: int, count: int) -> int:
    """`lanes`, a power of two, or as many as `count` elements fill; at least one."""
    return max(1, min(lanes, 1 << max(count, 1).bit_length() - 1))


def distribution(
    module: Module, name: str, target: Target, read_only: Sequence[bool], threads: int
) -> Distribution:
    """Opens a kernel function; `read_only` says of each buffer whether its memory is only read."""
    if target.launched:
        return Block(module, name, read_only, threads)
    return Distribution(module, name, target)


class KernelWriter:
    """The function of a phase of a kernel being written, with its arrays."""

    def __init__(self, module: Module, kernel: Kernel, target: Target, phase: int = 0):
        symbol, threads = kernel.plan.phases[phase].symbol, kernel.plan.phases[phase].threads
        self.kernel, self.phase = kernel, phase
        self.target = target
        computation = kernel.computation
        self.roots = kernel_roots(computation)
        self.named = kernel.named()
        shared = {i for _, i in kernel.in_place}
        first = len(computation.parameters)
        outputs = output_shapes(computation)
        read_only = [*(number not in shared for number in range(first)), *(False for _ in outputs)]
        self.share = distribution(module, symbol, target, read_only, threads)
        self.f = self.share.f
        self.f.polls = kernel.polls and "frame" in self.f.params
        self.values = Values(self.f, target)
        self.inputs = [
            self._array(number, shape_of(p), read_only[number])
            for number, p in enumerate(computation.parameters)
        ]
        self.outputs = [self._array(first + k, s, False) for k, s in enumerate(outputs)]
        self._scratch_slot = first + len(self.outputs)

    def _array(self, slot: int, shape: Shape, readonly: bool) -> Array:
        if shape.size > LARGEST_32_BIT and self.f.module.index_type == "i32":
            raise UnsupportedError(
                f"{self.kernel.name}: {shape} has {shape.size} elements; indices on {self.target.name} have "
                f"32 bits, for at most {LARGEST_32_BIT}"
            )
        return Array(self.values, self.share.argument(slot), shape.dtype, shape.dims, readonly=readonly)

    def scratch(self, offset: int = 0) -> Ssa:
        """The address of the kernel's scratch memory, `offset` bytes in."""
        return self.f.gep("i8", self.share.argument(self._scratch_slot), self.f.const("i64", offset))

    def walk(
        self, low: Ssa, high: Ssa, step: int, carry: Sequence[Ssa] = (), *, nonempty: bool = False
    ) -> AbstractContextManager[Loop]:
        """A loop over [low, high) that the threads of a step share, in stretches of `step` indices each.

        `nonempty` promises that the range is not empty (of one thread's part nothing is promised).
        """
        threads = self.share.threads
        all_work = threads == 1
        if low.constant is not None and high.constant is not None:
            all_work = high.constant - low.constant > step * (threads - 1)
        start = self.share.start(low, step)
        return self.f.loop(start, high, step * threads, carry, nonempty=nonempty and all_work)

    def elements(self, lanes: int) -> Elements:
        """Element generators with the computation's parameters bound to the inputs."""
        found = Elements(self.values, lanes)
        for parameter, given in zip(self.kernel.computation.parameters, self.inputs, strict=True):
            found.bind(parameter, given)
        return found

    def write(
        self,
        e: Elements,
        index_of: Callable[[Shape], tuple[AnyIndex, ...]],
        only: Sequence[int] | None = None,
    ) -> None:
        """Computes roots (those numbered in `only`, or all) at `index_of(shape)` and stores them.

        All is read before anything is written: an output may lie where an input lies.
        """
        found: list[tuple[Array, tuple[AnyIndex, ...], Value]] = []
        for number, root in enumerate(self.roots):
            if only is not None and number not in only:
                continue
            outputs = self.outputs_of(number)
            at = index_of(root_shape(root))
            found.extend((o, at, v) for o, v in zip(outputs, e.all(root, at), strict=True))
        for output, at, value in found:
            output.store(at, value)

    def outputs_of(self, number: int) -> list[Array]:
        """The outputs of a root: several for a variadic reduce and its like."""
        counts = [sum(1 for _ in root.shape.leaves()) for root in self.roots]
        first = sum(counts[:number])
        return self.outputs[first : first + counts[number]]


def cut(dims: Sequence[int], lanes: int, cost: int, mergeable: Sequence[bool], target: Target) -> Space:
    """The space for a loop over `dims`; mergeable[d]: dimensions d and d+1 may become one at no price.

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
    if inner < lanes * threads and groups:  # short rows: lanes and threads run across them
        inner *= prod(groups)
        groups = []
    lanes = fitting(lanes, inner)
    block = inner
    least = lanes * threads * 4
    step = max(least, target.limits.step_cost // max(cost, 1) // least * least)
    if inner > 2 * step:
        block = step
    return Space(tuple(groups), inner, block, lanes, team_size(target, block // lanes))


def block_of(f: Function, space: Space, position: Ssa) -> tuple[tuple[AnyIndex, ...], Ssa, Ssa]:
    """(outer indices, first and end of the inner ones) of a step of the kernel's outer index space."""
    here = Index(f, position, limit=space.count)
    sizes = (*space.outer, space.blocks)
    *outer, block = delinearize(here, sizes)
    number = f.index(block) if isinstance(block, int) else block.base
    low = f.mul(number, f.index(space.block))
    return tuple(outer), low, f.smin(f.add(low, f.index(space.block)), f.index(space.inner))


def dims_index(
    space: Space, dims: Sequence[int], outer: Sequence[AnyIndex], inner: AnyIndex
) -> tuple[AnyIndex, ...]:
    """The index into `dims` of a place in the space that was cut from them."""
    found: list[AnyIndex] = []
    d = 0
    for size, index in zip((*space.outer, space.inner), (*outer, inner), strict=True):
        start, product = d, 1
        while d < len(dims) and (product < size or (product == size and dims[d] == 1)):
            product *= dims[d]
            d += 1
        found.extend(delinearize(index, dims[start:d]))
    found.extend(0 for _ in range(len(dims) - d))
    return tuple(found)
