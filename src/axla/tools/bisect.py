"""axla bisect: finds the cause of a program that is wrong, crashes, or is slow.

axla bisect f.hlo                         results differ from the interpreter's, or it crashes or hangs
axla bisect f.hlo --slower-than 0.01      a run takes more seconds than that

The cause is a pass (which one, at which firing of which rule, on which instruction), code generation (which
kernel, the file that writes it, the first wrong instruction in it), the plan of memory, the cache (an entry
that does not belong to the program), threads (results depend on their number) or a collective. Programs run
in a child process, for a limited time. Exit code 1: there is a fault.
"""

from __future__ import annotations

import argparse
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError
from axla.ir.graph import Module
from axla.ir.verify import verify
from axla.tools import pieces as work
from axla.tools.apart import Ended
from axla.tools.diffs import diff
from axla.tools.pieces import KernelName, ModulePiece, PassRun
from axla.tools.source import add_file, read_module
from axla.tools.trial import FAILURES, Outcome, Question, Trials, ended, text_of
from axla.tools.trial_options import add_trial, question_of, trials_of

OWN = ("cpu", "one-lane", "interpreter")
"""Backends whose kernels can be run alone."""
THREADS = (1, 2, 4)
MOST_RUNS, MOST_FIRINGS = 1 << 12, 1 << 20
"""The most runs of passes, and the most rule firings in a run, that are searched."""
AGAIN = 5
"""The number of runs that show whether results depend on chance."""
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "all-to-all",
    "collective",
    "reduce-scatter",
    "ragged",
    "recv",
    "send",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause of a program's failure.

    `culprit` is "pass", "kernel", "memory", "cache", "threads", "collective", "runtime", or "none" if the
    program does not fail. `name` is the pass, the kernel, the kind of cache entry... A pass also has `rule`
    with the number of its wrong `firing`, `instruction`, and `change`, a diff of the module; a kernel has
    `emitter`. `outcome` is the failure, `evidence` says how the culprit was found.
    """

    culprit: str
    name: str = ""
    rule: str = ""
    firing: int = 0
    instruction: str = ""
    emitter: str = ""
    change: str = ""
    outcome: Outcome = Outcome("agrees")
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.culprit == "none":
            return "\n".join(("it does not fail", *(f"  {line}" for line in self.evidence)))
        lines = [f"{self.culprit}: {self.name}" if self.name else self.culprit]
        lines += [f"  rule: {self.rule}, firing {self.firing} of this run"] if self.rule else []
        lines += [f"  instruction: {self.instruction}"] if self.instruction else []
        lines += [f"  code: {self.emitter}"] if self.emitter else []
        lines += [f"  {self.outcome}", *(f"  {line}" for line in self.evidence)]
        lines += ["", self.change] if self.change else []
        return "\n".join(lines)


def bisect(
    module: Module, trials: Trials, question: Question | None = None, *,
    show: Callable[[str], object] = lambda _: None,
) -> Verdict:  # fmt: skip
    """Finds the cause of a module's failure in the trial that `question` describes. Calls `show` with the
    name of each trial.
    """
    verify(module)
    return _Search(text_of(module), trials, question or Question(), show).verdict()


class _Search:
    def __init__(self, text: str, trials: Trials, question: Question, show: Callable[[str], object]) -> None:
        self.text, self.trials, self.question, self.show = text, trials, question, show
        self.evidence: list[str] = []
        self.failure = Outcome("agrees")

    def ask(self, what: str, question: Question) -> Outcome:
        self.show(what)
        return self.trials.ask(self.text, question)

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        self.show(what)
        return self.trials.call(function, *arguments)

    def tried(self, otherwise: Any, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of calling `function` in the child process, or `otherwise` if the call fails. `what`
        names the trial for the user.
        """
        try:
            return self.call(what, function, *arguments)
        except AxlaError:
            return otherwise

    def found(self, culprit: str, name: str = "", **more: Any) -> Verdict:
        return Verdict(culprit, name, outcome=self.failure, evidence=tuple(self.evidence), **more)

    # -- in which part ------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        question = self.question
        # The time is tried alone, since results may differ just by the order of sums.
        if question.slower_than is not None:
            timed = question.but(reference=None)
            self.failure = self.ask("how long it takes", timed)
            if self.failure.kind == "slow":
                self.question = timed
                return self.slow()
        self.failure = self.ask("as it is", question)
        if not self.failure.failed:
            return self.only_sometimes()
        if self.failure.kind == "slow":
            return self.slow()
        if elsewhere := self.elsewhere():
            return elsewhere
        alone = self.ask("one thread", question.but(threads=1))
        if not alone.failed:
            self.evidence.append("with one thread it does not fail")
            return self.threads("threads")
        return self.passes() or self.code()

    def elsewhere(self) -> Verdict | None:
        """The verdict if the program fails on the backend in question, but not on `cpu`. None if `cpu` fails
        too, or if the question is about one of axla's CPU backends.
        """
        backend = self.question.backend
        if backend in OWN:
            return None
        if self.ask("on cpu", self.question.but(backend="cpu")).failed:
            self.evidence.append(f"cpu fails as {backend} does")
            return None
        self.evidence.append("on cpu it is right: passes, and the plan of memory, are the same there")
        again = self.question.but(reference=None, repeat=AGAIN)
        if self.ask(f"{AGAIN} runs", again).failed:
            self.evidence.append("its runs give different bits: something is not waited for")
            return self.found("runtime", f"the driver of {backend}")
        return self.found("runtime", f"code for {backend}, or its driver")

    def only_sometimes(self) -> Verdict:
        """The verdict for a program that fails only with the caches on, only sometimes, or not at all."""
        question, right = self.question, self.failure
        cached = self.ask("with caches", question.but(caching=True))
        if cached.failed:
            self.failure = cached
            self.evidence.append("without caches it does not fail")
            # With this flag, programs are compiled again, but their kernels are not.
            flags = (*question.flags, ("verify", True))
            kernels = self.ask("with the cache of kernels", question.but(caching=True, flags=flags))
            kind = "kernel" if kernels.failed else "program"
            return self.found("cache", f"an entry of kind {kind}", emitter=_key(self.text, kind))
        if right.kind == "refused":
            return Verdict("none", outcome=right, evidence=(str(right),))
        try:
            bits = [
                self.call(f"{n} threads", work.bits_of, self.text, question.but(threads=n, repeat=AGAIN))
                for n in THREADS
            ]
        except (Ended, AxlaError) as error:
            self.failure = ended(error) if isinstance(error, Ended) else Outcome("error", str(error))
            return self.threads("threads")
        rows = [{b for found in bits for b in found[k]} for k in range(len(question.kinds))]
        if any(len(row) > 1 for row in rows):
            each = all(len(set(found[k])) == 1 for found in bits for k in range(len(question.kinds)))
            how = "the number of threads" if each else "chance: runs differ"
            self.failure = Outcome("differs", f"the bits of results depend on {how}")
            return self.threads("threads" if each else "runs")
        if planned := self.plan():
            return planned
        self.failure = Outcome("differs", "ranges of a parallel loop depend on each other")
        return self.racing("threads") or Verdict(
            "none", outcome=right, evidence=(f"{right}; with caches, and {THREADS} threads, too",)
        )

    def threads(self, what: str) -> Verdict:
        """Blames the kernel whose results depend on the number of threads, or differ from run to run. If
        there is none, blames the threads. `what` is the cause that the verdict names.
        """
        if racing := self.racing(what):
            return racing
        self.evidence.append("every kernel alone gives equal bits: what they run in is at fault")
        return self.found("threads")

    def racing(self, what: str) -> Verdict | None:
        """Runs each kernel alone, several times with several threads. Blames the first kernel whose results
        differ between runs: its ranges of steps then affect each other. None if there is no such kernel.
        `what` is the cause that the verdict names.
        """
        for piece in self.pieces():
            try:
                question = self.question.but(repeat=AGAIN)
                names = self.call(f"%{piece.name}", work.differs_by_threads, piece, question, THREADS)
            except (Ended, AxlaError) as error:
                self.evidence.append(f"%{piece.name}: {error}")
                continue
            if names is not None:
                return self.kernel(piece, names, Outcome("differs", f"bits depend on {what}"), "threads")
        return None

    # -- passes -------------------------------------------------------------------------------------------

    def passes(self) -> Verdict | None:
        """Blames the pass that changes results, breaks the module, or does not end; None if all passes are
        right.
        """
        question = self.question
        full = self.passes_fail("all passes", question)
        if not full.failed:
            strict = question.but(flags=(*question.flags, ("verify", True)))
            checked = self.passes_fail("all passes, verified", strict)
            if not checked.failed:
                self.evidence.append("the interpreter gives the same for the module after all passes")
                return None
            question, full = strict, checked
        self.evidence.append(f"the interpreter, after passes: {full}")
        in_pass = full.kind in ("crash", "hang", "error") and full.stage.startswith("pass ")
        if in_pass or "pass '" in full.text:
            name = full.stage.removeprefix("pass ") if in_pass else _quoted(full.text)
            return self.rule_of(name, None, question, full)
        try:
            runs: list[PassRun] = self.call("passes", work.runs_of, self.text, question)
        except (Ended, AxlaError) as error:
            return self.found("pass", _quoted(str(error)))
        if self.passes_fail("required passes", question.but(limit=0)).failed:
            return self.required(question, runs)
        first = _first(lambda n: self.passes_fail(f"{n} passes", question.but(limit=n)).failed, len(runs))
        return self.rule_of(runs[first - 1].name, first, question, full)

    def passes_fail(self, what: str, question: Question) -> Outcome:
        try:
            return self.call(what, work.passes_outcome, self.text, question)
        except Ended as error:
            return ended(error)
        except AxlaError as error:
            return Outcome("error", str(error), stage=self.trials.last_stage)

    def required(self, question: Question, runs: list[PassRun]) -> Verdict:
        """Blames the first required pass after which the module is wrong. `runs` are the runs of passes in
        the compilation.
        """
        names = list(dict.fromkeys(run.name for run in runs if run.required))
        for number, name in enumerate(names):
            outcome = self.call(
                f"up to {name}", work.prefix_outcome, self.text, question, tuple(names[: number + 1])
            )
            if outcome.failed:
                return self.found("pass", name)
        return self.found("pass", "one that is required")

    def rule_of(self, name: str, limit: int | None, question: Question, full: Outcome) -> Verdict:
        """Blames the pass `name`, with its wrong rule firing. `limit` is the number of runs of passes up to
        the wrong run of the pass; None if that must be searched. `full` is the outcome with all passes.
        """
        if limit is None:
            limit = self.first_run(name, question)
            if limit is None:
                return self.found("pass", name, instruction=_innermost(full))

        def fails(fuel: int) -> bool:
            asked = question.but(limit=limit, fuel=fuel)
            return self.passes_fail(f"{name}, {fuel} firings", asked).failed

        if (
            fails(0) or (wrong := _first(fails, MOST_FIRINGS)) == MOST_FIRINGS
        ):  # it is wrong without any firing, or never with one: the fault is outside of its rules
            return self.found("pass", name, change=self.change(question, limit, None, None))
        asked = question.but(limit=limit, fuel=wrong)
        runs: list[PassRun] = self.tried([], "the firing", work.runs_of, self.text, asked)
        last = runs[limit - 1].last if runs else ""
        rule, _, instruction = last.partition(" at ")
        return self.found(
            "pass", name, rule=rule or "unknown", firing=wrong, instruction=instruction,
            change=self.change(question, limit, wrong - 1, wrong),
        )  # fmt: skip

    def first_run(self, name: str, question: Question) -> int | None:
        """The smallest number of runs of passes with which a pass fails; None if it fails without any, or
        never.
        """

        def fails(number: int) -> bool:
            return self.passes_fail(f"{number} passes", question.but(limit=number)).failed

        if fails(0) or (first := _first(fails, MOST_RUNS)) == MOST_RUNS:
            return None
        return first

    def change(self, question: Question, limit: int, right: int | None, wrong: int | None) -> str:
        """The change made by run number `limit` of the passes, as a diff of modules: from `right` rule
        firings in the run (None: from before the run) to `wrong` firings (None: to its end).
        """
        before = question.but(limit=limit - 1) if right is None else question.but(limit=limit, fuel=right)
        after = question.but(limit=limit, fuel=wrong)
        one, other = (
            self.tried("", "the change", work.text_before_required, self.text, q) for q in (before, after)
        )
        return diff(one, other) if one and other else ""

    # -- code ---------------------------------------------------------------------------------------------

    def pieces(self) -> list[ModulePiece]:
        try:
            return self.call("the interpreter records values", work.pieces_of, self.text, self.question)
        except (Ended, AxlaError) as error:
            self.evidence.append(f"its kernels could not be run alone: {error}")
            return []

    def code(self) -> Verdict:
        """Runs each kernel alone, and blames the first one with wrong results. If there is none, blames the
        plan of memory, a pass, or the runtime.
        """
        for piece in self.pieces():
            try:
                outcome, names = self.call(f"%{piece.name}", work.piece_outcome, piece, self.question)
            except AxlaError as error:
                outcome = ended(error) if isinstance(error, Ended) else Outcome("error", str(error))
                names = self.tried((), f"kernels of %{piece.name}", work.kernels_of, piece, self.question)
            if outcome.failed:
                return self.kernel(piece, names, outcome, "kernel")
        self.evidence.append("every kernel alone is right")
        if planned := self.plan():
            return planned
        copied = self.tried(self.failure, "copies everywhere", work.copied_outcome, self.text, self.question)
        suspect, run = self.suspect()
        if not copied.failed:
            self.evidence.append("where every value is copied before it may be overwritten, it is right")
            return self.found("memory", "copy-insertion, or the plan of buffers", instruction=suspect)
        if self.failure.kind in ("crash", "hang"):
            return self.found(
                "runtime", self.failure.stage or "run", instruction=suspect or _innermost(self.failure)
            )
        return self.found("memory" if run else "runtime", run, instruction=suspect)

    def plan(self) -> Verdict | None:
        """Blames the plan of memory if the verifier of programs objects to it; else returns None."""
        try:
            problem = self.call("the plan of memory", work.program_problem, self.text, self.question)
        except AxlaError as error:
            problem = str(error)
        if not problem:
            return None
        if not self.failure.failed:
            self.failure = Outcome("error", "results are right, by chance")
        self.evidence.append(f"the verifier of programs: {problem}")
        return self.found("memory", problem.partition("\n")[0])

    def suspect(self) -> tuple[str, str]:
        """Finds the optional pass with which the failure begins. Returns the instruction of its last firing,
        and its name; ("", "") if there is none.
        """
        question = self.question
        runs: list[PassRun] = self.tried([], "passes", work.runs_of, self.text, question)
        if not runs:
            return "", ""
        if self.ask("required passes", question.but(limit=0)).failed:
            self.evidence.append("it fails without optional passes, too")
            return "", ""
        last = self.last_of(runs)
        self.evidence.append(f"it fails from a run of {last.name} on")
        return last.last.partition(" at ")[2], last.name

    def last_of(self, runs: list[PassRun], kinds: Collection[str] = FAILURES) -> PassRun:
        """The run of a pass with which the program begins to fail: the first one after which the outcome is
        one of `kinds`.
        """
        first = _first(lambda n: self.ask(f"{n} passes", self.question.but(limit=n)).kind in kinds, len(runs))
        return runs[first - 1]

    def kernel(
        self, piece: ModulePiece, names: tuple[KernelName, ...], outcome: Outcome, culprit: str
    ) -> Verdict:
        self.evidence.append(f"alone, {piece.opcode} %{piece.name} of {piece.computation}: {outcome}")
        if piece.opcode.startswith(COLLECTIVES):
            return self.found("collective", piece.opcode, instruction=_line(piece))
        inside = ""
        if outcome.kind in ("differs", "crash") and culprit == "kernel":
            inside = self.tried(None, f"inside of %{piece.name}", work.inner_outcomes, piece, self.question)
            inside = self.trials.last_stage if inside is None else inside  # where the process ended
        name = ", ".join(f"{k.name}, a {k.kind} kernel" for k in names) or "code in registers"
        return self.found(
            culprit, name, instruction=inside or _line(piece), change=piece.text,
            emitter=", ".join(dict.fromkeys(k.emitter for k in names)),
        )  # fmt: skip

    # -- time ---------------------------------------------------------------------------------------------

    def slow(self) -> Verdict:
        """Blames the optional pass with which slowness begins, or else the step that takes longest."""
        question = self.question
        rows: list[str] = self.tried([], "the profile", work.slowest, self.text, question)
        self.evidence += rows
        if self.ask("required passes", question.but(limit=0)).kind == "slow":
            self.evidence.append("without optional passes it is slow, too")
            return self.found("kernel", rows[0] if rows else "")
        runs: list[PassRun] = self.call("passes", work.runs_of, self.text, question)
        last = self.last_of(runs, ("slow",))
        return self.found("pass", last.name, instruction=last.last.partition(" at ")[2])


def _first(wrong: Callable[[int], bool], most: int) -> int:
    """The smallest number from 1 on for which `wrong` is true. `wrong` must then be true for all larger
    numbers. Returns `most`, which is not tried, if `wrong` is false for all numbers below it.
    """
    right, high = 0, 1
    while high < most and not wrong(high):
        right, high = high, high * 2
    return right + 1 + bisect_left(range(right + 1, min(high, most)), True, key=wrong)


def _line(piece: ModulePiece) -> str:
    """The text of the instruction that is the root of a piece."""
    lines = [line.strip() for line in piece.text.splitlines() if line.strip().startswith("ROOT ")]
    return lines[-1].removeprefix("ROOT ") if lines else piece.name


def _quoted(text: str) -> str:
    """The name of the pass that an error message quotes; "" if it quotes none."""
    _, _, rest = text.partition("pass '")
    return rest.partition("'")[0]


def _innermost(outcome: Outcome) -> str:
    return next((f"in {frame}" for frame in outcome.frames), "")


def _key(text: str, kind: str) -> str:
    """The path of the cache entry for the program `text`; "" if there is none, or `kind` is not "program"."""
    from axla.api import parse
    from axla.core import cache
    from axla.cpu.programs import program_key

    if kind != "program":
        return ""
    backend, options = work.backend_of("cpu"), work.CompileOptions()
    module = parse(text)
    key = program_key(backend.work(module, options), backend.target(options))
    folder = cache.directory(kind)
    return f"{folder / key[:2] / key}" if folder and key else ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla bisect`."""
    add_file(parser)
    parser.add_argument(
        "--slower-than", metavar="SECONDS", type=float, help="a run that takes longer counts as a failure"
    )
    add_trial(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla bisect`; returns its exit status."""
    module = read_module(options)
    with trials_of(options) as trials:
        question = question_of(options, module).but(slower_than=options.slower_than)
        verdict = bisect(module, trials, question, show=_shown)
    _shown("")
    print(verdict)
    return 0 if verdict.culprit == "none" else 1


def _shown(what: str) -> None:
    """Shows the name `what` of the current trial on a terminal, in a line that is overwritten."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what[:78]}", end="", file=sys.stderr, flush=True)
