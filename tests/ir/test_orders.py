"""Orders of a module that are kept until it changes."""

from axla.ir.traverse import computations_callees_first
from axla.text.parser import parse_hlo

TEXT = """HloModule m
f { ROOT p = s32[] parameter(0) }
g { ROOT p = s32[] parameter(0) }
ENTRY e {
  x = s32[] parameter(0)
  a = s32[] call(x), to_apply=f
  b = s32[] call(x), to_apply=g
  ROOT r = (s32[], s32[]) tuple(a, b)
}"""


def test_computations_follow_the_order_of_what_calls_them():
    module = parse_hlo(TEXT)
    x, a, b, r = module.entry.instructions
    assert [c.name for c in computations_callees_first(module)] == ["f", "g", "e"]
    module.entry.set_root(a)
    module.entry.remove(r)
    assert [c.name for c in computations_callees_first(module)] == ["f", "g", "e"]
    module.entry.reorder([x, b, a])
    assert [c.name for c in computations_callees_first(module)] == ["g", "f", "e"]
