"""Functions that expansions share: running one over a module, building with a builder, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from axla.core.dtypes import DType
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape
from axla.hlo import Broadcast, Constant, Convert, Tuple
from axla.ir.clone import clone_computation, copy_instructions
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module
from axla.ir.op import Op
from axla.ir.typed import shape_of
from axla.passes.rewrite import current_session
from axla.passes.simplify.inline import control_successors

if TYPE_CHECKING:
    from axla.builder.xla_builder import XlaOp

Expansion = Callable[[Instruction[Any]], Instruction | None]
Waiting = dict[Instruction, dict[Instruction, None]]
"""Maps an instruction to the instructions that have it as a control predecessor."""


def expand(module: Module, name: str, kinds: Mapping[type[Op], Expansion]) -> None:
    """Replaces every instruction whose op has a class in `kinds` by the result of that class's function; None
    means no change. `name` is that of the pass.
    """
    session = current_session()
    for computation in list(module.computations):
        found = [inst for inst in computation.instructions if type(inst.op) in kinds]
        waiting = {p: dict.fromkeys(w) for p, w in control_successors(computation).items()} if found else {}
        for inst in found:
            count = len(computation.instructions)
            users = tuple(inst.users)
            new = kinds[type(inst.op)](inst)
            if new is None or not session.may_fire(name, inst):
                continue
            made = list(islice(reversed(computation.instructions), len(computation.instructions) - count))
            _describe(inst, made)
            _move_control_edges(inst, new, made, waiting)
            computation.replace(inst, new, users)
            computation.remove(inst)


def _describe(old: Instruction, made: Sequence[Instruction]) -> None:
    """Gives new instructions the source location of the one that they replace."""
    if old.extra is NO_EXTRA or old.extra.location is None:
        return
    location = Extra(location=old.extra.location)
    for inst in made:
        if inst.extra is NO_EXTRA:
            inst.computation.set_extra(inst, location)


def _move_control_edges(
    old: Instruction, new: Instruction, made: Sequence[Instruction], waiting: Waiting
) -> None:
    """Makes instructions that waited for the old instruction wait for the new one, and all new instructions
    wait for the control predecessors of the old one.
    """
    computation, before = old.computation, old.extra.control_predecessors
    for inst in made:
        if before:
            found = (*inst.extra.control_predecessors, *before)
            computation.set_extra(inst, replace(inst.extra, control_predecessors=found))
        for p in inst.extra.control_predecessors:
            waiting.setdefault(p, {})[inst] = None
    for p in before:
        waiting.get(p, {}).pop(old, None)
    for inst in waiting.pop(old, ()):
        found = tuple(new if p is old else p for p in inst.extra.control_predecessors)
        computation.set_extra(inst, replace(inst.extra, control_predecessors=found))
        waiting.setdefault(new, {})[inst] = None


# Programs written with a builder


def written(inst: Instruction, write: Callable[..., Sequence[XlaOp]], *more: Any) -> Instruction:
    """Builds a program by `write(inst, *more, *operands)`, and inserts it into the computation of `inst`.
    Returns the result of the program.
    """
    from axla.builder import ops  # imported here, as many programs do not need the builder
    from axla.builder.xla_builder import XlaBuilder

    builder = XlaBuilder(inst.opcode)
    given = [builder.parameter(k, o.shape.logical) for k, o in enumerate(inst.operands)]
    types = (s.dtype for s in inst.shape.arrays())
    found = [typed(x, dtype) for x, dtype in zip(write(inst, *more, *given), types, strict=True)]
    program = builder.build(ops.Tuple(builder, found) if inst.shape.is_tuple else found[0]).module
    body = embedded(program, inst)
    copies = copy_instructions(body, inst.computation, dict(zip(body.parameters, inst.operands, strict=True)))
    body.module.remove_computation(body)
    return copies[body.root]


def embedded(program: Module, inst: Instruction) -> Computation:
    """Copies a program into the module of the call `inst`, with the source location of the call. Returns the
    copy of the program's entry.
    """
    mapping: dict[Computation, Computation] = {}
    found = clone_computation(program.entry, inst.computation.module, mapping=mapping)
    for computation in mapping.values():
        for one in computation.instructions:
            computation.set_extra(one, replace(one.extra, location=inst.extra.location))
    return found


def typed(x: XlaOp, dtype: DType) -> XlaOp:
    """`x` converted to the element type `dtype`."""
    from axla.builder import ops

    return x if x.dtype is dtype else ops.ConvertElementType(x, dtype)


# Instructions that expansions build


def scalar(computation: Computation, dtype: DType, value: object) -> Instruction:
    """Adds a scalar constant to a computation."""
    return computation.add(Constant.of(Literal.scalar(dtype, value).array, dtype))


def full(computation: Computation, shape: Shape, value: object) -> Instruction:
    """An array of the given shape in which every element is `value`."""
    return spread(scalar(computation, shape.dtype, value), shape)


def spread(x: Instruction, shape: Shape, dimensions: Sequence[int] = ()) -> Instruction:
    """`x` broadcast to `shape`: dimension k of x is dimension `dimensions[k]` of the result."""
    wanted = shape.with_dtype(shape_of(x).dtype).logical
    return x if shape_of(x).dims == wanted.dims else Broadcast(wanted, tuple(dimensions))(x)


def packed(shape: AnyShape, values: Sequence[Instruction]) -> Instruction:
    """One value of the given shape: a tuple of the values, or the only value."""
    return values[0].computation.add(Tuple(), values) if shape.is_tuple else values[0]


def converted(x: Instruction, dtype: DType) -> Instruction:
    """`x` converted to the element type `dtype`."""
    shape = shape_of(x)
    return x if shape.dtype is dtype else Convert(shape.with_dtype(dtype).logical)(x)
