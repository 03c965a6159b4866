"""What ops of a family have, for who must know it below `axla.hlo`, which declares them."""

from __future__ import annotations

from axla.ir.attributes import SourceTargetPairs
from axla.ir.devices import ReplicaGroups
from axla.ir.op import Op


class Grouped(Op):
    """A collective of groups: lists of members."""

    channel_id: int | None
    replica_groups: ReplicaGroups


class Paired(Op):
    """A collective of pairs: a member that sends, and one that receives."""

    channel_id: int | None
    source_target_pairs: SourceTargetPairs
    slice_sizes: tuple[tuple[int, ...], ...]


class Transfer(Op):
    """Half of a transfer, or its end."""

    channel_id: int | None
    is_host_transfer: bool
