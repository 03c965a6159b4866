"""Rules of elementwise operations and constants."""

from __future__ import annotations

from collections.abc import Callable

from axla.stablehlo import mlir
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.kinds import (
    Broken,
    Facts,
    Sizes,
    constant,
    elements_fit,
    fits,
    most_specific,
    sizes_fit,
    types_fit,
    width,
)
from axla.stablehlo.verify.subject import I1, Subject


def add(s: Subject) -> None:
    lhs, rhs = s.operands
    result = s.results[0]
    if lhs is rhs and rhs is result:
        return
    kinds = [facts.element for facts in (lhs, rhs, result)]
    if any(isinstance(kind, mlir.QuantizedType) for kind in kinds):
        _add_quantized(s, kinds)
    elif kinds[0] != kinds[1] or kinds[0] != kinds[2]:
        s.fail("c1", "all have the same element type, found {}, {} and {}", lhs, rhs, result)
    follow_operands(s, "c1", s.operands)


def _add_quantized(s: Subject, kinds: list[mlir.Type]) -> None:
    quantized = [kind for kind in kinds if isinstance(kind, mlir.QuantizedType)]
    s.need(len(quantized) == 3, "c2", "all are quantized or none, found {}, {} and {}", *kinds)
    s.need(len({k.storage for k in quantized}) == 1, "c3", "one storage type, found {}, {} and {}", *kinds)
    one = len({k.expressed for k in quantized}) == 1
    s.need(one, "c4", "one expressed type, found {}, {} and {}", *kinds)
    lhs, rhs, result = quantized
    per_axis = bool(lhs.axes or rhs.axes) == bool(result.axes)
    s.need(per_axis, "c5", "the result is quantized per axis when an operand is, found {}, {} and {}", *kinds)
    for label, side in (("c6", lhs), ("c7", rhs)):
        s.need(not side.axes or side.axes == result.axes, label, "one axis, found {} and {}", side, result)


def follow_operands(s: Subject, rule: str, operands: list[Facts], element: mlir.Type | None = None) -> None:
    """The result has the sizes that follow from all these operands."""
    try:
        extents = most_specific(operands)
    except Broken as error:
        s.fail(rule, "{}", str(error).lstrip(": "))
    s.follows(rule, extents, element)


def abs_(s: Subject) -> None:
    operand, element = s.operands[0], s.operands[0].element
    real = element.element if isinstance(element, mlir.ComplexType) else element
    s.follows("c2", operand.extents, real)


def _to_boolean(rule: str) -> Callable[[Subject], None]:
    return lambda s: s.follows(rule, s.operands[0].extents, I1)


def complex_(s: Subject) -> None:
    lhs, rhs = s.operands
    s.need(lhs.element == rhs.element, "c1", "parts of one element type, found {} and {}", lhs, rhs)
    s.follows("c3", lhs.extents, mlir.ComplexType(lhs.element))


def select(s: Subject) -> None:
    pred, on_true, on_false = s.operands
    same = sizes_fit(on_true.shape, on_false.shape) and elements_fit(on_true.element, on_false.element)
    s.need(same, "c2", "values of one type, found {} and {}", on_true, on_false)
    if pred.rank:
        fit = sizes_fit(pred.shape, on_true.shape)
        s.need(fit, "c1", "the predicate is a scalar or of the same shape, found {} and {}", pred, on_true)
    follow_operands(s, "c2", [on_true, on_false], on_true.element)


def clamp(s: Subject) -> None:
    least, operand, greatest = s.operands
    for label, limit in (("c1", least), ("c2", greatest)):
        fit = not limit.rank or sizes_fit(limit.shape, operand.shape)
        s.need(fit, label, "a limit is a scalar or of the operand's shape, found {} for {}", limit, operand)
    s.follows("c4", operand.extents, operand.element)


def uniform_quantize(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    element = operand.element
    expressed = element.expressed if isinstance(element, mlir.QuantizedType) else element
    fit = result.element.expressed == expressed
    s.need(fit, "c2", "the expressed type is {}, found {}", expressed, result)


def uniform_dequantize(s: Subject) -> None:
    s.follows("c2", s.operands[0].shape, s.operands[0].element.expressed)


def constant_(s: Subject) -> None:
    held = s.attribute("value").type
    written = s.results[0]
    fit = types_fit(s.types.of(held), written) if isinstance(held, mlir.TensorType) else False
    if not fit and isinstance(held, mlir.TensorType) and isinstance(written.element, mlir.QuantizedType):
        fit = held.element == written.element.storage and held.shape == written.shape
    s.need(fit, "c1", "a constant of the type {}, found {}", held, written)


def iota(s: Subject) -> None:
    s.need(s.results[0].rank, "c1", "it does not support scalars, found {}", s.results[0])
    s.in_range("c1", "iota_dimension", (s.integer("iota_dimension"),), s.results[0].rank)


def dynamic_iota(s: Subject) -> None:
    s.in_range("c1", "iota_dimension", (s.integer("iota_dimension"),), s.results[0].rank)
    shape_operand_follows(s, "c2", 0)


def shape_operand_follows(s: Subject, rule: str, index: int) -> None:
    """The result has the sizes that a constant operand gives, and as many as it has elements."""
    sizes = s.operands[index].sizes
    rank = len(s.results[0].sizes)
    s.need(fits(sizes[0], rank), rule, "{} sizes are given for {}", sizes[0], s.results[0])
    given = constant(s.operation.operands[index])
    if given is None:
        return
    shape: Sizes = tuple(given)
    s.need(min(given, default=0) >= 0, rule, "sizes are not negative, found {}", shape)
    s.follows(rule, shape)


def rng(s: Subject) -> None:
    a, b, result = s.operands[0], s.operands[1], s.results[0]
    fit = a.element == b.element == result.element
    s.need(fit, "c1", "all have one element type, found {}, {} and {}", a, b, result)
    if s.attribute("rng_distribution").value == "NORMAL":
        is_float = isinstance(s.operands[0].element, mlir.FloatType)
        s.need(is_float, "c2", "mu and sigma are floats, found {}", s.operands[0])
    shape_operand_follows(s, "c3", 2)


def rng_bit_generator(s: Subject) -> None:
    state, output = s.operands[0], s.results[0]
    fit = sizes_fit(state.shape, output.shape) and state.element == output.element
    s.need(fit, "c1", "the state keeps its type, found {} and {}", state, output)


def bitcast_convert(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    kinds = [isinstance(facts.element, mlir.ComplexType) for facts in (operand, result)]
    s.need(kinds[0] == kinds[1], "c2", "both are complex or none, found {} and {}", operand, result)
    bits, to_bits = width(operand.element), width(result.element)
    small, large = sorted((bits, to_bits))
    whole = large % small == 0
    s.need(whole, "c1", "an element is whole parts of the other one, found {} and {}", operand, result)
    shape: Sizes = operand.dims
    if bits < to_bits:
        s.need(shape, "c1", "{} has one dimension more than {}", operand, result)
        fit = fits(shape[-1], large // small)
        s.need(fit, "c1", "the last dimension of {} makes the bits of an element of {}", operand, result)
        shape = shape[:-1]
    elif bits > to_bits:
        shape = (*shape, large // small)
    s.follows("c1", shape)


RULES: dict[str, Callable[[Subject], None]] = {
    **by_name(
        "", add, abs_, complex_, select, clamp, uniform_quantize, uniform_dequantize, constant_, iota,
        dynamic_iota, rng, rng_bit_generator, bitcast_convert,
    ),
    "real": abs_, "imag": abs_, "is_finite": _to_boolean("c1"), "compare": _to_boolean("c2"),
}  # fmt: skip
