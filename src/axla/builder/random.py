"""Builder functions for random numbers."""

from __future__ import annotations

import axla.hlo as hlo
from axla.builder.coerce import as_op, builder_of, number, operands
from axla.builder.elementwise import ConvertElementType, Lt
from axla.builder.movement import Constant
from axla.builder.records import RandomAlgorithm
from axla.builder.values import instance, member
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import F32
from axla.core.shape import Shape, TupleShape
from axla.ir.attributes import RandomAlgorithm as Algorithm
from axla.ir.attributes import RandomDistribution


def RngUniform(a: object, b: object, shape: Shape) -> XlaOp:
    """Random numbers that are uniformly distributed in [a, b)."""
    return _rng("RngUniform", a, b, shape, RandomDistribution.UNIFORM)


def RngNormal(mu: object, sigma: object, shape: Shape) -> XlaOp:
    """Random numbers with a normal distribution of mean `mu` and standard deviation `sigma`."""
    return _rng("RngNormal", mu, sigma, shape, RandomDistribution.NORMAL)


def RngBernoulli(mean: object, shape: Shape) -> XlaOp:
    """Random numbers that are 1 with probability `mean` (a scalar f32), else 0, with the element type and
    sizes of `shape`.
    """
    _array("RngBernoulli", shape)
    (probability,) = operands("RngBernoulli", mean)
    builder = probability.builder
    if probability.shape.logical is not Shape(F32):
        builder.fail("RngBernoulli", (probability,), "the mean must be a scalar f32  [rng_bernoulli_mean]")
    drawn = RngUniform(Constant(builder, _f32(0)), Constant(builder, _f32(1)), Shape(F32, shape.dims))
    return ConvertElementType(Lt(drawn, probability), shape.dtype)


def _f32(value: int) -> object:
    return F32.numpy.type(value)


def _array(what: str, shape: object) -> Shape:
    return instance(Shape, shape, f"{what}: shape", "an array shape")


def _rng(what: str, first: object, second: object, shape: Shape, distribution: RandomDistribution) -> XlaOp:
    """Adds an `rng` op for the function `what`, with the parameters `first` and `second` of the distribution.
    Python numbers get the element type of the result.
    """
    result = _array(what, shape)
    builder: XlaBuilder = builder_of(what, (first, second))
    values = [
        number(what, builder, v, result.dtype) if type(v) in (int, float) else as_op(what, builder, v)
        for v in (first, second)
    ]
    return builder.add(hlo.Rng(result, distribution), values)


def RngBitGenerator(algorithm: RandomAlgorithm, initial_state: object, shape: Shape) -> XlaOp:
    """Returns a tuple: the next state of the generator, and random bits of the given shape. The bits depend
    only on `initial_state`.
    """
    (state,) = operands("RngBitGenerator", initial_state)
    name = member(RandomAlgorithm, algorithm, "RngBitGenerator: algorithm").name.removeprefix("RNG_")
    result = TupleShape((state.shape.logical, _array("RngBitGenerator", shape)))
    return state.builder.add(hlo.RngBitGenerator(result, Algorithm[name]), (state,))
