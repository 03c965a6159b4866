"""The fusion pass: replaces the instructions of each planned kernel by a fusion."""

from __future__ import annotations

from collections.abc import Iterator

from axla.analysis.regions import machine_loops
from axla.hlo import Fusion, GetTupleElement, Parameter, Tuple
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module, kernel_extra
from axla.ir.traverse import needed_first, post_order
from axla.kernels.kinds import kernel_kind
from axla.passes.fuse.plan import FusionPlan, plan
from axla.passes.fuse.rules import FusionCluster, why_never
from axla.passes.rewrite import current_session
from axla.passes.schedule.order import running_computations
from axla.target.machine import Limits, Target


def fusion(module: Module, target: Target) -> None:
    """Replaces groups of instructions by fusions, each of which becomes one kernel."""
    for decided in _plans(module, target.limits):
        apply(decided, target.limits)


def _plans(module: Module, limits: Limits) -> Iterator[FusionPlan]:
    computations = running_computations(module)
    loops = machine_loops(computations, limits)
    for computation in computations:
        yield plan(computation, limits, in_machine_loop=computation in loops)


def apply(decided: FusionPlan, limits: Limits) -> None:
    """Replaces the instructions of each planned kernel by a fusion."""
    session = current_session()
    computation = decided.computation
    made = [
        (cluster, *_body(computation, cluster))
        for cluster in decided.clusters
        if (len(cluster.members) > 1 or cluster.root in decided.alone)
        and session.may_fire("fusion", cluster.root)
    ]
    # All bodies are made before anything is replaced, as they refer to the instructions of the plan.
    position = {inst: n for n, inst in enumerate(post_order(computation))}
    instead: dict[Instruction, Instruction] = {}
    stale: dict[Instruction, None] = {}
    for cluster, body, operands in made:
        location = Extra(location=cluster.root.extra.location) if cluster.root.extra.location else NO_EXTRA
        operands = [instead.get(o, o) for o in operands]
        fused = computation.add(
            Fusion(kernel_kind(body, limits).fusion, calls=body), operands, extra=location
        )
        several = len(cluster.roots) > 1
        for number, root in enumerate(cluster.roots):
            new = computation.add(GetTupleElement(number), [fused]) if several else fused
            instead[root] = new
            computation.replace(root, new)
        stale.update(dict.fromkeys(cluster.members))
    for inst in sorted(stale, key=position.__getitem__, reverse=True):
        if not inst.users and inst is not computation.root:
            computation.remove(inst)


def _body(computation: Computation, cluster: FusionCluster) -> tuple[Computation, list[Instruction]]:
    """A new computation with copies of the cluster's instructions, and the operands for its parameters."""
    body = computation.module.add_computation("fused_computation")
    members = _in_order(cluster)
    operands = list(dict.fromkeys(o for m in members for o in m.operands if o not in cluster.members))
    copies: dict[Instruction, Instruction] = {
        operand: body.add(Parameter(operand.shape, number), name=f"param_{number}")
        for number, operand in enumerate(operands)
    }
    for member in members:
        extra = kernel_extra(member)
        copies[member] = body.add(member.op, [copies[o] for o in member.operands], member.shape, extra=extra)
    roots = [copies[r] for r in cluster.roots]
    body.set_root(body.add(Tuple(), roots) if len(roots) > 1 else roots[0])
    return body, operands


def _in_order(cluster: FusionCluster) -> list[Instruction]:
    """The instructions of a cluster, operands first, without those that no root needs."""
    members = cluster.members
    return needed_first(cluster.roots, lambda inst: (o for o in inst.operands if o in members))


def why_not_fuse(producer: Instruction, consumer: Instruction, limits: Limits) -> str | None:
    """The reason why a producer is not computed in the kernel of a consumer; None if it is computed there."""
    decided = plan(consumer.computation, limits)
    readers = {consumer}
    for cluster in decided.clusters:
        if consumer in cluster.members:
            if producer in cluster.members:
                return None
            readers |= set(cluster.members)
    refused = [d for d in decided.decisions if d.producer is producer and d.reason is not None]
    refused.sort(key=lambda d: d.consumer not in readers)  # decisions about the consumer's kernel first
    if refused:
        return refused[0].reason
    never = why_never(producer, limits) or why_never(consumer, limits)
    return never or "it is computed in registers or in another kernel"


def explain(module: Module, limits: Limits) -> str:
    """The decisions of the fusion pass on a module as text, one per line."""
    lines = []
    for decided in _plans(module, limits):
        lines += [f"{decided.computation.name}: {decision}" for decision in decided.decisions]
    return "\n".join(lines)
