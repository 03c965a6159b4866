"""The rules of fusion: functions that return the reason, as text, why an instruction is not put into a
kernel.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import field

import axla.hlo as hlo
from axla.analysis.regions import is_tiny, is_tiny_shape, is_tiny_store
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.ir.attributes import FusionKind
from axla.ir.graph import NO_EXTRA, Instruction
from axla.ir.op import Op
from axla.kernels.access import AccessKeys, chased, elements, hero_keys
from axla.kernels.kind import Form, is_costly
from axla.kernels.kinds import hero_form, kinds_of
from axla.kernels.loop import LOOP
from axla.target.machine import Limits


@dataclass(eq=False, slots=True)
class FusionCluster:
    """A kernel under construction. `members` maps its instructions to the access keys under which they are
    evaluated.
    """

    number: int
    form: Form
    limits: Limits
    members: dict[Instruction, dict[int, None]] = field(default_factory=dict)
    roots: dict[Instruction, None] = field(default_factory=dict)
    operands: dict[Instruction, None] = field(default_factory=dict)
    emitted: int = 0
    first: int = 0  # the lowest position of a member in the order
    last: int = 0  # the highest position of a member in the order
    gone: bool = False  # merged into another cluster

    @property
    def root(self) -> Instruction:
        """The root that was added first."""
        return next(iter(self.roots))


def why_never(inst: Instruction, limits: Limits) -> str | None:
    """The reason why an instruction never shares a kernel with others; None if it may."""
    op = inst.op
    cls = type(op)
    if cls is hlo.Parameter:
        return "it is a parameter"
    if cls is hlo.Constant:
        shape = inst.shape
        if not isinstance(shape, Shape) or shape.byte_size > limits.constant_bytes:
            return f"it is a constant of more than {limits.constant_bytes} bytes"
        return None
    if op.side_effect:
        return "it has a side effect"
    if inst.extra is not NO_EXTRA and inst.extra.control_predecessors:
        return "it has control predecessors"
    if not isinstance(inst.shape, Shape) and not _gives_several(inst):
        return "its result is a tuple"
    if cls is hlo.GetTupleElement:
        return None if _gives_several(inst.operands[0]) else "it is an element of a tuple"
    if is_tiny_store(inst, limits):
        return "it stores only a few elements"
    form = hero_form(inst, limits)
    if form is not None and form[0].alone:
        return f"a {form[0].name} is a kernel of its own"
    if op.elementwise or op.moves or _is_in_line(op) or any(not kind.alone for kind in kinds_of(cls)):
        return "it reads a tuple" if any(not isinstance(o.shape, Shape) for o in inst.operands) else None
    return f"{op.opcode} cannot be emitted inside of a kernel"


def _gives_several(inst: Instruction) -> bool:
    return any(kind.several for kind in kinds_of(type(inst.op)))


def _is_in_line(op: Op) -> bool:
    """Whether code for an op can be emitted inside of a loop over elements, without a call of a
    computation.
    """
    return op.in_line and not (op.control or op.passes_on or isinstance(op, hlo.Fusion))


def is_passed(op: Op) -> bool:
    """Whether an op only passes a value of its operand on; such an op never becomes a kernel."""
    return op.passes_on or isinstance(op, hlo.GetTupleElement)


def keys_in(
    keys: AccessKeys, inst: Instruction, cluster: FusionCluster, readers: Iterable[Instruction]
) -> dict[int, None]:
    """The access keys under which the instructions `readers` of a cluster would read `inst`."""
    found: dict[int, None] = {}
    for user in readers:
        mine = cluster.members[user]
        around = cluster.form != LOOP and hero_form(user, cluster.limits) == cluster.form
        special = hero_keys(keys, user, mine, cluster.form[0].operand_keys) if around else None
        for number, operand in enumerate(user.operands):
            if operand is not inst:
                continue
            if special is not None:
                found[special[number]] = None
            else:
                for key in mine:
                    found[keys.of_operand(user, number, key)] = None
    return found


def why_not_join(
    keys: AccessKeys,
    inst: Instruction,
    cluster: FusionCluster,
    readers: Iterable[Instruction],
    found: dict[int, None],
) -> str | None:
    """The reason why `inst`, which the instructions `readers` of a cluster read under the keys `found`,
    cannot join the cluster; None if it can.
    """
    limits = cluster.limits
    if len(cluster.members) >= limits.members:
        return f"the kernel has {limits.members} instructions, the limit"
    others = (o for o in dict.fromkeys(inst.operands) if o not in cluster.operands)
    new = sum(1 for o in others if not _is_inlined(o, limits))
    if len(cluster.operands) + new - (inst in cluster.operands) > limits.operands:
        return f"the kernel would have more than {limits.operands} operands"
    if cluster.emitted + len(found) > limits.emitted:
        return f"the kernel would compute more than {limits.emitted} values"
    return (
        _why_not_place(inst, readers, limits)
        or why_not_hero(keys, inst, cluster, found)
        or cluster.form[0].why_not_read(keys, inst, cluster.root, found)
        or _why_not_work(keys, inst, found, limits)
    )


def _is_inlined(inst: Instruction, limits: Limits) -> bool:
    return isinstance(inst.op, hlo.Constant | hlo.Iota) and why_never(inst, limits) is None


def _why_not_place(inst: Instruction, readers: Iterable[Instruction], limits: Limits) -> str | None:
    for user in readers:
        numbers = [n for n, o in enumerate(user.operands) if o is inst]
        for kind in kinds_of(type(user.op)):
            reason = kind.why_not_operand(user, numbers, inst)
            if reason is not None:
                return reason
        reason = LOOP[0].why_not_operand(user, numbers, inst)
        if reason is not None and hero_form(user, limits) is None:
            return reason
    return None


def why_not_hero(
    keys: AccessKeys, inst: Instruction, cluster: FusionCluster, found: dict[int, None]
) -> str | None:
    """The reason why `inst` cannot join `cluster` as its hero or, if it is no hero, because of its op. None
    if it can. `found` has the access keys under which the cluster reads it.
    """
    limits, form = cluster.limits, hero_form(inst, cluster.limits)
    if form is None:
        reasons = (kind.why_not_joined(inst, limits) for kind in kinds_of(type(inst.op)))
        return next((reason for reason in reasons if reason is not None), None)
    kind, other = form[0], cluster.form[0]
    if not kind.joins:
        return f"{inst.opcode} works in place, so it needs a kernel of its own"
    if cluster.form not in (LOOP, form):
        return f"a {other.name} kernel cannot contain a {kind.name}"
    if list(found) != [keys.root(inst)]:
        return f"its {inst.opcode} is not read once, element by element"
    if (reason := kind.why_not_followed(inst, cluster.members)) is not None:
        return reason
    return kind.why_not_results(form, inst, {elements(r.shape) for r in cluster.roots}, limits)


def _why_not_work(keys: AccessKeys, inst: Instruction, found: dict[int, None], limits: Limits) -> str | None:
    if inst.op.free or is_passed(inst.op) or isinstance(inst.op, hlo.Slice):
        return None  # reading a slice costs as much as reading its operand
    work = sum(keys.count[k] for k in found)
    size = max(1, elements(inst.shape))
    times = work / size
    if is_costly(inst) and times > limits.costly_work:
        return f"it is costly and would be computed {times:.3g} times"
    if times > limits.cheap_work:
        return f"it would be computed {times:.3g} times"
    if is_costly(inst) and len(found) > 2 or len(found) > 8:
        return f"its code would be emitted {len(found)} times"
    return None


def is_epilogue(inst: Instruction) -> bool:
    """Whether an instruction is best computed in the kernel of a dot, as it is elementwise and the dot's only
    user.
    """
    if not inst.op.elementwise:
        return False
    return any(_takes_followers(o) and list(o.users) == [inst] for o in map(chased, inst.operands))


def _takes_followers(inst: Instruction) -> bool:
    return any(kind.fusion is FusionKind.OUTPUT for kind in kinds_of(type(inst.op)))


def may_copy(inst: Instruction, clusters: int, limits: Limits) -> bool:
    """Whether each of several kernels that read an instruction may compute it again. `clusters` is their
    number.
    """
    if inst.op.free:
        return True
    if is_costly(inst) or clusters > 3 or hero_form(inst, limits) is not None or is_epilogue(inst):
        return False
    big = {o for o in inst.operands if not is_tiny_shape(o.shape, limits) and not o.op.free}
    return len(big) <= 1 and (inst.op.elementwise or inst.op.moves)


def is_register(inst: Instruction, row_fed: Container[Instruction], limits: Limits) -> bool:
    """Whether the entry function computes an instruction in registers, without a kernel."""
    if isinstance(inst.op, hlo.Constant | hlo.Iota | hlo.Broadcast):
        return False
    return is_tiny(inst, limits) and inst not in row_fed
