"""Finds the shardings of all values of a program for several partitions: from the shardings given for some
values, it derives those of others (`passing`).
"""

from __future__ import annotations

from collections import deque
from typing import TypeGuard

from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.hlo import AddDependency, Conditional, OptBarrier, While
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.sharding import MeshTiles, Sharding, Tiles
from axla.ir.structure import GetTupleElement, Tuple
from axla.ir.traverse import post_order
from axla.passes.expand.cuts import cut_of
from axla.passes.expand.factors import factors_of, same_factors
from axla.passes.expand.flat import flat_copy
from axla.passes.expand.grid import PrimeMesh
from axla.passes.expand.passing import LEVELS, KnownSharding, ShardingRelation, direction_of, pass_on
from axla.passes.expand.shardings import ENTER, SHARDING, Shardings, target_of


class Propagation:
    """The shardings of the values of a program.

    `module` is a flat copy of the program; `values` has an entry for each leaf of an instruction. `arguments`
    and `results` are the shardings of the entry's arguments and results, None for one that is not an array or
    whose sharding is unknown. `running`: the entry and the computations that loops and branches run, callers
    first; `receivers`: for each of these, the values that its results become.
    """

    def __init__(self, module: Module) -> None:
        self.partitions, self._shardings = module.config.num_partitions, Shardings(module)
        self.module = flat_copy(module)
        self.values: dict[Instruction, list[KnownSharding]] = {}
        self.running: list[Computation] = []
        self.receivers: dict[Computation, list[KnownSharding]] = {}
        self.steps: list[ShardingRelation] = []
        self._collect()
        root = self.module.entry.root
        leaves, said = self.values[root], self._shardings.told(root)
        parts = said.of_leaves(len(leaves)).parts if said is not None else (Sharding(),) * len(leaves)
        pairs = [*zip(leaves, parts, strict=True)]
        results = [value if part == Sharding() else _new_value(value.shape) for value, part in pairs]
        self.grid = self._hear([*zip(results, parts, strict=True)])
        first = len(self.steps)
        for value, result in zip(leaves, results, strict=True):
            if value is not result:
                self._hand_on([value], result)
        self.receivers[self.module.entry] = results
        self.steps = self.steps[first:] + self.steps[:first]
        if self.grid is not None:
            for level in range(LEVELS):
                self._propagate(self.grid, level)
        self.arguments = [self._found(self.values[p][0]) for p in self.module.entry.parameters]
        self.results = [self._found(value) for value in results]

    @property
    def has_regions(self) -> bool:
        """Whether parts of the program are manual regions, written for one partition."""
        return any(map(self._shardings.is_of_a_partition, self.values))

    @property
    def has_sums(self) -> bool:
        """Whether arguments or results are partial sums, which do not exist on a single device."""
        return any(one.is_unreduced for one in (*self.arguments, *self.results) if one is not None)

    def sharding_of(self, inst: Instruction) -> Sharding | None:
        """The sharding of an array of the flat copy; None if it is unknown."""
        return self._found(self.values[inst][0])

    def _found(self, value: KnownSharding) -> Sharding | None:
        """The sharding of a value, cut only as far as parts have equal sizes; None if it is unknown."""
        shape = value.shape
        if not isinstance(shape, Shape):
            return None
        if value.foreign is not None:
            try:
                cut = cut_of(value.foreign, shape.rank, self.partitions)
            except UnsupportedError:
                return None
            return value.foreign if cut is None or cut.divides(shape) else None
        if self.grid is None or not (value.is_said or any(value.dims)):
            return None
        pairs = zip(value.dims, shape.dims, strict=True)
        dims = [self.grid.parted(axes, size) for axes, size in pairs]
        return self.grid.sharding(dims, value.said.unreduced if value.said is not None else ())

    # Values, and relations between them

    def _collect(self) -> None:
        pending, loops = [self.module.entry], []
        while pending:
            self.running.append(pending.pop())
            for inst in post_order(self.running[-1]):
                op, given = inst.op, [self.values[o] for o in inst.operands]
                if inst in self.values:  # a parameter, which got its values from the caller
                    continue
                found = self.values[inst] = _structural(inst, given) or [
                    _new_value(leaf) for leaf in inst.shape.leaves()
                ]
                if isinstance(op, While):
                    self.values[op.condition.parameters[0]] = self.values[op.body.parameters[0]] = found
                    loops.append((given[:1], [op.body], found))
                    pending += op.computations()
                elif isinstance(op, Conditional):
                    for called, values in zip(op.branches, given[1:], strict=True):
                        self.values[called.parameters[0]] = values
                    loops.append(([], op.branches, found))
                    pending += op.branches
                elif isinstance(op, OptBarrier):
                    loops.append((given, [], found))
                elif (factors := factors_of(inst)) is not None:
                    values = [value for operand in given for value in operand]
                    if len(values) == len(given):
                        self._add(
                            ShardingRelation([*values, *found], len(values), factors, inst, _is_shared(inst))
                        )
        for given, called, found in loops:
            self.receivers |= dict.fromkeys(called, found)
            sources = [*given, *(self.values[computation.root] for computation in called)]
            for number, value in enumerate(found):
                self._hand_on([values[number] for values in sources], value)

    def _hand_on(self, sources: list[KnownSharding], value: KnownSharding) -> None:
        if isinstance(value.shape, Shape):
            factors = same_factors(value.shape, len(sources) + 1)
            self._add(ShardingRelation([*sources, value], len(sources), factors))

    def _add(self, step: ShardingRelation) -> None:
        self.steps.append(step)
        for value in step.values:
            value.steps.append(step)

    # Shardings given by the program

    def _hear(self, results: list[tuple[KnownSharding, Sharding]]) -> PrimeMesh | None:
        """Reads the shardings that the program gives to values, and those of `results`. Returns the mesh,
        which is that of the first such sharding with a mesh; None if there is none.
        """
        single = [
            inst for inst, values in self.values.items() if len(values) == 1 and target_of(inst) != ENTER
        ]
        told = {inst: self._shardings.told(inst) for inst in single}
        said = [
            (self.values[inst][0], one) for inst, one in told.items() if one is not None and not one.parts
        ]
        every = [*said, *results]
        grid = next((PrimeMesh(what) for _, one in every if _is_mesh(what := one.what)), None)
        for value, sharding in every:
            _say(value, sharding, grid)
        for inst, sharding in told.items():
            if target_of(inst) != SHARDING or sharding is None or len(inst.operands) != 1:
                continue
            (operand,) = inst.operands
            value = self.values[operand][0]
            others = {told.get(user) for user in operand.users if target_of(user) == SHARDING}
            if operand in told and not value.is_said and len(others) == 1 and not _is_handed_on(value):
                _say(value, sharding, grid, if_closed=True)
        return grid

    # Propagation

    def _propagate(self, grid: PrimeMesh, level: int) -> None:
        queue = deque(self.steps)
        queued = set(queue)
        while queue:
            step = queue.popleft()
            queued.remove(step)
            directions = tuple(direction_of(step, kind, level) for kind in step.factors.kinds)
            if step.settled == directions:
                continue
            step.settled = directions
            for value in pass_on(step, directions, grid):
                for other in value.steps:
                    if other is not step:
                        other.settled = ()
                        if other not in queued:
                            queued.add(other)
                            queue.append(other)


def _is_mesh(what: object) -> TypeGuard[Tiles | MeshTiles]:
    return isinstance(what, Tiles) or (isinstance(what, MeshTiles) and bool(what.mesh.axes))


def _new_value(shape: AnyShape) -> KnownSharding:
    return KnownSharding(shape, [()] * (shape.rank if isinstance(shape, Shape) else 0))


def _structural(inst: Instruction, given: list[list[KnownSharding]]) -> list[KnownSharding] | None:
    """The values that an instruction only passes on (tuples, elements), out of `given`, the values of its
    operands. None for an instruction that computes values.
    """
    op = inst.op
    if isinstance(op, Tuple):
        return [value for values in given for value in values]
    if isinstance(op, GetTupleElement):
        sizes = [len([*part.leaves()]) for part in inst.operands[0].shape.parts]
        begin = sum(sizes[: op.index])
        return given[0][begin : begin + sizes[op.index]]
    return given[0] if isinstance(op, AddDependency) else None


def _is_shared(inst: Instruction) -> bool:
    def uses(value: Instruction) -> int:
        return sum(user.operands.count(value) for user in value.users) + (value is value.computation.root)

    return any(isinstance(o.shape, Shape) and o.shape.rank > 0 and uses(o) > 1 for o in inst.operands)


def _is_handed_on(value: KnownSharding) -> bool:
    """Whether a value is carried by a loop or comes from a branch."""
    return any(step.inst is None for step in value.steps)


def _say(value: KnownSharding, sharding: Sharding, grid: PrimeMesh | None, if_closed: bool = False) -> None:
    if not isinstance(value.shape, Shape) or sharding.what in ("", "manual", "unknown"):
        return
    found = grid.cutting(sharding, value.shape.rank) if grid is not None else None
    if found is None:
        value.foreign = sharding
    elif not (if_closed and any(found.is_open)):
        value.said, value.dims = found, list(found.dims)
