"""`why_not_fuse` names the reason, `explain` all of them."""

import pytest

import axla
from axla.passes.fuse.fuse import explain, why_not_fuse

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
        ("y", "d", "operands of a dot are read many times and packed as they lie"),
        ("d", "e", None),
        ("s", "q", None),
        ("t", "s", "a transpose kernel cannot be part of a row kernel"),
        ("e", "t", "2 kernels read it"),
    ),
)
def test_reason(module, producer, consumer, reason):
    by_name = {i.name: i for i in module.entry.instructions}
    assert why_not_fuse(by_name[producer], by_name[consumer]) == reason


def test_explain_lists_every_decision(module):
    lines = explain(module).splitlines()
    assert "m: %s into %q: fused" in lines
    assert "m: %e into %t: 2 kernels read it" in lines
