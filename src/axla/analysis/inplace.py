"""Which operands an elementwise kernel may overwrite with its results."""

from __future__ import annotations

from axla.analysis.kernel_kinds import LoopKind
from axla.analysis.kernels import accesses, kernel_body, kernel_kind
from axla.core.shape import Shape
from axla.hlo import Fusion, Parameter
from axla.ir.graph import Instruction


def overwritable(inst: Instruction) -> dict[int, tuple[int, ...]]:
    """Result leaf -> operands that are read at the very element that is written, so that sharing memory is
    safe.

    Only loops qualify: other kernels read in another order than they write.
    """
    op = inst.op
    if not isinstance(op, Fusion):
        shape = inst.shape
        if not op.elementwise or not isinstance(shape, Shape):
            return {}
        return {0: tuple(n for n, o in enumerate(inst.operands) if _fits(o, shape))}
    if not isinstance(kernel_kind(inst), LoopKind):
        return {}
    body = kernel_body(inst)
    found = accesses(body, ())
    size = found.keys.root(body.roots[0])
    same = []
    for parameter in op.calls.parameters:
        assert isinstance(parameter.op, Parameter)
        if list(found.of.get(parameter, ())) == [size]:
            same.append(parameter)
    leaves = [s for s in inst.shape.leaves()]
    return {
        leaf: tuple(p.op.parameter_number for p in same if isinstance(shape, Shape) and _fits(p, shape))
        for leaf, shape in enumerate(leaves)
    }  # fmt: skip


def _fits(operand: Instruction, result: Shape) -> bool:
    shape = operand.shape
    return isinstance(shape, Shape) and shape.byte_size == result.byte_size and shape.size == result.size
