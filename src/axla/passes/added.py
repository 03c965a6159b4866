"""Adds passes of users and of installed packages to the CPU pipeline.

    from axla.passes.added import add_pass, add_rules

    add_pass(negate_removal, before="cse")          a function (module, **options) -> None
    add_rules("my-rules", after="algsimp")          rules declared by @rule(..., group="my-rules")

A package can do this in a function without arguments that it names as an entry point of the group
`axla.passes`. Such functions are called when the first module is compiled.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.core import locks, plugins
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, choices
from axla.ir.graph import Module
from axla.passes import rewrite
from axla.passes.pipelines import CPU, PASSES, PIPELINES
from axla.passes.steps import Fixpoint, Pass, Step, flat

ENTRY_POINTS = "axla.passes"


@dataclass(frozen=True, slots=True)
class Added:
    """A pass that was added, and its position: before the first run of another pass, or after the last
    one.
    """

    step: Pass
    before: str
    after: str


ADDED: list[Added] = []
_called: set[str] = set()
_lock = locks.new_lock()


def add_pass(
    function: Callable[..., None], *, before: str = "", after: str = "", name: str = "", required: str = ""
) -> Pass:
    """Adds a function as a pass to the CPU pipeline, before or after an existing pass. If that pass is in a
    group that repeats, the new one is in the group too.

    `name` is the function's name with hyphens by default. `required` gives the reason why the pass cannot be
    disabled. From then on `axla.compile` runs the pass, and does not cache compiled programs.

    Raises InvalidArgument if the name is already used, or if no pass is named `before` or `after`.
    """
    step = Pass(name or function.__name__.replace("_", "-"), function, required)
    if step.name in PASSES:
        raise InvalidArgument(f"add_pass: a pass {step.name!r} exists already")
    if bool(before) == bool(after):
        raise InvalidArgument(f"add_pass: {step.name}: wanted before= or after=")
    known = [p.name for _, p in flat(pipeline(load=False))]
    if (before or after) not in known:
        place = before or after
        raise InvalidArgument(
            f"add_pass: {step.name}: no pass {place!r} is in the pipeline; {choices(known, place)}"
        )
    PASSES[step.name] = step
    ADDED.append(Added(step, before, after))
    return step


def add_rules(group: str, *, before: str = "", after: str = "") -> Pass:
    """Adds a pass with the name `group` to the CPU pipeline, which applies the rewrite rules of that group.
    Raises InvalidArgument if the group has no rules, and the errors of `add_pass`.
    """
    if group not in rewrite.RULES:
        raise InvalidArgument(
            f"add_rules: no rules are in the group {group!r}; {choices(rewrite.RULES, group)}"
        )

    def apply(module: Module) -> None:
        rewrite.rewrite(module, rewrite.RULES[group])

    apply.__doc__ = f"The rules of the group {group}."
    return add_pass(apply, before=before, after=after, name=group)


def remove_pass(name: str) -> None:
    """Removes a pass that `add_pass` or `add_rules` added; raises InvalidArgument for any other name."""
    found = next((added for added in ADDED if added.step.name == name), None)
    if found is None:
        raise InvalidArgument(f"remove_pass: {name!r} was not added")
    ADDED.remove(found)
    del PASSES[name]


def pipeline(*, load: bool = True) -> tuple[Step, ...]:
    """The CPU pipeline with the passes that were added; with `load`, also with those of installed
    packages.
    """
    if load:
        load_installed()
    steps = CPU
    for added in ADDED:
        steps = _placed(steps, added)
    return steps


def pipelines() -> dict[str, tuple[Step, ...]]:
    """All pipelines by name; `cpu` includes the passes that were added."""
    return {**PIPELINES, "cpu": pipeline()}


def _placed(steps: tuple[Step, ...], added: Added) -> tuple[Step, ...]:
    """Returns the steps of a pipeline with an added pass at its position, or without it if the pass before or
    after which it belongs is not among the steps.
    """
    place = added.before or added.after
    at = [n for n, step in enumerate(steps) if place in _names(step)]
    if not at:
        return steps
    number = at[0] if added.before else at[-1]
    step = steps[number]
    if isinstance(step, Fixpoint):
        inside = [n for n, p in enumerate(step.passes) if p.name == place]
        n = inside[0] if added.before else inside[-1] + 1
        new = Fixpoint(step.name, (*step.passes[:n], added.step, *step.passes[n:]))
        return (*steps[:number], new, *steps[number + 1 :])
    number += not added.before
    return (*steps[:number], added.step, *steps[number:])


def _names(step: Step) -> list[str]:
    return [p.name for p in step.passes] if isinstance(step, Fixpoint) else [step.name]


def load_installed() -> None:
    """Calls the functions that installed packages name as entry points, each once. Raises UnsupportedError if
    an entry point cannot be loaded.
    """
    for name, entry in plugins.installed(ENTRY_POINTS).items():
        with _lock:
            if name in _called:
                continue
            _called.add(name)
        try:
            with plugins.blamed(f"the passes {name!r} of {entry.value} cannot be loaded", passed=()):
                entry.load()()
        except BaseException:
            _called.discard(name)
            raise
