"""Rules of elementwise operations and constants."""

from __future__ import annotations

from collections.abc import Callable

from axla.stablehlo import mlir
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.kinds import Sizes, fits, types_fit, width
from axla.stablehlo.verify.subject import Subject


def add(s: Subject) -> None:
    """Other operations have one type in their record; here quantized ones may differ."""
    facts = (*s.operands, s.results[0])
    elements = [value.element for value in facts]
    quantized = [value.quantized for value in facts if value.quantized is not None]
    if not quantized:
        one = elements[0] == elements[1] == elements[2]
        s.need(one, "c1", "all have the same element type, found {}, {} and {}", *facts)
        return
    s.need(len(quantized) == 3, "c2", "all are quantized or none, found {}, {} and {}", *elements)
    one = len({element.storage for element in quantized}) == 1
    s.need(one, "c3", "one storage type, found {}, {} and {}", *elements)
    one = len({element.expressed for element in quantized}) == 1
    s.need(one, "c4", "one expressed type, found {}, {} and {}", *elements)
    lhs, rhs, result = quantized
    per_axis = bool(lhs.axes or rhs.axes) == bool(result.axes)
    message = "the result is quantized per axis when an operand is, found {}, {} and {}"
    s.need(per_axis, "c5", message, *elements)
    for label, side in (("c6", lhs), ("c7", rhs)):
        s.need(not side.axes or side.axes == result.axes, label, "one axis, found {} and {}", side, result)


def constant_(s: Subject) -> None:
    held, written = s.attribute("value").type, s.result
    fit = isinstance(held, mlir.TensorType) and types_fit(s.types.of(held), written)
    if not fit and isinstance(held, mlir.TensorType) and written.quantized is not None:
        fit = held.element == written.quantized.storage and held.shape == written.shape
    s.need(fit, "c1", "a constant of the type {}, found {}", held, written)


def rng(s: Subject) -> None:
    fit = s.attribute("rng_distribution").value != "NORMAL" or isinstance(s.operand.element, mlir.FloatType)
    s.need(fit, "c2", "mu and sigma are floats, found {}", s.operand)


def bitcast_convert(s: Subject) -> None:
    operand, result = s.operand, s.result
    kinds = [isinstance(facts.element, mlir.ComplexType) for facts in (operand, result)]
    s.need(kinds[0] == kinds[1], "c2", "both are complex or none, found {} and {}", operand, result)
    bits, to_bits = width(operand.element), width(result.element)
    small, large = sorted((bits, to_bits))
    message = "an element is whole parts of the other one, found {} and {}"
    s.need(large % small == 0, "c1", message, operand, result)
    shape: Sizes = operand.dims
    if bits < to_bits:
        s.need(shape, "c1", "{} has one dimension more than {}", operand, result)
        fit = fits(shape[-1], large // small)
        s.need(fit, "c1", "the last dimension of {} makes the bits of an element of {}", operand, result)
        shape = shape[:-1]
    elif bits > to_bits:
        shape = (*shape, large // small)
    s.follows("c1", shape)


RULES: dict[str, Callable[[Subject], None]] = by_name("", add, constant_, rng, bitcast_convert)
