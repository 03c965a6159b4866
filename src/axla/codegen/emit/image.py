"""Writes convolutions as matrix products by thread blocks (implicit GEMM); the matrix of patches is never
stored.

The rows of that matrix are result positions (batch, then spatial dimensions); its columns, k, are window
positions, then input features. The address of an element is computed when it is loaded to local memory. The
convolution has one of the forms of the pass `convolution-canonicalize`, so that all positions are inside the
image. Groups are the batch of the product; with features before positions (`pixels`) the image is the right
operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.codegen.array import element_address
from axla.codegen.emit.product import Matrix
from axla.codegen.emit.thread_blocks import Blocks, Dense, MatrixOffsets, Threads, Warps
from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.index import AnyIndex, Index, delinearize, linear
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.kernels.convolution import ConvolutionPlan


def emit(k: KernelWriter, plan: ConvolutionPlan) -> None:
    """Writes the kernel of a plan that has a product."""
    assert plan.blocks is not None
    (_ByThreads if plan.blocks.cut.method == "threads" else _ByWarps)(k, plan).emit()


class _Image(MatrixOffsets):
    """The image of one feature group as the matrix of patches. The image is an array of the sizes `dims` at
    the address `start`.
    """

    def __init__(self, f: LlvmFunction, form: ConvolutionPlan, start: Ssa, dims: Sequence[int], group: Index):
        self.f, self.form, self.start, self.dims = f, form, start, dims
        self.first = group * form.inputs

    def across(self, x: Ssa) -> Ssa:
        form = self.form
        batch, *places = _split(self.f, x, (form.batch, *form.places))
        steps = [place * step for place, step in zip(places, form.stride, strict=True)]
        return self._offset(form.laid(batch, steps, self.first))

    def along(self, k: Ssa) -> Ssa:
        form = self.form
        *window, feature = _split(self.f, k, (*form.window, form.inputs))
        steps = [place * step for place, step in zip(window, form.dilation, strict=True)]
        return self._offset(form.laid(0, steps, feature))

    def _offset(self, index: Sequence[AnyIndex]) -> Ssa:
        found = linear(index, self.dims)
        return self.f.index(found) if isinstance(found, int) else found.base


def _split(f: LlvmFunction, at: Ssa, sizes: Sequence[int]) -> tuple[AnyIndex, ...]:
    return delinearize(Index(f, at, limit=prod(sizes)), sizes)


class _Convolution(Blocks):
    """Computes the addresses of operands and results of a convolution that is written as a product."""

    def __init__(self, k: KernelWriter, plan: ConvolutionPlan):
        assert plan.blocks is not None
        super().__init__(k, plan.blocks)
        self.form = plan

    def operands(self, batch: Ssa) -> tuple[MatrixOffsets, MatrixOffsets]:
        form, f = self.form, self.f
        parameters = self.k.kernel.computation.parameters
        image, kernel = (self.k.inputs[parameters.index(o)] for o in self.hero.operands)
        first = element_address(f, kernel.pointer, kernel.dtype, f.mul(batch, form.outputs))
        weights = Dense(Matrix(self, first, form.groups * form.outputs), along_k=False)
        pixels = _Image(f, form, image.pointer, image.dims, Index(f, batch, limit=form.groups))
        return (weights, pixels) if form.mode == "pixels" else (pixels, weights)

    def give(self, total: Value, batch: Ssa, row: Ssa | int, col: Ssa | int) -> None:
        form, f = self.form, self.f
        at, feature = (f.index(x) if isinstance(x, int) else x for x in (row, col))
        if form.mode == "pixels":
            at, feature = feature, at
        number, *places = _split(f, at, (form.batch, *form.places))
        first = Index(f, batch, limit=form.groups) * form.outputs
        index = form.laid(number, places, first + Index(f, feature, limit=form.outputs))
        e = self.k.elements(total.lanes)
        e.bind(self.hero, self.values.convert(total, self.spec.result))
        self.k.write(e, index, self.hero.shape.dims)


class _ByThreads(_Convolution, Threads):
    pass


class _ByWarps(_Convolution, Warps):
    pass
