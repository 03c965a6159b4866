"""Passes for calls: they inline calls, and give each call its own computation."""

from __future__ import annotations

from dataclasses import replace

from axla.core.errors import CompileError
from axla.core.shape import AnyShape
from axla.hlo import Call, Conditional, Copy, Fusion, While
from axla.ir.clone import inline, own_computations
from axla.ir.graph import NO_EXTRA, Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first
from axla.passes.rewrite import current_session
from axla.passes.simplify.dce import remove_dead_computations

GROWTH = 100_000
"""The most instructions that inlining may add. Calls nested n deep can stand for 2^n instructions."""

CLONES = 200_000
"""The most instructions that copies of shared computations may add."""


def call_inliner(module: Module) -> None:
    """Inlines calls until they have added GROWTH instructions."""
    _inline_all(module, Call, "to_apply", "call-inliner")


def defuse(module: Module) -> None:
    """Inlines fusions that the program contains, since axla decides itself which instructions to fuse."""
    _inline_all(module, Fusion, "calls", "defuse")


def _inline_all(module: Module, kind: type[Op], field: str, name: str) -> None:
    if _written_out(module)[module.entry] > GROWTH + CLONES:
        return  # lowering raises an error if simplification does not make the module smaller
    session = current_session()
    left = GROWTH
    for computation in computations_callees_first(module):
        found = [i for i in computation.instructions if type(i.op) is kind and may_inline(i)]
        if not found:
            continue
        successors = control_successors(computation)
        for call in found:
            body: Computation = getattr(call.op, field)
            left -= len(body.instructions)
            if left < 0 or not session.may_fire(name, call):
                break
            _inline(call, body, successors.get(call, []))
    remove_dead_computations(module)


def _written_out(module: Module) -> dict[Computation, int]:
    """The number of instructions of each computation with all its calls inlined."""
    sizes: dict[Computation, int] = {}
    for computation in computations_callees_first(module):
        called = (c for i in computation.instructions for c in i.op.computations())
        sizes[computation] = len(computation.instructions) + sum(sizes.get(c, 0) for c in called)
    return sizes


def may_inline(call: Instruction) -> bool:
    """Whether a call may be inlined: the program can forbid it by
    frontend_attributes={inlineable="false"}.
    """
    return ("inlineable", "false") not in call.extra.frontend_attributes


def control_successors(computation: Computation) -> dict[Instruction, list[Instruction]]:
    """Maps each instruction to the instructions that have it as a control predecessor."""
    found: dict[Instruction, list[Instruction]] = {}
    for inst in computation.instructions:
        if inst.extra is not NO_EXTRA:
            for before in inst.extra.control_predecessors:
                found.setdefault(before, []).append(inst)
    return found


def _inline(call: Instruction, body: Computation, successors: list[Instruction]) -> None:
    computation = call.computation
    last = next(reversed(computation.instructions))
    pairs = zip(body.parameters, call.operands, strict=True)
    root = inline(call, body, [in_layout(operand, parameter.shape) for parameter, operand in pairs])
    computation.replace(call, in_layout(root, call.shape))
    if successors:
        made: list[Instruction] = []
        for inst in reversed(computation.instructions):
            if inst is last:
                break
            made.append(inst)
        made.reverse()
        for waiting in successors:
            before = [p for p in waiting.extra.control_predecessors if p is not call]
            computation.set_extra(waiting, replace(waiting.extra, control_predecessors=(*before, *made)))
    computation.remove(call)


def in_layout(inst: Instruction, shape: AnyShape) -> Instruction:
    """`inst` if it has the shape and layout of `shape`; else a copy of it in that layout, since the results
    of bitcasts depend on the layout.
    """
    if inst.shape is shape or not shape.is_array:
        return inst
    return inst.computation.add(Copy(), (inst,), shape)


def flatten_call_graph(module: Module) -> None:
    """Gives every while, conditional and call its own computations, so that each can have its own buffers."""
    # Computations applied to scalars inside a kernel (reduce, map, sort, scatter, fusion) have no buffers and
    # stay shared.
    _check_copies(module)
    own_computations(module, (While, Conditional, Call))
    remove_dead_computations(module)


def _check_copies(module: Module) -> None:
    """Raises CompileError for modules in which copies of shared computations would add too many instructions.
    Counts them before anything is copied.
    """
    sizes = _written_out(module)
    if sizes[module.entry] - sum(len(c.instructions) for c in sizes) <= CLONES:
        return
    first = next((c for c, size in sizes.items() if size > CLONES), module.entry)
    why = f"their copies add more than {CLONES} instructions"
    raise CompileError(f"computation {first.name} calls others from so many places that {why}")
