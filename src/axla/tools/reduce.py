"""axla reduce: finds the smallest program that still fails.

axla reduce f.hlo -o small.hlo                      results differ from the interpreter's
axla reduce f.hlo --crash -o small.hlo              the process dies, hangs, or raises an error of axla's own
axla reduce f.hlo --script ./check.sh -o s.hlo      a command that gets a file; exit status 0: it still fails

Instructions are replaced by parameters, operands and constants, results are dropped, calls inlined, loops run
fewer times, sizes shrink. Programs run in a child process, for a limited time. Ctrl-C ends the search, with
the smallest program by then. The output is a test: its RUN line repeats the failure.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

from axla.core.errors import AxlaError, InvalidArgument
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.tools import shrink
from axla.tools.source import add_file, read_module
from axla.tools.trial import Outcome, Question, Trials, text_of
from axla.tools.trial_options import add_trial, question_of, run_line, trials_of

Predicate = Callable[[Module], bool]
"""A function that returns whether a module still fails. It must not change the module."""

ROUNDS = 20


class Reducer:
    """Makes a module smaller while a predicate holds. `best` is always the smallest module so far.

    `seconds` limits the total time; `show(reducer)` is called after every attempt.
    """

    def __init__(
        self, module: Module, predicate: Predicate, *, seconds: float | None = None,
        show: Callable[[Reducer], object] = lambda _: None,
    ) -> None:  # fmt: skip
        self.best, _ = shrink.copy_of(module)
        self.size = shrink.size_of(self.best)
        self.tries = self.taken = 0
        self.way = ""
        self.ended = ""
        """The reason why the search stopped early: "interrupted", "out of time", or "" if it did not."""
        self._predicate, self._show = predicate, show
        self._stop_at = float("inf") if seconds is None else time.monotonic() + seconds
        self._tried: set[bytes] = set()
        self._sweeps = True  # False if the failure depends on dead code

    def run(self) -> Module:
        """Returns the smallest module found. Raises InvalidArgument if the predicate does not hold for the
        original.
        """
        verify(self.best)
        if not self._predicate(self.best):
            raise InvalidArgument(f"reduce: module {self.best.name} does not fail as it is")
        try:
            without = shrink.swept(shrink.copy_of(self.best)[0])
            self._sweeps = shrink.size_of(without) == self.size or self._predicate(without)
            for _ in range(ROUNDS):
                before = self.size
                self._round()
                if self.size == before:
                    break
        except KeyboardInterrupt:
            self.ended = "interrupted"
        except TimeoutError:
            self.ended = "out of time"
        return self.best

    def _round(self) -> None:
        self._all(shrink.plain)
        self._all(shrink.roots)
        self._all(shrink.outputs)
        for stand_in in shrink.STAND_INS:
            self._cut(stand_in)
        ways = (
            shrink.uncalled, shrink.inlined, shrink.simplified, shrink.carries, shrink.constants,
            shrink.sizes, shrink.parameters,
        )  # fmt: skip
        for way in ways:
            self._all(way)

    def _all(self, way: shrink.Way) -> None:
        """Accepts candidates of one kind of change until no candidate is accepted."""
        self.way = way.__name__
        while any(self._take(candidate) for candidate in way(self.best)):
            pass

    def _cut(self, stand_in: Callable) -> None:
        """Delta debugging: replaces groups of consecutive instructions by what `stand_in` returns for them. A
        group is first all instructions, then a half, a quarter... and at last a single one.
        """
        self.way = f"cut, {stand_in.__name__}"
        names = shrink.cuttable(self.best, stand_in)
        size = len(names)
        while size:
            at = 0
            while at < len(names):
                chosen = names[at : at + size]
                if self._take(shrink.cut(self.best, chosen, stand_in)):
                    there = {i.name for c in self.best.computations for i in c.instructions}
                    names = [name for name in names if name in there and name not in chosen]
                else:
                    at += size
            size = min(size // 2, len(names)) if size > 1 else 0

    def _take(self, candidate: Module) -> bool:
        """Accepts a candidate if it is valid, smaller, and still fails; returns whether it is accepted."""
        if time.monotonic() > self._stop_at:
            raise TimeoutError
        try:
            size = shrink.size_of(shrink.swept(candidate, dead=self._sweeps))
            if size >= self.size:
                return False
            verify(candidate)
            text = text_of(candidate)
        except AxlaError:
            return False
        digest = blake2b(text.encode(), digest_size=16).digest()
        if digest in self._tried:
            return False
        self._tried.add(digest)
        self.tries += 1
        holds = self._predicate(candidate)
        if holds:
            self.best, self.size = candidate, size
            self.taken += 1
        self._show(self)
        return holds


def reduce(
    module: Module, predicate: Predicate, *, seconds: float | None = None,
    show: Callable[[Reducer], object] = lambda _: None,
) -> Module:  # fmt: skip
    """The smallest module found within `seconds` for which `predicate(module)` holds; `module` is not
    changed. Every candidate is verified before it is passed to the predicate. `show(reducer)` is called after
    every attempt. Raises InvalidArgument if the predicate does not hold for `module`.
    """
    return Reducer(module, predicate, seconds=seconds, show=show).run()


def fails_like(trials: Trials, question: Question, first: Outcome, *, any_failure: bool = False) -> Predicate:
    """A predicate: whether a module, in a run that `trials` and `question` describe, fails like `first`, or,
    with `any_failure`, in any way.
    """

    def fails(module: Module) -> bool:
        found = trials.ask(module, question)
        return found.failed if any_failure else found.is_like(first)

    return fails


def script_succeeds(command: Sequence[str], seconds: float) -> Predicate:
    """A predicate: whether a command that gets the file of the program exits with status 0 within
    `seconds`.
    """

    def succeeds(module: Module) -> bool:
        with tempfile.TemporaryDirectory(prefix="axla-reduce-") as folder:
            path = Path(folder, "candidate.hlo")
            path.write_text(text_of(module), encoding="utf-8")
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    [*command, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, timeout=seconds,
                )  # fmt: skip
                return done.returncode == 0
            return False

    return succeeds


def test_text(module: Module, run: str, found: str) -> str:
    """A module as a test: `run` is the command that repeats the failure, `found` describes the failure."""
    said = "".join(f"// {line}\n" for line in found.splitlines())
    return f"// RUN: {run}\n{said}{text_of(module).rstrip()}\n"


def instruction_count(module: Module) -> int:
    """The number of instructions in all computations of a module."""
    return sum(len(c.instructions) for c in module.computations)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla reduce`."""
    add_file(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--differs", action="store_true", help="fails: results differ from those of --reference (default)"
    )
    what.add_argument("--crash", action="store_true", help="fails: a crash, a hang or an internal error")
    what.add_argument("--script", metavar="CMD", help="fails: this command, given the file, exits with 0")
    parser.add_argument("--any", action="store_true", help="accept failures that differ from the first one")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file, not to standard output")
    parser.add_argument(
        "--seconds", metavar="N", type=float, help="stop after this time, with the best result so far"
    )
    add_trial(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla reduce`; returns its exit status."""
    module = read_module(options)
    with trials_of(options) as trials:
        if options.script is not None:
            command = _words(options.script)
            predicate = script_succeeds(command, options.limit)
            found, run = f"{shlex.join(command)}: status 0", f"{shlex.join(command)} %s"
        else:
            question = question_of(options, module)
            if options.crash:
                question = question.but(reference=None)
            first = trials.ask(module, question)
            if not first.failed or (options.crash and first.kind == "differs"):
                raise InvalidArgument(f"reduce: {module.name} does not fail as it is: {first}")
            second = trials.ask(shrink.copy_of(module)[0], question)
            if not (second.failed if options.any else second.is_like(first)):
                message = f"reduce: {module.name} does not fail in the same way twice: {first}; then {second}"
                raise InvalidArgument(message)
            predicate = fails_like(trials, question, first, any_failure=options.any)
            found, run = str(first), run_line(options)
        reducer = Reducer(module, predicate, seconds=options.seconds, show=_shown(time.monotonic()))
        best = reducer.run()
        _wipe()
    note = f" ({reducer.ended}: the smallest so far)" if reducer.ended else ""
    print(
        f"axla: {instruction_count(module)} instructions before, {instruction_count(best)} after "
        f"{reducer.tries} tries{note}", file=sys.stderr,
    )  # fmt: skip
    text = test_text(best, run, found)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
        print(f"axla: written to {options.output}", file=sys.stderr)
    else:
        sys.stdout.write(text)
    return 130 if reducer.ended == "interrupted" else 0


def _words(command: str) -> list[str]:
    """The words of a command, split as by a shell; no shell runs it."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidArgument(f"--script {command!r}: {error}") from None
    if not words:
        raise InvalidArgument("--script: wanted a command, found nothing")
    return words


def _shown(start: float) -> Callable[[Reducer], None]:
    """Returns a function that shows the progress on a terminal, with the time since `start`."""

    def show(reducer: Reducer) -> None:
        if sys.stderr.isatty():
            state = (
                f"{time.monotonic() - start:.0f} s, {reducer.tries} tries, {reducer.taken} taken, "
                f"{instruction_count(reducer.best)} instructions, {reducer.size[1]} elements: {reducer.way}"
            )
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            print(f"\r\x1b[K{state[:width]}", end="", file=sys.stderr, flush=True)

    return show


def _wipe() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
