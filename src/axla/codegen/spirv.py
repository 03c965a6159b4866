"""Runs a step of a kernel by a work-group of an OpenCL device, and writes its code for SPIR-V.

A work-item has one lane. Work-group number b runs step b of the kernel's outer index space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from axla.codegen.function import LlvmFunction, LlvmModule, Ssa
from axla.codegen.nvptx import ThreadBlock, _bytes, _memory
from axla.codegen.types import float_text
from axla.codegen.value import Join, Value, ValueGroup
from axla.core.regex import regex

_GENERIC, _GLOBAL, _LOCAL = 4, 1, 3  # address spaces
_POINTER = regex(r"\bptr\b(?! addrspace\()")
_STACK = regex(r"^  (%\w+) = alloca (.*)$", re.M)
_CONSTANT = regex(r"^@([\w.]+) = (?:private|internal) unnamed_addr constant")
_FROM_PRED = regex(r"uitofp <(\d+) x i1> (\S+) to (<\d+ x (\w+)>)")
_LOCAL_MEMORY, _ALL_MEMORY = 1, 3  # flags of a barrier: the memory it makes visible
_FAN = 8
"""The number of values that a work-item combines between two barriers."""


class SpirvModule(LlvmModule):
    """A module whose pointers are generic: they may point to any address space."""

    def __init__(self, index_type: str):
        super().__init__(index_type)
        self.has_bit_masks = False

    def text(self) -> str:
        """The module as LLVM text. Stack and constants are in their own address spaces; pointers to them are
        cast to generic ones.
        """
        casts = r"  \1.own = alloca \2\n  \1 = addrspacecast ptr addrspace(0) \1.own to ptr"
        constants = [m[1] for m in map(_CONSTANT.match, self.globals.values()) if m]
        for name in constants:
            self.globals[name] = self.globals[name].replace(" constant", f" addrspace({_GLOBAL}) constant", 1)
        self.functions = {name: _with_constants(body, constants) for name, body in self.functions.items()}
        text = _FROM_PRED.sub(_selected, _STACK.sub(casts, super().text()))
        return _POINTER.sub(f"ptr addrspace({_GENERIC})", text)


def _selected(found: re.Match[str]) -> str:
    """Replaces a conversion of i1 vectors to floats by a select, since LLVM converts them by a select of
    integers with a wrong type.
    """
    lanes, value, kind, element = found.groups()
    one = f"splat ({element} {float_text(element, 1.0)})"
    return f"select <{lanes} x i1> {value}, {kind} {one}, {kind} zeroinitializer"


def _with_constants(body: str, constants: Sequence[str]) -> str:
    """The text of a function, `body`, in which uses of constants are generic pointers."""
    casts = ["entry:"]
    for name in constants:
        if f"ptr @{name}," in body:
            body = body.replace(f"ptr @{name},", f"ptr %{name},")
            casts.append(f"  %{name} = addrspacecast ptr addrspace({_GLOBAL}) @{name} to ptr")
    return body.replace("entry:", "\n".join(casts), 1)


class WorkGroup(ThreadBlock):
    """Writes a kernel function `void name(global ptr buffers..., global ptr scratch)` for OpenCL: work-group
    b runs step b.
    """

    def __init__(self, module: LlvmModule, name: str, read_only: Sequence[bool], threads: int):
        self.threads = threads
        self._slots = names = [f"buffer{slot}" for slot in range(len(read_only))] + ["scratch"]
        self.f = LlvmFunction(
            module, name, "void", [(f"ptr addrspace({_GLOBAL})", name) for name in names],
            linkage="spir_kernel", attributes='nounwind "no-builtins"',
        )  # fmt: skip
        self._buffers = [self._generic(_GLOBAL, f"%{name}") for name in names]
        self._step = self._number("get_group_id")
        self._behind = self.f.add(self._step, 1)
        self.items, self.thread = threads, self._number("get_local_id")
        self.member = self.thread
        self._shared = 0

    def _generic(self, space: int, name: str) -> Ssa:
        """Casts `name`, a pointer into address space `space`, to a generic pointer."""
        return self.f.pure("ptr", f"addrspacecast ptr addrspace({space}) {name} to ptr", ())

    def _number(self, what: str) -> Ssa:
        symbol = f"_Z{len(what)}{what}j"
        self.f.module.declare(symbol, f"declare spir_func i64 @{symbol}(i32)")
        found = self.f.pure("i64", f"call spir_func i64 @{symbol}(i32 0)", ())
        return self.f.cast("trunc", found, self.f.module.index_type)

    def argument(self, slot: int) -> Ssa:
        """The pointer to buffer number `slot`."""
        return self._buffers[slot]

    def combine(self, values: ValueGroup, join: Join) -> ValueGroup:
        """Combines the values of neighbouring work-items through local memory until one value is left. `join`
        combines two groups of values.
        """
        distance = 1
        while distance < self.threads:
            fan = min(_FAN, self.threads // distance)
            values = self._joined(values, join, distance, fan)
            distance *= fan
        return values

    def _joined(self, values: ValueGroup, join: Join, distance: int, fan: int) -> ValueGroup:
        """Combines the values of `fan` work-items that are `distance` apart. Before that, each group of
        `distance` neighbours has one common value.
        """
        f = self.f
        places = [[(x, self._shared_array(x.type, self.items)) for x in v.parts] for v in values]
        for x, array in (pair for part in places for pair in part):
            kind = _memory(x.type)
            f.store(f.cast("zext", x, kind), f.gep(kind, array, self.member), _bytes(kind))
        self.barrier()
        first = f.mul(f.udiv(self.member, distance * fan), distance * fan)
        held = [
            tuple(
                Value(
                    v.dtype,
                    1,
                    tuple(self._shared_load(array, x.type, f.add(first, n * distance)) for x, array in part),
                )
                for v, part in zip(values, places, strict=True)
            )
            for n in range(fan)
        ]
        while len(held) > 1:
            held = [join(held[n], held[n + 1]) for n in range(0, len(held), 2)]
        return held[0]

    def barrier(self, *, everywhere: bool = False) -> None:
        """A barrier for all work-items of the group: their earlier writes to local memory are visible
        afterwards and, with `everywhere`, those to global memory.
        """
        self.f.module.declare("_Z7barrierj", "declare spir_func void @_Z7barrierj(i32) convergent nounwind")
        self.f.line(f"call spir_func void @_Z7barrierj(i32 {_ALL_MEMORY if everywhere else _LOCAL_MEMORY})")

    def _shared_pointer(self, name: str) -> Ssa:
        return self._generic(_LOCAL, f"@{name}")
