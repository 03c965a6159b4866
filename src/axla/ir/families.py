"""Base classes of related ops, for code that must not import `axla.hlo`, where the ops are declared."""

from __future__ import annotations

from axla.ir.attributes import OutputAlias, SourceTargetPairs
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Computation
from axla.ir.op import Op


class Grouped(Op):
    """A collective with replica groups."""

    channel_id: int | None
    replica_groups: ReplicaGroups


class Resizing(Grouped):
    """A collective that multiplies or divides a dimension by the group size."""

    dimensions: tuple[int, ...]


class Exchanging(Grouped):
    """A collective in which each member sends a part to each other: a slice along a dimension, or an
    operand.
    """

    dimensions: tuple[int, ...] | None


class Paired(Op):
    """A collective with pairs of a source and a target."""

    channel_id: int | None
    source_target_pairs: SourceTargetPairs
    slice_sizes: tuple[tuple[int, ...], ...]


class Transfer(Op):
    """A start or a done of a transfer: send, recv, send-done, recv-done."""

    channel_id: int | None
    is_host_transfer: bool


class Calling(Op):
    """A call of one computation whose results may share memory with its operands."""

    calls: Computation
    output_to_operand_aliasing: tuple[OutputAlias, ...]


class Beginning(Calling):
    """An asynchronous call, which runs on another thread than its caller: async-start."""

    async_execution_thread: str


class External(Op):
    """A call of a function that is not part of the program: custom-call."""

    custom_call_target: str
    output_to_operand_aliasing: tuple[OutputAlias, ...]


class Looping(Op):
    """A loop with a condition and a body: while."""

    condition: Computation
    body: Computation


class Applying(Op):
    """An op that applies a computation to elements, or to its operands as a whole."""

    to_apply: Computation


class Composite(Applying):
    """A call that may stand for an op of a frontend."""

    is_composite: bool
