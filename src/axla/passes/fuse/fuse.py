"""The fusion pass: makes the kernels that a plan names."""

from __future__ import annotations

from axla.analysis.kernel_kinds import ColumnKind, DotKind, RowKind
from axla.analysis.kernels import kernel_kind
from axla.hlo import Fusion, GetTupleElement, Parameter, Tuple
from axla.ir.attributes import FusionKind
from axla.ir.graph import Computation, Extra, Instruction, Module
from axla.passes.fuse.plan import Plan, plan
from axla.passes.fuse.rules import Cluster
from axla.passes.rewrite import current_session
from axla.passes.schedule.order import running_computations


def fusion(module: Module) -> None:
    """Puts instructions together that are better computed by one kernel."""
    for computation in running_computations(module):
        apply(plan(computation))


def apply(decided: Plan) -> None:
    """Replaces the members of each cluster by a fusion."""
    session = current_session()
    computation = decided.computation
    position = {inst: n for n, inst in enumerate(computation.instructions)}
    stale: dict[Instruction, None] = {}
    for cluster in decided.clusters:
        if len(cluster.members) < 2 or not session.may_fire("fusion", cluster.root):
            continue
        build(computation, cluster)
        stale.update(dict.fromkeys(cluster.members))
    for inst in sorted(stale, key=position.__getitem__, reverse=True):
        _remove_dead(computation, inst)


def _remove_dead(computation: Computation, inst: Instruction) -> None:
    stack = [inst]
    while stack:
        one = stack.pop()
        if one.users or one is computation.root or one not in computation.instructions:
            continue
        if isinstance(one.op, Parameter) or one.op.side_effect or isinstance(one.op, Fusion):
            continue
        operands = one.operands
        computation.remove(one)
        stack.extend(operands)


def build(computation: Computation, cluster: Cluster) -> Instruction:
    """A fusion of the members, which takes the place of the roots."""
    module = computation.module
    body = module.add_computation("fused_computation")
    members = _in_order(cluster)
    operands = list(dict.fromkeys(o for m in members for o in m.operands if o not in cluster.members))
    copies: dict[Instruction, Instruction] = {
        operand: body.add(Parameter(operand.shape, number), name=f"param_{number}")
        for number, operand in enumerate(operands)
    }
    for member in members:
        extra = Extra(location=member.extra.location) if member.extra.location else Extra()
        copies[member] = body.add(member.op, [copies[o] for o in member.operands], member.shape, extra=extra)
    roots = sorted(cluster.roots, key=members.index) if len(cluster.roots) > 1 else list(cluster.roots)
    if len(roots) > 1:
        body.set_root(body.add(Tuple(), [copies[r] for r in roots]))
    else:
        body.set_root(copies[roots[0]])
    made = computation.add(Fusion(_kind(body), calls=body), operands, extra=Extra(location=roots[-1].extra.location))
    inside = set(members)
    for number, root in enumerate(roots):
        new = made if len(roots) == 1 else computation.add(GetTupleElement(number), [made])
        users = [u for u in root.users if u not in inside]
        computation.replace(root, new, users)
    return made


def _in_order(cluster: Cluster) -> list[Instruction]:
    """Members, operands first; below the roots only."""
    order: dict[Instruction, None] = {}
    for root in cluster.roots:
        stack = [(root, False)]
        while stack:
            inst, left = stack.pop()
            if inst in order:
                continue
            if left:
                order[inst] = None
                continue
            stack.append((inst, True))
            stack.extend((o, False) for o in reversed(inst.operands) if o in cluster.members and o not in order)
    return list(order)


def _kind(body: Computation) -> FusionKind:
    kind = kernel_kind(body)
    if isinstance(kind, RowKind | ColumnKind):
        return FusionKind.INPUT
    return FusionKind.OUTPUT if isinstance(kind, DotKind) else FusionKind.LOOP


def why_not_fuse(producer: Instruction, consumer: Instruction) -> str | None:
    """The reason why an instruction is not computed in the kernel of another that reads it; None if it is."""
    decided = plan(consumer.computation)
    for cluster in decided.clusters:
        if consumer in cluster.members and producer in cluster.members:
            return None
    for decision in reversed(decided.decisions):
        if decision.producer is producer and decision.reason is not None:
            return decision.reason
    from axla.passes.fuse.rules import why_never

    return why_never(producer) or why_never(consumer) or "computed in registers, or in another kernel"


def explain(module: Module) -> str:
    """Every decision of the fusion pass on a module, a line each."""
    lines = []
    for computation in running_computations(module):
        lines += [f"{computation.name}: {decision}" for decision in plan(computation).decisions]
    return "\n".join(lines)
