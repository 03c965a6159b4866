"""Kernels: functions that compute one fused computation, with the calling convention of the target's
`Distribution`.

`codegen.emit` has an `emit(k, plan)` for each kernel kind (`axla.kernels`), which writes the function of a
phase with a `KernelWriter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import prod

from axla.codegen.array import DenseArray
from axla.codegen.distribute import Distribution, kernel_function
from axla.codegen.element import Elements, reshape_index
from axla.codegen.function import ForLoop, LlvmFunction, LlvmModule, Ssa
from axla.codegen.index import AnyIndex, Index, base_of, delinearize
from axla.codegen.nvptx import ThreadBlock
from axla.codegen.spirv import SpirvModule, WorkGroup
from axla.codegen.value import Value, Values
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.ir.typed import shape_of
from axla.kernels.access import kernel_roots, root_shape
from axla.kernels.kinds import kind_planned_as
from axla.kernels.plan import Space
from axla.program.kernels import Kernel, output_shapes
from axla.target.machine import Target

LARGEST_32_BIT = (1 << 31) - (1 << 16)
"""The largest number of elements of an array on targets with 32-bit indices: an index one loop step after the
end must not overflow.
"""

Storing = tuple[DenseArray, tuple[AnyIndex, ...], Value]


class KernelWriter:
    """Writes a function of a kernel, usually that of one phase; `inputs` and `outputs` are the kernel's
    arrays.
    """

    def __init__(self, share: Distribution, kernel: Kernel, target: Target, phase: int = 0):
        self.share, self.f = share, share.f
        self.kernel, self.target, self.phase = kernel, target, phase
        computation = kernel.computation
        self.roots = kernel_roots(computation)
        self.named = kernel.named()
        first = len(computation.parameters)
        self.values = Values(self.f, target)
        pairs = zip(computation.parameters, _read_only(kernel), strict=True)
        self.inputs = [self._array(n, shape_of(p), reads) for n, (p, reads) in enumerate(pairs)]
        shapes = output_shapes(computation)
        self.outputs = [self._array(first + k, s, False) for k, s in enumerate(shapes)]
        self._scratch_slot = first + len(self.outputs)

    def inside(self, f: LlvmFunction) -> KernelWriter:
        """A writer for another function, `f`, that has the kernel's buffers as parameters."""
        return KernelWriter(self.share.inside(f), self.kernel, self.target, self.phase)

    def _array(self, slot: int, shape: Shape, readonly: bool) -> DenseArray:
        if shape.size > LARGEST_32_BIT and self.f.module.index_type == "i32":
            raise UnsupportedError(
                f"{self.kernel.name}: {shape} has {shape.size} elements; indices on {self.target.name} have "
                f"32 bits, for at most {LARGEST_32_BIT}"
            )
        # On the host, arguments may have any address; arrays on devices are aligned.
        align = self.target.access_bytes or 1
        place = self.share.argument(slot)
        return DenseArray(self.values, place, shape.dtype, shape.dims, readonly=readonly, align=align)

    def scratch(self, offset: int = 0) -> Ssa:
        """The address of byte `offset` of the kernel's scratch memory."""
        return self.f.gep("i8", self.share.argument(self._scratch_slot), self.f.const("i64", offset))

    def scratch_of_call(self, size: int, offset: int = 0) -> Ssa:
        """The address of the scratch memory of this call's first step. Each step has `size` bytes; those of
        step 0 are at byte `offset`.
        """
        return self.f.gep("i8", self.scratch(offset), self.f.mul(self.share.begin, size))

    def local_array(self, dtype: DType, dims: Sequence[int]) -> DenseArray:
        """An array that the threads of a step share, in local memory."""
        address = self.share.local(prod(dims) * dtype.itemsize)
        return DenseArray(self.values, address, dtype, dims, readonly=False)

    @contextmanager
    def steps(self, *sizes: int) -> Iterator[tuple[AnyIndex, ...]]:
        """Writes a loop over the steps of this call. Yields the index of a step in the kernel's outer space,
        whose dimensions are `sizes`.
        """
        with self.share.steps() as step:
            yield delinearize(Index(self.f, step, limit=prod(sizes)), sizes)

    def lines(self, per_piece: int, count: int) -> AbstractContextManager[ForLoop]:
        """Writes a loop over the lines that this call processes, out of `count`; a step has `per_piece`
        lines.
        """
        f, share = self.f, self.share
        last = f.smin(f.mul(share.end, per_piece), count)
        return f.loop(f.mul(share.begin, per_piece), last, 1, nonempty=True)

    def walk(
        self, low: Ssa, high: Ssa, step: int, carry: Sequence[Ssa] = (), *, nonempty: bool = False,
        blocks: int = 1,
    ) -> AbstractContextManager[ForLoop]:  # fmt: skip
        """Writes a loop over [low, high), in blocks of `step` indices that the threads of a step share. In an
        iteration, each thread has `blocks` blocks: all threads do their first one, then all do their second
        one...

        `nonempty` promises that the range is not empty (an individual thread's part may be).
        """
        threads = self.share.threads
        all_work = threads == 1
        if low.constant is not None and high.constant is not None:
            all_work = high.constant - low.constant > step * (threads - 1)
        start = self.share.start(low, step)
        return self.f.loop(start, high, step * threads * blocks, carry, nonempty=nonempty and all_work)

    def elements(self, lanes: int) -> Elements:
        """Element generators for the kernel's computation, whose parameters are loaded from the kernel's
        inputs.
        """
        found = Elements(self.values, lanes)
        for parameter, given in zip(self.kernel.computation.parameters, self.inputs, strict=True):
            found.bind(parameter, given)
        return found

    def write(
        self,
        e: Elements,
        at: Sequence[AnyIndex],
        dims: Sequence[int],
        only: Sequence[int] | None = None,
    ) -> None:
        """Computes the roots (those numbered in `only`, or all) at an index into `dims`, and stores them.

        All inputs are read before anything is written, since an output may share memory with an input.
        """
        store(self.computed(e, at, dims, only))

    def computed(
        self, e: Elements, at: Sequence[AnyIndex], dims: Sequence[int], only: Sequence[int] | None = None
    ) -> list[Storing]:
        """Computes what `write` would store: (output array, index, value) for each output. `only` is as for
        `write`.
        """
        found: list[Storing] = []
        for number, root in enumerate(self.roots):
            if only is not None and number not in only:
                continue
            outputs = self.outputs_of(number)
            here = reshape_index(at, dims, root_shape(root).dims)
            found.extend((o, here, v) for o, v in zip(outputs, e.all(root, here), strict=True))
        return found

    def outputs_of(self, number: int) -> list[DenseArray]:
        """The output arrays of root `number`; a variadic reduce has several."""
        counts = [root.shape.leaf_count for root in self.roots]
        first = sum(counts[:number])
        return self.outputs[first : first + counts[number]]


def store(found: Iterable[Storing]) -> None:
    """Stores values; `found` has (output array, index, value) triples."""
    for output, here, value in found:
        output.store(here, value)


def _read_only(kernel: Kernel) -> list[bool]:
    """For each input, whether the kernel does not write to its memory."""
    shared = {number for _, number in kernel.in_place}
    return [number not in shared for number in range(len(kernel.computation.parameters))]


def device_module(target: Target) -> LlvmModule:
    """An empty module for kernels that are launched on a device."""
    return (SpirvModule if target.form.format == "spirv" else LlvmModule)(target.index_type)


def emit_kernel(module: LlvmModule, kernel: Kernel, target: Target) -> None:
    """Writes a kernel's functions into the module, one for each phase."""
    plan, kind = kernel.plan, kind_planned_as(type(kernel.plan))
    written = [False] * len(output_shapes(kernel.computation))
    for number, phase in enumerate(plan.phases):
        if isinstance(module, SpirvModule):
            share = WorkGroup(module, phase.symbol, [*_read_only(kernel), *written], phase.threads)
        elif target.launched:
            share = ThreadBlock(module, phase.symbol, [*_read_only(kernel), *written], phase.threads)
        else:
            share = Distribution(kernel_function(module, phase.symbol, target), phase.count == 1)
            share.f.polls = kernel.polls
        kind.emit(KernelWriter(share, kernel, target, number), plan)
        share.finish()


def least(f: LlvmFunction, index: Ssa, limit: int, *, needed: bool = True) -> Ssa:
    """Returns min(index, limit) if that is `needed`, else `index`. The last block of a row then overlaps the
    block before it instead of passing the end of the row.
    """
    return f.smin(index, limit) if needed else index


def span_of(f: LlvmFunction, space: Space, block: AnyIndex) -> tuple[Ssa, Ssa]:
    """(low, high): the range [low, high) of inner indices in block number `block` of a space."""
    low = f.mul(base_of(f, block), space.block)
    return low, f.smin(f.add(low, space.block), space.inner)
