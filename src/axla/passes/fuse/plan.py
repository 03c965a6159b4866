"""Decides which instructions become one kernel, without changing anything.

Instructions are visited from the results back to the parameters. An instruction whose users are all in
kernels is added to these kernels, if the rules allow. One that is needed elsewhere too may become an
additional root of a kernel that reads it. All others start a kernel. At the end, kernels that read the same
large array in the same way are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from axla.analysis.regions import crowded, is_tiny, too_long
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.hlo import Constant, Copy, GetTupleElement, Reshape
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import post_order
from axla.ir.typed import shape_of
from axla.kernels.access import AccessKeys, elements
from axla.kernels.kind import Form
from axla.kernels.kinds import hero_form
from axla.kernels.loop import LOOP
from axla.passes.fuse.rules import (
    FusionCluster,
    is_epilogue,
    is_passed,
    is_register,
    keys_in,
    may_copy,
    why_never,
    why_not_join,
)  # fmt: skip
from axla.passes.rewrite import control_bound
from axla.passes.simplify.inline import control_successors
from axla.target.machine import Limits

Readers = dict[FusionCluster, list[Instruction]]  # kernel -> its members that read a value

ATTEMPTS = 3  # kernels that are asked to take a further root
REACH = 64  # kernels looked at; a longer search would make the pass quadratic, and rarely ends well
SEARCH = 10  # the same for all searches of a computation together, per instruction
SPAN = 2000  # positions between the results of one kernel: further apart they would only keep memory in use


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """A producer and the root of a kernel that reads it: fused (reason None), or the reason why not."""

    producer: Instruction
    consumer: Instruction
    reason: str | None

    def __str__(self) -> str:
        return f"%{self.producer.name} into %{self.consumer.name}: {self.reason or 'fused'}"


@dataclass(slots=True)
class FusionPlan:
    """Which instructions of a computation form kernels, with the decisions that led there."""

    computation: Computation
    clusters: list[FusionCluster] = field(default_factory=list)
    decisions: list[FusionDecision] = field(default_factory=list)
    alone: set[Instruction] = field(default_factory=set)  # kernels even if nothing joins them


def plan(computation: Computation, limits: Limits, *, in_machine_loop: bool = False) -> FusionPlan:
    """The kernels of a computation; in a loop that runs in registers, tiny instructions stay in registers."""
    planner = _Planner(computation, limits, in_machine_loop)
    planner.visit_all()
    planner.merge_siblings()
    planner.trim()
    return FusionPlan(computation, planner.live_clusters(), planner.decisions, planner.alone)


class _Planner:
    def __init__(self, computation: Computation, limits: Limits, in_machine_loop: bool):
        self.computation = computation
        self.limits = limits
        self.order = post_order(computation)
        self.crowded = set() if in_machine_loop else crowded(self.order, limits)
        self.alone = set() if in_machine_loop else too_long(self.order, self.crowded, limits)
        self.crowded |= self.alone
        self.bound = control_bound(computation)
        self.waiting = control_successors(computation)
        self.position = {inst: n for n, inst in enumerate(self.order)}
        self.keys = AccessKeys(limits.row_in_lane)
        self.clusters: list[FusionCluster] = []
        self.member_of: dict[Instruction, list[FusionCluster]] = {}
        self.outside: set[Instruction] = set()  # what is free: members that others read outside of kernels
        self.decisions: list[FusionDecision] = []
        self.row_fed = _row_fed(self.order, limits)
        # by position: kernels with several roots and members before and after
        self.crossing = [0] * (len(self.order) + 1)
        self.budget = SEARCH * len(self.order) + 1000

    def live_clusters(self) -> list[FusionCluster]:
        return [c for c in dict.fromkeys(self.clusters) if not c.gone]

    def of(self, inst: Instruction) -> list[FusionCluster]:
        return self.member_of.get(inst, [])

    # -- from results to parameters --

    def visit_all(self) -> None:
        for inst in reversed(self.order):
            register = is_register(inst, self.row_fed, self.limits) and inst not in self.crowded
            if inst in self.bound or register or why_never(inst, self.limits) is not None:
                continue
            self.visit(inst)

    def is_tiny(self, inst: Instruction) -> bool:
        return is_tiny(inst, self.limits) and inst not in self.crowded

    def visit(self, inst: Instruction) -> None:
        readers: Readers = {}
        outside = inst is self.computation.root
        for user in inst.users:
            clusters = self.of(user)
            outside = outside or not clusters or user in self.outside and is_passed(user.op)
            for cluster in clusters:
                readers.setdefault(cluster, []).append(user)
        if readers and not outside and self.fuse_into_all(inst, readers):
            return
        if inst.op.free:
            self.copy_where_possible(inst, readers, outside)
            return
        if not isinstance(inst.shape, Shape):
            self.leave_elements(inst)
            readers = {}
        if self.is_tiny(inst) or is_passed(inst.op) or isinstance(inst.op, Copy):
            return
        if readers and self.add_root(inst, readers):
            return
        if inst.users or inst is self.computation.root:
            self.start(inst)

    def fuse_into_all(self, inst: Instruction, readers: Readers) -> bool:
        """Computes `inst` in every kernel that reads it, if the rules allow it for all of them."""
        if len(readers) > 1 and not may_copy(inst, len(readers), self.limits):
            for cluster in readers:
                self.decide(inst, cluster, f"{len(readers)} kernels read it")
            return False
        wanted: list[tuple[FusionCluster, dict[int, None]]] = []
        for cluster, users in readers.items():
            found = keys_in(self.keys, inst, cluster, users)
            reason = why_not_join(self.keys, inst, cluster, users, found) or self.why_not_row(inst, cluster)
            self.decide(inst, cluster, reason)
            if reason is not None:
                return False
            wanted.append((cluster, found))
        for cluster, found in wanted:
            self.join(inst, cluster, found)
        return True

    def copy_where_possible(self, inst: Instruction, readers: Readers, outside: bool) -> None:
        """Puts a free instruction into those kernels that may contain it; other kernels read it from
        memory.
        """
        for cluster, users in readers.items():
            found = keys_in(self.keys, inst, cluster, users)
            reason = why_not_join(self.keys, inst, cluster, users, found)
            self.decide(inst, cluster, reason)
            if reason is None:
                self.join(inst, cluster, found)
            else:
                outside = True
        made = not (is_passed(inst.op) or isinstance(inst.op, Constant) or is_tiny(inst, self.limits))
        if outside and made:
            self.start(inst)
        elif outside:
            self.outside.add(inst)

    def why_not_row(self, inst: Instruction, cluster: FusionCluster) -> str | None:
        """Small results of a row reduction go into a kernel only if the reduction will be in it."""
        if not self.is_tiny(inst) or inst.op.free or inst not in self.row_fed:
            return None
        form = self.row_fed[inst]
        if cluster.form in (LOOP, form):
            sizes = {elements(r.shape) for r in cluster.roots}
            if form[0].why_not_results(form, inst, sizes, self.limits) is None:
                return None
        return "a few elements, computed in registers"

    def decide(self, inst: Instruction, cluster: FusionCluster, reason: str | None) -> None:
        self.decisions.append(FusionDecision(inst, cluster.root, reason))

    def join(self, inst: Instruction, cluster: FusionCluster, found: dict[int, None]) -> None:
        form = hero_form(inst, self.limits)
        if form is not None and cluster.form == LOOP:
            cluster.form = form
        cluster.members[inst] = found
        cluster.emitted += len(found)
        cluster.operands.pop(inst, None)
        for operand in inst.operands:
            if operand not in cluster.members:
                cluster.operands[operand] = None
        self.member_of.setdefault(inst, []).append(cluster)
        self.extend(cluster, self.position[inst])

    def extend(self, cluster: FusionCluster, position: int) -> None:
        if len(cluster.roots) > 1:
            self.crosses(position, cluster.first)
            self.crosses(cluster.last, position)
        cluster.first, cluster.last = min(cluster.first, position), max(cluster.last, position)

    def start(self, inst: Instruction) -> None:
        position = self.position[inst]
        form = hero_form(inst, self.limits) or LOOP
        cluster = FusionCluster(len(self.clusters), form, self.limits, first=position, last=position)
        self.clusters.append(cluster)
        cluster.roots[inst] = None
        self.join(inst, cluster, {self.keys.root(inst): None})

    def leave_elements(self, inst: Instruction) -> None:
        """For a tuple-shaped instruction that stays outside, removes its get-tuple-elements from the kernels
        that they joined.
        """
        for user in inst.users:
            if isinstance(user.op, GetTupleElement):
                for cluster in self.member_of.pop(user, []):
                    del cluster.members[user]
                    cluster.operands[user] = None

    # -- several roots --

    def add_root(self, inst: Instruction, readers: Readers) -> bool:
        """Makes `inst`, which is needed in memory anyway, an additional result of a kernel that reads it."""
        for cluster in sorted(readers, key=lambda c: c.last)[:ATTEMPTS]:
            users = readers[cluster]
            found = keys_in(self.keys, inst, cluster, users)
            reason = (
                self.why_not_root(inst, cluster, found)
                or why_not_join(self.keys, inst, cluster, users, found)
                or self.why_cyclic(inst, cluster)
            )
            self.decide(inst, cluster, reason and f"as a further result: {reason}")
            if reason is None:
                self.join(inst, cluster, found)
                cluster.roots[inst] = None
                self.crosses(cluster.first, cluster.last)
                return True
        return False

    def why_not_root(self, inst: Instruction, cluster: FusionCluster, found: dict[int, None]) -> str | None:
        if not isinstance(inst.shape, Shape):
            return "gives a tuple"
        kind = cluster.form[0]
        if kind.one_result:
            return f"a {kind.name} kernel has one result"
        if not kind.takes_epilogues and is_epilogue(inst):
            return "better in the kernel of the dot that it reads"
        if len(cluster.roots) >= self.limits.roots:
            return f"the kernel has {self.limits.roots} results"
        if list(found) != [self.keys.root(inst)]:
            return "not read element by element"
        if any(not isinstance(r.shape, Shape) for r in cluster.roots):
            return "the kernel's result is a tuple"
        if cluster.last - self.position[inst] > SPAN:
            return "too far from the other results"
        form = hero_form(inst, self.limits) if cluster.form == LOOP else cluster.form
        sizes = form[0].root_sizes(form) if form else None
        own, first = shape_of(inst), shape_of(cluster.root)
        fits = own.dims == first.dims if sizes is None else own.size in sizes
        return None if fits else "results of other sizes"

    def crosses(self, first: int, last: int) -> None:
        """Records that a kernel with several results has members on both sides of these positions in the
        order.
        """
        for position in range(first, last):
            self.crossing[position] += 1

    def why_cyclic(self, inst: Instruction, cluster: FusionCluster) -> str | None:
        """The reason why `inst` may not join a cluster: another of its users leads back to the cluster, a
        cycle. Else None.
        """
        start: list[FusionCluster | Instruction] = []
        inside = {inst}  # members that read it, too: others may read them, computed once more outside
        stack = [inst]
        while stack:
            for user in stack.pop().users:
                start += [unit for unit in self.units(user) if unit is not cluster]
                if user in cluster.members and user not in cluster.roots and user not in inside:
                    inside.add(user)
                    stack.append(user)
        return self.why_reaches(start, cluster)

    def units(self, inst: Instruction) -> Sequence[FusionCluster | Instruction]:
        """The kernels that compute an instruction, the instruction itself if it is computed outside, or
        both.
        """
        found = self.of(inst)
        return (*found, inst) if not found or inst in self.outside else found

    def why_reaches(self, start: Iterable[FusionCluster | Instruction], goal: FusionCluster) -> str | None:
        """The reason why `goal` depends on a result of `start`; None if it does not. A search that becomes
        too long counts as a dependence.
        """
        # Uses come after definitions, so a path leads back in the order only through a kernel with several
        # results that has members on both sides. Behind `beyond` no kernel reaches back to the goal.
        beyond = goal.last
        while self.crossing[beyond] and beyond < goal.last + SPAN:
            beyond += 1
        if self.crossing[beyond]:
            beyond = len(self.order)
        seen: set[FusionCluster | Instruction] = set()
        stack = list(start)
        position = self.position
        left = min(REACH, self.budget)
        while stack:
            unit = stack.pop()
            if unit is goal:
                return "another reader of it leads to this kernel"
            if unit in seen:
                continue
            seen.add(unit)
            left -= 1
            if left < 0:
                break
            cluster = isinstance(unit, FusionCluster)
            if (unit.first if cluster else position[unit]) > beyond:
                continue
            for root in unit.roots if cluster else (unit,):
                for user in (*root.users, *self.waiting.get(root, ())):
                    stack.extend(self.units(user))
        self.budget -= len(seen)
        return "too many kernels in between" if left < 0 else None

    # -- kernels that read the same --

    def merge_siblings(self) -> None:
        for operand in self.order:
            if elements(operand.shape) <= self.limits.tiny:
                continue
            readers: Readers = {}
            for user in operand.users:
                for cluster in self.of(user):
                    if operand not in cluster.members:
                        readers.setdefault(cluster, []).append(user)
            if len(readers) < 2:
                continue
            groups: dict[tuple, list[FusionCluster]] = {}
            for cluster, users in readers.items():
                signature = self.signature(cluster, operand, users)
                if signature is not None:
                    groups.setdefault(signature, []).append(cluster)
            for group in groups.values():
                self.merge_group(group)

    def signature(
        self, cluster: FusionCluster, operand: Instruction, users: Iterable[Instruction]
    ) -> tuple | None:
        """A key: kernels with the same one may be merged; None for those that may not."""
        if not cluster.form[0].side_by_side:
            return None
        if any(not isinstance(r.shape, Shape) for r in cluster.roots):
            return None
        found = keys_in(self.keys, operand, cluster, users)
        if len(found) != 1:
            return None
        key = next(iter(found))
        if cluster.form != LOOP:
            return (*cluster.form, key)
        root = shape_of(cluster.root)
        return (*LOOP, key, root.dims) if self.keys.linear.get(key) == root.size else None

    def merge_group(self, group: list[FusionCluster]) -> None:
        group.sort(key=lambda c: c.first)
        kept = group[0]
        for other in group[1:]:
            reason = self.why_not_merge(kept, other)
            self.decisions.append(FusionDecision(other.root, kept.root, reason and f"side by side: {reason}"))
            if reason is None:
                self.merge(kept, other)
            else:
                kept = other

    def why_not_merge(self, one: FusionCluster, other: FusionCluster) -> str | None:
        members = len(one.members) + sum(1 for m in other.members if m not in one.members)
        if members > self.limits.members:
            return f"more than {self.limits.members} instructions"
        operands = dict.fromkeys((*one.operands, *other.operands))
        if len(operands) > self.limits.operands:
            return f"more than {self.limits.operands} operands"
        if len(one.roots) + len(other.roots) > self.limits.roots:
            return f"more than {self.limits.roots} results"
        if max(one.last, other.last) - min(one.first, other.first) > SPAN:
            return "too far apart"
        for here, there in ((one, other), (other, one)):
            start = [unit for root in here.roots for user in root.users for unit in self.units(user)]
            reason = self.why_reaches(start, there)
            if reason is not None:
                return "one needs the other's result" if "leads" in reason else reason
        return None

    def merge(self, kept: FusionCluster, other: FusionCluster) -> None:
        for inst, found in other.members.items():
            mine = kept.members.get(inst)
            if mine is None:
                kept.members[inst] = dict(found)
            else:
                mine.update(found)
            clusters = self.member_of[inst]
            clusters.remove(other)
            if kept not in clusters:
                clusters.append(kept)
        kept.roots.update(other.roots)
        kept.operands = {
            o: None for o in dict.fromkeys((*kept.operands, *other.operands)) if o not in kept.members
        }
        kept.emitted = sum(map(len, kept.members.values()))
        kept.first, kept.last = min(kept.first, other.first), max(kept.last, other.last)
        other.gone = True
        self.clusters[other.number] = kept
        self.crosses(kept.first, kept.last)

    # -- what is better read than computed --

    def trim(self) -> None:
        """Takes views of operands out of kernels: outside they cost nothing, and the kernel reads the
        view.
        """
        for cluster in self.live_clusters():
            for inst in sorted(cluster.members, key=self.position.__getitem__):
                if (
                    isinstance(inst.op, Reshape)
                    and inst.operands[0] not in cluster.members
                    and inst not in cluster.roots
                ):
                    del cluster.members[inst]
                    cluster.operands[inst] = None
            used = {o for m in cluster.members for o in m.operands}
            cluster.operands = {o: None for o in cluster.operands if o in used}


def _row_fed(order: Iterable[Instruction], limits: Limits) -> dict[Instruction, Form]:
    """Small values computed from reduced rows, with the form of their kernels."""
    found: dict[Instruction, Form] = {}
    for inst in order:
        form = hero_form(inst, limits)
        if form is not None and form[0].companions:
            found[inst] = form
        elif inst.op.elementwise or is_passed(inst.op):
            fed = {found[o] for o in inst.operands if o in found}
            form = next(iter(fed)) if len(fed) == 1 else None
            sizes = form[0].root_sizes(form) if form is not None else None
            if form is not None and sizes and elements(inst.shape) == min(sizes):
                found[inst] = form
    return found
