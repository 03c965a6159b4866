"""Verifies rewrite rules and passes on random modules: the module before and the module after must compute
the same bits, unless the rule allows less.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from axla.analysis.buffers import assign_buffers
from axla.core import flags
from axla.core.errors import AxlaError, DeadlineExceeded, InternalError, UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.core.shape_util import major_to_minor
from axla.custom.feeds import feeds
from axla.hlo import Parameter, RaggedDot, Reshape, Slice
from axla.interpreter.evaluate import evaluate
from axla.ir.graph import Instruction, Module
from axla.ir.op import Op
from axla.ir.verify import verify
from axla.passes import driver, rewrite
from axla.passes.pipelines import CPU, PASSES
from axla.passes.rewrite import RULES, Rule
from axla.passes.simplify.match import limits
from axla.passes.steps import Pass, flat
from axla.target.machine import cpu_target

from . import mutate, operands, seeds

STEPS = 20_000
"""The number of instructions that the interpreter runs of a case, since the loops of mutants may not end."""

TRIES = 12
"""The number of modules that are tried for each one that must be rewritten."""


ERRORS = (AxlaError, ArithmeticError, LookupError, ValueError, TypeError, AssertionError, AttributeError)
"""The errors that wrong modules raise."""


@dataclass
class Failure:
    """A failing case: the reason, the text of the module before and `after`, and the number by which it can
    be repeated.
    """

    why: str
    module: str
    after: str
    number: int


@dataclass
class Verdict:
    """The result for a rule or a pass."""

    name: str
    kind: str
    allows: str = ""
    tried: int = 0
    changed: int = 0  # modules that were changed and compared
    firings: int = 0
    types: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    missing: str = ""  # the reason why it is not verified
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return bool(self.failures or self.missing)


class Wrong(Exception):
    """Raised for a module that was rewritten wrongly."""


class Skip(Exception):
    """Raised for a module that cannot be run, so that it proves nothing."""


def rules() -> dict[str, tuple[Rule, rewrite.Rules]]:
    """All rules by name, each with a table that has this rule only."""
    found: dict[str, tuple[Rule, rewrite.Rules]] = {}
    for table in RULES.values():
        for cls, several in table.items():
            for rule in several:
                found.setdefault(rule.name, (rule, {}))[1][cls] = (rule,)
    return dict(sorted(found.items()))


def kind_of(allows: str) -> str:
    return allows.partition(":")[0]


Attempt = Callable[[int, list[Module]], int]
"""A function that makes the module with a number and applies the rule or the pass. It returns how often the
module was rewritten, and appends the modules before and after to the list.
"""


def _verify(verdict: Verdict, attempt: Attempt, cases: int, only: int | None) -> Verdict:
    """Calls `attempt` until `cases` modules were rewritten and compared, or for the number `only`; fills the
    verdict.
    """
    begin = time.perf_counter()
    for number in range(cases * TRIES) if only is None else [only]:
        made: list[Module] = []
        try:
            firings = attempt(number, made)
        except (Skip, mutate.Unfit):
            continue
        except Wrong as wrong:
            verdict.failures.append(Failure(str(wrong), *(m.to_string() for m in made), number))
            if len(verdict.failures) >= 5:
                break
            continue
        verdict.tried += 1
        if firings:
            verdict.changed += 1
            verdict.firings += firings
            verdict.types.update(a.dtype.name for i in made[0].entry.instructions for a in i.shape.arrays())
        if verdict.changed >= cases:
            break
    verdict.seconds = time.perf_counter() - begin
    return verdict


def verify_rule(
    rule: Rule, table: rewrite.Rules, cases: int, seed: int, only: int | None = None, more: bool = True
) -> Verdict:
    """Verifies a rule on mutants of its own tests and, with `more`, of all tests and samples on which it
    fires.
    """
    verdict = Verdict(rule.name, "rule", rule.allows)
    found = seeds.named(rule.name)
    if not any(s.name == rule.name for s in found):
        verdict.missing = f"it has no example: write a section `// TEST: {rule.name}` in tests/hlo/algsimp"
        return verdict
    if more:
        found += _firing(table, {s.name for s in found})

    def attempt(number: int, made: list[Module]) -> int:
        draw = random.Random(f"{rule.name} {seed} {number}")
        fast = number % 8 == 7
        before = _variant(found[number % len(found)], draw, number, len(found))
        after = seeds.copy(before)
        made += [before, after]
        session = rewrite.RuleSession(strict=True, fast_math=fast)
        with rewrite.rule_session(session):
            try:
                rewrite.rewrite(after, table)
                verify(after)
            except ERRORS as error:
                raise Wrong(f"{type(error).__name__}: {error}") from error
        if session.firings[rule.name]:
            _compare(before, after, draw, "reals" if fast else kind_of(rule.allows))
        return session.firings[rule.name]

    _verify(verdict, attempt, cases, only)
    if not verdict.changed and not verdict.failures and only is None:
        verdict.missing = "it fired in no case"
    return verdict


def _firing(table: rewrite.Rules, known: set[str]) -> list[seeds.Seed]:
    """The tests and samples, except the `known` ones, on which a rule fires without a mutation."""
    found = []
    for seed in (*seeds.tests(), *seeds.samples()):
        if seed.name in known:
            continue
        ops = {type(i.op) for c in seed.module.computations for i in c.instructions}
        if Op not in table and not ops & table.keys():
            continue
        session = rewrite.RuleSession()
        with rewrite.rule_session(session):
            try:
                rewrite.rewrite(seeds.copy(seed.module), table)
            except AxlaError:
                continue  # the tests of the rule or mutants find this error
        if session.firings:
            found.append(seed)
    return found[:: max(1, len(found) // 20)]


def _variant(seed: seeds.Seed, draw: random.Random, number: int, count: int) -> Module:
    """The seed itself for the first `count` numbers, then mutants of it."""
    if number < count:
        return seed.module
    # The element types alternate, so that each is combined with the same number of seeds.
    dtype = operands.DTYPES[(number // count + number % count) % len(operands.DTYPES)]
    return mutate.mutant(seed.module, draw, dtype)


def _run(module: Module, arguments: list[Literal]) -> Literal:
    try:
        return evaluate(module, arguments, step_limit=STEPS, deadline=5.0, memory_limit=1 << 26, seed=1)
    finally:
        feeds(0).clear()  # removes the outfeed of the module


def _compare(before: Module, after: Module, draw: random.Random, allows: str, physical: bool = False) -> None:
    """Raises Wrong unless both modules give the same results for random arguments; Skip if `before` cannot be
    run. `physical`: parameters and results of `after` have the dimensions in the order in which they lie in
    memory.
    """
    if allows == "anything":
        if _logical(before) != _logical(after):
            raise Wrong(f"it gives {after.entry.root.shape}, wanted {before.entry.root.shape}")
        return
    inexact = {a.dtype for i in before.entry.instructions for a in i.shape.arrays() if a.dtype.is_inexact}
    eps = max((float(d.finfo.eps) for d in inexact), default=0.0)
    for _ in range(2):
        arguments = _arguments(before, draw, allows)
        try:
            wanted = _run(before, arguments)
        except (*ERRORS, MemoryError) as error:
            raise Skip(str(error)) from error
        try:
            if physical:
                arguments = [
                    _turned(a, p.shape) for a, p in zip(arguments, before.entry.parameters, strict=True)
                ]
                wanted = _turned(wanted, before.entry.root.shape)
            if len(after.entry.parameters) > len(arguments):
                arguments += _sizes(before)
            found = _run(after, arguments)
        except DeadlineExceeded as error:
            raise Skip(str(error)) from error
        except ERRORS as error:
            raise Wrong(f"the result cannot be run: {type(error).__name__}: {error}") from error
        found = _counted(found, wanted, before)
        why = operands.difference(wanted, found, allows, eps)
        if why:
            shown = ", ".join(_shown(a) for a in arguments)
            raise Wrong(f"{why}\narguments: {shown}")


def _arguments(module: Module, draw: random.Random, allows: str) -> list[Literal]:
    """Random arguments, in which the sizes of groups of a ragged dot are not negative."""
    sizes = {i.operands[2] for i in module.entry.instructions if isinstance(i.op, RaggedDot)}
    if any(not isinstance(n.op, Parameter) for n in sizes):
        raise Skip("sizes of groups may be negative")
    found = []
    for parameter in module.entry.parameters:
        literal = operands.argument(parameter.shape, draw, allows)
        if parameter in sizes:
            small = np.abs(literal.array.astype(np.int64)) % min(3, int(limits(literal.shape.dtype)[1]) + 1)
            literal = Literal(literal.shape, small.astype(literal.array.dtype))
        found.append(literal)
    return found


def _logical(module: Module) -> list[object]:
    entry = module.entry
    return [i.shape.logical for i in (*entry.parameters, entry.root)]


def _sizes(module: Module) -> list[Literal]:
    """The sizes of the dynamic dimensions of the arguments: each has its upper bound."""
    arrays = [a for p in module.entry.parameters for a in p.shape.arrays()]
    return [
        Literal.of(np.asarray(n, np.int32))
        for a in arrays for n, dynamic in zip(a.dims, a.dynamic, strict=True) if dynamic
    ]  # fmt: skip


def _counted(found: Literal, wanted: Literal, before: Module) -> Literal:
    """Cuts results of dynamic size to the elements within their size."""
    shapes, leaves, values = (
        list(before.entry.root.shape.leaves()),
        list(found.leaves()),
        list(wanted.leaves()),
    )
    sizes = [
        n for s, v in zip(shapes, values, strict=True) if isinstance(s, Shape)
        for n, dynamic in zip(v.array.shape, s.dynamic, strict=True) if dynamic
    ]  # fmt: skip
    if not sizes or len(leaves) != len(shapes) + len(sizes):
        return found
    if [int(v.array) for v in leaves[len(shapes) :]] != sizes:
        raise Wrong(f"the sizes of results are {leaves[len(shapes) :]}, wanted {sizes}")
    parts = [
        Literal.of(v.array[tuple(slice(n) for n in w.array.shape)].copy())
        for v, w in zip(leaves, values, strict=False)
    ]  # fmt: skip
    return Literal(TupleShape([p.shape for p in parts]), elements=parts)


def _turned(literal: Literal, shape: AnyShape) -> Literal:
    """The array with its dimensions in the order in which they lie in memory, major to minor."""
    if isinstance(shape, TupleShape):
        parts = [_turned(e, s) for e, s in zip(literal.elements, shape.elements, strict=True)]
        return Literal(TupleShape([p.shape for p in parts]), elements=parts)
    if not isinstance(shape, Shape):
        return literal
    array = literal.array.transpose(major_to_minor(shape))
    return Literal(Shape(shape.dtype, array.shape), array)


def _shown(literal: Literal) -> str:
    text = str(literal.array.tolist() if literal.shape.is_array else literal)
    return text if len(text) < 200 else text[:200] + "..."


# Passes


def prefix(step: Pass) -> tuple[Pass, ...]:
    """The passes that the CPU pipeline runs before this pass; none if the pipeline does not have it."""
    found: list[Pass] = []
    for _, other in flat(CPU):
        if other.name == step.name:
            return tuple(found)
        found.append(other)
    return ()


def verify_pass(step: Pass, cases: int, seed: int, only: int | None = None, more: bool = True) -> Verdict:
    """Verifies a pass on mutants of its own tests and, with `more`, on other programs after the passes that
    precede it in the CPU pipeline.
    """
    verdict = Verdict(step.name, "pass", step.allows)
    own, kind = seeds.running(step), kind_of(step.allows)
    if not own and kind != "nothing":
        verdict.missing = f"it has no example: write tests/hlo/{step.name}/*.hlo, `// RUN: --passes=`"
        return verdict
    # Passes that consist of rules are exact, except for these rules.
    inexact = tuple(name for name, (rule, _) in rules().items() if rule.allows)

    def attempt(number: int, made: list[Module]) -> int:
        draw = random.Random(f"{step.name} {seed} {number}")
        source, steps, changes = _case(step, own, draw, number, more)
        with flags.override(**{**changes, "verify": True, "disable_hlo_passes": inexact}):
            made += _prepared(source, steps[:-1])
            before, after = made
            version = after.version
            _run_last(after, steps[-1])
        if after.version == version:
            return 0
        if kind == "nothing":
            raise Wrong("it changes the module")
        allows = "reals" if changes.get("fast_math") else kind
        if allows in ("", "order", "finite") and source.name == "random":
            allows = "rounding"  # sums of the interpreter depend on strides, and no operands make all exact
        _compare(before, after, draw, allows, step.name == "layout-normalization")
        return 1

    _verify(verdict, attempt, cases, only)
    if not verdict.changed and not verdict.failures and only is None and kind != "nothing":
        verdict.missing = "it changed no module"
    return verdict


def _run_last(module: Module, step: Pass) -> None:
    """Runs the pass to be verified. Raises Wrong if it breaks the module, or if, after copy-insertion, a
    buffer would be overwritten too early.
    """
    try:
        driver.run(module, (step,), cpu_target(), name="verify")
        if step.name == "copy-insertion":
            _check_memory(module)
    except InternalError as error:
        raise Wrong(str(error)) from error
    except AxlaError as error:
        raise Skip(str(error)) from error


def _case(
    step: Pass, own: list[seeds.Seed], draw: random.Random, number: int, more: bool
) -> tuple[Module, tuple[Pass, ...], dict]:
    """Returns (module, passes, flags); the last of the passes is the one to be verified."""
    if not own or number >= len(own) and number % 3 == 2 and more:
        if draw.random() < 0.5:
            return seeds.program(draw), (*prefix(step), step), {}
        other = draw.choice(seeds.tests()).module
        made = mutate.mutant(other, draw, draw.choice(operands.DTYPES), step.name == "layout-normalization")
        return made, (*prefix(step), step), {}
    chosen = own[number % len(own)] if number < len(own) else draw.choice(own)
    at = next(k for k, p in enumerate(chosen.passes) if p.name == step.name)
    # The options of the pass are those of the test.
    steps = (*chosen.passes[:at], replace(chosen.passes[at], home=step.home))
    if number < len(own):
        return chosen.module, steps, chosen.changes
    main = draw.choice(operands.DTYPES)
    if draw.random() < 0.4:
        main = next((a.dtype for i in chosen.module.entry.instructions for a in i.shape.arrays()), main)
    made = mutate.mutant(chosen.module, draw, main, step.name == "layout-normalization")
    if step.name == "dynamic-padder" and any(map(_takes_anything, made.entry.instructions)):
        raise Skip("what lies behind the elements that count is anything")
    if step.name == "dynamic-padder" and not all(a.dtype.has_zero for a in _arrays(made)):
        raise Skip("in this type nothing can be added without changing a sum")
    return made, steps, chosen.changes


def _arrays(module: Module) -> list[Shape]:
    return [a for i in module.entry.instructions for a in i.shape.arrays()]


def _takes_anything(inst: Instruction) -> bool:
    """Whether an instruction makes an array of fixed size from one of dynamic size: the elements beyond the
    size may be anything.
    """
    dynamic = any(a.is_dynamic for o in inst.operands for a in o.shape.arrays())
    return dynamic and isinstance(inst.op, Slice | Reshape) and not inst.shape.is_dynamic


def _prepared(source: Module, steps: tuple[Pass, ...]) -> tuple[Module, Module]:
    """Two copies of a module, after these passes."""
    made = []
    for _ in range(2):
        module = seeds.copy(source)
        try:
            driver.run(module, steps, cpu_target(), name="prefix")
        except AxlaError as error:
            raise Skip(str(error)) from error
        made.append(module)
    return made[0], made[1]


def _check_memory(module: Module) -> None:
    """Assigns buffers to a module; raises Wrong if one is overwritten too early, and Skip if none can be
    assigned.
    """
    from memory_check import check

    try:
        assigned = assign_buffers(module, cpu_target().limits)
    except AxlaError as error:
        raise Skip(str(error)) from error
    try:
        check(assigned)
    except UnsupportedError as error:
        raise Skip(str(error)) from error
    except AxlaError as error:
        raise Wrong(f"{type(error).__name__}: {error}") from error


def all_verdicts(
    names: list[str], cases: int, seed: int, only: int | None, more: bool = True
) -> Iterator[tuple[str, Verdict | None]]:
    """Yields (name, None) before each rule or pass, and (name, verdict) after it."""
    for name, (rule, table) in rules().items():
        if not names or name in names:
            yield name, None
            yield name, verify_rule(rule, table, cases, seed, only, more)
    for name, step in sorted(PASSES.items()):
        if not names or name in names:
            yield name, None
            yield name, verify_pass(step, cases, seed, only, more)
