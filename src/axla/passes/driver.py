"""Runs pipelines. The work that all passes share is done here, so that a pass only rewrites.

Around every pass the driver dumps, verifies, shuffles, times and traces the module, as the flags say. If a
pass fails, the error names the pass and the module. `steps.py` defines passes and pipelines.
"""

from __future__ import annotations

import operator
import random
import re
import sys
import time
import typing
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from graphlib import TopologicalSorter

from axla.core import errors, progress, trace
from axla.core import flags as flag_values
from axla.core.dataclass import dataclass
from axla.core.flags import Flags
from axla.ir.graph import Instruction, Module
from axla.passes import dump, rewrite
from axla.passes.added import pipeline
from axla.passes.observer import OBSERVER
from axla.passes.pipelines import PASSES
from axla.passes.steps import Fixpoint, Pass, Step, asks_for_target, flat, needs_target
from axla.target.machine import Target

FIXPOINT_ROUNDS = 25  # no program that we know needs more than 5


class Observer:
    """Base class for observers of the passes of a pipeline. An observer is active within `observed`, and can
    skip passes that are not required.
    """

    pipeline = "cpu"

    def wants(self, step: Pass, module: Module, session: rewrite.RuleSession) -> bool:
        """Called before a pass runs. Returns whether to run it; a required pass runs anyway."""
        return True

    def ran(self, step: Pass, module: Module, session: rewrite.RuleSession, changed: bool) -> None:
        """Called after a pass has run. `changed` says whether it changed the module."""


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Makes `observer` see the pipelines that this thread runs within the block."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)


def run(
    module: Module, steps: Sequence[Step], target: Target | None = None, *,
    name: str = "passes", flags: Flags | None = None,
) -> None:  # fmt: skip
    """Runs the passes of a pipeline on a module. `name` is the pipeline's name in timings and dumps; `flags`
    are by default the current flags. Raises InvalidArgument if a pass needs a target and `target` is None.
    """
    runner = _Runner(module, target, name, flags or flag_values.current(), tuple(flat(steps)))
    runner.check_names()
    with rewrite.rule_session(runner.session), trace.span(f"pipeline {name}", module=module.name):
        number = 0
        for step in steps:
            if isinstance(step, Fixpoint):
                runner.run_fixpoint(step, number)
                number += len(step.passes)
            else:
                runner.run_pass(step, number, name)
                number += 1
    runner.report()


def run_cpu(module: Module, target: Target) -> None:
    """Runs the CPU pipeline, and dumps the module before and after it as XLA does."""
    dump.write_module(module, "before_optimizations")
    run(module, pipeline(), target, name="cpu")
    dump.write_module(module, "cpu_after_optimizations")


@dataclass(slots=True)
class _Timing:
    runs: int = 0
    seconds: float = 0.0
    before: int = 0
    after: int = 0


@dataclass(slots=True)
class _Runner:
    module: Module
    target: Target | None
    pipeline: str
    flags: Flags
    passes: tuple[tuple[str, Pass], ...]
    steps_done: int = 0
    timings: dict[str, _Timing] = field(default_factory=dict)
    session: rewrite.RuleSession = field(init=False)
    dumping: bool = False
    random: random.Random | None = None
    observer: Observer | None = None
    opcodes: tuple[int, set[str]] = (-1, set())  # (version of the module, its opcodes then)
    verified: list[object] = field(default_factory=list)  # the verified state of the module
    inferred: dict = field(default_factory=dict, repr=False)  # key: instructions whose shapes were inferred

    def __post_init__(self) -> None:
        flags = self.flags
        self.session = rewrite.RuleSession(
            fuel=flags.fuel, disabled=frozenset(flags.disable_hlo_passes), fast_math=flags.fast_math,
            strict=flags.verify,
        )  # fmt: skip
        self.dumping = dump.wanted(self.module, flags)
        found = OBSERVER.get()
        self.observer = found if found is not None and found.pipeline == self.pipeline else None
        if flags.shuffle is not None:
            self.random = random.Random(flags.shuffle)

    def check_names(self) -> None:
        """Raises InvalidArgument for a disabled or enabled name that is neither a pass nor a rule."""
        named = {*self.flags.disable_hlo_passes, *self.flags.enable_hlo_passes_only}
        if not named:
            return
        known = {*PASSES, *rewrite.rules_by_name(), *(step.name for _, step in self.passes)}
        for name in sorted(named - known):
            hint = errors.did_you_mean(name, known) or "; `axla opt --list-passes` and --list-rules name them"
            raise errors.InvalidArgument(f"disable_hlo_passes: there is no pass or rule {name!r}{hint}")

    def run_fixpoint(self, group: Fixpoint, number: int) -> None:
        settled: dict[Pass, int] = {}  # pass -> the version of the module that it left unchanged
        for _ in range(FIXPOINT_ROUNDS):
            start = self.module.version
            for offset, step in enumerate(group.passes):
                if settled.get(step) == self.module.version:
                    continue
                before = self.module.version
                self.run_pass(step, number + offset, group.name)
                if self.module.version == before:
                    settled[step] = before
            if self.module.version == start:
                return
        names = ", ".join(p.name for p in group.passes)
        warnings.warn(
            f"pipeline {self.pipeline}: {group.name} ({names}) still changes module {self.module.name!r} "
            f"after {FIXPOINT_ROUNDS} rounds",
            stacklevel=3,
        )

    def why_skip(self, step: Pass) -> str | None:
        """The reason for not running a pass, or None; raises InvalidArgument for a required pass that is
        disabled.
        """
        if step.name in self.flags.disable_hlo_passes:
            if step.required:
                raise errors.InvalidArgument(f"pass '{step.name}' cannot be disabled: {step.required}")
            return "disabled"
        only = self.flags.enable_hlo_passes_only
        if only and step.name not in only and not step.required:
            return "it is not among the enabled passes"
        return None

    def run_pass(self, step: Pass, number: int, group: str) -> None:
        if self.why_skip(step) is not None:
            return
        module, flags, observer = self.module, self.flags, self.observer
        if observer is not None and not observer.wants(step, module, self.session) and not step.required:
            return
        if self.random is not None:
            shuffle(module, self.random)
        given = self.given(step) if (concerned := self.concerns(step)) else {}
        text = module.to_string() if self.dumping else ""
        size = instruction_count(module) if flags.timings or trace.enabled() else 0
        version = module.version
        start = time.perf_counter_ns()
        try:
            if concerned:
                step.function(module, **given)
            end = time.perf_counter_ns()
            if flags.verify:
                self.verify()
        except Exception as error:
            self.failed(step, number, text, error)
        if flags.timings:
            self.measured(step, start, end, size)
        if trace.enabled():
            trace.add(
                step.name, start, end, module=module.name, before=size, after=instruction_count(module),
                changed=module.version != version,
            )  # fmt: skip
        if self.dumping:
            self.dump(step, number, group, text, changed=module.version != version)
        if observer is not None:
            observer.ran(step, module, self.session, module.version != version)
        self.steps_done += 1
        progress.report("passes", number + 1, len(self.passes))

    def concerns(self, step: Pass) -> bool:
        """Whether the module contains an op that a pass handles; always true for a pass that lists no ops."""
        if not step.ops:
            return True
        if self.opcodes[0] != self.module.version:
            found = {inst.op.opcode for c in self.module.computations for inst in c.instructions}
            self.opcodes = (self.module.version, found)
        return not step.ops.isdisjoint(self.opcodes[1])

    def given(self, step: Pass) -> dict[str, typing.Any]:
        """The keyword arguments for the function of a pass: its options, and the target if it takes one."""
        found = dict(step.options)
        if asks_for_target(step.function):
            if self.target is None and needs_target(step.function):
                message = f"pass '{step.name}' needs a target, but driver.run got none"
                raise errors.InvalidArgument(message)
            found["target"] = self.target
        return found

    def verify(self) -> None:
        """Verifies the module unless nothing in it has changed since the last verification. Compares the
        contents, not the version number, which a pass might fail to increase.
        """
        from axla.ir.verify import state, verify

        found = state(self.module)
        if len(found) != len(self.verified) or not all(map(operator.is_, found, self.verified)):
            verify(self.module, self.inferred)
            self.verified = found

    def failed(self, step: Pass, number: int, text: str, error: Exception) -> typing.NoReturn:
        where = (
            f"pass '{step.name}' ({number + 1} of {len(self.passes)}, pipeline {self.pipeline}) "
            f"failed on module '{self.module.name}'"
        )
        if text:
            path = dump.write_text(
                self.module, f"{self.steps_done:04d}.before_{step.name}.failed.txt", text, self.flags
            )
            where += f" (before it: {path})" if path else ""
        # These errors reject a valid program for a reason that the user can act on. Any other error is a bug
        # of axla.
        if isinstance(error, (errors.UnsupportedError, errors.CompileError)):
            error.add_note(where)
            raise error
        what = str(error) if isinstance(error, errors.AxlaError) else f"{type(error).__name__}: {error}"
        raise errors.InternalError(f"{where}: {what}") from error

    def dump(self, step: Pass, number: int, group: str, text: str, *, changed: bool) -> None:
        pattern = self.flags.dump_hlo_pass_re
        if not pattern:
            return
        after, before = step.name, self.next_name(number)
        if self.steps_done == 0 and re.search(pattern, after):
            dump.write_text(
                self.module, f"0000.{group}.after_pipeline-start.before_{after}.txt", text, self.flags
            )
        if changed and (re.search(pattern, after) or re.search(pattern, before)):
            stage = f"{self.steps_done + 1:04d}.{group}.after_{after}.before_{before}"
            dump.write_module(self.module, stage, self.flags)

    def next_name(self, number: int) -> str:
        return self.passes[number + 1][1].name if number + 1 < len(self.passes) else "pipeline-end"

    def measured(self, step: Pass, start: int, end: int, before: int) -> None:
        timing = self.timings.setdefault(step.name, _Timing(before=before))
        timing.runs += 1
        timing.seconds += (end - start) / 1e9
        timing.after = instruction_count(self.module)

    def report(self) -> None:
        """Prints timings and the use of fuel to standard error, if the flags enable that."""
        out = sys.stderr
        if self.flags.timings:
            total = sum(t.seconds for t in self.timings.values())
            print(f"pipeline {self.pipeline}, module {self.module.name}: {total * 1e3:.1f} ms", file=out)
            for pass_name, t in self.timings.items():
                line = (
                    f"  {t.seconds * 1e3:8.2f} ms  {t.runs:3} runs  {t.before:7} -> {t.after:<7} {pass_name}"
                )
                print(line, file=out)
            for rule_name, count in self.session.firings.most_common():
                print(f"  {count:8} firings of {rule_name}", file=out)
        if self.flags.fuel is not None:
            last = self.session.last or "no rule fired"
            state = "ran out" if self.session.exhausted else f"{self.session.fuel} left"
            print(f"fuel: {state}; last: {last}", file=out)


def instruction_count(module: Module) -> int:
    """The number of instructions in all computations of a module."""
    return sum(len(c.instructions) for c in module.computations)


def shuffle(module: Module, generator: random.Random) -> None:
    """Permutes the instructions of every computation at random. Operands and control predecessors stay before
    the instructions that need them. A module with a schedule is not changed.
    """
    if module.schedule is not None or module.config.is_scheduled:
        return  # the schedule fixes the order
    for computation in module.computations:
        sorter: TopologicalSorter[Instruction] = TopologicalSorter()
        for inst in computation.instructions:
            sorter.add(inst, *inst.operands, *inst.extra.control_predecessors)
        sorter.prepare()
        ready: list[Instruction] = []
        order: list[Instruction] = []
        while sorter.is_active():
            ready.extend(sorter.get_ready())
            at = generator.randrange(len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
            order.append(ready.pop())
            sorter.done(order[-1])
        computation.reorder(order)
