"""Passes and rules of users have a place in the pipeline, and programs with them are not cached."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core import flags
from axla.cpu.programs import program_key
from axla.hlo.elementwise import Abs, Add
from axla.hlo.transcendental import Sine
from axla.passes import added, rewrite
from axla.passes.pipelines import CPU
from axla.passes.steps import Fixpoint, flat

TEXT = "HloModule m\nENTRY e { p = f32[4] parameter(0)\n ROOT r = f32[4] sine(p) }"


def sines_away(module):
    """Puts absolute values in the place of sines."""
    for computation in module.computations:
        for inst in list(computation.instructions):
            if isinstance(inst.op, Sine):
                computation.set_op(inst, Abs())


@pytest.fixture(autouse=True)
def nothing_stays():
    foreign, rules = list(rewrite.FOREIGN), set(rewrite.RULES)
    yield
    for one in list(added.ADDED):
        added.remove_pass(one.step.name)
    rewrite.FOREIGN[:] = foreign
    for group in set(rewrite.RULES) - rules:
        del rewrite.RULES[group]


def names():
    return [step.name for _, step in flat(added.pipeline())]


def test_a_pass_runs_at_its_place():
    before = names()
    added.add_pass(sines_away, before="fusion")
    assert names() == [*before[: before.index("fusion")], "sines-away", *before[before.index("fusion") :]]
    x = np.array([-1, 2, -3, 4], np.float32)
    np.testing.assert_array_equal(axla.compile(axla.parse(TEXT))(x), np.abs(x))
    added.remove_pass("sines-away")
    assert added.pipeline() == CPU
    np.testing.assert_allclose(axla.compile(axla.parse(TEXT))(x), np.sin(x), rtol=1e-6)


def test_a_pass_joins_the_group_that_repeats():
    added.add_pass(sines_away, after="simplify-sorts", name="mine")
    [group] = [step for step in added.pipeline() if isinstance(step, Fixpoint)]
    found = [p.name for p in group.passes]
    assert found[found.index("simplify-sorts") + 1] == "mine"


def test_rules_of_a_group_are_a_pass():
    @rewrite.rule(Sine, group="own-rules")
    def doubled(root, x):
        """sin(x) => x + x"""
        return Add()(x, x)

    added.add_rules("own-rules", before="algsimp")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(axla.compile(axla.parse(TEXT))(x), x + x)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "wanted before= or after="), ({"before": "a", "after": "b"}, "wanted before= or after="),
        ({"before": "fussion"}, "did you mean fusion"), ({"before": "cse", "name": "dce"}, "already"),
    ],
)  # fmt: skip
def test_places_that_are_not_there(arguments, message):
    with pytest.raises(axla.InvalidArgument, match=message):
        added.add_pass(sines_away, **arguments)
    assert not added.ADDED


def test_what_was_not_added_is_not_removed():
    with pytest.raises(axla.InvalidArgument, match="was not added"):
        added.remove_pass("cse")
    with pytest.raises(axla.InvalidArgument, match="no rules are in the group"):
        added.add_rules("nothing", before="cse")


def test_programs_with_own_passes_and_rules_have_no_key(monkeypatch):
    module, target = axla.parse(TEXT), host_target()
    rewrite.FOREIGN.clear()
    with flags.override(verify=False, shuffle=None, fuel=None, timings=False, dump_to="", trace=""):
        assert program_key(module, target) is not None
        added.add_pass(sines_away, before="cse")
        assert program_key(module, target) is None
        added.remove_pass("sines-away")

        @rewrite.rule(Sine, group="unused")
        def doubled(root, x):
            """sin(x) => x + x"""
            return Add()(x, x)

        assert program_key(module, target) is not None
        monkeypatch.setitem(rewrite.RULES, "algsimp", dict(rewrite.RULES["algsimp"]))
        rewrite.rule(Sine)(doubled)
        assert program_key(module, target) is None


def test_an_installed_package_adds_passes(monkeypatch):
    class Entry:
        name, value = "package", "package:add"

        def load(self):
            return lambda: added.add_pass(sines_away, before="dce")

    monkeypatch.setattr(added.plugins, "installed", lambda group: {"package": Entry()})
    monkeypatch.setattr(added, "_called", set())
    assert "sines-away" in names() and names().count("sines-away") == 1


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch):
    class Entry:
        name, value = "broken", "broken:add"

        def load(self):
            raise ImportError("no such thing")

    monkeypatch.setattr(added.plugins, "installed", lambda group: {"broken": Entry()})
    monkeypatch.setattr(added, "_called", set())
    assert program_key(axla.parse(TEXT), host_target()) is None
    for _ in range(2):  # it stays an error
        with pytest.raises(axla.UnsupportedError, match="the passes 'broken' of broken:add cannot be loaded"):
            added.pipeline()
