"""Which operands an elementwise kernel may overwrite with its results."""

from __future__ import annotations

from axla.core.shape import Shape
from axla.hlo import Fusion
from axla.ir.graph import Computation, Instruction
from axla.kernels.access import accesses, kernel_body
from axla.kernels.kinds import kernel_kind
from axla.target.machine import Limits


def overwritable(inst: Instruction, limits: Limits) -> dict[int, tuple[int, ...]]:
    """Result leaf -> operands that are read at the very element that is written, so that they
    may share memory.

    Only loops qualify: other kernels read in another order than they write.
    """
    op = inst.op
    if not isinstance(op, Fusion):
        shape = inst.shape
        if not op.elementwise or not isinstance(shape, Shape):
            return {}
        return {0: tuple(n for n, o in enumerate(inst.operands) if _fits(o, shape))}
    return overwritable_parameters(op.calls, limits)


def overwritable_parameters(kernel: Computation, limits: Limits) -> dict[int, tuple[int, ...]]:
    """The same of a kernel's computation, whose parameters are the operands."""
    return kernel.fact("overwritable", _overwritable) if kernel_kind(kernel, limits).overwrites else {}


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
