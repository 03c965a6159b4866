"""The pipelines as data: names, order, documentation, and that optional passes are optional."""

from pathlib import Path

import pytest

from axla.core import flags
from axla.passes import driver, pipelines
from axla.passes.rewrite import RULES, rules_by_name
from axla.passes.steps import flat
from axla.target.machine import cpu_target
from axla.text.parser import parse_hlo
from hlo_tests import same_values, sections_of

HLO = Path(__file__).parents[1] / "hlo"

PROGRAM = """HloModule program
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
twice { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }
cond { p = (s32[], f32[4], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(one, i) x = f32[4] get-tuple-element(p), index=1 y = f32[4] call(x), to_apply=twice
  c = f32[] get-tuple-element(p), index=2 ROOT t = (s32[], f32[4], f32[]) tuple(j, y, c) }
ENTRY e { x = f32[4,4] parameter(0) z = f32[] constant(0) i = s32[] constant(0)
  t = f32[4,4] transpose(x), dimensions={1,0}
  s = f32[4] reduce(t, z), dimensions={0}, to_apply=add
  init = (s32[], f32[4], f32[]) tuple(i, s, z)
  w = (s32[], f32[4], f32[]) while(init), condition=cond, body=body
  v = f32[4] get-tuple-element(w), index=1 u = f32[4] get-tuple-element(w), index=1
  ROOT r = f32[4] multiply(u, v) }
"""


def test_every_pass_has_a_name_and_a_contract():
    for name, step in pipelines.PASSES.items():
        assert step.name == name
        assert (step.function.__doc__ or "").strip(), f"pass {name} does not say what it establishes"


def test_pipelines_use_known_passes():
    for steps in pipelines.PIPELINES.values():
        for _, step in flat(steps):
            assert pipelines.PASSES[step.name].function is step.function


@pytest.mark.parametrize("name", pipelines.PIPELINES)
def test_order(name):
    passes = [step.name for _, step in flat(pipelines.PIPELINES[name])]
    for earlier, later, why in pipelines.ORDER:
        if earlier.name in passes and later.name in passes:
            last = len(passes) - 1 - passes[::-1].index(later.name)
            assert passes.index(earlier.name) < last, f"{earlier.name} before {later.name}: {why}"


def test_reasons_of_the_order_are_about_the_cpu_pipeline():
    passes = [step.name for _, step in flat(pipelines.CPU)]
    for earlier, later, why in pipelines.ORDER:
        assert earlier.name in passes and later.name in passes and why


def test_every_rule_states_its_equation_and_has_a_test():
    tested = {section.name for path in HLO.rglob("*.hlo") for section in sections_of(path)}
    for name, rule in rules_by_name().items():
        assert "=>" in rule.equation, f"{name} does not begin with its equation: {rule.equation!r}"
        assert name in tested, f"no section of tests/hlo tests the rule {name}"


def test_there_are_many_rules_and_no_name_stands_for_two():
    functions = {}
    for table in RULES.values():
        for rules in table.values():
            for rule in rules:
                assert functions.setdefault(rule.name, rule.function) is rule.function
    assert len({r.name for rules in RULES["algsimp"].values() for r in rules}) >= 40


OPTIONAL = sorted({step.name for _, step in flat(pipelines.CPU) if not step.required})


@pytest.mark.parametrize("name", OPTIONAL)
def test_each_optional_pass_is_optional(name):
    before, module = parse_hlo(PROGRAM), parse_hlo(PROGRAM)
    with flags.override(disable_hlo_passes=(name,), verify=True):
        driver.run(module, pipelines.CPU, cpu_target(), name="cpu")
    same_values(before, module, 7, ulps=16)


def test_whole_pipeline_keeps_values():
    for seed in range(5):
        before, module = parse_hlo(PROGRAM), parse_hlo(PROGRAM)
        with flags.override(shuffle=seed, verify=True):
            driver.run(module, pipelines.CPU, cpu_target(), name="cpu")
        same_values(before, module, seed, ulps=16)
