"""Replaces arrays of dynamic size by arrays of their maximal size, with the actual sizes as extra values.

Elements beyond the actual size never affect a result: ops that combine elements replace them first
(`dynamic_rules`). As argument or result of a computation, an array with n dynamic dimensions is a tuple of
the padded array and n sizes. The entry takes sizes as additional parameters after its own, in the order of
leaves and dimensions, and returns the sizes of its result after the result: `(result, size, size...)`. The
entry layout still says which dimensions were dynamic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import axla.hlo as hlo
from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, ProgramShape, Shape, TupleShape
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first, post_order
from axla.passes.expand.dynamic_rules import applied
from axla.passes.expand.dynamic_values import Sized, bounds, static
from axla.passes.rewrite import current_session

PaddedValue = Sized | list["PaddedValue"] | Instruction
"""The padded form of a value: an array, a list for a tuple, or an instruction for a value without dynamic
sizes that is not an array.
"""


def dynamic_padder(module: Module) -> None:
    """Removes all dynamic shapes, and all ops that read, set or depend on dynamic sizes."""
    for computation in computations_callees_first(module):
        if any(map(_concerns, computation.instructions)):
            if not current_session().may_fire("dynamic-padder", computation.root):
                return
            _Padder(computation).run()


def _concerns(inst: Instruction) -> bool:
    sizes = hlo.GetDimensionSize | hlo.SetDimensionSize | hlo.DynamicReshape
    return isinstance(inst.op, sizes) or _is_dynamic(inst.shape)


def _is_dynamic(shape: AnyShape) -> bool:
    return any(leaf.is_dynamic for leaf in shape.arrays())


def _packed_shape(shape: AnyShape) -> AnyShape:
    """The shape of a value as argument or result of a computation: each dynamic array is a tuple of array and
    sizes.
    """
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
        self.values: dict[Instruction, PaddedValue] = {}
        # parameters with their declared shapes, as their shapes change first
        self.declared: dict[Instruction, AnyShape] = {}

    def shape(self, inst: Instruction) -> AnyShape:
        return self.declared.get(inst, inst.shape)

    def run(self) -> None:
        computation = self.computation
        is_entry = computation is computation.module.entry
        old = post_order(computation)
        if is_entry:
            self.enter()
        for inst in old:
            if inst not in self.values:
                self.values[inst] = self.value(inst)
        root = computation.root
        if is_entry and _is_dynamic(self.shape(root)):
            self.leave(root)
        else:
            computation.set_root(self.packed(self.values[root], self.shape(root)))
        for inst in reversed(old):
            if not inst.users and inst is not computation.root and not self.stays(inst):
                computation.remove(inst)
        _drop_edges_of_removed(computation)

    # Parameters and result of the entry

    def enter(self) -> None:
        """Gives parameters static shapes, and adds parameters for the actual sizes."""
        entry = self.computation
        before = tuple(entry.parameters)
        for parameter in before:
            shape = parameter.shape
            if _is_dynamic(shape):
                count = sum(sum(leaf.dynamic) for leaf in shape.arrays())
                first = len(entry.parameters)
                sizes = [
                    entry.add(hlo.Parameter(Shape(S32), first + n), name=f"{parameter.name}.size")
                    for n in range(count)
                ]
                self.declared[parameter] = shape
                entry.set_shape(parameter, bounds(shape))
                self.values[parameter] = self.unpacked(parameter, shape, iter(sizes))
        module, more = entry.module, len(entry.parameters) - len(before)
        layout = module.config.entry_layout or entry.program_shape
        parameters = (*layout.parameters[: len(before)], *[Shape(S32)] * more)
        module.set_config(entry_layout=ProgramShape(parameters, layout.result))

    def leave(self, root: Instruction) -> None:
        """Makes the root a tuple of the padded result and its actual sizes."""
        entry = self.computation
        sizes: list[Instruction] = []
        result = self.packed(self.values[root], self.shape(root), sizes)
        entry.set_root(entry.add(hlo.Tuple(), [result, *sizes]))
        module = entry.module
        layout = module.config.entry_layout
        assert layout is not None
        result_shape = TupleShape([layout.result, *[Shape(S32)] * len(sizes)])
        aliases = tuple(replace(a, output=(0, *a.output)) for a in module.config.aliases)
        module.set_config(entry_layout=ProgramShape(layout.parameters, result_shape), aliases=aliases)

    def stays(self, inst: Instruction) -> bool:
        """Whether an instruction without users must stay: a parameter, or one with side effects."""
        if isinstance(inst.op, hlo.Parameter):
            return True
        value = self.values[inst]
        return inst.op.side_effect and inst is (value.data if isinstance(value, Sized) else value)

    def value(self, inst: Instruction) -> PaddedValue:
        """The replacement of an instruction, as padded data with sizes."""
        op = inst.op
        if isinstance(op, hlo.GetTupleElement):
            whole = self.values[inst.operands[0]]
            if isinstance(whole, list):
                return whole[op.index]
        if isinstance(op, hlo.Constant) and isinstance(inst.shape, Shape) and inst.shape.is_dynamic:
            return Sized(
                self.computation.add(
                    hlo.Constant(static(inst.shape), Literal(static(inst.shape), op.literal.array))
                )
            )
        operands = [self.values[o] for o in inst.operands]
        if not _concerns(inst) and all(map(_is_plain, operands)):
            return self.same(inst, operands)
        if isinstance(op, hlo.Tuple):
            return operands
        if isinstance(op, hlo.Parameter):
            self.declared[inst] = inst.shape
            self.computation.set_shape(inst, _packed_shape(inst.shape))
            return self.unpacked(inst, op.shape)
        if _takes_tuples(op):
            given = zip(operands, inst.operands, strict=True)
            new = self.computation.add(op, [self.packed(v, self.shape(o)) for v, o in given])
            return self.unpacked(new, inst.shape)
        found: Any = applied(inst, [self.array(v, inst) for v in operands])
        # As in XLA, set-dimension-size keeps the sizes of other dimensions, whatever its shape declares.
        return found if isinstance(op, hlo.SetDimensionSize) else _declared(found, inst.shape)

    def same(self, inst: Instruction, operands: Sequence[PaddedValue]) -> PaddedValue:
        """Keeps an instruction that does not depend on dynamic sizes, with operands replaced if they
        changed.
        """
        calls = _takes_tuples(inst.op)  # computations take arrays with sizes as tuples
        for number, (value, old) in enumerate(zip(operands, inst.operands, strict=True)):
            new = (
                value.data if isinstance(value, Sized) and not calls else self.packed(value, self.shape(old))
            )
            if new is not old:
                self.computation.set_operand(inst, number, new)
        return Sized(inst) if isinstance(inst.shape, Shape) else inst

    def array(self, value: PaddedValue, inst: Instruction) -> Sized:
        if isinstance(value, Sized):
            return value
        if isinstance(value, Instruction):
            return Sized(value)
        raise UnsupportedError(f"{inst!r}: an operand that is a tuple with dynamic sizes is not supported")

    # Arguments and results of called computations

    def packed(
        self, value: PaddedValue, shape: AnyShape, sizes_out: list[Instruction] | None = None
    ) -> Instruction:
        """Packs a value into one instruction of the packed shape of `shape`. With a list `sizes_out`, the
        instruction has only the padded data, and the sizes are appended to the list.
        """
        if isinstance(value, Instruction):
            return value
        if isinstance(value, list):
            parts = [self.packed(v, s, sizes_out) for v, s in zip(value, shape.elements, strict=True)]
            return self.computation.add(hlo.Tuple(), parts)
        assert isinstance(shape, Shape)
        if not shape.is_dynamic:
            return value.data
        sizes = [value.size(d) for d, dynamic in enumerate(shape.dynamic) if dynamic]
        if sizes_out is None:
            return self.computation.add(hlo.Tuple(), [value.data, *sizes])
        sizes_out.extend(sizes)
        return value.data

    def unpacked(
        self, inst: Instruction, shape: AnyShape, sizes_in: Iterator[Instruction] | None = None
    ) -> PaddedValue:
        """The inverse of `packed`: the value that `inst` represents. With `sizes_in`, `inst` has only the
        padded data, and the sizes are taken from this iterator.
        """
        if isinstance(shape, TupleShape):
            if not _is_dynamic(shape):
                return inst
            return [
                self.unpacked(hlo.GetTupleElement(n)(inst), s, sizes_in) for n, s in enumerate(shape.elements)
            ]
        if not isinstance(shape, Shape):
            return inst
        if not shape.is_dynamic:
            return Sized(inst)
        data = inst
        if sizes_in is None:
            data = hlo.GetTupleElement(0)(inst)
            sizes_in = (hlo.GetTupleElement(1 + n)(inst) for n in range(sum(shape.dynamic)))
        return Sized(data, tuple(next(sizes_in) if dynamic else None for dynamic in shape.dynamic))


def _declared(value: Any, shape: Any) -> Any:
    """The value with the sizes of only those dimensions that its shape declares as dynamic; other dimensions
    count as full.
    """
    if isinstance(value, list):
        return [_declared(v, s) for v, s in zip(value, shape.elements, strict=True)]
    if not isinstance(value, Sized):
        return value
    return Sized(value.data, tuple(n if d else None for n, d in zip(value.sizes, shape.dynamic, strict=True)))


def _takes_tuples(op: Op) -> bool:
    return op.control or isinstance(op, hlo.OptBarrier)


def _is_plain(value: PaddedValue) -> bool:
    """Whether a value has no dynamic size."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, Instruction) or all(s is None for s in value.sizes)
