"""Values of a program's text that are in several places, in turn: each is read where it is then."""

from __future__ import annotations

import numpy as np
import pytest

from axla.backends.native import NativeExecutable
from axla.codegen.host import host_target, one_lane_target
from axla.cpu.compiler import compile_text

HEAD = """axla-program 1
program name=p target="t/1"
  interface: interface name=p result_tree=(0, 1) workspace_bytes=64
    parameters:
      value name=x shape=f32[4] bytes=16
      value name=i shape=s32[] bytes=4
    results:
      value name=r shape=f32[1] bytes=4
      value name=o shape=f32[4] bytes=16
    aliases:
      alias result=1 parameter=0
  allocations:
    allocation kind=parameter number=0 size=16 result=1
    allocation kind=parameter number=1 size=4 writable=false
    allocation kind=result number=0 size=4
  constants:
  kernels:
  parameters:
    %x f32[4] in parameter0[0:16]
    %i s32[] in parameter1[0:4]
  steps:
"""
COPIED = """    copy source=%x f32[4] in parameter0[0:16] target=%x f32[4] in workspace[0:16]
"""
BRANCH = """    register name=test operands=(%i s32[] in parameter1[0:4]) results=(%s pred[])
      computation:
        ENTRY %c (i: s32[]) -> (pred[]) {
          %i = s32[] parameter(0)
          %l = pred[] compare(%i, %i), direction=LT
          ROOT %t = (pred[]) tuple(%l)
        }
    branch name=either selector=%s pred[] results=()
      branches:
        branch values=()
          steps:
            copy source=%x f32[4] in parameter0[0:16] target=%x f32[4]
        branch values=()
          steps:
"""
REST = """    register name=over operands=() results=(%o f32[4] in parameter0[0:16])
      computation:
        ENTRY %c () -> (f32[4]) {
          %c = f32[4] constant({7, 7, 7, 7})
          ROOT %t = (f32[4]) tuple(%c)
        }
    register name=read operands=(%x f32[4] in workspace[0:16], %i s32[] in AT) results=(%r f32[1] in OUT)
      computation:
        ENTRY %c (x: f32[4], i: s32[]) -> (f32[1]) {
          %x = f32[4] parameter(0)
          %i = s32[] parameter(1)
          %s = f32[1] dynamic-slice(%x, %i), dynamic_slice_sizes={1}
          ROOT %t = (f32[1]) tuple(%s)
        }
  results:
    %r f32[1] in result0[0:4]
    %o f32[4] in parameter0[0:16]
""".replace("AT", "parameter1[0:4]").replace("OUT", "result0[0:4]")


@pytest.mark.parametrize("steps", [COPIED, BRANCH + COPIED], ids=["memory", "registers in a branch"])
@pytest.mark.parametrize("target", [host_target, one_lane_target])
def test_a_value_is_read_where_it_is(steps, target):
    made = compile_text(HEAD + steps + REST, b"", target())
    executable = NativeExecutable(made.images, made.interface, made.constants)
    x = np.array([1, 2, 3, 4], np.float32)
    r, o = executable.execute([x, np.int32(2)])
    assert np.asarray(r) == [3] and np.asarray(o).tolist() == [7] * 4
