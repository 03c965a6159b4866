"""The steps of a program: immutable data that refers to values.

An `ArrayValue` is an array that a step computes, a parameter or a constant. Tuples, bitcasts and parameters
of called computations are already resolved. All uses of a value have its name, but may have another shape of
the same size, and another place: a slice of memory, or None for registers.
"""

from __future__ import annotations

from typing import TypeAlias

from axla.core.dataclass import dataclass
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.custom.plan import CallPlan
from axla.custom.site import CallSite
from axla.ir.graph import Computation, SourceLocation
from axla.program.memory import BufferSlice


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """An array as a step reads or writes it: its name, its shape, and its slice of memory, or None for
    registers.
    """

    name: str
    shape: Shape
    place: BufferSlice | None = None

    @property
    def memory(self) -> BufferSlice:
        """The slice of a value that must be in memory; InternalError for one in registers."""
        if self.place is None:
            raise InternalError(f"value {self.name} is in registers, but must be in memory")
        return self.place


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Calls a kernel of the program. All operands and results are in memory."""

    name: str
    kernel: str
    operands: tuple[ArrayValue, ...]
    results: tuple[ArrayValue, ...]
    scratch: BufferSlice | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class RegisterStep:
    """Runs a computation in registers, in schedule order. The computation is the entry of a module of its
    own.

    Its parameters are the operands, which may be in registers or memory; its root is a tuple of the results.
    A result with a slice is stored as soon as it is computed.
    """

    name: str
    computation: Computation
    operands: tuple[ArrayValue, ...]
    results: tuple[ArrayValue, ...]
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copies a value from registers to memory, from memory to registers, or within memory. `target` has the
    value's name.
    """

    source: ArrayValue
    target: ArrayValue


@dataclass(frozen=True, slots=True)
class StoreStep:
    """Writes the few elements of `update` into `operand` at the indices `starts`, in place: `result` has the
    operand's memory. `starts` are one scalar per dimension, or one vector; they are clamped.
    """

    name: str
    operand: ArrayValue
    update: ArrayValue
    starts: tuple[ArrayValue, ...]
    result: ArrayValue
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a loop carries. If `parameter` has a slice, all four fields are in this slice. Otherwise
    `parameter` and `result` are in registers, and `initial` and `next` are in registers or memory.
    """

    initial: ArrayValue
    parameter: ArrayValue  # the value as condition and body read it
    next: ArrayValue
    result: ArrayValue


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Runs `condition`, then `body` if `test` is true, and so on until `test` is false. `test` is a pred
    scalar that the condition computes.
    """

    name: str
    carried: tuple[Carried, ...]
    condition: tuple[Step, ...]
    test: ArrayValue
    body: tuple[Step, ...]
    trip_count: int | None = None  # None: unknown
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps of a branch, and one value for each result of the branch step. If the result is in memory,
    the value is in its slice.
    """

    steps: tuple[Step, ...]
    values: tuple[ArrayValue, ...]


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Runs one of the branches. A pred selects the first one if true, else the second; an s32 selects by
    number, counted from 0, and the last one if out of range.
    """

    name: str
    selector: ArrayValue
    branches: tuple[Branch, ...]
    results: tuple[ArrayValue, ...]
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CustomCallStep:
    """Calls entry `function` of the function table. Operands and results are leaves in memory; None is a
    token.
    """

    name: str
    site: CallSite
    api: str
    function: int
    operands: tuple[ArrayValue | None, ...]
    results: tuple[ArrayValue | None, ...]
    report: int = -1  # the number of the function that reports a failed status
    plan: CallPlan | None = None  # the plan of the call, for a routine of a library
    scratch: BufferSlice | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class TransferStep:
    """Copies a value to another memory space. `target` has the value's name."""

    name: str
    source: ArrayValue
    target: ArrayValue
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """Runs a collective, or a `replica-id` or `partition-id`, which do not wait for other participants.

    `rendezvous_keys` are indices into the rendezvous keys of the interface, one per group. A participant in
    no group gets zeros. `folds` names the kernels that combine two elements of each operand, for as many
    elements as a participant has in its result: one kernel for each operand, or one for all.

    An asynchronous collective has two steps with equal fields except for `starts` and `begun`. The results of
    the first step are memory that must not be read before the second step; `begun` of the second step holds
    them.
    """

    name: str
    kind: str  # an opcode: all-reduce, all-gather...
    operands: tuple[ArrayValue, ...]
    results: tuple[ArrayValue, ...]
    rendezvous_keys: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()  # (source, target) participants of a permute
    dimension: int | None = None  # gathered, scattered or divided; None: operands are exchanged
    dynamic_root: bool = False  # the last operand has the position of the root for each other operand
    folds: tuple[str, ...] = ()
    function: int = -1  # number of the collectives' engine in the function table
    starts: bool = False  # whether this is the first step of an asynchronous collective
    begun: tuple[ArrayValue, ...] = ()  # for the second step: the results of the first one
    location: SourceLocation | None = None


Step: TypeAlias = (
    KernelStep | RegisterStep | CopyStep | StoreStep | LoopStep | BranchStep | CustomCallStep | TransferStep
    | CollectiveStep
)  # fmt: skip
