"""Writes reductions: their accumulators, which lanes may have separately, and their results.

XLA leaves the order of a reduction open. Combiners known to be associative and commutative (a sum, a maximum,
two sums at once) run in several vector accumulators, which are combined in a fixed tree; others run element
by element, in order. Sums of f16 and bf16 are kept in f32 and rounded once. The initial value is combined
exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from math import prod

from axla.codegen.array import DenseArray
from axla.codegen.element import Elements
from axla.codegen.function import ForLoop, Ssa
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value, ValueGroup, Values, parts_of, rebuilt
from axla.ir.graph import Instruction
from axla.kernels.reduce import Reducing
from axla.target.machine import aligned


class Reduction(Reducing):
    """Writes the code for one reduce instruction of a kernel.

    `mirrored`: a maximum of floats is accumulated as the minimum of negated values, which takes fewer
    instructions where the machine's own minimum and maximum do not keep NaN.
    """

    def __init__(self, inst: Instruction, *, mirrored: bool = False):
        super().__init__(inst)
        self.started = False  # whether accumulators contain the initial value
        dtypes, is_maximum = {d.name for d in self.accumulators}, self.plain == "maximum"
        self.mirrored = mirrored and is_maximum and dtypes <= {"f32", "f64"}

    def lift(self, values: Sequence[Value], emit: Values) -> tuple[Value, ...]:
        """Converts values to the types of the accumulators; negates them if the reduction is `mirrored`."""
        found = tuple(emit.convert(v, d) for v, d in zip(values, self.accumulators, strict=True))
        return tuple(emit.unary("negate", v) for v in found) if self.mirrored else found

    def combine(self, e: Elements, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, ...]:
        """Applies the reducer to two groups of values, one value for each result."""
        if self.mirrored:
            return (e.values.binary("minimum", *a, *b),)
        return e.apply(self.computation, (*a, *b))

    def finish(self, e: Elements, accumulated: Sequence[Value]) -> tuple[Value, ...]:
        """The results: the initial values combined with the accumulated values, in the types of the
        results.
        """
        found = accumulated if self.started else self.combine(e, self.initial(e), accumulated)
        found = tuple(e.values.unary("negate", v) for v in found) if self.mirrored else found
        return tuple(e.values.convert(v, d) for v, d in zip(found, self.results, strict=True))

    def initial(self, e: Elements) -> tuple[Value, ...]:
        """The initial values, read as scalars and converted to the accumulators' types."""
        return self.lift([e(x, ()) for x in self.inits], e.values)

    def across_lanes(self, e: Elements, accumulated: Sequence[Value]) -> tuple[Value, ...]:
        """Combines all lanes into one: repeatedly combines their lower and upper half, so the order is always
        the same.
        """
        return e.values.across_lanes(tuple(accumulated), lambda a, b: self.combine(e, a, b))


def scratch_arrays(
    k: KernelWriter, reductions: Sequence[Reduction], dims: Sequence[int]
) -> list[list[DenseArray]]:
    """For each reduction and accumulator, an array of these sizes in the kernel's scratch memory."""
    found, offset = [], 0
    for r in reductions:
        here = []
        for dtype in r.accumulators:
            here.append(DenseArray(k.values, k.scratch(offset), dtype, dims, readonly=False))
            offset += aligned(prod(dims) * dtype.itemsize)
        found.append(here)
    return found


def combined(
    e: Elements, reductions: Sequence[Reduction], a: Sequence[Sequence[Value]], b: Sequence[Sequence[Value]]
) -> list[tuple[Value, ...]]:
    """Combines, for each reduction, the values in `a` with those in `b`."""
    return [r.combine(e, x, y) for r, x, y in zip(reductions, a, b, strict=True)]


def folded(
    e: Elements, reductions: Sequence[Reduction], opened: AbstractContextManager[ForLoop],
    current: list[ValueGroup], new: Callable[[Ssa], list[ValueGroup]],
) -> list[ValueGroup]:  # fmt: skip
    """Writes a loop, which `opened` opens, that combines the accumulators with `new(index)` in each
    iteration. `current` are the first accumulators; returns the last ones.
    """
    with opened as loop:
        carried = _regrouped(current, loop.carried)
        loop.yield_(registers(combined(e, reductions, carried, new(loop.index))))
    return _regrouped(current, loop.results)


def registers(groups: Iterable[ValueGroup]) -> list[Ssa]:
    """All registers of groups of values, as a loop carries them."""
    return parts_of(value for group in groups for value in group)


def _regrouped(like: Iterable[ValueGroup], parts: Iterable[Ssa]) -> list[ValueGroup]:
    """Makes groups of values with the types of `like` from the list of all their registers."""
    rest = iter(parts)
    return [rebuilt(group, rest) for group in like]
