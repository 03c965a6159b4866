"""Rules for calls: fusions, execution threads, composites, aliased operands.

fusion_called     only one fusion calls a fused computation; its root has no users, all else has
call_thread       a called computation runs on the caller's thread, or on the one of its async-start
call_sharding     a loop and its body, a branch and its branches have the same sharding
call_precision    the computation of a reduction has the element types of its operands
call_composite    a composite call has frontend attributes: composite.name, not empty, a
                  composite.version that is a number of at least 0, composite.attributes not empty
operand_aliasing  output_to_operand_aliasing of a fusion or async-start names leaves that exist, have the
                  same shape and layout, and occur once; for an async-start also in the computation
custom_call_seed  GetRngSeed takes no operands and returns u64[]
custom_call_mark  custom calls that only annotate a value return it with the same shape
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from axla.core.dtypes import U64
from axla.core.shape import AnyShape, Shape
from axla.ir.families import Applying, Beginning, Calling, Composite, External, Looping
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.typed import applies
from axla.ir.verify.failure import fail
from axla.ir.verify.header import leaf
from axla.ir.verify.placement import same_order

MAIN = "main"


def thread_of(computation: Computation) -> str:
    """The execution thread of a computation; "main" if none is named."""
    return dict(computation.extra.more).get("execution_thread", MAIN) if computation.extra.more else MAIN


def verify_called(module: Module, callers: Mapping[Computation, list[Instruction]]) -> None:
    """Checks all calls of each called computation. `callers` has the instructions that call it."""
    for computation, calls in callers.items():
        if any(c.opcode == "fusion" for c in calls):
            _verify_fused(module, computation, calls)
        thread = thread_of(computation)
        for call in calls:
            wanted = thread_of(call.computation)
            if applies(call, Beginning):
                wanted = call.op.async_execution_thread
            elif call.opcode in ("async-update", "async-done"):
                continue
            if thread != wanted:
                message = f"{call!r}: {computation.name} must run on the thread {wanted}, found {thread}"
                fail("call_thread", message)


def _verify_fused(module: Module, computation: Computation, calls: list[Instruction]) -> None:
    if computation is module.entry:
        fail("module_entry", f"{calls[0]!r} calls the entry computation {computation.name}")
    if len(calls) > 1:
        message = f"{calls[1]!r}: the fused computation {computation.name} is called by {calls[0]!r} too"
        fail("fusion_called", message)
    for inst in computation.instructions:
        if inst is computation.root:
            if inst.users:
                fail("fusion_called", f"{inst!r} is the root of {computation.name} and must have no users")
        elif not inst.users:
            fail("fusion_called", f"{inst!r} of the fused computation {computation.name} must have users")


def _verify_same_sharding(call: Instruction) -> None:
    op = call.op
    if isinstance(op, Looping):
        others = [op.body.root, op.body.parameters[0], op.condition.parameters[0]]
    else:
        others = [branch.root for branch in op.computations()]
    said = [inst for inst in (call, *others) if inst.extra.sharding]
    for inst in said[1:]:
        if inst.extra.sharding != said[0].extra.sharding:
            one, other = inst.extra.sharding, said[0].extra.sharding
            fail("call_sharding", f"{inst!r}: sharding {{{one}}}, wanted {{{other}}} as of {said[0]!r}")


def _verify_composite(call: Instruction[Composite]) -> None:
    if not call.op.is_composite:
        return
    found = dict(call.extra.frontend_attributes)
    version = found.get("composite.version", "0").strip()
    if not found.get("composite.name"):
        problem = "composite.name is wanted, not empty"
    elif found.get("composite.attributes") == "":
        problem = "composite.attributes must not be empty"
    elif not version.isdecimal():
        problem = f"composite.version must be a number of at least 0, found {version!r}"
    else:
        return
    fail("call_composite", f"{call!r}: frontend attributes of a composite: {problem}")


def _verify_aliasing(call: Instruction[Calling]) -> None:
    op = call.op
    results = [call.shape, op.calls.root.shape]
    for number, alias in enumerate(op.output_to_operand_aliasing):
        if not 0 <= alias.operand < len(call.operands):
            found = f"operand {alias.operand} of {len(call.operands)}"
            fail("operand_aliasing", f"{call!r}: output_to_operand_aliasing names {found}")
        source = leaf(call.operands[alias.operand].shape, alias.index)
        targets = [found for shape in results if (found := leaf(shape, alias.output)) is not None]
        if source is None or not targets:
            where = f"leaf {alias.index} of operand {alias.operand} or {alias.output} of the result"
            fail("operand_aliasing", f"{call!r}: output_to_operand_aliasing: there is no {where}")
        if not any(_same_place(source, target) for target in targets):
            found = f"{source} of operand {alias.operand} is not {targets[0]}"
            fail("operand_aliasing", f"{call!r}: output_to_operand_aliasing: {found}")
        for other in op.output_to_operand_aliasing[:number]:
            if other.output == alias.output or (other.operand, other.index) == (alias.operand, alias.index):
                fail("operand_aliasing", f"{call!r}: output_to_operand_aliasing: {alias} and {other} overlap")


def _same_place(one: AnyShape, other: AnyShape) -> bool:
    """Whether two shapes are equal, and have the same layout."""
    return one.logical is other.logical and same_order(one, other)


_MARKS = {"annotate_device_placement", "MoveToDevice", "MoveToHost", "Sharding"}


def _verify_custom_call(call: Instruction[External]) -> None:
    target = call.op.custom_call_target
    if target == "GetRngSeed" and (call.operands or call.shape.logical is not Shape(U64)):
        fail("custom_call_seed", f"{call!r}: GetRngSeed takes no operands and returns u64[]")
    marked = [o.shape.logical for o in call.operands[:1]]
    if target in _MARKS and marked != [call.shape.logical]:
        fail("custom_call_mark", f"{call!r}: {target} must have a result of the shape of its operand")


def _verify_reduction(inst: Instruction[Applying]) -> None:
    called = inst.op.to_apply
    for number, (parameter, operand) in enumerate(zip(called.parameters, inst.operands, strict=True)):
        if parameter.shape.dtype is not operand.shape.dtype:
            found, wanted = parameter.shape.to_string(layout=False), operand.shape.to_string(layout=False)
            message = f"{inst!r}: parameter {number} of {called.name} is {found}, but the operand is {wanted}"
            fail("call_precision", message)


RULES: dict[str, Callable[[Instruction[Any]], None]] = {
    "async-start": _verify_aliasing,
    "call": _verify_composite,
    "conditional": _verify_same_sharding,
    "custom-call": _verify_custom_call,
    "fusion": _verify_aliasing,
    "reduce": _verify_reduction,
    "reduce-window": _verify_reduction,
    "while": _verify_same_sharding,
}
