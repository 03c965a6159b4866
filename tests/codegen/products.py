"""Compiles matrix products, many to a module, and runs them on NumPy arrays."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import llvmlite.binding as binding
import numpy as np

from axla.codegen import llvm
from axla.codegen.emit import gemm
from axla.codegen.emit.gemm import Store
from axla.codegen.function import Module
from axla.core.dtypes import DType
from axla.kernels.dot import GemmPlan, GemmSpec, plan_product
from axla.program import abi
from axla.target.machine import Target

GUARD = 64
_numbers = itertools.count()


@dataclass
class Product:
    """A multiplication and what it is done to: arrays as they are stored, the result as a flat array."""

    spec: GemmSpec
    store: Store | None = None
    extra: tuple[np.ndarray, ...] = ()
    plan: GemmPlan = field(init=False)
    name: str = field(init=False)

    def arrays(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        spec = self.spec
        lhs = (spec.k, spec.m) if spec.lhs_transposed else (spec.m, spec.k)
        rhs = (spec.n, spec.k) if spec.rhs_transposed else (spec.k, spec.n)
        return tuple(random_array(rng, (spec.batch, *dims), spec.dtype) for dims in (lhs, rhs))


def random_array(rng: np.random.Generator, dims: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype.is_complex:
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype.numpy)
    if dtype.is_float:
        return rng.standard_normal(dims).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return rng.integers(limits.min, limits.max, dims, dtype=dtype.numpy, endpoint=True)


def module_of(products: Sequence[Product], target: Target) -> Module:
    """A module with a kernel for each product; sets their names and plans."""
    module = Module(target.index_type)
    for number, product in enumerate(products):
        product.name = f"product{number}"
        product.plan = plan_product(product.spec, target)
        gemm.emit(module, product.name, product.spec, product.plan, target, product.store)
    return module


class Compiled:
    """The products of one module, loaded."""

    def __init__(self, products: Sequence[Product], target: Target):
        self.products = list(products)
        self.image = llvm.emit_object(module_of(self.products, target).text(), target)
        with llvm.LOCK:
            self._jit = binding.create_lljit_compiler()
            builder = binding.JITLibraryBuilder().add_object_img(self.image)
            for product in self.products:
                builder.export_symbol(product.name)
            self._library = builder.link(self._jit, f"products{next(_numbers)}")

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
        pointers = [lhs, rhs, whole, scratch[-scratch.ctypes.data % 64 :], *product.extra]
        args = (ctypes.c_void_p * len(pointers))(*[array.ctypes.data for array in pointers])
        signature = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
        kernel = signature(self._library[product.name])
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
