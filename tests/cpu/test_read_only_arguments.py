"""Programs read their arguments and write none of them: the arguments lie in pages that cannot be written."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core.errors import InternalError
from axla.cpu.compiler import llvm_modules
from axla.lowering.pipeline import compile_program
from axla.program.steps import CopyStep

HEAD = """
HloModule read_only

cond {
  s = (s32[], f32[32], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[32], f32[1]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[32] get-tuple-element(s), index=1
  scale = f32[1] get-tuple-element(s), index=2
  factor = f32[] reshape(scale)
  wide = f32[32] broadcast(factor), dimensions={}
  sine = f32[32] sine(x)
  y = f32[32] multiply(sine, wide)
  ROOT new = (s32[], f32[32], f32[1]) tuple(next, y, scale)
}

left {
  p = (f32[1], f32[32]) parameter(0)
  a = f32[1] get-tuple-element(p), index=0
  x = f32[32] get-tuple-element(p), index=1
  y = f32[32] cosine(x)
  ROOT r = (f32[1], f32[32]) tuple(a, y)
}

right {
  p = (f32[1], f32[32]) parameter(0)
  a = f32[1] get-tuple-element(p), index=0
  x = f32[32] get-tuple-element(p), index=1
  y = f32[32] sine(x)
  ROOT r = (f32[1], f32[32]) tuple(a, y)
}
"""

LOOP = (
    HEAD
    + """
ENTRY e {
  x = f32[32] parameter(0)
  scale = f32[1] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[32], f32[1]) tuple(zero, x, scale)
  loop = (s32[], f32[32], f32[1]) while(init), condition=cond, body=body
  ROOT y = f32[32] get-tuple-element(loop), index=1
}
"""
)
BRANCH = (
    HEAD
    + """
ENTRY e {
  x = f32[32] parameter(0)
  scale = f32[1] parameter(1)
  both = (f32[1], f32[32]) tuple(scale, x)
  first = f32[1] slice(x), slice={[0:1]}
  number = f32[] reshape(first)
  zero = f32[] constant(0)
  positive = pred[] compare(number, zero), direction=GT
  branch = (f32[1], f32[32]) conditional(positive, both, both), true_computation=left, false_computation=right
  passed = f32[1] get-tuple-element(branch), index=0
  y = f32[32] get-tuple-element(branch), index=1
  factor = f32[] reshape(passed)
  wide = f32[32] broadcast(factor), dimensions={}
  angle = f32[32] multiply(y, wide)
  ROOT z = f32[32] sine(angle)
}
"""
)
TUPLE = (
    HEAD
    + """
ENTRY e {
  x = f32[32] parameter(0)
  scale = f32[1] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[32], f32[1]) tuple(zero, x, scale)
  loop = (s32[], f32[32], f32[1]) while(init), condition=cond, body=body
  y = f32[32] get-tuple-element(loop), index=1
  same = f32[1] get-tuple-element(loop), index=2
  again = (s32[], f32[32], f32[1]) tuple(zero, y, same)
  second = (s32[], f32[32], f32[1]) while(again), condition=cond, body=body
  z = f32[32] get-tuple-element(second), index=1
  ROOT all = (f32[32], f32[1]) tuple(z, same)
}
"""
)
PROGRAMS = {"loop": LOOP, "branch": BRANCH, "two_loops": TUPLE}

RUN = """
import mmap, sys, tempfile
import numpy as np
import axla
from axla.comparison import compare, random_inputs, run_flat

def read_only(array):
    file = tempfile.TemporaryFile()
    file.write(array.tobytes().ljust(1, b"0"))
    file.flush()
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(pages, array.dtype, array.size).reshape(array.shape)

module = axla.parse(sys.stdin.read())
inputs = random_inputs(module, seed=1)
wanted = [np.asarray(a) for a in run_flat(module, inputs, "interpreter")]
found = [np.asarray(a) for a in axla.compile(module).execute([read_only(a) for a in inputs])]
compare(module, found, wanted, "cpu", "interpreter").raise_if_different()
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_in_read_only_pages(name):
    """In a process of its own: a store would end it."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=PROGRAMS[name], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_a_donated_argument_is_written_in_place():
    text = LOOP.replace("HloModule read_only", "HloModule m, input_output_alias={ {}: (0, {}, must-alias) }")
    program = axla.compile(axla.parse(text))
    assert [(a.result, a.parameter) for a in program.interface.aliases] == [(0, 0)]
    x, scale = (axla.device_put(np.full(n, 0.5, np.float32)) for n in (32, 1))
    (y,) = program.execute([x, scale])
    assert x.is_deleted and not scale.is_deleted


def test_nothing_is_stored_to_read_only_memory():
    """A program that would store to an argument is an error at compile time, not a fault at run time."""
    target = host_target()
    program = compile_program(axla.parse(LOOP), target)
    scale = program.parameters[1]
    assert scale is not None
    wrong = replace(program, steps=(CopyStep(scale, scale), *program.steps))
    with pytest.raises(InternalError, match=r"parameter1\[0:4\] is to be written, but is read only"):
        llvm_modules(wrong, target)
