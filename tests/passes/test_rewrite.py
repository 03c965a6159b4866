"""The rewrite driver: the laws of rules, and that it is linear."""

import pytest

from axla.core import flags
from axla.core.dtypes import F32
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.hlo import Abs, Add, Dot, Exponential, Negate, Tanh
from axla.ir.graph import Module
from axla.ir.structure import Constant, Parameter, Tuple
from axla.passes import driver, pipelines
from axla.passes.rewrite import RULES, Rule, RuleSession, rewrite, rule_session
from axla.target.machine import cpu_target
from axla.text.parser import parse_hlo
from hlo_tests import same_values
from work import calls


def module_of(*ops):
    """A module applying unary ops one after the other."""
    module = Module("m")
    entry = module.add_computation("e", entry=True)
    value = entry.add(Parameter(Shape(F32, (2,)), 0), name="x")
    for op in ops:
        value = op()(value)
    entry.set_root(value)
    return module


def apply(module, function, on=Negate, **session_changes):
    with rule_session(RuleSession(**session_changes)):
        rewrite(module, {on: (Rule(function.__name__, function, ""),)})
    return [i.opcode for i in module.entry.instructions]


def test_replacement_may_use_the_replaced():
    done = []

    def once(root, *_):
        if done:
            return None
        done.append(root)
        return Abs()(Negate()(root))

    assert apply(module_of(Negate), once) == ["parameter", "negate", "negate", "abs"]


def test_a_rule_is_asked_where_its_operand_and_the_root_are_as_it_says():
    def only_operand(root, inner):
        return inner.operands[0]

    def tried(*ops, **matches):
        module = module_of(*ops)
        with rule_session(RuleSession()):
            rewrite(module, {Negate: (Rule("only_operand", only_operand, "", **matches),)})
        return [i.opcode for i in module.entry.instructions]

    assert tried(Negate, Negate, of=Negate) == ["parameter"]
    assert tried(Abs, Negate, of=Negate) == ["parameter", "abs", "negate"]
    assert tried(Negate, Negate, of=Negate, where=lambda root: root.users) == [
        "parameter",
        "negate",
        "negate",
    ]
    assert tried(Tanh, Negate, where=lambda root: not root.users) == ["parameter"]


def test_leftovers_are_swept():
    def wasteful(root, *_):
        Exponential()(root.operands[0])
        return Abs()(root.operands[0])

    assert apply(module_of(Negate), wasteful) == ["parameter", "abs"]


def test_what_only_the_replaced_used_is_swept():
    assert apply(
        module_of(Tanh, Exponential, Negate), lambda root, *_: root.operands[0].operands[0].operands[0]
    ) == ["parameter"]


def test_building_and_giving_nothing():
    def idle(root, *_):
        Exponential()(root.operands[0])

    assert apply(module_of(Negate), idle) == ["parameter", "negate"]
    with pytest.raises(InternalError, match="rule idle built instructions"):
        apply(module_of(Negate), idle, strict=True)


def test_wrong_shape_names_the_rule():
    def wrong(root, *_):
        return root.computation.add(Constant.of(1.0, F32))

    with pytest.raises(InternalError, match="rule wrong: .*shapes differ"):
        apply(module_of(Negate), wrong)


def test_endless_rules_are_stopped_and_named():
    def forever(root, *_):
        return Negate()(root.operands[0])

    with pytest.raises(InternalError, match="does not end; the last rules: forever, forever"):
        apply(module_of(Negate), forever)


def test_location_and_attributes_go_to_the_replacement():
    text = """ENTRY e {
      x = f32[] parameter(0)
      n = f32[] negate(x)
      y = f32[] parameter(1)
      ROOT r = f32[] add(y, n), frontend_attributes={k="v"},
        metadata={op_name="f/add" source_file="a.py" source_line=3}
    }"""
    module = parse_hlo(text)
    driver.run(module, [pipelines.algsimp])
    root = module.entry.root
    assert root.opcode == "subtract"
    assert root.extra.location.op_name == "f/add" and root.extra.frontend_attributes == (("k", "v"),)


def test_instructions_with_control_edges_stay():
    text = """ENTRY e {
      x = f32[] parameter(0)
      a = f32[] negate(x)
      b = f32[] negate(a), control-predecessors={a}
      ROOT c = f32[] negate(b)
    }"""
    module = parse_hlo(text)
    driver.run(module, [pipelines.algsimp])
    # The root may look through them; they themselves stay.
    assert module.entry.root.name == "a"
    assert [i.name for i in module.entry.instructions] == ["x", "a", "b"]


def test_layouts_are_kept_when_asked_and_for_the_root():
    text = """ENTRY e {
      x = f32[2,3]{1,0} parameter(0)
      a = f32[2,3]{0,1} negate(x)
      b = f32[2,3]{1,0} negate(a)
      c = f32[2,3]{0,1} reshape(b)
      ROOT r = f32[2,3]{1,0} exponential(c)
    }"""
    loose, strict = parse_hlo(text), parse_hlo(text)
    driver.run(loose, [pipelines.algsimp])
    driver.run(strict, [pipelines.algsimp(is_layout_sensitive=True)])
    assert [i.opcode for i in loose.entry.instructions] == ["parameter", "exponential"]
    assert "reshape" in strict.to_string()
    root = parse_hlo("ENTRY e { x = f32[2,3]{1,0} parameter(0) ROOT a = f32[2,3]{0,1} reshape(x) }")
    driver.run(root, [pipelines.algsimp])
    assert root.entry.root.opcode == "reshape"


def test_dynamic_sizes_are_left_alone():
    text = """ENTRY e {
      x = f32[<=4] parameter(0)
      z = f32[] constant(-0)
      b = f32[<=4] broadcast(z), dimensions={}
      ROOT r = f32[<=4] add(x, b)
    }"""
    module = parse_hlo(text)
    driver.run(module, [pipelines.algsimp])
    assert module.entry.root.opcode == "add"


def test_rules_do_not_fire_on_dead_code():
    module = module_of(Negate)
    module.entry.add(Negate(), (module.entry.root,))
    version = module.version
    apply(module, lambda root, *_: root.operands[0] if root.operands[0].opcode == "negate" else None)
    assert module.version == version


# Speed


def big_module(size):
    """Elementwise chains and dots, with work for many rules."""
    module = Module("big")
    entry = module.add_computation("e", entry=True)
    shape = Shape(F32, (8, 8))
    x = entry.add(Parameter(shape, 0), name="x")
    y = entry.add(Parameter(shape, 1), name="y")
    values = [x, y]
    for k in range(size // 5):
        a = Add()(values[-1], values[-2])
        b = Negate()(Negate()(a)) if k % 3 == 0 else Tanh()(Exponential()(a))
        c = entry.add(
            Dot.of(shape, shape, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,)),
            (b, values[k % len(values)]),
        )
        values = [*values[-20:], Abs()(c)]
    entry.set_root(values[-1])
    return module


def simplify(module):
    with flags.override(verify=False):
        driver.run(module, (*pipelines.IMPORT, *pipelines.SIMPLIFY, *pipelines.LOWER), cpu_target())


def test_simplification_is_linear_in_the_size():
    small, large = big_module(1_000), big_module(4_000)
    few, many = calls(lambda: simplify(small)), calls(lambda: simplify(large))
    assert many < 6 * few, f"{few} and {many} calls"


def test_deep_modules_do_not_recurse():
    module = module_of(*[Tanh] * 20_000)
    with flags.override(verify=False):
        driver.run(module, pipelines.SIMPLIFY)
    assert len(module.entry.instructions) == 20_001


def wide_tuple(count):
    module = Module("wide")
    entry = module.add_computation("e", entry=True)
    x = entry.add(Parameter(Shape(F32, (2,)), 0), name="x")
    parts = [Exponential()(Negate()(Negate()(x))) for _ in range(count)]
    entry.set_root(entry.add(Tuple(), parts))
    return module


def test_wide_tuples_are_not_quadratic():
    small, large = wide_tuple(500), wide_tuple(2_000)
    few, many = calls(lambda: simplify(small)), calls(lambda: simplify(large))
    assert many < 6 * few, f"{few} and {many} calls"
    assert len(large.entry.instructions) == 3


def test_every_group_of_rules_belongs_to_a_pass():
    assert set(RULES) <= set(pipelines.PASSES)


def test_simplification_keeps_values():
    before = module_of(Negate, Negate, Tanh)
    after = module_of(Negate, Negate, Tanh)
    driver.run(after, pipelines.SIMPLIFY)
    assert [i.opcode for i in after.entry.instructions] == ["parameter", "tanh"]
    same_values(before, after, 3)
