"""Emits collectives within one process.

The members of a group use one *rendezvous*, round after round. A member that starts a collective puts the
addresses of its operands and results into its slot, and does not wait. A member that ends it waits until all
have started, does its part (reduces or copies its own elements from the memory of the others), then the parts
of members that are busy elsewhere, and continues when all parts are done. A collective without separate start
and done runs both at once.

Each slot is written by its member before it arrives, and read by others in the round that the last to arrive
opens; parts are claimed by compare and swap. There are no locks here, so there is no lock order. `GRID.stop`,
the cancel flag of all members, is set by the first one that fails or is stopped. Members that wait then
leave, members that compute poll it, and a member that leaves a run keeps its memory until no other member
uses it (`grid_leave` of `call.py`).
"""

from __future__ import annotations

from enum import IntEnum

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import GRID, PEERS, RUNS
from axla.codegen.straight import Ssa
from axla.program.abi import COLLECTIVE as STOPPED
from axla.program.abi import FRAME, CField, Struct

RENDEZVOUS = Struct(
    "axla_rendezvous",
    "The rendezvous of the members of a group, for all its collectives on one channel.",
    CField("arrived", "i32", "number of members that have started this round"),
    CField("opened", "i32", "number of rounds that all members have started"),
    CField("parts", "i32", "number of parts that are done in the last of these rounds"),
    CField("finished", "i32", "number of rounds in which all parts are done"),
    CField("size", "i32", "number of members"),
    CField("number", "i32", "number of the rendezvous in the grid"),
    CField("slots", "ptr", "SLOT array, in the order of the group"),
)

SLOT = Struct(
    "axla_slot",
    "The data of a member for a round.",
    CField("collective", "ptr", "COLLECTIVE"),
    CField("seat", "ptr", "SEAT"),
    CField("operands", "ptr", "addresses of its operands"),
    CField("results", "ptr", "addresses of its results"),
    CField("visits", "i64", "number of rounds that it has started"),
    CField("taken", "i32", "number of rounds in which its part was begun"),
)

COLLECTIVE = Struct(
    "axla_collective",
    "A step of a program, the same for all participants. MOVED and SEAT arrays and its name follow it.",
    CField("half", "i64", "Half"),
    CField("digest", "i64", "digest of the data that must be equal in all members"),
    CField("text", "i64", "offset of its name, a text that ends with 0"),
    CField("kind", "i64", "PartKind"),
    CField("count", "i64", "number of operands that are moved or reduced"),
    CField("together", "i64", "1: one kernel reduces all operands"),
    CField("rooted", "i64", "1: the operand after the data has the root of each data operand"),
    CField("index_bytes", "i64", "RAGGED: bytes of an element of starts, sizes and places, 4 or 8"),
    CField("indices", "i64", "RAGGED: number of these elements"),
)

MOVED = Struct(
    "axla_moved",
    "An operand: `rows` rows with a block of `bytes` for each member; reduced: blocks of the kernel.",
    CField("rows", "i64", ""),
    CField("bytes", "i64", ""),
    CField("total", "i64", "bytes of the result, or of a member's part"),
)

SEAT = Struct(
    "axla_seat",
    "A participant in a collective.",
    CField("rendezvous", "i64", "-1: it is in no group"),
    CField("position", "i64", "position in the group"),
    CField("source", "i64", "position of the member whose operands it gets; -1: zeros"),
)


class Half(IntEnum):
    """The half of a collective that a step runs: the start, the end, or both."""

    BOTH = 0
    START = 1
    DONE = 2


class PartKind(IntEnum):
    """The kinds of work that a participant does in a collective."""

    FOLD = 0  # reduces its share of the elements, for all members
    FOLD_OWN = 1  # reduces its part of the elements, for itself
    GATHER = 2  # copies the blocks of all members, row by row
    EXCHANGE = 3  # copies each member's block for this member, row by row
    EXCHANGE_OPERANDS = 4  # copies each member's operand for this member
    TAKE = 5  # copies the operands of its source
    TAKE_DYNAMIC = 6  # copies operands from the roots in its last operand
    FOLD_ROOT = 7  # reduces everything, at the roots
    RAGGED = 8  # copies rows of all members to the positions that they name


_SPINS = 1000  # 20 to 50 us
_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions to a module, which is linked after the glue."""
    _FUNCTIONS.emit(m)


@_FUNCTIONS("await_round", "i32", "grid:ptr, count:ptr, before:i32")
def _await_round(f: GlueFunction, grid: Ssa, count: Ssa, before: Ssa) -> None:
    """Waits until the round counter at `count` is no longer `before`. Returns 0, or the code with which the
    run must stop.
    """
    spins = f.slot(f.i64(0))
    with f.while_loop() as loop:
        with f.if_(count.load("i32", "seq_cst").ne(before)):
            f.ret(f.i32(0))
        stop = grid.at(GRID.offset("stop")).load("i32", "seq_cst")
        f.guard(stop.ne(0), stop)
        tries = spins.load("i64")
        with f.if_(tries.lt(_SPINS)):
            f.call("void", "pause")
            spins.store(tries + 1)
            loop.again()
        f.call("void", "futex_wait_briefly", count, before)
    f.ret(f.i32(0))


@_FUNCTIONS("start", "void", "rendezvous:ptr, slot:ptr, collective:ptr, seat:ptr, operands:ptr, results:ptr")
def _start(f: GlueFunction, rendezvous: Ssa, slot: Ssa, *brought: Ssa) -> None:
    """Puts a member's addresses into its slot; the last member to arrive opens the round."""
    for name, value in zip(("collective", "seat", "operands", "results"), brought, strict=True):
        slot.set(SLOT, name, value)
    slot.set(SLOT, "visits", slot.get(SLOT, "visits") + 1)
    arrived_at = rendezvous.at(RENDEZVOUS.offset("arrived"))
    with f.if_(arrived_at.atomic("add", f.i32(1)).eq(rendezvous.get(RENDEZVOUS, "size") - 1)):
        arrived_at.store(f.i32(0), "seq_cst")
        _count(f, rendezvous.at(RENDEZVOUS.offset("opened")))


def _count(f: GlueFunction, at: Ssa) -> None:
    """Increments a round counter, and wakes all threads that wait for it."""
    at.atomic("add", f.i32(1))
    f.call("void", "futex_wake", at, f.i64(1 << 30))


@_FUNCTIONS(
    "axla_collective",
    "i32",
    "frame:ptr, collective:ptr, operands:ptr, results:ptr, kernels:ptr",
    exported=True,
)
def _collective(
    f: GlueFunction, frame: Ssa, collective: Ssa, operands: Ssa, results: Ssa, kernels: Ssa
) -> None:
    """Runs a collective for a participant, or one half of it (start or done)."""
    peers, half = frame.get(FRAME, "peers"), collective.get(COLLECTIVE, "half")
    f.guard(peers.eq(0), f.i32(STOPPED))
    grid = peers.get(PEERS, "grid")
    number = peers.get(PEERS, "number")
    moved = collective.at(COLLECTIVE.size)
    seats = moved.item(collective.get(COLLECTIVE, "count"), MOVED.size)
    seat = seats.item(number, SEAT.size)
    with f.if_(seat.get(SEAT, "rendezvous").lt(0)):
        f.call("void", "clear_results", collective, results)
        f.ret(f.i32(0))
    rendezvous = peers.get(PEERS, "rendezvous_keys").item(seat.get(SEAT, "rendezvous")).load("ptr")
    slot = rendezvous.get(RENDEZVOUS, "slots").item(seat.get(SEAT, "position"), SLOT.size)
    with f.if_(half.ne(int(Half.DONE))):
        f.call("void", "start", rendezvous, slot, collective, seat, operands, results)
        f.guard(half.eq(int(Half.START)), f.i32(0))
    before = (slot.get(SLOT, "visits") - 1).cast("i32")
    state = grid.get(GRID, "states").item(number)
    state.store(rendezvous.get(RENDEZVOUS, "number").cast("i64") + 1, "seq_cst")
    opened, finished = (rendezvous.at(RENDEZVOUS.offset(name)) for name in ("opened", "finished"))
    code = f.slot(f.call("i32", "await_round", grid, opened, before))
    state.store(f.i64(RUNS), "seq_cst")
    with f.if_(code.load("i32").eq(0), likely=True):
        code.store(f.call("i32", "do_parts", frame, grid, collective, seat, rendezvous, kernels, before))
    with f.if_(code.load("i32").eq(0), likely=True):
        code.store(f.call("i32", "await_round", grid, finished, before))
    f.ret(code.load("i32"))


@_FUNCTIONS(
    "do_parts", "i32",
    "frame:ptr, grid:ptr, collective:ptr, seat:ptr, rendezvous:ptr, kernels:ptr, before:i32",
)  # fmt: skip
def _do_parts(f: GlueFunction, frame: Ssa, grid: Ssa, *given: Ssa) -> None:
    """Does the part of this member, and then the parts that no member has begun."""
    collective, seat, rendezvous, kernels, before = given
    size, busy = rendezvous.get(RENDEZVOUS, "size").cast("i64"), grid.at(GRID.offset("busy"))
    with f.loop(0, size) as loop:
        at = seat.get(SEAT, "position") + loop.index
        at = f.select(at.lt(size), at, at - size)
        slot = rendezvous.get(RENDEZVOUS, "slots").item(at, SLOT.size)
        with f.if_(slot.at(SLOT.offset("taken")).exchange(before, before + 1) ^ 1):
            loop.again()
        busy.atomic("add", f.i32(1))
        code = f.slot(grid.at(GRID.offset("stop")).load("i32", "seq_cst"))
        with f.if_(code.load("i32").eq(0), likely=True):
            part = frame, collective, slot.get(SLOT, "seat"), rendezvous, slot, kernels
            code.store(f.call("i32", "do_part", *part))
        busy.atomic("sub", f.i32(1))
        f.guard(code.load("i32").ne(0), code.load("i32"))
        done = rendezvous.at(RENDEZVOUS.offset("parts"))
        with f.if_(done.atomic("add", f.i32(1)).cast("i64").eq(size - 1)):
            done.store(f.i32(0), "seq_cst")
            _count(f, rendezvous.at(RENDEZVOUS.offset("finished")))
    f.ret(f.i32(0))


@_FUNCTIONS("clear_results", "void", "collective:ptr, results:ptr")
def _clear_results(f: GlueFunction, collective: Ssa, results: Ssa) -> None:
    moved = collective.at(COLLECTIVE.size)
    with f.loop(0, collective.get(COLLECTIVE, "count")) as loop:
        size = moved.item(loop.index, MOVED.size).get(MOVED, "total")
        f.call("ptr", "memset", results.item(loop.index).load("ptr"), f.i32(0), size)


_PARTS = {
    PartKind.FOLD: "fold_share", PartKind.FOLD_OWN: "fold_own", PartKind.GATHER: "blocks",
    PartKind.EXCHANGE: "blocks", PartKind.EXCHANGE_OPERANDS: "exchange_operands",
    PartKind.TAKE: "take", PartKind.TAKE_DYNAMIC: "take",
    PartKind.FOLD_ROOT: "fold_own", PartKind.RAGGED: "ragged",
}  # fmt: skip
_SIGNATURE = "frame:ptr, collective:ptr, seat:ptr, rendezvous:ptr, slot:ptr, kernels:ptr"


@_FUNCTIONS("do_part", "i32", _SIGNATURE, exported=True)
def _do_part(f: GlueFunction, *given: Ssa) -> None:
    """Does the part of one member after all members have started. Members that started different collectives
    stop the run. Engines that receive operands from other processes call this function too; data that is
    already in place is not copied.
    """
    frame, collective, _, rendezvous, _, _ = given
    slots = rendezvous.get(RENDEZVOUS, "slots")
    with f.loop(0, rendezvous.get(RENDEZVOUS, "size").cast("i64")) as loop:
        other = slots.item(loop.index, SLOT.size).get(SLOT, "collective")
        with f.if_(other.get(COLLECTIVE, "digest").ne(collective.get(COLLECTIVE, "digest")), likely=False):
            grid = frame.get(FRAME, "peers").get(PEERS, "grid")
            grid.set(GRID, "clash", rendezvous.get(RENDEZVOUS, "number").cast("i64") + 1)
            f.ret(f.i32(STOPPED))
    kind = collective.get(COLLECTIVE, "kind")
    for part, name in _PARTS.items():
        with f.if_(kind.eq(int(part))):
            f.ret(f.call("i32", name, *given))
    f.ret(f.i32(STOPPED))


# Folding: acc = f(acc, x), left to right in the order of the group, block by block.


@_FUNCTIONS("fold", "i32", f"{_SIGNATURE}, first:i64, low:i64, high:i64, offset:i64")
def _fold(
    f: GlueFunction, frame: Ssa, collective: Ssa, seat: Ssa, rendezvous: Ssa, slot: Ssa, kernels: Ssa,
    first: Ssa, low: Ssa, high: Ssa, offset: Ssa,
) -> None:  # fmt: skip
    """Reduces blocks [low, high) of operand `first`, or of all operands where one kernel reduces them
    together. The data of an operand begins `offset` bytes after its address. After the addresses of kernels,
    `kernels` has space for the addresses of one call.
    """
    count = collective.get(COLLECTIVE, "count")
    together = collective.get(COLLECTIVE, "together")
    arrays = f.select(together.eq(0), f.i64(1), count)
    moved = collective.at(COLLECTIVE.size).item(first, MOVED.size)
    kernel, addresses = kernels.item(first).load("ptr"), kernels.item(count)
    slots, size = rendezvous.get(RENDEZVOUS, "slots"), rendezvous.get(RENDEZVOUS, "size").cast("i64")
    results = slot.get(SLOT, "results").item(first)
    with f.loop(low, high) as blocks:
        begin = blocks.index * moved.get(MOVED, "bytes")
        starts = slots.get(SLOT, "operands").item(first)
        with f.loop(0, arrays) as array:
            result = results.item(array.index).load("ptr").at(begin)
            source = starts.item(array.index).load("ptr").at(offset + begin)
            length = f.call("i64", "block_length", moved.item(array.index, MOVED.size), blocks.index)
            f.call("ptr", "memcpy", result, source, length)
        with f.loop(1, size) as members:
            operands = slots.item(members.index, SLOT.size).get(SLOT, "operands").item(first)
            with f.loop(0, arrays) as array:
                result = results.item(array.index).load("ptr")
                addresses.item(array.index).store(result)
                addresses.item(arrays + array.index).store(operands.item(array.index).load("ptr").at(offset))
                addresses.item(arrays * 2 + array.index).store(result)
            code = f.call_pointer("i32", kernel, frame, addresses, blocks.index, blocks.index + 1)
            f.guard(code.ne(0), code)
    f.ret(f.i32(0))


@_FUNCTIONS("block_length", "i64", "moved:ptr, block:i64")
def _block_length(f: GlueFunction, moved: Ssa, block: Ssa) -> None:
    size = moved.get(MOVED, "bytes")
    left = moved.get(MOVED, "total") - block * size
    f.ret(f.select(left.lt(size), left, size))


def _folded(f: GlueFunction, collective: Ssa) -> Ssa:
    """The number of operands that are reduced or moved one by one."""
    together = collective.get(COLLECTIVE, "together")
    return f.select(together.eq(0), collective.get(COLLECTIVE, "count"), f.i64(1))


@_FUNCTIONS("fold_share", "i32", _SIGNATURE)
def _fold_share(f: GlueFunction, *given: Ssa) -> None:
    """Every member reduces a share of the blocks, and writes it to the results of all."""
    _, collective, seat, rendezvous, slot, _ = given
    slots, size = rendezvous.get(RENDEZVOUS, "slots"), rendezvous.get(RENDEZVOUS, "size").cast("i64")
    position, every = seat.get(SEAT, "position"), collective.get(COLLECTIVE, "count")
    with f.loop(0, every) as loop:
        moved = collective.at(COLLECTIVE.size).item(loop.index, MOVED.size)
        rows = moved.get(MOVED, "rows")
        low = f.call("i64", "share", rows, position, size)
        high = f.call("i64", "share", rows, position + 1, size)
        with f.if_(loop.index.lt(_folded(f, collective))):
            code = f.call("i32", "fold", *given, loop.index, low, high, f.i64(0))
            f.guard(code.ne(0), code)
        begin, end = low * moved.get(MOVED, "bytes"), high * moved.get(MOVED, "bytes")
        total = moved.get(MOVED, "total")
        end = f.select(end.lt(total), end, total)
        own = slot.get(SLOT, "results").item(loop.index).load("ptr").at(begin)
        with f.loop(0, size) as members:
            other = slots.item(members.index, SLOT.size).get(SLOT, "results").item(loop.index).load("ptr")
            f.call("void", "bring", other.at(begin), own, end - begin)
    f.ret(f.i32(0))


@_FUNCTIONS("share", "i64", "rows:i64, number:i64, parts:i64")
def _share(f: GlueFunction, rows: Ssa, number: Ssa, parts: Ssa) -> None:
    """The first of the rows in share `number`, where `rows` rows are divided into `parts` shares."""
    f.ret((rows * number).udiv(parts))


@_FUNCTIONS("fold_own", "i32", _SIGNATURE)
def _fold_own(f: GlueFunction, *given: Ssa) -> None:
    """Each member reduces its own part; or the root of each operand reduces all of it, and the other members
    get zeros.
    """
    _, collective, seat, rendezvous, slot, _ = given
    position = seat.get(SEAT, "position")
    scattered = collective.get(COLLECTIVE, "kind").eq(int(PartKind.FOLD_OWN))
    with f.loop(0, _folded(f, collective)) as loop:
        moved = collective.at(COLLECTIVE.size).item(loop.index, MOVED.size)
        root = f.call("i64", "root_of", collective, seat, rendezvous, slot, loop.index)
        f.guard(root.lt(0), f.i32(STOPPED))
        with f.if_((scattered | root.eq(position)) ^ 1):
            result = slot.get(SLOT, "results").item(loop.index).load("ptr")
            f.call("ptr", "memset", result, f.i32(0), moved.get(MOVED, "total"))
            loop.again()
        offset = f.select(scattered, position * moved.get(MOVED, "total"), f.i64(0))
        code = f.call("i32", "fold", *given, loop.index, f.i64(0), moved.get(MOVED, "rows"), offset)
        f.guard(code.ne(0), code)
    f.ret(f.i32(0))


@_FUNCTIONS("root_of", "i64", "collective:ptr, seat:ptr, rendezvous:ptr, slot:ptr, number:i64")
def _root_of(f: GlueFunction, collective: Ssa, seat: Ssa, rendezvous: Ssa, slot: Ssa, number: Ssa) -> None:
    """The position, in the group, of the root of operand `number`. If the collective has a root operand, its
    value is the position (-2 if the value is not a position); else the position is the source of this
    member's seat.
    """
    f.guard(collective.get(COLLECTIVE, "rooted").eq(0), seat.get(SEAT, "source"))
    said = slot.get(SLOT, "operands").item(collective.get(COLLECTIVE, "count")).load("ptr")
    root = f.cast("sext", said.item(number, 4).load("i32"), "i64")
    outside = root.lt(0) | root.ge(rendezvous.get(RENDEZVOUS, "size").cast("i64"))
    f.ret(f.select(outside, f.i64(-2), root))


# Functions that move data.


@_FUNCTIONS("bring", "void", "target:ptr, source:ptr, length:i64")
def _bring(f: GlueFunction, target: Ssa, source: Ssa, length: Ssa) -> None:
    with f.if_(target.ne(source)):
        f.call("ptr", "memcpy", target, source, length)


def _others(f: GlueFunction, given: tuple[Ssa, ...]) -> tuple[Ssa, Ssa, Ssa]:
    """(the slots of the rendezvous, the number of slots, the position of this member), from `given`, the
    arguments of the function that does a part.
    """
    _, _, seat, rendezvous, _, _ = given
    size = rendezvous.get(RENDEZVOUS, "size").cast("i64")
    return rendezvous.get(RENDEZVOUS, "slots"), size, seat.get(SEAT, "position")


@_FUNCTIONS("blocks", "i32", _SIGNATURE)
def _blocks(f: GlueFunction, *given: Ssa) -> None:
    """Copies blocks: row r of a result is a block of each member's row r. The block is the member's whole row
    or, in an exchange, the block in it for this member.
    """
    _, collective, _, _, slot, _ = given
    slots, size, position = _others(f, given)
    exchanged = collective.get(COLLECTIVE, "kind").eq(int(PartKind.EXCHANGE))
    with f.loop(0, collective.get(COLLECTIVE, "count")) as loop:
        moved = collective.at(COLLECTIVE.size).item(loop.index, MOVED.size)
        result, block = slot.get(SLOT, "results").item(loop.index).load("ptr"), moved.get(MOVED, "bytes")
        with f.loop(0, size) as members:
            source = slots.item(members.index, SLOT.size).get(SLOT, "operands").item(loop.index).load("ptr")
            with f.loop(0, moved.get(MOVED, "rows")) as rows:
                at = f.select(exchanged, rows.index * size + position, rows.index)
                target = result.at((rows.index * size + members.index) * block)
                f.call("void", "bring", target, source.at(at * block), block)
    f.ret(f.i32(0))


@_FUNCTIONS("exchange_operands", "i32", _SIGNATURE)
def _exchange_operands(f: GlueFunction, *given: Ssa) -> None:
    """Copies, for each member m, its operand for this member to result m."""
    _, collective, _, _, slot, _ = given
    slots, size, position = _others(f, given)
    with f.loop(0, size) as loop:
        source = slots.item(loop.index, SLOT.size).get(SLOT, "operands").item(position).load("ptr")
        result = slot.get(SLOT, "results").item(loop.index).load("ptr")
        total = collective.at(COLLECTIVE.size).item(loop.index, MOVED.size).get(MOVED, "total")
        f.call("void", "bring", result, source, total)
    f.ret(f.i32(0))


@_FUNCTIONS("take", "i32", _SIGNATURE)
def _take(f: GlueFunction, *given: Ssa) -> None:
    """Copies every operand from the source of this member, or from the operand's root; writes zeros without a
    source.
    """
    _, collective, seat, rendezvous, slot, _ = given
    with f.loop(0, collective.get(COLLECTIVE, "count")) as loop:
        source = f.call("i64", "root_of", collective, seat, rendezvous, slot, loop.index)
        f.guard(source.lt(-1), f.i32(STOPPED))
        result = slot.get(SLOT, "results").item(loop.index).load("ptr")
        total = collective.at(COLLECTIVE.size).item(loop.index, MOVED.size).get(MOVED, "total")
        with f.if_(source.lt(0)):
            f.call("ptr", "memset", result, f.i32(0), total)
            loop.again()
        operands = rendezvous.get(RENDEZVOUS, "slots").item(source, SLOT.size).get(SLOT, "operands")
        f.call("void", "bring", result, operands.item(loop.index).load("ptr"), total)
    f.ret(f.i32(0))


@_FUNCTIONS("ragged", "i32", _SIGNATURE)
def _ragged(f: GlueFunction, *given: Ssa) -> None:
    """Copies the output operand and writes over it, member by member, the data rows for this member. Operands
    are data, output, starts, sizes and places; the last three have one entry, or equally many entries, for
    each member.
    """
    _, collective, _, _, slot, _ = given
    slots, size, position = _others(f, given)
    moved = collective.at(COLLECTIVE.size)
    row, length = moved.get(MOVED, "bytes"), moved.item(1, MOVED.size).get(MOVED, "rows")
    result = slot.get(SLOT, "results").load("ptr")
    own = slot.get(SLOT, "operands").item(1).load("ptr")
    f.call("ptr", "memcpy", result, own, moved.item(1, MOVED.size).get(MOVED, "total"))
    count = collective.get(COLLECTIVE, "indices")
    each = count.udiv(size)
    each = f.select(each.lt(1), f.i64(1), each)
    with f.loop(0, size) as members:
        operands = slots.item(members.index, SLOT.size).get(SLOT, "operands")
        with f.loop(0, count) as entries:
            target = entries.index.udiv(each)
            target = f.select(target.lt(size), target, size - 1)
            with f.if_(target.ne(position)):
                entries.again()
            numbers = [operands.item(n).load("ptr") for n in (2, 3, 4)]
            start, rows, place = (f.call("i64", "index_at", collective, n, entries.index) for n in numbers)
            first = f.smax(f.smax(f.i64(0), f.i64(0) - start), f.i64(0) - place)
            last = f.smin(f.smin(rows, moved.get(MOVED, "rows") - start), length - place)
            with f.if_(first.lt(last)):
                source = operands.load("ptr").at((start + first) * row)
                f.call("ptr", "memcpy", result.at((place + first) * row), source, (last - first) * row)
    f.ret(f.i32(0))


@_FUNCTIONS("index_at", "i64", "collective:ptr, numbers:ptr, index:i64")
def _index_at(f: GlueFunction, collective: Ssa, numbers: Ssa, index: Ssa) -> None:
    """Entry `index` of the array `numbers`: starts, sizes or places, which are s64 or s32 numbers."""
    with f.if_(collective.get(COLLECTIVE, "index_bytes").eq(8)):
        f.ret(numbers.item(index).load("i64"))
    f.ret(f.cast("sext", numbers.item(index, 4).load("i32"), "i64"))
