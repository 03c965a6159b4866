"""What a module has to do: operations and bytes, counted by the conventions of XLA's cost analysis.

A multiplication with an addition is two operations. Transcendental functions are counted apart. An
instruction accesses its operands and its result, or of large operands what it needs of them. Loops count as
often as they are known to run; where that is not known, once, and the count is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, gcd, log2, prod

import axla.hlo as hlo
from axla.analysis.trip_count import trip_count
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import Elementwise
from axla.ir.attributes import Window
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first, post_order
from axla.ir.typed import op_of

_PRODUCTS_OF_COMPLEX = 4
_MOST_TAPS = 4096


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations, transcendental functions, bytes accessed; `exact` unless a loop's trips are not known."""

    operations: int = 0
    transcendentals: int = 0
    bytes: int = 0
    exact: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations, self.transcendentals + other.transcendentals,
            self.bytes + other.bytes, self.exact and other.exact,
        )  # fmt: skip

    def times(self, count: int) -> Cost:
        return Cost(self.operations * count, self.transcendentals * count, self.bytes * count, self.exact)


def cost(module: Module) -> Cost:
    """The cost of one run of a module."""
    return _costs(module)[module.entry]


def entry_costs(module: Module) -> dict[Instruction, Cost]:
    """The cost of each instruction of a module's entry."""
    known = _costs(module)
    return {inst: _of(inst, known) for inst in module.entry.instructions}


def _costs(module: Module) -> dict[Computation, Cost]:
    found: dict[Computation, Cost] = {}
    for computation in computations_callees_first(module):
        total = Cost()
        for inst in post_order(computation):
            total += _of(inst, found)
        found[computation] = total
    return found


def _of(inst: Instruction, known: dict[Computation, Cost]) -> Cost:
    op = inst.op
    if isinstance(op, hlo.While):
        trips = trip_count(inst)
        once = known[op.body] + known[op.condition]
        if trips is None:
            return Cost(once.operations, once.transcendentals, once.bytes, False)
        return once.times(trips)
    if isinstance(op, hlo.Conditional):
        return max((known[c] for c in op.computations()), key=lambda c: (c.operations, c.bytes))
    if isinstance(op, hlo.Call):
        return sum((known[c] for c in op.computations()), Cost())
    moves = not isinstance(op, hlo.Parameter | hlo.Constant | hlo.Tuple | hlo.GetTupleElement | hlo.Bitcast)
    moved = _bytes(inst) if moves else 0
    if isinstance(op, hlo.Fusion):
        inside = sum((known[c] for c in op.computations()), Cost())
        return Cost(inside.operations, inside.transcendentals, moved, inside.exact)
    if isinstance(op, Elementwise):
        count = _elements(inst.shape)
        shape = inst.shape
        if op.transcendental and isinstance(shape, Shape) and shape.dtype.is_inexact:
            return Cost(0, count, moved)
        return Cost(count, 0, moved)
    applied = sum((known[c] for c in op.computations()), Cost())
    count = _COUNTS.get(type(op))
    if count is None:
        return Cost(bytes=moved)
    times = count(inst)
    if not op.computations() or isinstance(op, hlo.Sort):
        return Cost(times, 0, moved)
    return Cost(applied.operations * times, applied.transcendentals * times, moved, applied.exact)


def _elements(shape: AnyShape) -> int:
    return sum(leaf.size for leaf in shape.leaves() if isinstance(leaf, Shape))


def _size(shape: AnyShape) -> int:
    return sum(leaf.byte_size for leaf in shape.leaves() if isinstance(leaf, Shape))


def _bytes(inst: Instruction) -> int:
    op = inst.op
    operands = [_size(operand.shape) for operand in inst.operands]
    if isinstance(op, hlo.Slice | hlo.DynamicSlice | hlo.Gather):
        return 2 * _size(inst.shape) + sum(operands[1:])
    if isinstance(op, hlo.DynamicUpdateSlice):
        return 2 * operands[1] + sum(operands[2:])
    if isinstance(op, hlo.Scatter):
        arrays = len(operands) // 2
        return operands[arrays] + 3 * sum(operands[arrays + 1 :])
    return sum(operands) + _size(inst.shape)


def _shape(inst: Instruction, operand: int | None = None) -> Shape:
    found = inst.shape if operand is None else inst.operands[operand].shape
    leaf = next(leaf for leaf in found.leaves() if isinstance(leaf, Shape))
    return leaf


def _dot(inst: Instruction) -> int:
    op = op_of(inst, hlo.Dot)
    lhs = _shape(inst, 0)
    return 2 * _shape(inst).size * prod(lhs.dims[d] for d in op.lhs_contracting_dims)


def _convolution(inst: Instruction) -> int:
    """Products with elements that are there, not with padding or what is between dilated elements."""
    op = op_of(inst, hlo.Convolution)
    lhs, rhs, labels = _shape(inst, 0), _shape(inst, 1), op.dim_labels
    window = op.window
    places = prod(
        _valid(window, k, lhs.dims[d], _shape(inst).dims[labels.output_spatial[k]])
        for k, d in enumerate(labels.input_spatial)
    )
    batch = lhs.dims[labels.input_batch] // op.batch_group_count
    return 2 * places * batch * rhs.dims[labels.kernel_input] * rhs.dims[labels.kernel_output]


def _valid(window: Window, k: int, size: int, made: int) -> int:
    """Pairs of a place in the result and one in the window that meet an element, in one dimension. Of a very
    large window, every n-th place counts n times.
    """
    stride, low, base = window.stride[k], window.low[k], window.base_dilation[k]
    common = gcd(stride, base)
    period = base // common  # places in the result that meet the same element of the base's period
    inverse = pow(stride // common, -1, period)
    every = -(-window.size[k] // _MOST_TAPS)
    taps = range(0, window.size[k], every)
    count = 0
    for tap in taps:
        start = tap * window.window_dilation[k] - low
        if start % common:
            continue
        first = max(0, -(start // stride))
        first += (-start // common * inverse - first) % period
        stop = min(made - 1, ((size - 1) * base - start) // stride)
        count += max(0, (stop - first) // period + 1)
    return count * window.size[k] // max(1, len(taps))


def _reduce(inst: Instruction) -> int:
    return _shape(inst, 0).size - _shape(inst).size


def _reduce_window(inst: Instruction) -> int:
    op = op_of(inst, hlo.ReduceWindow)
    return (prod(op.window.size) - 1) * _shape(inst).size


def _select_and_scatter(inst: Instruction) -> int:
    op = op_of(inst, hlo.SelectAndScatter)
    return prod(op.window.size) * _shape(inst, 1).size


def _scatter(inst: Instruction) -> int:
    return _shape(inst, len(inst.operands) // 2 + 1).size


def _sort(inst: Instruction) -> int:
    size = _shape(inst, 0).size
    return size * max(ceil(log2(size)), 1) if size else 0


def _fft(inst: Instruction) -> int:
    op = op_of(inst, hlo.Fft)
    steps = sum(int(log2(length)) for length in op.fft_length if length > 0)
    return 2 * _PRODUCTS_OF_COMPLEX * steps * max(_shape(inst).size, _shape(inst, 0).size)


def _cholesky(inst: Instruction) -> int:
    shape = _shape(inst, 0)
    return shape.size * shape.dims[-1] // 3


def _triangular_solve(inst: Instruction) -> int:
    return 2 * _shape(inst).size * _shape(inst, 0).dims[-1]


_COUNTS: dict[type[Op], Callable[[Instruction], int]] = {
    hlo.Dot: _dot, hlo.Convolution: _convolution, hlo.Reduce: _reduce, hlo.ReduceWindow: _reduce_window,
    hlo.SelectAndScatter: _select_and_scatter, hlo.Scatter: _scatter, hlo.Sort: _sort, hlo.Fft: _fft,
    hlo.Cholesky: _cholesky, hlo.TriangularSolve: _triangular_solve, hlo.Map: lambda inst: _shape(inst).size,
}  # fmt: skip
