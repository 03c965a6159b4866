"""Rules for pairs of a start and a done: each start has one done.

pair_user      a start has one user: its update, its done, or one that passes it on
pair_operand   the operand of a done (or update) is its start
pair_result    the done of an asynchronous call has the shape of the called computation's result
"""

from __future__ import annotations

from collections.abc import Mapping

from axla.ir.families import Beginning
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import post_order
from axla.ir.typed import applies
from axla.ir.verify.failure import fail

_BEGUN = ("async-start", "async-update")
_GOES_ON = ("async-update", "async-done")
_CARRIES = ("tuple", "while", "conditional", "call", "opt-barrier")
"""The ops that may pass an asynchronous call on to its done in another computation."""


def verify_pairs(module: Module, callers: Mapping[Computation, list[Instruction]]) -> None:
    """Checks the start and the done of every pair. A transfer without a done may be the root of a computation
    that an async-start calls. `callers` has the callers of each computation.
    """
    for computation in module.computations:
        called = any(c.opcode == "async-start" for c in callers.get(computation, ()))
        begun = False
        for inst in computation.instructions:
            opcode, op = inst.op.opcode, type(inst.op)
            transfer = op.effect == "transfers"  # its done may be in a loop's next iteration, in a tuple
            if op.ended_by is not None and not (called and transfer):
                done = op.ended_by.opcode
                _verify_user(inst, (done, "tuple") if transfer else (done,))
            if op.ends is not None:
                start = op.ends.opcode
                _verify_operand(inst, (start, "get-tuple-element") if transfer else (start,))
            if opcode in _BEGUN:
                begun = True
                _verify_goes_on(inst, computation is not module.entry)
            elif opcode == "async-done":
                _verify_operand(inst, _BEGUN)
        if begun:
            _verify_results(computation)


def _verify_operand(inst: Instruction, wanted: tuple[str, ...]) -> None:
    if inst.operands[0].opcode not in wanted:
        one, found = " or ".join(wanted), inst.operands[0]
        fail("pair_operand", f"{inst!r}: the operand of {inst.opcode} must be {one}, found {found!r}")


def _verify_user(inst: Instruction, wanted: tuple[str, ...]) -> None:
    one = " or ".join(wanted)
    if len(inst.users) != 1:
        fail("pair_user", f"{inst!r}: {inst.opcode} needs one user, {one}; found {_listed(inst)}")
    user = next(iter(inst.users))
    if user.opcode not in wanted:
        fail("pair_user", f"{inst!r}: the user of {inst.opcode} must be {one}, found {user!r}")


def _listed(inst: Instruction) -> str:
    found = ", ".join(f"%{u.name}" for u in list(inst.users)[:4])
    return f"{len(inst.users)}: {found}" if found else "none"


def _verify_goes_on(inst: Instruction, may_leave: bool) -> None:
    """Checks that an asynchronous call has one update or done as user, or is passed on by a tuple, call or
    other op of `_CARRIES`, or, if `may_leave`, as the root of its computation.
    """
    next_steps = [u for u in inst.users if u.opcode in _GOES_ON]
    carriers = [u for u in inst.users if u.opcode in _CARRIES]
    carried = bool(carriers) or (may_leave and inst is inst.computation.root)
    wrong = len(next_steps) + len(carriers) != len(inst.users)
    if wrong or len(next_steps) > 1 or not (next_steps or carried):
        one = " or ".join(_GOES_ON)
        fail("pair_user", f"{inst!r}: {inst.opcode} needs one user, {one}; found {_listed(inst)}")


def _verify_results(computation: Computation) -> None:
    """Checks that a done has the shape of the called computation's result, also if the start declares only a
    part of it.
    """
    starts: dict[Instruction, Instruction[Beginning]] = {}
    for inst in post_order(computation):
        if applies(inst, Beginning):
            starts[inst] = inst
        elif inst.opcode in _GOES_ON:
            if inst.opcode == "async-update":
                _verify_operand(inst, _BEGUN)
            start = starts[inst] = starts[inst.operands[0]]
            called = start.op.calls
            result = called.root.shape
            if inst.opcode == "async-done" and inst.shape.logical is not result.logical:
                found, wanted = inst.shape.to_string(layout=False), result.to_string(layout=False)
                fail("pair_result", f"{inst!r}: {called.name} returns {wanted}, but the shape is {found}")
