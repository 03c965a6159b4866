"""Copies of modules and computations, inlining of calls, and fingerprints that are equal for equal
computations.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from axla.core.literal import ElidedLiteral, Literal
from axla.ir.graph import NO_EXTRA, Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.structure import Parameter
from axla.ir.traverse import computations_callees_first, needed_first, post_order


def clone_module(module: Module, name: str = "") -> Module:
    """A copy of a module with the same names; `name` is a new name for the module."""
    copy = Module(name or module.name, module.config)
    mapping: dict[Computation, Computation] = {}
    for computation in computations_callees_first(module):
        _clone_into(copy, computation, mapping)
    copy.set_entry(mapping[module.entry])
    order = {mapping[c]: number for number, c in enumerate(module.computations)}
    copy.order_computations(lambda c: order[c])
    return copy


def clone_computation(
    source: Computation, module: Module | None = None, *, name: str = "",
    mapping: dict[Computation, Computation] | None = None,
) -> Computation:  # fmt: skip
    """Copies a computation within its module, or into `module`.

    Within its module, the copy calls the same computations as the original; for another module, these are
    copied as well. `mapping` (original -> copy) holds copies that exist already; new copies are added to it.
    """
    module = module or source.module
    mapping = {} if mapping is None else mapping
    if module is not source.module:
        for called in called_first(source):
            if called is not source and called not in mapping:
                _clone_into(module, called, mapping)
    return _clone_into(module, source, mapping, name)


def own_computations(module: Module, kinds: tuple[type[Op], ...]) -> list[Computation]:
    """Copies called computations, from the entry on, so that no two instructions of the op classes `kinds`
    call the same computation. Returns the entry and all computations that these instructions call.
    """
    found = {module.entry: None}
    pending = [module.entry]

    def own(called: Computation) -> Computation:
        if called in found:
            called = clone_computation(called)
        found[called] = None
        pending.append(called)
        return called

    while pending:
        computation = pending.pop()
        for inst in list(computation.instructions):
            if type(inst.op) in kinds:
                changed = inst.op.with_computations(own)
                if changed.computations() != inst.op.computations():
                    computation.set_op(inst, changed)
    return list(found)


def stand_alone(source: Computation, name: str) -> Computation:
    """Copies a computation, with all computations that it calls, as the entry of a new module."""
    module = Module(name)
    copy = clone_computation(source, module)
    module.set_entry(copy)
    return copy


def called_first(root: Computation) -> list[Computation]:
    """The computation and all computations that it calls, directly or not, each after those that it calls."""
    return needed_first((root,), _called_last_first)


def _called_last_first(computation: Computation) -> list[Computation]:
    calls = [i.op.computations() for i in computation.instructions if i.op.computation_fields]
    return [called for found in reversed(calls) for called in reversed(found)]


def _clone_into(
    module: Module, source: Computation, mapping: dict[Computation, Computation], name: str = ""
) -> Computation:
    target = module.add_computation(name or source.name)
    mapping[source] = target
    copies = copy_instructions(source, target, {}, called=lambda c: mapping.get(c, c))
    # Keeps the order of the schedule, or else of the text; copying goes by post order.
    order = (source.module.schedule or {}).get(source, source.instructions)
    target.reorder([copies[i] for i in order])
    target.set_root(copies[source.root])
    if source.module.schedule is None:
        target.cached_order, target.cached_order_version = tuple(copies.values()), target.version
    target.extra = source.extra
    return target


def copy_instructions(
    source: Computation, target: Computation, values: Mapping[Instruction, Instruction],
    wanted: Container[Instruction] | None = None, called: Callable[[Computation], Computation] = lambda c: c,
) -> dict[Instruction, Instruction]:  # fmt: skip
    """Copies instructions of `source` (all, or those in `wanted`) into the computation `target`. `values`
    maps instructions that are not copied to replacements, which the copied users get as operands. Returns a
    map from each instruction to its replacement or copy. `called` returns the computation that a copy calls
    instead of the original's.
    """
    copies: dict[Instruction, Instruction] = dict(values)
    for inst in post_order(source):
        if inst in copies or (wanted is not None and inst not in wanted):
            continue
        op = inst.op
        if op.computation_fields:
            op = op.with_computations(called)
        extra = inst.extra
        if extra is not NO_EXTRA and extra.control_predecessors:
            extra = replace(extra, control_predecessors=tuple(copies[p] for p in extra.control_predecessors))
        operands = [copies[o] for o in inst.operands]
        copies[inst] = target.add(op, operands, inst.shape, name=inst.name, extra=extra)
    return copies


def inline(caller: Instruction, body: Computation, operands: Sequence[Instruction]) -> Instruction:
    """Copies the instructions of `body` into the computation of `caller`, with `operands` in place of the
    parameters. Returns the copy of the root.
    """
    target = caller.computation
    values = dict(zip(body.parameters, operands, strict=True))
    copies = copy_instructions(body, target, values)
    location = caller.extra.location
    before = caller.extra.control_predecessors
    if location is not None or before:
        for inst, copy in copies.items():
            if inst in values:
                continue
            extra = copy.extra
            if extra.location is None or before:
                extra = replace(
                    extra, location=extra.location or location,
                    control_predecessors=(*extra.control_predecessors, *before),
                )  # fmt: skip
                target.set_extra(copy, extra)
    return copies[body.root]


def fingerprint(computation: Computation, *, max_constant_bytes: int | None = None) -> str:
    """A digest of what a computation computes: of ops, shapes with layouts, and constants, but not of names
    or the order of the text.

    Of constants larger than `max_constant_bytes`, only the shape counts.
    """
    done: dict[Computation, str] = {}
    for called in called_first(computation):
        done[called] = _digest(called, done, max_constant_bytes)
    return done[computation]


def numbered(computation: Computation) -> dict[Instruction, int]:
    """Numbers the instructions in an order, operands first, that depends on the structure alone: equal
    computations get equal numbers.
    """
    below = needed_first((computation.root,), lambda inst: inst.operands)
    order = dict.fromkeys((*below, *computation.parameters, *post_order(computation)))
    return {inst: number for number, inst in enumerate(order)}


def _digest(computation: Computation, called: Mapping[Computation, str], limit: int | None) -> str:
    numbers = numbered(computation)
    texts: dict[Any, str] = {}
    lines: list[str] = []
    for inst in numbers:
        op = inst.op
        text = texts.get(op)
        if text is None:
            text = texts[op] = op.opcode + _attributes_text(op, called, limit)
        extra = inst.extra
        if extra is not NO_EXTRA:
            # only what the compiler reads; the source location has no effect on the code
            text += f"{extra.backend_config}{extra.sharding or ''}"
        operands = ",".join([str(numbers[o]) for o in inst.operands])
        lines.append(f"{text}({operands}){inst.shape}")
    lines.append(str(numbers[computation.root]))
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def _attributes_text(op: Any, called: Mapping[Computation, str], limit: int | None) -> str:
    if type(op) is Parameter:
        return str(op.parameter_number)
    parts = []
    for attribute in op.attributes:
        value = getattr(op, attribute.name)
        if isinstance(value, Literal):
            value = _literal_text(value, limit)
        elif attribute.name in op.computation_fields:
            value = ",".join(
                called[c] for c in (value if isinstance(value, tuple) else (value,)) if c is not None
            )
        parts.append(f"{attribute.name}={value}")
    return "{" + ";".join(parts) + "}"


def _literal_text(literal: Literal, limit: int | None) -> str:
    if isinstance(literal, ElidedLiteral):
        return f"{literal.shape}#{id(literal)}"  # the values are unknown, so that the text must be unique
    parts = []
    for leaf in literal.leaves():
        raw = leaf.array.tobytes() if limit is None or leaf.array.nbytes <= limit else b""
        parts.append(f"{leaf.shape}{blake2b(raw, digest_size=16).hexdigest() if raw else ''}")
    return "/".join(parts)
