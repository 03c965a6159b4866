"""Batch normalisation as reductions over all but the feature dimension, and elementwise arithmetic."""

from __future__ import annotations

from axla.core.dtypes import F32, F64, DType
from axla.hlo import (
    Add,
    BatchNormGrad,
    BatchNormInference,
    BatchNormTraining,
    Divide,
    Multiply,
    Reduce,
    Sqrt,
    Subtract,
    Tuple,
)
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import (
    binary_computation,
    converted,
    expand,
    full,
    scalar,
    shape_of,
    spread,
)


def batchnorm_expander(module: Module) -> None:
    """Writes the three batch-norm ops as arithmetic in f32, or f64."""
    kinds = {BatchNormInference: _inference, BatchNormTraining: _training, BatchNormGrad: _grad}
    expand(module, "batchnorm-expander", kinds)


class _Batch:
    """The operand in the precision of the arithmetic, and what is done along its features."""

    def __init__(self, inst: Instruction):
        op, x = inst.op, inst.operands[0]
        assert isinstance(op, BatchNormInference | BatchNormTraining | BatchNormGrad)
        self.inst, self.epsilon, self.feature = inst, op.epsilon, op.feature_index
        self.wide: DType = F64 if F64 in (shape_of(o).dtype for o in inst.operands) else F32
        self.x = converted(x, self.wide)
        self.shape = shape_of(self.x)
        self.features = self.shape.with_dims([self.shape.dims[self.feature]]).logical
        self.others = tuple(d for d in range(self.shape.rank) if d != self.feature)
        size = self.features.size
        self.count = full(inst.computation, self.features, self.shape.size // size if size else 0)

    def number(self, n: int) -> Instruction:
        """Operand n, a number per feature."""
        return converted(self.inst.operands[n], self.wide)

    def along(self, x: Instruction) -> Instruction:
        """Numbers per feature, to combine with the operand."""
        return spread(x, self.shape, (self.feature,))

    def sum(self, x: Instruction) -> Instruction:
        """Sums per feature."""
        if not self.others:
            return x
        computation = self.inst.computation
        add = binary_computation(computation.module, "add", self.wide)
        return Reduce(self.others, add)(x, scalar(computation, self.wide, 0))

    def mean(self, x: Instruction) -> Instruction:
        return Divide()(self.sum(x), self.count)

    def deviation(self, variance: Instruction) -> Instruction:
        """The square root of variance + epsilon."""
        epsilon = full(self.inst.computation, self.features, self.epsilon)
        return Sqrt()(Add()(variance, epsilon))

    def normalised(
        self, scale: Instruction, offset: Instruction, mean: Instruction, variance: Instruction
    ) -> Instruction:
        factor = Divide()(scale, self.deviation(variance))
        centred = Subtract()(self.x, self.along(mean))
        found = Add()(Multiply()(centred, self.along(factor)), self.along(offset))
        return converted(found, shape_of(self.inst.operands[0]).dtype)


def _inference(inst: Instruction) -> Instruction:
    batch = _Batch(inst)
    return batch.normalised(*(batch.number(n) for n in range(1, 5)))


def _training(inst: Instruction) -> Instruction:
    batch, dtype = _Batch(inst), shape_of(inst.operands[1]).dtype
    mean = batch.mean(batch.x)
    centred = Subtract()(batch.x, batch.along(mean))
    variance = batch.mean(Multiply()(centred, centred))
    # What is returned is what is used.
    mean, variance = converted(mean, dtype), converted(variance, dtype)
    used = [batch.number(1), batch.number(2), converted(mean, batch.wide), converted(variance, batch.wide)]
    return inst.computation.add(Tuple(), [batch.normalised(*used), mean, variance])


def _grad(inst: Instruction) -> Instruction:
    batch, dtype = _Batch(inst), shape_of(inst.operands[1]).dtype
    scale, mean, variance = (batch.number(n) for n in range(1, 4))
    grad = converted(inst.operands[4], batch.wide)
    centred = Subtract()(batch.x, batch.along(mean))
    deviation = batch.deviation(variance)
    of_offset = batch.sum(grad)
    correlated = batch.sum(Multiply()(grad, centred))
    of_scale = Divide()(correlated, deviation)
    # scale / deviation * (grad - mean of grad - centred * mean of grad * centred / deviation^2)
    factor = Divide()(scale, deviation)
    slope = Divide()(Divide()(of_scale, deviation), batch.count)
    level = Divide()(of_offset, batch.count)
    moved = Subtract()(grad, batch.along(level))
    inner = Subtract()(moved, Multiply()(centred, batch.along(slope)))
    of_operand = Multiply()(inner, batch.along(factor))
    parts = [
        converted(of_operand, shape_of(inst.operands[0]).dtype),
        converted(of_scale, dtype),
        converted(of_offset, dtype),
    ]
    return inst.computation.add(Tuple(), parts)
