"""Programs whose host and device have memories of their own."""

from __future__ import annotations

import axla
from axla.codegen.host import host_target
from axla.device.compiler import program_for
from axla.device.spaces import with_transfers
from axla.program.memory import MemorySpace
from axla.program.program import all_steps
from axla.program.steps import KernelStep, TransferStep
from axla.target.spirv import spirv_target

UPDATE = """
HloModule update, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[4096] parameter(0)
  i = s32[] parameter(1)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = s32[] add(j, j)
  y = f32[4096] exponential(x)
  f = f32[] convert(k)
  fs = f32[4096] broadcast(f), dimensions={}
  ROOT z = f32[4096] add(y, fs)
}"""


def steps_of(here=()):
    program, _ = program_for(axla.parse(UPDATE), spirv_target())
    names = [kernel.name for kernel in program.kernels] if here == "all" else here
    split, size = with_transfers(program, names, host_target())
    return list(all_steps(split)), size, split


def test_a_scalar_is_fetched_once():
    steps, size, _ = steps_of()
    moved = [step.name for step in steps if isinstance(step, TransferStep) and step.target.place is None]
    assert moved.count("i") <= 1 and len(set(moved)) == len(moved)
    assert size == 0 and not any(
        value.memory.space is MemorySpace.HOST
        for step in steps if isinstance(step, KernelStep) for value in step.results
    )  # fmt: skip


def test_a_kernel_of_the_host_has_copies_of_its_operands():
    steps, size, program = steps_of("all")
    (kernel,) = [step for step in steps if isinstance(step, KernelStep)]
    values = [*kernel.operands, *kernel.results]
    assert all(value.memory.space is MemorySpace.HOST for value in values)
    assert size >= 4096 * 4
    before = steps[steps.index(kernel) - len(kernel.operands) : steps.index(kernel)]
    assert [step.target for step in before] == list(kernel.operands)
    (behind,) = [step for step in steps[steps.index(kernel) + 1 :] if isinstance(step, TransferStep)]
    assert behind.source == kernel.results[0] and behind.target.memory.space is MemorySpace.DEVICE
    assert all(phase.threads == 1 for kernel in program.kernels for phase in kernel.plan.phases)


def test_results_over_operands_are_so_on_the_host():
    steps, _, program = steps_of("all")
    (step,) = [step for step in steps if isinstance(step, KernelStep)]
    for output, number in program.kernels[0].in_place:
        assert step.results[output].place == step.operands[number].place


COUNTED = """
HloModule counted
body { t = (s32[], f32[512], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[512] get-tuple-element(t), index=1
  n = s32[] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[512] add(x, x)
  ROOT r = (s32[], f32[512], s32[]) tuple(j, y, n) }
cond { t = (s32[], f32[512], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=2
  ROOT c = pred[] compare(i, n), direction=LT }
outer_body { t = (s32[], f32[512], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[512] get-tuple-element(t), index=1
  n = s32[] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  u = (s32[], f32[512], s32[]) tuple(zero, x, n)
  w = (s32[], f32[512], s32[]) while(u), condition=cond, body=body
  y = f32[512] get-tuple-element(w), index=1
  ROOT r = (s32[], f32[512], s32[]) tuple(j, y, n) }
ENTRY e { x = f32[512] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[512], s32[]) tuple(zero, x, n)
  w = (s32[], f32[512], s32[]) while(t), condition=cond, body=outer_body
  ROOT y = f32[512] get-tuple-element(w), index=1 }"""


def test_what_a_loop_does_not_change_is_fetched_before_it():
    program, _ = with_transfers(program_for(axla.parse(COUNTED), spirv_target())[0])
    moved = [step for step in all_steps(program) if isinstance(step, TransferStep)]
    assert len(moved) == 1 and moved[0] in program.steps
