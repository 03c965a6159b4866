"""Runs a program, whatever happens in the run: `Trials.ask(module, question)` returns an `Outcome`.

    with Trials(seconds=30) as trials:
        outcome = trials.ask(module, Question(backend="cpu", seed=3))
        outcome.kind        "agrees", "differs", "crash", "hang", "error", "slow" or "refused"

Programs run in a child process. Caches are off, unless the question turns them on.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axla.comparison import (
    DEFAULT_TOLERANCE,
    Tolerance,
    array_leaves,
    compare,
    compare_output,
    parameter_leaves,
    random_array,
)
from axla.core import cache, flags
from axla.core.dataclass import dataclass
from axla.core.dtypes import from_numpy
from axla.core.errors import (
    AxlaError,
    Cancelled,
    CompileError,
    DeadlineExceeded,
    InternalError,
    RuntimeFailure,
)
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.passes import driver, rewrite
from axla.passes.steps import Pass
from axla.tools.apart import Apart, Ended, stage

FAILURES = ("differs", "crash", "hang", "error", "slow")
"""The kinds of outcomes that are faults."""


@dataclass(frozen=True, slots=True)
class Question:
    """A run of a program, and the conditions under which it counts as wrong.

    Inputs are random, of each of the `kinds`, unless `inputs` has an array for a parameter, by its name; the
    array is cut if the parameter is smaller. If `reference` is None, results are not compared. `before` has
    texts of programs that the process compiles first; `caching` leaves the caches on. `limit` is the number
    of runs of passes, in the last of which rules fire `fuel` times; after these runs only required passes
    run. `slower_than` is the number of seconds that a run may take, `repeat` the number of runs whose results
    must have equal bits.
    """

    backend: str = "cpu"
    reference: str | None = "interpreter"
    seed: int = 0
    kinds: tuple[str, ...] = ("ordinary", "special")
    inputs: tuple[tuple[str, np.ndarray], ...] = ()
    tolerance: Tolerance = DEFAULT_TOLERANCE
    threads: int | None = None
    flags: tuple[tuple[str, Any], ...] = ()
    before: tuple[str, ...] = ()
    caching: bool = False
    limit: int | None = None
    fuel: int | None = None
    slower_than: float | None = None
    repeat: int = 1
    deadline: float = 30.0

    def but(self, **changes: Any) -> Question:
        """A copy of the question with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `reason` identifies the fault, without details of the program; `text` describes it
    for readers. `stage` is the stage in which it ended, `frames` are the active functions in a crash or hang,
    innermost first.
    """

    kind: str
    text: str = ""
    reason: str = ""
    stage: str = ""
    frames: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the run counts as a failure."""
        return self.kind in FAILURES

    def is_like(self, other: Outcome) -> bool:
        """Whether another outcome is probably the same fault."""
        return self.kind == other.kind and self.reason == other.reason

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


class Trials(Apart):
    """A child process that runs modules; `ask` returns the outcome of a run under the conditions of a
    Question.
    """

    def __enter__(self) -> Trials:
        return self

    def ask(self, module: Module | str, question: Question) -> Outcome:
        """Runs a module in the child process; returns the outcome."""
        text = module if isinstance(module, str) else text_of(module)
        try:
            found = self.call(answer, text, question)
        except Ended as error:
            return ended(error)
        if found.kind == "hang":  # it may still run, and write
            self.close()
        return found


def ended(error: Ended) -> Outcome:
    """The outcome for a child process that did not answer."""
    kind = "hang" if error.how == "hang" else "crash"
    where = next((f for f in error.frames if not f.startswith(("apart", "trial", "threading"))), "")
    reason = f"{error.how} {error.stage} {'' if kind == 'hang' else where}"
    text = f"{error}{f', in {where}' if where else ''}"
    return Outcome(kind, text, reason, error.stage, error.frames)


def text_of(module: Module) -> str:
    """The HLO text of a module, with all values of constants."""
    return module.to_string(print_large_constants=True)


def answer(text: str, question: Question) -> Outcome:
    """Runs a module, given as text, in this process; returns the outcome."""
    changes = dict(question.flags)
    if not question.caching:
        changes.setdefault("cache_dir", "")
    cache.clear()
    with flags.override(**changes), threads(question.threads):
        from axla.api import parse

        for other in question.before:
            with contextlib.suppress(AxlaError):
                _compiled(parse(other), question)
        if not question.caching:
            cache.clear()
        return _outcome(parse(text), question)


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Sets the number of threads of parallel loops inside a `with` block; if `count` is None, does not change
    it.
    """
    if count is None:
        yield
        return
    from axla.runtime.native import num_threads, set_num_threads

    before = num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def _outcome(module: Module, question: Question) -> Outcome:
    rows = [inputs_of(module, question, kind) for kind in question.kinds]
    wanted: list[list[list[np.ndarray]]] = []
    if question.reference is not None:
        stage("reference")
        try:
            from axla.api import compile

            program = compile(module, backend=question.reference)
            wanted = [results_of(module, program, row, question.deadline) for row in rows]
        except AxlaError as error:
            return Outcome("refused", f"{question.reference}: {error}")
    return _judged(module, question, rows, wanted)


def _judged(
    module: Module, question: Question, rows: Sequence[list[list[np.ndarray]]],
    wanted: Sequence[list[list[np.ndarray]]],
) -> Outcome:  # fmt: skip
    try:
        program = _compiled(module, question)
        stage("run")
        best = float("inf")
        for number, row in enumerate(rows):
            found: list[list[np.ndarray]] = []
            before = [[a.tobytes() for a in leaves] for leaves in row]
            for turn in range(question.repeat):
                start = time.perf_counter()
                again = results_of(module, program, row, question.deadline)
                best = min(best, time.perf_counter() - start)
                if turn and not _equal(found, again):
                    return Outcome("differs", f"run {turn + 1} gives other bits than the first", "runs")
                found = again
            if [[a.tobytes() for a in leaves] for leaves in row] != before:
                return Outcome("differs", "a run changed an argument that was not donated", "arguments")
            for participant, results in enumerate(found if wanted else ()):
                right = wanted[number][participant]
                wrong = difference(module, results, right, question)
                if wrong:
                    who = f", participant {participant}" if len(found) > 1 else ""
                    given = "given inputs" if question.inputs else f"{question.kinds[number]} inputs"
                    return Outcome("differs", f"{wrong} ({given}, seed {question.seed}{who})")
    except (Cancelled, DeadlineExceeded) as error:
        return Outcome("hang", str(error), type(error).__name__)
    except (InternalError, CompileError, RuntimeFailure) as error:
        return Outcome("error", _text(error), reason_of(error))
    except AxlaError as error:
        return Outcome("refused", str(error))
    except Exception as error:  # any other exception is a bug
        return Outcome("error", _text(error), reason_of(error))
    if question.slower_than is not None and best > question.slower_than:
        return Outcome("slow", f"{best:.4g} s, wanted {question.slower_than:.4g} s", seconds=best)
    return Outcome("agrees", seconds=best)


def _text(error: Exception) -> str:
    text = str(error) if isinstance(error, AxlaError) else f"{type(error).__name__}: {error}"
    return "\n".join((text, *getattr(error, "__notes__", ())))


def difference(module: Module, found: list[np.ndarray], wanted: list[np.ndarray], question: Question) -> str:
    """The first output, or value in the outfeed, in which `found` differs from `wanted`, and the difference,
    as text; "" if all agree.
    """
    count = len(array_leaves(module.entry.root.shape))
    names = question.backend, str(question.reference)
    report = compare(module, found[:count], wanted[:count], *names, question.tolerance)
    wrong = next((str(output) for output in report.outputs if output.problem), "")
    if not wrong and len(found) != len(wanted):
        return f"outfeed: found {len(found) - count} arrays, wanted {len(wanted) - count}"
    for number, (a, b) in enumerate(zip(found[count:], wanted[count:], strict=True)):
        shape = Shape(from_numpy(b.dtype), b.shape)
        output = compare_output(number, shape, a, b, question.tolerance)
        wrong = wrong or (f"outfeed, array {number}: {output.problem}" if output.problem else "")
    return wrong


def _compiled(module: Module, question: Question) -> Any:
    from axla.api import compile

    stage("compile")
    if question.limit is None and question.fuel is None:
        return compile(module, backend=question.backend)
    with driver.observed(Limit(question.limit, question.fuel)):
        return compile(module, backend=question.backend)


def _equal(one: list[list[np.ndarray]], other: list[list[np.ndarray]]) -> bool:
    pairs = ((a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


class Limit(driver.Observer):
    """Stops the optional passes after `limit` runs of passes; required passes still run. In the last one of
    these runs, rewrite rules fire at most `fuel` times. None: no limit.
    """

    def __init__(self, limit: int | None, fuel: int | None = None) -> None:
        self.limit, self.fuel, self.runs = limit, fuel, 0

    def wants(self, step: Pass, module: Module, session: rewrite.RuleSession) -> bool:
        """Whether the pass is to run: one of the first `limit`, or a required one."""
        if self.limit is None or self.runs < self.limit - 1:
            return True
        session.fuel = self.fuel if self.runs == self.limit - 1 else None
        session.exhausted = False
        return self.runs < self.limit

    def ran(self, step: Pass, module: Module, session: rewrite.RuleSession, changed: bool) -> None:
        """Counts a run of a pass."""
        self.runs += 1


def participants_of(module: Module) -> int:
    """The number of participants of a module: replicas times partitions."""
    return module.config.replica_count * module.config.num_partitions


def inputs_of(module: Module, question: Question, kind: str) -> list[list[np.ndarray]]:
    """Arrays for the parameter leaves of each participant; each participant gets different ones."""
    given, count = dict(question.inputs), participants_of(module)
    return [
        [
            _array(given.get(name), shape, question.seed + 1000 * participant, leaf, kind)
            for leaf, (name, shape) in enumerate(parameter_leaves(module))
        ]
        for participant in range(count)
    ]


def _array(given: np.ndarray | None, shape: Shape, seed: int, leaf: int, kind: str) -> np.ndarray:
    """The array `given`, cut to a shape where possible; otherwise a random array, for which `seed`, `leaf`
    and `kind` are those of `random_array`.
    """
    if given is not None and given.dtype == shape.dtype.numpy and given.ndim == shape.rank:
        part = given[tuple(slice(0, n) for n in shape.dims)]
        if shape.admits(part.shape):
            return part
    return random_array(shape, seed, leaf, kind)


def results_of(
    module: Module, program: Any, rows: list[list[np.ndarray]], deadline: float
) -> list[list[np.ndarray]]:  # fmt: skip
    """Runs a program with the inputs of each participant (`rows`), at most for `deadline` seconds. Returns a
    list for each participant: its result leaves, then the values that it put into its outfeed.
    """
    from axla.custom.feeds import feeds
    from axla.tools.source import feed

    queues = [feeds(number) for number in range(len(rows))]
    for queue in queues:
        queue.clear()
    feed(module)
    if len(rows) == 1:
        found = [program.execute(rows[0], deadline=deadline)]
    else:
        found = program.execute_replicated(rows, deadline=deadline)
    results = [[np.asarray(a) for a in row] for row in found]
    for queue, row in zip(queues, results, strict=True):
        while len(queue.outfeed):
            row += _arrays(queue.outfeed.get(0.0))
    return results


def _arrays(value: Any) -> list[np.ndarray]:
    """The arrays of nested tuples."""
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [] if value is None else [np.asarray(value)]


_PARTICULARS = (
    (re.compile(r" at line \d+, column \d+"), ""),
    (re.compile(r"%[\w.\-]+|@[\w.\-]+"), "..."),
    (re.compile(r"\b[a-z]\w*\[[\d,<=]*\]"), "T"),
    (re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"), "N"),
)


def reason_of(error: Exception) -> str:
    """The message of an error without details of the program, so that equal reasons have equal texts."""
    text = (error.message if isinstance(error, AxlaError) else str(error)).split("\n", 1)[0]
    text = re.sub(r"failed on module '[^']*'", "failed", text)
    for pattern, replacement in _PARTICULARS:
        text = pattern.sub(replacement, text)
    return f"{type(error).__name__}: {text[:160]}"
