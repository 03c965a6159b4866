"""Rules for channels, and for transfers and collectives that wait for each other.

channel_id     is at least 1 for an all-reduce, and the same for start and done of a transfer
channel_kind   a channel has transfers or collectives, not both; is_host_transfer is the same for start
               and done
channel_host   transfers with the host on one channel have the same shape and the same rendezvous
channel_pairs  source and target pairs of transfers: no source twice, no target twice; no cycle of members
               that wait for one transfer before they start the other
channel_order  in a scheduled module, a send is followed by its recv (or a recv by its send) with the same
               pairs, and no collective comes between them, as it would wait for ever
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from axla.core.regex import regex
from axla.ir.collectives import CollectiveKind, GroupMode, group_of, processes
from axla.ir.families import Transfer
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.typed import op_of
from axla.ir.verify.failure import fail

_MOST = 1 << 20
"""The highest number of instructions, times participants, for which `verify_waits` searches for cycles."""
_SHOWN = 8
_PAIRS = "_xla_send_recv_source_target_pairs"
_NUMBERS = regex(r"\{\s*(-?\d+)\s*,\s*(-?\d+)\s*\}")


def verify_channels(module: Module) -> None:
    """Checks the numbers and kinds of channels, and that all all-reduces have the same `constrain_layout`."""
    first: dict[int, Instruction] = {}
    reduction: Instruction | None = None
    for computation in module.computations:
        for inst in computation.instructions:
            channel = getattr(inst.op, "channel_id", None)
            if channel is not None:
                _verify_channel(inst, channel, first.setdefault(channel, inst))
            if inst.opcode in ("all-reduce", "all-reduce-start"):
                reduction = reduction or inst
                if reduction.op.constrain_layout != inst.op.constrain_layout:  # type: ignore[attr-defined]
                    wanted = "constrain_layout must be the same for all"
                    fail("module_constrained_layouts", f"{inst!r}: {wanted}, found another in {reduction!r}")


def _is_transfer(inst: Instruction) -> bool:
    return inst.op.effect == "transfers"


def _begins(inst: Instruction) -> bool:
    """Whether an instruction starts a transfer: send or recv."""
    return _is_transfer(inst) and inst.op.ends is None


def _verify_channel(inst: Instruction, channel: int, first: Instruction) -> None:
    opcode = inst.opcode
    if opcode == "all-reduce" and channel < 1:
        fail("channel_id", f"{inst!r}: channel_id must be at least 1, found {channel}")
    if _is_transfer(first) != _is_transfer(inst):
        fail("channel_kind", f"{inst!r}: channel_id={channel} is also that of another kind of op, {first!r}")
    if _begins(inst) and _begins(first):
        _verify_host(inst, first)
    done = next(iter(inst.users), None) if _begins(inst) else None
    if done is not None and done.op.ends is type(inst.op):
        begun, ended = op_of(inst, Transfer), op_of(done, Transfer)
        if begun.channel_id != ended.channel_id:
            found = f"{begun.channel_id} and {ended.channel_id}"
            fail("channel_id", f"{inst!r}: channel_id must be the same for {done!r}, found {found}")
        if begun.is_host_transfer != ended.is_host_transfer:
            fail("channel_kind", f"{inst!r}: is_host_transfer must be the same for {done!r}")


def _verify_host(inst: Instruction, first: Instruction) -> None:
    found, wanted = _host_transfer(inst), _host_transfer(first)
    if found is not None and wanted is not None and found != wanted:
        (one, name), (other, other_name) = found, wanted
        channel = op_of(inst, Transfer).channel_id
        what = f"{one} with the rendezvous {name!r}, that of {first!r} {other} with {other_name!r}"
        fail("channel_host", f"{inst!r}: transfers on channel {channel} must be alike, found {what}")


def _host_transfer(inst: Instruction) -> tuple[str, str] | None:
    """The shape and the rendezvous of a transfer with the host; None for other transfers."""
    if not op_of(inst, Transfer).is_host_transfer:
        return None
    name = dict(inst.extra.frontend_attributes).get("_xla_host_transfer_rendezvous", "")
    return inst.shape.elements[0].to_string(layout=False), name


Waiting = tuple[Instruction, bool] | None
"""A send without its recv so far, or the reverse, and whether its done has been reached."""


def verify_order(module: Module) -> None:
    """Checks that in a scheduled module each send between replicas is followed by its recv, or the reverse.
    Calls are followed: each computation once per transfer that is open at the call.
    """
    schedule = module.schedule
    if not module.config.is_scheduled or schedule is None:
        return
    events = {c: [i for i in order if _matters(i)] for c, order in schedule.items()}
    if not any(channel_pairs(i) for order in events.values() for i in order):
        return
    done: dict[tuple[Computation, Waiting], Waiting] = {}
    stack: list[tuple[tuple[Computation, Waiting], Iterator[Computation | Instruction]]] = []
    waiting: Waiting = None

    def enter(computation: Computation) -> None:
        nonlocal waiting
        key = (computation, waiting)
        if key in done:
            waiting = done[key]
        else:
            parts = (p for i in events.get(computation, ()) for p in _parts(i))
            stack.append((key, iter(parts)))

    enter(module.entry)
    while stack:
        key, rest = stack[-1]
        part = next(rest, None)
        if part is None:
            done[key] = waiting
            stack.pop()
        elif isinstance(part, Computation):
            enter(part)
        else:
            waiting = _after(part, waiting)


def _matters(inst: Instruction) -> bool:
    return inst.op.collective is not None or _is_transfer(inst) or bool(inst.op.computation_fields)


def _parts(inst: Instruction) -> Iterator[Computation | Instruction]:
    """Yields `inst` if it is a transfer or a collective, or the computations that it calls if it is a loop,
    branch or call.
    """
    if inst.op.collective is not None or _is_transfer(inst):
        yield inst
    elif inst.op.control:
        yield from inst.op.computations()


def _after(inst: Instruction, waiting: Waiting) -> Waiting:
    """The transfer that is open after `inst`, given the one that is open before it (`waiting`)."""
    if _is_transfer(inst) and not _begins(inst):
        if waiting is None or inst.operands[0] is not waiting[0]:
            return waiting
        return waiting[0], True
    if inst.op.collective is not None:
        if waiting is not None:
            fail("channel_order", f"{inst!r} waits for members that wait in {waiting[0]!r}")
        return None
    pairs = channel_pairs(inst)
    if not pairs:
        return waiting
    _verify_different(inst, pairs)
    if waiting is None:
        return inst, False
    first = waiting[0]
    other = "recv" if first.opcode == "send" else "send"
    if inst.opcode != other:
        fail("channel_order", f"{first!r} must be followed by its {other}, found {inst!r}")
    if pairs != channel_pairs(first):
        wanted = f"those of {first!r}, {channel_pairs(first)}"
        fail("channel_order", f"{inst!r}: source and target pairs must be {wanted}, found {pairs}")
    if waiting[1]:
        _verify_no_cycle(inst, pairs)
    return None


def channel_pairs(inst: Instruction) -> tuple[tuple[int, int], ...]:
    """The source and target pairs of a transfer between replicas, from its frontend attributes; () for
    another transfer.
    """
    if not _begins(inst):
        return ()
    text = dict(inst.extra.frontend_attributes).get(_PAIRS, "")
    return tuple((int(a), int(b)) for a, b in _NUMBERS.findall(text))


def transfer_pairs(inst: Instruction, replicas: int, partitions: int) -> list[tuple[int, ...]]:
    """The source and target pairs of a transfer, as numbers of participants, for a program on `replicas`
    replicas and `partitions` partitions.
    """
    mode = GroupMode.CROSS_PARTITION if partitions > 1 else GroupMode.CROSS_REPLICA
    rows = range(replicas) if partitions > 1 else (0,)
    return [processes(mode, pair, row, 0, partitions) for row in rows for pair in channel_pairs(inst)]


def _verify_different(inst: Instruction, pairs: tuple[tuple[int, int], ...]) -> None:
    for side in zip(*pairs, strict=True):
        if len(set(side)) != len(side):
            fail("channel_pairs", f"{inst!r}: sources and targets must be different, found {pairs}")


def _verify_no_cycle(inst: Instruction, pairs: tuple[tuple[int, int], ...]) -> None:
    """Checks that the (source, target) pairs of a transfer form no cycle, in which each participant would
    wait for its transfer from another one before it starts its own. With distinct sources and targets, the
    pairs form chains and cycles; a chain begins at a source that is not a target.
    """
    left = dict(pairs)
    for start in set(left) - set(left.values()):
        at = start
        while at in left:
            at = left.pop(at)
    if left:
        found = sorted(left.items())
        fail("channel_pairs", f"{inst!r}: the source and target pairs must not form a cycle, found {found}")


def verify_waits(module: Module, replicas: int, partitions: int) -> None:
    """Checks that participants that run the same program do not wait for each other in a cycle, whatever the
    order in which each runs its instructions. In a cycle, a receive would wait for a send, or a collective
    for a participant, that can only come after it. Considers the entry computation, and channels with a
    single send.
    """
    entry, count = module.entry.instructions, replicas * partitions
    sends: dict[int | None, Instruction | None] = {}
    for inst in (inst for computation in module.computations for inst in computation.instructions):
        if isinstance(inst.op, Transfer) and inst.opcode == "send":
            one = inst.op.channel_id not in sends and inst.computation is module.entry
            sends[inst.op.channel_id] = inst if one else None
    if not sends or count == 1 or len(entry) * count > _MOST:
        return
    order: TopologicalSorter[tuple[Instruction, int]] = TopologicalSorter()
    for inst in entry:
        begun = inst.operands[0] if inst.op.ends is not None else inst
        send = sends.get(getattr(begun.op, "channel_id", 0)) if inst.opcode == "recv-done" else None
        pairs = transfer_pairs(begun, replicas, partitions) if send is not None else []
        grouped = begun.op.collective not in (None, CollectiveKind.PAIRED) and inst.op.ended_by is None
        for p in range(count):
            members = group_of(begun.op, p, replicas, partitions) or () if grouped else ()
            before = [(x, p) for x in (*inst.operands, *inst.extra.control_predecessors)]
            before += [(x, m) for m in members for x in begun.operands]
            order.add((inst, p), *before, *((send, a) for a, b in pairs if b == p and send is not None))
    try:
        order.prepare()
    except CycleError as error:
        found = [(i, p) for i, p in error.args[1][1:] if i.opcode == "recv-done" or i.op.collective]
        said = [f"{i!r} of replica {p // partitions}, partition {p % partitions}" for i, p in found[:_SHOWN]]
        fail("channel_waits", f"each waits for the next, and the last for the first: {'; '.join(said)}")
