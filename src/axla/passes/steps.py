"""Passes and pipelines as data, and the parser of their text form.

A pass is a function `(module, **options) -> None`, which a `Pass` describes. If it has a parameter `target`,
it gets the machine that the module is compiled for; if this parameter has a default, the pass also runs
without a target. A pipeline is a tuple of passes and of `fixpoint(name, *passes)` groups.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from axla.core import locks
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, did_you_mean
from axla.core.regex import regex


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass with its name and options. `required` is the reason why it cannot be disabled ("" if it can);
    `allows` says which bits of results it may change (see `Rule`). Calling a Pass returns it with options
    set.

    `home` is the pass's function, or its path (`expand.topk:topk_decomposer`), which is imported at the first
    use. `ops` are opcodes: the pass is skipped if a module contains none of them.
    """

    name: str
    home: Callable[..., None] | str
    required: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    ops: frozenset[str] = frozenset()
    allows: str = ""

    @property
    def function(self) -> Callable[..., None]:
        """The function that runs the pass; its module is imported at the first use."""
        return _function(self.home)

    def __call__(self, **options: Any) -> Pass:
        """Returns a copy of the pass with these options, which replace options of the same names."""
        return replace(self, options=tuple({**dict(self.options), **options}.items()))

    def __str__(self) -> str:
        shown = ",".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.options)
        return self.name + (f"{{{shown}}}" if shown else "")


@functools.cache
def _function(home: Callable[..., None] | str) -> Callable[..., None]:
    if not isinstance(home, str):
        return home
    with locks.importing:
        return pkgutil.resolve_name(f"axla.passes.{home}")


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """A named group of passes that are repeated until none of them changes the module."""

    name: str
    passes: tuple[Pass, ...]


Step = Pass | Fixpoint


def fixpoint(name: str, *passes: Pass) -> Fixpoint:
    """Groups passes that are repeated until none of them changes the module."""
    return Fixpoint(name, passes)


def flat(steps: Sequence[Step]) -> Iterator[tuple[str, Pass]]:
    """Yields (group, pass) for every pass of a pipeline, in order; the group of a pass outside all groups is
    "".
    """
    for step in steps:
        if isinstance(step, Fixpoint):
            yield from ((step.name, p) for p in step.passes)
        else:
            yield "", step


_ITEM = regex(r"\s*([A-Za-z0-9_\-]+)\s*(?:\{([^{}]*)\})?\s*(,|$)")


def parse_passes(
    text: str, passes: Mapping[str, Pass], pipelines: Mapping[str, Sequence[Step]]
) -> tuple[Step, ...]:
    """Parses a text such as `dce,algsimp{is_layout_sensitive=true}` into steps. A name is that of a pass, a
    pipeline or a group.
    """
    groups: dict[str, Sequence[Step]] = dict(pipelines)
    for steps in pipelines.values():
        groups.update({s.name: (s,) for s in steps if isinstance(s, Fixpoint)})
    found: list[Step] = []
    at = 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise InvalidArgument(
                f"--passes: bad text {text[at:]!r}; wanted name or name{{option=value,...}}, comma-separated"
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
    """Maps the names of the options of a pass to their types."""
    hints = typing.get_type_hints(step.function)
    names = list(inspect.signature(step.function).parameters)[1:]
    return {name: hints.get(name, str) for name in names if name != "target"}


@functools.cache
def asks_for_target(function: Callable[..., None]) -> bool:
    """Whether the function of a pass has a parameter `target`."""
    return "target" in inspect.signature(function).parameters


def needs_target(function: Callable[..., None]) -> bool:
    """Whether the parameter `target` of a pass has no default."""
    return inspect.signature(function).parameters["target"].default is inspect.Parameter.empty


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
