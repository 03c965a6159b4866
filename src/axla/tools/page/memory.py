"""Memory over time: the steps during which each byte of a program is in use.

Time is the number of a step; steps inside loops and branches are counted once, in their place. A value is
live from the step that computes it to its last use; values that a loop reads from outside, or carries, are
live for the whole loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from axla.core.dataclass import dataclass
from axla.program.memory import AllocationKind, BufferSlice
from axla.program.program import Program, nested_steps
from axla.program.steps import (
    ArrayValue,
    BranchStep,
    CopyStep,
    CustomCallStep,
    KernelStep,
    LoopStep,
    Step,
    StoreStep,
    TransferStep,
)


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A step with its time: `first` is its number, `last` the number of the last step inside it, `depth` the
    number of enclosing loops and branches.
    """

    step: Step
    first: int
    last: int
    depth: int

    @property
    def name(self) -> str:
        """The name of the step's instruction."""
        return self.step.source.name if isinstance(self.step, CopyStep) else self.step.name


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """A slice of memory that is in use from the step `first` to the step `last`, inclusive."""

    name: str
    place: BufferSlice
    first: int
    last: int


def timed_steps(program: Program) -> list[TimedStep]:
    """All steps of a program in order, with their times."""
    found: list[TimedStep | None] = []
    open_: list[tuple[Step, int, int]] = []  # step, number, depth
    stack: list[tuple[Step | None, int]] = [(step, 0) for step in reversed(program.steps)]
    while stack:
        step, depth = stack.pop()
        if step is None:  # the end of the step that was opened last
            begun, number, level = open_.pop()
            found[number] = TimedStep(begun, number, len(found) - 1, level)
            continue
        open_.append((step, len(found), depth))
        found.append(None)
        stack.append((None, depth))
        stack.extend((inner, depth + 1) for inner in reversed(tuple(nested_steps(step))))
    return [step for step in found if step is not None]


def blocks(program: Program, steps: list[TimedStep] | None = None) -> list[LiveBlock]:
    """The blocks of a program's memory with the steps during which they are in use, ordered by their first
    step; arguments and constants are left out. Results are in use to the end of the run. `steps` are the
    results of `timed_steps`, which is called if they are missing.
    """
    steps = timed_steps(program) if steps is None else steps
    end = max(len(steps) - 1, 0)
    lives: dict[tuple[str, str], list[int]] = {}  # value and place: first and last step
    slices: dict[tuple[str, str], BufferSlice] = {}
    around: list[TimedStep] = []  # loops and branches that are open, outermost first

    def alive(name: str, place: BufferSlice | None, first: int, last: int) -> None:
        if place is None or place.allocation.kind in (AllocationKind.PARAMETER, AllocationKind.CONSTANTS):
            return
        key = name, str(place)
        slices[key] = place
        life = lives.setdefault(key, [first, last])
        life[1] = max(life[1], last)
        for outer in around:  # a value from before a loop is read in each of its trips
            if life[0] < outer.first <= last:
                life[1] = max(life[1], outer.last)
                break

    for timed in steps:
        while around and around[-1].last < timed.first:
            around.pop()
        step = timed.step
        for value, first, last in _uses(timed):
            alive(value.name, value.place, first, last)
        if isinstance(step, KernelStep | CustomCallStep) and step.scratch is not None:
            alive(f"{step.name}, scratch", step.scratch, timed.first, timed.first)
        if isinstance(step, LoopStep | BranchStep):
            around.append(timed)
    around.clear()
    for result in program.results:
        if result is not None:
            alive(result.name, result.place, end, end)
    made = [LiveBlock(key[0], slices[key], first, last) for key, (first, last) in lives.items()]
    return sorted(made, key=lambda block: (block.first, block.place.offset))


def _uses(timed: TimedStep) -> Iterator[tuple[ArrayValue, int, int]]:
    """Yields each value that a step reads or writes, with the first and the last step of the use. Values of
    steps inside a loop or branch are left out.
    """
    step, first, last = timed.step, timed.first, timed.last
    if isinstance(step, LoopStep):
        for carried in step.carried:
            for value in (carried.initial, carried.parameter):
                yield value, first, first if value is carried.initial else last
            yield carried.next, last, last
            yield carried.result, last, last
    elif isinstance(step, BranchStep):
        for value in (step.selector, *(v for branch in step.branches for v in branch.values)):
            yield value, first, first if value is step.selector else last
        for value in step.results:
            yield value, first, last
    elif isinstance(step, CopyStep | TransferStep):
        yield step.source, first, first
        yield step.target, first, first
    elif isinstance(step, StoreStep):
        for value in (step.operand, step.update, *step.starts, step.result):
            yield value, first, first
    else:
        for value in (*step.operands, *step.results):
            if value is not None:
                yield value, first, first


def live_bytes(found: list[LiveBlock], ticks: int) -> list[int]:
    """The bytes of the blocks `found` that are in use at each of `ticks` steps. Memory that several values
    share, reused or in place, counts once.
    """
    changes = [0] * (ticks + 1)
    ends: dict[str, int] = {}  # the last step of the last value in a slice
    for block in found:
        place = str(block.place)
        first = max(block.first, ends.get(place, -1) + 1)
        if first <= block.last:
            changes[first] += block.place.size
            changes[block.last + 1] -= block.place.size
            ends[place] = block.last
    return list(accumulate(changes))[:ticks]
