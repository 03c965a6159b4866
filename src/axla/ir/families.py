"""Base classes of op families, for layers below `axla.hlo`, which declares the ops."""

from __future__ import annotations

from axla.ir.attributes import OutputAlias, SourceTargetPairs
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Computation
from axla.ir.op import Op


class Grouped(Op):
    """A collective with groups, which are lists of members."""

    channel_id: int | None
    replica_groups: ReplicaGroups


class Resizing(Grouped):
    """A collective whose result grows or shrinks along a dimension."""

    dimensions: tuple[int, ...]


class Exchanging(Grouped):
    """A collective that exchanges parts along a dimension, or operands."""

    dimensions: tuple[int, ...] | None


class Paired(Op):
    """A collective with pairs of a sending and a receiving member."""

    channel_id: int | None
    source_target_pairs: SourceTargetPairs
    slice_sizes: tuple[tuple[int, ...], ...]


class Transfer(Op):
    """Half of a transfer, or its end."""

    channel_id: int | None
    is_host_transfer: bool


class Calling(Op):
    """A call of one computation, whose results may share memory with operands."""

    calls: Computation
    output_to_operand_aliasing: tuple[OutputAlias, ...]


class Beginning(Calling):
    """A call that runs asynchronously to its caller."""

    async_execution_thread: str


class External(Op):
    """A call of a function outside of the program."""

    custom_call_target: str
    output_to_operand_aliasing: tuple[OutputAlias, ...]


class Looping(Op):
    """A body that is repeated under a condition."""

    condition: Computation
    body: Computation


class Applying(Op):
    """A computation applied to elements, or to all operands."""

    to_apply: Computation


class Composite(Applying):
    """A call that may be replaced by an op of a frontend."""

    is_composite: bool
