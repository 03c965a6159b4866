"""`why_not_fuse` names the reason, `explain` all of them."""

import numpy as np
import pytest

import axla
from axla.passes.fuse.fuse import explain, why_not_fuse
from axla.target.machine import Limits

TEXT = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY m {
  x = f32[64,64] parameter(0)
  y = f32[64,64] tanh(x)
  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,64] negate(d)
  t = f32[64,64] transpose(e), dimensions={1,0}
  z = f32[] constant(0)
  s = f32[64] reduce(t, z), dimensions={1}, to_apply=add
  q = f32[64] exponential(s)
  w = f32[64,64] tanh(e)
  ROOT r = (f32[64], f32[64,64]) tuple(q, w) }"""


@pytest.fixture
def module():
    return axla.parse(TEXT)


@pytest.mark.parametrize(
    "producer, consumer, reason",
    (
        ("y", "d", "operands of a dot are read many times, in memory order"),
        ("d", "e", None),
        ("s", "q", None),
        ("t", "s", "a row kernel cannot contain a transpose"),
        ("e", "t", "2 kernels read it"),
    ),
)
def test_reason(module, producer, consumer, reason):
    by_name = {i.name: i for i in module.entry.instructions}
    assert why_not_fuse(by_name[producer], by_name[consumer], Limits()) == reason


def test_explain_lists_every_decision(module):
    lines = explain(module, Limits()).splitlines()
    assert "m: %s into %q: fused" in lines
    assert "m: %e into %t: 2 kernels read it" in lines


CYCLE = """
add { a = c64[] parameter(0) b = c64[] parameter(1) ROOT c = c64[] add(a, b) }
ENTRY m {
  x = c64[12,24] parameter(0)
  y = c64[12,24] parameter(1)
  xy = c64[12,24] multiply(x, y)
  z = c64[] constant((0,0))
  r = c64[12] reduce(xy, z), dimensions={1}, to_apply=add
  v = c64[12,1] reshape(r)
  e = f32[12,1] abs(v)
  zero = f32[] constant(0)
  zeros = f32[12,1] broadcast(zero), dimensions={}
  one = f32[] constant(1)
  ones = f32[12,1] broadcast(one), dimensions={}
  none = pred[12,1] compare(e, zeros), direction=EQ
  s = f32[12,1] select(none, ones, e)
  p = f32[12,1] real(v)
  d = f32[12,1] divide(p, s)
  ROOT t = (f32[12,1], f32[12,1], c64[12]) tuple(d, e, r) }"""


def test_a_view_that_is_read_outside_too_leads_back():
    """The kernel of `d` computes v; so does what computes e, which d needs: r cannot be its result."""
    x = np.random.default_rng(0).normal(size=(12, 24)).astype(np.complex64)
    d, e, _ = (np.asarray(a) for a in axla.compile(axla.parse(CYCLE)).execute([x, x]))
    r = (x * x).sum(1)
    np.testing.assert_allclose(e[:, 0], np.abs(r), rtol=1e-5)
    np.testing.assert_allclose(d[:, 0], r.real / np.abs(r), rtol=1e-5)


@pytest.mark.parametrize("backend", ("cpu", "one-lane"))
@pytest.mark.parametrize("updates", ("x", "r"))
def test_an_array_is_scattered_into_itself(updates, backend):
    places = ", ".join(f"{{{(n + 1) % 20}}}" for n in range(20))
    text = f"""
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
    ENTRY m {{
      x = f32[20] parameter(0)
      i = s32[20,1] constant({{{places}}})
      square = f32[4,5] reshape(x)
      r = f32[20] reshape(square)
      ROOT s = f32[20] scatter(x, i, {updates}), to_apply=add, update_window_dims={{}},
        inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1
    }}"""
    x = np.arange(20, dtype=np.float32)
    given = x.copy()
    found = axla.compile(axla.parse(text), backend=backend)(given)
    np.testing.assert_array_equal(np.asarray(found), x + np.roll(x, 1))
    np.testing.assert_array_equal(given, x)


TWICE_NAMED = """
ENTRY m {
  a = f32[64,64] parameter(0)
  p = f32[64,1] parameter(1)
  r = f32[64] parameter(2)
  d = f32[64,1] dot(a, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[64] reshape(d)
  s = f32[64] subtract(r, v)
  w = f32[64,1] reshape(v)
  q = f32[1,1] dot(p, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT t = (f32[64], f32[1,1]) tuple(s, q) }"""


def test_a_product_that_two_kernels_read_by_another_name_is_computed_once():
    lines = explain(axla.parse(TWICE_NAMED), Limits()).splitlines()
    assert not any(line.startswith("m: %d into") and line.endswith("fused") for line in lines)
