"""Passes from dots to buffers do work in proportion to the module."""

import random

import pytest

from axla.analysis.buffers import assign_buffers
from axla.core import flags
from axla.passes import driver, pipelines
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo
from work import calls

SHAPE = "f32[64,64]"


def text_of(count, near):
    """Elementwise ops and dots, each reading two of the `near` values before it."""
    generator = random.Random(0)
    lines = [f"  v{n} = {SHAPE} parameter({n})" for n in range(2)]
    for n in range(2, count):
        x, y = (generator.randrange(max(0, n - near), n) for _ in range(2))
        kind = generator.random()
        if kind < 0.1:
            lines.append(
                f"  v{n} = {SHAPE} dot(v{x}, v{y}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            )
        else:
            lines.append(f"  v{n} = {SHAPE} " + (f"add(v{x}, v{y})" if kind < 0.6 else f"tanh(v{x})"))
    return "\n".join(["ENTRY e {", *lines, f"  ROOT r = {SHAPE} negate(v{count - 1})", "}"])


def lower(module):
    with flags.override(verify=False):
        driver.run(module, (*pipelines.LOWER, *pipelines.KERNELS), cpu_target(), name="test")
        assign_buffers(module, Limits())


def work(count, near):
    module = parse_hlo(text_of(count, near))
    return calls(lambda: lower(module))


def test_three_times_the_module_is_about_three_times_the_work():
    for near in (8, 200):
        small, large = work(3_000, near), work(9_000, near)
        assert large < 4.5 * small, f"{small} and {large} calls"


def read_by(count):
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = [
        f"  a{n} = {SHAPE} add(x, s{n // 3})\n  s{n} = {SHAPE} dot(a{n}, x), {dims}" for n in range(1, count)
    ]
    text = "\n".join(
        [
            "ENTRY e {",
            f"  x = {SHAPE} parameter(0)",
            f"  s0 = {SHAPE} negate(x)",
            *lines,
            f"  ROOT r = {SHAPE} negate(s{count - 1})",
            "}",
        ]
    )
    return parse_hlo(text)


def test_one_value_that_everything_reads():
    small, large = (read_by(count) for count in (400, 1600))
    few, many = calls(lambda: lower(small)), calls(lambda: lower(large))
    assert many < 6 * few, f"{few} and {many} calls"


CONTROL = """HloModule m
c { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(9)  ROOT l = pred[] compare(i, n), direction=LT }
b { p = (s32[], f32[4], f32[4]) parameter(0)  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1  y = f32[4] get-tuple-element(p), index=2
  one = s32[] constant(1)  j = s32[] add(i, one)  u = f32[4] sine(x)  v = f32[4] sine(y)
  ROOT t = (s32[], f32[4], f32[4]) tuple(j, u, v) }
yes { p = (f32[4]) parameter(0)  x = f32[4] get-tuple-element(p), index=0  ROOT r = f32[4] sine(x) }
no { p = (f32[4]) parameter(0)  x = f32[4] get-tuple-element(p), index=0  ROOT r = f32[4] cosine(x) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  i = s32[] parameter(2)  j = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
STEP = """  a{n} = f32[4] tanh(x{n})
  s{n} = (s32[], f32[4], f32[4]) tuple(i, a{n}, a{n})
  w{n} = (s32[], f32[4], f32[4]) while(s{n}), condition=c, body=b
  e{n} = f32[4] get-tuple-element(w{n}), index=1
  f{n} = f32[4] get-tuple-element(w{n}), index=2
  g{n} = f32[4] add(e{n}, f{n})
  t{n} = (f32[4]) tuple(g{n})
  u{n} = (f32[4]) tuple(e{n})
  d{n} = f32[4] conditional(q, t{n}, u{n}), true_computation=yes, false_computation=no
  o{n} = (f32[4], s32[4]) sort(d{n}, k), dimensions={{0}}, to_apply=less
  h{n} = f32[4] get-tuple-element(o{n}), index=0
  v{n} = f32[1,4] reshape(h{n})
  m{n} = f32[1,64] dot(v{n}, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z{n} = f32[4] slice(r{n}), slice={{[0:4]}}
  x{m} = f32[4] add(h{n}, z{n})"""


def control(count):
    """Loops, branches, sorts and products, each after the one before."""
    first = "ENTRY e { x0 = f32[4] parameter(0)  y = f32[4,64] parameter(1)  q = pred[] parameter(2)"
    more = "  k = s32[4] parameter(3)  i = s32[] parameter(4)"
    flat = "  r{n} = f32[64] reshape(m{n})"
    lines = []
    for n in range(count):
        text = STEP.format(n=n, m=n + 1).split("\n")
        lines += [*text[:13], flat.format(n=n), *text[13:]]
    return parse_hlo("\n".join([CONTROL, first, more, *lines, f"  ROOT end = f32[4] negate(x{count})", "}"]))


STRUCTURE = (
    "while-loop-simplifier", "while-loop-fusible-sinking", "while-loop-unroller", "conditional-simplifier",
    "conditional-to-select", "conditional-code-motion", "simplify-sorts", "computation-deduplicator",
    "dot-merger", "constant-folding", "cse",
)  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURE)
def test_passes_that_look_at_loops_and_branches(name):
    step = (pipelines.PASSES[name],)

    def run(module):
        with flags.override(verify=False):
            driver.run(module, step, cpu_target(), name="test")

    small, large = (control(count) for count in (200, 600))
    assert sum(len(c.instructions) for c in large.computations) > 9_000
    few, many = calls(lambda: run(small)), calls(lambda: run(large))
    assert many < 4 * few + 1000, f"{few} and {many} calls"
