"""Loops in registers: a short condition stands before the loop and at its end, Python's remainder jumps over
what is rare, products start a sum.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.cpu.compiler import llvm_modules
from axla.lowering.pipeline import compile_program
from axla.target.machine import cpu_target

COUNTED = """
HloModule counted

condition {
  state = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  ROOT more = pred[] compare(i, n), direction=LT
}

body {
  state = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  x = f32[] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[] constant(0.5)
  z = f32[] add(x, y)
  ROOT result = (s32[], s32[], f32[]) tuple(next, n, z)
}

ENTRY main {
  first = s32[] parameter(0)
  n = s32[] parameter(1)
  x = f32[] constant(0)
  start = (s32[], s32[], f32[]) tuple(first, n, x)
  end = (s32[], s32[], f32[]) while(start), condition=condition, body=body
  i = s32[] get-tuple-element(end), index=0
  sum = f32[] get-tuple-element(end), index=2
  ROOT results = (s32[], f32[]) tuple(i, sum)
}
"""

REMAINDERS = """
HloModule remainders

condition {
  state = (s32[], s32[], s32[]) parameter(0)
  b = s32[] get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  last = s32[] constant(40)
  rest = pred[] compare(b, zero), direction=NE
  few = pred[] compare(i, last), direction=LT
  ROOT more = pred[] and(rest, few)
}

body {
  state = (s32[], s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(state), index=0
  b = s32[] get-tuple-element(state), index=1
  i = s32[] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  r = s32[] remainder(a, b)
  below = pred[] compare(r, zero), direction=LT
  down = pred[] compare(b, zero), direction=LT
  differ = pred[] compare(below, down), direction=NE
  some = pred[] compare(r, zero), direction=NE
  corrected = pred[] and(differ, some)
  sum = s32[] add(r, b)
  c = s32[] select(corrected, sum, r)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT result = (s32[], s32[], s32[]) tuple(b, c, next)
}

ENTRY main {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], s32[], s32[]) tuple(a, b, zero)
  end = (s32[], s32[], s32[]) while(start), condition=condition, body=body
  c = s32[] get-tuple-element(end), index=0
  i = s32[] get-tuple-element(end), index=2
  ROOT results = (s32[], s32[]) tuple(c, i)
}
"""


@pytest.fixture(scope="module")
def counted():
    return axla.compile(axla.parse(COUNTED))


@pytest.fixture(scope="module")
def remainders():
    return axla.compile(axla.parse(REMAINDERS))


@pytest.mark.parametrize(("first", "n"), [(0, 0), (3, 0), (0, 1), (-2, 5), (0, 1000)])
def test_trips(counted, first, n):
    i, total = counted(np.int32(first), np.int32(n))
    assert (int(i), float(total)) == (max(first, n), 0.5 * max(0, n - first))


NUMBERS = (0, 1, -1, 7, -7, 12, -18, 720_720, -1_000_003, 2**31 - 1, -(2**31))


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
def test_signs_of_remainders(remainders, a, b):
    x, y, steps = a, b, 0
    while y and steps < 40:
        x, y, steps = y, x % y, steps + 1
    assert [int(part) for part in remainders(np.int32(a), np.int32(b))] == [x, steps]


LOOP_IN_A_CONDITION = """
HloModule halved

long {
  state = (s32[], s32[]) parameter(0)
  n = s32[] get-tuple-element(state), index=1
  zero = s32[] constant(0)
  ROOT more = pred[] compare(n, zero), direction=GT
}

half {
  state = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  less = s32[] shift-right-logical(n, one)
  ROOT result = (s32[], s32[]) tuple(next, less)
}

condition {
  state = (s32[], s32[]) parameter(0)
  halved = (s32[], s32[]) while(state), condition=long, body=half
  bits = s32[] get-tuple-element(halved), index=0
  most = s32[] constant(12)
  ROOT more = pred[] compare(bits, most), direction=LT
}

body {
  state = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] get-tuple-element(state), index=1
  ten = s32[] constant(10)
  more = s32[] multiply(n, ten)
  ROOT result = (s32[], s32[]) tuple(i, more)
}

ENTRY main {
  first = s32[] parameter(0)
  n = s32[] parameter(1)
  start = (s32[], s32[]) tuple(first, n)
  ROOT end = (s32[], s32[]) while(start), condition=condition, body=body
}
"""


@pytest.mark.parametrize(("first", "n", "last"), [(0, 3, 3000), (3, 3, 300), (0, 5000, 5000)])
def test_a_loop_in_a_condition_is_written_once(first, n, last):
    i, end = axla.compile(axla.parse(LOOP_IN_A_CONDITION))(np.int32(first), np.int32(n))
    assert (int(i), int(end)) == (first, last)


REMAINDER_OF_A_ROW = """
HloModule row

ENTRY main {
  mask = pred[40] parameter(0)
  x = s32[] parameter(1)
  y = s32[] parameter(2)
  a = s32[40] broadcast(x), dimensions={}
  b = s32[40] broadcast(y), dimensions={}
  r = s32[40] remainder(a, b)
  zero = s32[40] constant({...})
  some = pred[40] compare(r, zero), direction=NE
  corrected = pred[40] and(mask, some)
  sum = s32[40] add(r, b)
  ROOT c = s32[40] select(corrected, sum, r)
}
""".replace("{...}", "{" + ", ".join("0" * 40) + "}")


def test_a_jump_is_for_one_number():
    with flags.override(cache_dir="", disable_hlo_passes=("algsimp",)):
        compiled = axla.compile(axla.parse(REMAINDER_OF_A_ROW))
    mask = np.arange(40) % 3 == 0
    np.testing.assert_array_equal(compiled(mask, np.int32(17), np.int32(5)), np.where(mask, 7, 2))


def llvm(text: str) -> str:
    target = cpu_target("x86-64-v3")
    return "\n".join(llvm_modules(compile_program(axla.parse(text), target), target, parts=1))


def test_a_condition_is_tested_before_the_loop_and_at_its_end():
    text = llvm(COUNTED)
    assert text.count("icmp slt i32") == 2


def test_the_correction_of_a_remainder_is_jumped_over():
    other = llvm(REMAINDERS.replace("select(corrected, sum, r)", "subtract(r, b)"))
    assert llvm(REMAINDERS).count("branch_weights") == other.count("branch_weights") + 1


def test_addresses_of_the_frame_are_read_before_a_loop():
    before, inside = llvm(COUNTED).split("phi", 1)
    assert "load ptr" in before
    assert "load ptr" not in inside.split("phi", 1)[0]


DOT = """
HloModule dot

ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  ROOT c = f32[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def test_a_product_starts_a_sum():
    assert llvm(DOT).count(" fadd ") == 1
    found = axla.compile(axla.parse(DOT))(np.array([2, 3], np.float32), np.array([5, 7], np.float32))
    assert float(found) == 31
