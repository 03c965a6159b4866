"""Expands scan to a loop that takes slices of the inputs and writes slices of the outputs.

If a target has kernels for scans, an associative scan by a sum (or a similar op) becomes a reduce-window
whose window contains all elements up to the current one; these kernels compute it.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import Add, ReduceWindow, Scan, Tuple
from axla.ir.attributes import Window
from axla.ir.graph import Instruction, Module
from axla.ir.op import Op
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import expand, written
from axla.passes.matrix import repeat
from axla.passes.simplify.match import neutral
from axla.target.machine import Target


def scan_expander(module: Module, target: Target | None = None) -> None:
    """Writes every scan as a while, or as a reduce-window."""
    by_blocks = target is not None and target.limits.scans

    def expanded(inst: Instruction) -> Instruction | None:
        combine = _combiner(inst) if by_blocks else None
        return written(inst, _scan) if combine is None else written(inst, _window, combine)

    expand(module, "scan-expander", {Scan: expanded})


def _combiner(inst: Instruction) -> type[Op] | None:
    """The class of the op of an associative scan with one input whose output is the carry; None for other
    scans.
    """
    op = op_of(inst, Scan)
    root, parameters = op.to_apply.root, op.to_apply.parameters
    if not op.is_associative or len(parameters) != 2 or op.num_carries != 1:
        return None
    if not isinstance(root.op, Tuple) or len(root.operands) != 2 or root.operands[0] is not root.operands[1]:
        return None
    found = root.operands[0]
    free = found.op.associative and found.op.commutative and set(found.operands) == set(parameters)
    x, result = shape_of(inst.operands[0]), next(inst.shape.arrays())
    same = x.logical is result.logical and x.size > 0
    return type(found.op) if free and same and neutral(type(found.op), x.dtype) is not None else None


def _window(inst: Instruction, combine: type[Op], x: XlaOp, carry: XlaOp) -> Sequence[XlaOp]:
    """Computes a scan as a reduce-window by the op `combine` over all elements up to each one or, if the scan
    is reversed, from each one on. Returns the output and the final carry.
    """
    op = op_of(inst, Scan)
    (at,), dims, dtype = op.dimensions, x.dims, x.dtype
    own = neutral(combine, dtype)
    if combine is Add and dtype.is_inexact:  # adding -0.0 changes nothing
        own = complex(-0.0, -0.0) if dtype.is_complex else -0.0
    fill = x.builder.constant(Literal.scalar(dtype, own))
    sizes = tuple(n if d == at else 1 for d, n in enumerate(dims))
    before, none = tuple(n - 1 for n in sizes), (0,) * len(dims)
    window = Window(sizes, low=none if op.is_reverse else before, high=before if op.is_reverse else none)
    inner = XlaBuilder("combiner")
    pair = [inner.parameter(k, Shape(dtype)) for k in range(2)]
    together = x.builder.callee(inner.build(inner.add(combine(), pair)), "combiner")
    found = x.builder.add(ReduceWindow(window, together), (x, fill))
    start = ops.BroadcastInDim(carry, dims, [d for d in range(len(dims)) if d != at])
    result = x.builder.add(combine(), (start, found))
    last = (slice(None),) * at + (0 if op.is_reverse else dims[at] - 1,)
    return [result, result[last]]


def _scan(inst: Instruction, *given: XlaOp) -> Sequence[XlaOp]:
    op, builder = op_of(inst, Scan), given[0].builder
    count, at = len(given) - op.num_carries, op.dimensions[0]
    length = op.length([x.shape for x in given])
    shapes = list(inst.shape.arrays())
    outputs = [
        ops.Broadcast(ops.Zero(builder, s.dtype), s.dims) for s in shapes[: len(shapes) - op.num_carries]
    ]

    def step(k: XlaOp, *state: XlaOp) -> Sequence[XlaOp]:
        k = length - 1 - k if op.is_reverse else k
        inputs, carries, outputs = state[:count], state[count : len(given)], state[len(given) :]
        slices = [x[(slice(None),) * at + (k,)] for x in inputs]
        found = ops.Call(k.builder, op.to_apply, [*slices, *carries])
        values = list(found) if found.shape.is_tuple else [found]
        puts = [_put(o, v, at, k) for o, v in zip(outputs, values, strict=False)]
        return *inputs, *values[len(outputs) :], *puts

    end = repeat(length, [*given, *outputs], step)
    return *end[len(given) :], *end[count : len(given)]


def _put(x: XlaOp, value: XlaOp, at: int, place: XlaOp) -> XlaOp:
    """`x` with the slice at index `place` of dimension `at` replaced by `value`."""
    starts = [place if d == at else ops.ZerosLike(place) for d in range(len(x.dims))]
    sizes = [1 if d == at else n for d, n in enumerate(x.dims)]
    return ops.DynamicUpdateSlice(x, ops.Reshape(value, sizes), starts)
