"""The decisions of lowering: registers or memory, copies, values carried by loops."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core.errors import UnsupportedError
from axla.cpu.compiler import entry_level, llvm_modules
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program.memory import Allocation, AllocationKind, BufferSlice, MemorySpace
from axla.program.program import Program, all_steps
from axla.program.steps import (
    ArrayValue,
    BranchStep,
    CopyStep,
    KernelStep,
    LoopStep,
    RegisterStep,
    StoreStep,
    TransferStep,
)
from axla.program.text import parse_program, print_program
from axla.target.identity import identity
from axla.target.machine import cpu_target, with_features

CONDITION = """
condition { p = (s32[], f32[64], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)  ROOT c = pred[] compare(i, n), direction=LT }
"""
LOOP = (
    "HloModule m"
    + CONDITION
    + """
body { p = (s32[], f32[64], f32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)  j = s32[] add(i, one)  x = f32[64] get-tuple-element(p), index=1
  k = f32[] get-tuple-element(p), index=2  kb = f32[64] broadcast(k), dimensions={}
  y = f32[64] multiply(x, kb)  ROOT t = (s32[], f32[64], f32[]) tuple(j, y, k) }
ENTRY e { x = f32[64] parameter(0)  s = f32[] parameter(1)  zero = s32[] constant(0)  k = f32[] KIND(s)
  start = (s32[], f32[64], f32[]) tuple(zero, x, k)
  w = (s32[], f32[64], f32[]) while(start), condition=condition, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1 }"""
)


def program_of(text: str, target=None) -> Program:
    return compile_program(axla.parse(text), target or host_target())


def of(program: Program, kind: type) -> list:
    return [step for step in all_steps(program) if isinstance(step, kind)]


def run(text: str, *inputs) -> np.ndarray:
    return np.asarray(axla.compile(axla.parse(text)).execute(list(inputs))[0])


def test_a_loop_carries_what_changes():
    program = program_of(LOOP.replace("KIND", "negate"))
    [loop] = of(program, LoopStep)
    assert [c.parameter.shape.dims for c in loop.carried] == [(), (64,)]
    counter, array = loop.carried
    assert counter.parameter.place is None and counter.result.place is None
    places = {array.initial.place, array.parameter.place, array.next.place, array.result.place}
    assert len(places) == 1 and None not in places
    assert loop.trip_count == 5 and loop.test.shape.dtype.is_pred and loop.test.place is None
    names = [v.name for c in loop.carried for v in (c.initial, c.parameter, c.next, c.result)]
    assert len(set(names)) == 8
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    np.testing.assert_allclose(run(LOOP.replace("KIND", "negate"), x, np.float32(-2)), x * 32)


def test_registers_are_copied_to_memory_where_a_kernel_reads_them():
    """Once in a loop or branch; what is passed on is copied under the name that it has outside."""
    program = program_of(LOOP.replace("KIND", "negate"))
    [loop] = of(program, LoopStep)
    copies = [step for step in all_steps(program) if isinstance(step, CopyStep) and step.source.place is None]
    assert len(copies) == 1 and copies[0] in loop.body
    [kernel] = [step for step in loop.body if isinstance(step, KernelStep)]
    made = [v.name for step in program.steps if isinstance(step, RegisterStep) for v in step.results]
    assert copies[0].source.name in made and copies[0].target in kernel.operands


def test_a_parameter_that_a_loop_passes_on_is_read_where_it_is():
    program = program_of(LOOP.replace("KIND", "copy"))
    [loop] = of(program, LoopStep)
    [kernel] = [step for step in loop.body if isinstance(step, KernelStep)]
    assert program.parameters[1] in kernel.operands
    assert not [
        step for step in all_steps(program) if isinstance(step, CopyStep) and step.source.place is None
    ]


def test_constants_are_places_with_digests():
    table = np.random.default_rng(1).random(4000, np.float32)
    rows = ", ".join(map(str, table))
    text = f"""ENTRY e {{ x = f32[4000] parameter(0)  c = f32[4000] constant({{{rows}}})
      ROOT y = f32[4000] add(x, c) }}"""
    pool: dict = {}
    program = compile_program(axla.parse(text), host_target(), pool)
    [constant] = program.constants
    data = constants_segment(pool)
    assert len(data) == program.interface.constants_bytes == 16000
    assert data[constant.offset : constant.offset + 16000] == table.tobytes()
    assert constant.digest == blake2b(table.tobytes(), digest_size=16).hexdigest()
    assert constant.shape.dims == (4000,)


def test_small_constants_are_part_of_what_is_computed_in_registers():
    program = program_of(
        "ENTRY e { x = f32[] parameter(0)  c = f32[] constant(3)  ROOT y = f32[] add(x, c) }"
    )
    [step] = program.steps
    assert isinstance(step, RegisterStep) and not program.constants
    assert [value.name for value in step.operands] == ["x"]
    assert any(inst.opcode == "constant" for inst in step.computation.instructions)
    assert step.results[0].place == program.results[0].place  # written at once
    assert entry_level(program) == 2


def test_the_leaves_of_a_constant_are_apart():
    """Small ones are in registers, others in memory, whatever tuple they are in."""
    table = np.random.default_rng(1).random(40, np.float32)
    text = f"""ENTRY e {{ p = s32[] parameter(0)
      c = (f32[40], s32[]) constant(({{{", ".join(map(str, table))}}}, 3))
      a = f32[40] get-tuple-element(c), index=0  b = s32[] get-tuple-element(c), index=1
      q = s32[] add(p, b)  ROOT r = (f32[40], s32[]) tuple(a, q) }}"""
    program = program_of(text)
    assert [constant.shape.dims for constant in program.constants] == [(40,)]
    found = axla.compile(axla.parse(text)).execute([np.int32(4)])
    np.testing.assert_array_equal(found[0], table)
    assert int(np.asarray(found[1])) == 7


def test_small_results_that_are_exchanged_are_read_before_they_are_written():
    text = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT t = (f32[], f32[]) tuple(y, x) }"""
    program = program_of(text)
    kinds = ["load" if step.target.place is None else "store" for step in of(program, CopyStep)]
    assert kinds == ["load", "load", "store", "store"]
    found = axla.compile(axla.parse(text)).execute([np.float32(3), np.float32(5)])
    assert [float(r) for r in found] == [5, 3]


SQUARE = """NAME { a = f32[64,64] parameter(0)
  ROOT d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""


def test_called_computations_stand_in_their_place():
    text = f"""HloModule m
    {SQUARE.replace("NAME", "f")} {SQUARE.replace("NAME", "g")}
    ENTRY e {{ x = f32[64,64] parameter(0)  zero = s32[] constant(0)
      c = f32[64,64] call(x), to_apply=f
      ROOT r = f32[64,64] conditional(zero, c), branch_computations={{g}} }}"""
    program = program_of(text)
    first, second = program.steps
    assert isinstance(first, KernelStep) and isinstance(second, KernelStep)
    assert len(program.kernels) == 1
    assert second.operands == first.results * 2


def test_branches_give_values_and_places():
    text = """HloModule m
    yes { a = f32[6400] parameter(0)  ROOT b = f32[6400] add(a, a) }
    no { a = f32[6400] parameter(0)  ROOT b = f32[6400] negate(a) }
    ENTRY e { x = f32[6400] parameter(0)  p = pred[] parameter(1)
      ROOT r = f32[6400] conditional(p, x, x), true_computation=yes, false_computation=no }"""
    [step] = of(program_of(text), BranchStep)
    [result] = step.results
    assert step.selector.name == "p" and step.selector.place is not None  # read where it is
    assert result.place is not None
    assert [branch.values[0].place for branch in step.branches] == [result.place] * 2


def test_a_few_elements_are_stored_in_place():
    text = """HloModule m, input_output_alias={ {}: (0, {}) }
    ENTRY e { x = f32[1000] parameter(0)  u = f32[2] parameter(1)  i = s32[] parameter(2)
      ROOT y = f32[1000] dynamic-update-slice(x, u, i) }"""
    [step] = program_of(text).steps
    assert isinstance(step, StoreStep) and step.operand.place == step.result.place
    assert (step.update.name, [s.name for s in step.starts]) == ("u", ["i"])
    wanted = np.zeros(1000, np.float32)
    wanted[998:] = 7
    found = run(text, np.zeros(1000, np.float32), np.full(2, 7, np.float32), np.int32(5000))
    np.testing.assert_array_equal(found, wanted)


def test_a_reshape_is_another_shape_of_the_same_value():
    text = """ENTRY e { x = f32[8,8] parameter(0)  r = f32[64] reshape(x)  n = f32[64] negate(r)
      s = f32[1] slice(r), slice={[3:4]}  t = f32[] reshape(s)  m = f32[] negate(t)
      ROOT o = (f32[64], f32[]) tuple(n, m) }"""
    program = program_of(text)
    reads = [v for step in all_steps(program) for v in getattr(step, "operands", ()) if v.name == "x"]
    assert {v.shape.dims for v in reads} >= {(64,)} and {v.place for v in reads} == {
        program.parameters[0].place
    }


def test_what_no_cpu_runs_is_refused():
    program = program_of("ENTRY e { x = f32[64] parameter(0)  ROOT y = f32[64] negate(x) }")
    x = program.parameters[0]
    assert x is not None
    host = Allocation(AllocationKind.WORKSPACE, 0, 0, space=MemorySpace.HOST)
    away = ArrayValue(x.name, x.shape, BufferSlice(host, 0, 256))
    assert away.place is not None and away.place.space is MemorySpace.HOST
    with pytest.raises(UnsupportedError, match="TransferStep"):
        llvm_modules(replace(program, steps=(TransferStep("t", x, away),)), host_target())


def test_the_identity_of_a_target_is_all_that_it_answers():
    one = cpu_target("x86-64-v3")
    assert identity(one) == identity(replace(one)) and identity(one).startswith("x86-64-v3/")
    assert identity(one) != identity(with_features(one, ["-fma"]))
    assert program_of("ENTRY e { ROOT x = f32[] parameter(0) }", one).target == identity(one)
    mixed = replace(one, features=frozenset({"+a", "+b", "+c"}))
    assert identity(mixed) == identity(replace(one, features=frozenset(["+c", "+b", "+a"])))


def test_a_short_entry_with_loops_is_optimised():
    """Its kernels may take no longer than the code around their calls."""
    loop = """c { p = (s32[], f32[400]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(9)  ROOT l = pred[] compare(i, n), direction=LT }
    b { p = (s32[], f32[400]) parameter(0)  i = s32[] get-tuple-element(p), index=0
      x = f32[400] get-tuple-element(p), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
      y = f32[400] cosine(x)  ROOT t = (s32[], f32[400]) tuple(j, y) }
    ENTRY e { x = f32[400] parameter(0)  z = s32[] constant(0)  s = (s32[], f32[400]) tuple(z, x)
      ROOT w = (s32[], f32[400]) while(s), condition=c, body=b }"""
    assert entry_level(program_of(loop)) == 2
    assert entry_level(program_of("ENTRY e { x = f32[400] parameter(0)  ROOT y = f32[400] cosine(x) }")) == 0


def test_products_that_differ_in_what_they_are_scaled_by_are_one_kernel():
    text = """HloModule m
    ENTRY e { x = f32[40,64] parameter(0)  w = f32[64,64] parameter(1)
      a = f32[] constant(0.3)  as = f32[40,64] broadcast(a), dimensions={}
      b = f32[] constant(0.7)  bs = f32[40,64] broadcast(b), dimensions={}
      d = f32[40,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      y = f32[40,64] multiply(d, as)
      f = f32[40,64] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[40,64] multiply(f, bs) }"""
    assert len(program_of(text).kernels) == 1
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(np.float32) for shape in ((40, 64), (64, 64))]
    apart = axla.compile(axla.parse(text), flags={"xla_disable_hlo_passes": "fusion-deduplicator"})
    assert np.array_equal(run(text, *given), np.asarray(apart(*given)))


@pytest.mark.parametrize("order", [("nothing", "number"), ("number", "nothing")])
def test_an_empty_constant_hides_none_at_its_offset(order):
    """The text lists both, and is read again."""
    shapes = {"nothing": "f64[0]", "number": "s32[]"}
    first, second = order
    module = axla.parse(f"""
ENTRY e {{ t = token[] after-all()
  nothing = f64[0] constant({{}})
  number = s32[] constant(7)
  one = token[] outfeed({first}, t), outfeed_shape={shapes[first]}
  ROOT two = token[] outfeed({second}, one), outfeed_shape={shapes[second]} }}""")
    constants = {}
    program = compile_program(module, host_target(), constants)
    assert sorted(c.shape.size for c in program.constants) == [0, 1]
    parse_program(print_program(program), constants_segment(constants))
