"""Rules for operations with computations that combine elements, and for windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.stablehlo import mlir
from axla.stablehlo.verify.attributes import table
from axla.stablehlo.verify.kinds import Facts, Sizes, elements_fit, fits, promotable, sizes_fit
from axla.stablehlo.verify.subject import Subject


def check_reducer(
    s: Subject, rule: str, region: int, inputs: Sequence[Facts], initial: Sequence[Facts],
    allowed: Sizes = (), scalars: bool = False,
) -> None:  # fmt: skip
    """Checks that region number `region` takes 2N values and returns N. Result i has the type of parameters i
    and N + i. Elements of input i and of initial value i must promote to those of result i. The result has
    the shape of initial value i, or is a scalar with `scalars`. The sizes of parameters must occur in
    `allowed`, in this order.
    """
    count = len(inputs)
    parameters, returned = s.parameters(region), s.returned(region)
    message = "the computation must take {} values and return {}, found {} and {}"
    fit = len(parameters) == 2 * count and len(returned) == count
    s.need(fit, rule, message, 2 * count, count, len(parameters), len(returned))
    for i, (found, value) in enumerate(zip(returned, initial, strict=True)):
        s.need(found.is_tensor, rule, "the computation must return tensors, found {}", found)
        for parameter, exact in ((parameters[i], True), (parameters[count + i], False)):
            fit = parameter.is_tensor and sizes_fit(found.shape, parameter.shape)
            fit = fit and _equal(found.element, parameter.element, exact)
            s.need(fit, rule, "parameter and result {} must be equal, found {} and {}", i, parameter, found)
        shape = () if scalars else value.shape
        s.need(sizes_fit(shape, found.shape), rule, "the shape {} must be returned, found {}", shape, found)
        fit = promotable(value.element, found.element)
        s.need(fit, rule, "initial values must promote to what is returned, found {} and {}", value, found)
        taken = parameters[count + i]
        fit = promotable(inputs[i].element, taken.element)
        s.need(fit, rule, "inputs must promote to the parameters, found {} and {}", inputs[i], taken)
        fit = taken.rank <= len(allowed) and _within(taken.sizes, allowed)
        s.need(fit, rule, "the parameters must have sizes out of {}, found {}", allowed, taken)


def _equal(a: Any, b: Any, exact: bool) -> bool:
    floats = isinstance(a, mlir.FloatType) and isinstance(b, mlir.FloatType)
    return a == b or floats and not exact


def _within(shape: Sizes, allowed: Sizes) -> bool:
    """Whether all sizes occur among the allowed ones, in this order."""
    left = iter(allowed)
    return all(any(fits(size, other) for other in left) for size in shape)


def reduce(s: Subject) -> None:
    """Checks that results lack the reduced dimensions, and that the reducer takes and returns scalars."""
    inputs, dropped = s.values("inputs"), set(s.known("dimensions"))
    kept = [dim for dim in range(inputs[0].rank) if dim not in dropped]
    shape = tuple([inputs[0].sizes[dim] for dim in kept])
    check_reducer(s, "c6", 0, inputs, s.values("init_values"), shape)
    for i, returned in enumerate(s.returned(0)):
        s.follows("c7 c8", tuple([inputs[0].dims[dim] for dim in kept]), returned.element, i)


# ---- Windows


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A window along one dimension; an unknown size is None."""

    size: int | None
    stride: int
    base_dilation: int
    window_dilation: int
    padding: Sequence[int]

    def count(self, base: int | None) -> int | None:
        """The number of window positions in a dimension of the size `base`; None if that is unknown."""
        if base is None or self.size is None:
            return None
        dilated = (base - 1) * self.base_dilation + 1 if base else 0
        padded = dilated + sum(self.padding)
        window = (self.size - 1) * self.window_dilation + 1 if self.size else 0
        # `padded * 0` is 0, and it stays bounded if `padded` is.
        return padded * 0 if padded <= 0 or window > padded else (padded - window) // self.stride + 1


def windows(s: Subject, labels: str, sizes: Sizes, names: tuple[str, ...]) -> list[WindowFacts]:
    """Makes the windows of the sizes `sizes` from attributes, and checks the attributes. `names` are those
    for strides, base dilation and window dilation; fewer if the operation has fewer. `labels` has the labels
    of the rules: for sizes, padding and reversal; then, for each of `names`, for the number of its elements
    and for their values.
    """
    count = len(sizes)
    empty, pairs_rule, reversal_rule, *rules = labels.split()
    s.need(all(size is None or size > 0 for size in sizes), empty, "no window can be empty, found {}", sizes)
    lists = [(1,) * count] * 3
    for at, name in enumerate(names):
        lists[at] = s.known(name) or (1,) * count
        size_rule, rule = rules[2 * at : 2 * at + 2]
        s.need(len(lists[at]) == count, size_rule, "{} must have {} items, found {}", name, count, lists[at])
        s.need(min(lists[at], default=1) > 0, rule, "{} must be positive, found {}", name, lists[at])
    reversed_ = s.known("window_reversal") or ()
    message = "window_reversal must have {} elements, found {}"
    s.need(len(reversed_) in (0, count), reversal_rule, message, count, reversed_)
    held = s.known("padding") or ()
    padding = table(held) if isinstance(held, mlir.DenseElements) else np.reshape(held, (-1, 2))
    fit = padding.shape in ((0, 2), (count, 2))
    s.need(fit, pairs_rule, "padding must have the shape [{}, 2], found {}", count, padding.shape)
    pairs = padding.tolist() or [(0, 0)] * count
    return [WindowFacts(*row) for row in zip(sizes, *lists, pairs, strict=True)]


def _counted(found: list[WindowFacts], sizes: Sizes) -> Sizes:
    return tuple([window.count(size) for window, size in zip(found, sizes, strict=True)])


def reduce_window(s: Subject) -> None:
    """Checks that results have an element for each window position, and that the reducer takes and returns
    scalars.
    """
    inputs, sizes = s.values("inputs"), s.known("window_dimensions")
    names = ("window_strides", "base_dilations", "window_dilations")
    found = windows(s, "c5 c12 - c6 c7 c8 c9 c10 c11", sizes, names)
    check_reducer(s, "c13", 0, inputs, s.values("init_values"), sizes)
    for i, (facts, returned) in enumerate(zip(inputs, s.returned(0), strict=True)):
        s.follows("c15 c16", _counted(found, facts.dims), returned.element, i)


def select_and_scatter(s: Subject) -> None:
    """Checks that the source has a value for each position of the window, and that `select` returns i1."""
    operand, source, initial = s.operands
    parameters = s.parameters(0)
    s.need(len(parameters) == 2, "c9", "select must take 2 values, found {}", len(parameters))
    for facts in parameters:
        fit = facts.is_tensor and sizes_fit((), facts.shape) and _equal(operand.element, facts.element, False)
        s.need(fit, "c9", "select must take scalars of the elements of {}, found {}", operand, facts)
    s.returns_boolean(0, "c9", "select")
    check_reducer(s, "c10", 1, [source], [initial])
    found = windows(s, "c5 c8 - c6 c7", s.known("window_dimensions"), ("window_strides",))
    shape = _counted(found, operand.sizes)
    s.need(sizes_fit(shape, source.shape), "c2", "the source must have the sizes {}, found {}", shape, source)
    fit = _equal(operand.element, source.element, False)
    s.need(fit, "c1", "operand and source must have one element type, found {} and {}", operand, source)
    s.follows("c11 c12", operand.extents, s.returned(1)[0].element)


# ---- Others that apply a computation


def _takes(s: Subject, rule: str, what: str, wanted: Sequence[Facts]) -> None:
    """Checks that the region takes a scalar with the element type of each of the values `wanted`; `what`
    names the region in messages.
    """
    parameters = s.parameters(0)
    counts = len(wanted), len(parameters)
    s.need(counts[0] == counts[1], rule, "{} must take {} values, found {}", what, *counts)
    for operand, facts in zip(wanted, parameters, strict=True):
        fit = facts.shape == () and facts.element == operand.element
        s.need(fit, rule, "{} must take scalars of {}, found {}", what, operand, facts)


def map_(s: Subject) -> None:
    """Checks that the computation takes a scalar of each operand and returns one."""
    _takes(s, "c4", "the computation", s.operands)
    returned = s.returned(0)
    fit = len(returned) == 1 and returned[0].shape == () and returned[0].is_tensor
    s.need(fit, "c4", "the computation must return one scalar, found {}", ", ".join(map(str, returned)))
    s.follows("c4", s.operand.shape, returned[0].element)


def sort(s: Subject) -> None:
    """Checks that the comparator takes two scalars of each operand and returns i1."""
    _takes(s, "c5", "the comparator", [facts for facts in s.operands for _ in range(2)])
    s.returns_boolean(0, "c5", "the comparator")


def scan(s: Subject) -> None:
    """Checks CHLO's scan, whose carries are the last operands and results."""
    segments: Any = s.known("operandSegmentSizes") or ()
    parameters, returned = s.parameters(0), s.returned(0)
    s.need(len(segments) == 2, "operands", "operandSegmentSizes must divide inputs and carries")
    s.need(s.operands or s.results, "c2", "an input or an output is wanted")
    inputs, at = segments[0], s.known("dimension")
    size: int | None = s.known("scan_dim_size")
    for facts in s.operands[:inputs]:
        known = facts.sizes[at]
        s.need(fits(size, known), "c3", "inputs must have size {} in dimension {}, found {}", size, at, facts)
        size = known if size is None else size
    counts = len(parameters), len(s.operands)
    s.need(counts[0] == counts[1], "c4", "the body must take {1} values, found {0}", *counts)
    for i, (facts, parameter) in enumerate(zip(s.operands, parameters, strict=True)):
        shape = facts.sizes[:at] + facts.sizes[at + 1 :] if i < inputs else facts.sizes
        fit = sizes_fit(shape, parameter.shape) and elements_fit(facts.element, parameter.element)
        s.need(fit, "c4", "the body must take parts of {}, found {}", facts, parameter)
    counts = len(s.results), len(returned)
    s.need(counts[0] == counts[1], "c5", "{} values must be returned, found {}", *counts)
    outputs = len(returned) - segments[1]
    s.need(outputs >= 0, "c5", "the body must return {} carries, found {} values", segments[1], len(returned))
    for i, facts in enumerate(returned):
        s.need(facts.shape is not None, "c5", "the body must return ranked tensors, found {}", facts)
        shape = facts.sizes
        s.follows("c6", (*shape[:at], size, *shape[at:]) if i < outputs else shape, facts.element, i)
