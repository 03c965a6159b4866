"""The calling convention of kernel functions, and the division of their work among threads.

A kernel's work is a range of *steps* of its outer index space. A CPU thread is called with such a range and
runs it alone. On other devices several threads run a step together: each handles every n-th block of an inner
dimension (for n threads), the partial results of threads are combined, and single values are written once.
Emitters express this through a `Distribution`, so they are the same for all machines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.codegen.value import Join, ValueGroup
from axla.target.machine import Target


class Distribution:
    """Writes a kernel function: its calling convention, and the division of its work among the threads that
    run it.

    This class is for `i32 name(ptr frame, ptr args, i64 begin, i64 end)`: a thread runs a range of steps
    alone; 0 means success. `args` points to the addresses of the buffers.
    """

    f: LlvmFunction
    threads = 1
    """The number of threads that run a step together: a power of two."""

    def __init__(self, f: LlvmFunction, one_step: bool = False):
        """Writes into the function `f`; `one_step` says that the kernel has only step 0."""
        self.f, self.one_step = f, one_step

    @property
    def begin(self) -> Ssa:
        """The first step of this call, in the index type."""
        return self._range("begin")

    @property
    def end(self) -> Ssa:
        """The number after that of the last step; a call has at least one step."""
        return self._range("end")

    def _range(self, name: str) -> Ssa:
        return self.f.cast("trunc", self.f.params[name], self.f.module.index_type)

    @contextlib.contextmanager
    def steps(self) -> Iterator[Ssa]:
        """Writes a loop over the steps of this call; yields the step's number."""
        if self.one_step:
            yield self.f.index(0)
            return
        with self.f.loop(self.begin, self.end, 1, nonempty=True) as loop:
            yield loop.index

    def argument(self, slot: int) -> Ssa:
        """The address of buffer number `slot`: the inputs come first, then the outputs, then the scratch
        memory.
        """
        f = self.f
        return f.load("ptr", f.gep("ptr", f.params["args"], f.const("i64", slot)), 8, readonly=True)

    def handed(self) -> dict[str, Ssa]:
        """The parameters, by name, through which functions that the kernel calls receive its buffers."""
        return {name: self.f.params[name] for name in ("frame", "args")}

    def inside(self, f: LlvmFunction) -> Distribution:
        """The distribution for a function that the kernel calls with the parameters of `handed`."""
        return Distribution(f, self.one_step)

    def start(self, low: Ssa, step: int) -> Ssa:
        """The first index of this thread in a loop from `low`, in which the threads take blocks of `step`
        indices in turn.
        """
        return low

    def split(self, threads: int) -> Ssa:
        """Divides the threads of a step into groups of `threads`. From here on, each group works as if it ran
        a step of its own. Returns the number of this thread's group.
        """
        return self.f.index(0)

    def combine(self, values: ValueGroup, join: Join) -> ValueGroup:
        """Combines the values of all threads of a step (one lane each) in a fixed tree; every thread gets the
        result. `join` combines two groups of values.

        Either all threads of the step call this, or none does.
        """
        return values

    def local(self, size: int) -> Ssa:
        """The address of `size` bytes of memory that the threads of a step share, aligned to 16."""
        return self.f.space(f"[{size} x i8]", 16)

    def barrier(self, *, everywhere: bool = False) -> None:
        """A barrier for all threads of a step. Their earlier writes to local memory are visible afterwards,
        and those to other memory if `everywhere`.
        """

    def once(self) -> contextlib.AbstractContextManager[None]:
        """Opens code that only one thread of a step runs."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Ends the function."""
        self.f.ret(self.f.const("i32", 0))


def kernel_function(module: LlvmModule, name: str, target: Target) -> LlvmFunction:
    """A new function that a CPU thread calls with a range of steps."""
    attributes = 'nounwind noinline "no-builtins"'
    if target.vector_bytes == 64:
        attributes += ' "prefer-vector-width"="512"'
    params = [("ptr noalias", "frame"), ("ptr noalias", "args"), ("i64", "begin"), ("i64", "end")]
    return LlvmFunction(module, name, "i32", params, linkage="internal", attributes=attributes)
