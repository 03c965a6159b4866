"""Mutants of modules: the same graph with other element types, sizes, constants, attributes and operands.

A mutant is made instruction by instruction, operands first. Shapes and indices in the attributes of ops are
adapted to the changed operands, where possible. A change that an op does not accept is dropped; if an
instruction cannot be made at all, the mutant is given up.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import PRED, DType
from axla.core.errors import AxlaError
from axla.core.literal import ElidedLiteral, why_no_array
from axla.core.shape import AnyShape, Layout, Shape, TupleShape
from axla.hlo.contraction import Contraction
from axla.hlo.movement import regroup
from axla.ir.attributes import FftType, PaddingConfig, SliceDims, Window
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import OPS, Op
from axla.ir.structure import Constant, Parameter, Tuple
from axla.ir.traverse import computations_callees_first, post_order, running_order
from axla.ir.verify import verify
from axla.kernels.product import NEVER_NEGATIVE
from axla.passes.simplify.match import limits

from . import operands

RATE = 0.08
"""The probability of a change, for each part of an instruction."""

COMBINING = frozenset({
    "reduce", "reduce-window", "select-and-scatter", "all-reduce", "all-reduce-start", "reduce-scatter",
    "scan",
})  # fmt: skip
"""Ops that apply a computation in an unspecified order."""

LARGEST = 4096
"""The largest number of elements of an array in a mutant."""

REFUSALS = (AxlaError, ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError)
"""The errors that ops raise for attributes and operands that do not fit them."""


KEPT = (Constant, Parameter, hlo.Map, hlo.SetDimensionSize)
"""Ops whose shape and attributes depend on each other, so that neither is changed alone."""


class Unfit(Exception):
    """Raised if the changes give no valid module."""


def mutant(source: Module, draw: random.Random, dtype: DType, layouts: bool = False) -> Module:
    """A mutant of `source`, in which the main element type is `dtype`. With `layouts`, arrays get other
    layouts too. Raises Unfit if the changes give no valid module.
    """
    config = replace(
        source.config, entry_layout=None, aliases=(), buffer_donors=(), is_scheduled=False, more=()
    )
    made = Module(source.name, config)
    change = _Change(source, draw, dtype)
    change.layouts = layouts
    called: dict[Computation, Computation] = {}
    try:
        for computation in computations_callees_first(source):
            called[computation] = change.computation(made, computation, called)
        made.set_entry(called[source.entry])
        verify(made)
    except REFUSALS as error:
        raise Unfit(str(error)) from error
    return made


def bind(module: Module, draw: random.Random) -> list[tuple[str, str]]:
    """Adds a few control edges that agree with the order in which the instructions run. Returns the names of
    both ends of each.
    """
    called = [
        (i.op.control, c) for s in module.computations for i in s.instructions for c in i.op.computations()
    ]
    inside = {c for control, c in called if not control}
    found = []
    for computation in (module.entry, *dict.fromkeys(c for _, c in called if c not in inside)):
        order = [i for i in running_order(computation) if not isinstance(i.op, Parameter)]
        for _ in range(draw.randrange(3) if len(order) > 1 else 0):
            first, second = sorted(draw.sample(range(len(order)), 2))
            before, after = order[first], order[second]
            edges = (*after.extra.control_predecessors, before)
            computation.set_extra(after, replace(after.extra, control_predecessors=edges))
            found.append((before.name, after.name))
    return found


class _Change:
    """The choices for a whole mutant: the new type for each type, the new size for each size."""

    def __init__(self, source: Module, draw: random.Random, dtype: DType):
        self.draw = draw
        self.source = source
        self.layouts = False
        self.entry: Computation | None = None
        self.parameters = len(source.entry.parameters)
        arrays = [a for c in source.computations for i in c.instructions for a in i.shape.arrays()]
        self.types = self.typed(Counter(a.dtype for a in arrays), dtype)
        # Arrays and indices often have the same type. In this case the type of only some of the first
        # instructions of the entry is changed.
        self.partly = draw.random() < 0.4
        self.sizes = self.sized(sorted({n for a in arrays for n in a.dims}))
        # Computations that are applied in any order must keep results that do not depend on the order.
        self.combiners = {
            c for s in source.computations for i in s.instructions if i.opcode in COMBINING
            for c in i.op.computations()
        }  # fmt: skip
        # Comparators of sorts, and of custom calls such as ApproxTopK, must remain orders.
        self.orders = {
            c for s in source.computations for i in s.instructions
            if i.opcode in ("sort", "topk", "custom-call") for c in i.op.computations()
        }  # fmt: skip
        self.rate = draw.choice((0.0, RATE, RATE, 3 * RATE))

    def typed(self, counts: Counter[DType], dtype: DType) -> dict[DType, DType]:
        draw = self.draw
        weights = [n / 8 if d is PRED and len(counts) > 1 else n for d, n in counts.items()]
        if not counts:
            return {}
        (main,) = draw.choices(list(counts), weights)
        found = {main: dtype}
        for other in counts:
            if other is not main and draw.random() < (0.04 if other is PRED else 0.3):
                found[other] = draw.choice(operands.DTYPES)
        return found

    def sized(self, sizes: Sequence[int]) -> dict[int, int]:
        draw = self.draw
        if draw.random() < 0.25:
            return {n: n for n in sizes if n * 2 < LARGEST}
        if draw.random() < 0.15:  # so different dimensions may get the same size
            return {n: n if n <= 1 else draw.choice((2, 3)) for n in sizes}

        def other(n: int) -> int:
            if n <= 1 and draw.random() < 0.8:
                return n
            return draw.choice((n, n, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 17)) if n < 64 else draw.randint(1, 9)

        return {n: other(n) for n in sizes}

    def size(self, n: int) -> int:
        return self.sizes.get(n, n) if n >= 0 else n

    def shape(self, shape: AnyShape, keep: bool = False) -> AnyShape:
        """The changed shape; with `keep`, the element type remains."""
        if isinstance(shape, TupleShape):
            return TupleShape([self.shape(e) for e in shape.elements])
        if not isinstance(shape, Shape):
            return shape
        dtype = shape.dtype if keep else self.types.get(shape.dtype, shape.dtype)
        return Shape(dtype, [self.size(n) for n in shape.dims], shape.dynamic, shape.layout)

    def now(self, more: float = 1.0) -> bool:
        """Returns at random whether to make a change; `more` multiplies the probability."""
        return self.draw.random() < self.rate * more

    def computation(
        self, module: Module, source: Computation, called: dict[Computation, Computation]
    ) -> Computation:
        target = module.add_computation(source.name)
        if source is self.source.entry:
            self.entry = target
        values: dict[Instruction, Instruction] = {}
        for inst in post_order(source):
            keep = self.partly and source is self.source.entry and self.draw.random() < 0.5
            values[inst] = self.instruction(target, inst, values, called, keep)
        root = values[source.root]
        if source is self.source.entry and self.draw.random() < 0.5:
            found = [v for v in values.values() if v.shape.is_array and not isinstance(v.op, Parameter)]
            near = [o for o in root.operands if o.shape.is_array]
            found = near if near and self.draw.random() < 0.5 else found or near or [root]
            more = [self.draw.choice(found) for _ in range(self.draw.randint(1, 2))]
            root = target.add(Tuple(), [root, *more])
        target.set_root(root)
        target.extra = source.extra
        return target

    def instruction(
        self, target: Computation, inst: Instruction, values: dict[Instruction, Instruction],
        called: dict[Computation, Computation], keep: bool,
    ) -> Instruction:  # fmt: skip
        given = [values[o] for o in inst.operands]
        if inst.computation not in self.combiners | self.orders:
            self.replaced(given, values)
        plain = inst.op.with_computations(called.__getitem__) if inst.op.computation_fields else inst.op
        shapes = [o.shape for o in given]
        extra = replace(
            inst.extra, control_predecessors=tuple(values[p] for p in inst.extra.control_predecessors)
        )
        if extra.backend_config == NEVER_NEGATIVE:
            extra = replace(extra, backend_config="")  # it may describe the old values
        error: Exception | None = None
        for op in self.variants(plain, inst, shapes):
            try:
                op = self.fitted(op, inst, shapes, keep)
                shape = self.result(op, inst, shapes)
            except REFUSALS as refused:
                error = refused
                continue
            if any(why_no_array(a) is not None or a.size > LARGEST for a in shape.arrays()):
                raise Unfit(f"{shape} is large")
            if op.holds_shape:
                op = replace(op, shape=shape)
            return target.add(op, given, shape, name=inst.name, extra=extra)
        raise Unfit(str(error))

    def replaced(self, found: list[Instruction], values: dict[Instruction, Instruction]) -> None:
        """Replaces some operands by other values of the same shape, or exchanges two of them."""
        for k, operand in enumerate(found):
            if operand.shape.is_array and self.now():
                found[k] = self.draw.choice([v for v in values.values() if v.shape is operand.shape])
                if operand.computation is self.entry and self.draw.random() < 0.5:
                    found[k] = self.fresh(operand)
        if len(found) > 1 and self.now(2):
            a, b = self.draw.sample(range(len(found)), 2)
            if found[a].shape is found[b].shape:
                found[a], found[b] = found[b], found[a]

    def fresh(self, operand: Instruction) -> Instruction:
        """Adds a parameter with the shape of a value."""
        if self.entry is None or operand.shape.is_dynamic:
            return operand
        self.parameters += 1
        return self.entry.add(Parameter(operand.shape, self.parameters - 1))

    def result(self, op: Op, inst: Instruction, shapes: Sequence[AnyShape]) -> AnyShape:
        """The inferred shape of a changed instruction, with the original's layout, and its element type where
        that is not inferred.
        """
        shape = op.infer(*shapes)
        if not isinstance(shape, Shape) or not isinstance(inst.shape, Shape):
            return shape
        if not op.holds_shape and inst.operands:
            inferred = inst.op.infer(*[o.shape for o in inst.operands])
            if isinstance(inferred, Shape) and inferred.dtype is not inst.shape.dtype:
                shape = shape.with_dtype(self.types.get(inst.shape.dtype, inst.shape.dtype))
        if shape.rank == inst.shape.rank and not inst.shape.layout.is_default:
            shape = shape.with_layout(inst.shape.layout)
        if (
            self.layouts
            and shape.rank > 1
            and inst.computation is self.source.entry
            and self.draw.random() < 0.4
        ):
            order = tuple(self.draw.sample(range(shape.rank), shape.rank))
            shape = shape.with_layout(Layout(order))
        return shape

    # Attributes

    def variants(self, op: Op, inst: Instruction, shapes: Sequence[AnyShape]) -> list[Op]:
        """The ops to try in place of an op: one with another attribute, or another op of the same kind; last
        the op itself.
        """
        found = [op]
        if inst.computation in self.orders:
            return found
        often = 4 if inst.computation in self.combiners else 1
        if self.now(often) and op.elementwise and not op.attributes and not op.holds_shape:
            same = [
                c for c in OPS.values()
                if c.elementwise and not c.attributes and not c.holds_shape and not c.side_effect
                and len(c.operand_names) == len(op.operand_names) and not c.variadic
                and (inst.computation not in self.combiners or c.associative and c.commutative)
            ]  # fmt: skip
            found.insert(0, self.draw.choice(same)())
        if isinstance(op, Contraction) and self.now(4):
            found.insert(0, self.paired(op, shapes))
        elif op.attributes and not isinstance(op, KEPT) and self.now(2):
            attribute = self.draw.choice(op.attributes)
            value = getattr(op, attribute.name)
            if attribute.name not in op.computation_fields:
                changed = self.varied(value, attribute.name, inst)
                if changed != value:
                    found.insert(0, replace(op, **{attribute.name: changed}))
        return found

    def paired(self, op: Contraction, shapes: Sequence[AnyShape]) -> Op:
        """A dot that contracts random dimensions of equal sizes."""
        left, right = ([*enumerate(s.dims)] if isinstance(s, Shape) else [] for s in shapes[:2])
        self.draw.shuffle(left)
        self.draw.shuffle(right)
        pairs: list[tuple[int, int]] = []
        for d, n in left:
            same = [e for e, m in right if m == n and e not in [p for _, p in pairs]]
            if same and self.draw.random() < 0.7:
                pairs.append((d, same[0]))
        cut = self.draw.choice((0, 0, min(1, len(pairs))))
        batch, summed = pairs[:cut], pairs[cut:]
        return replace(
            op, lhs_batch_dims=tuple(d for d, _ in batch), rhs_batch_dims=tuple(e for _, e in batch),
            lhs_contracting_dims=tuple(d for d, _ in summed),
            rhs_contracting_dims=tuple(e for _, e in summed),
        )  # fmt: skip

    def varied(self, value: Any, name: str, inst: Instruction) -> Any:
        """A random other value for an attribute."""
        draw = self.draw
        if isinstance(value, bool):
            return not value
        if isinstance(value, enum.Enum):
            return draw.choice(list(type(value)))
        if isinstance(value, int) and "channel" not in name:
            least = int("group_count" in name)  # protos have no 0 there
            return max(least, value + draw.choice((-1, 1, 1)))
        if isinstance(value, SliceDims):
            near = [
                tuple(max(0, n + draw.choice((-1, 0, 0, 1))) for n in v) for v in (value.starts, value.limits)
            ]
            return SliceDims(*near, tuple(draw.choice((n, 1, 2, 3)) for n in value.strides))
        if isinstance(value, PaddingConfig):
            near = [tuple(n + draw.choice((-2, -1, 0, 0, 1)) for n in v) for v in (value.low, value.high)]
            return PaddingConfig(*near, tuple(draw.choice((n, n, 0, 1, 2)) for n in value.interior))
        if isinstance(value, Window):
            field = draw.choice(fields(value)).name
            least = 0 if field in ("low", "high") else 1
            near = tuple(
                not n if isinstance(n, bool) else max(least, n + draw.choice((-1, 0, 1)))
                for n in getattr(value, field)
            )
            return replace(value, **{field: near})
        if isinstance(value, tuple) and value and all(type(n) is int for n in value):
            rank = next((a.rank for o in (inst, *inst.operands) for a in o.shape.arrays()), 1)
            several = list(value)
            kind = draw.choice(("shuffle", "drop", "near", "other"))
            if kind == "shuffle":
                draw.shuffle(several)
            elif kind == "drop":
                several.pop(draw.randrange(len(several)))
            elif kind == "near":
                several = [max(0, n + draw.choice((-1, 0, 1))) for n in several]
            else:
                several = sorted(draw.sample(range(max(rank, 1)), draw.randint(0, rank)))
            return tuple(several)
        return value

    def fitted(self, op: Op, inst: Instruction, shapes: Sequence[AnyShape], keep: bool) -> Op:
        """An op whose shapes and indices are adapted to its operands."""
        fit = FITTED.get(type(op))
        if fit is not None:
            return fit(self, op, inst, shapes, keep)
        return replace(op, shape=self.shape(inst.shape, keep)) if op.holds_shape else op

    def constant(self, op: Constant, inst: Instruction, shapes: Any, keep: bool) -> Op:
        literal = op.literal
        if isinstance(literal, ElidedLiteral) or not isinstance(op.shape, Shape):
            return op
        shape = self.shape(op.shape, keep)
        assert isinstance(shape, Shape)
        old, new, array = op.shape.dtype, shape.dtype, literal.array.reshape(-1)
        if shape.size > LARGEST:
            raise Unfit(f"{shape} is large")
        if array.size and literal.is_uniform():
            values = [self.number(array[0], old, new)] * shape.size
        else:
            source = np.resize(array, shape.size) if array.size else [0] * shape.size
            values = [self.number(v, old, new) for v in source]
        found = np.array(values, object if not new.is_inexact else None)
        with np.errstate(all="ignore"):
            return Constant.of(found.astype(new.numpy).reshape(shape.dims), new)

    def number(self, value: Any, old: DType, new: DType) -> Any:
        """Converts an element of a constant to another type. The limits of the old type become those of the
        new one. Sometimes returns a random number.
        """
        if self.draw.random() < 2 * self.rate:
            return self.draw.choice(operands.special(new.real))
        if old is new and not new.is_complex:
            return value
        if old.is_pred and value and not new.is_inexact and self.draw.random() < 0.5:
            return -1 if new.is_signed else limits(new)[1]  # all bits
        if old.is_complex:
            return complex(value) if new.is_complex else self.number(value.real, old.real, new)
        number = float(value) if old.is_float else int(value)
        if new.is_inexact and not old.is_float and abs(number) > 1 and number in limits(old):
            number = limits(new.real)[number > 0]
        if new.is_inexact:
            return number
        low, high = limits(new)
        if number != number:
            return 0
        if old.is_integer and old.is_signed and number == -1 and not new.is_signed:
            return high
        return int(max(low, min(high, number)))


def _broadcast(change: _Change, op: hlo.Broadcast, inst: Instruction, shapes: Any, keep: bool) -> Op:
    (x,) = shapes
    shape = change.shape(op.shape)
    dims = list(shape.dims)
    for size, at in zip(x.dims, op.dimensions, strict=True):
        dims[at] = size
    return replace(op, shape=Shape(x.dtype, dims, op.shape.dynamic, op.shape.layout))


def _reshape(change: _Change, op: hlo.Reshape, inst: Instruction, shapes: Any, keep: bool) -> Op:
    """Adapts the sizes of a reshape: each dimension that was made from one dimension has its new size. In a
    group of several, the last one is what remains.
    """
    (x,), old, new = shapes, inst.operands[0].shape.dims, op.shape.dims
    if x.is_dynamic or op.shape.is_dynamic:
        return replace(op, shape=change.shape(op.shape).with_dtype(x.dtype))
    dims = [change.size(n) if n == 1 else n for n in new]
    if 0 not in old and prod(old) == prod(new):
        for first, second in regroup(old, new):
            left = prod(x.dims[d] for d in first)
            for d in second[:-1]:
                dims[d] = next((n for n in (change.size(new[d]), new[d], 1) if n and left % n == 0), 1)
                left //= dims[d]
            dims[second[-1]] = left
    else:
        dims = [change.size(n) for n in new]
    if prod(dims) != x.size:
        dims = [1 if n == 1 else m for n, m in zip(new, dims, strict=True)]
        ones = [d for d, n in enumerate(new) if n == 1]
        if ones and prod(dims) and x.size % prod(dims) == 0:
            dims[change.draw.choice(ones)] = x.size // prod(dims)
    return replace(op, shape=Shape(x.dtype, dims, (), op.shape.layout))


def _like_operand(change: _Change, op: Any, inst: Instruction, shapes: Any, keep: bool) -> Op:
    """Adapts an op whose shape has the sizes of its operand, but an element type of its own."""
    shape = change.shape(op.shape, keep)
    x = shapes[0]
    if isinstance(op, hlo.BitcastConvert):
        old, wide = inst.operands[0].shape.dtype.bits, op.shape.dtype.bits
        if old != wide or x.dtype.bits != shape.dtype.bits:
            return replace(op, shape=shape)
    return replace(op, shape=Shape(shape.dtype, x.dims, x.dynamic, shape.layout))


def _contraction(change: _Change, op: Any, inst: Instruction, shapes: Any, keep: bool) -> Op:
    dtype = change.types.get(op.shape.dtype, op.shape.dtype)
    same = op.shape.dtype is inst.operands[0].shape.dtype and change.draw.random() < 0.9
    dtype = shapes[0].dtype if same else dtype
    return replace(op, shape=op.contracted(shapes[0], shapes[1], dtype))


def _convolution(change: _Change, op: Any, inst: Instruction, shapes: Any, keep: bool) -> Op:
    given = {f.name: getattr(op, f.name) for f in fields(op) if f.name != "shape"}
    return type(op).of(shapes[0], shapes[1], shapes[0].dtype, **given)


def _scaled(place: int, old: int, new: int) -> int:
    """Scales an index in a dimension of size `old` to one of size `new`."""
    return place if old == new else place * new // max(old, 1)


def _slice(change: _Change, op: hlo.Slice, inst: Instruction, shapes: Any, keep: bool) -> Op:
    given, old, new = op.slice, inst.operands[0].shape.dims, shapes[0].dims
    places = [
        tuple(max(0, min(m, _scaled(p, n, m))) for p, n, m in zip(values, old, new, strict=True))
        for values in (given.starts, given.limits)
    ]
    return replace(op, slice=SliceDims(*places, given.strides))


def _window_sizes(name: str) -> Callable[..., Op]:
    """Returns a function that adapts the attribute `name`: the sizes of the part that is read from the first
    operand.
    """

    def fit(change: _Change, op: Any, inst: Instruction, shapes: Any, keep: bool) -> Op:
        sizes = [
            m if size == n else min(change.size(size), m) if size != 1 else 1
            for size, n, m in zip(getattr(op, name), inst.operands[0].shape.dims, shapes[0].dims, strict=True)
        ]
        return replace(op, **{name: tuple(sizes)})

    return fit


def _windowed(change: _Change, op: Any, inst: Instruction, shapes: Any, keep: bool) -> Op:
    """Adapts a window: one that covers a whole dimension still covers it."""
    old, new = inst.operands[0].shape.dims, shapes[0].dims
    sizes = [m if size == n and m else size for size, n, m in zip(op.window.size, old, new, strict=True)]
    edges = [
        tuple(m - 1 if e == n - 1 and e and m else e for e, n, m in zip(found, old, new, strict=True))
        for found in (op.window.low, op.window.high)
    ]
    return replace(op, window=replace(op.window, size=tuple(sizes), low=edges[0], high=edges[1]))


def _top(change: _Change, op: hlo.TopK, inst: Instruction, shapes: Any, keep: bool) -> Op:
    return replace(op, k=min(op.k, shapes[0].dims[-1]))


def _precision(change: _Change, op: hlo.ReducePrecision, inst: Instruction, shapes: Any, keep: bool) -> Op:
    """Adapts a reduce-precision: the precision of the old type becomes that of the new type."""
    own = [(d.finfo.bits - d.finfo.nmant - 1, d.finfo.nmant) for d in (inst.shape.dtype, shapes[0].dtype)]
    if (op.exponent_bits, op.mantissa_bits) != own[0]:
        return op
    return replace(op, exponent_bits=own[1][0], mantissa_bits=own[1][1])


def _fft(change: _Change, op: hlo.Fft, inst: Instruction, shapes: Any, keep: bool) -> Op:
    lengths = list(shapes[0].dims[-len(op.fft_length) :])
    if op.fft_type is FftType.IRFFT:
        lengths[-1] = max(0, 2 * lengths[-1] - 2 + op.fft_length[-1] % 2)
    return replace(op, fft_length=tuple(lengths))


FITTED: dict[type[Op], Callable[..., Op]] = {
    Constant: _Change.constant, hlo.Broadcast: _broadcast, hlo.Reshape: _reshape,
    hlo.Convert: _like_operand, hlo.BitcastConvert: _like_operand, hlo.StochasticConvert: _like_operand,
    hlo.Dot: _contraction, hlo.RaggedDot: _contraction, hlo.Convolution: _convolution, hlo.Slice: _slice,
    hlo.DynamicSlice: _window_sizes("dynamic_slice_sizes"), hlo.Gather: _window_sizes("slice_sizes"),
    hlo.ReduceWindow: _windowed, hlo.SelectAndScatter: _windowed, hlo.TopK: _top, hlo.Fft: _fft,
    hlo.ReducePrecision: _precision,
}  # fmt: skip
"""The functions that adapt ops to changed operands."""
