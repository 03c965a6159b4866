"""Runs passes. All common work is here, so that a pass does nothing but its rewriting.

A pass is a function `(module, **options) -> None`, named by a `Pass`; one with a parameter `target` is given
the machine that the module is compiled for. A pipeline is data: a tuple of passes
and of `fixpoint(name, *passes)` groups. Around every pass the driver dumps, verifies, shuffles, times and
traces, as the flags say, and reports which pass failed on which module.
"""

from __future__ import annotations

import functools
import inspect
import random
import re
import sys
import time
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from axla.core import flags as flag_values
from axla.core import trace
from axla.core.errors import (
    AxlaError,
    CompileError,
    InternalError,
    InvalidArgument,
    UnsupportedError,
    did_you_mean,
)
from axla.core.flags import Flags
from axla.ir.graph import Instruction, Module
from axla.passes import dump, rewrite
from axla.target.machine import Target

FIXPOINT_ROUNDS = 25  # no program that we know needs more than 5


@dataclass(frozen=True, slots=True)
class Pass:
    """A named pass. `required` says why it cannot be disabled ("" if it can). Calling it gives it options."""

    name: str
    function: Callable[..., None]
    required: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, **options: Any) -> Pass:
        return replace(self, options=tuple({**dict(self.options), **options}.items()))

    def __str__(self) -> str:
        shown = ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.options)
        return self.name + (f"{{{shown}}}" if shown else "")


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Passes to repeat until none of them changes the module."""

    name: str
    passes: tuple[Pass, ...]


Step = Pass | Fixpoint


def fixpoint(name: str, *passes: Pass) -> Fixpoint:
    return Fixpoint(name, passes)


def flat(steps: Sequence[Step]) -> Iterator[tuple[str, Pass]]:
    """(group, pass) for every pass of a pipeline, in order; the group of a pass outside all groups is ""."""
    for step in steps:
        if isinstance(step, Fixpoint):
            yield from ((step.name, p) for p in step.passes)
        else:
            yield "", step


def run(
    module: Module, steps: Sequence[Step], target: Target | None = None, *,
    name: str = "passes", flags: Flags | None = None,
) -> None:  # fmt: skip
    """Runs the passes of a pipeline over a module. InvalidArgument where one asks for a target and there is
    none.
    """
    runner = _Runner(module, target, name, flags or flag_values.current(), tuple(flat(steps)))
    runner.check_names()
    with rewrite.session(runner.session), trace.span(f"pipeline {name}", module=module.name):
        number = 0
        for step in steps:
            if isinstance(step, Fixpoint):
                runner.run_fixpoint(step, number)
                number += len(step.passes)
            else:
                runner.run_pass(step, number, name)
                number += 1
    runner.report()


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
    session: rewrite.Session = field(init=False)
    dumping: bool = False
    random: random.Random | None = None

    def __post_init__(self) -> None:
        flags = self.flags
        self.session = rewrite.Session(
            fuel=flags.fuel, disabled=frozenset(flags.disable_hlo_passes), fast_math=flags.fast_math,
            strict=flags.verify,
        )  # fmt: skip
        self.dumping = dump.wanted(self.module, flags)
        if flags.shuffle is not None:
            self.random = random.Random(flags.shuffle)

    def check_names(self) -> None:
        """InvalidArgument for flags that name what is neither a pass nor a rule."""
        named = {*self.flags.disable_hlo_passes, *self.flags.enable_hlo_passes_only}
        if not named:
            return
        from axla.passes.pipelines import PASSES

        known = {*PASSES, *rewrite.rules_by_name(), *(step.name for _, step in self.passes)}
        for name in sorted(named - known):
            hint = did_you_mean(name, known) or "; `axla opt --list-passes` and --list-rules name them"
            raise InvalidArgument(f"disable_hlo_passes: there is no pass or rule {name!r}{hint}")

    def run_fixpoint(self, group: Fixpoint, number: int) -> None:
        settled: dict[Pass, int] = {}  # pass -> the version it left unchanged
        for _ in range(FIXPOINT_ROUNDS):
            start = self.module.version
            for offset, step in enumerate(group.passes):
                if settled.get(step) == self.module.version:
                    continue
                before = self.module.version
                self.run_pass(step, number + offset, group.name)
                if self.module.version == before:
                    settled[step] = before
                else:
                    settled.pop(step, None)
            if self.module.version == start:
                return
        names = ", ".join(p.name for p in group.passes)
        warnings.warn(
            f"pipeline {self.pipeline}: {group.name} ({names}) still changes module {self.module.name!r} "
            f"after {FIXPOINT_ROUNDS} rounds",
            stacklevel=3,
        )

    def why_skip(self, step: Pass) -> str | None:
        """The reason not to run an optional pass; InvalidArgument when a required one is disabled."""
        if step.name in self.flags.disable_hlo_passes:
            if step.required:
                raise InvalidArgument(f"pass '{step.name}' cannot be disabled: {step.required}")
            return "disabled"
        only = self.flags.enable_hlo_passes_only
        if only and step.name not in only and not step.required:
            return "not among those enabled"
        return None

    def run_pass(self, step: Pass, number: int, group: str) -> None:
        if self.why_skip(step) is not None:
            return
        module, flags = self.module, self.flags
        if self.random is not None:
            shuffle(module, self.random)
        given = dict(step.options)
        if asks_for_target(step.function):
            if self.target is None:
                raise InvalidArgument(f"pass '{step.name}' asks about a machine: driver.run wants a target")
            given["target"] = self.target
        text = module.to_string() if self.dumping else ""
        size = instruction_count(module) if flags.timings or trace.enabled() else 0
        version = module.version
        start = time.perf_counter_ns()
        try:
            step.function(module, **given)
            end = time.perf_counter_ns()
            if flags.verify:
                from axla.ir.verify import verify

                verify(module)
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
        self.steps_done += 1

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
        # These two are refusals of a right program, for the user; all else that leaves a pass is our bug.
        if isinstance(error, (UnsupportedError, CompileError)):
            error.add_note(where)
            raise error
        what = str(error) if isinstance(error, AxlaError) else f"{type(error).__name__}: {error}"
        raise InternalError(f"{where}: {what}") from error

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
        """Prints what the flags timings and fuel promise."""
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
    return sum(len(c.instructions) for c in module.computations)


def shuffle(module: Module, generator: random.Random) -> None:
    """Permutes the instructions of every computation, keeping operands and control predecessors first."""
    if module.schedule is not None or module.config.is_scheduled:
        return  # an order that was chosen
    for computation in module.computations:
        waiting: dict[Instruction, int] = {}
        successors: dict[Instruction, list[Instruction]] = {}
        ready: list[Instruction] = []
        for inst in computation.instructions:
            before = dict.fromkeys((*inst.operands, *inst.extra.control_predecessors))
            waiting[inst] = len(before)
            for one in before:
                successors.setdefault(one, []).append(inst)
            if not before:
                ready.append(inst)
        order: list[Instruction] = []
        while ready:
            at = generator.randrange(len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
            inst = ready.pop()
            order.append(inst)
            for user in successors.get(inst, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        computation.reorder(order)


_ITEM = re.compile(r"\s*([A-Za-z0-9_\-]+)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def parse_passes(
    text: str, passes: Mapping[str, Pass], pipelines: Mapping[str, Sequence[Step]]
) -> tuple[Step, ...]:
    """The steps of `dce,algsimp{is_layout_sensitive=true}`; a name may also be a pipeline's or a group's."""
    groups: dict[str, Sequence[Step]] = dict(pipelines)
    for steps in pipelines.values():
        groups.update({s.name: (s,) for s in steps if isinstance(s, Fixpoint)})
    found: list[Step] = []
    at = 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise InvalidArgument(
                f"--passes: cannot read {text[at:]!r}; wanted name or name{{option=value,...}}, by commas"
            )
        name, options, _ = match.groups()
        at = match.end()
        if name in passes:
            found.append(_with_options(passes[name], options))
        elif name in groups:
            if options:
                raise InvalidArgument(f"--passes: {name} is a pipeline and takes no options")
            found.extend(groups[name])
        else:
            hint = did_you_mean(name, [*passes, *groups]) or f"; known: {', '.join(passes)}"
            raise InvalidArgument(f"--passes: there is no pass {name!r}{hint}")
    return tuple(found)


def option_types(step: Pass) -> dict[str, Any]:
    """Name -> type of the options a pass takes."""
    hints = typing.get_type_hints(step.function)
    names = list(inspect.signature(step.function).parameters)[1:]
    return {name: hints.get(name, str) for name in names if name != "target"}


@functools.cache
def asks_for_target(function: Callable[..., None]) -> bool:
    return "target" in inspect.signature(function).parameters


def _with_options(step: Pass, text: str | None) -> Pass:
    known = option_types(step)
    values: dict[str, Any] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, value = (p.strip() for p in part.partition("="))
        if name not in known:
            hint = did_you_mean(name, known) or f"; it has: {', '.join(known) or 'none'}"
            raise InvalidArgument(f"--passes: pass {step.name} has no option {name!r}{hint}")
        values[name] = _option_value(step.name, name, known[name], value if equals else "true")
    return step(**values) if values else step


def _option_value(pass_name: str, name: str, wanted: Any, text: str) -> Any:
    try:
        if wanted is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return wanted(text) if wanted in (int, float) else text
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "an integer", float: "a number"}[wanted]
        raise InvalidArgument(f"--passes: {pass_name}{{{name}={text}}}: wanted {kind}") from None
