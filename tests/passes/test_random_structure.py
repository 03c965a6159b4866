"""Random nests of loops, branches and sorts keep their values when they are simplified."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from verify_lib.mutate import bind  # noqa: E402

from axla.core import flags  # noqa: E402
from axla.ir.graph import Module  # noqa: E402
from axla.ir.traverse import below  # noqa: E402
from axla.ir.verify import verify  # noqa: E402
from axla.passes import driver, pipelines  # noqa: E402
from axla.target.machine import cpu_target  # noqa: E402
from axla.text.parser import parse_hlo  # noqa: E402
from hlo_tests import same_values  # noqa: E402

UNARY = ("negate", "abs", "not", "sign")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "xor")
SHAPES = ("s32[]", "s32[4]", "s32[300]")


class Writer:
    """Text of a module: computations of a tuple each, whose values are integers, so that nothing rounds."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.texts: list[str] = []
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, values):
        return values[self.random.randrange(len(values))]

    def computation(self, elements: list[str], depth: int, counts: bool = False) -> str:
        """The name of a computation from a tuple to a tuple of the same elements; the first may count."""
        name, lines = self.name("f"), [f"  p = ({', '.join(elements)}) parameter(0)"]
        values = []
        for n, shape in enumerate(elements):
            values.append((self.name("e"), shape))
            lines.append(f"  {values[-1][0]} = {shape} get-tuple-element(p), index={n}")
        given = list(values)
        for _ in range(self.random.randrange(2, 7)):
            self.step(lines, values, depth)
        results = [self.of(lines, values, shape) for shape in elements]
        for n, (value, _) in enumerate(given):
            if self.random.random() < 0.3:
                results[n] = value
        if counts:
            step = self.name("k")
            lines.append(f"  {step} = s32[] constant({self.pick((1, 1, 2))})")
            results[0] = self.name("i")
            lines.append(f"  {results[0]} = s32[] add({given[0][0]}, {step})")
        lines.append(f"  ROOT t = ({', '.join(elements)}) tuple({', '.join(results)})")
        self.texts.append("\n".join([f"{name} {{", *lines, "}"]))
        return name

    def of(self, lines, values, shape: str) -> str:
        """A value of a shape; a constant where there is none, or by chance."""
        found = [name for name, s in values if s == shape]
        if found and self.random.random() < 0.8:
            return self.pick(found)
        scalar = self.name("k")
        lines.append(f"  {scalar} = s32[] constant({self.random.randrange(-2, 4)})")
        if shape == "s32[]":
            return scalar
        wide = self.name("b")
        kind = (
            "iota(), iota_dimension=0"
            if self.random.random() < 0.3
            else f"broadcast({scalar}), dimensions={{}}"
        )
        lines.append(f"  {wide} = {shape} {kind}")
        return wide

    def step(self, lines, values, depth: int) -> None:
        shape, name = self.pick(SHAPES), self.name("v")
        chance = self.random.random()
        if depth and chance < 0.5:
            return self.control(lines, values, depth - 1)
        if chance < 0.6:
            lines.append(f"  {name} = {shape} {self.pick(UNARY)}({self.of(lines, values, shape)})")
        elif chance < 0.7:
            return self.sort(lines, values)
        else:
            x, y = (self.of(lines, values, shape) for _ in range(2))
            lines.append(f"  {name} = {shape} {self.pick(BINARY)}({x}, {y})")
        values.append((name, shape))

    def sort(self, lines, values) -> None:
        x, y = (self.of(lines, values, "s32[4]") for _ in range(2))
        pair, name = self.name("o"), self.name("v")
        lines.append(
            f"  {pair} = (s32[4], s32[4]) sort({x}, {y}), dimensions={{0}}, is_stable=true, to_apply=less"
        )
        lines.append(f"  {name} = s32[4] get-tuple-element({pair}), index={self.random.randrange(2)}")
        values.append((name, "s32[4]"))

    def control(self, lines, values, depth: int) -> None:
        elements = [self.pick(SHAPES) for _ in range(self.random.randrange(1, 5))]
        if self.random.random() < 0.6:
            inst, elements = self.loop(lines, values, ["s32[]", *elements], depth), ["s32[]", *elements]
        else:
            inst = self.branches(lines, values, elements, depth)
        for n, shape in enumerate(elements):
            if self.random.random() < 0.6:
                values.append((self.name("v"), shape))
                lines.append(f"  {values[-1][0]} = {shape} get-tuple-element({inst}), index={n}")

    def given(self, lines, values, elements) -> str:
        """A tuple of these elements, some of them twice."""
        chosen = [self.of(lines, values, shape) for shape in elements]
        for n, shape in enumerate(elements):
            same = [c for c, s in zip(chosen, elements, strict=True) if s == shape]
            chosen[n] = self.pick(same) if self.random.random() < 0.4 else chosen[n]
        name = self.name("t")
        lines.append(f"  {name} = ({', '.join(elements)}) tuple({', '.join(chosen)})")
        return name

    def loop(self, lines, values, elements, depth: int) -> str:
        body, test = self.computation(elements, depth, counts=True), self.name("c")
        trips = self.pick((0, 1, 2, 3, 5))
        self.texts.append(
            f"{test} {{ p = ({', '.join(elements)}) parameter(0)  i = s32[] get-tuple-element(p), index=0\n"
            f"  n = s32[] constant({trips})  ROOT l = pred[] compare(i, n), direction=LT }}"
        )
        zero, counter, name = self.name("k"), [], self.name("w")
        lines.append(f"  {zero} = s32[] constant(0)")
        start = self.given(lines, values, elements)
        counter = lines.pop()
        first, _, rest = counter.partition("tuple(")
        lines.append(f"{first}tuple({', '.join([zero, *rest.rstrip(')').split(', ')[1:]])})")
        hint = ', frontend_attributes={unroll_factor="2"}' if self.random.random() < 0.2 else ""
        lines.append(
            f"  {name} = ({', '.join(elements)}) while({start}), condition={test}, body={body}{hint}"
        )
        return name

    def branches(self, lines, values, elements, depth: int) -> str:
        count = self.random.randrange(2, 4)
        called = [self.computation(elements, depth) for _ in range(count)]
        if self.random.random() < 0.3:
            called[1] = called[0]
        start = [self.given(lines, values, elements) for _ in range(count)]
        index, name = self.of(lines, values, "s32[]"), self.name("d")
        lines.append(
            f"  {name} = ({', '.join(elements)}) conditional({index}, {', '.join(start)}), "
            f"branch_computations={{{', '.join(called)}}}"
        )
        return name

    def module(self) -> str:
        elements = ["s32[]", "s32[4]", "s32[300]", "s32[]"]
        lines = [f"  x{n} = {shape} parameter({n})" for n, shape in enumerate(elements)]
        values = [(f"x{n}", shape) for n, shape in enumerate(elements)]
        for _ in range(4):
            self.control(lines, values, 2)
        chosen = values[-6:]
        root = ", ".join(shape for _, shape in chosen)
        lines.append(f"  ROOT r = ({root}) tuple({', '.join(name for name, _ in chosen)})")
        less = """less { a = s32[] parameter(0)  b = s32[] parameter(1)  i = s32[] parameter(2)
  j = s32[] parameter(3)  ROOT l = pred[] compare(a, b), direction=LT }"""
        return "\n".join(["HloModule m", less, *self.texts, "ENTRY e {", *lines, "}"])


@pytest.mark.parametrize("seed", range(15))
def test_structure_keeps_values(seed):
    text = Writer(seed).module()
    before, module = parse_hlo(text), parse_hlo(text)
    verify(before)
    with flags.override(verify=True, shuffle=seed):
        driver.run(module, (*pipelines.SIMPLIFY, *pipelines.LOWER), cpu_target())
    try:
        same_values(before, module, seed)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n{text}\nbecame\n{module.to_string()}") from None


@pytest.mark.filterwarnings("error:pipeline .* still changes")
@pytest.mark.parametrize("seed", range(15))
def test_random_control_edges(seed):
    text = Writer(seed).module()
    before, module = parse_hlo(text), parse_hlo(text)
    edges = bind(module, random.Random(seed))
    with flags.override(verify=True, shuffle=seed):
        driver.run(module, (*pipelines.SIMPLIFY, *pipelines.LOWER), cpu_target())
        assert not broken(module, edges)
        same_values(before, module, seed)
        driver.run(module, pipelines.KERNELS, cpu_target())
    same_values(before, module, seed)


def broken(module: Module, edges: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Edges of which both ends are there, and the second does not wait for the first."""
    there = {i.name: i for c in module.computations for i in c.instructions}
    pairs = [(a, b) for a, b in edges if a in there and b in there]
    same = [(a, b) for a, b in pairs if there[a].computation is there[b].computation]
    return [(a, b) for a, b in same if there[a] not in set(below(there[b], set()))]


def test_an_element_kept_by_a_control_edge_is_replaced_once():
    module = parse_hlo("""
one { p = (s32[4], s32[4]) parameter(0)
  x = s32[4] get-tuple-element(p), index=0
  y = s32[4] get-tuple-element(p), index=1
  ROOT r = (s32[4], s32[4]) tuple(x, y) }
ENTRY e { i = s32[] parameter(0)
  x = s32[4] parameter(1)
  y = s32[4] parameter(2)
  t = (s32[4], s32[4]) tuple(x, y)
  c = (s32[4], s32[4]) conditional(i, t, t), branch_computations={one, one}
  a = s32[4] get-tuple-element(c), index=0
  b = s32[4] get-tuple-element(c), index=1
  n = s32[4] negate(b), control-predecessors={a}
  ROOT r = (s32[4], s32[4]) tuple(a, n) }""")
    simplify = pipelines.PASSES["conditional-simplifier"]
    driver.run(module, (simplify,), cpu_target())
    version = module.version
    driver.run(module, (simplify,), cpu_target())
    assert module.version == version
