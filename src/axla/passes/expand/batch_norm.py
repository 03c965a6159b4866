"""Batch normalisation as reductions over all dimensions but the feature dimension, and elementwise
arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, F64
from axla.hlo import BatchNormGrad, BatchNormInference, BatchNormTraining
from axla.ir.graph import Instruction, Module
from axla.ir.typed import shape_of
from axla.passes.expand.expander import expand, typed, written
from axla.passes.matrix import combiner, number

BatchNorm = BatchNormInference | BatchNormTraining | BatchNormGrad


def batchnorm_expander(module: Module) -> None:
    """Writes the three batch-norm ops as arithmetic in f32, or in f64 if an operand is f64."""
    kinds = {BatchNormInference: _inference, BatchNormTraining: _training, BatchNormGrad: _grad}
    expand(module, "batchnorm-expander", dict.fromkeys(kinds, lambda i: written(i, kinds[type(i.op)])))


class _Batch:
    """The operands of a batch-norm op in the type of the arithmetic, and operations along the feature
    dimension of the first one, `x`.
    """

    def __init__(self, inst: Instruction[BatchNorm], given: Sequence[XlaOp]):
        op, shape = inst.op, shape_of(inst.operands[0])
        self.epsilon, self.feature = op.epsilon, op.feature_index
        wide = F64 if F64 in (x.dtype for x in given) else F32
        self.x, *self.others = (typed(x, wide) for x in given)
        self.reduced = [d for d in range(shape.rank) if d != self.feature]
        self.count = shape.size // max(shape.dims[self.feature], 1)

    def along(self, x: XlaOp) -> XlaOp:
        """Broadcasts `x`, one number per feature, to the shape of the op's first operand."""
        return ops.BroadcastInDim(x, self.x.dims, [self.feature])

    def sum(self, x: XlaOp) -> XlaOp:
        """Sums `x` over all dimensions but the feature dimension."""
        return ops.Reduce(x, number(x, 0), combiner("Add", x.dtype), self.reduced) if self.reduced else x

    def deviation(self, variance: XlaOp) -> XlaOp:
        """The square root of variance + epsilon."""
        return ops.Sqrt(variance + self.epsilon)

    def normalised(self, scale: XlaOp, offset: XlaOp, mean: XlaOp, variance: XlaOp) -> XlaOp:
        factor = scale / self.deviation(variance)
        return (self.x - self.along(mean)) * self.along(factor) + self.along(offset)


def _inference(inst: Instruction[BatchNormInference], *given: XlaOp) -> Sequence[XlaOp]:
    batch = _Batch(inst, given)
    return [batch.normalised(*batch.others)]


def _training(inst: Instruction[BatchNormTraining], *given: XlaOp) -> Sequence[XlaOp]:
    batch = _Batch(inst, given)
    mean = batch.sum(batch.x) / batch.count
    centred = batch.x - batch.along(mean)
    variance = batch.sum(centred * centred) / batch.count
    # The result is computed from the mean and variance as they are returned, rounded to their type.
    kept = [typed(typed(x, given[1].dtype), batch.x.dtype) for x in (mean, variance)]
    return [batch.normalised(*batch.others, *kept), *kept]


def _grad(inst: Instruction[BatchNormGrad], *given: XlaOp) -> Sequence[XlaOp]:
    batch = _Batch(inst, given)
    scale, mean, variance, grad = batch.others
    centred = batch.x - batch.along(mean)
    deviation = batch.deviation(variance)
    of_offset, of_scale = batch.sum(grad), batch.sum(grad * centred) / deviation
    # The gradient is scale / deviation * (grad - mean(grad) - centred * mean(grad * centred) / deviation^2).
    slope = of_scale / deviation / batch.count
    inner = grad - batch.along(of_offset / batch.count) - centred * batch.along(slope)
    return [inner * batch.along(scale / deviation), of_scale, of_offset]
