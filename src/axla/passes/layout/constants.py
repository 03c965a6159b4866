"""Stores constants once, in the layout that kernels read.

Ops that only move elements of large constants are evaluated here; `constant-folding` does not evaluate them
if that takes long. A matrix that only dots read, in panels, is stored as [n / panel, k, panel], or as [n /
panel, k / word, panel, word] for instructions that multiply words of several short numbers. A matrix that is
multiplied by one row is transposed if its columns cannot be divided into panels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.dtypes import S8
from axla.core.literal import ElidedLiteral, Literal, MovedLiteral
from axla.core.shape import Shape
from axla.hlo import Bitcast, Concatenate, Constant, Convolution, Dot, Reshape, Reverse, Slice, Transpose
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.kernels.convolution import panels_wanted, unpacked
from axla.kernels.dot import dot_sizes, is_positive, plan_product, row_panel
from axla.kernels.plan import accumulation_type
from axla.kernels.product import NEVER_NEGATIVE, GemmSpec
from axla.passes import rewrite
from axla.passes.layout.normalize import reshaped
from axla.passes.simplify.ranges import range_of
from axla.target.machine import Target

LEAST = 1 << 16
"""The least size in bytes of a matrix that is stored in panels. Smaller ones are packed in microseconds."""

_MOVES = (Bitcast, Concatenate, Reshape, Reverse, Slice, Transpose)


def constant_layout(module: Module, target: Target) -> None:
    """Evaluates ops that move elements of constants, and stores matrices of dots in panels."""
    session = rewrite.current_session()
    for computation in module.computations:
        bound = rewrite.control_bound(computation)
        for inst in post_order(computation):
            free = bound.isdisjoint((inst, *inst.operands))
            if free and _is_moved(inst) and session.may_fire("constant-layout", inst):
                _replace(inst, _moved(inst))
        if target.local_bytes:
            continue
        for inst in post_order(computation):
            product = isinstance(inst.op, Dot | Convolution) and inst not in bound
            if product and _is_marked_wrong(inst) and session.may_fire("constant-layout", inst):
                _mark(inst)
        for inst in post_order(computation):
            sizes = _of_kernel(inst, target) if inst not in bound else None
            if sizes is not None and session.may_fire("constant-layout", inst):
                _store_kernel(inst, *sizes)
        if not target.blocks_products:
            continue
        for inst in post_order(computation):
            sizes = _in_panels(inst, target) if bound.isdisjoint((inst, *inst.users)) else None
            if sizes is not None and session.may_fire("constant-layout", inst):
                _store_panels(inst, *sizes)


def _array(inst: Instruction) -> np.ndarray | None:
    literal = op_of(inst, Constant).literal if type(inst.op) is Constant else None
    known = literal is not None and literal.shape.is_array and not isinstance(literal, ElidedLiteral)
    return literal.values if literal is not None and known else None


def _is_moved(inst: Instruction) -> bool:
    if not isinstance(inst.op, _MOVES) or not inst.shape.is_array or inst.shape.size < LEAST // 4:
        return False
    if type(inst.op) is Bitcast and shape_of(inst).dtype is not shape_of(inst.operands[0]).dtype:
        return False
    # The op is the only user of each constant, so the result replaces their memory.
    return all(_array(o) is not None and len(o.users) == 1 for o in inst.operands)


def _moved(inst: Instruction) -> np.ndarray:
    arrays = [_array(o) for o in inst.operands]
    if isinstance(inst.op, Bitcast):
        return np.reshape(arrays[0], shape_of(inst).dims)  # type: ignore[arg-type]
    return inst.op.evaluate(*arrays)  # type: ignore[attr-defined]


def _replace(inst: Instruction, values: np.ndarray) -> None:
    computation, operands = inst.computation, inst.operands
    literal = _literal(values, inst)
    computation.replace(inst, computation.add(Constant(literal.shape, literal), extra=inst.extra))
    computation.remove(inst)
    for operand in dict.fromkeys(operands):
        computation.remove(operand)


def _literal(values: np.ndarray, inst: Instruction) -> Literal:
    """A literal of `values` with the element type of `inst`. It refers to the values, without a copy."""
    shape = Shape(shape_of(inst).dtype, values.shape)
    values.flags.writeable = False
    return Literal(shape, values) if values.flags.c_contiguous else MovedLiteral(shape, values)


def _is_marked_wrong(inst: Instruction) -> bool:
    """Whether the mark NEVER_NEGATIVE of a product is wrong: it is missing though the first operand is known
    never to be negative, or present though that is not known.
    """
    found = range_of(inst.operands[0])
    known = found is not None and found[0] >= 0 and shape_of(inst.operands[0]).dtype is S8
    return known is not (inst.extra.backend_config == NEVER_NEGATIVE)


def _mark(inst: Instruction) -> None:
    config = "" if inst.extra.backend_config == NEVER_NEGATIVE else NEVER_NEGATIVE
    inst.computation.set_extra(inst, replace(inst.extra, backend_config=config))


def _in_panels(inst: Instruction, target: Target) -> tuple[int, int] | None:
    """The panel width and word size that all users of a constant want. None if they disagree, or if the
    constant is too small. A width of 0 means that the users want the transposed matrix.
    """
    if type(inst.op) is not Constant or _array(inst) is None or inst is inst.computation.root:
        return None
    wanted = _agreed(_panel(user, inst, target) for user in inst.users)
    least = LEAST // 16 if wanted and wanted[1] > 1 else LEAST  # bytes are packed into words slowly
    return wanted if wanted and shape_of(inst).byte_size >= least else None


def _agreed(found: Iterable[Any]) -> Any:
    """The value that all entries have; None if they differ or there are none."""
    values = set(found)
    return values.pop() if len(values) == 1 else None


def _of_kernel(inst: Instruction, target: Target) -> tuple[int, int] | None:
    """The panel width and word size that all convolutions with a constant as their kernel want, if they
    agree, else None.
    """
    if type(inst.op) is not Constant or _array(inst) is None or inst is inst.computation.root:
        return None
    if any(type(user.op) is not Convolution for user in inst.users):
        return None
    wanted = _agreed(
        panels_wanted(user, target) if user.operands[1] is inst is not user.operands[0] else None
        for user in inst.users
    )
    # A smaller constant would become part of the machine code, but panels must be in memory.
    least = target.limits.constant_bytes + 1 if wanted and wanted[1] > 1 else LEAST
    return wanted if wanted and shape_of(inst).byte_size >= least else None


def _store_kernel(inst: Instruction, width: int, word: int) -> None:
    values, computation = _array(inst), inst.computation
    assert values is not None
    *window, inputs, features = values.shape
    values = np.moveaxis(values.reshape(*window, inputs // word, word, features // width, width), -2, 0)
    values = values.swapaxes(-1, -2)
    literal = _literal(values if word > 1 else values[..., 0], inst)
    stored = computation.add(Constant(literal.shape, literal), name=f"{inst.name}.panels", extra=inst.extra)
    computation.replace(inst, unpacked(stored, shape_of(inst).logical))
    computation.remove(inst)


def _panel(dot: Instruction, rhs: Instruction, target: Target) -> tuple[int, int] | None:
    sizes = dot_sizes(dot)
    if sizes is None or sizes[0] != 1 or dot.operands[1] is not rhs or dot.operands[0] is rhs:
        return None
    left, right, result = (shape_of(i).dtype for i in (*dot.operands, dot))
    if rhs.shape.rank != 2 or left is not right or not dot.shape.size:
        return None
    spec = GemmSpec(left, result, *sizes, positive=is_positive(dot)).by_words(target)
    plain = left is result is accumulation_type(result) and result.is_float
    if not plain and (spec.word == 1 or spec.missing or spec.lhs_transposed):
        return None
    plan = plan_product(spec, target)
    if spec.m == 1 and plan.method in ("columns", "rows"):
        width, far = row_panel(spec, target), rhs.shape.byte_size > target.caches.l2
        transposed = plan.method == "columns" and (far or spec.word > 1)
        return (width, spec.word) if width else (0, 1) if transposed else None
    width = plan.tile.columns
    whole = plan.method == "tile" and plan.pack_rhs and sizes[2] % width == 0
    return (width, spec.word) if whole else None


def _store_panels(inst: Instruction, panel: int, word: int) -> None:
    computation = inst.computation
    values = _array(inst)
    assert values is not None
    stored: dict[bool, Instruction] = {}
    for dot in list(inst.users):
        op = op_of(dot, Dot)
        transposed, rows = op.rhs_contracting_dims == (1,), shape_of(dot).dims[0]
        matrix = values.T if transposed else values
        depth, columns = matrix.shape
        if transposed not in stored:
            found = _literal(_laid_out(matrix, panel, word), inst)
            name = f"{inst.name}.{'panels' if panel else 'transposed'}"
            stored[transposed] = computation.add(Constant(found.shape, found), name=name, extra=inst.extra)
        new, lhs = replace(op, rhs_contracting_dims=(1,)), dot.operands[0]
        if panel:
            new = replace(new, shape=shape_of(dot).with_dims((rows, columns // panel, panel)).logical)
            if word > 1:
                new = replace(new, lhs_contracting_dims=(1, 2), rhs_contracting_dims=(1, 3))
                lhs = reshaped(lhs, (rows, depth // word, word))
        made = computation.add(new, [lhs, stored[transposed]], extra=dot.extra)
        computation.replace(dot, reshaped(made, (rows, columns)) if panel else made)
        computation.remove(dot)
    computation.remove(inst)


def _laid_out(matrix: np.ndarray, panel: int, word: int) -> np.ndarray:
    """A matrix laid out in panels of `panel` columns, in words of `word` numbers; the transposed matrix if
    `panel` is 0.
    """
    if not panel:
        return matrix.T
    depth, columns = matrix.shape
    found = matrix.reshape(depth // word, word, columns // panel, panel).transpose(2, 0, 3, 1)
    return found if word > 1 else found[..., 0]
