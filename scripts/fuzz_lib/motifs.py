"""The motifs of random modules: each is a function that adds a few instructions to a scope.

If the attributes and operands that a motif chooses do not fit an op, it raises the error of the op. Then
nothing is added, and another motif is tried. `MOTIFS` has all motifs with their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

from verify_lib import mutate, operands, seeds

import axla.hlo as hlo
from axla.core.dtypes import F32, PRED, S32, S64, U8, U32, U64, DType
from axla.core.shape import TOKEN, Layout, Shape, TupleShape
from axla.ir.attributes import (
    CompareType,
    Direction,
    FftType,
    FusionKind,
    PaddingConfig,
    RandomAlgorithm,
    SliceDims,
    Window,
)
from axla.ir.clone import clone_computation, inline
from axla.ir.graph import Extra, Instruction
from axla.ir.op import OPS
from axla.ir.structure import GetTupleElement, Parameter, Tuple

from .draft import ANY, COUNTER, INDEX, Draft, Scope, tupled
from .told import NAME

Motif = Callable[[Scope], None]

POINTWISE = [c for c in OPS.values() if c.elementwise and not c.attributes and not c.holds_shape]
EXACT = [c for c in POINTWISE if not c.transcendental]
DIRECTIONS = tuple(Direction)


# Elementwise ops


def pointwise(s: Scope, x: Instruction | None = None) -> Instruction:
    """Adds an elementwise op on a value and others of its shape."""
    x = x or s.pick()
    cls = s.draw.choice(EXACT if s.draw.random() < 0.6 else POINTWISE)
    if cls is hlo.Select:
        return s.add(cls(), s.like(x.shape.with_dtype(PRED)), x, s.like(x.shape))
    if cls is hlo.Clamp and s.draw.random() < 0.5:
        return s.add(cls(), s.like(Shape(x.shape.dtype)), x, s.like(Shape(x.shape.dtype)))
    given = [x, *(s.like(x.shape) for _ in range(len(cls.operand_names) - 1))]
    s.draw.shuffle(given)
    return s.add(cls(), *given)


def compared(s: Scope) -> None:
    x = s.pick()
    y = s.like(x.shape)
    total = s.draw.random() < 0.2 and x.shape.dtype.is_float
    test = s.add(hlo.Compare(s.draw.choice(DIRECTIONS), CompareType("TOTALORDER") if total else None), x, y)
    if s.draw.random() < 0.7:
        s.add(hlo.Select(), test, *s.draw.choice(((x, y), (y, x), (x, s.like(x.shape)))))


def converted(s: Scope) -> None:
    x = s.pick()
    dtype = s.draw.choice((s.draft.dtype(), s.draw.choice(operands.DTYPES)))
    if s.draw.random() < 0.2:
        s.add(hlo.BitcastConvert(x.shape.with_dtype(dtype)), x)
    elif s.draw.random() < 0.15:
        s.add(hlo.ReducePrecision(s.draw.choice((5, 8, 3, 11)), s.draw.choice((10, 7, 3, 23, 0))), x)
    else:
        s.add(hlo.Convert(x.shape.with_dtype(dtype)), x)


def identity(s: Scope) -> None:
    """Adds ops that algebraic simplification removes, but must not where zeros have signs or elements may be
    NaN.
    """
    x = s.pick(lambda h: not h.dtype.is_pred and h.dtype.bits >= 8)
    dtype, draw = x.shape.dtype, s.draw

    def all_of(value: float) -> Instruction:
        one = s.scalar(value, dtype)
        return s.computation.add(hlo.Broadcast(x.shape, ()), [one]) if x.shape.rank else one

    signed = dtype.is_inexact or dtype.is_signed
    values = (
        (0.0, -0.0, 1, 2, 0.5, 4, -1) if dtype.is_inexact else (0, 1, 2, 4, 8, *((-1,) if signed else ()))
    )
    cls = draw.choice((hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Divide, hlo.Maximum, hlo.Minimum, hlo.Power))
    if cls in NEUTRAL and draw.random() < 0.6:
        y = all_of(draw.choice([v for v in NEUTRAL[cls] if v in values]))
    else:
        y = draw.choice((all_of(draw.choice(values)), x))
    z = s.add(cls(), *((x, y) if draw.random() < 0.6 else (y, x)))
    if draw.random() < 0.5:
        s.add(draw.choice((hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Maximum))(), z, draw.choice((x, y, z)))
    if draw.random() < 0.3 and dtype.is_float and dtype.bits in (8, 16, 32, 64):
        s.add(hlo.BitcastConvert(Shape({8: U8, 32: U32, 64: U64}.get(dtype.bits, dtype), x.shape.dims)), z)


NEUTRAL: dict[type[hlo.Op], tuple[float, ...]] = {
    hlo.Add: (0.0, -0.0), hlo.Subtract: (0.0, -0.0), hlo.Multiply: (1, -1, 0.0), hlo.Divide: (1, -1, 2),
    hlo.Power: (1, 2, 0.5),
}  # fmt: skip
"""Operands with which these ops can be simplified, at least on one side."""


def undone(s: Scope) -> None:
    """Adds an op on two values x and y, then its inverse, or any op, on the result and one of x and y."""
    exact = s.draw.random() < 0.6
    x = s.pick(lambda h: h.dtype.is_integer if exact else not h.dtype.is_pred)
    y = s.like(x.shape)
    if y is x:
        y = s.fresh(x.shape)
    one, other = s.draw.choice(INVERSES)
    if s.draw.random() < 0.3:
        other = s.draw.choice(INVERSES)[0]
    z = s.add(one(), x, y)
    s.add(other(), *s.draw.choice(((z, x), (z, y), (x, z), (y, z))))


INVERSES = (
    (hlo.Add, hlo.Subtract), (hlo.Subtract, hlo.Add), (hlo.Subtract, hlo.Subtract),
    (hlo.Multiply, hlo.Divide), (hlo.Divide, hlo.Multiply),
    (hlo.Maximum, hlo.Minimum), (hlo.Minimum, hlo.Maximum),
)  # fmt: skip


# Ops that move elements


def broadcast(s: Scope) -> None:
    x = s.pick(lambda h: h.rank < 4)
    rank = s.draw.randint(x.shape.rank, min(4, x.shape.rank + 2))
    at = sorted(s.draw.sample(range(rank), x.shape.rank))
    if s.draw.random() < 0.15:
        s.draw.shuffle(at)
    dims = list(s.draft.dims(rank))
    for size, place in zip(x.shape.dims, at, strict=True):
        dims[place] = size
    if prod(dims) <= s.draft.most:
        s.add(hlo.Broadcast(Shape(x.shape.dtype, dims), tuple(at)), x)


def reshaped(s: Scope) -> None:
    x = s.pick()
    parts = [f for n in x.shape.dims for f in _factors(n)]
    if s.draw.random() < 0.3:
        s.draw.shuffle(parts)
    dims: list[int] = []
    for part in parts:
        if dims and s.draw.random() < 0.5:
            dims[-1] *= part
        else:
            dims.append(part)
    if s.draw.random() < 0.3:
        dims.insert(s.draw.randint(0, len(dims)), 1)
    s.add(hlo.Reshape(Shape(x.shape.dtype, dims)), x)


def _factors(n: int) -> list[int]:
    found = []
    for f in (2, 3, 5, 7):
        while n > 1 and n % f == 0:
            found.append(f)
            n //= f
    return [*found, n] if n != 1 else found


def transposed(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 1)
    s.add(hlo.Transpose(tuple(s.draw.sample(range(x.shape.rank), x.shape.rank))), x)


def relaid(s: Scope) -> None:
    """Adds a bitcast whose result has the elements in another order, as if another layout were read."""
    x = s.pick(lambda h: h.rank > 1)
    ranks = range(x.shape.rank)
    dims = [x.shape.dims[d] for d in s.draw.sample(ranks, x.shape.rank)]
    layout = Layout(tuple(s.draw.sample(ranks, x.shape.rank)))
    value = s.add(hlo.Bitcast(Shape(x.shape.dtype, dims).with_layout(layout)), x, keep=False)
    # Some ops keep the layouts of their operands, others drop them. A copy has the default layout, which all
    # ops take.
    copied = s.add(hlo.Copy(), value, keep=False)
    s.computation.set_shape(copied, copied.shape.logical)
    s.kept(copied)


def sliced(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 0)
    bounds = [
        sorted(s.draw.randint(0, n) for _ in range(2)) if s.draw.random() < 0.6 else (0, n)
        for n in x.shape.dims
    ]
    steps = tuple(s.draw.choice((1, 1, 1, 2, 3)) for _ in bounds)
    s.add(hlo.Slice(SliceDims(tuple(a for a, _ in bounds), tuple(b for _, b in bounds), steps)), x)


def padded(s: Scope) -> None:
    x = s.pick()
    rank = range(x.shape.rank)
    edges = [tuple(s.draw.choice((0, 0, 1, 2, -1, -2)) for _ in rank) for _ in range(2)]
    s.add(
        hlo.Pad(PaddingConfig(*edges, tuple(s.draw.choice((0, 0, 0, 1, 2)) for _ in rank))),
        x,
        s.like(Shape(x.shape.dtype)),
    )


def reversed_(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 0)
    s.add(hlo.Reverse(tuple(d for d in range(x.shape.rank) if s.draw.random() < 0.6)), x)


def concatenated(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 0)
    at, pieces = s.draw.randrange(x.shape.rank), [x]
    for _ in range(s.draw.choice((1, 1, 2, 4))):
        other = [s.draw.choice((n, 1, 3, 8)) if d == at else n for d, n in enumerate(x.shape.dims)]
        pieces.append(s.like(Shape(x.shape.dtype, other)))
    s.draw.shuffle(pieces)
    s.add(hlo.Concatenate((at,)), *pieces)


def part(s: Scope) -> None:
    """Adds a dynamic-slice whose start may lie outside of the array."""
    x = s.pick(lambda h: h.rank > 0 and h.size > 0)
    sizes = tuple(s.draw.choice((n, 1, s.draw.randint(1, max(n, 1)))) for n in x.shape.dims)
    dtype = s.draw.choice((S32, S32, S64, U32, U8))
    s.add(hlo.DynamicSlice(sizes), x, *(s.index(n, dtype) for n in x.shape.dims))


def updated(s: Scope, x: Instruction | None = None) -> Instruction:
    """Adds a dynamic-update-slice of a value that other ops may read afterwards."""
    x = x or s.pick(lambda h: h.rank > 0 and h.size > 0)
    sizes = tuple(s.draw.choice((n, 1, s.draw.randint(1, max(n, 1)))) for n in x.shape.dims)
    dtype = s.draw.choice((S32, S32, S64, U32))
    update = s.like(Shape(x.shape.dtype, sizes))
    if s.draw.random() < 0.3:  # computed from the elements that are overwritten
        near = s.add(hlo.DynamicSlice(sizes), x, *(s.index(n) for n in x.shape.dims), keep=False)
        update = s.add(_chosen(s, x.shape.dtype), near, update, keep=False)
    return s.add(hlo.DynamicUpdateSlice(), x, update, *(s.index(n, dtype) for n in x.shape.dims))


def _chosen(s: Scope, dtype: DType) -> hlo.Op:
    names = ("and", "or", "xor") if dtype.is_pred else ("add", "multiply", "maximum", "minimum", "subtract")
    if dtype.is_complex:
        names = ("add", "subtract")
    return OPS[s.draw.choice(names)]()


def gathered(s: Scope) -> None:
    x = s.pick(lambda h: 0 < h.rank < 4 and h.size > 0)
    count, rank = s.draw.choice((1, 2, 5, 16, 33)), x.shape.rank
    places = s.draw.sample(range(rank), s.draw.randint(1, rank))
    sizes = [
        s.draw.choice((1, n)) if d in places else s.draw.choice((n, max(1, n - 1)))
        for d, n in enumerate(x.shape.dims)
    ]
    dropped = tuple(d for d in range(rank) if sizes[d] == 1 and d in places and s.draw.random() < 0.8)
    left = rank - len(dropped)
    indices = s.like(Shape(s.draw.choice((S32, S32, S64)), (count, len(places))), INDEX)
    first = s.draw.choice((0, 1))
    offsets = tuple(range(1, left + 1)) if first else tuple(range(left))
    s.add(
        hlo.Gather(offsets, dropped, tuple(places), index_vector_dim=1, slice_sizes=tuple(sizes)), x, indices
    )


def scattered(s: Scope, x: Instruction | None = None) -> Instruction:
    x = x or s.pick(lambda h: 0 < h.rank < 4 and h.size > 0)
    count, rank, dtype = s.draw.choice((1, 2, 5, 16, 33)), x.shape.rank, x.shape.dtype
    places = s.draw.sample(range(rank), s.draw.randint(1, rank))
    inserted = tuple(sorted(d for d in places if s.draw.random() < 0.8))
    window = [
        n if d not in places else s.draw.choice((1, 1, max(1, n - 1)))
        for d, n in enumerate(x.shape.dims)
        if d not in inserted
    ]
    indices = s.like(Shape(S32, (count, len(places))), INDEX)
    updates = s.like(Shape(dtype, (count, *window)))
    body = s.draft.combiner(s.draw.choice(("second", "second", *_combining(dtype))), dtype)
    op = hlo.Scatter(
        tuple(range(1, len(window) + 1)), inserted, tuple(places), index_vector_dim=1, to_apply=body
    )
    return s.add(op, x, indices, updates)


# Reductions, scans and sorts


def _combining(dtype: DType) -> tuple[str, ...]:
    if dtype.is_pred:
        return ("and", "or", "xor")
    if dtype.is_complex:
        return ("add",)
    exact = ("and", "or", "xor") if dtype.is_integer else ()
    return ("add", "add", "maximum", "maximum", "minimum", "multiply", *exact)


def _start(s: Scope, name: str, dtype: DType) -> Instruction:
    """The initial value of a reduction, in most cases the neutral element of its op."""
    if s.draw.random() < 0.3:
        return s.like(Shape(dtype))
    if name in ("maximum", "minimum") and dtype.is_float:
        info = dtype.finfo
        edge = float("inf") if dtype.name in ("f32", "f64", "f16", "bf16") else float(info.max)
        return s.scalar(-edge if name == "maximum" else edge, dtype)
    if name in ("maximum", "minimum"):
        low, high = operands.limits(dtype)
        return s.scalar(low if name == "maximum" else high, dtype)
    return s.scalar(
        {"multiply": 1, "and": -1 if dtype.is_signed else operands.limits(dtype)[1]}.get(name, 0)
        if not dtype.is_pred
        else name == "and",
        dtype,
    )


def reduced(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 0)
    dims = tuple(sorted(s.draw.sample(range(x.shape.rank), s.draw.randint(1, x.shape.rank))))
    if s.draw.random() < 0.4:  # columns
        dims = tuple(range(s.draw.randint(1, max(1, x.shape.rank - 1))))
    name = s.draw.choice(_combining(x.shape.dtype))
    found = s.add(hlo.Reduce(dims, s.draft.combiner(name, x.shape.dtype)), x, _start(s, name, x.shape.dtype))
    if s.draw.random() < 0.4:
        left = tuple(d for d in range(x.shape.rank) if d not in dims)
        spread = s.add(hlo.Broadcast(x.shape, left), found)
        s.add(_chosen(s, x.shape.dtype), *((x, spread) if s.draw.random() < 0.5 else (spread, x)))


def deep(s: Scope) -> None:
    """Adds a reduction of more elements than registers hold, along rows or across rows."""
    draw, dtype = s.draw, s.draft.dtype()
    count, inner = draw.choice((9, 33, 40, 65, 129)), draw.choice((1, 7, 16, 33, 65, 130, 200))
    dims = (*draw.choice(((), (), (2,), (3,), (17,))), count, inner)
    while prod(dims) > 30_000:
        dims = dims[1:]
    x, name = s.like(Shape(dtype, dims)), draw.choice(_combining(dtype))
    if draw.random() < 0.3:
        x = pointwise(s, x)
    s.add(
        hlo.Reduce((dims.index(count),), s.draft.combiner(name, x.shape.dtype)),
        x,
        _start(s, name, x.shape.dtype),
    )


def largest(s: Scope) -> None:
    """Adds a reduction of pairs (value, index): an argmax or argmin."""
    x = s.pick(lambda h: h.rank > 0 and not h.dtype.is_complex)
    dtype, at = x.shape.dtype, s.draw.randrange(x.shape.rank)
    body = s.draft.module.add_computation("pair")
    a, i, b, j = (body.add(Parameter(Shape(d), n)) for n, d in enumerate((dtype, S32, dtype, S32)))
    first = hlo.Compare(s.draw.choice((Direction.GE, Direction.GT, Direction.LE, Direction.LT)))(a, b)
    if s.draw.random() < 0.6:  # as JAX writes it
        first = hlo.Or()(first, hlo.Compare(Direction.NE)(a, a))
    elif dtype.is_float:
        x = without_nan(s, x)
    if s.draw.random() < 0.6:
        same = hlo.And()(hlo.Compare(Direction.EQ)(a, b), hlo.Compare(Direction.LT)(i, j))
        place = hlo.Select()(hlo.Or()(first, same), i, j)
    else:
        place = hlo.Select()(first, i, j)
    body.set_root(body.add(Tuple(), [hlo.Select()(first, a, b), place]))
    numbers = s.computation.add(hlo.Iota(x.shape.with_dtype(S32), at))
    start = _start(s, "maximum", dtype)
    s.parts(s.add(hlo.Reduce((at,), body), x, numbers, start, s.scalar(0, S32), keep=False))


def window(s: Scope) -> None:
    x = s.pick(lambda h: 0 < h.rank < 5 and h.size > 0)
    rank, draw = range(x.shape.rank), s.draw
    active = set(draw.sample(rank, draw.randint(1, min(2, x.shape.rank))))
    size = tuple(draw.choice((2, 3, 4)) if d in active else 1 for d in rank)
    if draw.random() < 0.5:  # a prefix sum
        at = draw.choice(sorted(active))
        n = x.shape.dims[at]
        size = tuple(n if d == at else 1 for d in rank)
        edge = tuple(n - 1 if d == at else 0 for d in rank)
        none = (0,) * len(size)
        given = Window(size, (1,) * len(size), *((edge, none) if draw.random() < 0.7 else (none, edge)))
    else:
        edges = [tuple(draw.choice((0, 0, 1, 2)) if d in active else 0 for d in rank) for _ in range(2)]
        steps = [
            tuple(draw.choice(c) if d in active else 1 for d in rank) for c in ((1, 2), (1, 1, 2), (1, 1, 2))
        ]
        given = Window(size, steps[0], *edges, steps[1], steps[2])
    name = draw.choice(_combining(x.shape.dtype))
    s.add(hlo.ReduceWindow(given, s.draft.combiner(name, x.shape.dtype)), x, _start(s, name, x.shape.dtype))


def without_nan(s: Scope, x: Instruction) -> Instruction:
    """Replaces NaN in an array of floats by 1; not by 0, as not all types have a zero."""
    one = s.computation.add(hlo.Broadcast(x.shape, ()), [s.scalar(1, x.shape.dtype)])
    return s.add(hlo.Select(), hlo.Compare(Direction.EQ)(x, x), x, one)


def sorted_(s: Scope) -> None:
    """Adds a sort by one of several arrays. Floats are compared in the total order, or have no NaN."""
    x = s.pick(lambda h: h.rank > 0 and not h.dtype.is_complex)
    arrays = [x]
    for _ in range(s.draw.choice((0, 0, 1, 1, 2))):
        arrays.append(s.like(Shape(s.draft.dtype(), x.shape.dims)))
    by = s.draw.choice([n for n, a in enumerate(arrays) if not a.shape.dtype.is_complex])
    key, total = arrays[by], s.draw.random() < 0.7
    if key.shape.dtype.is_float and not total:
        arrays[by] = without_nan(s, key)
    order = s.draft.order([a.shape.dtype for a in arrays], by, s.draw.choice(("LT", "GT")), total)
    s.parts(s.add(hlo.Sort((s.draw.randrange(x.shape.rank),), True, order), *arrays, keep=False))


def top(s: Scope) -> None:
    x = s.pick(lambda h: h.rank > 0 and h.dims[-1] > 0 and not h.dtype.is_complex)
    s.parts(
        s.add(hlo.TopK(s.draw.randint(1, min(x.shape.dims[-1], 9)), s.draw.random() < 0.8), x, keep=False)
    )


def scanned(s: Scope) -> None:
    """Adds a scan with one carry; its result has the carry after each step, or before it."""
    x = s.pick(lambda h: h.rank > 0)
    dtype, at = x.shape.dtype, s.draw.randrange(x.shape.rank)
    one = Shape(dtype, (*x.shape.dims[:at], *x.shape.dims[at + 1 :]))
    name, step = s.draw.choice(_combining(dtype)), s.draft.module.add_computation("step")
    value, carry = (step.add(Parameter(one, n)) for n in range(2))
    total = step.add(OPS[name](), (value, carry))
    given = s.draw.choice((total, total, carry))
    step.set_root(step.add(Tuple(), (given, total)))
    exact = given is total and (dtype.is_integer or name in ("maximum", "minimum"))
    associative = exact and s.draw.random() < 0.5
    scan = hlo.Scan((at,), 1, s.draw.random() < 0.3, associative, step)
    s.parts(s.add(scan, x, s.like(one)), keep=False)


def rows(s: Scope) -> None:
    """Adds a softmax or a normalisation of the last dimension, as models contain them."""
    x = s.pick(lambda h: h.rank > 1 and h.dtype.is_float and h.size > 0)
    shape, dtype = x.shape, x.shape.dtype
    last, left = shape.rank - 1, tuple(range(shape.rank - 1))

    def over(value: Instruction, name: str) -> Instruction:
        start = s.scalar(0, dtype) if name == "add" else _start(s, name, dtype)
        one = s.computation.add(hlo.Reduce((last,), s.draft.combiner(name, dtype)), [value, start])
        return s.computation.add(hlo.Broadcast(shape, left), [one])

    if s.draw.random() < 0.5:
        e = hlo.Exponential()(hlo.Subtract()(x, over(x, "maximum")))
        s.add(hlo.Divide(), e, over(e, "add"))
    else:
        count = s.computation.add(hlo.Broadcast(shape, ()), [s.scalar(shape.dims[last], dtype)])
        centred = hlo.Subtract()(x, hlo.Divide()(over(x, "add"), count))
        square = hlo.Divide()(over(hlo.Multiply()(centred, centred), "add"), count)
        one = s.computation.add(hlo.Broadcast(shape, ()), [s.scalar(1, dtype)])
        s.add(hlo.Multiply(), centred, hlo.Rsqrt()(hlo.Add()(square, one)))


# Products

EDGES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    12,
    13,
    15,
    16,
    17,
    23,
    24,
    25,
    31,
    32,
    33,
    47,
    48,
    49,
    63,
    64,
    65,
    95,
    96,
    97,
    130,
)
"""Sizes equal to those of tiles, and one more or less."""


def product(s: Scope, most: int = 300_000) -> None:
    draw = s.draw
    dtype = draw.choice((F32, F32, F32, s.draft.dtype(), draw.choice(operands.DTYPES)))
    m, k, n = (draw.choice(EDGES) for _ in range(3))
    kind = draw.random()
    if kind < 0.15:
        m = 1
    elif kind < 0.3:
        n = 1
    while m * k * n > most:
        m, k = max(1, m // 2), max(1, k // 2)
    batch = draw.choice(((), (), (), (2,), (3,), (1, 2)))
    left, right = ((m, k), (k, n)) if draw.random() < 0.5 else ((k, m), (n, k))
    r = len(batch)
    a, b = s.like(Shape(dtype, (*batch, *left))), s.like(Shape(dtype, (*batch, *right)))
    over = r + left.index(k) if left[0] != left[1] else r + (1 if left == (m, k) else 0)
    other = r + (0 if right[0] == k and (right[0] != right[1] or left[1] == k) else 1)
    op = hlo.Dot.of(
        a.shape, b.shape, lhs_batch_dims=tuple(range(r)), rhs_batch_dims=tuple(range(r)),
        lhs_contracting_dims=(over,), rhs_contracting_dims=(other,),
    )  # fmt: skip
    found = s.add(op, a, b)
    if draw.random() < 0.5:  # an epilogue
        bias = s.like(Shape(found.shape.dtype, found.shape.dims[-1:]))
        spread = s.computation.add(hlo.Broadcast(found.shape, (found.shape.rank - 1,)), [bias])
        s.add(_chosen(s, found.shape.dtype), found, spread)


def any_product(s: Scope) -> None:
    """Adds a dot that contracts any dimensions of equal sizes."""
    x = s.pick(lambda h: h.rank > 0 and h.size <= 3000)
    y = s.pick(lambda h: h.dtype is x.shape.dtype and h.rank > 0 and h.size <= 3000)
    pairs, free = [], list(range(y.shape.rank))
    for d, size in enumerate(x.shape.dims):
        same = [e for e in free if y.shape.dims[e] == size]
        if same and s.draw.random() < 0.7:
            free.remove(same[0])
            pairs.append((d, same[0]))
    cut = s.draw.choice((0, 0, min(1, len(pairs))))
    op = hlo.Dot.of(
        x.shape, y.shape,
        lhs_batch_dims=tuple(d for d, _ in pairs[:cut]), rhs_batch_dims=tuple(e for _, e in pairs[:cut]),
        lhs_contracting_dims=tuple(d for d, _ in pairs[cut:]),
        rhs_contracting_dims=tuple(e for _, e in pairs[cut:]),
    )  # fmt: skip
    if prod(op.infer(x.shape, y.shape).dims) <= s.draft.most:  # type: ignore[attr-defined]
        s.add(op, x, y)


def convolution(s: Scope) -> None:
    from axla.ir.attributes import ConvDims

    draw = s.draw
    dtype = draw.choice((F32, F32, s.draft.dtype()))
    rank = draw.choice((1, 2, 2, 2))
    batch, groups = draw.choice((1, 2, 3)), draw.choice((1, 1, 1, 2, 4))
    features = groups * draw.choice((1, 2, 3, 8, 16))
    outputs = groups * draw.choice((1, 3, 8, 15, 16, 17, 32))
    space = tuple(draw.choice((1, 3, 5, 8, 12, 17)) for _ in range(rank))
    size = tuple(draw.choice((1, 1, 2, 3, 3, 5)) for _ in range(rank))
    choices = ((1, 1, 2), (0, 1, 2), (0, 1, 2), (1, 1, 1, 2), (1, 1, 1, 2))
    given = [tuple(draw.choice(c) for _ in range(rank)) for c in choices]
    flips = tuple(draw.random() < 0.1 for _ in range(rank))
    axes = "01"[:rank]
    labels = draw.choice(
        (
            (f"b{axes}f", f"{axes}io", f"b{axes}f"),
            (f"bf{axes}", f"oi{axes}", f"bf{axes}"),
            (f"b{axes}f", f"o{axes}i", f"bf{axes}"),
        )
    )
    sizes = {"b": batch, "f": features, "i": features // groups, "o": outputs}
    image = [sizes[c] if c in sizes else space[int(c)] for c in labels[0]]
    kernel = [sizes[c] if c in sizes else size[int(c)] for c in labels[1]]
    a, b = s.like(Shape(dtype, image)), s.like(Shape(dtype, kernel))
    op = hlo.Convolution.of(
        a.shape, b.shape, dtype, window=Window(size, *given, flips), dim_labels=ConvDims(*labels),
        feature_group_count=groups,
    )  # fmt: skip
    s.add(op, a, b)


def fourier(s: Scope) -> None:
    draw = s.draw
    kind, length = draw.choice(tuple(FftType)), draw.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 32))
    from axla.core.dtypes import C64

    dtype = F32 if kind is FftType.RFFT else C64
    size = length // 2 + 1 if kind is FftType.IRFFT else length
    s.add(hlo.Fft(kind, (length,)), s.like(Shape(dtype, (draw.choice((1, 2, 3)), size))))


# Control flow


def loop(s: Scope) -> None:
    """Adds a while loop. The type and direction of its counter are random; the body passes carried values on,
    exchanges them, and updates them in place.
    """
    draw = s.draw
    if s.depth > 2:
        return
    dtype = draw.choice((S32, S32, S32, U32, S64, U8))
    carried = [s.pick(lambda h: h.size <= s.draft.most) for _ in range(draw.randint(1, 4))]
    if draw.random() < 0.4:
        carried.append(draw.choice(carried))
    shapes = [Shape(dtype), *(v.shape for v in carried)]
    step, trips = draw.choice((1, 1, 1, 2, 3)), draw.choice((0, 1, 2, 3, 3, 5, 7, 9, 17))
    first = draw.choice((0, 0, 1, 2, -3 if dtype.is_signed else 0))
    start, end = first, first + step * trips + draw.choice((0, 0, 1 if step > 1 else 0))
    if draw.random() < 0.25 and dtype.is_signed:
        start, end, step = end, start, -step
    body = s.inner("body", shapes, True)
    counter, *state = body.values[:]
    body.values = [*state, counter] if draw.random() < 0.8 and dtype is S32 else [*state]
    results = [_carried_on(body, value) for value in state]
    following = body.computation.add(hlo.Add(), [counter, body.scalar(step, dtype)])
    if draw.random() < 0.2 and dtype.is_signed:
        following = body.computation.add(hlo.Subtract(), [counter, body.scalar(-step, dtype)])
    if draw.random() < 0.2:
        same = [(i, j) for i in range(len(results)) for j in range(i) if results[i].shape is results[j].shape]
        if same:
            i, j = draw.choice(same)
            results[i], results[j] = results[j], results[i]
    body.computation.set_root(tupled(body, [following, *results]))

    test, direction = _ended(s, shapes, (start, end, step))
    init = s.scalar(start, dtype)
    if draw.random() < 0.25 and s.is_entry and direction is Direction.LT and dtype is S32:
        init = s.index(4)  # the compiler does not know it; it may lie beyond the end
        if isinstance(init.op, Parameter):
            s.draft.kinds[init.op.parameter_number] = COUNTER
        else:
            init = s.scalar(start, dtype)
    s.parts(s.add(hlo.While(test.computation, body.computation), tupled(s, [init, *carried]), keep=False))


def _ended(s: Scope, shapes: list[Shape], counter: tuple[int, int, int]) -> tuple[Scope, Direction]:
    """The condition of a loop whose `counter` is (start, end, step), with one of several equivalent
    comparisons. Returns the scope and the direction of the comparison.
    """
    (start, end, step), dtype, draw = counter, shapes[0].dtype, s.draw
    test = s.inner("condition", shapes, True)
    ways = [(Direction.GT, 0), (Direction.GE, 1)] if step < 0 else [(Direction.LT, 0), (Direction.LE, -1)]
    if (end - start) % step == 0:
        ways.append((Direction.NE, 0))
    direction, off = draw.choice(ways)
    if off and dtype.is_unsigned and end == 0:
        direction, off = Direction.LT, 0
    pair, plain = (test.values[0], test.scalar(end + off, dtype)), direction
    if draw.random() < 0.2:
        pair, direction = pair[::-1], direction.mirrored
    test.computation.set_root(hlo.Compare(direction)(*pair))
    return test, plain


def _carried_on(body: Scope, value: Instruction) -> Instruction:
    """The value that the next trip gets for `value`, which the body of a loop carries."""
    draw, before = body.draw, len(body.values)
    kind = draw.choice(("same", "update", "update", "scatter", "moved", "any", "any", "other", "copy"))
    shape = value.shape
    if kind == "same" or not isinstance(shape, Shape):
        return value
    if kind == "update" and shape.rank and shape.size:
        return updated(body, value)
    if kind == "scatter" and 0 < shape.rank < 4 and shape.size:
        return scattered(body, value)
    if kind == "moved" and shape.rank and shape.size:
        return _moved(body, value)
    if kind == "copy":
        return body.add(hlo.Copy(), value)
    if kind == "any":
        for _ in range(draw.randint(1, 3)):
            attempt(body, draw.choices(IN_BODIES, IN_WEIGHTS)[0])
        made = [v for v in body.values[before:] if v.shape is shape]
        if made:  # an unused value would be removed
            return draw.choice([v for v in made if not v.users] or made)
    return body.like(shape)


def _moved(s: Scope, x: Instruction) -> Instruction:
    """Moves the elements of a value to other positions; sometimes combines them with the ones there."""
    at = s.draw.randrange(x.shape.rank)
    if s.draw.random() < 0.5:
        y = s.add(hlo.Reverse((at,)), x)
    else:
        dims, ones = x.shape.dims, (1,) * x.shape.rank
        cut = tuple(s.draw.randint(0, n) if d == at else 0 for d, n in enumerate(dims))
        end = tuple(cut[d] if d == at else n for d, n in enumerate(dims))
        last = s.add(hlo.Slice(SliceDims(cut, dims, ones)), x)
        first = s.add(hlo.Slice(SliceDims((0,) * len(dims), end, ones)), x)
        y = s.add(hlo.Concatenate((at,)), last, first)
    return s.add(_chosen(s, x.shape.dtype), x, y) if s.draw.random() < 0.5 else y


def branches(s: Scope) -> None:
    draw = s.draw
    if s.depth > 2:
        return
    outputs = [s.pick().shape for _ in range(draw.randint(1, 3))]
    by_flag = draw.random() < 0.5
    called, given = [], []
    shared = [s.pick() for _ in range(draw.randint(1, 3))]
    for _ in range(2 if by_flag else draw.randint(1, 4)):
        values = shared if draw.random() < 0.5 else [s.pick() for _ in range(draw.randint(1, 3))]
        inner = s.inner("branch", [v.shape for v in values], True)
        for _ in range(draw.randint(0, 3)):
            attempt(inner, draw.choices(IN_BODIES, IN_WEIGHTS)[0])
        results = [inner.like(shape) for shape in outputs]  # type: ignore[arg-type]
        inner.computation.set_root(tupled(inner, results))
        called.append(inner.computation)
        given.append(tupled(s, values))
    if by_flag:
        op = hlo.Conditional(*called)
        s.parts(s.add(op, s.flag(), *given, keep=False))
    else:
        op = hlo.Conditional(branch_computations=tuple(called))
        s.parts(s.add(op, s.index(len(called)), *given, keep=False))


def called(s: Scope) -> None:
    """Adds a call or a fusion of some instructions, in many cases twice."""
    if s.depth > 2:
        return
    values = [s.pick() for _ in range(s.draw.randint(1, 3))]
    inner = s.inner("called", [v.shape for v in values], False)
    for _ in range(s.draw.randint(1, 4)):
        attempt(
            inner,
            s.draw.choice((pointwise, pointwise, broadcast, transposed, sliced, padded, reduced, compared)),
        )
    roots = s.draw.sample(inner.values, min(len(inner.values), s.draw.choice((1, 1, 2))))
    inner.computation.set_root(roots[0] if len(roots) == 1 else tupled(inner, roots))
    if s.draw.random() < 0.5:
        kind = FusionKind.LOOP if s.draw.random() < 0.7 else FusionKind.INPUT
        s.parts(s.add(hlo.Fusion(kind, calls=inner.computation), *values, keep=False))
        return
    for _ in range(s.draw.choice((1, 2))):
        s.parts(s.add(hlo.Call(inner.computation), *values, keep=False))
        values = [s.like(v.shape) for v in values]  # type: ignore[arg-type]


def mapped(s: Scope) -> None:
    x = s.pick()
    y = s.like(x.shape)
    inner = s.inner("mapped", [Shape(x.shape.dtype), Shape(y.shape.dtype)], False)
    for _ in range(2):
        attempt(inner, pointwise)
    inner.computation.set_root(inner.values[-1])
    s.add(hlo.Map(tuple(range(x.shape.rank)), inner.computation), x, y)


def barrier(s: Scope) -> None:
    kind = s.draw.random()
    x = s.pick()
    if kind < 0.4:
        s.parts(s.add(OPS["opt-barrier"](), tupled(s, [x, s.pick()]), keep=False))
    elif kind < 0.7:
        s.add(hlo.Copy(), x)
    else:
        start = hlo.CopyStart(TupleShape((x.shape, x.shape, Shape(U32))))
        s.add(OPS["copy-done"](), s.add(start, x, keep=False))


# Side effects


def token(s: Scope) -> Instruction:
    """A token, in most cases that of the last effect."""
    if s.tokens and s.draw.random() < 0.85:
        return s.tokens[-1]
    return s.computation.add(hlo.AfterAll())


def effect(s: Scope) -> None:
    """Adds an op with an effect that the host sees, so that its order shows. Effects are added to the entry
    only, which always runs.
    """
    if not s.is_entry:
        return
    s.draft.effects = True
    draw = s.draw
    kind = draw.choice(("infeed", "outfeed", "told", "told", "asked", "asked"))
    before = _ordered(s)
    if kind == "infeed":
        shape = Shape(draw.choice((F32, S32)), s.draft.dims(1, 40))
        found = s.computation.add(hlo.Infeed(TupleShape((shape, TOKEN))), [token(s)], extra=before)
        s.kept(s.computation.add(GetTupleElement(0), [found]))
        s.tokens.append(s.computation.add(GetTupleElement(1), [found]))
        s.effects.append(found)
    elif kind == "outfeed":
        _outfed(s, s.pick(lambda h: h.size < 200))
    else:  # an "asked" one is marked as free of effects, so only control edges order it
        x = s.pick(lambda h: h.dtype is S32 and h.size < 100)
        number = s.scalar(len(s.effects), S32)
        op = hlo.CustomCall(x.shape, custom_call_target=NAME, custom_call_has_side_effect=kind == "told")
        found = s.computation.add(op, [x, number], extra=before)
        s.kept(found)
        s.effects.append(found)
        if kind == "asked":
            if draw.random() < 0.5:
                effect(s)
            _outfed(s, found)  # so that its result is used


def _outfed(s: Scope, x: Instruction) -> None:
    found = s.computation.add(hlo.Outfeed(x.shape), [x, token(s)], extra=_ordered(s))
    s.tokens.append(found)
    s.effects.append(found)


def _ordered(s: Scope) -> Extra:
    """A control edge from the last effect, so that all effects have one order."""
    return Extra(control_predecessors=tuple(s.effects[-1:]))


def random_bits(s: Scope) -> None:
    draw = s.draw
    state = s.like(Shape(U64, (2,)))
    dtype = draw.choice((U32, U64, U8, S32))
    shape = TupleShape((state.shape, Shape(dtype, s.draft.dims(most=500))))
    s.parts(
        s.add(
            hlo.RngBitGenerator(
                shape,
                draw.choice(
                    (
                        RandomAlgorithm("rng_three_fry"),
                        RandomAlgorithm("rng_philox"),
                        RandomAlgorithm("rng_default"),
                    )
                ),
            ),
            state,
            keep=False,
        )
    )


# Parts of tests and samples


def graft(s: Scope) -> None:
    """Adds a mutant of a test of the passes, or of an op's sample, whose parameters are values of the
    scope.
    """
    if s.draw.random() < 0.6:
        source = s.draw.choice(seeds.tests())
    else:  # each op with the same probability
        source = s.draw.choice(s.draw.choice(_samples()))
    made = mutate.mutant(
        source.module, s.draw, s.draw.choice((s.draft.dtype(), s.draw.choice(operands.DTYPES)))
    )
    planted(s, made)


@cache
def _samples() -> list[list[seeds.Seed]]:
    """The samples of each op that has no side effect and is no collective: one list per op."""
    found: dict[str, list[seeds.Seed]] = {}
    for sample in seeds.samples():
        opcode = next(name for n in (1, 2) if (name := sample.name[:-n]) in OPS)
        if OPS[opcode].collective is None and not OPS[opcode].effect:
            found.setdefault(opcode, []).append(sample)
    return list(found.values())


def planted(s: Scope, made) -> None:
    """Copies the instructions of a module into the scope. Its parameters become values of the same shapes.
    Raises ValueError for modules with effects, dynamic sizes or several participants.
    """
    config = made.config
    if config.replica_count != 1 or config.num_partitions != 1:
        raise ValueError("of several participants")
    for computation in made.computations:
        for inst in computation.instructions:
            if inst.op.side_effect and inst.opcode != "custom-call" or inst.op.collective is not None:
                raise ValueError("it has effects")
            if any(a.is_dynamic for a in inst.shape.arrays()):
                raise ValueError("it has sizes that are not known")
    given = [_argument(s, p.shape) for p in made.entry.parameters]
    body = clone_computation(made.entry, s.draft.module, mapping={})
    caller = s.computation.add(hlo.Call(body), given)
    if s.draw.random() < 0.9:
        root = inline(caller, body, given)
        s.computation.remove(caller)
        s.draft.module.remove_computation(body)
        caller = root
    for one in _leaves(s, caller):
        if one not in s.values:
            s.kept(one)


def _argument(s: Scope, shape) -> Instruction:
    if isinstance(shape, TupleShape):
        return tupled(s, [_argument(s, e) for e in shape.elements])
    if not isinstance(shape, Shape):
        return s.computation.add(hlo.AfterAll())
    if not shape.layout.is_default:
        return s.parameter(shape) if s.is_entry else s.constant(shape.logical)
    kind = INDEX if shape.dtype.is_integer and s.draw.random() < 0.5 else ANY
    return s.like(shape, kind)


def _leaves(s: Scope, value: Instruction) -> list[Instruction]:
    if isinstance(value.shape, TupleShape):
        return [
            leaf for n in range(len(value.shape.elements))
            for leaf in _leaves(s, s.computation.add(GetTupleElement(n), [value]))
        ]  # fmt: skip
    return [value] if isinstance(value.shape, Shape) else []


def attempt(s: Scope, motif: Motif) -> bool:
    """Applies a motif; returns whether it found what it needs. Instructions that it added before it failed
    stay, unused.
    """
    from .draft import REFUSALS

    try:
        motif(s)
    except (*REFUSALS, mutate.Unfit):
        return False
    return True


MOTIFS: dict[Motif, float] = {
    pointwise: 5, compared: 2, converted: 2.5, identity: 3, undone: 2.5, broadcast: 1.5, reshaped: 1,
    transposed: 1.5, relaid: 0.8,
    sliced: 1, padded: 1, reversed_: 0.6, concatenated: 1.5, part: 1, updated: 1.5, gathered: 0.8,
    scattered: 1,
    reduced: 2.5, deep: 1.5, largest: 0.6,
    window: 1.5, sorted_: 0.8, top: 1, scanned: 0.8, rows: 0.6, product: 1.2,
    any_product: 0.6, convolution: 0.7, fourier: 0.4, loop: 2, branches: 0.8, called: 0.6,
    mapped: 0.3, barrier: 0.4, effect: 0.3, random_bits: 0.3, graft: 7,
}  # type: ignore[dict-item]  # fmt: skip
"""The weight of each motif."""

IN_BODIES: list[Motif] = [m for m in MOTIFS if m not in (effect,)]
IN_WEIGHTS = [{graft: 1.0, loop: 0.5}.get(m, MOTIFS[m]) for m in IN_BODIES]


def make(draft: Draft, length: int, chosen: list[Motif] | None = None) -> None:
    """Writes the entry: `length` motifs, from `chosen` or from MOTIFS by weight, and a root with the values
    that have no user.
    """
    s = draft.entry
    kinds, weights = chosen or list(MOTIFS), None if chosen else list(MOTIFS.values())
    for _ in range(length):
        attempt(s, draft.draw.choices(kinds, weights)[0])
    if not s.values:
        s.fresh(Shape(F32, (3,)))
    loose = [v for v in s.values if not v.users and not isinstance(v.op, Parameter)]
    if len(loose) > 6:
        loose = draft.draw.sample(loose, 6)
    if draft.draw.random() < 0.4:
        loose += draft.draw.sample(s.values, min(2, len(s.values)))
    loose = loose or [s.values[-1]]
    draft.draw.shuffle(loose)
    s.computation.set_root(loose[0] if len(loose) == 1 and draft.draw.random() < 0.7 else tupled(s, loose))
