"""SPIR-V from kernels: no device is needed."""

from __future__ import annotations

import struct

import pytest

import axla
from axla.codegen.child import Child
from axla.device.compiler import kernels_text, program_for
from axla.target.spirv import spirv_cpu_target, spirv_target

SOFTMAX = """
HloModule softmax
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,512] parameter(0)
  y = f32[64,512] exponential(x)
  zero = f32[] constant(0)
  s = f32[64] reduce(y, zero), dimensions={1}, to_apply=add
  b = f32[64,512] broadcast(s), dimensions={0}
  ROOT z = f32[64,512] divide(y, b)
}"""
COMPLEX = "HloModule m\nENTRY e { x = c64[64] parameter(0)\n  ROOT y = c64[64] sine(x) }"
TABLE = """
HloModule table
ENTRY e { x = f32[256] parameter(0)
  ROOT y = f32[256] sine(x) }"""
MAGIC = 0x07230203


def text_of(hlo: str, target=None) -> str:
    target = target or spirv_target()
    program, _ = program_for(axla.parse(hlo), target)
    return kernels_text(program, target)


@pytest.fixture(scope="module")
def child():
    made = Child()
    yield made
    made.close()


@pytest.mark.parametrize(
    "target", [spirv_target(), spirv_target(1), spirv_cpu_target(16), spirv_cpu_target(4)]
)
@pytest.mark.parametrize("hlo", [SOFTMAX, COMPLEX, TABLE])
def test_llvm_takes_kernels(child, hlo, target):
    code = child.emit_object(text_of(hlo, target), target)
    assert struct.unpack("<I", code[:4]) == (MAGIC,)


def test_modules_before_leave_no_trace(child):
    """LLVM for SPIR-V remembers types of the modules before."""
    target = spirv_target()
    texts = [text_of(hlo) for hlo in (SOFTMAX, COMPLEX, TABLE)]
    first = [child.emit_object(text, target) for text in texts]
    again = [child.emit_object(text, target) for text in reversed(texts)]
    assert first == again[::-1]


def test_constants_and_stack_are_read_through_pointers_to_any_memory():
    text = text_of(TABLE)
    assert "addrspace(1) constant" in text
    assert "addrspacecast ptr addrspace(1) @" in text
    assert "ptr @" not in text


def test_assembly(child):
    assert "OpEntryPoint Kernel" in child.emit_assembly(text_of(SOFTMAX), spirv_target())
