"""The ops reduce, map, scan and sort, which apply a computation to elements or slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

from axla.core.dtypes import F32, PRED, S32
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import signature
from axla.hlo.elementwise import Compare
from axla.hlo.family import are_different, arrays, joined, show
from axla.ir.attributes import Direction
from axla.ir.families import Applying
from axla.ir.graph import Computation, Module
from axla.ir.op import OPS, Op, attr, op
from axla.ir.structure import Parameter, Tuple


def data_and_inits(self: Op, operands: tuple[AnyShape, ...]) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Splits 2n operands into n arrays of the same dims and n scalars, their initial values; rejects other
    operands.
    """
    shapes = arrays(self, *operands)
    if not shapes or len(shapes) % 2:
        self.reject("c1", f"n arrays and n initial values are wanted, found {len(shapes)} operands")
    data, inits = shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]
    for array, init in zip(data, inits, strict=True):
        if init.rank or not signature.compatible(init.dtype, array.dtype):
            message = f"the initial value of {show(array)} must be a scalar of that type, found {show(init)}"
            self.reject("c2", message)
        if array.dims != data[0].dims:
            self.reject("c3", f"arrays must have the same dimensions, found {show(data)}")
    return data, inits


@op("reduce", operands="*operands", expensive=True, reads_alike=True, in_line=True)
class Reduce(Applying):
    """Combines all elements along `dimensions` by `to_apply`. The operands are n arrays, then n initial
    values.

    `to_apply` takes n accumulators and n elements. It must be associative, since the order in which elements
    are combined is free, although it is the same in every run. The initial values are combined once with each
    result; a result of no elements is the initial values.
    """

    dimensions: tuple[int, ...]
    to_apply: Computation

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns, for each array, the dims that are not in `dimensions`. `to_apply` must combine scalars of
        the arrays' element types.
        """
        data, inits = data_and_inits(self, operands)
        first, dimensions = data[0], self.dimensions
        if not are_different(dimensions, first.rank):
            self.reject("c4", f"dimensions={dimensions} are not different dimensions of {show(first)}")
        types = signature.accepts_scalars(
            self, self.to_apply, [s.dtype for s in (*inits, *data)], [s.dtype for s in inits]
        )
        kept = [d for d in range(first.rank) if d not in dimensions]
        dims = [first.dims[d] for d in kept]
        dynamic = [first.dynamic[d] for d in kept] if first.is_dynamic else ()
        results = [Shape(dtype, dims, dynamic) for dtype in types]
        return TupleShape(results) if self.to_apply.root.shape.is_tuple else results[0]

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts how many times `to_apply` is applied: once for each element of a result but the first."""
        return max(0, operands[0].size - next(result.arrays()).size)

    @classmethod
    def samples(cls):
        """Reductions over one, two and no dimensions, and one of an empty array."""
        add, largest = signature.sample_reducer("add", F32), signature.sample_reducer("maximum", S32)
        return [
            (cls((1,), add), (Shape(F32, (3, 4)), Shape(F32))),
            (cls((0, 2), largest), (Shape(S32, (3, 4, 2)), Shape(S32))),
            (cls((), add), (Shape(F32, (3,)), Shape(F32))),
            (cls((0,), add), (Shape(F32, (0, 2)), Shape(F32))),
        ]


@op("map", operands="*operands", reads_alike=True, in_line=True)
class Map(Op):
    """result[i] = to_apply(operands[i]...), where `to_apply` takes and returns scalars.

    `dimensions` must be all dimensions in order, or empty. Operands may have different element types.
    """

    dimensions: tuple[int, ...]
    to_apply: Computation

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' dims with the element type that `to_apply` returns."""
        shapes = arrays(self, *operands)
        if not shapes:
            self.reject("c1", "at least one operand is wanted, found none")
        if any(s.dims != shapes[0].dims for s in shapes):
            self.reject("c2", f"operands must have the same dimensions, found {show(shapes)}")
        if self.dimensions and self.dimensions != tuple(range(shapes[0].rank)):
            message = f"dimensions={self.dimensions} must be empty or all of {show(shapes[0])} in order"
            self.reject("c3", message)
        called = signature.require_computation(self, self.to_apply)
        root = called.root.shape
        if not isinstance(root, Shape) or root.rank:
            self.reject("c4", f"to_apply {called.name} must return a scalar, found {show(root)}")
        signature.accepts(self, called, [Shape(s.dtype) for s in shapes])
        return Shape(root.dtype, shapes[0].dims, shapes[0].dynamic)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts how many times `to_apply` is applied: once for each element."""
        return result.size

    @classmethod
    def samples(cls):
        """An addition of two matrices."""
        return [(cls((0, 1), signature.sample_reducer("add", F32)), (Shape(F32, (3, 4)),) * 2)]


@op("scan", operands="*operands", expensive=True, reads_whole=True)
class Scan(Op):
    """Applies `to_apply` to the slices of the inputs along dimension `dimensions[0]`, one after the other,
    and to values (carries) that are passed from one step to the next.

    The operands are the inputs, then `num_carries` initial carries. `to_apply` takes one slice of each input
    and the carries, and returns one slice of each output and the new carries. The result is the outputs, each
    stacked from its slices, and the last carries, without a tuple if there is only one result. With
    `is_reverse` the last slice comes first.
    """

    dimensions: tuple[int, ...]
    num_carries: int = attr(required=True, default=0)
    is_reverse: bool = False
    is_associative: bool = attr(always=True, default=False)
    to_apply: Computation = attr(always=True, default=None)

    def length(self, operands: Sequence[AnyShape]) -> int:
        """The number of slices of each input; 0 if there is no input."""
        first = operands[0]
        return (
            first.dims[self.dimensions[0]]
            if isinstance(first, Shape) and len(operands) > self.num_carries
            else 0
        )

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shapes of the outputs, then of the carries, which `to_apply` must return with the same
        shapes.
        """
        shapes = arrays(self, *operands)
        count = len(shapes) - self.num_carries
        if count < 1 or self.num_carries < 0:
            wanted = f"at least one input and {self.num_carries} carries"
            self.reject("c1", f"{wanted} are wanted, found {len(shapes)} operands")
        if len(self.dimensions) != 1 or not all(0 <= self.dimensions[0] < s.rank for s in shapes[:count]):
            self.reject("c2", f"dimensions={self.dimensions} must be one dimension of {show(shapes[:count])}")
        at = self.dimensions[0]
        if any(s.dims[at] != shapes[0].dims[at] for s in shapes[:count]):
            self.reject("c3", f"inputs must have equal sizes in dimension {at}, found {show(shapes[:count])}")
        slices = [s.with_dims((*s.dims[:at], *s.dims[at + 1 :])) for s in shapes[:count]]
        called = signature.accepts(self, self.to_apply, [*slices, *shapes[count:]])
        root = called.root.shape
        parts = root.parts
        outputs, carries = parts[: len(parts) - self.num_carries], parts[len(parts) - self.num_carries :]
        if [c.logical for c in carries] != [s.logical for s in shapes[count:]]:
            self.reject("c4", f"to_apply must return carries {show(shapes[count:])}, found {show(carries)}")
        if any(o.rank < at for o in arrays(self, *outputs)):
            self.reject("c5", f"outputs {show(outputs)} cannot be stacked along dimension {at}")
        length = shapes[0].dims[at]
        stacked = [o.with_dims((*o.dims[:at], length, *o.dims[at:])) for o in arrays(self, *outputs)]
        results = [*stacked, *[c.logical for c in carries]]
        return joined(results)

    @classmethod
    def samples(cls):
        """Running sums along rows, forward and in reverse."""
        module = Module("samples")
        step = module.add_computation("step", entry=True)
        x, carry = (step.add(Parameter(Shape(F32, (3,)), n), name=("x", "carry")[n]) for n in range(2))
        total = step.add(OPS["add"](), (x, carry))
        step.set_root(step.add(Tuple(), (total, total)))
        operands = (Shape(F32, (3, 4)), Shape(F32, (3,)))
        return [(cls((1,), 1, to_apply=step), operands), (cls((1,), 1, True, True, step), operands)]


@op("sort", operands="*operands", expensive=True, mixes_floats=True, reads_alike=True)
class Sort(Op):
    """Sorts the operands along dimension `dimensions[0]`: all are permuted in the same way, into the order of
    `to_apply`.

    `to_apply` takes two elements of each operand and returns whether the first ones come before the second
    ones. Elements are equal if neither comes before the other; `is_stable` keeps their order. If the
    comparison is not an order, the result is some permutation.
    """

    dimensions: tuple[int, ...]
    is_stable: bool = False
    to_apply: Computation = attr(always=True, default=None)

    @property
    def dimension(self) -> int:
        """The dimension along which the operands are sorted."""
        return self.dimensions[0]

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' shapes. `to_apply` must compare two scalars of each operand and return
        pred[].
        """
        shapes = arrays(self, *operands)
        if not shapes or any(s.dims != shapes[0].dims for s in shapes):
            self.reject("c1", f"operands must have the same dimensions, found {show(shapes)}")
        if len(self.dimensions) != 1 or not 0 <= self.dimensions[0] < max(1, shapes[0].rank):
            self.reject("c2", f"dimensions={self.dimensions} must be one dimension of {show(shapes[0])}")
        called = signature.require_computation(self, self.to_apply)
        signature.accepts_scalars(self, called, [s.dtype for s in shapes for _ in range(2)], [PRED])
        signature.returns(self, called, Shape(PRED))
        return joined(shapes)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts n log2(n) comparisons for n elements."""
        size = operands[0].size
        return size * max(ceil(log2(size)), 1) if size else 0

    @classmethod
    def samples(cls):
        """A stable sort of the rows of a matrix, and an unstable sort of a vector."""
        module = Module("samples")
        less = module.add_computation("less", entry=True)
        x, y = (less.add(Parameter(Shape(F32), n), name="xy"[n]) for n in range(2))
        less.set_root(less.add(Compare(Direction.LT), (x, y)))
        return [(cls((1,), True, less), (Shape(F32, (3, 4)),)), (cls((0,), False, less), (Shape(F32, (5,)),))]
