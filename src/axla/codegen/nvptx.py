"""Runs a step of a kernel by a block of threads of an NVIDIA GPU.

A thread has one lane. Block number b runs step b of the kernel's outer index space; the grid of a phase is
`Phase.count` blocks of `Phase.threads`. PTX text comes from `llvm.emit_assembly`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from axla.codegen.distribute import Distribution
from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.codegen.value import Join, Value, ValueGroup
from axla.core.dtypes import F16, DType

WARP = 32
_INTEGER_OF = {"float": "i32", "double": "i64"}


class Handed(Distribution):
    """The distribution for a function that receives the buffers of a kernel as parameters."""

    def __init__(self, f: LlvmFunction, slots: Sequence[str]):
        super().__init__(f)
        self._slots = slots

    def argument(self, slot: int) -> Ssa:
        """The pointer to buffer number `slot`: a parameter of the called function."""
        return self.f.params[self._slots[slot]]


class ThreadBlock(Distribution):
    """Writes a kernel function `void name(ptr buffers..., ptr scratch)` for NVIDIA GPUs: block b runs
    step b.
    """

    def __init__(self, module: LlvmModule, name: str, read_only: Sequence[bool], threads: int):
        self.threads = threads
        # A buffer that no thread writes may be read through the cache for constants: `noalias readonly` says
        # so.
        kinds = ["ptr noalias readonly" if only else "ptr" for only in read_only]
        buffers = [(kind, f"buffer{slot}") for slot, kind in enumerate(kinds)]
        self._slots = [name for _, name in buffers] + ["scratch"]
        self.f = LlvmFunction(
            module, name, "void", [*buffers, ("ptr", "scratch")], linkage="ptx_kernel",
            attributes=f'nounwind "no-builtins" "nvvm.reqntid"="{threads}"',
        )  # fmt: skip
        self._step = self._special("ctaid.x")
        self._behind = self.f.add(self._step, 1)
        self.thread = self.member = self._special("tid.x")
        self._shared = 0

    @property
    def begin(self) -> Ssa:
        """The first step: the number of the block."""
        return self._step

    @property
    def end(self) -> Ssa:
        """The number after that of the only step."""
        return self._behind

    def _special(self, register: str) -> Ssa:
        found = self.f.call("i32", f"llvm.nvvm.read.ptx.sreg.{register}")
        return self.f.cast("zext", found, self.f.module.index_type)

    def steps(self) -> contextlib.AbstractContextManager[Ssa]:
        """Yields the number of the only step; no loop is needed."""
        return contextlib.nullcontext(self.begin)

    def argument(self, slot: int) -> Ssa:
        """The pointer to buffer number `slot`: a parameter of the kernel."""
        return self.f.params[self._slots[slot]]

    def handed(self) -> dict[str, Ssa]:
        """The pointers to all buffers, by the names that they have in called functions."""
        return {name: self.argument(slot) for slot, name in enumerate(self._slots)}

    def inside(self, f: LlvmFunction) -> Distribution:
        """The distribution of a function that is called with all buffers."""
        return Handed(f, self._slots)

    def start(self, low: Ssa, step: int) -> Ssa:
        """The first index of this thread in a loop from `low` that all threads share: each thread starts
        `step` indices after the thread before it.
        """
        if self.threads == 1:
            return low
        return self.f.add(low, self.f.mul(self.thread, step))

    def split(self, threads: int) -> Ssa:
        """Divides the block into teams of `threads` threads; returns the number of this thread's team."""
        self.threads, self.thread = threads, self.f.urem(self.member, threads)
        return self.f.udiv(self.member, threads)

    def once(self) -> contextlib.AbstractContextManager[None]:
        """Opens code that the first thread of a team runs alone."""
        if self.threads == 1:
            return contextlib.nullcontext()
        return self.f.if_(self.f.icmp("eq", self.thread, 0))

    def finish(self) -> None:
        """Ends the kernel."""
        self.f.ret()

    # -- what threads share ----------------------------------------------------------------------------------

    def barrier(self, *, everywhere: bool = False) -> None:
        """A barrier for all threads of the step: their earlier writes to shared memory are visible
        afterwards.
        """
        self.f.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", self.f.const("i32", 0))

    def local(self, size: int) -> Ssa:
        """The address of `size` bytes of the block's shared memory, aligned to 16."""
        return self._shared_pointer(self._shared_name("i8", size, 16))

    def _shared_pointer(self, name: str) -> Ssa:
        """A generic pointer to a global in the block's shared memory."""
        return self.f.anywhere("ptr", f"addrspacecast (ptr addrspace(3) @{name} to ptr)")

    def squares(self, row: Ssa, *, transposed: bool) -> list[Ssa]:
        """Loads four matrices of 8 x 8 16-bit elements from shared memory as tensor core fragments. `row` is
        the address of a row; every thread of a warp has another one. `transposed` transposes the matrices.
        """
        f, words = self.f, "{ i32, i32, i32, i32 }"
        place = f.cast("addrspacecast", row, "ptr addrspace(3)")
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.b16.p3"
        return self._fields(f.call(words, name, place, effect=True), "i32")

    def multiply_halves(
        self, dtype: DType, a: Sequence[Ssa], b: Sequence[Ssa], c: Sequence[Ssa]
    ) -> list[Ssa]:
        """Computes a b + c by the tensor core of a warp, for f16 or bf16: a has 16 x 16 elements, b 16 x 8,
        and c 16 x 8 of f32. Arguments and results are the fragments of this thread.
        """
        f = self.f
        name, words = "llvm.nvvm.mma.m16n8k16.row.col.bf16", [*a, *b]
        if dtype is F16:
            name = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
            words = [f.cast("bitcast", word, "<2 x half>") for word in words]
        return self._fields(f.call("{ float, float, float, float }", name, *words, *c, effect=True), "float")

    def _fields(self, struct: Ssa, kind: str) -> list[Ssa]:
        return [self.f.pure(kind, f"extractvalue {struct!r}, {n}", (struct,)) for n in range(4)]

    # -- combining the values of threads -------------------------------------------------------------------

    def combine(self, values: ValueGroup, join: Join) -> ValueGroup:
        """Combines the values of all threads: repeatedly the two halves of a warp, by shuffles; then the
        results of the warps, through shared memory. Every thread gets the result.
        """
        distance = min(self.threads, WARP) // 2
        while distance:
            values = join(values, self._shuffled(values, "down", distance))
            distance //= 2
        if self.threads > WARP:
            return self._across_warps(values, join)
        # Only the first thread has joined the values of all threads: send its result to the others.
        return self._shuffled(values, "idx", 0) if self.threads > 1 else values

    def _shuffled(self, values: ValueGroup, mode: str, lane: int) -> ValueGroup:
        """The values of another thread of the warp: of the thread `lane` threads after this one (mode
        "down"), or of thread number `lane` (mode "idx").
        """
        f = self.f
        width = min(self.threads, WARP)
        members = f.const("i32", -1 if width == WARP else (1 << width) - 1)
        if self.member is not self.thread and width < WARP:
            first = f.mul(f.udiv(f.urem(self.member, WARP), width), width)
            members = f.binary("shl", members, f.cast("trunc", first, "i32"))
        bounds = f.const("i32", (WARP - width) << 8 | (WARP - 1))  # sources stay within `width` threads

        def word(x: Ssa) -> Ssa:
            args = (members, x, f.const("i32", lane), bounds)
            return f.call("i32", f"llvm.nvvm.shfl.sync.{mode}.i32", *args, effect=True)

        return tuple(Value(v.dtype, 1, tuple(self._by_words(x, word) for x in v.parts)) for v in values)

    def _by_words(self, x: Ssa, move: Callable[[Ssa], Ssa]) -> Ssa:
        """Applies `move` to a register of any type, in 32-bit words."""
        f = self.f
        kind = _INTEGER_OF.get(x.type, x.type)
        whole = f.cast("bitcast", x, kind)
        if kind != "i64":
            moved = move(f.cast("zext", whole, "i32"))
            return f.cast("bitcast", f.cast("trunc", moved, kind), x.type)
        shift = f.const("i64", 32)
        low = move(f.cast("trunc", whole, "i32"))
        high = move(f.cast("trunc", f.binary("lshr", whole, shift), "i32"))
        upper = f.binary("shl", f.cast("zext", high, "i64"), shift)
        return f.cast("bitcast", f.binary("or", upper, f.cast("zext", low, "i64")), x.type)

    def _across_warps(self, values: ValueGroup, join: Join) -> ValueGroup:
        """Combines the values of the first threads of all warps pairwise; every thread computes the
        result.
        """
        f = self.f
        warps = self.threads // WARP
        places = [[(x, self._shared_array(x.type, warps)) for x in v.parts] for v in values]
        with f.if_(f.icmp("eq", f.urem(self.thread, WARP), 0)):
            for x, array in (pair for part in places for pair in part):
                kind = _memory(x.type)
                f.store(f.cast("zext", x, kind), f.gep(kind, array, f.udiv(self.thread, WARP)), _bytes(kind))
        # No thread writes this memory again, in this step or another: one barrier is enough.
        self.barrier()
        held = [
            tuple(
                Value(v.dtype, 1, tuple(self._shared_load(array, x.type, warp) for x, array in part))
                for v, part in zip(values, places, strict=True)
            )
            for warp in range(warps)
        ]
        while len(held) > 1:
            held = [join(held[n], held[n + 1]) for n in range(0, len(held), 2)]
        return held[0]

    def _shared_array(self, kind: str, count: int) -> Ssa:
        """The address of an array of `count` elements in the block's shared memory."""
        return self._shared_pointer(self._shared_name(kind, count))

    def _shared_name(self, kind: str, count: int, align: int = 0) -> str:
        """Adds an array of `count` elements in the block's shared memory to the module, by default aligned
        like its elements; returns its name.
        """
        name = f"{self.f.name}_shared{self._shared}"
        self._shared += 1
        kind = _memory(kind)
        self.f.module.globals[name] = (
            f"@{name} = internal addrspace(3) global [{count} x {kind}] poison, align {align or _bytes(kind)}"
        )
        return name

    def _shared_load(self, array: Ssa, kind: str, number: Ssa | int) -> Ssa:
        f, stored = self.f, _memory(kind)
        found = f.load(stored, f.gep(stored, array, number), _bytes(stored))
        return f.cast("trunc", found, kind)


def _memory(kind: str) -> str:
    """The LLVM type with which a register of type `kind` is kept in shared memory."""
    return "i8" if kind == "i1" else kind


def _bytes(kind: str) -> int:
    return int(_INTEGER_OF.get(kind, kind)[1:]) // 8
