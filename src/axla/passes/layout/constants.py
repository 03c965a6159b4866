"""Constants are laid out once, as the kernels read them.

What only moves elements of large constants is computed, which `constant-folding` leaves where it would take
long. A matrix that products read in panels, and nothing else reads, is stored as [n / panel, k, panel], or as
[n / panel, k / word, panel, word] where instructions multiply words of short numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.literal import ElidedLiteral, Literal, MovedLiteral
from axla.core.shape import Shape
from axla.hlo import Bitcast, Concatenate, Constant, Convolution, Dot, Reshape, Reverse, Slice, Transpose
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.kernels.convolution import panels_wanted, unpacked
from axla.kernels.dot import dot_sizes, plan_product
from axla.kernels.plan import accumulation_type
from axla.kernels.product import GemmSpec
from axla.passes import rewrite
from axla.passes.layout.normalize import reshaped
from axla.target.machine import Target

LEAST = 1 << 16
"""Bytes of a matrix from which on it is stored in panels: smaller ones are packed in microseconds."""

_MOVES = (Bitcast, Concatenate, Reshape, Reverse, Slice, Transpose)


def constant_layout(module: Module, target: Target) -> None:
    """Computes what moves elements of constants, and stores matrices of products in panels."""
    session = rewrite.current_session()
    for computation in module.computations:
        bound = rewrite.control_bound(computation)
        for inst in post_order(computation):
            if inst not in bound and _is_moved(inst) and session.may_fire("constant-layout", inst):
                _replace(inst, _moved(inst))
        if target.local_bytes:
            continue
        for inst in post_order(computation):
            sizes = _of_kernel(inst, target) if inst not in bound else None
            if sizes is not None and session.may_fire("constant-layout", inst):
                _store_kernel(inst, *sizes)
        if not target.blocks_products:
            continue
        for inst in post_order(computation):
            sizes = _in_panels(inst, target) if inst not in bound else None
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
    # Each constant goes: the memory of the result takes its place.
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
    """The literal of values of the type of `inst`, which are not copied here."""
    shape = Shape(shape_of(inst).dtype, values.shape)
    values.flags.writeable = False
    return Literal(shape, values) if values.flags.c_contiguous else MovedLiteral(shape, values)


def _in_panels(inst: Instruction, target: Target) -> tuple[int, int] | None:
    """The panel and the word that all users of a constant want, if they agree."""
    if type(inst.op) is not Constant or _array(inst) is None or inst is inst.computation.root:
        return None
    wanted = _agreed(_panel(user, inst, target) for user in inst.users)
    least = LEAST // 16 if wanted and wanted[1] > 1 else LEAST  # bytes are put together slowly
    return wanted if wanted and shape_of(inst).byte_size >= least else None


def _agreed(found: Iterable[Any]) -> Any:
    """The value that all give; None where they differ."""
    values = set(found)
    return values.pop() if len(values) == 1 else None


def _of_kernel(inst: Instruction, target: Target) -> tuple[int, int] | None:
    """The panel and the word in which all convolutions that read a constant want it."""
    if type(inst.op) is not Constant or _array(inst) is None or inst is inst.computation.root:
        return None
    if any(type(user.op) is not Convolution for user in inst.users):
        return None
    wanted = _agreed(
        panels_wanted(user, target) if user.operands[1] is inst is not user.operands[0] else None
        for user in inst.users
    )
    # A constant of few bytes would become code of the kernel, which reads panels from memory.
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
    if rhs.shape.rank != 2 or left is not right:
        return None
    spec = GemmSpec(left, result, *sizes).by_words(target)
    plain = left is result is accumulation_type(result) and result.is_float
    if not plain and (spec.word == 1 or spec.missing or spec.lhs_transposed):
        return None
    plan = plan_product(spec, target)
    width = plan.tile.columns
    whole = plan.method == "tile" and plan.pack_rhs and sizes[2] % width == 0
    return (width, spec.word) if whole else None


def _store_panels(inst: Instruction, panel: int, word: int) -> None:
    computation = inst.computation
    values = _array(inst)
    assert values is not None
    made: dict[bool, Instruction] = {}
    for dot in list(inst.users):
        op = op_of(dot, Dot)
        turned = op.rhs_contracting_dims == (1,)
        matrix = values.T if turned else values
        depth, columns = matrix.shape
        if turned not in made:
            matrix = matrix.reshape(depth // word, word, columns // panel, panel).transpose(2, 0, 3, 1)
            literal = _literal(matrix if word > 1 else matrix[..., 0], inst)
            name = f"{inst.name}.panels"
            made[turned] = computation.add(Constant(literal.shape, literal), name=name, extra=inst.extra)
        rows = shape_of(dot).dims[0]
        shape = shape_of(dot).with_dims((rows, columns // panel, panel)).logical
        new, lhs = replace(op, shape=shape, rhs_contracting_dims=(1,)), dot.operands[0]
        if word > 1:
            new = replace(new, lhs_contracting_dims=(1, 2), rhs_contracting_dims=(1, 3))
            lhs = reshaped(lhs, (rows, depth // word, word))
        product = computation.add(new, [lhs, made[turned]], extra=dot.extra)
        computation.replace(dot, reshaped(product, (rows, columns)))
        computation.remove(dot)
    computation.remove(inst)
