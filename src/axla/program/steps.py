"""The steps of a program: frozen data about values.

A `ArrayValue` is an array: computed by a step, a parameter or a constant. Tuples, bitcasts and parameters of
called computations are already resolved. Uses of a value have its name; they may have another shape of the
same size, and have a place: a slice, or None for registers.
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
    """An array: its name, its shape, and the slice where it is read or written; None: registers."""

    name: str
    shape: Shape
    place: BufferSlice | None = None

    @property
    def memory(self) -> BufferSlice:
        """The slice of a value that must be in memory; InternalError for one in registers."""
        if self.place is None:
            raise InternalError(f"value {self.name} is in registers, and is wanted in memory")
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
    """A computation in registers, in text order: the entry of a module of its own.

    Its parameters are the operands, read wherever they are; its root is a tuple of the results. A result with
    a slice is stored there as soon as it is computed.
    """

    name: str
    computation: Computation
    operands: tuple[ArrayValue, ...]
    results: tuple[ArrayValue, ...]
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copies a value: from registers to memory, from memory to registers, or within memory. The target has
    the value's name.
    """

    source: ArrayValue
    target: ArrayValue


@dataclass(frozen=True, slots=True)
class StoreStep:
    """Writes `update`, a few elements, into `operand` at `starts` (clamped; one per dimension, or one
    vector), in place: `result` has the operand's memory.
    """

    name: str
    operand: ArrayValue
    update: ArrayValue
    starts: tuple[ArrayValue, ...]
    result: ArrayValue
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """A value carried by a loop. If `parameter` has a slice, all are in it; otherwise parameter and result
    are in registers, and `initial` and `next` are read from where they are.
    """

    initial: ArrayValue
    parameter: ArrayValue  # what condition and body see
    next: ArrayValue
    result: ArrayValue


@dataclass(frozen=True, slots=True)
class LoopStep:
    """Runs `condition`, then `body`, while `test` (a pred scalar computed by the condition) holds."""

    name: str
    carried: tuple[Carried, ...]
    condition: tuple[Step, ...]
    test: ArrayValue
    body: tuple[Step, ...]
    trip_count: int | None = None  # None: not known
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch and its results, one value per result of the step; a result in memory is in its slice."""

    steps: tuple[Step, ...]
    values: tuple[ArrayValue, ...]


@dataclass(frozen=True, slots=True)
class BranchStep:
    """Runs one branch: a pred selects the first if true, else the second; an s32 selects by number, and the
    last one if out of range.
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
    report: int = -1  # the function that takes note of a failed status
    plan: CallPlan | None = None  # of a library's routine
    scratch: BufferSlice | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class TransferStep:
    """Copies a value to another memory space. The target has the value's name."""

    name: str
    source: ArrayValue
    target: ArrayValue
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """A collective; also `replica-id` and `partition-id`, which do not wait.

    `rendezvous_keys` are indices into those of the interface, one per group. A participant in no group gets
    zeros. `folds` are kernels that combine two elements of each operand, over as many elements as a
    participant has in its result: one kernel for each operand, or one for all.

    An asynchronous collective has two steps with the same fields. The results of the first step are memory
    that is not read before the second step ends; `begun` are these slices in the second step.
    """

    name: str
    kind: str  # an opcode: all-reduce, all-gather...
    operands: tuple[ArrayValue, ...]
    results: tuple[ArrayValue, ...]
    rendezvous_keys: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()  # of a permute: source and target, as participants
    dimension: int | None = None  # that is gathered, scattered or split; None: operands are
    dynamic_root: bool = False  # the last operand says the position of each other one's root
    folds: tuple[str, ...] = ()
    function: int = -1  # the engine
    starts: bool = False  # the first half
    begun: tuple[ArrayValue, ...] = ()  # of the second half
    location: SourceLocation | None = None


Step: TypeAlias = (
    KernelStep | RegisterStep | CopyStep | StoreStep | LoopStep | BranchStep | CustomCallStep | TransferStep
    | CollectiveStep
)  # fmt: skip
