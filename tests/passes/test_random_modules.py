"""Passes from fusion to buffers on random modules: the same values, and memory never overwritten early."""

from collections import Counter

import numpy as np
import pytest
from random_modules import branching, looping, straight

from axla.analysis import buffers, coalesce
from axla.analysis.buffers import assign_buffers
from axla.analysis.regions import is_tiny, is_tiny_store
from axla.core.errors import VerifyError
from axla.core.literal import Literal
from axla.hlo import Call, Conditional, Copy, CustomCall, Fusion, GetTupleElement, Parameter, Tuple, While
from axla.interpreter.evaluate import evaluate
from axla.ir.traverse import schedule_of
from axla.kernels.dot import DotKind
from axla.kernels.kinds import kernel_kind
from axla.kernels.loop import ConcatKind
from axla.kernels.reduce import ColumnKind, RowKind
from axla.kernels.transpose import TransposeKind
from axla.kernels.update import UpdateKind
from axla.passes import driver, pipelines
from axla.passes.schedule.order import running_computations
from axla.target.machine import Limits, cpu_target
from axla.text.parser import parse_hlo
from memory_check import check

LIMITS = Limits()
NOT_KERNELS = (While, Conditional, Call, CustomCall, Parameter, Tuple, GetTupleElement)


def in_registers(inst):
    return is_tiny(inst, LIMITS) or is_tiny_store(inst, LIMITS)


def compiled(text, steps):
    module = parse_hlo(text)
    driver.run(module, steps, cpu_target(), name="test")
    return module


def arguments(module, seed):
    rng = np.random.default_rng(seed)
    return [
        Literal.of(np.asarray(rng.random(p.shape.dims) < 0.5) if p.shape.dtype.is_pred
                   else rng.uniform(-1, 1, p.shape.dims).astype(np.float32))
        for p in module.entry.parameters
    ]  # fmt: skip


def assert_same_run(text, seed, steps):
    before, after = parse_hlo(text), compiled(text, steps)
    given = arguments(before, seed)
    wanted, found = (list(evaluate(m, given).leaves()) for m in (before, after))
    for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
        np.testing.assert_allclose(b.array, a.array, rtol=2e-5, atol=2e-5, err_msg=f"result {number}")
    return after


def assert_memory_is_right(module):
    check(assign_buffers(module, LIMITS))
    for computation in running_computations(module):
        for inst in schedule_of(computation):
            if not isinstance(inst.op, NOT_KERNELS) and not in_registers(inst):
                kernel_kind(inst, LIMITS)


KERNELS = (*pipelines.LOWER, *pipelines.KERNELS)


@pytest.mark.parametrize("seed", range(40))
def test_straight(seed):
    assert_memory_is_right(assert_same_run(straight(seed), seed, KERNELS))


@pytest.mark.parametrize("seed", range(40))
def test_loops(seed):
    assert_memory_is_right(assert_same_run(looping(seed), seed, KERNELS))


@pytest.mark.parametrize("seed", range(20))
def test_branches(seed):
    assert_memory_is_right(assert_same_run(branching(seed), seed, KERNELS))


@pytest.mark.parametrize("seed", range(100, 115))
def test_whole_pipeline(seed):
    for text in (straight(seed), looping(seed), branching(seed)):
        assert_memory_is_right(assert_same_run(text, seed, pipelines.CPU))


@pytest.mark.parametrize("seed", range(200, 215))
def test_without_fusion(seed):
    steps = tuple(s for s in KERNELS if s is not pipelines.fusion)
    for text in (straight(seed), looping(seed), branching(seed)):
        module = assert_same_run(text, seed, steps)
        assert not any(isinstance(i.op, Fusion) for c in module.computations for i in c.instructions)
        assert_memory_is_right(module)


def test_the_modules_are_worth_it():
    """Random modules have all kinds of kernels, and copies, or the tests above say little."""
    found = Counter()
    for seed in range(15):
        for text in (straight(seed), looping(seed), branching(seed)):
            for computation in compiled(text, KERNELS).computations:
                for inst in computation.instructions:
                    found["copies"] += isinstance(inst.op, Copy)
                    if isinstance(inst.op, Fusion):
                        found["several results"] += inst.shape.is_tuple
                        found[type(kernel_kind(inst, LIMITS))] += 1
    assert min(found[k] for k in (RowKind, ColumnKind, DotKind, TransposeKind, ConcatKind, UpdateKind)) > 5, (
        found
    )
    assert found["copies"] > 50 and found["several results"] > 10, found


def test_the_check_finds_values_that_share_memory(monkeypatch):
    monkeypatch.setattr(coalesce, "_in_the_way", lambda value, values: False)
    wrong = 0
    for seed in range(20):
        module = compiled(looping(seed), KERNELS)
        try:
            check(assign_buffers(module, LIMITS))
        except VerifyError:
            wrong += 1
    assert wrong >= 7


def wrong_assignments() -> int:
    wrong = 0
    for seed in range(20):
        module = compiled(straight(seed), KERNELS)
        try:
            check(assign_buffers(module, LIMITS))
        except VerifyError:
            wrong += 1
    return wrong


def test_the_check_finds_workspace_that_overlaps(monkeypatch):
    monkeypatch.setattr(buffers, "_lent", lambda work, results: {})
    monkeypatch.setattr(
        buffers, "pack", lambda intervals: ([0] * len(intervals), max((i.size for i in intervals), default=0))
    )
    assert wrong_assignments() >= 7


def test_the_check_finds_results_lent_for_too_long(monkeypatch):
    monkeypatch.setattr(buffers, "_lent", lambda work, results: {p: (results[0], 0) for p in work})
    assert wrong_assignments() >= 7


def test_results_lend_their_memory():
    """A chain of arrays of one size that do not reuse each other: only as many lie in the workspace as
    results cannot take.
    """
    s = "f32[100,100]"
    text = f"""HloModule m
ENTRY e {{
 a = {s} parameter(0)
 t = {s} dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 u = {s} dot(t, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 v = {s} dot(u, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
 ROOT w = {s} dot(v, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    found = assign_buffers(compiled(text, KERNELS), LIMITS)
    check(found)
    assert found.workspace_bytes == buffers.aligned(100 * 100 * 4)
