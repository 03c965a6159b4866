"""Values in registers: what is computed where it stands, and what is only bound to a value from before."""

import numpy as np
import pytest
from three_ways import agree

import axla.hlo as hlo
from axla.cpu.registers import WRITERS
from axla.program import verify


def test_the_verifier_of_programs_knows_what_is_bound():
    """It takes an operand of these as read where the result is read."""
    bound = {WRITERS[op] for op in (hlo.Tuple, hlo.GetTupleElement, hlo.OptBarrier, hlo.Call)}
    opcodes = {op.opcode for op, write in WRITERS.items() if write in bound}
    assert opcodes - {"after-all"} == verify._LAZY


LANES = """
HloModule lanes
either {{
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT c = pred[] {opcode}(a, b)
}}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
cond {{
  p = (s32[], {f}, {s}, f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(9)
  few = pred[] compare(i, limit), direction=LT
  x = {f} get-tuple-element(p), index=1
  n = {s} get-tuple-element(p), index=2
  c50 = f32[] constant(50)
  high = {f} broadcast(c50), dimensions={{}}
  low = pred{dims} compare(x, high), direction=LT
  first = pred[] constant({first})
  on = pred[] reduce(low, first), dimensions={{{all}}}, to_apply=either
  ROOT r = pred[] and(few, on)
}}
body {{
  p = (s32[], {f}, {s}, f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  x = {f} get-tuple-element(p), index=1
  n = {s} get-tuple-element(p), index=2
  t = f32[] get-tuple-element(p), index=3
  k = {f} constant({numbers})
  m = {f} multiply(x, k)
  ts = {f} broadcast(t), dimensions={{}}
  y = {f} add(m, ts)
  c50 = f32[] constant(50)
  high = {f} broadcast(c50), dimensions={{}}
  low = pred{dims} compare(y, high), direction=LT
  is = {s} broadcast(i), dimensions={{}}
  n1 = {s} xor(n, is)
  n2 = {s} select(low, n1, n)
  z = {f} select(low, y, x)
  nf = {f} convert(n2)
  zero = f32[] constant(0)
  clamped = {f} clamp(zero, nf, c50)
  all = {f} maximum(clamped, z)
  t1 = f32[] reduce(all, zero), dimensions={{{all}}}, to_apply=add
  c = f32[] constant(0.001)
  t2 = f32[] multiply(t1, c)
  ROOT q = (s32[], {f}, {s}, f32[]) tuple(i1, all, n2, t2)
}}
ENTRY e {{
  x = {f} parameter(0)
  n = {s} parameter(1)
  zero = s32[] constant(0)
  t = f32[] constant(0.5)
  q = (s32[], {f}, {s}, f32[]) tuple(zero, x, n, t)
  ROOT w = (s32[], {f}, {s}, f32[]) while(q), condition=cond, body=body
}}
"""


@pytest.mark.parametrize("dims", [(8,), (16,), (2, 4), (6,), (4, 4)], ids=str)
@pytest.mark.parametrize("opcode", ["or", "and"])
def test_arrays_of_a_few_elements_in_a_loop(dims, opcode):
    """Those of 8 and 16 elements are carried in vectors."""
    size = int(np.prod(dims))
    numbers = (np.arange(size).reshape(dims) * 0.25 - 0.5).tolist()
    text = LANES.format(
        f=f"f32{list(dims)}", s=f"s32{list(dims)}", dims=list(dims), all=",".join(map(str, range(len(dims)))),
        opcode=opcode, first=str(opcode == "and").lower(),
        numbers=str(numbers).replace("[", "{").replace("]", "}"),
    )  # fmt: skip
    x = np.linspace(-3, 49, size, dtype=np.float32).reshape(dims)
    agree(text, [x, np.arange(size, dtype=np.int32).reshape(dims)], 1e-6)


CHOSEN = """HloModule m
body {
  p = (s32[], pred[8], c64[8], c64[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  m = pred[8] get-tuple-element(p), index=1
  n = pred[8] not(m)
  x = c64[8] get-tuple-element(p), index=2
  y = c64[8] get-tuple-element(p), index=3
  s = c64[8] add(x, y)
  z = c64[8] select(n, s, x)
  ROOT q = (s32[], pred[8], c64[8], c64[8]) tuple(i1, n, z, y)
}
cond {
  p = (s32[], pred[8], c64[8], c64[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  five = s32[] constant(5)
  ROOT r = pred[] compare(i, five), direction=LT
}
ENTRY e {
  m = pred[8] parameter(0)
  x = c64[8] parameter(1)
  y = c64[8] parameter(2)
  zero = s32[] constant(0)
  q = (s32[], pred[8], c64[8], c64[8]) tuple(zero, m, x, y)
  ROOT w = (s32[], pred[8], c64[8], c64[8]) while(q), condition=cond, body=body
}
"""


def test_complex_elements_meet_a_vector():
    """They are carried one by one, and have two registers each."""
    x = (np.arange(8) + 1j * np.arange(8)[::-1]).astype(np.complex64)
    agree(CHOSEN, [np.arange(8) % 3 == 0, x, x * 2], 0)
