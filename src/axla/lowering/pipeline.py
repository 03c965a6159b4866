"""Compiles a Module for a Target to a Program: runs the passes, assigns buffers and lowers to steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import numpy as np

from axla.analysis.buffers import assign_buffers
from axla.codegen.host import host_target
from axla.core import trace
from axla.core.literal import Literal, MovedLiteral, aligned_memory, bytes_in, copy_in_order
from axla.ir.graph import Module
from axla.lowering.lower import Choose, lower
from axla.passes.driver import run_cpu
from axla.program.program import Program
from axla.target.machine import Target, aligned


def compile_program(
    module: Module, target: Target, constants: dict[Literal, int] | None = None, choose: Choose | None = None
) -> Program:  # fmt: skip
    """Compiles a module, which is changed in the process, to a program; `constants` and `choose` as for
    `program_of`.
    """
    with trace.span("passes"):
        optimize(module, target)
    return program_of(module, target, constants, choose)


def optimize(module: Module, target: Target) -> None:
    """Runs the CPU pipeline on a module; afterwards it is simplified, fused, scheduled, and ready for buffer
    assignment.
    """
    run_cpu(module, target)


def program_of(
    module: Module, target: Target | None = None, constants: dict[Literal, int] | None = None,
    choose: Choose | None = None,
) -> Program:  # fmt: skip
    """The program of a module that `optimize` has been run on, by default for the host. `constants` maps
    constants to their offsets in a segment that several programs share; this program's constants are added to
    it. `choose` may replace the plans of kernels.
    """
    target = target or host_target()
    with trace.span("assign-buffers"):
        buffers = assign_buffers(module, target.limits, constants)
    with trace.span("lower"):
        return lower(module, buffers, target, choose)


def constants_segment(constants: Mapping[Literal, int], byte_order: str = sys.byteorder) -> bytes:
    """The bytes of a segment of constants on a machine of the given byte order; `constants` maps literals to
    offsets.
    """
    return bytes(constants_memory(constants, byte_order))


def constants_memory(
    constants: Mapping[Literal, int], byte_order: str = sys.byteorder
) -> memoryview:  # fmt: skip
    """Like `constants_segment`, in memory that is aligned as programs require. Large constants are copied
    only here.
    """
    end = max((offset + literal.values.nbytes for literal, offset in constants.items()), default=0)
    memory = aligned_memory(aligned(end))
    at = 0
    for literal, offset in constants.items():  # sorted by offset
        memory[at:offset] = bytes(offset - at)
        at = offset + literal.values.nbytes
        if isinstance(literal, MovedLiteral) and byte_order == sys.byteorder:
            place = np.frombuffer(memory[offset:at], literal.values.dtype).reshape(literal.values.shape)
            copy_in_order(literal.values, place)
        else:
            memory[offset:at] = bytes_in(literal.array, byte_order)
    memory[at:] = bytes(len(memory) - at)
    return memory.toreadonly()


def settle(lent: Iterable[MovedLiteral], constants: Mapping[Literal, int], memory: memoryview) -> None:
    """Makes the literals `lent` use the memory of a segment, if the segment contains all their elements,
    possibly in another order of dimensions. `constants` maps the literals of the segment to their offsets in
    `memory`.
    """
    stored = [(literal.values, offset) for literal, offset in constants.items()]
    places = {values.ctypes.data: (values, offset) for values, offset in stored}
    for literal in lent:
        mine = literal.values
        values, offset = places.get(mine.ctypes.data, (mine, -1))
        order = sorted(range(values.ndim), key=lambda d: -values.strides[d])
        if offset >= 0 and values.size == mine.size and values.transpose(order).flags.c_contiguous:
            place = np.frombuffer(memory, mine.dtype, mine.size, offset)
            literal.move_to(place.reshape(values.shape).transpose(order))
