"""Random HLO modules that are valid by construction: a seed gives a text. Oracles are elsewhere."""

from __future__ import annotations

import random
from math import prod

FLOATS = ("f32", "f64", "bf16", "f16")
INTEGERS = ("s32", "u8", "s64", "u32")
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64)

_UNARY = {
    "f": ("negate", "abs", "tanh", "exponential", "logistic", "sine", "sqrt", "floor", "sign", "erf"),
    "s": ("negate", "abs", "not", "popcnt", "sign"),
    "u": ("negate", "not", "popcnt"),
}
_BINARY = {
    "f": ("add", "subtract", "multiply", "maximum", "minimum", "divide"),
    "i": ("add", "subtract", "multiply", "maximum", "minimum", "and", "xor", "divide", "shift-right-logical"),
}


class Generator:
    """Builds one module. `values` are (name, dtype, dims) of what has been computed so far."""

    def __init__(self, seed: int, length: int = 14):
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.values: list[tuple[str, str, tuple[int, ...]]] = []
        self.parameters = 0
        self.count = 0
        self.combiners: dict[tuple[str, str], str] = {}
        self.length = length

    def text(self) -> str:
        r = self.r
        for _ in range(r.randint(1, 3)):
            self.parameter(r.choice(FLOATS + INTEGERS), self.dims())
        for _ in range(self.length):
            r.choice(STEPS)(self)
        outputs = r.sample(self.values, min(len(self.values), r.randint(1, 4)))
        if self.values[-1] not in outputs:
            outputs.append(self.values[-1])
        names = ", ".join(name for name, _, _ in outputs)
        shapes = ", ".join(shape(t, d) for _, t, d in outputs)
        body = "\n".join("  " + line for line in self.lines)
        called = "\n".join(self.combiners.values())
        return (
            f"HloModule fuzz\n{called}\nENTRY main {{\n{body}\n  ROOT out = ({shapes}) tuple({names})\n}}\n"
        )

    def dims(self) -> tuple[int, ...]:
        while True:
            dims = tuple(self.r.choice(SIZES) for _ in range(self.r.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))))
            if prod(dims) <= 20_000:
                return dims

    def emit(self, dtype: str, dims: tuple[int, ...], expression: str) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {shape(dtype, dims)} {expression}")
        self.values.append((name, dtype, dims))
        return name

    def parameter(self, dtype: str, dims: tuple[int, ...]) -> str:
        self.parameters += 1
        return self.emit(dtype, dims, f"parameter({self.parameters - 1})")

    def pick(self) -> tuple[str, str, tuple[int, ...]]:
        return self.r.choice(self.values[-8:])

    def like(self, dtype: str, dims: tuple[int, ...]) -> str:
        """Some value of exactly this shape."""
        found = [name for name, t, d in self.values if t == dtype and d == dims]
        if found and self.r.random() < 0.7:
            return self.r.choice(found)
        if self.r.random() < 0.5 or not dims:
            scalars = [name for name, t, d in self.values if t == dtype and d == ()]
            scalar = self.r.choice(scalars) if scalars else self.constant(dtype)
            return scalar if not dims else self.emit(dtype, dims, f"broadcast({scalar}), dimensions={{}}")
        return self.parameter(dtype, dims)

    def constant(self, dtype: str) -> str:
        return self.emit(dtype, (), f"constant({self.r.choice((0, 1, 2, 3))})")

    def combiner(self, opcode: str, dtype: str) -> str:
        name = f"{opcode}_{dtype}"
        self.combiners[opcode, dtype] = (
            f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
            f"  ROOT c = {dtype}[] {opcode}(a, b)\n}}"
        )
        return name


def shape(dtype: str, dims: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def kind(dtype: str) -> str:
    return "f" if dtype in FLOATS else "i"


def unary(g: Generator) -> None:
    x, t, d = g.pick()
    family = t[0] if t in INTEGERS else "f"
    g.emit(t, d, f"{g.r.choice(_UNARY[family])}({x})")


def binary(g: Generator) -> None:
    x, t, d = g.pick()
    y = g.like(t, d)
    a, b = (x, y) if g.r.random() < 0.5 else (y, x)
    g.emit(t, d, f"{g.r.choice(_BINARY[kind(t)])}({a}, {b})")


def select(g: Generator) -> None:
    x, t, d = g.pick()
    y = g.like(t, d)
    p = g.emit("pred", d, f"compare({x}, {y}), direction={g.r.choice(('LT', 'GE', 'EQ', 'NE'))}")
    g.values.pop()
    g.emit(t, d, f"select({p}, {y}, {x})")


def convert(g: Generator) -> None:
    x, _, d = g.pick()
    g.emit(g.r.choice(FLOATS + INTEGERS), d, f"convert({x})")


def broadcast(g: Generator) -> None:
    x, t, d = g.pick()
    if len(d) > 3:
        return
    rank = g.r.randint(len(d), min(4, len(d) + 2))
    where = sorted(g.r.sample(range(rank), len(d)))
    dims = [g.r.choice(SIZES[:8]) for _ in range(rank)]
    for w, size in zip(where, d, strict=True):
        dims[w] = size
    if prod(dims) <= 20_000:
        g.emit(t, tuple(dims), f"broadcast({x}), dimensions={{{','.join(map(str, where))}}}")


def reshape(g: Generator) -> None:
    x, t, d = g.pick()
    flat = [f for size in d for f in _factors(size)]
    g.r.shuffle(flat)
    dims: list[int] = []
    for f in flat:
        if dims and g.r.random() < 0.5:
            dims[-1] *= f
        else:
            dims.append(f)
    if g.r.random() < 0.3:
        dims.insert(g.r.randint(0, len(dims)), 1)
    g.emit(t, tuple(dims), f"reshape({x})")


def _factors(size: int) -> list[int]:
    for f in (2, 3, 5, 7, 11, 13, 17, 31):
        if size % f == 0 and size > 1:
            return [f, *_factors(size // f)] if size // f > 1 else [f]
    return [size] if size > 1 else []


def transpose(g: Generator) -> None:
    x, t, d = g.pick()
    order = list(range(len(d)))
    g.r.shuffle(order)
    g.emit(t, tuple(d[k] for k in order), f"transpose({x}), dimensions={{{','.join(map(str, order))}}}")


def slice_(g: Generator) -> None:
    x, t, d = g.pick()
    parts, dims = [], []
    for size in d:
        low = g.r.randint(0, size - 1)
        high = g.r.randint(low + 1, size)
        step = g.r.choice((1, 1, 1, 2, 3))
        parts.append(f"[{low}:{high}:{step}]")
        dims.append(-(-(high - low) // step))
    g.emit(t, tuple(dims), f"slice({x}), slice={{{', '.join(parts)}}}")


def pad(g: Generator) -> None:
    x, t, d = g.pick()
    parts, dims = [], []
    for size in d:
        low, high, inner = g.r.randint(-1, 3), g.r.randint(-1, 3), g.r.choice((0, 0, 0, 1, 2))
        total = low + high + size + (size - 1) * inner
        if total < 1:
            low, high, inner, total = 0, 0, 0, size
        parts.append(f"{low}_{high}_{inner}")
        dims.append(total)
    value = g.like(t, ())
    if d and prod(dims) <= 20_000:
        g.emit(t, tuple(dims), f"pad({x}, {value}), padding={'x'.join(parts)}")


def reverse(g: Generator) -> None:
    x, t, d = g.pick()
    which = [k for k in range(len(d)) if g.r.random() < 0.5]
    g.emit(t, d, f"reverse({x}), dimensions={{{','.join(map(str, which))}}}")


def concatenate(g: Generator) -> None:
    x, t, d = g.pick()
    if not d:
        return
    k = g.r.randrange(len(d))
    other = tuple(g.r.choice(SIZES[:7]) if i == k else size for i, size in enumerate(d))
    y = g.like(t, other)
    dims = tuple(size + other[i] if i == k else size for i, size in enumerate(d))
    if prod(dims) <= 20_000:
        g.emit(t, dims, f"concatenate({x}, {y}), dimensions={{{k}}}")


def reduce(g: Generator) -> None:
    x, t, d = g.pick()
    if not d:
        return
    which = sorted(g.r.sample(range(len(d)), g.r.randint(1, len(d))))
    opcode = g.r.choice(("add", "maximum", "minimum"))
    init = g.constant(t) if opcode == "add" else g.like(t, ())
    if opcode == "add":
        g.lines[-1] = g.lines[-1].split("constant")[0] + "constant(0)"
    dims = tuple(size for k, size in enumerate(d) if k not in which)
    called = g.combiner(opcode, t)
    g.emit(t, dims, f"reduce({x}, {init}), dimensions={{{','.join(map(str, which))}}}, to_apply={called}")


def dot(g: Generator) -> None:
    x, t, d = g.pick()
    if not d or t in ("u8",):
        return
    k = g.r.randrange(len(d))
    n = g.r.choice(SIZES)
    turned = g.r.random() < 0.5
    y = g.like(t, (n, d[k]) if turned else (d[k], n))
    dims = (*(size for i, size in enumerate(d) if i != k), n)
    if prod(dims) * d[k] <= 400_000:
        attributes = f"lhs_contracting_dims={{{k}}}, rhs_contracting_dims={{{1 if turned else 0}}}"
        g.emit(t, dims, f"dot({x}, {y}), {attributes}")


def iota(g: Generator) -> None:
    d = g.dims()
    if d:
        g.emit(g.r.choice(("f32", "s32", "u8")), d, f"iota(), iota_dimension={g.r.randrange(len(d))}")


def dynamic_slice(g: Generator) -> None:
    x, t, d = g.pick()
    starts = [g.like("s32", ()) for _ in d]
    sizes = tuple(g.r.randint(1, size) for size in d)
    if d:
        g.emit(
            t,
            sizes,
            f"dynamic-slice({x}, {', '.join(starts)}), dynamic_slice_sizes={{{','.join(map(str, sizes))}}}",
        )


def dynamic_update_slice(g: Generator) -> None:
    x, t, d = g.pick()
    if not d:
        return
    update = g.like(t, tuple(g.r.randint(1, size) for size in d))
    starts = [g.like("s32", ()) for _ in d]
    g.emit(t, d, f"dynamic-update-slice({x}, {update}, {', '.join(starts)})")


def gather(g: Generator) -> None:
    x, t, d = g.pick()
    if not d:
        return
    count = g.r.choice(SIZES)
    indices = g.like("s32", (count, 1))
    rest = d[1:]
    offsets = ",".join(str(k + 1) for k in range(len(rest)))
    sizes = ",".join(map(str, (1, *rest)))
    if count * prod(rest) <= 20_000:
        g.emit(t, (count, *rest), (
            f"gather({x}, {indices}), offset_dims={{{offsets}}}, collapsed_slice_dims={{0}}, "
            f"start_index_map={{0}}, "
            f"index_vector_dim=1, slice_sizes={{{sizes}}}"
        ))  # fmt: skip


STEPS = (
    unary, unary, binary, binary, binary, select, convert, broadcast, broadcast, reshape, transpose,
    transpose, slice_,
    pad, reverse, concatenate, reduce, reduce, reduce, dot, iota, dynamic_slice, dynamic_update_slice, gather,
)  # fmt: skip
