"""Programs cut by hand: computations of several partitions whose shapes are whole arrays outside of manual
regions (JAX's shard_map), and parts inside, become what one partition runs.

Outside, arrays are only handed on: from parameters and from region to region, into results. What else is
computed there takes a partitioner, which there is none of, unless all its operands are whole everywhere:
then every partition computes it.
"""

from __future__ import annotations

from dataclasses import replace

from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import Call, Constant, DynamicSlice, PartitionId, Reshape
from axla.ir.clone import called_first, inline
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.sharding import Sharding, Tiling, tiling
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.ir.typed import applies, shape_of
from axla.passes.expand.shardings import ENTER, LEAVE, SHARDING, Shardings, target_of

WHOLE_ARRAYS = "axla.whole_arrays"
"""Frontend attribute of a module of several partitions whose shapes are whole arrays; else they are parts."""
MANUAL = "manual"
"""A value inside of a region: a part, of which nothing needs to be known."""
State = Tiling | str | tuple["State", ...]


def has_whole_arrays(module: Module) -> bool:
    """Whether it is for a partitioner: it says so, or has manual regions."""
    return WHOLE_ARRAYS in dict(module.config.frontend_attributes) or bool(_marked(module))


def manual_partitioning(module: Module) -> None:
    """Gives parameters and results the shapes of one partition's parts; their shardings say which parts.
    A parameter without one is cut as the regions that it enters want it.

    UnsupportedError for what needs a partitioner.
    """
    _inline_marked(module, _marked(module))
    old, new = module.entry, _Partitioner(module).run()
    module.set_entry(new)
    module.remove_computation(old)
    frontend = [said for said in module.config.frontend_attributes if said[0] != WHOLE_ARRAYS]
    module.set_config(entry_layout=None, frontend_attributes=tuple(frontend))


def _marked(module: Module) -> set[Computation]:
    return {c for c in module.computations if any(map(_is_border, c.instructions))}


def _is_annotated(inst: Instruction) -> bool:
    """Whether a sharding is said of an instruction, in XLA's way or in Shardy's."""
    return inst.extra.sharding is not None or "xla.sdy.sharding" in dict(inst.extra.frontend_attributes)


def _is_border(inst: Instruction) -> bool:
    return target_of(inst) in (ENTER, LEAVE)


def _inline_marked(module: Module, marked: set[Computation]) -> None:
    """Writes out, in the entry, calls of functions with regions in them."""
    entry = module.entry
    while True:
        calls = [
            inst
            for inst in entry.instructions
            if applies(inst, Call) and not marked.isdisjoint(called_first(inst.op.to_apply))
        ]
        if not calls:
            return
        for call in calls:
            entry.replace(call, inline(call, call.op.to_apply, call.operands))
            entry.remove(call)


class _Partitioner:
    """Writes the entry again, for one partition."""

    def __init__(self, module: Module) -> None:
        self.old, self.partitions = module.entry, module.config.num_partitions
        self.said = Shardings(module).said
        self.new = module.add_computation(self.old.name)
        self.values: dict[Instruction, Instruction] = {}
        self.states: dict[Instruction, State] = {}  # of new instructions
        self.shardings: dict[Tiling, Sharding] = {}

    def run(self) -> Computation:
        for inst in post_order(self.old):
            new, state = self._written(inst, [self.values[o] for o in inst.operands])
            self.values[inst], self.states[new] = new, state
        root = self.values[self.old.root]
        self.new.set_root(root)
        state = self.states[root]
        parts = tuple(self._of_result(n, one) for n, one in enumerate(_leaves(state)))
        sharding = Sharding(parts=parts) if isinstance(state, tuple) else parts[0]
        self.new.set_extra(root, replace(root.extra, sharding=sharding))
        return self.new

    def _of_result(self, number: int, state: State) -> Sharding:
        said = self.old.root.extra.sharding
        if not isinstance(state, Tiling):
            raise VerifyError(
                f"{self.old.root!r}: result {number} is of a manual region, and not put together"
            )
        wanted = (said.parts or [said])[number] if said is not None else None
        if wanted is not None and tiling(wanted, len(state.counts), self.partitions) != state:
            raise UnsupportedError(
                f"{self.old.root!r}: result {number} is wanted cut in another way; there is no partitioner"
            )
        return self.shardings.get(state, Sharding("replicated"))

    def _written(self, inst: Instruction, operands: list[Instruction]) -> tuple[Instruction, State]:
        states, target = [self.states[o] for o in operands], target_of(inst)
        if applies(inst, Parameter):
            return self._parameter(inst)
        if target == SHARDING and states[0] != MANUAL:
            return self._annotated(inst, operands[0], states[0])
        if target == ENTER:
            if operands[0].shape.logical is not inst.shape.logical:
                raise VerifyError(f"{inst!r}: its part of the operand is {operands[0].shape.logical}")
            return operands[0], MANUAL
        if target == LEAVE:
            return operands[0], self._joined(inst, shape_of(operands[0]))
        if isinstance(inst.op, Tuple):
            return self._copy(inst, operands, None), tuple(states)
        if isinstance(inst.op, GetTupleElement) and isinstance(states[0], tuple):
            return self._copy(inst, operands, None), states[0][inst.op.index]
        kinds = {leaf for state in states for leaf in _leaves(state)}
        cut = [kind for kind in kinds if isinstance(kind, Tiling) and not kind.is_whole]
        if cut:
            raise UnsupportedError(
                f"{inst!r}: it stands outside of manual regions and reads arrays that are cut over "
                f"{self.partitions} partitions: there is no partitioner; on one device it runs whole"
            )
        return self._copy(inst, operands, inst.shape), MANUAL if MANUAL in kinds else self._whole(inst.shape)

    def _copy(self, inst: Instruction, operands: list[Instruction], shape: AnyShape | None) -> Instruction:
        before = tuple(self.values[p] for p in inst.extra.control_predecessors)
        extra = replace(inst.extra, control_predecessors=before) if before else inst.extra
        return self.new.add(inst.op, operands, shape, name=inst.name, extra=extra)

    def _parameter(self, inst: Instruction[Parameter]) -> tuple[Instruction, State]:
        if not isinstance(inst.shape, Shape):
            return self._copy(inst, [], inst.shape), self._whole(inst.shape)
        state = self._tiling(inst) if _is_annotated(inst) else self._of_users(inst)
        shape = inst.shape if state.is_whole else Shape(inst.shape.dtype, _part_of(inst, state))
        extra = replace(inst.extra, sharding=self.shardings.get(state))
        return self.new.add(
            Parameter(shape, inst.op.parameter_number), (), name=inst.name, extra=extra
        ), state

    def _annotated(self, inst: Instruction, operand: Instruction, state: State) -> tuple[Instruction, State]:
        """A value with a sharding that it has already; a whole one is cut."""
        wanted = self._tiling(inst)
        if state == wanted:
            return operand, state
        if not isinstance(state, Tiling) or not state.is_whole:
            raise UnsupportedError(f"{inst!r}: its operand is cut in another way; there is no partitioner")
        return self._cut(operand, wanted), wanted

    def _of_users(self, inst: Instruction) -> Tiling:
        """The sharding that all users of a parameter want, which XLA would give it; else it is whole."""
        wanted = {self._tiling(user) if target_of(user) == SHARDING else None for user in inst.users}
        found = wanted.pop() if len(wanted) == 1 else None
        return found or self._tiling(inst)

    def _joined(self, inst: Instruction, part: Shape) -> Tiling:
        """The sharding of an array that is put together; VerifyError where such parts do not make it."""
        found = self._tiling(inst)
        if part.dims != _part_of(inst, found):
            raise VerifyError(
                f"{inst!r}: parts of {part.logical} are {_part_of(inst, found)} of it by {found.counts}"
            )
        return found

    def _cut(self, whole: Instruction, wanted: Tiling) -> Instruction:
        """The part of a whole array that this partition has."""
        shape, size = shape_of(whole), _part_of(whole, wanted)
        parts = [wanted.part(shape.dims, partition) for partition in range(self.partitions)]
        number, starts = self.new.add(PartitionId()), []
        for column in zip(*parts, strict=True):
            table = Literal.of([part.start for part in column], S32)
            row = DynamicSlice((1,))(self.new.add(Constant(table.shape, table)), number)
            starts.append(Reshape(Shape(S32))(row))
        return DynamicSlice(size)(whole, *starts)

    def _tiling(self, inst: Instruction) -> Tiling:
        """What is said of an instruction, as XLA says it or as Shardy does."""
        sharding = self.said(inst)
        rank = inst.shape.rank if isinstance(inst.shape, Shape) else 0
        found = tiling(sharding, rank, self.partitions)
        if sharding is not None:
            self.shardings.setdefault(found, sharding)
        return found

    def _whole(self, shape: AnyShape) -> State:
        if isinstance(shape, TupleShape):
            return tuple(map(self._whole, shape.elements))
        return tiling(None, shape.rank if isinstance(shape, Shape) else 0, self.partitions)


def _part_of(inst: Instruction, cut: Tiling) -> tuple[int, ...]:
    """The sizes of the parts of an array; UnsupportedError where they differ."""
    dims = shape_of(inst).dims
    for size, count in zip(dims, cut.counts, strict=True):
        if size % count:
            raise UnsupportedError(f"{inst!r}: a size {size} in {count} parts of different sizes")
    return tuple(size // count for size, count in zip(dims, cut.counts, strict=True))


def _leaves(state: State) -> list[Tiling | str]:
    if not isinstance(state, tuple):
        return [state]
    return [leaf for part in state for leaf in _leaves(part)]
