"""Rules of algsimp for tuples, conditionals, loops and maps with a result that is known at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.core.shape import Shape
from axla.hlo import Broadcast, Call, Conditional, Convert, Map, OptBarrier, While
from axla.ir.graph import Computation, Instruction
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import dtype_of, is_all, uniform

LONGEST = 300
"""The most instructions of a computation that replaces a map. Maps nested n deep can stand for 2^n
instructions.
"""


@rule(GetTupleElement)
@rule(GetTupleElement, group="tuple-simplifier")
def element_of_tuple(root: Instruction, of: Instruction) -> Rewritten:
    """get-tuple-element(tuple(..., x, ...)) => x"""
    return of.operands[op_of(root, GetTupleElement).index] if type(of.op) is Tuple else None


@rule(Tuple)
@rule(Tuple, group="tuple-simplifier")
def tuple_of_elements(root: Instruction, *operands: Instruction) -> Rewritten:
    """tuple(get-tuple-element(t, 0), get-tuple-element(t, 1), ...) => t, if these are all elements of t"""
    if not operands or type(operands[0].op) is not GetTupleElement:
        return None
    whole = operands[0].operands[0]
    if whole.shape.logical is not root.shape.logical:
        return None
    for number, element in enumerate(operands):
        op = element.op
        if not isinstance(op, GetTupleElement) or op.index != number or element.operands[0] is not whole:
            return None
    return whole


@rule(While)
def while_false(root: Instruction, start: Instruction) -> Rewritten:
    """while(x) => x, for a condition that is always false"""
    test = op_of(root, While).condition.root
    return start if type(test.op) is Constant and is_all(test, 0) else None


@rule(Conditional)
def conditional_known(root: Instruction, index: Instruction, *operands: Instruction) -> Rewritten:
    """conditional(constant, x, y) => call(x) or call(y)"""
    op = op_of(root, Conditional)
    value = uniform(index)
    if len(op.branches) == 1:
        chosen = 0
    elif value is None:
        return None
    elif dtype_of(index).is_pred:
        chosen = 0 if value else 1
    else:
        chosen = int(value) if 0 <= int(value) < len(operands) else len(operands) - 1
    return Call(op.branches[chosen])(operands[chosen])


@rule(Map, group="map-inliner")
@rule(Map)
def map_of_elementwise(root: Instruction, *operands: Instruction) -> Rewritten:
    """map(x, y), to_apply=f => f(x, y), if f consists of elementwise ops"""
    body = op_of(root, Map).to_apply
    return over_arrays(body, operands, shape_of(root)) if is_elementwise(body, operands) else None


def is_elementwise(body: Computation, operands: Sequence[Instruction]) -> bool:
    """Whether a computation on scalars consists of at most LONGEST instructions, all elementwise. False also
    if a complex operand belongs to a real parameter, or the reverse.
    """
    pairs = zip(body.parameters, operands, strict=True)
    return (
        len(body.instructions) <= LONGEST
        and all(map(_is_plain_scalar, body.instructions))
        and all(dtype_of(p).is_complex is dtype_of(o).is_complex for p, o in pairs)
    )


def _is_plain_scalar(inst: Instruction) -> bool:
    plain = inst.op.elementwise or type(inst.op) in (Constant, Parameter)
    scalar = isinstance(inst.shape, Shape) and not inst.shape.rank
    return plain and scalar and not inst.extra.control_predecessors


def over_arrays(body: Computation, operands: Sequence[Instruction], result: Shape) -> Instruction:
    """Applies a computation of elementwise ops on scalars to arrays, element by element. `result` is the
    shape of the arrays.
    """
    values: dict[Instruction, Instruction] = {}
    target = operands[0].computation
    for parameter, operand in zip(body.parameters, operands, strict=True):
        same = dtype_of(parameter) is dtype_of(operand)
        values[parameter] = (
            operand if same else Convert(result.with_dtype(dtype_of(parameter)).logical)(operand)
        )
    for inst in post_order(body):
        if inst in values:
            continue
        op, shape = inst.op, result.with_dtype(dtype_of(inst)).logical
        if type(op) is Constant:
            scalar = target.add(op)
            values[inst] = Broadcast(shape, ())(scalar) if shape.rank else scalar
        else:
            if op.holds_shape:
                op = replace(op, shape=shape)
            values[inst] = target.add(op, [values[o] for o in inst.operands], shape)
    return values[body.root]


@rule(OptBarrier, group="optimization-barrier-expander")
def barrier(root: Instruction, x: Instruction) -> Rewritten:
    """opt-barrier(x) => x, after all passes that it must stop"""
    return x
