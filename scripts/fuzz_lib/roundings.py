"""Roundings: which instructions round, and modules that compute the same with other roundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.analysis.rounding import APPROXIMATE, SUMS, is_approximate
from axla.core.dtypes import F32, F64, PRED
from axla.core.shape import Shape
from axla.ir.attributes import Direction, PaddingConfig, Window
from axla.ir.clone import clone_module
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import below
from axla.passes.simplify.match import neutral

SHAKEN_ZEROS = 10
"""The number of runs with other signs of the zeros of products of matrices."""


def reduced_otherwise(module: Module) -> list[Module]:
    """Modules with other orders and types of the reductions, which may give other results near zero and
    infinity.
    """
    ways = (widened(module), widened(module, flushes=True), regrouped(module), regrouped(module, last=True))
    dots = any(isinstance(i.op, hlo.Dot) for c in module.computations for i in c.instructions)
    return [*ways, *(signed_zeros(module, seed) for seed in range(SHAKEN_ZEROS if dots else 0))]


def signed_zeros(module: Module, seed: int) -> Module:
    """The module in which zeros of products of matrices have the other sign: all of them (seed 0), or half of
    them, by chance. The sign depends on the order, and on whether a sum of one product begins with zero.
    """
    made, rng = clone_module(module), np.random.default_rng(seed)
    for computation in list(made.computations):
        for inst in list(computation.instructions):
            if isinstance(inst.op, hlo.Dot) and inst.shape.dtype.is_float and not inst.shape.is_dynamic:
                users, which = list(inst.users), rng.random(inst.shape.dims) < (0.5 if seed else 2)
                mask = computation.add(hlo.Constant.of(np.asarray(which), PRED))
                zeros = hlo.And()(hlo.Compare(Direction.EQ)(inst, _full(inst, 0)), mask)
                other = hlo.Select()(zeros, hlo.Negate()(inst), inst)
                computation.set_shape(other, inst.shape)
                computation.replace(inst, other, users)
    return made


def widened(module: Module, flushes: bool = False) -> Module:
    """The module in which reductions of short floats by one op are computed in f32, as compiled code may do;
    no order in the short type need give a similar result. Products of f32 are computed in f64, without
    denormals: these become zeros if it `flushes`, else the next larger numbers, as each order of factors
    rounds them in another way.
    """
    made = clone_module(module)
    for computation in list(made.computations):
        for inst in filter(_is_plain, list(computation.instructions)):
            short, root = inst.operands[0].shape.dtype, inst.op.to_apply.root
            product = short is F32 and isinstance(root.op, hlo.Multiply)
            if not (short.is_float and short.bits <= 16 or product):
                continue
            body, dtype = made.add_computation("wide"), F64 if product else F32
            values = [body.add(hlo.Parameter(Shape(dtype), n)) for n in range(2)]
            body.set_root(root.op(*(values[o.op.parameter_number] for o in root.operands)))
            wide = [hlo.Convert(o.shape.with_dtype(dtype))(o) for o in inst.operands]
            new = replace(inst.op, to_apply=body)(*wide)
            if product:
                zero, least, few = (_full(new, n) for n in (0, 2.0**-149, 2.0**-147))
                few = hlo.Compare(Direction.LT)(hlo.Abs()(new), few)
                zeros = hlo.Select()(few, hlo.Multiply()(new, zero), new)
                new = zeros if flushes else hlo.Add()(new, hlo.Multiply()(hlo.Sign()(new), least))
            computation.replace(inst, hlo.Convert(inst.shape)(new))
    return made


def _is_plain(inst: Instruction) -> bool:
    """Whether an instruction reduces one array by one op."""
    if not isinstance(inst.op, hlo.Reduce | hlo.ReduceWindow) or len(inst.operands) != 2:
        return False
    return {o.opcode for o in inst.op.to_apply.root.operands} == {"parameter"}


def _full(inst: Instruction, value: float) -> Instruction:
    """An array with the shape of `inst`, all of whose elements are `value`."""
    number = hlo.Constant.of(np.array(value, inst.shape.dtype.numpy), inst.shape.dtype)
    return hlo.Broadcast(inst.shape.logical, ())(inst.computation.add(number))


def regrouped(module: Module, last: bool = False) -> Module:
    """The module in which each reduction of floats by one op, also one of windows, has two steps, as with
    vectors and blocks: first elements that are far apart are combined, then the results of this. Partial
    products reach zeros and infinities in one order only. `last`: the initial value comes last.
    """
    made = clone_module(module)
    for computation in list(made.computations):
        for inst in filter(_is_plain, list(computation.instructions)):
            array, dtype = inst.operands[0].shape, inst.operands[0].shape.dtype
            start = neutral(type(inst.op.to_apply.root.op), dtype)
            if start is not None and dtype.is_inexact and not array.is_dynamic and array.size:
                number = computation.add(hlo.Constant.of(np.array(start, dtype.numpy), dtype))
                split = _split_window if isinstance(inst.op, hlo.ReduceWindow) else _split
                split(inst, number)
                if last:
                    new = inst.op.to_apply.root.op(
                        inst, hlo.Broadcast(inst.shape.logical, ())(inst.operands[1])
                    )
                    computation.replace(inst, new)
                    computation.set_operand(inst, 1, number)
    return made


def _split(inst: Instruction, start: Instruction) -> None:
    """Makes a reduce reduce the results of another one, which combines every n-th element along the longest
    reduced dimension.
    """
    array, op = inst.operands[0], inst.op
    dims, rank = array.shape.dims, array.shape.rank
    if not op.dimensions:
        return
    d = max(op.dimensions, key=lambda k: dims[k])
    lanes = isqrt(dims[d])
    rows = -(-dims[d] // lanes)
    high = tuple(rows * lanes - dims[d] if k == d else 0 for k in range(rank))
    padded = hlo.Pad(PaddingConfig((0,) * rank, high))(array, start)
    apart = hlo.Reshape(Shape(array.shape.dtype, (*dims[:d], rows, lanes, *dims[d + 1 :])))(padded)
    inst.computation.set_operand(inst, 0, hlo.Reduce((d,), op.to_apply)(apart, start))


def _split_window(inst: Instruction, start: Instruction) -> None:
    """Makes a reduce-window combine the results of smaller windows."""
    array, window = inst.operands[0], inst.op.window
    d = max(range(window.rank), key=lambda k: window.size[k], default=0)
    sizes = [n for n in range(2, isqrt(max(window.size, default=0)) + 1) if window.size[d] % n == 0]
    if not sizes:
        return

    def there(value: int, others: Sequence[int]) -> tuple[int, ...]:
        return tuple(value if k == d else others[k] for k in range(window.rank))

    one, none, least = (1,) * window.rank, (0,) * window.rank, sizes[-1]
    dilation = window.window_dilation[d]
    first = Window(
        size=there(least, one),
        low=there(window.low[d], none),
        high=there(window.high[d], none),
        base_dilation=there(window.base_dilation[d], one),
        window_dilation=there(dilation, one),
    )
    rest = replace(
        window,
        size=there(window.size[d] // least, window.size),
        low=there(0, window.low),
        high=there(0, window.high),
        base_dilation=there(1, window.base_dilation),
        window_dilation=there(dilation * least, window.window_dilation),
    )
    part = replace(inst.op, window=first)(array, start)
    inst.computation.set_operand(inst, 0, part)
    inst.computation.set_op(inst, replace(inst.op, window=rest))


def approximates(inst: Instruction) -> bool:
    """Whether compiled code may give other bits for an instruction. A polynomial by Horner's rule may be
    rounded once per step.
    """
    steps = _is_step(inst) and any(_is_step(p) for o in inst.operands for p in o.operands)
    return is_approximate(inst) or (steps and inst.shape.dtype.is_inexact)


def _is_step(inst: Instruction) -> bool:
    """Whether an instruction adds to a product, or subtracts from one."""
    adds = isinstance(inst.op, hlo.Add | hlo.Subtract)
    return adds and any(isinstance(o.op, hlo.Multiply) for o in inst.operands)


def is_rough(module: Module) -> bool:
    return any(approximates(i) for c in module.computations for i in c.instructions)


def is_summing(module: Module) -> bool:
    """Whether a sum in the module may overflow in one order and not in another."""
    return any(
        approximates(i) and (i.opcode in SUMS | APPROXIMATE)
        for c in module.computations
        for i in c.instructions
    )


def rough_leaves(module: Module) -> list[bool]:
    """For each result leaf, whether it depends on an approximate instruction."""
    known: dict[Any, bool] = {}
    done: set[Any] = set()

    def rough_computation(c: Any) -> bool:
        return any(
            approximates(i) or any(map(rough_computation, i.op.computations())) for i in c.instructions
        )

    def rough(inst: Any) -> bool:
        for one in below(inst, done):
            known[one] = (
                any(known[o] for o in one.operands)
                or approximates(one)
                or any(rough_computation(c) for c in one.op.computations())
            )
        return known[inst]

    root = module.entry.root
    if isinstance(root.op, hlo.Tuple):
        return [rough(o) for o in root.operands for _ in o.shape.arrays()]
    return [rough(root)] * len(list(root.shape.arrays()))
