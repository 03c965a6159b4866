"""Compiles matrix products, many to a module, and runs them on NumPy arrays."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import axla
from axla.codegen import llvm
from axla.codegen.function import LlvmModule
from axla.codegen.kernel import emit_kernel
from axla.codegen.native.image import Image
from axla.core.dtypes import DType
from axla.kernels.dot import DotPlan, GemmPlan, GemmSpec
from axla.program import abi
from axla.program.kernels import Kernel, plan_kernel
from axla.target.machine import Target

GUARD = 64


@dataclass
class Product:
    """A multiplication and what follows it: arrays as they are stored, the result as a flat array.

    `epilogue` is HLO of what becomes of the dot %d: parameters from 2 on are the arrays `extra`, and
    `in_place` the number of the one that the result overwrites.
    """

    spec: GemmSpec
    epilogue: str = ""
    extra: tuple[np.ndarray, ...] = ()
    in_place: int | None = None
    name: str = field(init=False)
    kernel: Kernel = field(init=False)
    target: Target = field(init=False)

    @property
    def plan(self) -> GemmPlan:
        assert isinstance(self.kernel.plan, DotPlan)
        words = self.spec.by_words(self.target)
        assert self.kernel.plan.product in (words, self.spec) if words.missing else (words,)
        return self.kernel.plan.cut

    def make(self, name: str, target: Target) -> Kernel:
        """Makes the kernel of the multiplication for a target."""
        self.name, self.target, spec = name, target, self.spec
        lhs, rhs = (spec.batch, *self.dims()[0]), (spec.batch, *self.dims()[1])
        sides = 1 if spec.lhs_transposed else 2, 2 if spec.rhs_transposed else 1
        text = f"""HloModule m
        ENTRY e {{
          p = {_shape(spec.dtype, lhs)} parameter(0)
          q = {_shape(spec.dtype, rhs)} parameter(1)
          {"" if self.epilogue else "ROOT"} d = {_shape(spec.result, (spec.batch, spec.m, spec.n))} dot(p, q),
            lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{sides[0]}}},
            rhs_contracting_dims={{{sides[1]}}}
          {self.epilogue}
        }}"""
        shared = () if self.in_place is None else ((0, self.in_place),)
        self.kernel = plan_kernel(name, axla.parse(text).entry, shared, target)
        return self.kernel

    def dims(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of the operands as they are stored."""
        spec = self.spec
        lhs = (spec.k, spec.m) if spec.lhs_transposed else (spec.m, spec.k)
        rhs = (spec.n, spec.k) if spec.rhs_transposed else (spec.k, spec.n)
        return lhs, rhs

    def arrays(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        lhs, rhs = (random_array(rng, (self.spec.batch, *dims), self.spec.dtype) for dims in self.dims())
        return lhs, rhs


def _shape(dtype: DType, dims: Sequence[int]) -> str:
    return f"{dtype.name}[{','.join(map(str, dims))}]"


def random_array(rng: np.random.Generator, dims: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype.is_complex:
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype.numpy)
    if dtype.is_float:
        return rng.standard_normal(dims).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, dims, dtype=dtype.numpy, endpoint=True)


def module_of(products: Sequence[Product], target: Target) -> LlvmModule:
    """A module with a kernel for each product, which it makes."""
    module = LlvmModule(target.index_type)
    for number, product in enumerate(products):
        emit_kernel(module, product.make(f"product{number}", target), target)
        module.functions[product.name] = module.functions[product.name].replace("internal ", "", 1)
    return module


class Compiled:
    """The products of one module, loaded."""

    def __init__(self, products: Sequence[Product], target: Target):
        self.products = list(products)
        self.image = llvm.emit_object(module_of(self.products, target).text(), target)
        self._library = Image([("products", self.image)], [product.name for product in self.products])

    def run(
        self, product: Product, lhs: np.ndarray, rhs: np.ndarray, cuts: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """The result, dense or in `out`; called piece by piece between `cuts`, the last one first."""
        spec = product.spec
        size = spec.batch * spec.m * spec.n
        whole = np.full(size + GUARD, 77).astype(spec.result.numpy) if out is None else out
        # Whatever stands in scratch must not matter: all ones is NaN for every float.
        scratch = np.full(product.plan.scratch_bytes + 64, 0xFF, np.uint8)
        extra = [whole if n + 2 == product.in_place else a for n, a in enumerate(product.extra)]
        pointers = [lhs, rhs, *extra, whole, scratch[-scratch.ctypes.data % 64 :]]
        args = (ctypes.c_void_p * len(pointers))(*[array.ctypes.data for array in pointers])
        signature = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
        kernel = signature(self._library.addresses[product.name])
        never = ctypes.c_int64(0)
        frame = abi.FRAME.ctypes()(cancel=ctypes.addressof(never))
        bounds = [0, *(cuts or ()), product.plan.calls]
        for begin, end in reversed(list(itertools.pairwise(bounds))):
            assert kernel(ctypes.addressof(frame), args, begin, end) == 0
        if out is not None:
            return out
        assert np.array_equal(whole[size:], np.full(GUARD, 77).astype(spec.result.numpy)), (
            "written past the end"
        )
        return whole[:size].reshape(spec.batch, spec.m, spec.n)


def wanted(product: Product, lhs: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product in a wider type, and how far a result may be from it (0 for integers, which wrap)."""
    spec = product.spec
    a = lhs.swapaxes(1, 2) if spec.lhs_transposed else lhs
    b = rhs.swapaxes(1, 2) if spec.rhs_transposed else rhs
    if spec.dtype.is_integer:
        exact = a.astype(spec.result.numpy) @ b.astype(spec.result.numpy)
        return exact, np.zeros(exact.shape)
    wide = np.complex128 if spec.dtype.is_complex else np.float64
    exact = a.astype(wide) @ b.astype(wide)
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    # The bound on k roundings of sums of products (complex parts have twice as many), and on the last one.
    rounding = float(spec.accumulator.finfo.eps) / 2
    bound = (2 if spec.dtype.is_complex else 1) * (spec.k + 1) * rounding * size
    if spec.result.bits < spec.accumulator.bits:
        info = spec.result.finfo
        bound += (np.abs(exact) + bound) * float(info.eps) / 2 + float(info.smallest_subnormal)
    return exact, bound


def check(compiled: Compiled, product: Product) -> None:
    """Right against NumPy, and bit for bit the same however the kernel is split."""
    lhs, rhs = product.arrays()
    found = compiled.run(product, lhs, rhs)
    exact, bound = wanted(product, lhs, rhs)
    wide = found.astype(exact.dtype)
    worst = (wide != exact) * 1.0 if product.spec.dtype.is_integer else np.abs(wide - exact) - bound
    assert np.max(worst, initial=0) <= 0, f"{product.spec} by {product.plan}: off by {np.max(worst)}"
    count = product.plan.calls
    if count > 1:
        for cuts in (range(1, count), (count // 2,), (1,)):
            again = compiled.run(product, lhs, rhs, cuts)
            assert np.array_equal(again.view(np.uint8), found.view(np.uint8)), f"{product.spec} cut at {cuts}"
