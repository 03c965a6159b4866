"""The verifier: one broken module per rule, and that it stays fast."""

from __future__ import annotations

import pytest

import axla.hlo as hlo
from axla.core.dtypes import F32, S32
from axla.core.errors import VerifyError
from axla.core.shape import ProgramShape, Shape
from axla.ir.graph import Alias, Extra, Module, ModuleConfig
from axla.ir.verify import verify
from axla.text import parse_hlo
from work import calls

VECTOR = Shape(F32, (4,))


@pytest.fixture
def module() -> Module:
    """e(x, y) = sort of: negate(x + y)."""
    made = Module("m")
    entry = made.add_computation("e", entry=True)
    x, y = (entry.add(hlo.Parameter(VECTOR, n), name="xy"[n]) for n in range(2))
    total = entry.add(hlo.Add(), (x, y), name="total")
    entry.set_root(entry.add(hlo.Negate(), (total,), name="root"))
    verify(made)
    return made


def rejected(module: Module, label: str, *parts: str) -> None:
    with pytest.raises(VerifyError, match=rf"\[{label}\]$") as caught:
        verify(module)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def find(module: Module, name: str):
    return next(i for i in module.entry.instructions if i.name == name)


def test_module_entry():
    rejected(Module("m"), "module_entry")


def test_module_names(module):
    find(module, "total").name = "root"
    rejected(module, "module_names", "root")


def test_module_calls(module):
    called = module.add_computation("called")
    p = called.add(hlo.Parameter(VECTOR, 0))
    called.set_root(called.add(hlo.Call(called), (p,), VECTOR))
    rejected(module, "module_calls", "calls itself")


def test_module_calls_elsewhere(module):
    other = Module("other").add_computation("c")
    other.set_root(other.add(hlo.Parameter(VECTOR, 0)))
    module.entry.add(hlo.Call(other), (find(module, "x"),))
    rejected(module, "module_calls", "not in module")


def test_module_layout(module):
    module.set_config(entry_layout=ProgramShape((VECTOR,), VECTOR))
    rejected(module, "module_layout")
    module.set_config(entry_layout=ProgramShape((VECTOR, Shape(F32, (5,))), VECTOR))
    rejected(module, "module_layout", "parameter 1")
    module.set_config(entry_layout=ProgramShape((VECTOR, VECTOR), Shape(S32)))
    rejected(module, "module_layout", "result")


def test_module_aliases(module):
    for alias in (Alias((0,), 0, ()), Alias((), 7, ()), Alias((), 0, (1,))):
        module.config = ModuleConfig(aliases=(alias,))
        rejected(module, "module_aliases")
    module.config = ModuleConfig(aliases=(Alias((), 0, ()), Alias((), 1, ())))
    rejected(module, "module_aliases", "already")
    module.config = ModuleConfig(buffer_donors=((9, ()),))
    rejected(module, "module_aliases", "donor")


def test_module_schedule(module):
    order = tuple(module.entry.instructions)
    module.schedule = {module.entry: order}
    verify(module)
    module.schedule = {module.entry: order[::-1]}
    rejected(module, "module_schedule", "before")
    module.schedule = {module.entry: order[1:]}
    rejected(module, "module_schedule", "once")


def test_computation_root(module):
    module.add_computation("empty")
    rejected(module, "computation_root", "empty")


def test_computation_parameters(module):
    module.entry.add(hlo.Parameter(VECTOR, 3))
    rejected(module, "computation_parameters", "without gaps")


def test_computation_acyclic(module):
    total, root = find(module, "total"), find(module, "root")
    total.operands = (root, root)
    root.users[total] = None
    for name in "xy":
        del find(module, name).users[total]
    rejected(module, "computation_acyclic", "total", "root")


def test_computation_acyclic_counts_control_edges(module):
    module.entry.set_extra(find(module, "total"), Extra(control_predecessors=(find(module, "root"),)))
    rejected(module, "computation_acyclic")


def test_instruction_place(module):
    find(module, "total").computation = module.add_computation("other")
    rejected(module, "instruction_place", "total")


def test_instruction_operands(module):
    x, root = find(module, "x"), find(module, "root")
    x.users[root] = None
    rejected(module, "instruction_operands", "root")
    del x.users[root], x.users[find(module, "total")]
    rejected(module, "instruction_operands", "not among the users")


def test_instruction_arity(module):
    module.entry.add(hlo.Add(), (find(module, "x"),), VECTOR)
    rejected(module, "instruction_arity", "expects 2 operands, found 1")


def test_instruction_control(module):
    foreign = module.add_computation("other").add(hlo.Parameter(VECTOR, 0))
    module.entry.set_extra(find(module, "total"), Extra(control_predecessors=(foreign,)))
    foreign.computation.set_root(foreign)
    rejected(module, "instruction_control")


def test_instruction_shape(module):
    find(module, "root").shape = Shape(F32, (5,))
    rejected(module, "instruction_shape", "f32[5]", "f32[4]")


def test_layouts_may_differ():
    verify(parse_hlo("ENTRY e { x = f32[2,3]{0,1} parameter(0) ROOT r = f32[2,3]{1,0} negate(x) }"))


BAD = {
    "while_called": """
      c { p = f32[] parameter(0) ROOT r = f32[] negate(p) }
      ENTRY e { x = f32[] parameter(0) ROOT w = f32[] while(x), condition=c, body=c }""",
    "conditional_called": """
      t { p = f32[] parameter(0) ROOT r = f32[] negate(p) }
      f { p = f32[] parameter(0) ROOT r = pred[] is-finite(p) }
      ENTRY e { p = pred[] parameter(0) x = f32[] parameter(1)
        ROOT w = f32[] conditional(p, x, x), true_computation=t, false_computation=f }""",
    "reduce_called": """
      a { p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(p, q) }
      ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0},
      to_apply=a }""",
    "fusion_called": """
      f { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }
      ENTRY e { x = f32[3] parameter(0) ROOT r = f32[3] fusion(x), kind=kLoop, calls=f }""",
    "sort_called": """
      c { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
      ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] sort(x), dimensions={0}, to_apply=c }""",
    "map_called": """
      c { p = f32[] parameter(0) ROOT r = f32[] negate(p) }
      ENTRY e { x = f64[4] parameter(0) ROOT r = f32[4] map(x), dimensions={0}, to_apply=c }""",
}


@pytest.mark.parametrize("label", sorted(BAD))
def test_called_computations_must_fit(label):
    rejected(parse_hlo(BAD[label]), label)


def chain(length: int) -> Module:
    module = Module("chain")
    entry = module.add_computation("e", entry=True)
    x, y = (entry.add(hlo.Parameter(VECTOR, n)) for n in range(2))
    ops = (hlo.Add(), hlo.Multiply(), hlo.Maximum())
    for k in range(length):
        x, y = y, entry.add(ops[k % 3], (x, y))
    entry.set_root(y)
    return module


def test_work_is_linear_in_the_size():
    small, large = (chain(n) for n in (1_000, 8_000))
    few, many = calls(lambda: verify(small)), calls(lambda: verify(large))
    assert many < 10 * few  # eight times the size; quadratic work would be 64 times
