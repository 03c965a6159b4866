"""`axla bisect` names what is wrong: faults are planted by files that the child process loads."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import axla
from axla.tools import main as command
from axla.tools.apart import Apart, Ended
from axla.tools.bisect import Verdict, bisect
from axla.tools.trial import Outcome, Question, Trials

PROGRAM = """HloModule suspect
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[40,30] parameter(0)
  y = f32[40,30] parameter(1)
  one = f32[] constant(1)
  ones = f32[40,30] broadcast(one), dimensions={}
  a = f32[40,30] multiply(x, ones)
  b = f32[40,30] negate(y)
  c = f32[40,30] negate(b)
  d = f32[40,30] subtract(a, c)
  t = f32[30,40] transpose(d), dimensions={1,0}
  m = f32[30,40] tanh(t)
  z = f32[] constant(0)
  ROOT r = f32[30] reduce(m, z), dimensions={1}, to_apply=sum
}
"""

RULE = """
from axla.hlo.elementwise import Add, Subtract
from axla.passes.rewrite import rule

@rule(Subtract)
def wrong_on_purpose(root, x, y):
    '''x - y => x + y'''
    return Add()(x, y)
"""
PASS = """
from axla.hlo.elementwise import Negate, Abs
from axla.passes.added import add_pass

def negations_to_absolutes(module):
    for computation in module.computations:
        for inst in list(computation.instructions):
            if inst.opcode == "tanh":
                computation.set_op(inst, Abs())

add_pass(negations_to_absolutes, after="cse")
"""
REQUIRED = PASS.replace('after="cse")', 'before="dot-canonicalize", required="a test")')
KERNEL = """
from axla.codegen.math import hyperbolic

hyperbolic._P = tuple(2 * c for c in hyperbolic._P)
"""
BROKEN = """
from axla.passes.simplify import cse as home
from axla.passes import pipelines

def broken(module):
    for computation in module.computations:
        for inst in computation.instructions:
            if inst.opcode == "tanh":
                raise ValueError("a bug")

object.__setattr__(pipelines.cse, "home", broken)
"""
STALE = """
from axla.cpu import programs

programs._constants = lambda module: "the same for all"
"""


@pytest.fixture
def verdict(tmp_path):
    def ask(planted: str, text: str = PROGRAM, **changes) -> Verdict:
        path = tmp_path / "planted.py"
        path.write_text(planted)
        with Trials(120.0, load=[str(path)]) as trials:
            return bisect(axla.parse(text), trials, Question(**changes))

    return ask


def test_a_rule_is_named_with_its_firing(verdict):
    found = verdict(RULE)
    assert (found.culprit, found.name, found.rule) == ("pass", "algsimp", "wrong_on_purpose")
    assert "subtract(" in found.instruction and found.outcome.kind == "differs"
    assert "-  %d = f32[40,30]{1,0} subtract(" in found.change and "add(" in found.change


def test_a_pass_without_rules_is_named(verdict):
    found = verdict(PASS)
    assert (found.culprit, found.name) == ("pass", "negations-to-absolutes")
    assert "tanh(" in found.change and "abs(" in found.change


def test_a_pass_that_always_runs_is_named(verdict):
    found = verdict(REQUIRED)
    assert (found.culprit, found.name) == ("pass", "negations-to-absolutes")


def test_a_pass_that_raises_is_named(verdict):
    found = verdict(BROKEN)
    assert (found.culprit, found.name) == ("pass", "cse")
    assert found.outcome.kind == "error" and "a bug" in found.outcome.text


def test_a_kernel_is_named_with_its_emitter(verdict):
    found = verdict(KERNEL)
    assert found.culprit == "kernel" and "kernel" in found.name
    assert "tanh(" in found.instruction
    assert found.emitter.startswith("axla.codegen.emit.")


FAR = """
from axla.codegen.index import Index
from axla.codegen.walk import Elements

Elements.start_index = lambda self, value, limit: Index(self.f, self.values.to_index(value), limit=limit + 1)
"""


def test_the_instruction_of_a_kernel_that_ends_the_process_is_named(verdict):
    text = """HloModule m
ENTRY e { x = f32[4096] parameter(0)
  i = s64[] parameter(1)
  y = f32[1024] parameter(2)
  m = f32[4096] negate(x)
  d = f32[1024] dynamic-slice(m, i), dynamic_slice_sizes={1024}
  ROOT r = f32[1024] add(y, d) }"""
    inputs = (
        ("x", np.ones(4096, np.float32)),
        ("i", np.asarray(-(1 << 40))),
        ("y", np.ones(1024, np.float32)),
    )
    found = verdict(FAR, text, inputs=inputs, kinds=("ordinary",))
    assert (found.culprit, found.outcome.kind) == ("kernel", "crash")
    assert "dynamic-slice(" in found.instruction
    assert "kernel" in found.name and found.emitter.startswith("axla.codegen.emit.")


OBJECTING = """
from axla.core.errors import VerifyError
from axla.program import verify

def objecting(program):
    raise VerifyError("the interface: an allocation of a parameter")

verify.verify_program = objecting
"""


def test_a_plan_that_the_verifier_objects_to_is_a_fault_where_results_are_right(verdict):
    found = verdict(OBJECTING)
    assert (found.culprit, found.name) == ("memory", "the interface: an allocation of a parameter")
    assert "by chance" in found.outcome.text


WRITABLE = """
from axla.analysis import coalesce as home

right = home._fix_memory

def writable(done):
    right(done)
    for place in done.places():
        place.writable = True

home._fix_memory = writable
"""


def test_an_argument_that_a_run_overwrites_is_a_fault_of_memory(verdict):
    text = """HloModule m
ENTRY main {
  x = f32[40] parameter(0)
  i = s32[] constant(3)
  u = f32[1] constant({7})
  ROOT r = f32[40] dynamic-update-slice(x, u, i)
}"""
    found = verdict(WRITABLE, text)
    assert found.culprit == "memory" and "argument" in found.outcome.text


OVERWRITING = """
from axla.analysis import coalesce as home

home._may_overwrite = lambda new, old: new.start == old.end
"""


def test_a_kernel_that_overwrites_what_it_still_reads_is_a_fault_of_memory(verdict):
    text = """HloModule m
body { s = (s32[], f32[64]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[64] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[64] reverse(x), dimensions={0}
 ROOT t = (s32[], f32[64]) tuple(j, y) }
cond { s = (s32[], f32[64]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(101)
 ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[64] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[64]) tuple(z, x)
  w = (s32[], f32[64]) while(init), condition=cond, body=body
  ROOT r = f32[64] get-tuple-element(w), index=1
}"""
    found = verdict(OVERWRITING, text)
    assert found.culprit == "memory" and "does not allow in_place" in found.name


def test_a_stale_entry_is_named(tmp_path):
    path = tmp_path / "planted.py"
    path.write_text(STALE)
    text = """HloModule m
ENTRY e {
  p = f32[24] parameter(0)
  c = f32[24] constant({1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,%d})
  ROOT r = f32[24] add(p, c)
}"""
    environment = {"AXLA_CACHE_DIR": str(tmp_path / "cache"), "AXLA_VERIFY": "0"}
    with Trials(120.0, environment, load=[str(path)]) as trials:
        assert trials.ask(text % 1, Question(caching=True)).kind == "agrees"
        found = bisect(axla.parse(text % 7), trials, Question())
    assert found.culprit == "cache" and "program" in found.name


FAULTY = """
from axla import backends
from axla.backends.cpu import CpuBackend
from axla.hlo.elementwise import Abs

class Faulty(CpuBackend):
    name = "faulty"

    def work(self, module, options):
        work = super().work(module, options)
        for computation in work.computations:
            for inst in list(computation.instructions):
                if inst.opcode == "tanh":
                    computation.set_op(inst, Abs())
        return work

backends.register("faulty", Faulty)
"""


def test_a_backend_that_alone_is_wrong_is_named(verdict):
    found = verdict(FAULTY, backend="faulty")
    assert (found.culprit, found.name) == ("runtime", "code for faulty, or its driver")
    assert any("on cpu it is right" in line for line in found.evidence)


def test_what_does_not_fail(verdict):
    found = verdict("")
    assert found.culprit == "none" and str(found).startswith("it does not fail")


def test_a_slow_program_is_told_what_takes_longest(verdict):
    found = verdict("", slower_than=0.0)
    assert found.outcome.kind == "slow" and found.culprit in ("kernel", "pass")


def test_the_command_says_it(tmp_path, capsys):
    program, load = tmp_path / "f.hlo", tmp_path / "wrong.py"
    program.write_text(PROGRAM)
    load.write_text(RULE)
    assert command.main(["bisect", str(program), "--load", str(load)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("pass: algsimp\n  rule: wrong_on_purpose, firing ")
    assert command.main(["bisect", str(program)]) == 0
    assert capsys.readouterr().out.startswith("it does not fail")


def divided(a, b):
    return a / b


def ends(code):
    import os

    os._exit(code)


def test_calls_in_a_child():
    with Apart(60.0) as apart:
        assert apart.call(divided, 6, 3) == 2
        with pytest.raises(ZeroDivisionError):
            apart.call(divided, 1, 0)
        with pytest.raises(Ended, match="exit status 3"):
            apart.call(ends, 3)
        assert apart.call(divided, np.float32(1), np.float32(2)) == 0.5


def damages():
    sys.modules["damaged"] = sys


def ends_if_damaged():
    if "damaged" in sys.modules:
        os.abort()
    return "right"


def test_a_call_that_a_damaged_child_does_not_survive_is_repeated_in_a_new_one():
    with Apart(60.0) as apart:
        apart.call(damages)
        assert apart.call(ends_if_damaged) == "right"


def test_a_file_that_cannot_be_loaded_is_an_error(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("raise ValueError('no')")
    with (
        Trials(60.0, load=[str(path)]) as trials,
        pytest.raises(axla.InvalidArgument, match="bad.py:1: Value"),
    ):
        trials.ask(PROGRAM, Question())


def test_time_is_asked_without_a_comparison(verdict):
    """A wrong result is not what `slower_than` asks for; the slowest step is named."""
    found = verdict(RULE, slower_than=0.0)
    assert found.outcome.kind == "slow" and not found.rule
    assert not found.name.startswith("machine")


def test_outcomes_are_alike_by_their_reason():
    one = Outcome("error", "x 1", "InternalError: N")
    assert one.is_like(Outcome("error", "x 2", "InternalError: N"))
    assert not one.is_like(Outcome("differs"))


PARTICIPANTS = """HloModule several, replica_count=2
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[12] parameter(0)
  s = f32[12] all-reduce(x), replica_groups={{0,1}}, to_apply=sum
  ROOT r = f32[12] sine(s)
}
"""


def test_every_piece_of_a_right_program_is_right():
    from axla.tools.pieces import piece_outcome, pieces_of

    for text in (PROGRAM, PARTICIPANTS):
        found = pieces_of(axla.parse(text).to_string(print_large_constants=True), Question())
        assert found and "all-reduce" in {p.opcode for p in found} or text is PROGRAM
        for piece in found:
            outcome, names = piece_outcome(piece, Question())
            assert outcome.kind == "agrees", f"{piece.name}: {outcome}"
            assert all(name.emitter for name in names)


def test_what_a_kernel_does_not_write_is_wrong(monkeypatch):
    """Also where it should be zero: whatever memory has there is no small number."""
    from axla.codegen.emit.transpose import _Transpose
    from axla.tools.pieces import piece_outcome, pieces_of

    text = """HloModule m
ENTRY e { x = f32[65,70] parameter(0)
 y = f32[65,70] negate(x)
 ROOT t = f32[70,65] transpose(y), dimensions={1,0} }"""
    question = Question(inputs=(("x", np.zeros((65, 70), np.float32)),))
    pieces = pieces_of(text, question)
    assert all(piece_outcome(piece, question)[0].kind == "agrees" for piece in pieces)
    monkeypatch.setattr(_Transpose, "singles", lambda *_: None)
    assert any(piece_outcome(piece, question)[0].kind == "differs" for piece in pieces)


def test_copies_everywhere_change_no_value():
    from axla.tools.pieces import copied_outcome

    loop = """HloModule m
cond { s = (s32[], f32[50]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(5)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[50]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = f32[50] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 u = f32[1] constant({7})
 y = f32[50] dynamic-update-slice(x, u, j)
 ROOT t = (s32[], f32[50]) tuple(j, y) }
ENTRY e {
  x = f32[50] parameter(0)
  z = s32[] constant(0)
  init = (s32[], f32[50]) tuple(z, x)
  w = (s32[], f32[50]) while(init), condition=cond, body=body
  ROOT r = f32[50] get-tuple-element(w), index=1
}"""
    assert copied_outcome(loop, Question()).kind == "agrees"
