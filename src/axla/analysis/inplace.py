"""Finds the operands that a kernel may overwrite with its results."""

from __future__ import annotations

from axla.core.shape import Shape
from axla.hlo import Fusion, Parameter
from axla.ir.graph import Computation, Instruction
from axla.kernels.access import accesses, kernel_body
from axla.kernels.kinds import kernel_kind, kinds_of
from axla.target.machine import Limits


def overwritable(inst: Instruction, limits: Limits) -> dict[int, tuple[int, ...]]:
    """Maps result leaves to the numbers of operands that may share memory with them: operands of which a loop
    reads only the element that it writes, and operands that the kernel kind names.
    """
    op, shape = inst.op, inst.shape
    if isinstance(op, Fusion):
        return overwritable_parameters(op.calls, limits)
    if op.elementwise and isinstance(shape, Shape):
        return {0: tuple(n for n, o in enumerate(inst.operands) if _fits(o, shape))}
    return {n: (n,) for kind in kinds_of(type(op)) for n, _ in enumerate(kind.overwritten(inst, limits))}


def overwritable_parameters(kernel: Computation, limits: Limits) -> dict[int, tuple[int, ...]]:
    """Like `overwritable` for a kernel, with parameter numbers instead of operand numbers."""
    kind, root = kernel_kind(kernel, limits), kernel.root
    if kind.overwrites:
        return kernel.fact("overwritable", _overwritable)
    found = kind.overwritten(root, limits) if isinstance(root.op, kind.heroes) else ()
    return {n: (o.op.parameter_number,) for n, o in enumerate(found) if isinstance(o.op, Parameter)}


def _overwritable(computation: Computation) -> dict[int, tuple[int, ...]]:
    body = kernel_body(computation)
    found = accesses(body)
    here = found.keys.root(body.roots[0])
    same = [p for p in computation.parameters if list(found.of.get(p, ())) == [here]]
    return {
        leaf: tuple(
            number for number, p in enumerate(computation.parameters)
            if p in same and isinstance(shape, Shape) and _fits(p, shape)
        )
        for leaf, shape in enumerate(computation.root.shape.leaves())
    }  # fmt: skip


def _fits(operand: Instruction, result: Shape) -> bool:
    shape = operand.shape
    return isinstance(shape, Shape) and shape.byte_size == result.byte_size and shape.size == result.size
