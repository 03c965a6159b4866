"""Random HLO texts for the passes that make kernels and memory: every text runs, whatever the seed."""

from __future__ import annotations

import random

HEADER = """HloModule random

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
"""

ROWS, COLUMNS = 40, 32


class Body:
    """Instructions of one computation, by the shape they give."""

    def __init__(self, generator: random.Random, prefix: str = "v"):
        self.random = generator
        self.prefix = prefix
        self.lines: list[str] = []
        self.values: dict[tuple[int, ...], list[str]] = {}

    def add(self, dims: tuple[int, ...], text: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = f32[{','.join(map(str, dims))}] {text}")
        self.values.setdefault(dims, []).append(name)
        return name

    def pick(self, dims: tuple[int, ...]) -> str:
        """A value of this shape, made if there is none; recent ones more often."""
        known = self.values.get(dims)
        if not known:
            constant = self.add((), f"constant({self.random.uniform(-1, 1):.3f})")
            return constant if not dims else self.add(dims, f"broadcast({constant}), dimensions={{}}")
        return known[-self.random.randint(1, min(len(known), 6))]

    def step(self) -> None:
        """One more instruction, or a few that belong together."""
        getattr(self, self.random.choice(_STEPS))()

    def dims(self) -> tuple[int, ...]:
        return self.random.choice(
            [(ROWS, COLUMNS), (ROWS, COLUMNS), (ROWS,), (COLUMNS,), (COLUMNS, ROWS), ()]
        )

    def unary(self) -> None:
        dims = self.dims()
        self.add(dims, f"{self.random.choice(['tanh', 'negate', 'abs', 'logistic'])}({self.pick(dims)})")

    def binary(self) -> None:
        dims = self.dims()
        op = self.random.choice(["add", "subtract", "multiply", "maximum"])
        self.add(dims, f"{op}({self.pick(dims)}, {self.pick(dims)})")

    def rows(self) -> None:
        source = self.pick((ROWS, COLUMNS))
        self.add((ROWS, COLUMNS), f"broadcast({self.reduced(source, 1, (ROWS,))}), dimensions={{0}}")

    def sums(self) -> None:
        at, dims = self.random.choice([(0, (COLUMNS,)), (1, (ROWS,))])
        self.reduced(self.pick((ROWS, COLUMNS)), at, dims)

    def reduced(self, source: str, at: int, dims: tuple[int, ...]) -> str:
        how, start = self.random.choice([("add", "0"), ("max", "-inf")])
        init = self.add((), f"constant({start})")
        self.values[()].remove(init)  # infinities would spread
        return self.add(dims, f"reduce({source}, {init}), dimensions={{{at}}}, to_apply={how}")

    def transposed(self) -> None:
        dims = self.random.choice([(ROWS, COLUMNS), (COLUMNS, ROWS)])
        self.add(dims[::-1], f"transpose({self.pick(dims)}), dimensions={{1,0}}")

    def spread(self) -> None:
        at, dims = self.random.choice([(0, (ROWS,)), (1, (COLUMNS,))])
        self.add((ROWS, COLUMNS), f"broadcast({self.pick(dims)}), dimensions={{{at}}}")

    def reshaped(self) -> None:
        other = (ROWS // 2, COLUMNS * 2)
        value = self.add(other, f"reshape({self.pick((ROWS, COLUMNS))})")
        value = self.add(other, f"negate({value})")
        self.add((ROWS, COLUMNS), f"reshape({value})")

    def sliced(self) -> None:
        source = self.pick((ROWS, COLUMNS))
        half = (ROWS // 2, COLUMNS)
        low = self.add(half, f"slice({source}), slice={{[0:{ROWS // 2}], [0:{COLUMNS}]}}")
        high = self.add(half, f"slice({source}), slice={{[{ROWS // 2}:{ROWS}], [0:{COLUMNS}]}}")
        self.add((ROWS, COLUMNS), f"concatenate({high}, {low}), dimensions={{0}}")

    def product(self) -> None:
        left, right = self.pick((ROWS, COLUMNS)), self.pick((COLUMNS, ROWS))
        square = self.add(
            (ROWS, ROWS), f"dot({left}, {right}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        scale = self.add((), f"constant({1 / 64})")
        scales = self.add((ROWS, ROWS), f"broadcast({scale}), dimensions={{}}")
        square = self.add((ROWS, ROWS), f"multiply({square}, {scales})")
        self.add(
            (ROWS, COLUMNS),
            f"dot({square}, {self.pick((ROWS, COLUMNS))}), "
            f"lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        )

    def updated(self) -> None:
        start = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {start} = s32[] constant({self.random.randint(-2, ROWS)})")
        zero = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {zero} = s32[] constant(0)")
        source = self.pick((ROWS, COLUMNS))
        row = self.pick((COLUMNS,))
        if self.random.random() < 0.5:
            row = self.add(
                (1, COLUMNS), f"dynamic-slice({source}, {start}, {zero}), dynamic_slice_sizes={{1,{COLUMNS}}}"
            )
            row = self.add((1, COLUMNS), f"negate({row})")
        else:
            row = self.add((1, COLUMNS), f"reshape({row})")
        self.add((ROWS, COLUMNS), f"dynamic-update-slice({source}, {row}, {start}, {zero})")


_STEPS = (
    "unary", "unary", "unary", "binary", "binary", "binary", "rows", "sums", "transposed",
    "spread", "reshaped", "sliced", "product", "updated",
)  # fmt: skip

BIG = (ROWS, COLUMNS)


def _shape(dims: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, dims))}]"


def straight(seed: int, size: int = 30) -> str:
    """An entry without control flow."""
    generator = random.Random(seed)
    body = Body(generator)
    body.add(BIG, "parameter(0)")
    body.add(BIG, "parameter(1)")
    body.add((COLUMNS,), "parameter(2)")
    for _ in range(size):
        body.step()
    results = [
        (dims, generator.choice(names)) for dims, names in body.values.items() if names for _ in range(2)
    ]
    return HEADER + _entry(body, results)


def _entry(body: Body, results: list[tuple[tuple[int, ...], str]]) -> str:
    shapes = ", ".join(_shape(d) for d, _ in results)
    root = f"  ROOT result = ({shapes}) tuple({', '.join(name for _, name in results)})"
    return "\n".join(["ENTRY main {", *body.lines, root, "}"]) + "\n"


def looping(seed: int) -> str:
    """An entry with a loop, maybe in a loop, that carries arrays, passes on, exchanges or repeats them."""
    generator = random.Random(seed)
    carried = [generator.choice([BIG, BIG, (COLUMNS,), ()]) for _ in range(generator.randint(1, 5))]
    parts = []
    depth = generator.randint(1, 2)
    for level in range(depth):
        parts.append(_loop(generator, f"l{level}", carried, f"l{level - 1}" if level else ""))
    body = Body(generator)
    body.add(BIG, "parameter(0)")
    body.add(BIG, "parameter(1)")
    body.add((COLUMNS,), "parameter(2)")
    for _ in range(4):
        body.step()
    state = _carry(body, carried, f"l{depth - 1}")
    for _ in range(3):
        body.step()
    results = [
        (dims, generator.choice([body.pick(dims), name])) for dims, name in zip(carried, state, strict=True)
    ]
    results.append((BIG, body.pick(BIG)))
    return HEADER + "".join(parts) + _entry(body, results)


def _tuple_shape(carried: list[tuple[int, ...]]) -> str:
    return "(" + ", ".join(["s32[]", *map(_shape, carried)]) + ")"


def _carry(body: Body, carried: list[tuple[int, ...]], loop: str) -> list[str]:
    """Runs a loop on values of the body; gives the names of the arrays it returns."""
    shape, number = _tuple_shape(carried), len(body.lines)
    init = [body.pick(d) for d in carried]
    body.lines.append(f"  {body.prefix}z{number} = s32[] constant(0)")
    body.lines.append(
        f"  {body.prefix}t{number} = {shape} tuple({', '.join([f'{body.prefix}z{number}', *init])})"
    )
    body.lines.append(
        f"  {body.prefix}w{number} = {shape} while({body.prefix}t{number}), "
        f"condition={loop}_cond, body={loop}_body"
    )
    return [
        body.add(d, f"get-tuple-element({body.prefix}w{number}), index={n + 1}")
        for n, d in enumerate(carried)
    ]


def _loop(generator: random.Random, name: str, carried: list[tuple[int, ...]], inner: str) -> str:
    shape = _tuple_shape(carried)
    body = Body(generator, f"{name}v")
    body.lines.append(f"  {name}p = {shape} parameter(0)")
    body.lines.append(f"  {name}i = s32[] get-tuple-element({name}p), index=0")
    old = [body.add(d, f"get-tuple-element({name}p), index={n + 1}") for n, d in enumerate(carried)]
    for _ in range(generator.randint(1, 5)):
        body.step()
    if inner:
        _carry(body, carried, inner)
    new = []
    for n, dims in enumerate(carried):
        same = [o for o, d in zip(old, carried, strict=True) if d == dims]
        new.append(generator.choice([old[n], generator.choice(same), body.pick(dims), body.pick(dims)]))
    lines = [
        f"{name}_body {{", *body.lines, f"  {name}one = s32[] constant(1)",
        f"  {name}j = s32[] add({name}i, {name}one)",
        f"  ROOT {name}t = {shape} tuple({', '.join([f'{name}j', *new])})", "}", f"{name}_cond {{",
        f"  {name}q = {shape} parameter(0)", f"  {name}k = s32[] get-tuple-element({name}q), index=0",
        f"  {name}n = s32[] constant({generator.choice([0, 1, 2, 3])})",
        f"  ROOT {name}c = pred[] compare({name}k, {name}n), direction=LT", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def branching(seed: int) -> str:
    """An entry with a conditional whose branches pass on, compute and update."""
    generator = random.Random(seed)
    parts = []
    shape = f"({_shape(BIG)}, {_shape(BIG)})"
    for name in ("yes", "no"):
        branch = Body(generator, name)
        branch.lines.append(f"  {name}p = {shape} parameter(0)")
        old = [branch.add(BIG, f"get-tuple-element({name}p), index={n}") for n in range(2)]
        for _ in range(generator.randint(0, 4)):
            branch.step()
        new = [generator.choice([old[n], old[1 - n], branch.pick(BIG)]) for n in range(2)]
        parts.append(
            "\n".join(
                [f"{name} {{", *branch.lines, f"  ROOT {name}t = {shape} tuple({', '.join(new)})", "}", ""]
            )
        )
    body = Body(generator)
    body.add(BIG, "parameter(0)")
    body.add(BIG, "parameter(1)")
    body.add((COLUMNS,), "parameter(2)")
    body.lines.append("  choice = pred[] parameter(3)")
    for _ in range(3):
        body.step()
    for n in range(2):
        operands = [f"{body.pick(BIG)}, {body.pick(BIG)}" for _ in range(2)]
        body.lines += [f"  a{n} = {shape} tuple({operands[0]})", f"  b{n} = {shape} tuple({operands[1]})"]
        if n == 0:  # a computation has one caller after flattening; calling it twice is allowed before
            call = "true_computation=yes, false_computation=no"
        else:
            call = "true_computation=no, false_computation=yes"
        body.lines.append(f"  c{n} = {shape} conditional(choice, a{n}, b{n}), {call}")
        for k in range(2):
            body.add(BIG, f"get-tuple-element(c{n}), index={k}")
        body.step()
    results = [(BIG, body.pick(BIG)) for _ in range(3)]
    return HEADER + "".join(parts) + _entry(body, results)
