"""Collectives: ops that replicas and partitions compute together, as one op or as a pair of a start and a
done.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, S32, U32
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.core.shape_util import LeafPath
from axla.hlo.family import arrays, joined, show
from axla.hlo.signature import accepts_scalars, sample_reducer
from axla.ir.attributes import SourceTargetPairs
from axla.ir.collectives import CollectiveKind
from axla.ir.devices import ReplicaGroups
from axla.ir.families import Exchanging, Grouped, Paired, Resizing
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op, attr, example, op, reject
from axla.ir.structure import Constant

ALL = ReplicaGroups()


def group_size(self: Op, groups: ReplicaGroups, *, uniform: bool = True) -> int | None:
    """The number of participants in a group; None where it depends on the run. Rejects empty groups, groups
    with common members, and, if `uniform`, groups of different sizes.
    """
    sizes, listed = groups.sizes, groups.listed
    if 0 in sizes:
        self.reject("groups", f"a replica group has no members: {listed}")
    if uniform and len(sizes) > 1:
        self.reject("groups", f"replica groups must be of one size, found {listed}")
    members = [m for g in listed for m in g]
    if len(set(members)) != len(members) or min(members, default=0) < 0:
        what = "members must be at least 0 and different"
        self.reject("groups", f"{what}, found {listed}")
    return sizes.pop() if sizes else None


def scaled(self: Grouped, operands: Sequence[AnyShape], result: AnyShape, at: int, *, grows: bool) -> None:
    """Rejects a result shape unless it is that of the operands with dimension `at` multiplied by the group
    size (divided by it if not `grows`).

    The group size may be known only at run time, since groups of replicas may include all partitions; then
    any whole factor is accepted.
    """
    sources, results = arrays(self, *operands), result.parts
    size = group_size(self, self.replica_groups)
    if len(sources) != len(results):
        self.reject("c1", f"{len(sources)} operands need as many results, found {show(result)}")
    for source, target in zip(sources, arrays(self, *results), strict=True):
        small, large = (source, target) if grows else (target, source)
        if not 0 <= at < source.rank or target.rank != source.rank or source.dtype is not target.dtype:
            self.reject("c2", f"{show(source)} cannot become {show(target)} by a change of dimension {at}")
        factor = large.dims[at] // small.dims[at] if small.dims[at] else 1
        wanted = [n * factor if d == at else n for d, n in enumerate(small.dims)]
        if list(large.dims) != wanted or not factor or factor % (size or 1):
            by = f"a multiple of the {size} of a group" if size else "a whole number"
            self.reject("c3", f"dimension {at} of {show(large)} must be that of {show(small)} times {by}")


def equal_addends(inst: Instruction[Combining]) -> int:
    """The number of times that a sum over a group adds the same broadcast constant: the number of members of
    the group, as in XLA, which recognises sums of broadcast scalars.

    1 for other operands, other computations than a sum, and groups of different sizes.
    """
    op = inst.op
    root, sizes = op.to_apply.root, op.replica_groups.sizes
    addends = [o.operands[0] for o in inst.operands if o.opcode == "broadcast"]
    if len(sizes) != 1 or root.opcode != "add" or set(root.operands) != set(op.to_apply.parameters):
        return 1
    if not isinstance(root.shape, Shape) or root.shape.dtype.is_pred:
        return 1
    scalars = [
        a for a in addends if isinstance(a.op, Constant) and a.shape.logical is Shape(root.shape.dtype)
    ]
    if len(scalars) != len(inst.operands):
        return 1
    return max(sizes)


class _Collective(Op):
    """The facts that all collectives share."""

    __slots__ = ()
    side_effect = True
    expensive = True
    mixes_floats = True


@dataclass(frozen=True)
class _InGroups(_Collective, Grouped):
    """The base of collectives that have groups and no `shape` attribute."""

    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)


class Combining(_Collective, Grouped):
    """A collective that combines the operands of the participants by `to_apply`."""

    to_apply: Computation


@dataclass(frozen=True)
class _AllReduce(Combining, _InGroups):
    """The base of all-reduce and all-reduce-start."""

    collective = CollectiveKind.SAME

    constrain_layout: bool = False
    use_global_device_ids: bool = False
    to_apply: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        shapes = arrays(self, *operands)
        if not shapes:
            reject("all_reduce_c1", f"{self.opcode}: at least one operand is wanted, found none")
        group_size(self, self.replica_groups, uniform=False)
        _check_global_ids(self, self.use_global_device_ids, self.channel_id, self.replica_groups)
        taken = len(self.to_apply.parameters)
        if taken not in (2, 2 * len(shapes)):
            self.reject("all_reduce_c5", f"to_apply takes 2 values, or 2 for each operand, found {taken}")
        if taken == 2 and not self.to_apply.root.shape.is_tuple:
            for s in shapes:
                accepts_scalars(self, self.to_apply, [s.dtype] * 2, [s.dtype])
        return joined(shapes)

    @classmethod
    def samples(cls):
        return [(cls(1, to_apply=sample_reducer("add", F32)), (Shape(F32, (3,)),))]


@op("all-reduce", operands="*operands")
class AllReduce(_AllReduce):
    """Combines the operands of all members of a group element by element with `to_apply`. Every member gets
    the result.
    """


@op("all-reduce-start", operands="*operands")
class AllReduceStart(_AllReduce):
    """Starts an all-reduce. Its value must not be read before all-reduce-done."""


def _check_global_ids(self: Op, globally: bool, channel: int | None, groups: ReplicaGroups) -> None:
    if globally and (channel is None or not groups):
        self.reject("ids", "use_global_device_ids needs a channel_id and replica_groups")


@op("all-reduce-done", operands="operand", ends=AllReduceStart)
class AllReduceDone(_Collective):
    """Waits for an all-reduce-start; the value is the result of the all-reduce."""

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the operand's shape."""
        return operand.logical

    examples = [example(Shape(F32, (3,)))]


@dataclass(frozen=True)
class _AllGather(_Collective, Resizing):
    """The base of all-gather and all-gather-start."""

    collective = CollectiveKind.SCALED

    shape: AnyShape
    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)
    constrain_layout: bool = False
    dimensions: tuple[int, ...] = attr(required=True, default=(0,))
    use_global_device_ids: bool = False


@op("all-gather", operands="*operands", reads_whole=True)
class AllGather(_AllGather):
    """Concatenates the operands of all members of a group along dimension `dimensions[0]`, in the order of
    the group. Every member gets the result.
    """

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape: that of the operands with dimension `dimensions[0]` multiplied by the
        size of a group.
        """
        _check_global_ids(self, self.use_global_device_ids, self.channel_id, self.replica_groups)
        scaled(self, operands, self.shape, self.dimensions[0], grows=True)
        return self.shape

    examples = [
        example(
            Shape(F32, (3, 2)), shape=Shape(F32, (3, 2)), channel_id=1, replica_groups=ReplicaGroups(((0,),))
        ),
        example(Shape(F32, (3,)), shape=Shape(F32, (3,))),
    ]


@op("all-gather-start", operands="*operands")
class AllGatherStart(_AllGather):
    """Starts an all-gather. The value is a tuple of the operands and the results."""

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape (operands, results, ...). The results must have the shape that
        all-gather requires.
        """
        parts = self.shape.parts
        if len(parts) < 2 or parts[0].logical is not joined(operands):
            self.reject("c0", f"(operands, results) are wanted, found {show(self.shape)}")
        scaled(self, operands, parts[1], self.dimensions[0], grows=True)
        return self.shape

    examples = [example(Shape(F32, (3,)), shape=TupleShape((Shape(F32, (3,)), Shape(F32, (3,)))))]


class _Done(_Collective):
    """The base of ops that wait for a start whose value is a tuple (operands, results, ...); the value is the
    results.
    """

    __slots__ = ()

    def infer(self, operand: AnyShape) -> AnyShape:
        return started(self, operand)

    examples = [example(TupleShape((Shape(F32, (3,)), Shape(F32, (3,)))))]


@op("all-gather-done", operands="operand", ends=AllGatherStart)
class AllGatherDone(_Done):
    """Waits for an all-gather-start; the value is the result of the all-gather."""


def started(self: Op, operand: AnyShape, at: int = 1) -> AnyShape:
    """The shape of element `at` of the tuple that a start returns; rejects an operand that is not such a
    tuple.
    """
    parts = operand.parts
    if not isinstance(operand, TupleShape) or len(parts) <= at:
        self.reject("c1", f"the tuple of a start is wanted, found {show(operand)}")
    return parts[at].logical


@op("reduce-scatter", operands="*operands", collective=CollectiveKind.SCALED, reads_whole=True)
class ReduceScatter(Combining, Resizing):
    """Combines the operands of all members of a group element by element with `to_apply`, and divides the
    result along dimension `dimensions[0]` into one part for each member: member i gets part i.
    """

    shape: AnyShape
    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)
    constrain_layout: bool = False
    use_global_device_ids: bool = False
    dimensions: tuple[int, ...] = attr(required=True, default=(0,))
    to_apply: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape: that of the operands with dimension `dimensions[0]` divided by the size
        of a group.
        """
        _check_global_ids(self, self.use_global_device_ids, self.channel_id, self.replica_groups)
        scaled(self, operands, self.shape, self.dimensions[0], grows=False)
        return self.shape

    @classmethod
    def samples(cls):
        """A group of one member, and one group of all participants."""
        add = sample_reducer("add", F32)
        return [(cls(Shape(F32, (6,)), 1, ReplicaGroups(((0,),)), to_apply=add), (Shape(F32, (6,)),)),
                (cls(Shape(F32, (3,)), to_apply=add), (Shape(F32, (3,)),))]  # fmt: skip


@op("all-to-all", operands="*operands", collective=CollectiveKind.EXCHANGED)
class AllToAll(_InGroups, Exchanging):
    """Every member of a group sends one part to each member: a slice of the operand along dimension
    `dimensions[0]`, or, without `dimensions`, one of the operands. The result holds the parts received, in
    the order of the group.
    """

    constrain_layout: bool = False
    dimensions: tuple[int, ...] | None = None

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operand's shape if `dimensions` is given (the group size must divide its size in that
        dimension), else a tuple of the operands' shapes.
        """
        shapes, size = arrays(self, *operands), group_size(self, self.replica_groups)
        if not shapes:
            self.reject("c1", "at least one operand is wanted, found none")
        if self.dimensions is None:
            return TupleShape([s.logical for s in shapes])
        shape, *more = shapes
        if more:
            self.reject("c3", f"with a dimension one operand is wanted, found {len(shapes)}")
        at = self.dimensions[0] if len(self.dimensions) == 1 else -1
        if not 0 <= at < shape.rank or (size and shape.dims[at] % size):
            self.reject("c2", f"dimension {at} of {show(shape)} must divide into groups of {size}")
        return joined(shapes)

    examples = [example(Shape(F32, (4,)), dimensions=(0,)), example(Shape(F32, (4,)))]


def rooted(self: Op, operands: Sequence[AnyShape], dynamic: bool) -> AnyShape:
    """The shape of the operands with data (a tuple if there are several). If `dynamic`, the last operand is
    s32[n]: for each of the n operands with data, the position of the root within its group.
    """
    shapes = arrays(self, *operands)
    data = shapes[:-1] if dynamic else shapes
    if not data:
        self.reject("c3", "at least one operand is wanted, found none")
    if dynamic and shapes[-1].logical is not Shape(S32, (len(data),)):
        wanted = f"s32[{len(data)}]"
        self.reject("c4", f"the last operand must be {wanted}, found {show(shapes[-1])}")
    return joined(data)


@op("collective-broadcast", operands="*operands", collective=CollectiveKind.ROOTED)
class CollectiveBroadcast(_InGroups):
    """Gives every member of a group the operands of the root of the group: its first member, or the one that
    the last operand selects if `has_dynamic_root`. Participants in no group get zeros.
    """

    has_dynamic_root: bool = False

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shape of the operands with data: all operands, without the last one if
        `has_dynamic_root`.
        """
        group_size(self, self.replica_groups)
        return rooted(self, operands, self.has_dynamic_root)

    examples = [example(Shape(F32, (4,)))]


@op("collective-reduce", operands="*operands", collective=CollectiveKind.ROOTED)
class CollectiveReduce(Combining, _InGroups):
    """Combines the operands of all members of a group element by element with `to_apply`. The root of the
    group gets the result, all others get zeros. The root is the first member, or the one that the last
    operand selects if `has_dynamic_root`.
    """

    has_dynamic_root: bool = False
    to_apply: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shape of the operands with data. `to_apply` must combine two scalars of the element
        type of each.
        """
        group_size(self, self.replica_groups)
        result = rooted(self, operands, self.has_dynamic_root)
        for s in arrays(self, *result.parts):
            accepts_scalars(self, self.to_apply, [s.dtype] * 2, [s.dtype])
        return result

    @classmethod
    def samples(cls):
        """A sum of f32[4] over all participants."""
        return [(cls(to_apply=sample_reducer("add", F32)), (Shape(F32, (4,)),))]


def check_pairs(self: Op, pairs: Sequence[tuple[int, int]], *, repeated: bool) -> None:
    """Rejects (source, target) pairs with negative participants, and unless `repeated`, pairs in which a
    source or a target occurs twice.
    """
    for side in zip(*pairs, strict=True):
        if min(side) < 0 or (not repeated and len(set(side)) != len(side)):
            self.reject("c1", f"sources must be different and at least 0, targets too, found {pairs}")


@op("collective-permute", operands="*operands", collective=CollectiveKind.PAIRED)
class CollectivePermute(_Collective, Paired):
    """Sends the operands of each source to its target. Participants that are not targets get zeros.

    With `slice_sizes` there are four operands: input, output, input offsets and output offsets. Then slices
    of the input of the source replace slices of the output in the target (`moved_slices`).
    """

    channel_id: int | None = None
    source_target_pairs: SourceTargetPairs = attr(required=True, default=SourceTargetPairs())
    slice_sizes: tuple[tuple[int, ...], ...] = attr(default=(), proto="dynamic_slice_sizes")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' shape; with `slice_sizes`, the shape of the second operand, the output."""
        in_place = bool(self.slice_sizes)
        if not operands or in_place and len(operands) != 4:
            message = f"one or more operands, or four with slice_sizes, are wanted, found {len(operands)}"
            self.reject("c2", message)
        check_pairs(self, self.source_target_pairs.pairs, repeated=in_place)
        return operands[1].logical if in_place else joined(arrays(self, *operands))

    examples = [example(Shape(F32, (4,)), channel_id=1, source_target_pairs=SourceTargetPairs(((0, 0),)))]


MovedSlice = tuple[Sequence[tuple[int, int]], LeafPath, LeafPath, tuple[int, ...]]
"""A slice that a collective-permute in place moves: (source, target) pairs, the path of its buffers in the
first two operands, the path of its offsets in the last two, and its sizes.
"""


def moved_slices(inst: Instruction[Paired]) -> list[MovedSlice]:
    """The slices that a collective-permute with `slice_sizes` moves. A source reads each slice of the input
    at its own input offset, and a target writes it into the output at its own output offset.

    Input and output are each an array or a tuple of arrays. Each array has one offset (a tuple of integers),
    or a tuple of n offsets for n slices. The list of pairs then consists of n lists of equal length, one for
    each slice. UnsupportedError if operands, sizes and pairs do not match.
    """
    given, output, *starts = (o.shape.logical for o in inst.operands)
    sizes, pairs = inst.op.slice_sizes, inst.op.source_target_pairs.pairs
    whole = isinstance(given, Shape)
    first = starts[0] if whole else next(iter(starts[0].parts), starts[0])
    several = any(isinstance(s, TupleShape) for s in first.parts)
    count = len(first.parts) if several else 1
    each = len(pairs) // count
    groups = [pairs[n * each : (n + 1) * each] for n in range(count)]
    fit = len(sizes) == count * len(given.parts) > 0 and len(pairs) == count * each
    fit &= all(len(set(side)) == each for group in groups for side in zip(*group, strict=True))
    index, found, offsets = next(starts[0].leaves(), given), [], []
    scalar = isinstance(index, Shape) and index.dtype.is_integer and not index.rank
    fit &= scalar and len(given.parts) == len(output.parts)
    for number, (a, b) in enumerate(zip(given.parts, output.parts, strict=False)):
        mine, at = sizes[number * count : (number + 1) * count], () if whole else (number,)
        fit &= all(_within(size, a, b) for size in mine)
        offset = TupleShape([index] * len(mine[0] if mine else ()))
        offsets.append(TupleShape([offset] * count) if several else offset)
        found += [(groups[n], at, (*at, n) if several else at, size) for n, size in enumerate(mine)]
    wanted = offsets[0] if whole and offsets else TupleShape(offsets)
    if not fit or any(s is not wanted for s in starts):
        raise UnsupportedError(
            f"{inst!r}: input and output are arrays or tuples of arrays, each with one offset or a tuple of "
            f"offsets; {len(sizes)} sizes and {len(pairs)} pairs do not fit the offsets {show(starts[0])}"
        )
    return found


def _within(sizes: Sequence[int], a: AnyShape, b: AnyShape) -> bool:
    """Whether `a` and `b` are arrays of the same element type, and a slice of `sizes` fits in each of
    them.
    """
    if not isinstance(a, Shape) or not isinstance(b, Shape) or not len(sizes) == a.rank == b.rank:
        return False
    return a.dtype is b.dtype and all(0 <= n <= min(d) for n, *d in zip(sizes, a.dims, b.dims, strict=True))


@op("collective-permute-start", operands="*operands", collective=CollectiveKind.PAIRED)
class CollectivePermuteStart(_Collective, Paired):
    """Starts a collective-permute. The value is a tuple of the operands, the results and contexts."""

    shape: AnyShape
    channel_id: int | None = None
    source_target_pairs: SourceTargetPairs = attr(required=True, default=SourceTargetPairs())
    slice_sizes: tuple[tuple[int, ...], ...] = attr(default=(), proto="dynamic_slice_sizes")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape (operands, results, ...): operands and results must have the shape of
        the operands, or with `slice_sizes`, those of the first and the second operand.
        """
        if not isinstance(self.shape, TupleShape) or len(self.shape.elements) < 2:
            found = show(self.shape)
            self.reject("c1", f"(operands, results, ...) are wanted, found {found}")
        check_pairs(self, self.source_target_pairs.pairs, repeated=bool(self.slice_sizes))
        given = operands[0] if len(operands) == 1 else TupleShape(operands)
        for number, part in enumerate(self.shape.elements[:2]):
            wanted = operands[number] if self.slice_sizes and len(operands) == 4 else given
            if part.logical is not wanted.logical:
                self.reject("c2", f"element {number} of the shape must be {show(wanted)}, found {show(part)}")
        return self.shape

    examples = [
        example(Shape(F32, (4,)), shape=TupleShape([Shape(F32, (4,))] * 2 + [Shape(U32)] * 2), channel_id=1,
                source_target_pairs=SourceTargetPairs(((0, 0),))),
    ]  # fmt: skip


@op("collective-permute-done", operands="operand", ends=CollectivePermuteStart)
class CollectivePermuteDone(_Done):
    """Waits for a collective-permute-start; the value is the result of the collective-permute."""


@op(
    "ragged-all-to-all",
    operands="input output input_offsets send_sizes output_offsets recv_sizes",
    collective=CollectiveKind.SAME,
    mixes_floats=False,
    reads_whole=True,
)
class RaggedAllToAll(_InGroups):
    """Every member of a group sends a slice of its input to each member, which writes it into its output. The
    last four operands hold the start, the size, the start in the receiver's output and the size received, for
    each member. Slices are ranges of dimension 0; elements of the output that no slice replaces are kept.
    """

    def infer(self, data: AnyShape, output: AnyShape, *numbers: AnyShape) -> AnyShape:
        """Returns the output's shape. Input and output may differ in dimension 0 only, and the last four
        operands must be integers of equal dims.
        """
        group_size(self, self.replica_groups)
        source, target = arrays(self, data, output)
        if not source.rank or source.dtype is not target.dtype or source.dims[1:] != target.dims[1:]:
            message = f"input and output may differ in dimension 0 only, found {show((source, target))}"
            self.reject("c2", message)
        offsets = arrays(self, *numbers)
        for number, s in enumerate(offsets):
            if not s.dtype.is_integer or s.rank not in (1, 2) or s.dims != offsets[0].dims:
                wanted = "integers of rank 1 or 2, all of the same sizes"
                self.reject("c1", f"operand {number + 2} must be {wanted}, found {show(s)}")
        return output.logical

    examples = [example(Shape(F32, (4,)), Shape(F32, (4,)), *[Shape(S32, (1,))] * 4)]


class _Id(Op):
    """The base of replica-id and partition-id."""

    __slots__ = ()

    def infer(self) -> AnyShape:
        return Shape(U32)

    examples = [example()]


@op("replica-id")
class ReplicaId(_Id):
    """The number of the replica that runs the program, as u32[]."""


@op("partition-id")
class PartitionId(_Id):
    """The number of the partition that runs the program, as u32[]."""
