"""Decides which instructions become one kernel, without changing the module.

Instructions are visited from the results back to the parameters. If all users of an instruction are in
kernels, it is added to these kernels, if the rules allow that. If it is also needed elsewhere, it may become
an additional root of a kernel that reads it. Otherwise it starts a kernel. At the end, kernels that read the
same large array in the same order are merged.
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

Readers = dict[FusionCluster, list[Instruction]]  # kernel -> its instructions that read a value

ATTEMPTS = 3  # the most kernels that are tried for adding an instruction as a root
# the most kernels that a search for cycles visits; a longer search would make the pass quadratic, and rarely
# succeeds
REACH = 64
SEARCH = 10  # the most kernels that all searches of a computation visit, per instruction
# the most positions between the results of one kernel: further apart they would only keep memory in use
SPAN = 2000


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """The decision whether the kernel with the root `consumer` computes `producer`: yes if `reason` is None,
    else why not.
    """

    producer: Instruction
    consumer: Instruction
    reason: str | None

    def __str__(self) -> str:
        return f"%{self.producer.name} into %{self.consumer.name}: {self.reason or 'fused'}"


@dataclass(slots=True)
class FusionPlan:
    """The groups of a computation's instructions that become kernels, and the decisions about them."""

    computation: Computation
    clusters: list[FusionCluster] = field(default_factory=list)
    decisions: list[FusionDecision] = field(default_factory=list)
    # instructions that become kernels even if nothing joins them
    alone: set[Instruction] = field(default_factory=set)


def plan(computation: Computation, limits: Limits, *, in_machine_loop: bool = False) -> FusionPlan:
    """Plans the kernels of a computation. With `in_machine_loop`, the computation belongs to a loop that runs
    in registers, and tiny instructions never become kernels.
    """
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
        # instructions that kernels compute for themselves, but that are read outside of kernels too
        self.outside: set[Instruction] = set()
        self.decisions: list[FusionDecision] = []
        self.row_fed = _row_fed(self.order, limits)
        # for each position in the order, the number of kernels with several roots and with instructions on
        # both sides of it
        self.crossing = [0] * (len(self.order) + 1)
        self.budget = SEARCH * len(self.order) + 1000

    def live_clusters(self) -> list[FusionCluster]:
        return [c for c in dict.fromkeys(self.clusters) if not c.gone]

    def of(self, inst: Instruction) -> list[FusionCluster]:
        return self.member_of.get(inst, [])

    # From results to parameters

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
        """Adds `inst` to every kernel that reads it, if the rules allow that for all of these kernels.
        Returns whether it was added.
        """
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
        """Adds a free instruction (`Op.free`) to those of the kernels `readers` that may contain it; the
        other kernels read it from memory. `outside` says whether instructions outside of kernels read it,
        too.
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
        """The reason why the kernel `cluster` may not compute a small value that depends on a row reduction:
        the reduction itself cannot be in that kernel. None if it can, and for other values.
        """
        if not self.is_tiny(inst) or inst.op.free or inst not in self.row_fed:
            return None
        form = self.row_fed[inst]
        if cluster.form in (LOOP, form):
            sizes = {elements(r.shape) for r in cluster.roots}
            if form[0].why_not_results(form, inst, sizes, self.limits) is None:
                return None
        return "it has few elements and is computed in registers"

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
        """Removes the get-tuple-elements of a tuple-shaped instruction, which is not fused, from the kernels
        that they joined.
        """
        for user in inst.users:
            if isinstance(user.op, GetTupleElement):
                for cluster in self.member_of.pop(user, []):
                    del cluster.members[user]
                    cluster.operands[user] = None

    # Kernels with several roots

    def add_root(self, inst: Instruction, readers: Readers) -> bool:
        """Makes `inst` an additional result of a kernel that reads it; returns whether a kernel could take
        it.
        """
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
            return "its result is a tuple"
        kind = cluster.form[0]
        if kind.one_result:
            return f"a {kind.name} kernel can have only one result"
        if not kind.takes_epilogues and is_epilogue(inst):
            return "it is better computed in the kernel of the dot that it reads"
        if len(cluster.roots) >= self.limits.roots:
            return f"the kernel has {self.limits.roots} results, the limit"
        if list(found) != [self.keys.root(inst)]:
            return "it is not read element by element"
        if any(not isinstance(r.shape, Shape) for r in cluster.roots):
            return "the kernel's result is a tuple"
        if cluster.last - self.position[inst] > SPAN:
            return "it is too far from the other results in the order"
        form = hero_form(inst, self.limits) if cluster.form == LOOP else cluster.form
        sizes = form[0].root_sizes(form) if form else None
        own, first = shape_of(inst), shape_of(cluster.root)
        fits = own.dims == first.dims if sizes is None else own.size in sizes
        return None if fits else "its size differs from that of the kernel's results"

    def crosses(self, first: int, last: int) -> None:
        """Records that the instructions of a kernel with several results span the positions from `first` to
        `last` - 1: increments the count of such kernels at each of them.
        """
        for position in range(first, last):
            self.crossing[position] += 1

    def why_cyclic(self, inst: Instruction, cluster: FusionCluster) -> str | None:
        """The reason why `inst` may not become a result of a cluster: another user of `inst` leads back to
        the cluster, which would be a cycle. Else None.
        """
        start: list[FusionCluster | Instruction] = []
        # `inst`, and instructions of the cluster that read it: other kernels that need these compute them
        # again
        inside = {inst}
        stack = [inst]
        while stack:
            for user in stack.pop().users:
                start += [unit for unit in self.units(user) if unit is not cluster]
                if user in cluster.members and user not in cluster.roots and user not in inside:
                    inside.add(user)
                    stack.append(user)
        return self.why_reaches(start, cluster)

    def units(self, inst: Instruction) -> Sequence[FusionCluster | Instruction]:
        """The kernels that compute an instruction, followed by the instruction itself if it is also, or only,
        computed outside of kernels.
        """
        found = self.of(inst)
        return (*found, inst) if not found or inst in self.outside else found

    def why_reaches(self, start: Iterable[FusionCluster | Instruction], goal: FusionCluster) -> str | None:
        """The reason why `goal` may depend on a result of the kernels and instructions `start`; None if it
        does not. A search that becomes too long counts as a dependence.
        """
        # Users come after definitions in the order. So a path from `start` to `goal` can go backwards only
        # through a kernel with several results that spans the position. No kernel spans the position
        # `beyond`, so the search stops there.
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
                return "another of its readers leads to this kernel, which would be a cycle"
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
        return "the search for a cycle took too long" if left < 0 else None

    # Kernels that read the same array

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
        """A key that is equal for kernels that may be merged because they read `operand` under the same
        access key; None if the cluster may not be merged. `users` are the instructions of the cluster that
        read the operand.
        """
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
            return f"together they have more than {self.limits.members} instructions"
        operands = dict.fromkeys((*one.operands, *other.operands))
        if len(operands) > self.limits.operands:
            return f"together they have more than {self.limits.operands} operands"
        if len(one.roots) + len(other.roots) > self.limits.roots:
            return f"together they have more than {self.limits.roots} results"
        if max(one.last, other.last) - min(one.first, other.first) > SPAN:
            return "the kernels are too far apart in the order"
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

    # Reshapes that are read instead of computed

    def trim(self) -> None:
        """Removes reshapes of operands from kernels: outside of kernels they cost nothing, and the kernel
        reads the reshaped operand.
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
    """Maps small values that are computed from row reductions to the form of the kernel of the reduction."""
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
