"""Passes from dots to buffers take time in proportion to the module."""

import random
import time

from axla.analysis.buffers import assign_buffers
from axla.core import flags
from axla.passes import driver, pipelines
from axla.text.parser import parse_hlo

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


def seconds(count, near):
    module = parse_hlo(text_of(count, near))
    with flags.override(verify=False):
        start = time.process_time()
        driver.run(module, (*pipelines.LOWER, *pipelines.KERNELS), name="test")
        assign_buffers(module)
        return time.process_time() - start


def test_four_times_the_module_takes_about_four_times_as_long():
    for near in (8, 200):
        small, large = seconds(2_500, near), seconds(10_000, near)
        assert large < 8 * small + 0.5, f"{small:.2f} s and {large:.2f} s"
        assert large < 6, f"{large:.2f} s"  # under 1 s on a quiet machine


def test_one_value_that_everything_reads():
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = [
        f"  a{n} = {SHAPE} add(x, s{n // 3})\n  s{n} = {SHAPE} dot(a{n}, x), {dims}" for n in range(1, 1500)
    ]
    text = "\n".join(
        [
            "ENTRY e {",
            f"  x = {SHAPE} parameter(0)",
            f"  s0 = {SHAPE} negate(x)",
            *lines,
            f"  ROOT r = {SHAPE} negate(s1499)",
            "}",
        ]
    )
    module = parse_hlo(text)
    with flags.override(verify=False):
        start = time.process_time()
        driver.run(module, pipelines.KERNELS, name="test")
        assign_buffers(module)
        assert time.process_time() - start < 6
