"""Kernels as data: they stand alone, are planned once, and their code follows from computation and plan."""

from __future__ import annotations

import dataclasses
import gc
from enum import Enum
from functools import cache

import pytest

import axla
from axla.codegen.emit import (
    column,
    convolution,
    fft,
    gemm,
    loop,
    row,
    scan,
    sort,
    topk,
    transpose,
    update,
)
from axla.codegen.function import LlvmModule as LlvmModule
from axla.codegen.host import host_target, one_lane_target
from axla.codegen.kernel import emit_kernel
from axla.core.dtypes import DType
from axla.ir.graph import Computation, Instruction, Module
from axla.kernels import dot as products
from axla.kernels import kinds as all_kinds
from axla.kernels.convolution import ConvolutionPlan
from axla.kernels.dot import DotPlan
from axla.kernels.fft import FftPlan
from axla.kernels.loop import ConcatPlan, LoopPlan
from axla.kernels.reduce import ColumnPlan, RowPlan
from axla.kernels.scan import ScanPlan
from axla.kernels.sort import SortPlan, TopKPlan
from axla.kernels.transpose import TransposePlan
from axla.kernels.update import ScatterPlan, UpdatePlan
from axla.lowering.pipeline import optimize, program_of
from axla.program.kernels import Kernel, plan_kernel
from axla.target.nvptx import nvptx_target

TARGETS = {"host": host_target(), "one-lane": one_lane_target(), "nvptx": nvptx_target()}

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
"""


def program(text: str) -> str:
    return f"{HEAD}ENTRY e {{\n{text}}}"


PROGRAMS = {
    LoopPlan: program("""p = f32[5,300] parameter(0)
  q = f32[300] parameter(1)
  b = f32[5,300] broadcast(q), dimensions={1}
  t = f32[5,300] tanh(p)
  ROOT r = f32[5,300] add(t, b)"""),
    RowPlan: program("""p = f32[4,700] parameter(0)
  z = f32[] constant(0)
  n = f32[] constant(-inf)
  m = f32[4] reduce(p, n), dimensions={1}, to_apply=most
  mb = f32[4,700] broadcast(m), dimensions={0}
  d = f32[4,700] subtract(p, mb)
  x = f32[4,700] exponential(d)
  s = f32[4] reduce(x, z), dimensions={1}, to_apply=sum
  sb = f32[4,700] broadcast(s), dimensions={0}
  ROOT r = f32[4,700] divide(x, sb)"""),
    ColumnPlan: program("""p = f32[300,500] parameter(0)
  z = f32[] constant(1)
  t = f32[300,500] negate(p)
  s = f32[500] reduce(t, z), dimensions={0}, to_apply=sum
  ROOT r = f32[500] sqrt(s)"""),
    TransposePlan: program("""p = f32[70,3,90] parameter(0)
  n = f32[70,3,90] negate(p)
  ROOT t = f32[90,3,70] transpose(n), dimensions={2,1,0}"""),
    DotPlan: program("""p = f32[70,300] parameter(0)
  q = f32[90,300] parameter(1)
  c = f32[70,90] parameter(2)
  d = f32[70,90] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = f32[70,90] add(d, c)"""),
    UpdatePlan: program("""p = f32[90,70] parameter(0)
  u = f32[30,70] parameter(1)
  i = s32[] parameter(2)
  t = f32[30,70] tanh(u)
  z = s32[] constant(0)
  n = f32[90,70] negate(p)
  ROOT r = f32[90,70] dynamic-update-slice(n, t, i, z)"""),
    ScatterPlan: program("""p = f32[50,30] parameter(0)
  i = s32[4] parameter(1)
  u = f32[4,30] parameter(2)
  ROOT r = f32[50,30] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"""),
    SortPlan: program("""p = f32[3,5000] parameter(0)
  i = s32[3,5000] iota(), iota_dimension=1
  ROOT r = (f32[3,5000], s32[3,5000]) sort(p, i), dimensions={1}, is_stable=true, to_apply=less"""),
    TopKPlan: program("""p = f32[7,5000] parameter(0)
  ROOT r = (f32[7,5], s32[7,5]) topk(p), k=5, largest=true"""),
    ScanPlan: program("""p = f32[90000] parameter(0)
  z = f32[] constant(0)
  x = f32[90000] exponential(p)
  w = f32[90000] reduce-window(x, z), window={size=90000 pad=89999_0}, to_apply=sum
  ROOT r = f32[90000] negate(w)"""),
    ConvolutionPlan: program("""p = f32[2,20,20,3] parameter(0)
  k = f32[3,3,3,32] parameter(1)
  ROOT c = f32[2,18,18,32] convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f"""),
    FftPlan: program("""p = f32[6,120] parameter(0)
  ROOT r = c64[6,61] fft(p), fft_type=RFFT, fft_length={120}"""),
    ConcatPlan: program("""p = f32[40,70] parameter(0)
  q = f32[40,90] parameter(1)
  t = f32[40,90] tanh(q)
  c = f32[40,160] concatenate(p, t), dimensions={1}
  ROOT r = f32[40,160] negate(c)"""),
}
PIECES = program("""p = f32[3000000] parameter(0)
  z = f32[] constant(0)
  x = f32[3000000] exponential(p)
  ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply=sum""")


@cache
def kernels(text: str) -> tuple[Kernel, ...]:
    """The kernels of a program for this machine; of a scan, which CPUs have no kernel for, for a GPU."""
    module, target = axla.parse(text), nvptx_target() if text == PROGRAMS[ScanPlan] else host_target()
    optimize(module, target)
    return program_of(module, target).kernels


def for_target(kernel: Kernel, name: str) -> Kernel:
    return plan_kernel(kernel.name, kernel.computation, kernel.in_place, TARGETS[name])


def code(kernel: Kernel, name: str) -> str:
    module = LlvmModule(TARGETS[name].index_type)
    emit_kernel(module, kernel, TARGETS[name])
    return module.text()


EVERY = pytest.mark.parametrize(
    "text", [*PROGRAMS.values(), PIECES], ids=[*(p.__name__ for p in PROGRAMS), "pieces"]
)
ON_ALL = pytest.mark.parametrize("target", TARGETS)


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.__name__)
def test_every_kind_of_plan_is_here(kind):
    assert kind in {type(kernel.plan) for kernel in kernels(PROGRAMS[kind])}
    assert set(PROGRAMS) == {k.planned for k in all_kinds.kinds() if k.planned is not None}


@EVERY
@ON_ALL
def test_a_kernel_read_from_its_text_has_the_same_plan_and_code(text, target):
    for kernel in kernels(text):
        written = kernel.computation.module.to_string(print_large_constants=True)
        read = axla.parse(written)
        assert read.to_string(print_large_constants=True) == written
        before = for_target(kernel, target)
        after = plan_kernel(kernel.name, read.entry, kernel.in_place, TARGETS[target])
        assert after == before and hash(after) == hash(before)
        assert code(after, target) == code(before, target)


def values(found: object):
    """All that a plan is made of."""
    yield found
    if dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            yield from values(getattr(found, field.name))
    elif isinstance(found, tuple):
        for item in found:
            yield from values(item)


@EVERY
@ON_ALL
def test_a_plan_is_plain_data(text, target):
    for kernel in kernels(text):
        for value in values(for_target(kernel, target).plan):
            plain = type(value) in (int, bool, str, float, tuple, type(None), DType) or isinstance(
                value, Enum
            )
            assert plain or type(value).__module__.startswith("axla.kernels."), value
            assert plain or type(value).__dataclass_params__.frozen


@EVERY
def test_heroes_are_instructions_of_the_kernel_by_name(text):
    for kernel in kernels(text):
        plan, named = kernel.plan, kernel.named()
        heroes = [getattr(plan, "hero", ()), *getattr(plan, "heroes", ()), *getattr(plan, "reduces", ())]
        heroes += [name for stage in getattr(plan, "stages", ()) for name in stage if isinstance(name, str)]
        assert all(name in named for name in heroes if name)


@EVERY
def test_a_computation_stands_alone(text):
    """Nothing that is reached from a kernel belongs to the module that the kernel was cut out of."""
    module, target = axla.parse(text), host_target()
    optimize(module, target)
    found = program_of(module, target).kernels
    theirs = {kernel.computation.module for kernel in found}
    assert len(theirs) == len(found) and module not in theirs
    for kernel in found:
        alone = kernel.computation.module
        assert alone.entry is kernel.computation and alone.name == kernel.name
        seen, stack = set(), [kernel]
        while stack:
            here = stack.pop()
            if id(here) in seen or isinstance(here, type):
                continue
            seen.add(id(here))
            assert not isinstance(here, Module) or here is alone, here
            assert not isinstance(here, Computation) or here.module is alone, here
            assert not isinstance(here, Instruction) or here.computation.module is alone, here
            if type(here).__module__.startswith("axla.") or isinstance(here, tuple | list | dict | set):
                stack.extend(
                    o for o in gc.get_referents(here) if type(o).__name__ not in ("function", "module")
                )


@EVERY
@ON_ALL
def test_emitters_do_not_plan(text, target, monkeypatch):
    planned = [for_target(kernel, target) for kernel in kernels(text)]
    wanted = [code(kernel, target) for kernel in planned]

    def refuse(*args, **options):
        raise AssertionError("an emitter plans")

    for module in (
        column,
        convolution,
        fft,
        gemm,
        loop,
        row,
        scan,
        sort,
        topk,
        transpose,
        update,
        products,
    ):
        for name in ("cut", "grain_of", "body_cost", "widest", "mergeable", "sort_key", "choose_tile"):
            monkeypatch.setattr(module, name, refuse, raising=False)
    for kind in all_kinds.kinds():
        for name in ("match", "plan", "served"):
            monkeypatch.setattr(kind, name, refuse)
    with pytest.raises(AssertionError, match="an emitter plans"):
        for_target(kernels(text)[0], target)
    assert [code(kernel, target) for kernel in planned] == wanted


def test_kernels_are_compared_by_name_and_plan():
    (one,), (other,) = kernels(PIECES), kernels(PIECES.replace("3000000", "4000000"))
    again = plan_kernel(one.name, other.computation, (), host_target())
    assert one != other and again != one  # here the plan tells them apart, not the name
    assert one.symbols == (f"{one.name}_parts", one.name) and one.plan.scratch_bytes > 0
    assert one.polls and not any(kernel.polls for kernel in kernels(PROGRAMS[FftPlan]))
