"""Removes the rounding of bf16 results that are read as f32 (xla_allow_excess_precision)."""

from __future__ import annotations

from dataclasses import replace

from axla.core import flags
from axla.core.dtypes import BF16, F32
from axla.core.shape import Shape
from axla.hlo import Convert, Convolution, Copy, Dot, Reshape, StochasticConvert, Transpose
from axla.ir.graph import Instruction, Module
from axla.ir.typed import shape_of
from axla.passes import rewrite


def float_normalization(module: Module) -> None:
    """Computes elementwise ops, dots and convolutions of bf16 in f32 if the result is converted to f32 next.

    XLA computes every bf16 op in f32 and then rounds. If the rounded value is converted back to f32, XLA
    drops both conversions; it does this only for bf16, and never for a pair of converts that the program
    contains. Ops that only move elements may be between a dot and the conversion.
    """
    if not flags.current().allow_excess_precision:
        return
    session = rewrite.current_session()
    for computation in module.computations:
        bound = rewrite.control_bound(computation)
        for inst in list(computation.instructions):
            if inst in bound or not _is_computed(inst):
                continue
            readers = [r for u in inst.users if (r := _reader(inst, u)) is not None and r not in bound]
            if readers and session.may_fire("float-normalization-bf16", inst):
                _widen(inst, readers)


def _dtype(inst: Instruction) -> object:
    return inst.shape.dtype if isinstance(inst.shape, Shape) else None


def _is_computed(inst: Instruction) -> bool:
    op = inst.op
    if _dtype(inst) is not BF16 or type(op) in (Convert, StochasticConvert):
        return False
    return op.elementwise or (isinstance(op, Dot) and not op.sparsity) or isinstance(op, Convolution)


def _reader(inst: Instruction, user: Instruction) -> Instruction | None:
    """The convert to f32 that reads an instruction, directly or, for a dot, through ops that move elements;
    None if `user` is no such reader.
    """
    while isinstance(inst.op, Dot) and type(user.op) in (Transpose, Reshape, Copy) and len(user.users) == 1:
        if user is user.computation.root:
            return None
        (user,) = user.users
    if type(user.op) is not Convert or _dtype(user) is not F32:
        return None
    source = shape_of(user.operands[0])
    # None if the convert has other dynamic sizes than its operand
    return user if user.shape.logical is source.with_dtype(F32).logical else None


def _moved(new: Instruction, old: Instruction, inst: Instruction) -> Instruction:
    """Applies to `new`, which replaces `inst`, the ops that compute `old` from `inst`."""
    path = []
    while old is not inst:
        path.append(old)
        (old,) = old.operands
    for move in reversed(path):
        shape = shape_of(move).with_dtype(F32)
        op = replace(move.op, shape=shape.logical) if isinstance(move.op, Reshape) else move.op
        new = new.computation.add(op, (new,), shape, extra=move.extra)
    return new


def _widen(inst: Instruction, readers: list[Instruction]) -> None:
    computation, op = inst.computation, inst.op
    shape = shape_of(inst).with_dtype(F32)
    operands = inst.operands
    if isinstance(op, Dot | Convolution):  # these multiply bf16 operands exactly
        op = replace(op, shape=shape)
    else:
        wide = {o: _wide(o) if _dtype(o) is BF16 else o for o in dict.fromkeys(operands)}
        operands = tuple(wide[o] for o in operands)
    new = computation.add(op, operands, shape, name=inst.name, extra=inst.extra)
    for reader in readers:
        source = reader.operands[0]
        computation.replace(reader, _moved(new, source, inst))
        computation.remove(reader)
        rewrite.sweep(computation, [source], held=(inst,))
    if inst.users or inst is computation.root:
        rounded = computation.add(Convert(shape_of(inst).logical), (new,), inst.shape)
        computation.replace(inst, rounded)
    computation.remove(inst)


def _wide(x: Instruction) -> Instruction:
    shape = shape_of(x).with_dtype(F32)
    return x.computation.add(Convert(shape.logical), (x,), shape)
