"""Orders of execution."""

import random

import pytest
from random_modules import straight

from axla.core.shape import Shape
from axla.ir.traverse import schedule_of
from axla.passes.schedule.order import order, schedule
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo

LIMITS = Limits()


def order_of(text):
    module = parse_hlo(text)
    return [i.name for i in order(module.entry, LIMITS, module.computations)]


@pytest.mark.parametrize("seed", range(10))
def test_operands_come_first(seed):
    module = parse_hlo(straight(seed))
    schedule(module, cpu_target())
    found = schedule_of(module.entry)
    assert sorted(i.id for i in found) == sorted(i.id for i in module.entry.instructions)
    seen = set()
    for inst in found:
        assert all(o in seen for o in inst.operands)
        seen.add(inst)


def peak(instructions):
    left = {i: len(i.users) for i in instructions}
    live = most = 0
    for inst in instructions:
        shape = inst.shape
        size = (
            shape.byte_size if isinstance(shape, Shape) and shape.size > LIMITS.tiny and inst.operands else 0
        )
        live += size
        most = max(most, live)
        for operand in inst.operands:
            left[operand] -= 1
            if not left[operand] and operand.operands and operand.shape.size > LIMITS.tiny:
                live -= operand.shape.byte_size
    return most


def test_memory_is_kept_low():
    """Wide values that shrink at once: the text's order keeps them all, a good one keeps one at a time."""
    wide = [
        f"w{n} = f32[1000] broadcast(s{n}), dimensions={{}} t{n} = f32[1000] tanh(w{n})" for n in range(20)
    ]
    thin = [f"v{n} = f32[20] slice(t{n}), slice={{[0:20]}}" for n in range(20)]
    total = ["a0 = f32[20] negate(v0)"] + [f"a{n} = f32[20] add(a{n - 1}, v{n})" for n in range(1, 20)]
    scalars = [f"s{n} = f32[] constant({n})" for n in range(20)]
    module = parse_hlo(
        "ENTRY e { " + " ".join([*scalars, *wide, *thin, *total]) + " ROOT r = f32[20] negate(a19) }"
    )
    assert peak(order(module.entry, LIMITS)) < 4 * 4000


def test_effects_keep_their_order():
    calls = " ".join(
        f'c{n} = f32[99] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true'
        for n in range(9)
    )
    generator = random.Random(1)
    uses = [f"u{n} = f32[99] negate(c{n})" for n in range(9)]
    generator.shuffle(uses)
    total = " ".join(f"t{n + 1} = f32[99] add(t{n}, u{n})" for n in range(9))
    found = order_of(
        f"ENTRY e {{ x = f32[99] parameter(0) {calls} {' '.join(uses)}"
        f" t0 = f32[99] negate(x) {total} ROOT r = f32[99] negate(t9) }}"
    )
    assert [n for n in found if n.startswith("c")] == [f"c{n}" for n in range(9)]


def test_control_predecessors_come_first():
    found = order_of("""
ENTRY e { x = f32[99] parameter(0) b = f32[99] tanh(x) a = f32[99] negate(x), control-predecessors={b}
  ROOT r = f32[99] add(a, b) }""")
    assert found.index("b") < found.index("a")


def test_readers_come_before_the_overwriter():
    found = order_of("""
ENTRY e { x = f32[99] parameter(0) a = f32[99] tanh(x) u = f32[33] parameter(1)
  i = s32[] constant(1) d = f32[99] dynamic-update-slice(a, u, i)
  b = f32[99] reverse(a), dimensions={0} ROOT r = f32[99] add(d, b) }""")
    assert found.index("b") < found.index("d")
