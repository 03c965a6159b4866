"""The choice of the values that are computed in registers."""

import pytest

from axla.analysis.regions import (
    cost,
    crowded,
    is_scalar_region,
    is_tiny,
    is_tiny_store,
    machine_loops,
)
from axla.ir.traverse import computations_callees_first, post_order
from axla.target.machine import Limits
from axla.text.parser import parse_hlo

LIMITS = Limits()


def root_of(text):
    return parse_hlo(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n" + text
    ).entry.root


@pytest.mark.parametrize(
    ("text", "tiny"),
    [
        ("ENTRY e { x = f32[16] parameter(0) ROOT r = f32[16] negate(x) }", True),
        ("ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] tanh(x) }", True),
        ("ENTRY e { x = f32[16] parameter(0) ROOT r = f32[16] tanh(x) }", False),
        ("ENTRY e { x = f32[17] parameter(0) ROOT r = f32[17] tanh(x) }", False),
        ("ENTRY e { x = f32[99] parameter(0) ROOT r = f32[4] slice(x), slice={[3:7]} }", True),
        ("ENTRY e { x = f32[99] parameter(0) i = s32[] parameter(1)"
         " ROOT r = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4} }", True),
        ("ENTRY e { x = f32[4,4] parameter(0) ROOT r = f32[4,4] dot(x, x),"
         " lhs_contracting_dims={1}, rhs_contracting_dims={0} }", True),
        ("ENTRY e { x = f32[4,99] parameter(0) ROOT r = f32[4,4] dot(x, x),"
         " lhs_contracting_dims={1}, rhs_contracting_dims={1} }", False),
        ("ENTRY e { x = f32[8] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }", True),
        ("ENTRY e { x = f32[80] parameter(0) z = f32[] constant(0)"
         " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add }", False),
        ("ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] custom-call(x),"
         " custom_call_target=\"f\" }", False),
        ("ENTRY e { x = f32[0,99] parameter(0) ROOT r = f32[0,99] tanh(x) }", True),
    ],
)  # fmt: skip
def test_tiny(text, tiny):
    assert is_tiny(root_of(text), LIMITS) is tiny


def test_tiny_store():
    text = "ENTRY e {{ x = f32[{0}] parameter(0) u = f32[{1}] parameter(1) i = s32[] parameter(2)" \
        " ROOT r = f32[{0}] dynamic-update-slice(x, u, i) }}"  # fmt: skip
    assert is_tiny_store(root_of(text.format(99, 4)), LIMITS)
    assert not is_tiny_store(root_of(text.format(99, 40)), LIMITS)
    assert not is_tiny_store(root_of(text.format(9, 4)), LIMITS)  # all in registers


LOOP = """
body {{ p = (s32[], f32[{0}]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[{0}] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one) {1} ROOT t = (s32[], f32[{0}]) tuple(j, y) }}
cond {{ p = (s32[], f32[{0}]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ t = (s32[], f32[{0}]) parameter(0)
  ROOT w = (s32[], f32[{0}]) while(t), condition=cond, body=body }}
"""


def test_loops():
    assert is_tiny(root_of(LOOP.format(4, "y = f32[4] tanh(x)")), LIMITS)
    assert not is_tiny(root_of(LOOP.format(40, "y = f32[40] tanh(x)")), LIMITS)
    chain = "y0 = f32[16] abs(x) " + " ".join(f"y{n + 1} = f32[16] negate(y{n})" for n in range(300))
    long = root_of(LOOP.format(16, chain + " y = f32[16] negate(y300)"))
    assert not is_tiny(long, LIMITS) and cost(long.op.body, LIMITS) > LIMITS.line
    assert not is_scalar_region(long.op.body, LIMITS) and is_scalar_region(long.op.condition, LIMITS)


def test_the_answer_follows_the_graph():
    loop = root_of(LOOP.format(4, "y = f32[4] tanh(x)"))
    assert is_tiny(loop, LIMITS)
    body = loop.op.body
    from axla.core.dtypes import F32
    from axla.core.shape import Shape
    from axla.hlo import Broadcast, Constant

    scalar = body.add(Constant.of(1.0, F32))
    body.add(Broadcast(Shape(F32, (99,)), ()), [scalar])
    assert not is_tiny(loop, LIMITS)


@pytest.mark.parametrize(
    ("shape", "ops", "found"),
    [
        ("f32[4]", ["tanh"], 0),
        ("f32[4]", ["tanh", "tanh"], 2),
        ("f32[16]", ["negate"] * 16, 0),
        ("f32[16]", ["negate"] * 17, 17),
        ("f32[2]", ["negate"] * 128, 0),
        ("f32[2]", ["negate"] * 64 + ["tanh"] * 2, 66),
        ("f32[]", ["tanh"] * 99, 0),  # one element is no shorter in a kernel
        ("f32[17]", ["tanh"] * 9, 0),  # in a kernel anyway
    ],
)
def test_neighbours_that_are_long_code_together_are_crowded(shape, ops, found):
    lines = " ".join(f"v{n + 1} = {shape} {op}(v{n})" for n, op in enumerate(ops))
    root = root_of(f"ENTRY e {{ v0 = {shape} parameter(0) {lines} ROOT r = ({shape}) tuple(v{len(ops)}) }}")
    assert len(crowded(post_order(root.computation), LIMITS)) == found


def test_neighbours_of_other_sizes_count_apart():
    text = "ENTRY e { x = f32[8] parameter(0) wide = f32[8] tanh(x) b = f32[4] slice(wide), slice={[0:4]}" \
        " ROOT r = f32[4] tanh(b) }"  # fmt: skip
    root = root_of(text)
    assert [inst.name for inst in crowded(post_order(root.computation), LIMITS)] == ["wide"]


def test_each_machine_has_its_own_answer():
    """The facts that are kept at a computation are those of the limits that were asked about."""
    loop = root_of(LOOP.format(4, "y = f32[4] tanh(x)"))
    few, short = Limits(tiny=3), Limits(line=1)
    asked = (LIMITS, few, LIMITS, short)
    assert [is_tiny(loop, limits) for limits in asked] == [True, False, True, False]
    assert [cost(loop.op.body, limits) for limits in asked] == [5, None, 5, 5]


def test_machine_loops():
    """Loops that are all registers stay so, however long their code: it runs often."""
    body = "y0 = f32[4] abs(x) " + " ".join(f"y{n + 1} = f32[4] tanh(y{n})" for n in range(9))
    inside = root_of(LOOP.format(4, body + " y = f32[4] negate(y9)"))
    module = inside.computation.module
    assert machine_loops(computations_callees_first(module), LIMITS) == {inside.op.body, inside.op.condition}
    outside = root_of(LOOP.format(40, "y = f32[40] tanh(x)"))
    assert machine_loops(computations_callees_first(outside.computation.module), LIMITS) == set()
