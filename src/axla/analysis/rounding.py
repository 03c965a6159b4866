"""Effects of rounding: finds instructions whose bits depend on the order or formula of their computation, and
makes programs whose values differ from those of a given one by a few units in the last place.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from axla.core.shape import Shape
from axla.hlo import Broadcast, Constant, Multiply, Reduce, ReduceWindow, Reverse
from axla.ir.clone import clone_module
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of

SUMS = frozenset({
    "reduce", "reduce-window", "select-and-scatter", "scatter", "all-reduce", "reduce-scatter", "scan",
    "collective-reduce", "all-reduce-start",
})  # fmt: skip
"""Opcodes that combine many elements in an unspecified order."""

APPROXIMATE = frozenset({
    "dot", "convolution", "fft", "cholesky", "triangular-solve", "batch-norm-grad", "batch-norm-inference",
    "batch-norm-training", "ragged-dot", "scaled-dot", "rng", "custom-call", "stochastic-convert",
})  # fmt: skip

_OF_COMPLEX = frozenset({"multiply", "divide", "abs", "sqrt", "rsqrt", "sign", "power", "log", "exponential"})
_EXACT = frozenset({"maximum", "minimum", "parameter", "and", "or", "compare", "select", "tuple"})
_ELEMENTWISE = frozenset({"multiply", "divide", "custom-call"})
MOST_FACTORS = 4096
"""The largest number of elements of a value for which `shaken` takes a separate factor per element."""


def is_approximate(inst: Instruction) -> bool:
    """Whether another order of operations, or another formula, may change the bits of an instruction's
    result.
    """
    arrays = [array for one in (inst, *inst.operands) for array in one.shape.arrays()]
    if not any(array.dtype.is_inexact for array in arrays):
        return False
    if inst.op.transcendental or inst.opcode in APPROXIMATE:
        return True
    if inst.opcode in _OF_COMPLEX and any(array.dtype.is_complex for array in arrays):
        return True
    return inst.opcode in SUMS and any(
        one.opcode not in _EXACT and isinstance(one.shape, Shape) and one.shape.dtype.is_inexact
        for computation in inst.op.computations()
        for one in computation.instructions
    )


def shaken(module: Module, seed: int) -> Module:
    """A copy of a module in which results and operands of approximate instructions are multiplied by numbers
    near 1, as if all were off by up to three units in the last place. If `seed` is odd, reductions, also
    those of windows over static arrays, run in reverse order, which may overflow where the other does not.
    """
    made, rng = clone_module(module), np.random.default_rng(seed)
    for computation in list(made.computations):
        for inst in post_order(computation):
            if not is_approximate(inst):
                continue
            if isinstance(inst.op, Reduce) and len(inst.operands) == 2 and seed % 2:
                array = inst.operands[0]
                reversed_ = computation.add(Reverse(inst.op.dimensions), [array], array.shape)
                computation.set_operand(inst, 0, reversed_)
            if isinstance(inst.op, ReduceWindow) and len(inst.operands) == 2 and seed % 2:
                _mirror(inst)
            for number, operand in enumerate(inst.operands if inst.opcode not in _ELEMENTWISE else ()):
                factor = _factor(computation, operand, rng)
                if factor is not None:
                    product = computation.add(Multiply(), [operand, factor], operand.shape)
                    computation.set_operand(inst, number, product)
            sums = isinstance(inst.op, Reduce) and isinstance(inst.shape, Shape) and inst.shape.size
            terms = inst.operands[0].shape.size // inst.shape.size if sums else 1
            factor = _factor(computation, inst, rng, 1 + isqrt(terms) // 8)
            if factor is not None:
                computation.replace(inst, computation.add(Multiply(), [inst, factor], inst.shape))
    return made


def _mirror(inst: Instruction) -> None:
    """Makes the windows of a reduce-window combine their elements from the last to the first: the window
    moves over the reversed array, and the result is reversed. Dynamic arrays stay as they are.
    """
    computation, array, op = inst.computation, shape_of(inst.operands[0]), op_of(inst, ReduceWindow)
    window, result, every = op.window, shape_of(inst), tuple(range(array.rank))
    if array.is_dynamic or not result.size:
        return
    steps = zip(result.dims, window.stride, window.dilated_size, strict=True)
    moved = [(n - 1) * by + size for n, by, size in steps]
    extents = [(n - 1) * by + 1 if n else 0 for n, by in zip(array.dims, window.base_dilation, strict=True)]
    # The padding before the mirrored array: that after the array, without what no window reaches.
    low = tuple(m - e - p for m, e, p in zip(moved, extents, window.low, strict=True))
    computation.set_op(inst, replace(op, window=replace(window, low=low, high=window.low)))
    computation.set_operand(inst, 0, computation.add(Reverse(every), [inst.operands[0]], array))
    computation.replace(inst, computation.add(Reverse(every), [inst], result))


def _factor(
    computation: Computation, value: Instruction, rng: np.random.Generator, times: int = 1
) -> Instruction | None:  # fmt: skip
    """An array of random numbers near 1, of the shape of `value`; None if its elements are not floats. For a
    large array the numbers vary along its longest dimension only. `times` multiplies their distances from 1.
    """
    shape = value.shape
    if not isinstance(shape, Shape) or not shape.dtype.is_inexact or shape.is_dynamic:
        return None
    real = shape.dtype.real
    low, high = (-3, 4) if real.bits >= 16 else (0, 2)
    along = tuple(range(shape.rank))
    if shape.size > MOST_FACTORS:
        along = (max(along, key=lambda k: shape.dims[k]),)
    steps = times * rng.integers(low, high, [shape.dims[k] for k in along])
    if shape.dtype.is_complex:  # the factor also rotates the value, which may be at a branch cut
        steps = steps + 1j * rng.integers(low, high, steps.shape)
    numbers = (1 + float(real.finfo.eps) * steps).astype(shape.dtype.numpy)
    return computation.add(
        Broadcast(shape, along), [computation.add(Constant.of(numbers, shape.dtype))], shape
    )
