"""Convolutions as matrix products by blocks of threads."""

from __future__ import annotations

import numpy as np
import pytest
from test_nvptx import SM90, SMALL, assemble, executed, kernel_of

import axla
from axla.codegen import llvm
from axla.core.dtypes import BY_NAME
from axla.kernels.convolution import ConvolutionPlan
from axla.target.spirv import spirv_target
from opencl_device import needs_opencl

# Type of operands and result; image, kernel, window, layout, groups.
CASES = {
    "features": ("f32", "f32", "2,7,6,5", "3,2,5,19", "size=3x2", "b01f_01io->b01f", 1),
    "vectors of features": ("f32", "f32", "2,7,6,8", "3,2,8,20", "size=3x2", "b01f_01io->b01f", 1),
    "strides": ("s32", "s32", "2,9,12,3", "2,3,3,9", "size=2x3 stride=2x3", "b01f_01io->b01f", 1),
    "dilated window": ("f64", "f64", "2,9,12,3", "2,3,3,9", "size=2x3 rhs_dilate=3x2", "b01f_01io->b01f", 1),
    "groups": ("f32", "f32", "2,7,6,6", "3,2,3,10", "size=3x2", "b01f_01io->b01f", 2),
    "features first": ("f32", "f32", "2,5,7,6", "3,2,5,3", "size=3x2 stride=1x2", "bf01_01io->bf01", 1),
    "groups, features first": ("c64", "c64", "2,6,7,6", "3,2,3,4", "size=3x2", "bf01_01io->bf01", 2),
    "one dimension": ("s8", "s32", "3,40,16", "5,16,32", "size=5", "b0f_0io->b0f", 1),
    "tensor cores": ("bf16", "bf16", "2,7,6,8", "3,2,8,24", "size=3x2", "b01f_01io->b01f", 1),
    "tensor cores, odd": ("f16", "f32", "2,7,6,9", "2,2,9,17", "size=2x2 stride=2x1", "b01f_01io->b01f", 1),
    "tensor cores, features first": ("f16", "f16", "2,9,7,6", "2,2,9,17", "size=2x2", "bf01_01io->bf01", 1),
}  # fmt: skip


def program(case: str) -> str:
    kind, result, image, kernel, window, labels, groups = CASES[case]
    text = f"""HloModule m
ENTRY e {{ p = {kind}[{image}] parameter(0)
  k = {kind}[{kernel}] parameter(1)
  ROOT c = {result}[SHAPE] convolution(p, k), window={{{window}}}, dim_labels={labels},
    feature_group_count={groups} }}"""
    steps = dict(part.split("=") for part in window.split())
    sizes, strides, spread = (
        [int(n) for n in steps.get(name, steps["size"]).split("x")] if name in steps else [1, 1]
        for name in ("size", "stride", "rhs_dilate")
    )
    dims = [int(n) for n in image.split(",")]
    first = 2 if labels.startswith("bf") else 1
    places = [
        (dims[first + d] - (size - 1) * spread[d] - 1) // strides[d] + 1 for d, size in enumerate(sizes)
    ]
    feature = int(kernel.split(",")[-1])
    out = [dims[0], feature, *places] if first == 2 else [dims[0], *places, feature]
    return text.replace("SHAPE", ",".join(map(str, out)))


def arrays(case: str) -> list[np.ndarray]:
    """Small whole numbers, of which all sums are exact."""
    kind, _, image, kernel, *_ = CASES[case]
    rng = np.random.default_rng(3)
    sizes = ([int(n) for n in dims.split(",")] for dims in (image, kernel))
    return [rng.integers(-2, 3, dims).astype(BY_NAME[kind].numpy) for dims in sizes]


def wanted(case: str) -> np.ndarray:
    executable = axla.compile(axla.parse(program(case)), backend="interpreter")
    return np.asarray(executable.execute(arrays(case))[0])


@pytest.mark.parametrize("case", CASES)
def test_executed(case):
    emitted = kernel_of(program(case), SMALL)
    assert isinstance(emitted.plan, ConvolutionPlan) and emitted.plan.blocks is not None
    assert emitted.plan.blocks.cut.method == ("warps" if case.startswith("tensor") else "threads")
    exact = wanted(case)
    out = np.full(exact.shape, 77).astype(exact.dtype)
    executed(emitted, arrays(case), [out])
    np.testing.assert_array_equal(out, exact)


def test_assembles(tmp_path):
    for case in ("features", "tensor cores"):
        text = llvm.emit_assembly(kernel_of(program(case), SM90).text, SM90)
        assert ".extern" not in text
        assert assemble(text, SM90, tmp_path).startswith(b"\x7fELF")


def test_channels_of_one_feature_are_no_product():
    text = """HloModule m
ENTRY e { p = f32[2,9,9,16] parameter(0)
  k = f32[3,3,1,16] parameter(1)
  ROOT c = f32[2,7,7,16] convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f,
    feature_group_count=16 }"""
    plan = kernel_of(text, SMALL).plan
    assert isinstance(plan, ConvolutionPlan) and plan.blocks is None


@needs_opencl[0]
@needs_opencl[1]
@pytest.mark.parametrize("case", ["features", "groups, features first"])
def test_on_a_device_with_work_groups(case, monkeypatch):
    monkeypatch.setattr(axla.backends.get("opencl").driver(0), "target", spirv_target(64))
    executable = axla.compile(axla.parse(program(case)), backend="opencl")
    assert not executable.host_steps
    np.testing.assert_array_equal(np.asarray(executable.execute(arrays(case))[0]), wanted(case))
