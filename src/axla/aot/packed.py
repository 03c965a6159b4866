"""Packs s4 and u4 arguments and results of a library, two elements per byte. Inside the program, each element
has a byte.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from axla.aot.build import Example, Label
from axla.aot.graph_ends import element, flattened, result_indices
from axla.core.dtypes import S4, U4, U8
from axla.core.literal import Literal
from axla.core.shape import Shape, show
from axla.hlo import BitcastConvert, Call, Constant, Pad, Parameter, Reshape, Slice, Tuple
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.graph import Computation, Instruction


def packed(example: Example) -> Example:
    """The same program, with each argument and result of n elements of s4 or u4 as u8[(n + 1) / 2]."""
    source, inputs = example.source, example.inputs
    module = flattened(source.module)
    inner, indices = module.entry, result_indices(module)
    places = {index: (k,) if len(indices) > 1 else () for k, index in enumerate(indices)}
    entry = module.add_computation("packed", entry=True)
    values = []
    for number, old in enumerate(inner.parameters):
        value = entry.add(Parameter(_outside(old.shape), number), stem=old.name, extra=old.extra)
        values.append(value if value.shape == old.shape else _taken_apart(entry, value, old.shape))
    call = entry.add(Call(inner), values)
    leaves = [element(call, index) for index in indices]
    source = replace(
        source, module=module, arguments=tuple(map(_label, source.arguments, inner.parameters)),
        results=tuple(map(_label, source.results, leaves)),
    )  # fmt: skip
    made = [leaf if _outside(leaf.shape) == leaf.shape else _together(entry, leaf) for leaf in leaves]
    entry.set_root(made[0] if len(made) == 1 else entry.add(Tuple(), made))
    module.set_schedule(None)
    aliases = tuple(replace(alias, output=places[alias.output]) for alias in module.config.aliases)
    module.set_config(is_scheduled=False, aliases=aliases)
    values = {name: _bytes(value) for name, value in example.values.items()}
    return Example(source, inputs and tuple(map(_bytes, inputs)), values)


def _outside(shape: Any) -> Any:
    """The shape that callers see: bytes in place of s4 and u4."""
    four = isinstance(shape, Shape) and shape.dtype in (S4, U4)
    return Shape(U8, ((shape.size + 1) // 2,)) if four else shape


def _taken_apart(entry: Computation, given: Instruction, shape: Any) -> Instruction:
    """Unpacks bytes to an array of the shape `shape`, two elements per byte."""
    count = (shape.size + 1) // 2
    halves = entry.add(BitcastConvert(Shape(shape.dtype, (count, 2))), (given,))
    flat = entry.add(Reshape(Shape(shape.dtype, (2 * count,))), (halves,))
    return entry.add(Reshape(shape), (entry.add(Slice(SliceDims((0,), (shape.size,))), (flat,)),))


def _together(entry: Computation, value: Instruction) -> Instruction:
    """Packs an array of s4 or u4 into bytes, two elements per byte."""
    bytes_, dtype, size = _outside(value.shape), value.shape.dtype, value.shape.size
    flat = entry.add(Reshape(Shape(dtype, (size,))), (value,))
    zero = entry.add(Constant(Shape(dtype, ()), Literal.scalar(dtype, 0)))
    even = entry.add(Pad(PaddingConfig((0,), (size % 2,))), (flat, zero))
    halves = entry.add(Reshape(Shape(dtype, (*bytes_.dims, 2))), (even,))
    return entry.add(BitcastConvert(bytes_), (halves,))


def _label(label: Label, value: Instruction) -> Label:
    inside, outside = (show(s) for s in (value.shape, _outside(value.shape)))
    return label if inside == outside else replace(label, packed=f"{inside} packed in {outside}")


def _bytes(array: np.ndarray) -> np.ndarray:
    if array.dtype not in (S4.numpy, U4.numpy):
        return array
    bits = np.append(array.astype(np.uint8) & 15, np.zeros(array.size % 2, np.uint8))
    return bits[::2] | bits[1::2] << 4
