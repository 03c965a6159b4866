"""Random loops, branches and calls over carried arrays, valid by construction: a seed gives a text.

Bodies swap, pass on, read again and update in place what they carry: what copies and shared memory can get
wrong.
"""

from __future__ import annotations

import random

KINDS = ("f32[40]", "f32[5,8]", "s32[24]", "f32[]", "s32[]", "f32[3]", "pred[20]", "f32[40,9]")
_ELEMENTWISE = {
    "f32": ("add", "subtract", "maximum", "multiply"),
    "s32": ("add", "xor", "maximum"),
    "pred": ("and", "xor"),
}


class Scope:
    """One computation being written: its lines and what it has, by shape."""

    def __init__(self, module: ControlFlow, prefix: str, depth: int):
        self.module, self.prefix, self.depth = module, prefix, depth
        self.r = module.r
        self.lines: list[str] = []
        self.known: dict[str, list[str]] = {}

    def add(self, shape: str, expression: str, *, listed: bool = True) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"  {name} = {shape} {expression}")
        if listed:
            self.known.setdefault(shape, []).append(name)
        return name

    def pick(self, shape: str) -> str:
        found = self.known.get(shape)
        if found and self.r.random() < 0.95:
            return self.r.choice(found)
        dtype = shape.split("[")[0]
        value = self.r.choice(("true", "false")) if dtype == "pred" else str(self.r.choice((0, 1, 2, 3)))
        scalar = self.add(f"{dtype}[]", f"constant({value})", listed=False)
        return scalar if shape.endswith("[]") else self.add(shape, f"broadcast({scalar}), dimensions={{}}")

    def closed(self, root: str, root_shape: str, *, entry: bool = False) -> str:
        """The text of the computation, called by its prefix."""
        head = "ENTRY main" if entry else self.prefix
        return "\n".join([f"{head} {{", *self.lines, f"  ROOT {self.prefix}root = {root_shape} {root}", "}"])


class ControlFlow:
    """Writes one module."""

    def __init__(self, seed: int, length: int = 10):
        self.r = random.Random(seed)
        self.length = length
        self.computations: list[str] = []
        self.count = 0

    def text(self) -> str:
        entry = Scope(self, "e", 0)
        for number in range(self.r.randint(1, 5)):
            entry.add(self.r.choice(KINDS), f"parameter({number})")
        self.fill(entry, self.length)
        names = [
            (self.r.choice(names), shape)
            for shape, names in entry.known.items()
            for _ in range(self.r.randint(0, 2))
        ]
        names = names or [(entry.pick("f32[40]"), "f32[40]")]
        self.r.shuffle(names)
        shape = "(" + ", ".join(s for _, s in names) + ")"
        main = entry.closed(f"tuple({', '.join(n for n, _ in names)})", shape, entry=True)
        return "\n\n".join(["HloModule control_flow", HELPERS, *self.computations, main]) + "\n"

    def fill(self, scope: Scope, length: int) -> None:
        for _ in range(length):
            nested = scope.depth < 3 and self.r.random() < 0.3
            self.r.choice((loop, loop, loop, branch, call) if nested else STEPS)(scope)

    def scope(self, depth: int) -> Scope:
        self.count += 1
        return Scope(self, f"c{self.count}_", depth)

    def carried(self) -> list[str]:
        """The shapes of a state; those that occur twice can be swapped."""
        kinds = self.r.sample(KINDS, self.r.randint(1, 3))
        return [self.r.choice(kinds) for _ in range(self.r.randint(1, 5))]


def opened(module: ControlFlow, depth: int, shapes: list[str], counter: bool) -> tuple[Scope, list[str]]:
    """A new computation with its state taken apart."""
    scope = module.scope(depth)
    all_shapes = ["s32[]", *shapes] if counter else shapes
    parameter = scope.add(f"({', '.join(all_shapes)})", "parameter(0)", listed=False)
    state = []
    for n, shape in enumerate(all_shapes):
        state.append(
            scope.add(shape, f"get-tuple-element({parameter}), index={n}", listed=not counter or n > 0)
        )
    return scope, state


def results(scope: Scope, shapes: list[str], state: list[str]) -> list[str]:
    """What a body returns: new values, old ones, swapped ones, one value twice."""
    made = []
    for old, shape in zip(state, shapes, strict=True):
        made.append(old if scope.r.random() < 0.2 else scope.pick(shape))
    return made


def taken_apart(scope: Scope, name: str, shapes: list[str], first: int = 0) -> None:
    for n, shape in enumerate(shapes):
        if scope.r.random() < 0.8:
            scope.add(shape, f"get-tuple-element({name}), index={n + first}")


def packed(scope: Scope, shapes: list[str]) -> str:
    """A tuple of some values of these shapes."""
    values = ", ".join(scope.pick(s) for s in shapes)
    return scope.add(f"({', '.join(shapes)})", f"tuple({values})", listed=False)


def loop(scope: Scope) -> None:
    module, r = scope.module, scope.r
    shapes = module.carried()
    state_shape = f"(s32[], {', '.join(shapes)})"
    body, state = opened(module, scope.depth + 1, shapes, True)
    module.fill(body, r.randint(1, 5))
    one = body.add("s32[]", "constant(1)", listed=False)
    count = body.add("s32[]", f"add({state[0]}, {one})", listed=False)
    made = results(body, shapes, state[1:])
    module.computations.append(body.closed(f"tuple({count}, {', '.join(made)})", state_shape))

    condition, tested = opened(module, 9, shapes, True)
    trips = condition.add("s32[]", f"constant({r.choice((0, 1, 2, 3, 5))})", listed=False)
    running = condition.add("pred[]", f"compare({tested[0]}, {trips}), direction=LT", listed=False)
    reading = "s32[24]" in shapes and r.random() < 0.4  # a condition that reads a carried array
    if reading:
        whole = tested[1 + shapes.index("s32[24]")]
        element = condition.add("s32[1]", f"slice({whole}), slice={{[3:4]}}", listed=False)
        scalar = condition.add("s32[]", f"reshape({element})", listed=False)
        wanted = condition.add("pred[]", f"compare({scalar}, {tested[0]}), direction=NE", listed=False)
        running = condition.add("pred[]", f"and({running}, {wanted})", listed=False)
    module.computations.append(condition.closed(f"and({running}, {running})", "pred[]"))

    zero = scope.add("s32[]", "constant(0)", listed=False)
    init = ", ".join([zero, *(scope.pick(s) for s in shapes)])
    start = scope.add(state_shape, f"tuple({init})", listed=False)
    end = scope.add(
        state_shape, f"while({start}), condition={condition.prefix}, body={body.prefix}", listed=False
    )
    taken_apart(scope, end, shapes, 1)


def branch(scope: Scope) -> None:
    module, r = scope.module, scope.r
    outputs = module.carried()
    names, operands = [], []
    by_pred = r.random() < 0.5
    for _ in range(2 if by_pred else r.randint(1, 3)):
        shapes = module.carried()
        body, state = opened(module, scope.depth + 1, shapes, False)
        module.fill(body, r.randint(0, 3))
        made = results(body, outputs, [body.pick(s) for s in outputs])
        module.computations.append(body.closed(f"tuple({', '.join(made)})", f"({', '.join(outputs)})"))
        names.append(body.prefix)
        operands.append(packed(scope, shapes))
    if by_pred:
        a, b = scope.pick("s32[]"), scope.pick("s32[]")
        chosen = scope.add("pred[]", f"compare({a}, {b}), direction=LE", listed=False)
        called = f"true_computation={names[0]}, false_computation={names[1]}"
    else:
        chosen, called = scope.pick("s32[]"), f"branch_computations={{{', '.join(names)}}}"
    made_shape = f"({', '.join(outputs)})"
    made = scope.add(made_shape, f"conditional({chosen}, {', '.join(operands)}), {called}", listed=False)
    taken_apart(scope, made, outputs)


def call(scope: Scope) -> None:
    module = scope.module
    shapes = module.carried()
    body, state = opened(module, scope.depth + 1, shapes, False)
    module.fill(body, scope.r.randint(1, 3))
    outputs = module.carried()
    made_shape = f"({', '.join(outputs)})"
    module.computations.append(body.closed(f"tuple({', '.join(body.pick(s) for s in outputs)})", made_shape))
    for _ in range(scope.r.randint(1, 2)):
        argument = packed(scope, shapes)
        made = scope.add(made_shape, f"call({argument}), to_apply={body.prefix}", listed=False)
        taken_apart(scope, made, outputs)


def elementwise(scope: Scope) -> None:
    shape = scope.r.choice(KINDS)
    opcode = scope.r.choice(_ELEMENTWISE[shape.split("[")[0]])
    value = scope.add(
        shape, f"{opcode}({scope.pick(shape)}, {scope.pick(shape)})", listed=opcode != "multiply"
    )
    if opcode == "multiply":  # kept small, whatever the loops do
        scope.add(shape, f"tanh({value})")


def update(scope: Scope) -> None:
    shape, part = scope.r.choice((("f32[40]", "f32[3]"), ("f32[40]", "f32[40]"), ("s32[24]", "s32[24]")))
    scope.add(shape, f"dynamic-update-slice({scope.pick(shape)}, {scope.pick(part)}, {scope.pick('s32[]')})")


def row_update(scope: Scope) -> None:
    row = scope.add("f32[1,8]", f"slice({scope.pick('f32[5,8]')}), slice={{[1:2], [0:8]}}", listed=False)
    starts = f"{scope.pick('s32[]')}, {scope.pick('s32[]')}"
    scope.add("f32[5,8]", f"dynamic-update-slice({scope.pick('f32[5,8]')}, {row}, {starts})")


def read(scope: Scope) -> None:
    scope.add(
        "f32[3]", f"dynamic-slice({scope.pick('f32[40]')}, {scope.pick('s32[]')}), dynamic_slice_sizes={{3}}"
    )


def element(scope: Scope) -> None:
    operands = f"{scope.pick('s32[24]')}, {scope.pick('s32[]')}"
    one = scope.add("s32[1]", f"dynamic-slice({operands}), dynamic_slice_sizes={{1}}", listed=False)
    scope.add("s32[]", f"reshape({one})")


def reshape(scope: Scope) -> None:
    of, to = scope.r.choice((("f32[40]", "f32[5,8]"), ("f32[5,8]", "f32[40]")))
    scope.add(to, f"reshape({scope.pick(of)})")


def turned(scope: Scope) -> None:
    shape = scope.r.choice(("f32[40]", "s32[24]", "f32[3]", "pred[20]"))
    scope.add(shape, f"reverse({scope.pick(shape)}), dimensions={{0}}")


def copy(scope: Scope) -> None:
    shape = scope.r.choice(KINDS)
    scope.add(shape, f"copy({scope.pick(shape)})")


def column(scope: Scope) -> None:
    scope.add("f32[40,9]", f"broadcast({scope.pick('f32[40]')}), dimensions={{0}}")


def total(scope: Scope) -> None:
    scope.add(
        "f32[]", f"reduce({scope.pick('f32[40]')}, {scope.pick('f32[]')}), dimensions={{0}}, to_apply=larger"
    )


def rows(scope: Scope) -> None:
    operands = f"{scope.pick('f32[40,9]')}, {scope.pick('f32[]')}"
    scope.add("f32[40]", f"reduce({operands}), dimensions={{1}}, to_apply=larger")


def scattered(scope: Scope) -> None:
    """Updates of an array at places that may repeat or lie outside."""
    places = scope.add("s32[3,1]", f"broadcast({scope.pick('s32[]')}), dimensions={{}}", listed=False)
    steps = scope.add("s32[3,1]", "iota(), iota_dimension=0", listed=False)
    places = scope.add("s32[3,1]", f"add({places}, {steps})", listed=False)
    scope.add("f32[40]", (
        f"scatter({scope.pick('f32[40]')}, {places}, {scope.pick('f32[3]')}), update_window_dims={{}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=larger"
    ))  # fmt: skip


def ordered(scope: Scope) -> None:
    """Two arrays sorted together."""
    sort = f"sort({scope.pick('s32[24]')}, {scope.pick('s32[24]')}), dimensions={{0}}, is_stable=true"
    both = scope.add("(s32[24], s32[24])", f"{sort}, to_apply=first", listed=False)
    for n in range(2):
        scope.add("s32[24]", f"get-tuple-element({both}), index={n}")


def largest(scope: Scope) -> None:
    """Two results of one reduction."""
    numbers = scope.add("s32[40]", "iota(), iota_dimension=0", listed=False)
    operands = f"{scope.pick('f32[40]')}, {numbers}, {scope.pick('f32[]')}, {scope.pick('s32[]')}"
    both = scope.add("(f32[], s32[])", f"reduce({operands}), dimensions={{0}}, to_apply=where", listed=False)
    scope.add("f32[]", f"get-tuple-element({both}), index=0")
    scope.add("s32[]", f"get-tuple-element({both}), index=1")


HELPERS = """larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

first {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}

where {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  p = pred[] compare(a, b), direction=GE
  x = f32[] select(p, a, b)
  y = s32[] select(p, i, j)
  ROOT r = (f32[], s32[]) tuple(x, y)
}"""

STEPS = (
    elementwise, elementwise, elementwise, update, update, row_update, read, element, reshape, turned, copy,
    column, total, rows, scattered, ordered, largest,
)  # fmt: skip
