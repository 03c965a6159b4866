"""Computations that are not straight-line code inside map, reduce, reduce-window, scatter, sort and the like:
compiled code gives what the interpreter gives.
"""

from __future__ import annotations

import logging
import re

import numpy as np
import pytest

import axla
from axla import ops
from axla.builder import XlaBuilder
from axla.codegen.element import ELEMENT
from axla.codegen.host import host_target
from axla.core.dtypes import F32
from axla.core.shape import Shape
from axla.ir.op import OPS
from axla.lowering.pipeline import optimize

BACKENDS = ("cpu", "one-lane")

# What the computations do to a scalar x. The program halves it three times, in a loop.
INSIDE = {
    "while": """
    zero = s32[] constant(0)
    state = (f32[], s32[]) tuple(x, zero)
    end = (f32[], s32[]) while(state), condition=few, body=halve
    y = f32[] get-tuple-element(end), index=0""",
    "sort": """
    three = f32[3] constant({1, -1, 0.5})
    xs = f32[3] broadcast(x), dimensions={}
    scaled = f32[3] multiply(xs, three)
    ordered = f32[3] sort(scaled), dimensions={0}, to_apply=less
    cut = f32[1] slice(ordered), slice={[0:1]}
    y = f32[] reshape(cut)""",
    "scatter": """
    big = f32[40] iota(), iota_dimension=0
    at = s32[2,1] constant({{7}, {39}})
    xs = f32[2] broadcast(x), dimensions={}
    put = f32[40] scatter(big, at, xs), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=plus
    cut = f32[1] slice(put), slice={[39:40]}
    y = f32[] reshape(cut)""",
    "cholesky": """
    sq = f32[] multiply(x, x)
    xs = f32[3,3] broadcast(sq), dimensions={}
    eye = f32[3,3] constant({{2, 1, 1}, {1, 3, 1}, {1, 1, 4}})
    spd = f32[3,3] add(xs, eye)
    root = f32[3,3] cholesky(spd), lower=true
    cut = f32[1,1] slice(root), slice={[2:3], [1:2]}
    y = f32[] reshape(cut)""",
    "conditional": """
    zero = f32[] constant(0)
    less = pred[] compare(x, zero), direction=LT
    y = f32[] conditional(less, x, x), true_computation=looping, false_computation=minus""",
    "map": """
    xs = f32[4] broadcast(x), dimensions={}
    ys = f32[4] map(xs), dimensions={0}, to_apply=looping
    cut = f32[1] slice(ys), slice={[3:4]}
    y = f32[] reshape(cut)""",
}  # fmt: skip

SHARED = """
few {
  s = (f32[], s32[]) parameter(0)
  k = s32[] get-tuple-element(s), index=1
  n = s32[] constant(3)
  ROOT r = pred[] compare(k, n), direction=LT
}
halve {
  s = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  k = s32[] get-tuple-element(s), index=1
  half = f32[] constant(0.5)
  one = s32[] constant(1)
  y = f32[] multiply(x, half)
  next = s32[] add(k, one)
  ROOT r = (f32[], s32[]) tuple(y, next)
}
looping {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  state = (f32[], s32[]) tuple(x, zero)
  end = (f32[], s32[]) while(state), condition=few, body=halve
  ROOT y = f32[] get-tuple-element(end), index=0
}
minus { x = f32[] parameter(0)  ROOT y = f32[] negate(x) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
"""

# f(x); g(a, b), which is neither associative nor commutative; before(a, b).
USES = {
    "map": "x = f32[3,5] parameter(0)\n ROOT r = f32[3,5] map(x), dimensions={0,1}, to_apply=f",
    "empty map": "x = f32[3,0] parameter(0)\n ROOT r = f32[3,0] map(x), dimensions={0,1}, to_apply=f",
    "reduce": "x = f32[3,5,4] parameter(0)\n i = f32[] constant(2)\n"
              " ROOT r = f32[5] reduce(x, i), dimensions={0,2}, to_apply=g",
    "reduce of nothing": "x = f32[3,0] parameter(0)\n i = f32[] constant(2)\n"
                         " ROOT r = f32[3] reduce(x, i), dimensions={1}, to_apply=g",
    "window": "x = f32[6,5] parameter(0)\n i = f32[] constant(2)\n"
              " ROOT r = f32[4,5] reduce-window(x, i), window={size=2x3 stride=2x1 pad=1_1x1_1}, to_apply=g",
    "dilated window": "x = f32[3,5] parameter(0)\n i = f32[] constant(2)\n ROOT r = f32[4,3]"
                      " reduce-window(x, i), window={size=2x2 pad=0_0x1_-1 lhs_dilate=2x1 rhs_dilate=1x2},"
                      " to_apply=g",
    "rows": "x = f32[6,5] parameter(0)\n i = s32[4,1] parameter(1)\n u = f32[4,5] parameter(2)\n"
            " ROOT r = f32[6,5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},"
            " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=g",
    "windows": "x = f32[6,5] parameter(0)\n i = s32[2,4] parameter(1)\n u = f32[2,2,4] parameter(2)\n"
               " ROOT r = f32[6,5] scatter(x, i, u), update_window_dims={0,1}, inserted_window_dims={},"
               " scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, to_apply=g",
    "batches": "x = f32[3,5] parameter(0)\n i = s32[3,2] parameter(1)\n u = f32[3,2] parameter(2)\n"
               " ROOT r = f32[3,5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1},"
               " scatter_dims_to_operand_dims={1}, input_batching_dims={0},"
               " scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=g",
    "sort": "x = f32[7,3] parameter(0)\n"
            " ROOT r = f32[7,3] sort(x), dimensions={0}, is_stable=true, to_apply=before",
    "select-and-scatter": "x = f32[6,4] parameter(0)\n u = f32[3,2] parameter(1)\n i = f32[] constant(1)\n"
                          " ROOT r = f32[6,4] select-and-scatter(x, u, i), window={size=2x2 stride=2x2},"
                          " select=before, scatter=g",
    "all-reduce": "x = f32[6] parameter(0)\n ROOT r = f32[6] all-reduce(x), to_apply=g",
}  # fmt: skip


def program(inside, use):
    inside = INSIDE[inside]
    second = re.sub(r"(?<![a-z_=])(y|x)(?![a-z_])", lambda m: m[1] + "2", _numbered(inside))
    text = (
        SHARED
        + f"""
f {{
    x = f32[] parameter(0){inside}
    ROOT r = f32[] add(y, y)
}}
g {{
    a = f32[] parameter(0)
    b = f32[] parameter(1)
    x = f32[] subtract(a, b){inside}
    ROOT r = f32[] add(y, a)
}}
before {{
    x = f32[] parameter(0)
    x2 = f32[] parameter(1){inside}{second}
    ROOT r = pred[] compare(y, y2), direction=LT
}}
ENTRY e {{
 {USES[use]}
}}"""
    )
    return axla.parse(text)


def _numbered(text):
    """The same lines with other names."""
    for name in set(re.findall(r"^\s*(\w+) = ", text, re.M)) - {"y"}:
        text = re.sub(rf"(?<![=\w]){name}(?= = |[,)])", f"{name}_2", text)
    return text


def inputs_of(module):
    rng = np.random.default_rng(1)
    shapes = [p.shape for p in module.entry.parameters]
    return [
        rng.integers(-2, 7, s.dims).astype(np.int32) if s.dtype.is_integer
        else np.round(rng.normal(size=s.dims) * 4).astype(np.float32) / 2
        for s in shapes
    ]  # fmt: skip


def agrees(module, backend):
    assert axla.check(module, backend, inputs=inputs_of(module)).ok


@pytest.mark.parametrize("use", USES)
def test_every_op_applies_a_loop(use):
    for backend in BACKENDS:
        agrees(program("while", use), backend)


@pytest.mark.parametrize("inside", [name for name in INSIDE if name != "while"])
@pytest.mark.parametrize("use", ["map", "reduce", "rows", "sort"])
def test_what_is_applied_may_be_anything(use, inside):
    agrees(program(inside, use), "cpu")


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_results_keep_their_order(backend):
    pair = """
    pair {
      a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
      zero = s32[] constant(0)
      s = (f32[], s32[]) tuple(a, zero)
      e = (f32[], s32[]) while(s), condition=few, body=halve
      x = f32[] get-tuple-element(e), index=0
      y = f32[] subtract(x, b)
      d = s32[] subtract(j, i)
      ROOT r = (f32[], s32[]) tuple(y, d)
    }"""
    text = (
        SHARED
        + pair
        + """
    ENTRY e {
      x = f32[4,3] parameter(0)
      k = s32[4,3] iota(), iota_dimension=1
      a = f32[] constant(3)
      b = s32[] constant(5)
      ROOT r = (f32[4], s32[4]) reduce(x, k, a, b), dimensions={1}, to_apply=pair
    }"""
    )
    agrees(axla.parse(text), backend)


def test_random_numbers_and_effects_may_be_inside(caplog):
    text = """
    f {
      x = f32[] parameter(0)
      t = token[] custom-call(x), custom_call_target="axla.trace", custom_call_has_side_effect=true,
        backend_config="seen"
      one = f32[] constant(1)
      u = f32[] rng(x, one), distribution=rng_uniform
      ROOT r = f32[] maximum(u, x)
    }
    ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] map(x), dimensions={0}, to_apply=f }"""
    with caplog.at_level(logging.INFO, "axla.trace"):
        found = np.asarray(axla.compile(axla.parse(text))(np.float32([0, 0.25, 0.5])))
    assert [r.message for r in caplog.records] == ["seen: 0.0", "seen: 0.25", "seen: 0.5"]
    assert np.all((found >= [0, 0.25, 0.5]) & (found < 1)) and len(set(found.tolist())) == 3


def test_what_is_left_out_is_not_applied():
    """Index 9 is no place: the loop that its value would start does not end."""
    text = """
    on { s = f32[] parameter(0)  zero = f32[] constant(0)  ROOT r = pred[] compare(s, zero), direction=GT }
    same { s = f32[] parameter(0)  one = f32[] constant(0)  ROOT r = f32[] add(s, one) }
    g {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      w = f32[] while(b), condition=on, body=same
      ROOT r = f32[] add(a, w)
    }
    ENTRY e {
      x = f32[3] parameter(0)
      i = s32[2,1] constant({{9}, {1}})
      u = f32[2] constant({1, -2})
      ROOT r = f32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=g
    }"""
    found = axla.compile(axla.parse(text)).execute([np.float32([1, 2, 3])], deadline=20)
    np.testing.assert_array_equal(np.asarray(found[0]), [1, 0, 3])


@pytest.mark.parametrize("backend", ["interpreter", *BACKENDS])
def test_a_map_of_no_elements_with_an_array_operand(backend):
    b = XlaBuilder("m")
    step = b.sub_builder("step")
    x, table = step.parameter(0, Shape(F32)), step.parameter(1, Shape(F32, (3,)))
    f = step.build(x + table[0])
    given = [b.parameter(0, Shape(F32, (2, 0)))]
    result = ops.Map(b, given, f, (0, 1), [b.parameter(1, Shape(F32, (3,)))])
    compiled = axla.compile(b.build(result).module, backend=backend)
    found = compiled(np.zeros((2, 0), np.float32), np.ones(3, np.float32))
    assert np.asarray(found).shape == (2, 0)


def test_code_generation_has_generators_for_what_is_in_line():
    said = {opcode for opcode, op in OPS.items() if op.in_line}
    known = {op.opcode for op in ELEMENT if not op.elementwise and not hasattr(op, "source")}
    assert known | {"parameter"} == said


def chain(length):
    """A reducer of `length` cosines."""
    lines = [f"v{k} = f32[] cosine(v{k - 1})" for k in range(1, length)]
    return (
        "f5 { a = f32[] parameter(0) v0 = f32[] parameter(1) "
        + " ".join(lines)
        + (f" ROOT s = f32[] add(a, v{length - 1}) }}")
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_computations_are_called(backend):
    text = (
        chain(300)
        + """
    ENTRY e { p = f32[64] parameter(0) z = f32[] constant(0)
      ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=f5 }"""
    )
    module = axla.parse(text)
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    want = np.asarray(axla.compile(module, backend="interpreter")(x))
    np.testing.assert_allclose(np.asarray(axla.compile(module, backend=backend)(x)), want, rtol=1e-5)
    work = axla.parse(text)
    optimize(work, host_target())
    assert any(inst.opcode == "while" for inst in work.entry.instructions)


@pytest.mark.parametrize("backend", ["cpu", "one-lane"])
@pytest.mark.parametrize("dims", ["3", "40", "2,30"])
def test_a_map_of_a_reduction_of_what_varies(dims, backend):
    """The scalars of several elements are one vector, and so is what is added up of each."""
    text = f"""add {{ x = s32[] parameter(0)  y = s32[] parameter(1)  ROOT z = s32[] add(x, y) }}
    of {{ a = s32[] parameter(0)  zero = s32[] constant(0)  i = s32[{dims}] iota(), iota_dimension=0
      b = s32[{dims}] broadcast(a), dimensions={{}}  s = s32[{dims}] multiply(b, i)
      ROOT r = s32[] reduce(s, zero), dimensions={{{", ".join("01"[: dims.count(",") + 1])}}}, to_apply=add }}
    ENTRY e {{ p = s32[50] parameter(0)  ROOT r = s32[50] map(p), dimensions={{0}}, to_apply=of }}"""
    given = np.arange(-20, 30, dtype=np.int32)
    sizes = [int(d) for d in dims.split(",")]
    times = int(np.indices(sizes)[0].sum())
    found = axla.compile(axla.parse(text), backend=backend)(given)
    assert np.array_equal(found, given * times)
