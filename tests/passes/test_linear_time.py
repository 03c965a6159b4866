"""Passes from dots to buffers do work in proportion to the module."""

import random

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
