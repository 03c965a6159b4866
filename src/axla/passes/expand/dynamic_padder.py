"""Arrays of dynamic size as arrays of their bounds, with the sizes as values beside them.

What lies behind the actual size is never seen: ops that combine elements replace it first (`dynamic_rules`).
Where computations are called, an array with n dynamic dimensions is the tuple of the whole array and n sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import (
    Call,
    Conditional,
    GetDimensionSize,
    GetTupleElement,
    OptBarrier,
    Parameter,
    SetDimensionSize,
    Tuple,
    While,
)
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first, post_order
from axla.passes.expand.dynamic_rules import Sized, applied, static
from axla.passes.rewrite import current_session

Value = Sized | list["Value"] | Instruction
"""An array, a tuple, or what has no dynamic size anywhere and is no array."""

CALLS = (While, Conditional, Call, OptBarrier)


def dynamic_padder(module: Module) -> None:
    """Leaves no dynamic shape, no get-dimension-size and no set-dimension-size."""
    for computation in computations_callees_first(module):
        if any(map(_concerns, computation.instructions)):
            if not current_session().may_fire("dynamic-padder", computation.root):
                return
            _Padder(computation).run()


def _concerns(inst: Instruction) -> bool:
    return isinstance(inst.op, GetDimensionSize | SetDimensionSize) or _is_dynamic(inst.shape)


def _is_dynamic(shape: AnyShape) -> bool:
    return any(isinstance(leaf, Shape) and leaf.is_dynamic for leaf in shape.leaves())


def _packed_shape(shape: AnyShape) -> AnyShape:
    """The shape of a value where computations are called."""
    if isinstance(shape, TupleShape):
        return TupleShape([_packed_shape(s) for s in shape.elements])
    if isinstance(shape, Shape) and shape.is_dynamic:
        return TupleShape([static(shape), *[Shape(S32)] * sum(shape.dynamic)])
    return shape


def _drop_edges_of_removed(computation: Computation) -> None:
    for inst in computation.instructions:
        before = inst.extra.control_predecessors
        kept = tuple(p for p in before if p in computation.instructions)
        if len(kept) < len(before):
            computation.set_extra(inst, replace(inst.extra, control_predecessors=kept))


class _Padder:
    def __init__(self, computation: Computation):
        self.computation = computation
        self.values: dict[Instruction, Value] = {}

    def run(self) -> None:
        computation = self.computation
        is_entry = computation is computation.module.entry
        old = post_order(computation)
        for inst in old:
            if is_entry and isinstance(inst.op, Parameter) and _is_dynamic(inst.shape):
                raise UnsupportedError(f"{inst!r}: generated code takes arrays of fixed sizes only")
            self.values[inst] = self.value(inst)
        root = computation.root
        if is_entry and _is_dynamic(root.shape):
            raise UnsupportedError(f"{root!r}: generated code gives arrays of fixed sizes only")
        computation.set_root(self.packed(self.values[root], root.shape))
        for inst in reversed(old):
            if not inst.users and inst is not computation.root and not self.stays(inst):
                computation.remove(inst)
        _drop_edges_of_removed(computation)

    def stays(self, inst: Instruction) -> bool:
        """Whether an instruction without users is there for itself."""
        if isinstance(inst.op, Parameter):
            return True
        value = self.values[inst]
        return inst.op.side_effect and inst is (value.data if isinstance(value, Sized) else value)

    def value(self, inst: Instruction) -> Value:
        """What takes the place of an instruction."""
        op = inst.op
        if isinstance(op, GetTupleElement):
            whole = self.values[inst.operands[0]]
            if isinstance(whole, list):
                return whole[op.index]
        operands = [self.values[o] for o in inst.operands]
        if not _concerns(inst) and all(map(_is_plain, operands)):
            return self.same(inst, operands)
        if isinstance(op, Tuple):
            return operands
        if isinstance(op, Parameter):
            self.computation.set_shape(inst, _packed_shape(inst.shape))
            return self.unpacked(inst, op.shape)
        if isinstance(op, CALLS):
            given = zip(operands, inst.operands, strict=True)
            new = self.computation.add(op, [self.packed(v, o.shape) for v, o in given])
            return self.unpacked(new, inst.shape)
        arrays = [self.array(v, inst) for v in operands]
        found: Any = applied(inst, arrays)
        return found

    def same(self, inst: Instruction, operands: Sequence[Value]) -> Value:
        """An instruction that knows of no dynamic size; its operands may have been made anew."""
        for number, (value, old) in enumerate(zip(operands, inst.operands, strict=True)):
            new = self.packed(value, old.shape)
            if new is not old:
                self.computation.set_operand(inst, number, new)
        return Sized(inst) if isinstance(inst.shape, Shape) else inst

    def array(self, value: Value, inst: Instruction) -> Sized:
        if isinstance(value, Sized):
            return value
        if isinstance(value, Instruction):
            return Sized(value)
        raise UnsupportedError(f"{inst!r}: a tuple with dynamic sizes is not supported here")

    # -- where computations are called ------------------------------------------------------------------

    def packed(self, value: Value, shape: AnyShape) -> Instruction:
        """A value as one instruction, of the packed shape of `shape`."""
        if isinstance(value, Instruction):
            return value
        if isinstance(value, list):
            assert isinstance(shape, TupleShape)
            parts = [self.packed(v, s) for v, s in zip(value, shape.elements, strict=True)]
            return self.computation.add(Tuple(), parts)
        assert isinstance(shape, Shape)
        if any(s is not None and not d for s, d in zip(value.sizes, shape.dynamic, strict=True)):
            raise UnsupportedError(f"{value.data!r}: is of dynamic size, though its shape {shape} is not")
        if not shape.is_dynamic:
            return value.data
        sizes = [value.size(d) for d, dynamic in enumerate(shape.dynamic) if dynamic]
        return self.computation.add(Tuple(), [value.data, *sizes])

    def unpacked(self, inst: Instruction, shape: AnyShape) -> Value:
        """The value that an instruction of the packed shape of `shape` stands for."""
        if isinstance(shape, TupleShape):
            if not _is_dynamic(shape):
                return inst
            return [self.unpacked(GetTupleElement(n)(inst), s) for n, s in enumerate(shape.elements)]
        if not isinstance(shape, Shape):
            return inst
        if not shape.is_dynamic:
            return Sized(inst)
        sizes: list[Instruction | None] = [None] * shape.rank
        dynamic = [d for d, marked in enumerate(shape.dynamic) if marked]
        for number, d in enumerate(dynamic):
            sizes[d] = GetTupleElement(1 + number)(inst)
        return Sized(GetTupleElement(0)(inst), tuple(sizes))


def _is_plain(value: Value) -> bool:
    """Whether a value has no dynamic size."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, Instruction) or all(s is None for s in value.sizes)
