"""Plans of kernels that write in place, dynamic-update-slice and scatter: the result uses the operand's
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Self

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.hlo import Scatter
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of
from axla.kernels.access import AccessKeys, KernelBody, Keys, chased, elements, own_keys
from axla.kernels.kind import Kind, is_costly
from axla.kernels.loop import LoopPlan, loop_space
from axla.kernels.plan import KernelTask, Phase, Plan, fitting, widest
from axla.target.machine import Limits, Target

MOST_OWNERS = 1 << 14
"""The highest number of threads that each read all indices of a scatter."""
UPDATES_AT_ONCE = 4
"""The highest number of updates that are computed in one vector: to extract more would take longer."""
MOST_LOOKED_AT = 100
"""The highest number of instructions that are searched for reads of the updated array."""


@dataclass(frozen=True, slots=True)
class UpdatePlan(LoopPlan):
    """The plan of a dynamic-update-slice (`hero`) in place: a loop over the elements of the update, with
    sizes `dims`.
    """

    hero: str


@dataclass(frozen=True, slots=True)
class InPlaceKind(Kind):
    """The base of kinds whose kernels have one root, the hero, that updates operands in place. These operands
    are parameters of the kernel.
    """

    hero: Instruction

    joins = False
    one_result = True

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> Self | None:
        """The kernel, if its only root is an op of `heroes`; else None."""
        root = body.roots[0]
        return cls(root) if len(body.roots) == 1 and isinstance(root.op, cls.heroes) else None

    @classmethod
    def written(cls, hero: Instruction) -> tuple[Instruction, ...]:
        """The first operands, one for each result, which are updated in place."""
        return hero.operands[: hero.shape.leaf_count]

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why an operand that is updated is not computed in the kernel; None for other
        operands.
        """
        return "it is updated in place, so it must be in memory" if inst in cls.written(user) else None

    @classmethod
    def why_not_read(cls, keys: AccessKeys, inst: Instruction, hero: Instruction, found: Keys) -> str | None:
        """The reason why `inst` is not computed in the kernel: it reads what the kernel overwrites. None if
        it is. A fusion has each operand once, so that an array that is both updated and read could not be
        copied for it.
        """
        targets = {chased(o) for o in cls.written(hero)}
        others = (*inst.operands, *hero.operands[len(cls.written(hero)) :])
        disjoint = targets.isdisjoint(map(chased, others))
        return None if disjoint else "reads what the kernel updates in place"


class UpdateKind(InPlaceKind):
    """A dynamic-update-slice in place: it writes the update into the memory of operand 0.

    The update and the start indices may be computed in the kernel. Of operand 0 they may read at most the
    element that is being written.
    """

    name = "update"
    heroes = (hlo.DynamicUpdateSlice,)
    planned = UpdatePlan
    emission = "axla.codegen.emit.update:emit_update"

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the update."""
        return shape_of(self.hero.operands[1]).dims

    def __str__(self) -> str:
        return f"update {list(self.dims)}"

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys of the operands: the array has a key of its own, the update that of its elements; start
        indices are scalars.
        """
        whole, _, *starts = hero.operands
        return [
            keys.special(("whole", hero.id, 0), elements(whole.shape)),
            cls._update(keys, hero),
            *(keys.lin(elements(s.shape)) for s in starts),
        ]  # fmt: skip

    @classmethod
    def _update(cls, keys: AccessKeys, hero: Instruction) -> int:
        return keys.special(("update", hero.id), elements(hero.operands[1].shape))

    @classmethod
    def why_not_read(cls, keys: AccessKeys, inst: Instruction, hero: Instruction, found: Keys) -> str | None:
        """The reason why `inst` is not computed in the kernel; None if it is. The array may be read at an
        element right before it is overwritten, and nowhere else.
        """
        if cls._is_overwritten(inst, hero) and list(found) == [cls._update(keys, hero)]:
            return None  # each element is read right before it is written
        if inst is hero.operands[1] and cls._reads_others(hero):
            return "is computed from elements that the kernel updates in place"
        return super().why_not_read(keys, inst, hero, found)

    @classmethod
    def _is_overwritten(cls, inst: Instruction, hero: Instruction) -> bool:
        """Whether an instruction reads exactly the part of the array that is overwritten."""
        whole, update, *starts = hero.operands
        if isinstance(inst.op, hlo.DynamicSlice):
            return inst.operands == (whole, *starts) and inst.shape is update.shape
        if not isinstance(inst.op, hlo.Slice) or inst.operands != (whole,) or inst.shape is not update.shape:
            return False
        numbers = [n for s in starts if isinstance(s.op, hlo.Constant) for n in s.op.literal.array.flat]
        return numbers == list(inst.op.slice.starts) and set(inst.op.slice.strides) <= {1}

    @classmethod
    def _reads_others(cls, hero: Instruction) -> bool:
        """Whether elements of the update are computed from other elements of the updated array."""
        target, seen, left = chased(hero.operands[0]), set[Instruction](), [hero.operands[1]]
        while left and len(seen) < MOST_LOOKED_AT:
            inst = left.pop()
            if inst in seen:
                continue
            seen.add(inst)
            if target in map(chased, inst.operands) and not cls._is_overwritten(inst, hero):
                return True
            if inst.op.elementwise or inst.op.moves:
                left += inst.operands
        return False

    def plan(self, task: KernelTask, target: Target) -> UpdatePlan:
        """Divides the space of the update's elements."""
        space, phase = loop_space(task, self.dims, target)
        return UpdatePlan(self.dims, space, self.hero.name, phases=(phase,))


class ScatterGeometry:
    """The dimensions and sizes of a scatter: its attributes, applied to the shapes of its operands."""

    def __init__(self, inst: Instruction):
        self.op = op = op_of(inst, Scatter)
        self.count = (len(inst.operands) - 1) // 2
        self.operands = inst.operands[: self.count]
        self.indices = inst.operands[self.count]
        self.updates = inst.operands[self.count + 1 :]
        shape = shape_of(self.updates[0])
        self.update_dims = shape.dims
        self.dims = shape_of(self.operands[0]).dims
        self.batch_dims = [d for d in range(shape.rank) if d not in op.update_window_dims]
        self.batch_sizes = [shape.dims[d] for d in self.batch_dims]
        self.window_sizes = [shape.dims[d] for d in op.update_window_dims]
        self.left_out = op.dropped
        self.sizes = op.window_sizes(len(self.dims), shape.dims)  # of a window in each operand dimension

    @property
    def row(self) -> int:
        """The number of elements that are adjacent in a window, in its update and in the operand."""
        windows = self.op.update_window_dims
        last = len(self.dims) - 1
        contiguous = windows and windows[-1] == len(self.update_dims) - 1 and last not in self.left_out
        return self.window_sizes[-1] if contiguous else 1

    @property
    def batch_count(self) -> int:
        """The number of windows."""
        return prod(self.batch_sizes)

    @property
    def window_count(self) -> int:
        """The number of elements of a window."""
        return prod(self.window_sizes)

    @property
    def indexed(self) -> tuple[int, ...]:
        """The operand dimensions in which the start of a window depends on the indices or their position."""
        return (*self.op.scatter_dims_to_operand_dims, *self.op.input_batching_dims)

    @property
    def indexed_sizes(self) -> list[int]:
        """The sizes of the operands in the dimensions `indexed`."""
        return [self.dims[d] for d in self.indexed]

    @property
    def atomic(self) -> str:
        """The atomic operation that may replace the combiner, whatever the order; "" if there is none."""
        root = self.op.to_apply.root
        read = sorted(getattr(o.op, "parameter_number", -1) for o in root.operands)
        dtype = shape_of(self.operands[0]).dtype
        if self.count != 1 or read != [0, 1] or dtype.is_inexact or dtype.bits not in (32, 64):
            return ""
        found = _ATOMIC.get(root.op.opcode, "")
        return f"u{found}" if found in ("min", "max") and not dtype.is_signed else found


_ATOMIC = {"add": "add", "minimum": "min", "maximum": "max", "and": "and", "or": "or", "xor": "xor"}


class Sharing(Enum):
    """The ways in which the threads of all blocks divide a scatter, so that every element receives its
    updates in order.
    """

    ALONE = "one thread does the whole scatter"
    FREE = "a thread per element of the updates: no two write the same element, or they write atomically"
    OWNERS = "a thread per element of a window and per range of window starts; it reads all indices"
    WINDOW = "the threads of one block share each window; windows come one after the other"


@dataclass(frozen=True, slots=True)
class ScatterPlan(Plan):
    """The plan of a scatter in place. A window is processed in rows of `row` elements, `lanes` at a time.
    `beside`: the number of updates that are computed at once, before they are applied one by one.
    """

    hero: str
    row: int
    lanes: int
    sharing: Sharing = Sharing.ALONE
    owners: int = 1  # threads for each element of a window, which divide the starts of windows
    atomic: bool = False
    beside: int = 1


class ScatterKind(InPlaceKind):
    """A scatter in place: its first operands are parameters that share memory with the results."""

    name = "scatter"
    heroes = (Scatter,)
    planned = ScatterPlan
    emission = "axla.codegen.emit.update:emit_scatter"

    def __str__(self) -> str:
        return f"scatter of {len(self.hero.operands) // 2}"

    @classmethod
    def operand_keys(cls, keys: AccessKeys, hero: Instruction) -> list[int]:
        """The keys of the operands; all updates have the same one."""
        count = len(hero.operands) // 2
        *own, update = own_keys(keys, hero)[: count + 2]
        return [*own, *[update] * count]

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why `inst`, the operands `numbers` of the scatter `user`, is not computed in the kernel;
        None if it may be. Indices are not, unless they are free to compute, since they are read many times.
        """
        if len(user.operands) // 2 in numbers and not inst.op.free:
            return "indices of a scatter are read many times"
        return super().why_not_operand(user, numbers, inst)

    def plan(self, task: KernelTask, target: Target) -> ScatterPlan:
        """Plans a loop over all windows in order, or divides them if threads share steps."""
        geometry = ScatterGeometry(self.hero)
        if target.threads > 1 and geometry.batch_count * geometry.window_count:
            return self._shared(geometry, task.name, target)
        most = target.lanes(widest(task.computation))
        lanes, beside, phase = fitting(most, geometry.row), 1, Phase(task.name, 1, 1, False)
        if geometry.window_count == 1 and any(map(is_costly, task.computation.instructions)):
            beside = fitting(min(most, UPDATES_AT_ONCE), geometry.batch_count)
        return ScatterPlan(self.hero.name, geometry.row, lanes, beside=beside, phases=(phase,))

    def _shared(self, g: ScatterGeometry, name: str, target: Target) -> ScatterPlan:
        """The plan for thread blocks, whose threads divide the work in one of the ways of `Sharing`. `name`
        is the symbol of the phase.
        """
        owners, blocks = 1, 1
        # If so, two windows are either equal or disjoint.
        disjoint = all(g.sizes[d] == 1 for d in g.op.scatter_dims_to_operand_dims)
        apart = g.batch_count == 1 or g.op.unique_indices and disjoint
        if apart or g.atomic:
            sharing, work = Sharing.FREE, g.batch_count * g.window_count
        elif disjoint:
            owners = fitting(MOST_OWNERS // g.window_count, min(g.batch_count, prod(g.indexed_sizes)))
            sharing, work = Sharing.OWNERS, owners * g.window_count
        else:
            sharing, work = Sharing.WINDOW, g.window_count
        threads = fitting(target.threads, work)
        if sharing is not Sharing.WINDOW:
            blocks = -(-work // threads)
        phases = (Phase(name, blocks, 1, True, threads),)
        atomic = bool(g.atomic) and not apart
        return ScatterPlan(self.hero.name, 1, 1, sharing, owners, atomic, phases=phases)
