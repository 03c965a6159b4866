"""The modules that mutants are made from: the tests of the passes, samples of every op, and random
programs.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axla.core.errors import AxlaError
from axla.core.shape import AnyShape
from axla.ir.clone import clone_module
from axla.ir.graph import Computation, Module
from axla.ir.op import OPS, Op
from axla.ir.structure import Parameter
from axla.ir.verify import verify
from axla.passes.pipelines import PASSES, PIPELINES
from axla.passes.steps import Pass, flat, parse_passes
from axla.text.parser import parse_hlo

ROOT = Path(__file__).resolve().parents[2]
HLO = ROOT / "tests" / "hlo"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "passes")]

from hlo_tests import ERROR, Section, options_of, sections_of  # noqa: E402


@dataclass(frozen=True)
class Seed:
    """A module, with the passes and the flags of the test that it comes from."""

    name: str
    module: Module
    passes: tuple[Pass, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)


@functools.cache
def tests() -> tuple[Seed, ...]:
    """The modules in tests/hlo that can be parsed and verified."""
    found: list[Seed] = []
    for path in sorted(HLO.rglob("*.hlo")):
        found += filter(None, map(_seed, sections_of(path)))
    return tuple(found)


def _seed(section: Section) -> Seed | None:
    if any(ERROR.search(line) for line in section.text.split("\n")):
        return None
    options = options_of(section.run)
    try:
        module = parse_hlo(section.code)
        verify(module)
        steps = parse_passes(options.passes, PASSES, PIPELINES)
    except AxlaError:
        return None
    return Seed(section.name, module, tuple(step for _, step in flat(steps)), options.changes)


def named(name: str) -> list[Seed]:
    """The tests of a rule: those with its name, or with its name and a suffix."""
    return [s for s in tests() if s.name == name or s.name.startswith(f"{name}_")]


def running(step: Pass) -> list[Seed]:
    """The tests that run a pass."""
    return [s for s in tests() if any(p.name == step.name for p in s.passes)]


@functools.cache
def samples() -> tuple[Seed, ...]:
    """A module for each sample of each op; the operands are parameters."""
    found: list[Seed] = []
    for opcode, cls in sorted(OPS.items()):
        for number, (op, shapes) in enumerate(cls.samples()):
            try:
                found.append(Seed(f"{opcode}{number}", _alone(opcode, op, shapes)))
            except AxlaError:
                continue
    return tuple(found)


def _alone(name: str, op: Op, shapes: Sequence[AnyShape]) -> Module:
    module = Module(name)
    own: dict[Computation, Computation] = {}
    for called in op.computations():
        for computation, copy in _copied(called, module, own).items():
            own[computation] = copy
    entry = module.add_computation("main", entry=True)
    operands = [entry.add(Parameter(s, n)) for n, s in enumerate(shapes)]
    op = op.with_computations(own.__getitem__) if op.computation_fields else op
    entry.set_root(entry.add(op, operands))
    verify(module)
    return module


def _copied(
    source: Computation, module: Module, own: dict[Computation, Computation]
) -> dict[Computation, Computation]:
    from axla.ir.clone import clone_computation

    if source in own:
        return own
    mapping = dict(own)
    clone_computation(source, module, mapping=mapping)
    return mapping


def program(draw: random.Random) -> Module:
    """A random program: of many ops and types, or of f32 arrays with loops and branches."""
    from random_modules import branching, looping, straight
    from test_random_programs import Generator

    seed = draw.randrange(1 << 30)
    kind = draw.choice(("ops", "ops", "straight", "looping", "branching"))
    if kind == "ops":
        return Generator(seed).make(draw.randint(4, 25))
    makers = {"straight": straight, "looping": looping, "branching": branching}
    return parse_hlo(makers[kind](seed))


def copy(module: Module) -> Module:
    return clone_module(module)
