"""Whole programs: control flow, memory in place, tuples, custom calls, on cpu and one lane against the
interpreter.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import axla.api as axla
from axla.codegen.host import host_target
from axla.comparison import compare
from axla.core.errors import AxlaError, DeadlineExceeded, UnsupportedError
from axla.custom.registry import register_custom_call

ADD = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""

PROGRAMS = {
    # A loop whose carries are a counter, a small vector and an array that is updated in place.
    "mixed loop": """
cond { p = (s32[], f32[4], f32[8,40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4], f32[8,40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[4] get-tuple-element(p), index=1
  a = f32[8,40] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v2 = f32[4] multiply(v, v)
  zero = s32[] constant(0)
  row = f32[1,40] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,40}
  twice = f32[1,40] add(row, row)
  a2 = f32[8,40] dynamic-update-slice(a, twice, i, zero)
  ROOT t = (s32[], f32[4], f32[8,40]) tuple(next, v2, a2) }
ENTRY main { v = f32[4] parameter(0)
  a = f32[8,40] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[4], f32[8,40]) tuple(z, v, a)
  ROOT w = (s32[], f32[4], f32[8,40]) while(t), condition=cond, body=body }
""",
    "swap in a loop": """
cond { p = (s32[], f32[50], f32[50]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[50], f32[50]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[50] get-tuple-element(p), index=1
  b = f32[50] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = f32[50] add(a, b)
  ROOT t = (s32[], f32[50], f32[50]) tuple(next, b, s) }
ENTRY main { a = f32[50] parameter(0)
  b = f32[50] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[50], f32[50]) tuple(z, a, b)
  ROOT w = (s32[], f32[50], f32[50]) while(t), condition=cond, body=body }
""",
    "one value carried twice, one passed on": """
cond { p = (s32[], f32[30], f32[30], f32[30]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[30], f32[30], f32[30]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[30] get-tuple-element(p), index=1
  b = f32[30] get-tuple-element(p), index=2
  c = f32[30] get-tuple-element(p), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = f32[30] multiply(a, c)
  ROOT t = (s32[], f32[30], f32[30], f32[30]) tuple(next, s, s, c) }
ENTRY main { a = f32[30] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[30], f32[30], f32[30]) tuple(z, a, a, a)
  w = (s32[], f32[30], f32[30], f32[30]) while(t), condition=cond, body=body
  x = f32[30] get-tuple-element(w), index=1
  y = f32[30] get-tuple-element(w), index=3
  ROOT r = (f32[30], f32[30], f32[30]) tuple(x, y, a) }
""",
    "loop in a loop": """
c2 { p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
b2 { p = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[] cosine(x)
  ROOT t = (s32[], f32[]) tuple(next, y) }
c1 { p = (s32[], f32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(6)
  ROOT lt = pred[] compare(i, n), direction=LT }
b1 { p = (s32[], f32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  a = f32[64] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  z = s32[] constant(0)
  t = (s32[], f32[]) tuple(z, x)
  w = (s32[], f32[]) while(t), condition=c2, body=b2
  y = f32[] get-tuple-element(w), index=1
  u = f32[1] reshape(y)
  a2 = f32[64] dynamic-update-slice(a, u, i)
  ROOT r = (s32[], f32[], f32[64]) tuple(next, y, a2) }
ENTRY main { x = f32[] parameter(0)
  a = f32[64] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[], f32[64]) tuple(z, x, a)
  ROOT w = (s32[], f32[], f32[64]) while(t), condition=c1, body=b1 }
""",
    "conditional with arrays": """
yes { p = (f32[100], f32[3]) parameter(0)
  a = f32[100] get-tuple-element(p), index=0
  b = f32[3] get-tuple-element(p), index=1
  n = f32[100] negate(a)
  ROOT t = (f32[100], f32[3]) tuple(n, b) }
no { p = (f32[100], f32[3]) parameter(0)
  a = f32[100] get-tuple-element(p), index=0
  b = f32[3] get-tuple-element(p), index=1
  m = f32[3] multiply(b, b)
  ROOT t = (f32[100], f32[3]) tuple(a, m) }
ENTRY main { a = f32[100] parameter(0)
  b = f32[3] parameter(1)
  c = f32[] parameter(2)
  z = f32[] constant(0)
  p = pred[] compare(c, z), direction=GT
  t = (f32[100], f32[3]) tuple(a, b)
  ROOT r = (f32[100], f32[3]) conditional(p, t, t), true_computation=yes, false_computation=no }
""",
    "conditional by index, out of range": """
b0 { ROOT p = f32[20] parameter(0) }
b1 { p = f32[20] parameter(0)
  ROOT n = f32[20] negate(p) }
b2 { p = f32[20] parameter(0)
  ROOT n = f32[20] add(p, p) }
ENTRY main { a = f32[20] parameter(0)
  i = s32[] constant(-7)
  j = s32[] constant(1)
  r = f32[20] conditional(i, a, a, a), branch_computations={b0, b1, b2}
  s = f32[20] conditional(j, a, a, a), branch_computations={b0, b1, b2}
  ROOT t = (f32[20], f32[20]) tuple(r, s) }
""",
    "results twice and parameters returned": """
ENTRY main { a = f32[40] parameter(0)
  b = f32[2] parameter(1)
  n = f32[40] negate(a)
  ROOT t = (f32[40], f32[40], f32[40], (f32[2], f32[2])) tuple(n, n, a, (f32[2], f32[2]) tuple(b, b)) }
""",
    "sizes of zero": ADD + """
ENTRY main { a = f32[0,5] parameter(0)
  b = f32[0,5] exponential(a)
  z = f32[] constant(7)
  r = f32[5] reduce(b, z), dimensions={0}, to_apply=add
  c = f32[5,0] transpose(b), dimensions={1,0}
  d = f32[5,5] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[5], f32[5,0], f32[5,5]) tuple(r, c, d) }
""",
    "small scatter and big scatter": ADD + """
ENTRY main { a = f32[6] parameter(0)
  b = f32[50,3] parameter(1)
  i = s32[4,1] constant({{1},{9},{1},{-1}})
  u = f32[4] constant({1,2,3,4})
  v = f32[4,3] broadcast(u), dimensions={0}
  s = f32[6] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  t = f32[50,3] scatter(b, i, v), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = (f32[6], f32[50,3]) tuple(s, t) }
""",
    "a big constant": """
ENTRY main {{ a = f32[100] parameter(0)
  i = f32[100] iota(), iota_dimension=0
  c = s32[70] constant({{{}}})
  f = f32[70] convert(c)
  p = f32[70] slice(a), slice={{[3:73]}}
  m = f32[70] multiply(f, p)
  ROOT t = (f32[70], f32[100]) tuple(m, i) }}
""".format(",".join(str(k * k % 11) for k in range(70))),
    "calls": """
inner { x = f32[33] parameter(0)
  y = f32[] parameter(1)
  b = f32[33] broadcast(y), dimensions={}
  ROOT r = f32[33] subtract(x, b) }
ENTRY main { x = f32[33] parameter(0)
  y = f32[] parameter(1)
  a = f32[33] call(x, y), to_apply=inner
  ROOT b = f32[33] call(a, y), to_apply=inner }
""",
}  # fmt: skip


def arguments(module) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [
        np.asarray(rng.random(p.shape.dims) - 0.3).astype(p.shape.dtype.numpy)
        for p in module.entry.parameters
    ]


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, backend):
    module = axla.parse(PROGRAMS[name])
    inputs = arguments(module)
    kept = [a.copy() for a in inputs]
    wanted = axla.compile(module, backend="interpreter").execute(inputs)
    results = [np.asarray(a) for a in axla.compile(module, backend=backend).execute(inputs)]
    compare(module, results, [np.asarray(a) for a in wanted], backend, "interpreter").raise_if_different()
    assert all((a == b).all() for a, b in zip(inputs, kept, strict=True)), "an input was written"


FOREVER = """
cond { p = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
body { p = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT n = s32[] add(p, one) }
ENTRY main { a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=cond, body=body }
"""


def test_deadline_stops_an_endless_loop():
    program = axla.compile(axla.parse(FOREVER))
    with pytest.raises(DeadlineExceeded):
        program.execute([np.int32(0)], deadline=0.2)


CUSTOM = """
ENTRY main { a = f32[4] parameter(0)
  b = f32[100] parameter(1)
  ROOT c = (f32[4], f32[100]) custom-call(a, b), custom_call_target="%s", backend_config="twice" }
"""


def test_custom_call_by_the_function_table():
    seen = []
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_char_p, ctypes.c_int64,
    )  # fmt: skip

    def double(frame, operands, results, opaque, length):
        seen.append((opaque, length))
        for number, count in ((0, 4), (1, 100)):
            source = (ctypes.c_float * count).from_address(operands[number])
            target = (ctypes.c_float * count).from_address(results[number])
            for k in range(count):
                target[k] = 2 * source[k]
        return 0

    register_custom_call("test_double", signature(double), api="axla")
    program = axla.compile(axla.parse(CUSTOM % "test_double"))
    a, b = np.arange(4, dtype=np.float32), np.arange(100, dtype=np.float32)
    x, y = program(a, b)
    assert (np.asarray(x) == 2 * a).all() and (np.asarray(y) == 2 * b).all()
    assert seen == [(b"twice", 5)]


def test_unknown_custom_call_fails_at_compile():
    with pytest.raises(UnsupportedError, match="nobody_has_this"):
        axla.compile(axla.parse(CUSTOM % "nobody_has_this"))


def test_failing_custom_call_is_an_error():
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    )
    register_custom_call("test_fails", signature(lambda *args: 5), api="axla")
    program = axla.compile(axla.parse(CUSTOM % "test_fails"))
    with pytest.raises(AxlaError):
        program(np.zeros(4, np.float32), np.zeros(100, np.float32))


LAYOUT = """
HloModule m, entry_computation_layout={(f32[3,5]{0,1})->f32[5,3]{0,1}}
ENTRY main { a = f32[3,5]{0,1} parameter(0)
  ROOT t = f32[5,3]{0,1} transpose(a), dimensions={1,0} }
"""


def test_arrays_are_logical_whatever_the_entry_layout():
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    assert (np.asarray(axla.compile(axla.parse(LAYOUT))(a)) == a.T).all()


def test_equal_kernels_are_compiled_once():
    from axla.lowering import pipeline
    from axla.program.steps import KernelStep

    text = "ENTRY main {\n  a = f32[64,64] parameter(0)\n"
    previous = "a"
    for k in range(10):
        text += f"  d{k} = f32[64,64] dot({previous}, a), "
        text += "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        previous = f"d{k}"
    module = axla.parse(text + f"  ROOT r = f32[64,64] copy({previous})\n}}")
    pipeline.optimize(module, host_target())
    program = pipeline.program_of(module)
    assert len(program.kernels) == 1
    assert sum(isinstance(step, KernelStep) for step in program.steps) == 10


def test_small_results_in_the_memory_of_small_parameters():
    text = """HloModule m, input_output_alias={ {0}: (0, {}), {1}: (1, {}) }
    ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  n = f32[] negate(x)
      ROOT t = (f32[], f32[], f32[], f32[]) tuple(y, x, n, y) }"""
    results = axla.compile(axla.parse(text)).execute([np.float32(3), np.float32(5)])
    assert [float(r) for r in results] == [5, 3, -3, 5]


def test_donated_parameter_is_updated_in_place():
    text = "ENTRY main {\n  a = f32[1000] parameter(0)\n  ROOT b = f32[1000] add(a, a)\n}"
    program = axla.compile(axla.parse(text), donate=(0,))
    a = axla.device_put(np.ones(1000, np.float32))
    result = program(a)
    assert a.is_deleted() if callable(a.is_deleted) else a.is_deleted
    assert (np.asarray(result) == 2).all()
