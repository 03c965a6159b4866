"""The parts of `bisect` that run in a child process: they try passes alone, single kernels, and the memory
plan.

All functions take the text of a module and a `Question`; names are those in the module after passes.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axla.api import compile, parse
from axla.backends.cpu import CpuBackend, CpuExecutable
from axla.backends.options import CompileOptions
from axla.core import cache, flags
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, InternalError, UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape, TupleShape
from axla.interpreter.evaluate import HostValue, Interpreter
from axla.interpreter.parallel import run_replicated
from axla.ir.clone import clone_computation, clone_module
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Constant, Parameter
from axla.ir.traverse import post_order, schedule_of
from axla.ir.verify import verify
from axla.passes import driver, pipelines, rewrite
from axla.passes.schedule.order import running_computations
from axla.passes.steps import Pass
from axla.program.packed import Packed
from axla.tools.apart import stage
from axla.tools.ranges import run_apart
from axla.tools.shrink import renumbered
from axla.tools.trial import (
    Limit,
    Outcome,
    Question,
    difference,
    inputs_of,
    participants_of,
    reason_of,
    results_of,
    text_of,
)

MOST_CALLS = 4
"""The most calls of a piece that are recorded: the first ones."""
MOST_BYTES = 1 << 26
"""The most bytes of the values of one call that are recorded."""


@dataclass(frozen=True, slots=True)
class PassRun:
    """One run of a pass: whether it changed the module, the number of rule firings in it, and the last of
    them.
    """

    name: str
    required: bool
    changed: bool
    firings: int
    last: str


class Recorder(Limit):
    """Records every run of a pass, up to a limit."""

    def __init__(self, limit: int | None = None, fuel: int | None = None) -> None:
        super().__init__(limit, fuel)
        self.found: list[PassRun] = []
        self._before = 0

    def wants(self, step: Pass, module: Module, session: rewrite.RuleSession) -> bool:
        """Whether the pass is to run; counts the rule firings before it."""
        stage(f"pass {step.name}")
        self._before = sum(session.firings.values())
        return super().wants(step, module, session)

    def ran(self, step: Pass, module: Module, session: rewrite.RuleSession, changed: bool) -> None:
        """Records a run of a pass: whether it changed the module, the number of rule firings in it, and the
        last firing.
        """
        super().ran(step, module, session, changed)
        fired = sum(session.firings.values()) - self._before
        self.found.append(PassRun(step.name, bool(step.required), changed, fired, session.last))


def backend_of(name: str) -> CpuBackend:
    """The CPU backend of this name; `cpu` if the backend is not a CPU."""
    from axla.backends import get

    found = get(name)
    return found if isinstance(found, CpuBackend) else CpuBackend()


def _optimized(text: str, question: Question) -> tuple[Module, Module, list[PassRun]]:
    """Returns the module `text`, a copy of it after the passes that the question allows, and the runs of
    passes.
    """
    from axla.lowering.pipeline import optimize

    module = parse(text)
    verify(module)
    backend, options = backend_of(question.backend), CompileOptions()
    work, recorder = backend.work(module, options), Recorder(question.limit, question.fuel)
    with flags.override(cache_dir="", **dict(question.flags)), driver.observed(recorder):
        cache.clear()
        optimize(work, backend.target(options))
    stage("passes done")
    return module, work, recorder.found


def runs_of(text: str, question: Question) -> list[PassRun]:
    """The runs of passes when the module `text` is compiled with the backend, flags and limits of
    `question`.
    """
    return _optimized(text, question)[2]


class _Snapshot(Limit):
    """Runs as many passes as a limit allows, and keeps the text of the module after them."""

    text = ""

    def ran(self, step: Pass, module: Module, session: rewrite.RuleSession, changed: bool) -> None:
        super().ran(step, module, session, changed)
        if self.runs == self.limit:
            self.text = module.to_string()


def text_before_required(text: str, question: Question) -> str:
    """The text of the module `text` after the optional passes that the question allows, before the required
    passes run.
    """
    from axla.lowering.pipeline import optimize

    backend, options = backend_of(question.backend), CompileOptions()
    work, snapshot = backend.work(parse(text), options), _Snapshot(question.limit, question.fuel)
    snapshot.text = work.to_string()
    with flags.override(**dict(question.flags)), driver.observed(snapshot):
        optimize(work, backend.target(options))
    return snapshot.text


def prefix_outcome(text: str, question: Question, names: tuple[str, ...]) -> Outcome:
    """Compares the interpreter's results before and after the passes with these names."""

    module = parse(text)
    backend, options = backend_of(question.backend), CompileOptions()
    work = backend.work(module, options)
    try:
        steps = tuple(pipelines.PASSES[name] for name in names)
        driver.run(work, steps, backend.target(options), name="prefix")
        verify(work)
    except AxlaError as error:
        return Outcome("error", str(error), reason_of(error))
    return _compared(module, work, question)


def passes_outcome(text: str, question: Question) -> Outcome:
    """Compares the interpreter's results before and after the passes that the question allows."""
    try:
        module, work, _ = _optimized(text, question)
        verify(work)
    except InternalError as error:
        return Outcome("error", str(error), reason_of(error))
    return _compared(module, work, question)


def _compared(module: Module, work: Module, question: Question) -> Outcome:
    """Compares the interpreter's results for a module and for `work`, its optimized copy."""
    before = _prepared(module)
    for kind in question.kinds:
        rows = inputs_of(module, question, kind)
        wanted = _interpreted(before, rows, Interpreter(deadline=question.deadline))
        try:
            found = _interpreted(work, rows, Interpreter(deadline=question.deadline))
        except AxlaError as error:
            return Outcome("error", str(error), reason_of(error))
        for participant, (a, b) in enumerate(zip(found, wanted, strict=True)):
            wrong = difference(module, a, b, question)
            if wrong:
                who = f", participant {participant}" if len(rows) > 1 else ""
                return Outcome("differs", f"{wrong} ({kind} inputs, seed {question.seed}{who})")
    return Outcome("agrees")


def _prepared(module: Module) -> Module:
    """A copy of a module after the passes that every backend runs."""
    work = clone_module(module)
    driver.run(work, pipelines.PREPARE, name="prepare")
    return work


def _interpreted(
    module: Module, rows: list[list[np.ndarray]], interpreter: Interpreter
) -> list[list[np.ndarray]]:
    """Runs a module with the interpreter, with the inputs of each participant (`rows`). Returns for each
    participant the result leaves, and the values that it put into its outfeed.
    """

    class Interpreted:
        """The interpreter, with the methods of a program that `results_of` calls."""

        def execute(self, row: list[np.ndarray], deadline: float) -> list[np.ndarray]:
            return self.execute_replicated([row], deadline)[0]

        def execute_replicated(self, rows: list[list[np.ndarray]], deadline: float) -> list[list[np.ndarray]]:
            from axla.custom.site import flatten, nest

            values = []
            for row in rows:
                leaves = iter(row)
                values.append([nest(p.shape, leaves) for p in module.entry.parameters])
            with np.errstate(all="ignore"):
                if len(rows) == 1:
                    found = [interpreter.run(module.entry, values[0])]
                else:
                    counts = module.config.replica_count, module.config.num_partitions
                    found = run_replicated(interpreter, module.entry, values, *counts, range(len(rows)))
            return [[x for x in flatten(module.entry.root.shape, v) if x is not None] for v in found]

    return results_of(module, Interpreted(), rows, interpreter.deadline or 60.0)


# -- pieces: the kernels of a program, each as a program of its own ---------------------------------------


@dataclass(frozen=True, slots=True)
class ModulePiece:
    """An instruction of an optimized module, as a module that takes its operands. `calls` has the operands
    and the results of each recorded call, as arrays for every participant.
    """

    name: str
    computation: str
    text: str
    opcode: str
    calls: tuple[tuple[list[list[np.ndarray]], list[list[np.ndarray]]], ...]


class _Calls(Interpreter):
    """An interpreter that records the operands and values of instructions."""

    def __init__(self, wanted: frozenset[Instruction], **limits: Any) -> None:
        super().__init__(**limits)
        self.wanted = wanted
        self.noted: dict[tuple[Instruction, int], list[tuple[tuple[HostValue, ...], HostValue]]] = {}

    def beside(self, process: Any = None) -> Interpreter:
        made = _Calls(self.wanted, memory_limit=self.memory_limit, seed=self.seed, process=process)
        made.step_limit, made.steps = self.step_limit, self.steps
        made.stop_at, made.deadline, made.cancelled = self.stop_at, self.deadline, self.cancelled
        made.noted = self.noted
        return made

    def evaluator(self, inst: Instruction) -> Callable[..., HostValue]:
        function = super().evaluator(inst)
        return self._noting(inst, function) if inst in self.wanted else function

    def _noting(self, inst: Instruction, function: Callable[..., HostValue]) -> Callable[..., HostValue]:
        who = 0 if self.process is None else self.process.number
        calls = self.noted.setdefault((inst, who), [])

        def run(*operands: HostValue) -> HostValue:
            kept = _copied(operands) if len(calls) < MOST_CALLS else None
            value = function(*operands)
            if kept is not None:
                calls.append((kept, _copied(value)))
            return value

        return run


def _copied(value: HostValue) -> Any:
    if isinstance(value, tuple):
        return tuple(_copied(v) for v in value)
    return None if value is None else np.array(value)


def pieces_of(text: str, question: Question) -> list[ModulePiece]:
    """The pieces of a module's program in execution order, with the interpreter's values: kernels, small
    values, collectives. Loops and branches are split up; instructions with effects, and asynchronous ones,
    are left out.
    """
    module, work, _ = _optimized(text, question)
    homes = running_computations(work)
    wanted = [inst for home in reversed(homes) for inst in schedule_of(home) if _is_piece(inst)]
    found: list[ModulePiece] = []
    recorded: list[_Calls] = []
    for kind in question.kinds:
        interpreter = _Calls(frozenset((*wanted, *map(_begin, wanted))), deadline=question.deadline)
        recorded.append(interpreter)
        _interpreted(work, inputs_of(module, question, kind), interpreter)
    count = participants_of(module)
    for inst in wanted:
        calls: list[tuple[list[list[np.ndarray]], list[list[np.ndarray]]]] = []
        for interpreter in recorded:
            begin = _begin(inst)
            rows = [interpreter.noted.get((begin, who), []) for who in range(count)]
            ends = [interpreter.noted.get((inst, who), []) for who in range(count)]
            for turn in range(min(map(len, (*rows, *ends)))):
                first = [k for k, o in enumerate(begin.operands) if o not in begin.operands[:k]]
                given = [_leaves(tuple(row[turn][0][k] for k in first)) for row in rows]
                results = [_leaves(end[turn][1]) for end in ends]
                if sum(a.nbytes for row in (*given, *results) for a in row) <= MOST_BYTES:
                    calls.append((given, results))
        if calls:
            made = _alone(inst)
            found.append(
                ModulePiece(inst.name, inst.computation.name, text_of(made), inst.opcode, tuple(calls))
            )
    return found


def _begin(inst: Instruction) -> Instruction:
    """The instruction that starts the work which `inst` ends: for a done, its start; for other instructions,
    `inst` itself.
    """
    return inst.operands[0] if inst.op.ends is not None else inst


def _is_piece(inst: Instruction) -> bool:
    op = inst.op
    effect = op.side_effect and op.collective is None
    if op.structural or op.control or effect or op.passes_on or isinstance(op, Constant):
        return False
    if op.ended_by is not None or (op.ends is not None and not isinstance(inst.operands[0].op, op.ends)):
        return False
    leaves = [leaf for value in (inst, *_begin(inst).operands) for leaf in value.shape.leaves()]
    return all(isinstance(leaf, Shape) and not leaf.is_dynamic for leaf in leaves)


def _leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple):
        return [array for part in value for array in _leaves(part)]
    return [] if value is None else [np.asarray(value)]


def _alone(inst: Instruction) -> Module:
    """A module with this instruction alone, whose operands are parameters."""
    source = inst.computation.module
    config = source.config
    made = Module(f"piece_{inst.name}")
    made.set_config(replica_count=config.replica_count, num_partitions=config.num_partitions)
    begin = _begin(inst)
    every = (*begin.op.computations(), *inst.op.computations())
    called = {c: clone_computation(c, made) for c in dict.fromkeys(every)}
    home = made.add_computation("main", entry=True)
    values: dict[Instruction, Instruction] = {}
    for operand in begin.operands:
        if operand not in values:
            values[operand] = home.add(Parameter(operand.shape, len(values)), name=operand.name)
    for one in dict.fromkeys((begin, inst)):
        op = one.op.with_computations(lambda c: called[c]) if one.op.computation_fields else one.op
        extra = replace(one.extra, control_predecessors=())
        values[one] = home.add(op, [values[o] for o in one.operands], one.shape, name=one.name, extra=extra)
    home.set_root(values[inst])
    return made


@dataclass(frozen=True, slots=True)
class KernelName:
    """A kernel of a piece: its name, its kind as text, and the function that writes its code."""

    name: str
    kind: str
    emitter: str


_AS_IT_IS = (pipelines.flatten_call_graph, pipelines.schedule, pipelines.copy_insertion)


def piece_outcome(piece: ModulePiece, question: Question) -> tuple[Outcome, tuple[KernelName, ...]]:
    """Compiles a piece on its own and compares its results with the interpreter's. Also returns its
    kernels.
    """

    module = parse(piece.text)
    stage(f"code of {piece.name}")
    with flags.override(cache_dir=""):
        cache.clear()
        program, names, _ = _program(module, question)
    stage(f"run of {piece.name}")
    bits: list[bytes] | None = None
    try:
        for given, wanted in piece.calls:
            for turn in range(question.repeat):
                _spoil(module, program, given, question)
                found = results_of(module, program, given, question.deadline)
                now = [a.tobytes() for row in found for a in row]
                if turn and now != bits:
                    return Outcome("differs", "its runs give different bits", "runs"), names
                bits = now
                for a, b in zip(found, wanted, strict=True):
                    wrong = difference(module, a, b, question)
                    if wrong:
                        return Outcome("differs", wrong), names
    except AxlaError as error:
        return Outcome("error", str(error), reason_of(error)), names
    return Outcome("agrees"), names


def _spoil(module: Module, program: Any, given: list[list[np.ndarray]], question: Question) -> None:
    """Fills memory that the next results will probably reuse with wrong bytes, to reveal elements that are
    never written. `given` are the inputs of each participant; runs with them allocate the memory.
    """
    dropped = [results_of(module, program, given, question.deadline) for _ in range(3)]
    for array in [array for rows in dropped for row in rows for array in row]:
        ctypes.memset(array.ctypes.data, 0x7F, array.nbytes)


def _program(module: Module, question: Question) -> tuple[Any, tuple[KernelName, ...], Packed]:
    """Compiles a module whose kernels are already decided; returns the executable, the names of the kernels,
    and the code.
    """
    from axla.cpu.compiler import code_of
    from axla.kernels.kinds import kind_planned_as
    from axla.lowering.pipeline import constants_memory, program_of

    backend, options = backend_of(question.backend), CompileOptions()
    target = backend.target(options)
    work = backend.work(module, options)
    driver.run(work, _AS_IT_IS, target, name="pieces")
    constants: dict[Literal, int] = {}
    program = program_of(work, target, constants)
    names = tuple(
        KernelName(k.name, k.kind, kind_planned_as(type(k.plan)).emission or str(type(k.plan)))
        for k in program.kernels
    )
    made = code_of(program, constants_memory(constants), target)
    backend.client.check(module.name, options.participants(module), options)
    loaded = CpuExecutable(
        made.images, made.interface, made.constants, client=backend.client, module=module, options=options
    )
    return loaded, names, made


def kernels_of(piece: ModulePiece, question: Question) -> tuple[KernelName, ...]:
    """The kernels of a piece."""
    with flags.override(cache_dir=""):
        return _program(parse(piece.text), question)[1]


def inner_outcomes(piece: ModulePiece, question: Question) -> str:
    """Text about the first instruction inside a fusion whose value is wrong when the kernel returns it. It is
    the root if all other instructions are right. "" if the piece is not a fusion.
    """

    module = parse(piece.text)
    root = module.entry.root
    if root.opcode != "fusion" or participants_of(module) > 1:
        return ""
    [body] = root.op.computations()
    names = [i.name for i in post_order(body) if not isinstance(i.op, Parameter | Constant)]
    for name in names:
        part = parse(piece.text)
        fusion = part.entry.root
        [inside] = fusion.op.computations()
        value = next(i for i in inside.instructions if i.name == name)
        if value is inside.root or isinstance(value.shape, TupleShape):
            continue
        stage(repr(value))
        inside.set_root(value)
        for other in reversed(post_order(inside)):
            if not other.users and other is not value:
                inside.remove(other)
        part.entry.set_operands(fusion, [fusion.operands[number] for number in renumbered(inside)])
        part.entry.set_op(fusion, fusion.op, value.shape)
        part.set_config(entry_layout=None)
        try:
            verify(part)
            with flags.override(cache_dir=""):
                program, _, _ = _program(part, question)
            for given, _ in piece.calls:
                wanted = _interpreted(part, given, Interpreter(deadline=question.deadline))
                _spoil(part, program, given, question)
                found = results_of(part, program, given, question.deadline)
                if difference(part, found[0], wanted[0], question):
                    return repr(value)
        except AxlaError:
            continue
    return repr(body.root)


# -- memory -----------------------------------------------------------------------------------------------


class _Copies(driver.Observer):
    """Copies every value before it may be overwritten, just before the pass that decides about copies."""

    def wants(self, step: Pass, module: Module, session: rewrite.RuleSession) -> bool:
        if step.name == "copy-insertion":
            copy_all(module)
        return True


def copy_all(module: Module) -> None:
    """Adds copies of the operands of loops, of fusions, and of all instructions that overwrite an operand."""
    from axla.hlo import Copy
    from axla.ir.structure import GetTupleElement, Tuple

    orders = {c: list(schedule_of(c)) for c in running_computations(module)}
    for home, order in orders.items():
        new: list[Instruction] = []

        def copied(value: Instruction, made: list[Instruction] = new) -> Instruction:
            if isinstance(value.shape, TupleShape):
                parts = []
                for index in range(len(value.shape.elements)):
                    part = value.computation.add(GetTupleElement(index), (value,))
                    made.append(part)
                    parts.append(copied(part))
                made.append(value.computation.add(Tuple(), parts))
            elif isinstance(value.shape, Shape):
                made.append(value.computation.add(Copy(), (value,), value.shape))
            else:
                return value
            return made[-1]

        for inst in order:
            if inst.op.updates or inst.opcode in ("while", "fusion"):
                for number, operand in enumerate(inst.operands):
                    home.set_operand(inst, number, copied(operand))
            new.append(inst)
        orders[home] = new
    module.set_schedule({c: tuple(order) for c, order in orders.items()})


def copied_outcome(text: str, question: Question) -> Outcome:
    """Runs a program in which every value is copied before it may be overwritten; returns the outcome."""
    from axla.tools.trial import answer

    with driver.observed(_Copies()):
        return answer(text, question.but(limit=None, fuel=None))


def program_problem(text: str, question: Question) -> str:
    """The objection of the verifier of programs to the memory plan; "" if it has none."""
    from axla.lowering.loading import check_program
    from axla.lowering.pipeline import program_of
    from axla.program.verify import verify_program

    _, work, _ = _optimized(text, question)
    target = backend_of(question.backend).target(CompileOptions())
    try:
        program = program_of(work, target, {})
        verify_program(program)
        check_program(program, target)
    except AxlaError as error:
        return str(error)
    return ""


def differs_by_threads(
    piece: ModulePiece, question: Question, counts: Sequence[int]
) -> tuple[KernelName, ...] | None:
    """The kernels of a piece if the bits of its results differ between the numbers of threads `counts`,
    between runs, or when its ranges run apart; None if all results are equal.
    """
    from axla.tools.trial import threads

    module = parse(piece.text)
    with flags.override(cache_dir=""):
        program, names, code = _program(module, question)
    for given, _ in piece.calls:
        if len(given) == 1:
            with contextlib.suppress(UnsupportedError):
                results, why = run_apart(code, [np.ascontiguousarray(a).tobytes() for a in given[0]])
                found = results_of(module, program, given, question.deadline)
                if why or results != [a.tobytes() for a in found[0]]:
                    return names
        seen: set[bytes] = set()
        for count in counts:
            with threads(count):
                for _ in range(question.repeat):
                    found = results_of(module, program, given, question.deadline)
                    seen.add(b"".join(a.tobytes() for row in found for a in row))
        if len(seen) > 1:
            return names
    return None


def bits_of(text: str, question: Question) -> list[list[bytes]]:
    """The bytes of the results of the module `text`: for each kind of inputs, a list with the bytes of each
    of the question's `repeat` runs.
    """
    from axla.tools.trial import threads

    with flags.override(cache_dir="", **dict(question.flags)), threads(question.threads):
        cache.clear()
        module = parse(text)
        program = compile(module, backend=question.backend)
        rows = [inputs_of(module, question, kind) for kind in question.kinds]
        return [
            [
                b"".join(a.tobytes() for r in results_of(module, program, row, question.deadline) for a in r)
                for _ in range(question.repeat)
            ]
            for row in rows
        ]


def slowest(text: str, question: Question) -> list[str]:
    """The three slowest steps of a run, slowest first, with their times, names and kinds."""
    from axla.core.profile import profile

    module = parse(text)
    program = compile(module, backend=question.backend)
    row = inputs_of(module, question, question.kinds[0])
    with profile() as taken:
        results_of(module, program, row, question.deadline)
    return [
        f"{step.ns / 1e6:.3f} ms: {step.row.step}, {step.row.kind}"
        for step in taken.steps
        if step.row.step not in ("call", "profile")
    ][:3]
