"""Programs written in LLVM IR by hand, for tests of the runtime alone."""

from __future__ import annotations

import ctypes as c
from functools import lru_cache

from axla.backends.native import NativeExecutable as Executable
from axla.codegen import llvm
from axla.codegen.host import host_target
from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.shape import Shape
from axla.program.abi import FRAME
from axla.program.interface import Alias, Interface, ValueSpec


@lru_cache
def image(text: str) -> bytes:
    """The object image of an LLVM module."""
    return llvm.emit_object(text, host_target())


def field(name: str, kind: str = "ptr") -> str:
    """LLVM text that loads a field of %frame into %name."""
    address = f"%{name}.at = getelementptr i8, ptr %frame, i64 {FRAME.offset(name)}"
    return f"  {address}\n  %{name} = load {kind}, ptr %{name}.at"


def addresses(*names: str, of: str) -> str:
    """LLVM text that loads addresses of arguments or results."""
    lines = [field(of)]
    for i, name in enumerate(names):
        lines.append(
            f"  %{name}.at = getelementptr ptr, ptr %{of}, i64 {i}\n  %{name} = load ptr, ptr %{name}.at"
        )
    return "\n".join(lines)


def spec(name: str, *dims: int, dtype: DType = dtypes.F32) -> ValueSpec:
    shape = Shape(dtype, dims)
    return ValueSpec(name, shape, shape.byte_size)


def loop(count: int, body: str, name: str = "i") -> str:
    """LLVM text of a loop over 0..count with the counter %i, from a block %entry to a block %done."""
    return f"""
  br label %head
head:
  %{name} = phi i64 [ 0, %entry ], [ %{name}.next, %body ]
  %more = icmp slt i64 %{name}, {count}
  br i1 %more, label %body, label %done
body:
{body}
  %{name}.next = add i64 %{name}, 1
  br label %head
done:
"""


def add(count: int, **interface: object) -> Executable:
    """c = a + b for f32[count]."""
    body = """
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %vc = fadd float %va, %vb
  store float %vc, ptr %pc
"""
    text = f"""
define i32 @axla_entry(ptr %frame) {{
entry:
{addresses("a", "b", of="arguments")}
{addresses("c", of="results")}
{loop(count, body)}
  ret i32 0
}}
"""
    facts = {"long_running": False, **interface}
    parameters = (spec("a", count), spec("b", count))
    return Executable(image(text), Interface("add", parameters, (spec("c", count),), **facts))  # type: ignore[arg-type]


def spin() -> Executable:
    """Runs until it is cancelled, or 2**62 times."""
    text = f"""
define i32 @axla_entry(ptr %frame) {{
entry:
{field("cancel")}
{field("parallel_for")}
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %flags = load atomic i64, ptr %cancel monotonic, align 8
  %look = icmp ne i64 %flags, 0
  br i1 %look, label %poll, label %more
poll:
  %code = call i32 %parallel_for(ptr %frame, ptr null, ptr null, i64 0, i64 1)
  %stop = icmp ne i32 %code, 0
  br i1 %stop, label %cancelled, label %more
more:
  %next = add i64 %i, 1
  %end = icmp eq i64 %next, 4611686018427387904
  br i1 %end, label %done, label %head
cancelled:
  ret i32 %code
done:
  ret i32 0
}}
"""
    return Executable(image(text), Interface("spin", (), (), result_tree=()))


def parallel_sum(count: int, grain: int, fail_from: int | None = None) -> Executable:
    """Sums of the ranges of a f32[count] in a result f32[ranges]; from an index on, ranges fail."""
    ranges = -(-count // grain)
    fails = 1 << 62 if fail_from is None else fail_from
    text = f"""
define internal i32 @kernel(ptr %frame, ptr %args, i64 %begin, i64 %end) noinline {{
entry:
  %bad = icmp sge i64 %begin, {fails}
  br i1 %bad, label %fail, label %start
fail:
  %where = trunc i64 %begin to i32
  %code = add i32 %where, 1000
  ret i32 %code
start:
  %x = load ptr, ptr %args
  %y.at = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %y.at
  br label %head
head:
  %i = phi i64 [ %begin, %start ], [ %next, %head ]
  %sum = phi float [ 0.0, %start ], [ %sum.next, %head ]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p
  %sum.next = fadd float %sum, %v
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %head, label %done
done:
  %range = sdiv i64 %begin, {grain}
  %q = getelementptr float, ptr %y, i64 %range
  store float %sum.next, ptr %q
  ret i32 0
}}
define i32 @axla_entry(ptr %frame) {{
{addresses("x", of="arguments")}
{addresses("y", of="results")}
{field("parallel_for")}
  %args = alloca [2 x ptr]
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %y, ptr %second
  %code = call i32 %parallel_for(ptr %frame, ptr @kernel, ptr %args, i64 {count}, i64 {grain})
  ret i32 %code
}}
"""
    messages = tuple(f"range at {i} failed" for i in range(count)) if fail_from is not None else ()
    interface = Interface("sums", (spec("x", count),), (spec("y", ranges),), messages=messages)
    return Executable(image(text), interface)


def increment(count: int, *, aliased: bool = True, long_running: bool = False) -> Executable:
    """y = x + 1 for f32[count], in place when aliased."""
    body = """
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %px
  %w = fadd float %v, 1.0
  store float %w, ptr %py
"""
    text = f"""
define i32 @axla_entry(ptr %frame) {{
entry:
{addresses("x", "other", of="arguments")}
{addresses("y", of="results")}
{loop(count, body)}
  ret i32 0
}}
"""
    aliases = (Alias(0, 0, must=True),) if aliased else ()
    parameters = (spec("x", count), spec("other", count))
    interface = Interface(
        "increment", parameters, (spec("y", count),), aliases=aliases, long_running=long_running
    )
    return Executable(image(text), interface)


class Gate:
    """The gate that programs of `gate` wait at. `arrived()` counts the runs that reached it."""

    def __init__(self) -> None:
        self.words = (c.c_int64 * 2)()

    def open(self) -> None:
        self.words[0] = 1

    def arrived(self) -> int:
        return self.words[1]


def gate(gate: Gate, count: int = 4, fails: int = 0, **interface: object) -> Executable:
    """y = x + 1 for f32[count], when the gate is open; or an error code then."""
    body = """
  %px = getelementptr float, ptr %x, i64 %i
  %py = getelementptr float, ptr %y, i64 %i
  %v = load float, ptr %px
  %w = fadd float %v, 1.0
  store float %w, ptr %py
"""
    address = c.addressof(gate.words)
    text = f"""
define i32 @axla_entry(ptr %frame) {{
start:
{addresses("x", of="arguments")}
{addresses("y", of="results")}
{field("cancel")}
{field("parallel_for")}
  %before = atomicrmw add ptr inttoptr (i64 {address + 8} to ptr), i64 1 seq_cst
  br label %wait
wait:
  %open = load atomic i64, ptr inttoptr (i64 {address} to ptr) seq_cst, align 8
  %is.open = icmp ne i64 %open, 0
  br i1 %is.open, label %entry, label %closed
closed:
  %code = call i32 %parallel_for(ptr %frame, ptr null, ptr null, i64 0, i64 1)
  %stop = icmp ne i32 %code, 0
  br i1 %stop, label %cancelled, label %wait
cancelled:
  ret i32 %code
entry:
  %bad = icmp ne i32 {fails}, 0
  br i1 %bad, label %failed, label %good
failed:
  ret i32 {fails}
good:
{loop(count, body).replace("%entry", "%good")}
  ret i32 0
}}
"""
    facts = {"messages": ("what the run says at model.py:7",), **interface}
    made = Interface("gate", (spec("x", count),), (spec("y", count),), **facts)  # type: ignore[arg-type]
    return Executable(image(text), made)
