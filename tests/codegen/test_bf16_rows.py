"""Rows of bf16: quotients by a value of the row, and even and odd columns computed apart."""

from __future__ import annotations

import ctypes
import mmap
import sys

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.cpu.compiler import llvm_modules
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

BF16 = ml_dtypes.bfloat16

DIVIDE = """HloModule divide
ENTRY e {{
  x = bf16[65536] parameter(0)
  y = bf16[{rows}] parameter(1)
  xs = bf16[{rows},65536] broadcast(x), dimensions={{1}}
  ys = bf16[{rows},65536] broadcast(y), dimensions={{0}}
  ROOT q = bf16[{rows},65536] divide(xs, ys)
}}
"""

NORM = """HloModule norm
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  x = bf16[{rows},{columns}] parameter(0)
  wide = f32[{rows},{columns}] convert(x)
  zero = f32[] constant(0)
  sum = f32[{rows}] reduce(wide, zero), dimensions={{1}}, to_apply=add
  narrow = bf16[{rows}] convert(sum)
  sums = bf16[{rows},{columns}] broadcast(narrow), dimensions={{0}}
  number = bf16[{rows},{columns}] iota(), iota_dimension=1
  moved = bf16[{rows},{columns}] add(x, number)
  ROOT q = bf16[{rows},{columns}] divide(moved, sums)
}}
"""


def _values(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint16).view(BF16)


def test_quotients_by_one_value_are_those_of_f32_rounded() -> None:
    """All dividends; divisors at the ends of each range that is scaled, specials, and some at random."""
    ends = [0, 1, 0x7F, 0x80, 0x1F7F, 0x1F80, 0x1F81, 0x3F80, 0x5F7F, 0x5F80, 0x5F81, 0x7F7F, 0x7F80, 0x7FC0]
    signed = np.concatenate([ends, np.array(ends) | 0x8000])
    chosen = np.random.default_rng(0).integers(0, 1 << 16, 20)
    x, y = _values(np.arange(1 << 16)), _values(np.concatenate([signed, chosen]))
    found = np.asarray(axla.compile(axla.parse(DIVIDE.format(rows=y.size)))(x, y))
    with np.errstate(all="ignore"):
        wanted = (x[None].astype(np.float32) / y[:, None].astype(np.float32)).astype(BF16)
    undefined = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), undefined)
    np.testing.assert_array_equal(found.view(np.uint16)[~undefined], wanted.view(np.uint16)[~undefined])


@pytest.mark.parametrize("columns", [1, 2, 16, 32, 34, 64, 96, 130, 768, 1001])
def test_rows_by_pairs(columns: int) -> None:
    """Sums of rows, then quotients of all columns, which know their numbers."""
    x = np.random.default_rng(columns).integers(1, 9, (3, columns)).astype(BF16)
    found = np.asarray(axla.compile(axla.parse(NORM.format(rows=3, columns=columns)))(x))
    sums = x.astype(np.float32).sum(1, keepdims=True).astype(BF16)  # exact in f32
    moved = x + np.arange(columns).astype(BF16)
    np.testing.assert_array_equal(found, (moved.astype(np.float32) / sums.astype(np.float32)).astype(BF16))


def test_pieces_of_rows_begin_anywhere() -> None:
    """A piece is an odd number of vectors, so pairs of vectors reach over the end of what is repeated."""
    columns = 16 * 64 * 1025 - 992
    text = f"""HloModule pieces
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY e {{
  x = bf16[1,{columns}] parameter(0)
  y = bf16[1,{columns // 32}] parameter(1)
  each = bf16[1,{columns // 32},32] broadcast(y), dimensions={{0,1}}
  line = bf16[1,{columns}] reshape(each)
  moved = bf16[1,{columns}] add(x, line)
  wide = f32[1,{columns}] convert(moved)
  zero = f32[] constant(0)
  ROOT sum = f32[1] reduce(wide, zero), dimensions={{1}}, to_apply=add
}}
"""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 4, (1, size)).astype(BF16) for size in (columns, columns // 32))
    found = np.asarray(axla.compile(axla.parse(text))(x, y))
    np.testing.assert_array_equal(found, x.astype(np.float32).sum(1) + 32 * y.astype(np.float32).sum(1))


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
def test_nothing_before_an_array_is_read() -> None:
    """Every other element from one on that only the run knows: of `b`, from the first one or the second."""
    text = """HloModule slices
ENTRY e {
  a = bf16[17] parameter(0)
  b = bf16[2048] parameter(1)
  start = s32[] parameter(2)
  both = bf16[2065] concatenate(a, b), dimensions={0}
  some = bf16[2048] dynamic-slice(both, start), dynamic_slice_sizes={2048}
  other = bf16[1024] slice(some), slice={[0:2048:2]}
  ROOT n = bf16[1024] negate(other)
}
"""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    where = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(where), page, 0) == 0
    b = np.frombuffer(memory, BF16, 2048, page)
    a, b[...] = _values(np.arange(17)), _values(np.arange(17, 2065))
    program = axla.compile(axla.parse(text))
    for start in (16, 17):
        found = np.asarray(program(a, b, np.int32(start))).view(np.uint16)
        np.testing.assert_array_equal(found, np.arange(start, start + 2048, 2) | 0x8000)


def test_first_vectors_of_a_row_are_words_too() -> None:
    """Columns by number, 0 and 1, lie in words as those of a loop do."""
    text = """HloModule m
c { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e { p = bf16[8,1024] parameter(0)
  w = f32[8,1024] convert(p)
  z = f32[] constant(0)
  ROOT r = f32[8] reduce(w, z), dimensions={1}, to_apply=c }"""
    target = cpu_target("x86-64-v4")
    code = "".join(llvm_modules(compile_program(axla.parse(text), target), target, parts=1))
    assert "load <16 x i32>" in code
    assert "x i16>" not in code
