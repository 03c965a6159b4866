"""Ops for random numbers whose state belongs to the device: rng, rng-get-and-update-state."""

from __future__ import annotations

from axla.core.dtypes import F32, S32, U64
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import arrays, show
from axla.ir.attributes import RandomDistribution
from axla.ir.op import Op, attr, example, op


@op("rng", operands="first second", effect="random state", side_effect=True, expensive=True)
class Rng(Op):
    """Random numbers: uniform in [`first`, `second`), or normal with mean `first` and standard deviation
    `second`.

    The numbers differ from call to call. Uniform numbers are unspecified if `first` is not below `second`.
    """

    shape: Shape
    distribution: RandomDistribution = attr(required=True, default=RandomDistribution.UNIFORM)

    def infer(self, first: AnyShape, second: AnyShape) -> Shape:
        """Returns the declared shape; both operands must be scalars of its dtype."""
        for number, s in enumerate(arrays(self, first, second)):
            if s.rank or s.dtype is not self.shape.dtype:
                self.reject("c1", f"operand {number} must be a scalar of {self.shape.dtype}, found {show(s)}")
        dtype = self.shape.dtype
        if dtype.is_complex or (self.distribution is RandomDistribution.NORMAL and not dtype.is_float):
            self.reject("c2", f"{self.distribution} cannot return {dtype}")
        return self.shape

    examples = [
        example(Shape(F32), Shape(F32), shape=Shape(F32, (3,)), distribution=RandomDistribution.NORMAL),
        example(Shape(S32), Shape(S32), shape=Shape(S32, (3,))),
    ]


@op("rng-get-and-update-state", effect="random state", side_effect=True)
class RngGetAndUpdateState(Op):
    """The state of the device's random number generator, as u64[2]. The op then advances the state by
    `delta`.
    """

    shape: Shape
    delta: int = attr(required=True, default=0)

    def infer(self) -> Shape:
        """Returns the declared shape, which must be u64[2]."""
        if self.shape.logical is not Shape(U64, (2,)):
            self.reject("c1", f"u64[2] is wanted, found {show(self.shape)}")
        return self.shape

    examples = [example(shape=Shape(U64, (2,)), delta=1)]
