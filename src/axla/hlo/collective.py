"""for other operands and combiners, since contributions of members that do not exist are unknown. Like XLA,
it recognises broadcast scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, S32, U32
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
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
    """Rejects results unless they are the operands with dimension `at` multiplied (or divided) by the group
    size.

    The group size may be known at run time only: groups of replicas may include all partitions.
    """
    sources, results = arrays(self, *operands), result.parts
    size = group_size(self, self.replica_groups)
    if len(sources) != len(results):
        self.reject("c1", f"{len(sources)} operands give as many results, found {show(result)}")
    for source, target in zip(sources, arrays(self, *results), strict=True):
        small, large = (source, target) if grows else (target, source)
        if not 0 <= at < source.rank or target.rank != source.rank or source.dtype is not target.dtype:
            self.reject("c2", f"{show(source)} cannot give {show(target)} along dimension {at}")
        factor = large.dims[at] // small.dims[at] if small.dims[at] else 1
        wanted = [n * factor if d == at else n for d, n in enumerate(small.dims)]
        if list(large.dims) != wanted or not factor or factor % (size or 1):
            by = f"a multiple of the {size} of a group" if size else "a whole number"
            self.reject("c3", f"dimension {at} of {show(large)} must be that of {show(small)} times {by}")


def equal_addends(inst: Instruction[Combining]) -> int:
    """How often a reduction adds the same constant: once for each member of the group, as in XLA."""
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
    """Facts of all collectives."""

    __slots__ = ()
    side_effect = True
    expensive = True
    mixes_floats = True


@dataclass(frozen=True)
class _InGroups(_Collective, Grouped):
    """Collectives without a shape attribute."""

    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)


class Combining(_Collective, Grouped):
    """Collectives that combine the operands of the participants."""

    to_apply: Computation


@dataclass(frozen=True)
class _AllReduce(Combining, _InGroups):
    """An all-reduce, or the start of one."""

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
    """The operands of all members of a group, combined by `to_apply`; every member gets the result."""


@op("all-reduce-start", operands="*operands")
class AllReduceStart(_AllReduce):
    """Starts an all-reduce; the result is available after all-reduce-done."""


def _check_global_ids(self: Op, globally: bool, channel: int | None, groups: ReplicaGroups) -> None:
    if globally and (channel is None or not groups):
        self.reject("ids", "use_global_device_ids needs a channel_id and replica_groups")


@op("all-reduce-done", operands="operand", ends=AllReduceStart)
class AllReduceDone(_Collective):
    """The result of an all-reduce-start."""

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the operand's shape."""
        return operand.logical

    examples = [example(Shape(F32, (3,)))]


@dataclass(frozen=True)
class _AllGather(_Collective, Resizing):
    """An all-gather, or the start of one."""

    collective = CollectiveKind.SCALED

    shape: AnyShape
    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)
    constrain_layout: bool = False
    dimensions: tuple[int, ...] = attr(required=True, default=(0,))
    use_global_device_ids: bool = False


@op("all-gather", operands="*operands", reads_whole=True)
class AllGather(_AllGather):
    """The operands of all members of a group, concatenated along the dimension."""

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape; along the dimension it must be that of the operands times the group's
        size.
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
    """Starts an all-gather: the value is a tuple of operand and result."""

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape (operands, results, ...), whose results are checked as in all-gather."""
        parts = self.shape.parts
        if len(parts) < 2 or parts[0].logical is not joined(operands):
            self.reject("c0", f"(operands, results) are wanted, found {show(self.shape)}")
        scaled(self, operands, parts[1], self.dimensions[0], grows=True)
        return self.shape

    examples = [example(Shape(F32, (3,)), shape=TupleShape((Shape(F32, (3,)), Shape(F32, (3,)))))]


class _Done(_Collective):
    """The result of a start whose value is operands and results."""

    __slots__ = ()

    def infer(self, operand: AnyShape) -> AnyShape:
        return started(self, operand)

    examples = [example(TupleShape((Shape(F32, (3,)), Shape(F32, (3,)))))]


@op("all-gather-done", operands="operand", ends=AllGatherStart)
class AllGatherDone(_Done):
    """The result of an all-gather-start."""


def started(self: Op, operand: AnyShape, at: int = 1) -> AnyShape:
    """Element `at` of the value of a start."""
    parts = operand.parts
    if not isinstance(operand, TupleShape) or len(parts) <= at:
        self.reject("c1", f"the tuple of a start is wanted, found {show(operand)}")
    return parts[at].logical


@op("reduce-scatter", operands="*operands", collective=CollectiveKind.SCALED, reads_whole=True)
class ReduceScatter(Combining, Resizing):
    """The operands of all members combined by `to_apply`; each member gets its part along the dimension."""

    shape: AnyShape
    channel_id: int | None = None
    replica_groups: ReplicaGroups = attr(always=True, default=ALL)
    constrain_layout: bool = False
    use_global_device_ids: bool = False
    dimensions: tuple[int, ...] = attr(required=True, default=(0,))
    to_apply: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape; along the dimension it must be that of the operands by the group's
        size.
        """
        _check_global_ids(self, self.use_global_device_ids, self.channel_id, self.replica_groups)
        scaled(self, operands, self.shape, self.dimensions[0], grows=False)
        return self.shape

    @classmethod
    def samples(cls):
        """A group of one, and all participants in one group."""
        add = sample_reducer("add", F32)
        return [(cls(Shape(F32, (6,)), 1, ReplicaGroups(((0,),)), to_apply=add), (Shape(F32, (6,)),)),
                (cls(Shape(F32, (3,)), to_apply=add), (Shape(F32, (3,)),))]  # fmt: skip


@op("all-to-all", operands="*operands", collective=CollectiveKind.EXCHANGED)
class AllToAll(_InGroups, Exchanging):
    """Every member sends a part to every other: a part along the dimension, or one of the operands."""

    constrain_layout: bool = False
    dimensions: tuple[int, ...] | None = None

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns a tuple of the operands' shapes, or with a dimension, which groups must divide, the
        operand's.
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
    """The operands with data; with a dynamic root the last operand has the position of the root in the group
    for each of the others.
    """
    shapes = arrays(self, *operands)
    data = shapes[:-1] if dynamic else shapes
    if not data:
        self.reject("c3", "at least one operand is wanted, found none")
    if dynamic and shapes[-1].logical is not Shape(S32, (len(data),)):
        wanted = f"s32[{len(data)}]"
        self.reject("c4", f"{wanted} is wanted as last, found {show(shapes[-1])}")
    return joined(data)


@op("collective-broadcast", operands="*operands", collective=CollectiveKind.ROOTED)
class CollectiveBroadcast(_InGroups):
    """Every member of a group gets the operands of its root, the first member; participants in no group get
    zeros.
    """

    has_dynamic_root: bool = False

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' shape."""
        group_size(self, self.replica_groups)
        return rooted(self, operands, self.has_dynamic_root)

    examples = [example(Shape(F32, (4,)))]


@op("collective-reduce", operands="*operands", collective=CollectiveKind.ROOTED)
class CollectiveReduce(Combining, _InGroups):
    """The operands of all members of a group, combined by `to_apply`, for its root; the others get zeros."""

    has_dynamic_root: bool = False
    to_apply: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' shape; `to_apply` must combine scalars of each of their types."""
        group_size(self, self.replica_groups)
        result = rooted(self, operands, self.has_dynamic_root)
        for s in arrays(self, *result.parts):
            accepts_scalars(self, self.to_apply, [s.dtype] * 2, [s.dtype])
        return result

    @classmethod
    def samples(cls):
        """A sum of four floats over all participants."""
        return [(cls(to_apply=sample_reducer("add", F32)), (Shape(F32, (4,)),))]


def check_pairs(self: Op, pairs: Sequence[tuple[int, int]], *, repeated: bool) -> None:
    """Rejects members that do not exist and, unless `repeated`, a source or target that occurs twice."""
    for side in zip(*pairs, strict=True):
        if min(side) < 0 or (not repeated and len(set(side)) != len(side)):
            self.reject("c1", f"sources must be different and at least 0, targets too, found {pairs}")


@op("collective-permute", operands="*operands", collective=CollectiveKind.PAIRED)
class CollectivePermute(_Collective, Paired):
    """Each source's operands go to its target; participants that are not targets get zeros.

    With `slice_sizes` the operands are input, output and their offsets: slices of the output are replaced in
    targets (`moved_slices`).
    """

    channel_id: int | None = None
    source_target_pairs: SourceTargetPairs = attr(required=True, default=SourceTargetPairs())
    slice_sizes: tuple[tuple[int, ...], ...] = attr(default=(), proto="dynamic_slice_sizes")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the operands' shape, or that of the output in the form with slice_sizes."""
        in_place = bool(self.slice_sizes)
        if not operands or in_place and len(operands) != 4:
            message = f"operands, or four of them with slice_sizes, are wanted, found {len(operands)}"
            self.reject("c2", message)
        check_pairs(self, self.source_target_pairs.pairs, repeated=in_place)
        return operands[1].logical if in_place else joined(arrays(self, *operands))

    examples = [example(Shape(F32, (4,)), channel_id=1, source_target_pairs=SourceTargetPairs(((0, 0),)))]


LeafPath = tuple[int, ...]
"""Indices of tuples in each other."""
MovedSlice = tuple[Sequence[tuple[int, int]], LeafPath, LeafPath, tuple[int, ...]]
"""Between which members a permutation in place moves a slice, where its buffers and offsets lie in the
operands, and its sizes.
"""


def moved_slices(inst: Instruction[Paired]) -> list[MovedSlice]:
    """The slices of a collective-permute in place. A source reads each slice at its own input offset, and a
    target writes it at its own output offset.

    Buffers are an array or a tuple of arrays; each has one offset (a tuple of integers) or a tuple of them.
    There is a list of pairs for each slice of a buffer, one after the other. UnsupportedError where operands,
    sizes and pairs do not fit together.
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
            f"{inst!r}: slices are moved between arrays, or tuples of them, each at one offset or a tuple of "
            f"as many; found {len(sizes)} sizes and {len(pairs)} pairs for the offsets {show(starts[0])}"
        )
    return found


def _within(sizes: Sequence[int], a: AnyShape, b: AnyShape) -> bool:
    """Whether a slice of these sizes fits in both of two arrays with the same element type."""
    if not isinstance(a, Shape) or not isinstance(b, Shape) or not len(sizes) == a.rank == b.rank:
        return False
    return a.dtype is b.dtype and all(0 <= n <= min(d) for n, *d in zip(sizes, a.dims, b.dims, strict=True))


@op("collective-permute-start", operands="*operands", collective=CollectiveKind.PAIRED)
class CollectivePermuteStart(_Collective, Paired):
    """Starts a collective-permute: the value is a tuple of operands, results and contexts."""

    shape: AnyShape
    channel_id: int | None = None
    source_target_pairs: SourceTargetPairs = attr(required=True, default=SourceTargetPairs())
    slice_sizes: tuple[tuple[int, ...], ...] = attr(default=(), proto="dynamic_slice_sizes")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape (operands, results, ...), both of which must have the
        operands' shape.
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
    """The result of a collective-permute-start."""


@op(
    "ragged-all-to-all",
    operands="input output input_offsets send_sizes output_offsets recv_sizes",
    collective=CollectiveKind.SAME,
    mixes_floats=False,
    reads_whole=True,
)
class RaggedAllToAll(_InGroups):
    """Slices of different lengths of the input go to places in the outputs of the members."""

    def infer(self, data: AnyShape, output: AnyShape, *numbers: AnyShape) -> AnyShape:
        """Returns the output's shape; input and output may differ in their first size only."""
        group_size(self, self.replica_groups)
        source, target = arrays(self, data, output)
        if not source.rank or source.dtype is not target.dtype or source.dims[1:] != target.dims[1:]:
            message = f"input and output may differ in the first size only, found {show((source, target))}"
            self.reject("c2", message)
        offsets = arrays(self, *numbers)
        for number, s in enumerate(offsets):
            if not s.dtype.is_integer or s.rank not in (1, 2) or s.dims != offsets[0].dims:
                wanted = "integers of rank 1 or 2, all of the same sizes"
                self.reject("c1", f"operand {number + 2} must be {wanted}, found {show(s)}")
        return output.logical

    examples = [example(Shape(F32, (4,)), Shape(F32, (4,)), *[Shape(S32, (1,))] * 4)]


class _Id(Op):
    """The number of the current replica or partition."""

    __slots__ = ()

    def infer(self) -> AnyShape:
        return Shape(U32)

    examples = [example()]


@op("replica-id")
class ReplicaId(_Id):
    """The number of the current replica."""


@op("partition-id")
class PartitionId(_Id):
    """The number of the current partition."""
