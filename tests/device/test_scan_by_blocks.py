"""Scans by blocks of threads, as PTX and as work-groups of OpenCL: windows over all before each element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices_of_blocks import same

import axla
from axla.codegen.host import host_target
from axla.core.dtypes import BY_NAME
from axla.device.compiler import reasons
from axla.device.spaces import with_transfers
from axla.kernels.scan import ScanPlan
from axla.lowering.pipeline import optimize, program_of
from axla.target.nvptx import nvptx_target
from axla.target.spirv import spirv_cpu_target, spirv_target
from opencl_device import needs_opencl
from scan_programs import scan_text

EXACT = [  # type, sizes, dimension, combiner, initial value, from the end
    ("s32", (1, 64), 1, "add", "0", False),
    ("s32", (5, 1000), 1, "add", "7", True),
    ("s32", (64, 5), 0, "multiply", "1", True),
    ("s32", (3, 100, 70), 1, "minimum", "50", False),
    ("u8", (3, 64, 1, 2), 1, "add", "0", True),
    ("pred", (300, 20), 0, "or", "false", False),
    ("pred", (2, 64), 1, "and", "true", True),
    ("f32", (1000, 2), 0, "maximum", "-inf", False),
    ("f32", (5, 64), 1, "minimum", "inf", True),
    ("bf16", (2, 64, 33), 1, "maximum", "-inf", True),
    ("f64", (64, 5), 0, "maximum", "-inf", False),
    ("s64", (3, 80, 2), 1, "xor", "0", True),
]
NEAR = [  # and how far results may be from the interpreter's, which rounds each of its steps
    ("f32", (5, 1000), 1, "add", "0", False, 1e-4),
    ("f64", (1000, 1), 0, "add", "0.5", True, 1e-11),
    ("bf16", (64, 65), 0, "add", "0", False, 0.1),
]
LONG = [((5000,), 0, False), ((5000, 2), 0, True), ((40961,), 0, True)]
SAME = """HloModule m
step { x = %(slice)s parameter(0)
  c = %(slice)s parameter(1)
  t = %(slice)s add(x, c)
  ROOT r = (%(slice)s, %(slice)s) tuple(t, t) }
ENTRY e { x = s32[%(sizes)s] parameter(0)
  c = %(slice)s parameter(1)
  ROOT s = (s32[%(sizes)s], %(slice)s) scan(x, c), dimensions={%(at)d}, num_carries=1,
    is_reverse=%(reverse)s, is_associative=true, to_apply=step }"""


def drawn(kind, dims) -> np.ndarray:
    """Small numbers; of floats some NaN, and zeros of both signs."""
    rng, dtype = np.random.default_rng(0), BY_NAME[kind].numpy
    if kind == "pred":
        return rng.random(dims) > 0.5
    if not BY_NAME[kind].is_float:
        return rng.integers(0 if kind == "u8" else -9, 99, dims).astype(dtype)
    x = rng.standard_normal(dims)
    x.reshape(-1)[::3] *= 0.0
    x.reshape(-1)[47::131] = np.nan
    return x.astype(dtype)


def both(client, text, x) -> list[np.ndarray]:
    """The results of the device and of the interpreter."""
    programs = client.compile(axla.parse(text)), axla.compile(axla.parse(text), backend="interpreter")
    return [np.asarray(program.execute([x])[0]) for program in programs]


def plans(text, target) -> list[type]:
    module = axla.parse(text)
    optimize(module, target)
    return [type(kernel.plan) for kernel in program_of(module, target).kernels]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: "-".join(map(str, case)))
def test_scans_as_the_interpreter(client, case):
    text = scan_text(*case)
    assert plans(text, nvptx_target()) == [ScanPlan]
    found, wanted = both(client, text, drawn(*case[:2]))
    missing = wanted != wanted
    np.testing.assert_array_equal(found != found, missing)  # bits of NaN are the machine's
    assert found[~missing].tobytes() == wanted[~missing].tobytes()


def test_zeros_keep_their_sign(client):
    """-0.0 + -0.0 is -0.0, from the initial value to the end of a line of several tiles."""
    text = scan_text("f32", (5000,), 0, "add", "-0", False)
    x = np.full(5000, -0.0, np.float32)
    found = np.asarray(client.compile(axla.parse(text)).execute([x])[0])
    assert not found.any() and np.signbit(found).all()
    text = text.replace("constant(-0)", "constant(0)")
    assert not np.signbit(np.asarray(client.compile(axla.parse(text)).execute([x])[0])).any()


@pytest.mark.parametrize("case", NEAR, ids=lambda case: "-".join(map(str, case)))
def test_sums_of_floats(client, case):
    *case, away = case
    found, wanted = both(client, scan_text(*case), drawn(*case[:2]))
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=away, atol=away)


@pytest.mark.parametrize(("dims", "at", "reverse"), LONG)
def test_long_lines_in_pieces(client, dims, at, reverse):
    """Of few lines; work before and behind the scan is in the same kernel."""
    text = scan_text("s32", dims, at, "add", "3", reverse, before="negate(p)", behind="multiply(s, p)")
    x = drawn("s32", dims)
    program = client.compile(axla.parse(text))
    found = np.asarray(program.execute([x])[0])
    turned = np.flip(-x, at) if reverse else -x
    sums = 3 + np.cumsum(turned, at, dtype=np.int32)
    np.testing.assert_array_equal(found, (np.flip(sums, at) if reverse else sums) * x)
    assert found.tobytes() == np.asarray(program.execute([x])[0]).tobytes()


def test_how_lines_are_cut():
    """Few long lines have pieces, and three launches; others one. What is near a scan is in its kernel."""

    def launches(dims, at, target):
        module = axla.parse(scan_text("f32", dims, at, "add", "0", False, "negate(p)", "multiply(s, p)"))
        optimize(module, target)
        [kernel] = program_of(module, target).kernels
        assert isinstance(kernel.plan, ScanPlan)
        return [phase.count for phase in kernel.plan.phases]

    assert launches((4096, 1024), 1, nvptx_target()) == [2048]
    assert launches((1 << 22,), 0, nvptx_target()) == [1024, 1, 1024]
    assert len(launches((40961,), 0, nvptx_target())) == len(launches((5000,), 0, spirv_target())) == 3


@pytest.mark.parametrize(("dims", "at", "reverse"), [((40000,), 0, True), ((300, 5), 0, False)])
def test_scans_that_the_host_runs(dims, at, reverse):
    """A device without doubles leaves them to the host, where they are not loops over windows."""
    target = replace(spirv_target(), has_double=False)
    text = scan_text("f64", dims, at, "add", "3", reverse, before="negate(p)", behind="multiply(s, p)")
    module = axla.parse(text)
    optimize(module, target)
    program = program_of(module, target)
    hosted, _ = with_transfers(program, reasons(program, target), host_target())
    assert [type(kernel.plan) for kernel in hosted.kernels] == [ScanPlan]


@pytest.mark.parametrize("groups", [pytest.param(None, marks=needs_opencl)], indirect=True)
def test_scans_of_doubles_without_doubles(groups, monkeypatch):
    driver = groups.compile(axla.parse(scan_text("f32", (9,), 0, "add", "0", False))).driver
    monkeypatch.setattr(driver, "target", replace(driver.target, has_double=False))
    text = scan_text("f64", (9000, 2), 0, "add", "3", True, before="negate(p)", behind="multiply(s, p)")
    x = np.random.default_rng(0).integers(-9, 9, (9000, 2)).astype(np.float64)
    program = groups.compile(axla.parse(text))
    assert program.host_steps
    sums = 3 + np.flip(np.cumsum(np.flip(-x, 0), 0), 0)
    np.testing.assert_array_equal(np.asarray(program.execute([x])[0]), sums * x)


def test_without_local_memory_scans_are_doubling():
    assert ScanPlan not in plans(scan_text("f32", (5, 1000), 1, "add", "0", False), spirv_cpu_target(8))


@pytest.mark.parametrize(("dims", "at", "reverse"), [((3, 70), 1, True), ((70,), 0, False)])
def test_associative_scans_are_the_same_kernel(client, dims, at, reverse):
    lines = (*dims[:at], *dims[at + 1 :])
    sizes, slices = (",".join(map(str, d)) for d in (dims, lines))
    text = SAME % {"slice": f"s32[{slices}]", "sizes": sizes, "at": at, "reverse": str(reverse).lower()}
    assert ScanPlan in plans(text, nvptx_target())
    assert ScanPlan not in plans(text.replace("is_associative=true", "is_associative=false"), nvptx_target())
    same(client, text, [drawn("s32", dims), drawn("s32", lines)])


@pytest.mark.parametrize("kind", ["f32", "c64"])
def test_associative_scans_keep_the_sign_of_zeros(client, kind):
    text = SAME.replace("s32", kind) % {"slice": f"{kind}[1]", "sizes": "1,70", "at": 1, "reverse": "false"}
    assert ScanPlan in plans(text, nvptx_target())
    zeros = np.full((1, 70), -0.0 if kind == "f32" else complex(-0.0, -0.0), BY_NAME[kind].numpy)
    same(client, text, [zeros, zeros[:, 0]])


def test_scans_with_more_outputs_are_loops(client):
    text = SAME % {"slice": "s32[3]", "sizes": "3,20", "at": 1, "reverse": "false"}
    text = text.replace("tuple(t, t)", "tuple(t, x, t)").replace(
        "(s32[3], s32[3])", "(s32[3], s32[3], s32[3])"
    )
    text = text.replace("(s32[3,20], s32[3])", "(s32[3,20], s32[3,20], s32[3])")
    assert ScanPlan not in plans(text, nvptx_target())
    same(client, text, [drawn("s32", (3, 20)), drawn("s32", (3,))])
