"""scan as a loop that takes slices of the inputs and puts slices of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import S32, S64
from axla.core.shape import Shape, TupleShape
from axla.hlo import (
    Add,
    Call,
    Compare,
    DynamicSlice,
    DynamicUpdateSlice,
    GetTupleElement,
    Parameter,
    Reshape,
    Scan,
    Subtract,
    Tuple,
    While,
)  # fmt: skip
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Instruction, Module
from axla.passes.expand.expander import expand, full, scalar, shape_of


def scan_expander(module: Module) -> None:
    """Writes every scan as a while."""
    expand(module, "scan-expander", {Scan: _loop})


def _loop(inst: Instruction) -> Instruction | None:
    op, computation = inst.op, inst.computation
    assert isinstance(op, Scan)
    count = len(inst.operands) - op.num_carries
    inputs, carries = inst.operands[:count], inst.operands[count:]
    length = op.length([o.shape for o in inst.operands])
    results = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    stacked = [
        full(computation, s, 0) for s in results[: len(results) - op.num_carries] if isinstance(s, Shape)
    ]
    counter = S32 if length < 1 << 31 else S64
    # The state: counter, inputs, carries, outputs.
    state = computation.add(Tuple(), [scalar(computation, counter, 0), *inputs, *carries, *stacked])
    condition, body = _condition(inst, state, length), _body(inst, state, count, length)
    end = While(condition, body)(state)
    first = 1 + len(inst.operands)
    order = [*range(first, first + len(stacked)), *range(1 + count, first)]
    parts = [GetTupleElement(n)(end) for n in order]
    return computation.add(Tuple(), parts) if isinstance(inst.shape, TupleShape) else parts[0]


def _condition(inst: Instruction, state: Instruction, length: int) -> Computation:
    made = inst.computation.module.add_computation("scan_condition")
    whole = made.add(Parameter(state.shape, 0), name="state")
    counter = GetTupleElement(0)(whole)
    made.set_root(Compare(Direction.LT)(counter, scalar(made, shape_of(counter).dtype, length)))
    return made


def _body(inst: Instruction, state: Instruction, count: int, length: int) -> Computation:
    op = inst.op
    assert isinstance(op, Scan) and isinstance(state.shape, TupleShape)
    made = inst.computation.module.add_computation("scan_body")
    whole = made.add(Parameter(state.shape, 0), name="state")
    parts = [GetTupleElement(n)(whole) for n in range(len(state.shape.elements))]
    counter, inputs, carries = parts[0], parts[1 : 1 + count], parts[1 + count : 1 + len(inst.operands)]
    outputs = parts[1 + len(inst.operands) :]
    dtype, at = shape_of(counter).dtype, op.dimensions[0]
    place = Subtract()(scalar(made, dtype, length - 1), counter) if op.is_reverse else counter
    zero = scalar(made, dtype, 0)
    slices = [_slice(x, at, place, zero) for x in inputs]
    found = made.add(Call(op.to_apply), [*slices, *carries])
    values = [found]
    if isinstance(found.shape, TupleShape):
        values = [GetTupleElement(n)(found) for n in range(len(found.shape.elements))]
    new = [_put(o, v, at, place, zero) for o, v in zip(outputs, values, strict=False)]
    following = Add()(counter, scalar(made, dtype, 1))
    made.set_root(made.add(Tuple(), [following, *inputs, *values[len(outputs) :], *new]))
    return made


def _slice(x: Instruction, at: int, place: Instruction, zero: Instruction) -> Instruction:
    """The slice of x at `place` of dimension `at`, without that dimension."""
    dims = shape_of(x).dims
    starts = [place if d == at else zero for d in range(len(dims))]
    window = tuple(1 if d == at else n for d, n in enumerate(dims))
    found = DynamicSlice(window)(x, *starts)
    return Reshape(shape_of(x).with_dims(_without(dims, at)).logical)(found)


def _put(x: Instruction, value: Instruction, at: int, place: Instruction, zero: Instruction) -> Instruction:
    """x with the slice at `place` of dimension `at` replaced."""
    dims = shape_of(x).dims
    starts = [place if d == at else zero for d in range(len(dims))]
    window = shape_of(x).with_dims([1 if d == at else n for d, n in enumerate(dims)]).logical
    return DynamicUpdateSlice()(x, Reshape(window)(value), *starts)


def _without(dims: Sequence[int], at: int) -> tuple[int, ...]:
    return (*dims[:at], *dims[at + 1 :])
