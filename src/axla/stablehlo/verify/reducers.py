"""Rules of operations with computations that combine elements, and of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.attributes import sizes_of, table
from axla.stablehlo.verify.kinds import Facts, Sizes, elements_fit, fits, promotable, sizes_fit
from axla.stablehlo.verify.subject import Subject


def check_reducer(
    s: Subject, rule: str, region: int, inputs: Sequence[Facts], initial: list[tuple[Sizes | None, Any]],
    allowed: Sizes,
) -> None:  # fmt: skip
    """A region that takes 2N values and gives N, promoted from the inputs and the initial values (shape and
    element type). `allowed` are the sizes that its parameters may have, in order.
    """
    count = len(inputs)
    parameters, returned = s.parameters(region), s.returned(region)
    message = "the computation takes {} values and returns {}, found {} and {}"
    fit = len(parameters) == 2 * count and len(returned) == count
    s.need(fit, rule, message, 2 * count, count, len(parameters), len(returned))
    for i, (found, (shape, element)) in enumerate(zip(returned, initial, strict=True)):
        s.need(found.is_tensor, rule, "the computation returns tensors, found {}", found)
        for parameter, exact in ((parameters[i], True), (parameters[count + i], False)):
            fit = parameter.is_tensor and sizes_fit(found.shape, parameter.shape)
            fit = fit and _equal(found.element, parameter.element, exact)
            s.need(fit, rule, "parameters have the type of result {}, found {} and {}", i, parameter, found)
        s.need(sizes_fit(shape, found.shape), rule, "returned is the shape {}, found {}", shape, found)
        fit = promotable(element, found.element)
        s.need(fit, rule, "initial values promote to what is returned, found {} and {}", element, found)
        taken = parameters[count + i]
        fit = promotable(inputs[i].element, taken.element)
        s.need(fit, rule, "inputs promote to the parameters, found {} and {}", inputs[i], taken)
        fit = taken.rank <= len(allowed) and _within(taken.sizes, allowed)
        s.need(fit, rule, "the parameters have sizes out of {}, found {}", allowed, taken)


def _equal(a: Any, b: Any, exact: bool) -> bool:
    floats = isinstance(a, mlir.FloatType) and isinstance(b, mlir.FloatType)
    return a == b or floats and not exact


def _within(shape: Sizes, allowed: Sizes) -> bool:
    """All sizes are found in this order among the allowed ones."""
    left = iter(allowed)
    return all(any(fits(size, other) for other in left) for size in shape)


def reduce(s: Subject) -> None:
    inputs, initial = _halves(s, "c3", "c1")
    first, dims = inputs[0], s.integers("dimensions")
    s.in_range("c4", "dimensions", dims, first.rank)
    s.unique("c5", "dimensions", dims)
    kept = [dim for dim in range(first.rank) if dim not in set(dims)]
    shape = tuple([first.sizes[dim] for dim in kept])
    extents = tuple([first.dims[dim] for dim in kept])
    check_reducer(s, "c6", 0, inputs, [(facts.shape, facts.element) for facts in initial], shape)
    for i, returned in enumerate(s.returned(0)):
        s.follows("c7", extents, None, i)
        s.follows("c8", extents, returned.element, i)


def _halves(s: Subject, rule: str, shape_rule: str) -> tuple[list[Facts], list[Facts]]:
    """Inputs, which have one shape, and initial values; there is one result for each."""
    count = len(s.operands) // 2
    s.need(count, rule, "at least one input")
    s.need(len(s.results) == count, rule, "{} results are wanted, found {}", count, len(s.results))
    first, *others = inputs = s.operands[:count]
    for facts in others:
        fit = sizes_fit(first.shape, facts.shape)
        s.need(fit, shape_rule, "inputs of one shape, found {} and {}", first, facts)
    return inputs, s.operands[count:]


# ---- Windows


@dataclass(frozen=True, slots=True)
class Window:
    """Of one dimension; a size is None when it is not known."""

    size: int | None
    stride: int
    low: int
    high: int
    base_dilation: int
    window_dilation: int

    def count(self, base: int | None) -> int | None:
        """How many windows a dimension of this size has."""
        if base is None or self.size is None:
            return None
        dilated = (base - 1) * self.base_dilation + 1 if base else 0
        padded = self.low + dilated + self.high
        window = (self.size - 1) * self.window_dilation + 1 if self.size else 0
        # Nothing of a bounded size is a bounded size.
        return padded * 0 if padded <= 0 or window > padded else (padded - window) // self.stride + 1


@dataclass(frozen=True, slots=True)
class Labels:
    """Of the rules of windows; sizes and values of strides, padding, both dilations, reversal."""

    sizes: str = ""
    strides: tuple[str, str] = ("", "")
    padding: str = ""
    base: tuple[str, str] = ("", "")
    dilation: tuple[str, str] = ("", "")
    reversal: str = ""


def windows(
    s: Subject,
    labels: Labels,
    sizes: Sizes,
    names: tuple[str, str, str],
    padding: list[list[int]] | None = None,
) -> list[Window]:
    """The windows that the attributes describe: `names` are those of strides and of both dilations.
    `padding` are pairs where it is no attribute.
    """
    count = len(sizes)
    positive = all(size is None or size > 0 for size in sizes)
    s.need(positive, labels.sizes, "windows are not empty, found {}", sizes)
    lists = []
    for name, (size_rule, rule) in zip(names, (labels.strides, labels.base, labels.dilation), strict=True):
        values = s.integers(name) if name else ()
        given = values or (1,) * count
        s.need(len(given) == count, size_rule, "{} has {} elements, found {}", name, count, values)
        s.need(min(given, default=1) > 0, rule, "{} has positive elements, found {}", name, values)
        lists.append(given)
    turned = s.integers("window_reversal")
    fit = len(turned) in (0, count)
    s.need(fit, labels.reversal, "window_reversal has {} elements, found {}", count, turned)
    held = s.attribute("padding")
    if isinstance(held, mlir.DenseElements):
        shape = sizes_of(held)
        s.need(shape[1:] == (2,), labels.padding, "padding has the shape [{}, 2], found {}", count, shape)
        fit = shape[0] in (0, count)
        s.need(fit, labels.padding, "padding has the shape [{}, 2], found {}", count, shape)
        padding = [list(map(int, pair)) for pair in table(held)]
    pairs = padding or [[0, 0]] * count
    return [
        Window(size, lists[0][i], pairs[i][0], pairs[i][1], lists[1][i], lists[2][i])
        for i, size in enumerate(sizes)
    ]


_REDUCE_WINDOW = Labels("c5", ("c6", "c7"), "c12", ("c8", "c9"), ("c10", "c11"))
_SELECT_AND_SCATTER = Labels("c5", ("c6", "c7"), "c8")


def reduce_window(s: Subject) -> None:
    inputs, initial = _halves(s, "c1", "c2")
    first, sizes = inputs[0], s.integers("window_dimensions")
    s.need(len(sizes) == first.rank, "c4", "{} window_dimensions, found {}", first.rank, sizes)
    names = ("window_strides", "base_dilations", "window_dilations")
    found = windows(s, _REDUCE_WINDOW, sizes, names)
    check_reducer(s, "c13", 0, inputs, [(facts.shape, facts.element) for facts in initial], sizes)
    for i, (facts, returned) in enumerate(zip(inputs, s.returned(0), strict=True)):
        shape = _counted(found, facts.dims)
        s.follows("c15", shape, None, i)
        s.follows("c16", shape, returned.element, i)


def _counted(found: list[Window], sizes: Sizes) -> Sizes:
    return tuple([window.count(size) for window, size in zip(found, sizes, strict=True)])


def select_and_scatter(s: Subject) -> None:
    operand, source, initial = s.operands
    parameters = s.parameters(0)
    s.need(len(parameters) == 2, "c9", "select takes 2 values, found {}", len(parameters))
    for facts in parameters:
        fit = facts.is_tensor and sizes_fit((), facts.shape) and _equal(operand.element, facts.element, False)
        s.need(fit, "c9", "select takes scalars of the elements of {}, found {}", operand, facts)
    s.returns_boolean(0, "c9", "select")
    check_reducer(s, "c10", 1, [source], [(initial.shape, initial.element)], ())
    sizes = s.integers("window_dimensions")
    s.need(len(sizes) == operand.rank, "c4", "{} window_dimensions, found {}", operand.rank, sizes)
    found = windows(s, _SELECT_AND_SCATTER, sizes, ("window_strides", "", ""))
    shape = _counted(found, operand.sizes)
    s.need(sizes_fit(shape, source.shape), "c2", "a source of the sizes {}, found {}", shape, source)
    fit = _equal(operand.element, source.element, False)
    s.need(fit, "c1", "operand and source of one element type, found {} and {}", operand, source)
    s.follows("c11", operand.extents, None)
    s.follows("c12", operand.extents, s.returned(1)[0].element)


# ---- Others that apply a computation


def map_(s: Subject) -> None:
    s.need(s.operands, "c2", "at least one input")
    parameters, returned, dims = s.parameters(0), s.returned(0), s.integers("dimensions")
    fit = len(parameters) == len(s.operands)
    s.need(fit, "c4", "the computation takes {} values, found {}", len(s.operands), len(parameters))
    for operand, facts in zip(s.operands, parameters, strict=True):
        fit = facts.shape == () and facts.element == operand.element
        s.need(fit, "c4", "the computation takes scalars of {}, found {}", operand, facts)
    fit = len(returned) == 1 and returned[0].shape == () and returned[0].is_tensor
    s.need(fit, "c4", "the computation returns one scalar, found {}", ", ".join(map(str, returned)))
    fit = dims == tuple(range(s.operands[0].rank))
    s.need(fit, "c3", "dimensions are those of {} in order, found {}", s.operands[0], dims)
    s.follows("c4", s.operands[0].shape, returned[0].element)


def sort(s: Subject) -> None:
    s.need(s.operands, "c1", "at least one input")
    fit = len(s.results) == len(s.operands)
    s.need(fit, "c2", "{} results are wanted, found {}", len(s.operands), len(s.results))
    rank, at = s.operands[0].rank, s.integer("dimension", -1)
    s.need(-rank <= at < rank, "c4", "a dimension in [-{}, {}), found {}", rank, rank, at)
    parameters, wanted = s.parameters(0), 2 * len(s.operands)
    fit = len(parameters) == wanted
    s.need(fit, "c5", "the comparator takes {} values, found {}", wanted, len(parameters))
    for i, facts in enumerate(parameters):
        fit = facts.shape == () and facts.element == s.operands[i // 2].element
        s.need(fit, "c5", "the comparator takes scalars of {}, found {}", s.operands[i // 2], facts)
    s.returns_boolean(0, "c5", "the comparator")
    for i, facts in enumerate(s.operands):
        s.follows("c2", facts.extents, facts.element, i)


def scan(s: Subject) -> None:
    """CHLO's scan; carries stand last among operands and results."""
    segments = s.integers("operandSegmentSizes")
    s.need(len(segments) == 2, "operands", "operandSegmentSizes divide inputs and carries")
    inputs, parameters, returned = segments[0], s.parameters(0), s.returned(0)
    s.need(s.operands or s.results, "c2", "an input or an output")
    at = s.integer("dimension")
    size: int | None = s.integer("scan_dim_size") if s.attribute("scan_dim_size") is not None else None
    for facts in s.operands[:inputs]:
        s.in_range("c1", f"dimension (for {facts})", (at,), facts.rank)
        known = facts.sizes[at]
        s.need(fits(size, known), "c3", "inputs have the size {} in dimension {}, found {}", size, at, facts)
        size = known if size is None else size
    counts = len(parameters), len(s.operands)
    s.need(counts[0] == counts[1], "c4", "the body takes {1} values, found {0}", *counts)
    for i, (facts, parameter) in enumerate(zip(s.operands, parameters, strict=True)):
        shape = facts.sizes
        shape = shape[:at] + shape[at + 1 :] if i < inputs else shape
        fit = sizes_fit(shape, parameter.shape) and elements_fit(facts.element, parameter.element)
        s.need(fit, "c4", "the body takes parts of {}, found {}", facts, parameter)
    fit = len(returned) == len(s.results)
    s.need(fit, "c5", "{} values returned, found {}", len(s.results), len(returned))
    outputs = len(returned) - segments[1]
    s.need(outputs >= 0, "c5", "the body returns {} carries, found {} values", segments[1], len(returned))
    for i, facts in enumerate(returned):
        s.need(facts.shape is not None, "c5", "the body returns ranked tensors, found {}", facts)
        shape = facts.sizes
        s.follows("c6", (*shape[:at], size, *shape[at:]) if i < outputs else shape, facts.element, i)


RULES: dict[str, Callable[[Subject], None]] = by_name(
    "", reduce, reduce_window, select_and_scatter, map_, sort, scan,
)  # fmt: skip
