"""int4 at the boundary of a library, two elements a byte: inside, every element has a byte of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from axla.aot.build import Label
from axla.aot.frontend import Example
from axla.aot.graph_ends import element, flattened, result_indices
from axla.core.dtypes import S4, U4, U8
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape
from axla.hlo import BitcastConvert, Call, Constant, Pad, Parameter, Reshape, Slice, Tuple
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.ir.graph import Computation, Instruction


def packed(example: Example) -> Example:
    """The same program, whose arguments and results of s4 and u4 are u8[(n + 1) / 2]."""
    source, inputs = example.source, example.inputs
    module = flattened(source.module)
    inner, indices = module.entry, result_indices(module)
    places = {index: (k,) if len(indices) > 1 else () for k, index in enumerate(indices)}
    entry = module.add_computation("packed", entry=True)
    values = []
    for number, old in enumerate(inner.parameters):
        shape = _outside(old.shape)
        parameter = entry.add(Parameter(shape, number), stem=old.name, extra=old.extra)
        values.append(parameter if shape is old.shape else _taken_apart(entry, parameter, old.shape))
    call = entry.add(Call(inner), values)
    leaves = [element(call, index) for index in indices]
    arguments = map(_label, source.arguments, (p.shape for p in inner.parameters))
    results = map(_label, source.results, (leaf.shape for leaf in leaves))
    source = replace(source, module=module, arguments=tuple(arguments), results=tuple(results))
    made = [leaf if _outside(leaf.shape) is leaf.shape else _together(entry, leaf) for leaf in leaves]
    entry.set_root(made[0] if len(made) == 1 else entry.add(Tuple(), made))
    module.set_schedule(None)
    aliases = tuple(replace(alias, output=places[alias.output]) for alias in module.config.aliases)
    module.set_config(is_scheduled=False, aliases=aliases)
    return Example(source, inputs and tuple(map(_bytes, inputs)))


def _outside(shape: AnyShape) -> AnyShape:
    """The shape that callers see; the same object where nothing is packed."""
    if not isinstance(shape, Shape) or shape.dtype not in (S4, U4):
        return shape
    return Shape(U8, ((shape.size + 1) // 2,))


def _taken_apart(entry: Computation, given: Instruction, shape: AnyShape) -> Instruction:
    """The array of a shape that bytes hold."""
    assert isinstance(shape, Shape) and isinstance(given.shape, Shape)
    count = given.shape.size
    halves = entry.add(BitcastConvert(Shape(shape.dtype, (count, 2))), (given,))
    flat = entry.add(Reshape(Shape(shape.dtype, (2 * count,))), (halves,))
    return entry.add(Reshape(shape), (entry.add(Slice(SliceDims((0,), (shape.size,))), (flat,)),))


def _together(entry: Computation, value: Instruction) -> Instruction:
    """The bytes that hold an array."""
    shape = value.shape
    assert isinstance(shape, Shape)
    flat = entry.add(Reshape(Shape(shape.dtype, (shape.size,))), (value,))
    zero = entry.add(Constant(Shape(shape.dtype, ()), Literal.scalar(shape.dtype, 0)))
    even = entry.add(Pad(PaddingConfig((0,), (shape.size % 2,))), (flat, zero))
    halves = entry.add(Reshape(Shape(shape.dtype, ((shape.size + 1) // 2, 2))), (even,))
    return entry.add(BitcastConvert(Shape(U8, ((shape.size + 1) // 2,))), (halves,))


def _label(label: Label, shape: AnyShape) -> Label:
    outside = _outside(shape)
    if outside is shape:
        return label
    return replace(
        label, packed=f"{shape.to_string(layout=False)} packed in {outside.to_string(layout=False)}"
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    if array.dtype not in (S4.numpy, U4.numpy):
        return array
    bits = array.astype(np.uint8).ravel() & 15
    bits = np.append(bits, np.zeros(bits.size % 2, np.uint8))
    return bits[::2] | bits[1::2] << 4
