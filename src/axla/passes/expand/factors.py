"""Finds the dimensions of an op's operands and results that are partitioned together: the factors of the op.

A dot of [m,k] and [k,n] has the factors m, k and n. A dimension that is reshaped may consist of several
factors, the major one first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from itertools import accumulate, pairwise, product
from math import gcd
from operator import mul

from axla import hlo
from axla.core.dataclass import dataclass
from axla.core.regex import regex
from axla.core.shape import Shape
from axla.ir.graph import Instruction
from axla.ir.op import Op, by_op


class FactorKind(Enum):
    """The data that a partition needs to compute its part along a factor: only its own part of the operands,
    or also data of other partitions.
    """

    PASSED = "the same part of the operands"
    REDUCED = "all parts of the operands: of its own it has an addend, or the like"
    MOVED = "other parts of the operands"
    KEPT = "other parts of the operands, and no sharding is passed on"


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of an instruction. `arrays`: for each operand, then each leaf of the result, the factor
    numbers of each dimension; () for a leaf that is not an array.
    """

    sizes: tuple[int, ...]
    kinds: tuple[FactorKind, ...]
    arrays: tuple[tuple[tuple[int, ...], ...], ...]


def factors_of(inst: Instruction) -> Factors | None:
    """The factors of an instruction; None if they are unknown."""
    rule = dict(inst.extra.frontend_attributes).get(RULE)
    if rule is not None:
        return _of_rule(inst, rule)
    op = inst.op
    if isinstance(op, hlo.CustomCall):
        find = _CALLED.get(op.custom_call_target) if len(inst.operands) == 1 else None
    else:
        find = _elementwise if op.elementwise else _FACTORS.get(type(op))
    if find is None:
        return None
    found = _Finder(inst)
    find(found, op)
    return found.factors()


def same_factors(shape: Shape, count: int) -> Factors:
    """The factors of `count` arrays of the same shape that are sharded in the same way."""
    numbers = tuple((d,) for d in range(shape.rank))
    return Factors(shape.dims, (FactorKind.PASSED,) * shape.rank, (numbers,) * count)


RULE = "xla.sdy.sharding_rule"
"""The frontend attribute of a custom call in which the program defines its factors."""
_RULE = regex(r"<\((.*)\)->\((.*)\) \{([^}]*)\}(.*)>")
_FACTOR = regex(r"[a-z](?:_\d+)?")
_KINDS = {
    "reduction": FactorKind.REDUCED,
    "need_replication": FactorKind.MOVED,
    "permutation": FactorKind.MOVED,
}


def _of_rule(inst: Instruction, text: str) -> Factors | None:
    """Parses the factors in a text such as <([i, jk])->([j, i]) {i=2, j=3, k=2}, reduction={k}>. None if the
    text does not fit the arrays of the instruction.
    """
    found = _RULE.search(text)
    if found is None:
        return None
    sizes = dict(re.findall(rf"({_FACTOR.pattern})=(\d+)", found[3]))
    numbers = {name: number for number, name in enumerate(sizes)}
    kinds = dict.fromkeys(sizes, FactorKind.PASSED)
    for word, kind in (*_KINDS.items(), ("blocked_propagation", FactorKind.KEPT)):
        for names in re.findall(word + r"=\{([^}]*)\}", found[4]):
            kinds |= dict.fromkeys(set(_FACTOR.findall(names)) & sizes.keys(), kind)
    arrays = []
    for array in re.findall(r"\[([^\]]*)\]", found[1] + found[2]):
        dims = [_FACTOR.findall(dim) for dim in array.split(",")] if array else []
        arrays.append(tuple(tuple(numbers[name] for name in dim if name in numbers) for dim in dims))
    shapes = [*(o.shape for o in inst.operands), *inst.shape.leaves()]
    if [len(dims) for dims in arrays] != [s.rank if isinstance(s, Shape) else 0 for s in shapes]:
        return None
    return Factors(tuple(map(int, sizes.values())), tuple(kinds.values()), tuple(arrays))


class _Finder:
    """Collects the factors of an instruction. `arrays` are numbered: first the operands, then the leaves of
    the result.
    """

    def __init__(self, inst: Instruction) -> None:
        self.inst, self.first_result = inst, len(inst.operands)
        self.shapes = [*(o.shape for o in inst.operands), *inst.shape.leaves()]
        self.result = self.shapes[-1]
        self.sizes: list[int] = []
        self.kinds: list[FactorKind] = []
        self.arrays = [[[] for _ in self.dims(n)] for n in range(len(self.shapes))]

    def dims(self, array: int) -> tuple[int, ...]:
        shape = self.shapes[array]
        return shape.dims if isinstance(shape, Shape) else ()

    def add(self, *places: tuple[int, int], kind: FactorKind = FactorKind.PASSED, size: int = 0) -> None:
        """Adds a factor to the given dimensions, each as (array number, dimension). `size` is by default the
        size of the first one.
        """
        for array, dim in places:
            self.arrays[array][dim].append(len(self.sizes))
        self.sizes.append(size or self.dims(places[0][0])[places[0][1]])
        self.kinds.append(kind)

    def alike(
        self, kind: Callable[[int], FactorKind] = lambda d: FactorKind.PASSED, size_of: int = 0
    ) -> None:
        """Gives all arrays of the result's rank the same factors, one per dimension. `kind` returns the kind
        of a dimension's factor. `size_of` is the number of the array whose dimensions have the factors'
        sizes; if it is 0, that is the first array with these factors.
        """
        rank = len(self.dims(-1))
        arrays = [n for n in range(len(self.shapes)) if len(self.dims(n)) == rank]
        for d in range(rank):
            self.add(*((n, d) for n in arrays), kind=kind(d), size=self.dims(size_of)[d] if size_of else 0)

    def factors(self) -> Factors:
        arrays = tuple(tuple(map(tuple, dims)) for dims in self.arrays)
        return Factors(tuple(self.sizes), tuple(self.kinds), arrays)


def _elementwise(found: _Finder, op: Op) -> None:
    found.alike()


def _border(found: _Finder, op: Op) -> None:
    """Handles the boundary of a manual region: only dimensions of equal size outside and inside have
    factors.
    """
    for d, (size, part) in enumerate(zip(found.dims(0), found.dims(1), strict=False)):
        if size == part:
            found.add((0, d), (1, d))


def _broadcast(found: _Finder, op: hlo.Broadcast) -> None:
    places = {to: d for d, to in enumerate(op.dimensions)}
    for d in range(len(found.dims(1))):
        found.add((1, d), *([(0, places[d])] if d in places else ()))


def _transpose(found: _Finder, op: hlo.Transpose) -> None:
    for d, source in enumerate(op.dimensions):
        found.add((0, source), (1, d))


def _reverse(found: _Finder, op: hlo.Reverse) -> None:
    reversed_dims = op.dimensions
    found.alike(lambda d: FactorKind.MOVED if d in reversed_dims else FactorKind.PASSED)


def _bitcast_convert(found: _Finder, op: Op) -> None:
    ranks = [len(found.dims(n)) for n in range(2)]
    for d in range(min(ranks)):
        found.add((0, d), (1, d))


def _reshape(found: _Finder, op: Op) -> None:
    """The products of the first dimensions of either shape, and their greatest common divisors, are the
    points at which elements can be divided. Adds a factor between successive points for the dimensions that
    contain both points.
    """
    if 0 in found.dims(0):
        return
    ends = [[1, *accumulate(found.dims(n), mul)] for n in range(2)]
    places = sorted({gcd(*pair) for pair in product(*ends)} | {*ends[0], *ends[1]})
    for begin, end in pairwise(places):
        dims = [
            (n, d)
            for n in range(2)
            for d, (low, high) in enumerate(pairwise(ends[n]))
            if low <= begin and end <= high and not (begin % low or end % begin or high % end)
        ]
        if dims:
            found.add(*dims, size=end // begin)


def _slice(found: _Finder, op: Op) -> None:
    found.alike(lambda d: FactorKind.PASSED if found.dims(0)[d] == found.dims(-1)[d] else FactorKind.MOVED)


def _pad(found: _Finder, op: hlo.Pad) -> None:
    padding = zip(op.padding.low, op.padding.high, op.padding.interior, strict=True)
    kinds = [FactorKind.MOVED if any(one) else FactorKind.PASSED for one in padding]
    found.alike(kinds.__getitem__)


def _dynamic_slice(found: _Finder, op: Op) -> None:
    for d, (size, part) in enumerate(zip(found.dims(0), found.dims(-1), strict=True)):
        found.add(
            (0, d), (found.first_result, d), kind=FactorKind.PASSED if size == part else FactorKind.KEPT
        )


def _dynamic_update_slice(found: _Finder, op: Op) -> None:
    for d, (size, part) in enumerate(zip(found.dims(0), found.dims(1), strict=True)):
        both = (0, d), (found.first_result, d)
        if size == part:
            found.add(*both, (1, d))
        else:
            found.add(*both, kind=FactorKind.MOVED)
            found.add((1, d), kind=FactorKind.MOVED)


def _concatenate(found: _Finder, op: hlo.Concatenate) -> None:
    (along,) = op.dimensions
    found.alike(lambda d: FactorKind.MOVED if d == along else FactorKind.PASSED, found.first_result)


def _sort(found: _Finder, op: hlo.Sort) -> None:
    (along,) = op.dimensions
    others = [size for d, size in enumerate(found.dims(0)) if d != along]
    kind = FactorKind.KEPT if all(size == 1 for size in others) else FactorKind.MOVED
    found.alike(lambda d: kind if d == along else FactorKind.PASSED)


def _topk(found: _Finder, op: Op) -> None:
    found.alike(lambda d: FactorKind.PASSED if found.dims(0)[d] == found.dims(-1)[d] else FactorKind.KEPT)


def _reduce(found: _Finder, op: hlo.Reduce) -> None:
    count, kept = found.first_result // 2, 0
    for d in range(len(found.dims(0))):
        operands = [(n, d) for n in range(count)]
        if d in op.dimensions:
            found.add(*operands, kind=FactorKind.REDUCED)
        else:
            found.add(*operands, *((found.first_result + n, kept) for n in range(count)))
            kept += 1


def _reduce_window(found: _Finder, op: hlo.ReduceWindow) -> None:
    window = op.window
    moving = zip(window.size, window.stride, window.low, window.high, window.base_dilation, strict=True)
    fixed = [one == (1, 1, 0, 0, 1) for one in moving]
    found.alike(lambda d: FactorKind.PASSED if fixed[d] else FactorKind.MOVED, found.first_result)


def _dot(found: _Finder, op: hlo.Dot) -> None:
    if found.first_result > 2:  # a sparse dot has no factors
        return
    places = [*zip(op.lhs_batch_dims, op.rhs_batch_dims, strict=True)]
    for number, known in enumerate((op.lhs_batch_dims + op.lhs_contracting_dims,
                                    op.rhs_batch_dims + op.rhs_contracting_dims)):  # fmt: skip
        free = [d for d in range(len(found.dims(number))) if d not in known]
        places += [(d, None) if number == 0 else (None, d) for d in free]
    for to, pair in enumerate(places):
        found.add(*((n, d) for n, d in enumerate(pair) if d is not None), (2, to))
    for lhs, rhs in zip(op.lhs_contracting_dims, op.rhs_contracting_dims, strict=True):
        found.add((0, lhs), (1, rhs), kind=FactorKind.REDUCED)


def _convolution(found: _Finder, op: hlo.Convolution) -> None:
    labels = op.dim_labels
    if op.batch_group_count == 1:
        found.add((0, labels.input_batch), (2, labels.output_batch))
        if op.feature_group_count == 1:
            found.add((0, labels.input_feature), (1, labels.kernel_input), kind=FactorKind.REDUCED)
            found.add((1, labels.kernel_output), (2, labels.output_feature))


def _gather(found: _Finder, op: hlo.Gather) -> None:
    operand, result = found.dims(0), found.dims(2)
    rows = [d for d in range(len(found.dims(1))) if d != op.index_vector_dim]
    together = dict(zip(op.start_indices_batching_dims, op.operand_batching_dims, strict=True))
    for d, row in zip([d for d in range(len(result)) if d not in op.offset_dims], rows, strict=True):
        found.add((1, row), (2, d), *([(0, together[row])] if row in together else ()))
    outside = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    window = [d for d in range(len(operand)) if d not in outside]
    for d, source in zip(op.offset_dims, window, strict=True):
        if operand[source] == result[d]:
            found.add((0, source), (2, d))
        elif result[d] == 1:
            found.add((0, source), kind=FactorKind.REDUCED)
        else:
            found.add((0, source), (2, d), kind=FactorKind.KEPT)
    for d in op.collapsed_slice_dims:
        found.add((0, d), kind=FactorKind.MOVED if operand[d] == 1 else FactorKind.REDUCED)


def _scatter(found: _Finder, op: hlo.Scatter) -> None:
    count = found.first_result // 2
    operand, update = found.dims(0), found.dims(count + 1)
    rows = [d for d in range(len(found.dims(count))) if d != op.index_vector_dim]
    together = dict(zip(op.scatter_indices_batching_dims, op.input_batching_dims, strict=True))

    def everywhere(d: int) -> list[tuple[int, int]]:
        return [*((n, d) for n in range(count)), *((found.first_result + n, d) for n in range(count))]

    def updates(d: int) -> list[tuple[int, int]]:
        return [(count + 1 + n, d) for n in range(count)]

    for d, row in zip([d for d in range(len(update)) if d not in op.update_window_dims], rows, strict=True):
        if row in together:
            found.add(*everywhere(together[row]), (count, row), *updates(d))
        else:
            found.add((count, row), *updates(d), kind=FactorKind.REDUCED)
    outside = {*op.inserted_window_dims, *op.input_batching_dims}
    window = [d for d in range(len(operand)) if d not in outside]
    for d, target in zip(op.update_window_dims, window, strict=True):
        if operand[target] == update[d]:
            found.add(*everywhere(target), *updates(d))
        else:
            found.add(*everywhere(target), kind=FactorKind.MOVED)
    for d in op.inserted_window_dims:
        found.add(*everywhere(d), kind=FactorKind.MOVED)


def _cholesky(found: _Finder, op: Op) -> None:
    batch = len(found.dims(0)) - 2
    found.alike(lambda d: FactorKind.PASSED if d < batch else FactorKind.MOVED)


def _triangular_solve(found: _Finder, op: hlo.TriangularSolve) -> None:
    batch = len(found.dims(0)) - 2
    for d in range(batch):
        found.add((0, d), (1, d), (2, d))
    for d in range(batch, batch + 2):
        independent = d == batch + op.left_side  # each of these rows or columns is a system of its own
        found.add((1, d), (2, d), kind=FactorKind.PASSED if independent else FactorKind.MOVED)


def _fft(found: _Finder, op: hlo.Fft) -> None:
    first, same = len(found.dims(0)) - len(op.fft_length), found.dims(0) == found.dims(1)
    found.alike(lambda d: FactorKind.PASSED if d < first else FactorKind.MOVED if same else FactorKind.KEPT)


_FACTORS = by_op(
    _broadcast, _transpose, _reverse, _bitcast_convert, _reshape, _slice, _pad, _dynamic_slice,
    _dynamic_update_slice, _concatenate, _sort, _topk, _reduce, _reduce_window, _dot, _convolution, _gather,
    _scatter, _cholesky, _triangular_solve, _fft,
)  # fmt: skip
_FACTORS |= dict.fromkeys((hlo.Copy, hlo.Map, hlo.Iota, hlo.Constant), _elementwise)
_CALLED = {
    "Sharding": _elementwise,
    "SPMDFullToShardShape": _border,
    "SPMDShardToFullShape": _border,
}
