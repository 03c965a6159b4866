"""Merges the computations of kernels that differ only in the values of constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from axla.core.dataclass import dataclass
from axla.core.literal import Literal
from axla.hlo import Add, Broadcast, Constant, Fusion, Multiply, Parameter, Subtract
from axla.ir.clone import fingerprint, numbered
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.schedule.order import running_computations
from axla.target.machine import Target


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A fusion, and the constants in its computation in a fixed order. Computations that differ only in the
    values of constants have them in the same order.
    """

    fusion: Instruction
    constants: tuple[Instruction, ...]

    def literal(self, number: int) -> Literal:
        return op_of(self.constants[number], Constant).literal


def fusion_deduplicator(module: Module, target: Target) -> None:
    """Makes fusions whose computations differ only in constant factors and terms share one computation. These
    constants become operands.
    """
    session = rewrite.current_session()
    for kernels in _alike(module):
        first, count = kernels[0], len(kernels[0].constants)
        moved = [n for n in range(count) if len({kernel.literal(n) for kernel in kernels}) > 1]
        most = target.limits.operands - len(first.fusion.operands)
        if moved and len(moved) <= most and session.may_fire("fusion-deduplicator", first.fusion):
            for kernel in kernels:
                _take_out(kernel, moved)


def _alike(module: Module) -> Iterator[Sequence[_Kernel]]:
    """Yields groups of two or more fusions whose computations are equal except for constants that may become
    operands.
    """
    looks: dict[Hashable, list[Instruction]] = defaultdict(list)
    for computation in running_computations(module):
        bound = rewrite.control_bound(computation)
        for inst in computation.instructions:
            if type(inst.op) is Fusion and inst not in bound:
                body = inst.op.calls
                if not any(type(i.op) is Constant and _may_move(i) for i in body.instructions):
                    continue
                looks[len(body.instructions), len(body.parameters), body.root.shape].append(inst)
    for fusions in looks.values():
        if len(fusions) > 1:  # most are unique, and need no fingerprint
            groups: dict[Hashable, list[_Kernel]] = defaultdict(list)
            for fusion in fusions:
                body = op_of(fusion, Fusion).calls
                found = _Kernel(fusion, tuple(i for i in numbered(body) if type(i.op) is Constant))
                fixed = [found.literal(n) for n, c in enumerate(found.constants) if not _may_move(c)]
                groups[fingerprint(body, max_constant_bytes=0), *fixed].append(found)
            yield from (found for found in groups.values() if len(found) > 1)


def _may_move(constant: Instruction) -> bool:
    """Whether a kernel is as fast, and rounds in the same way, if it reads this constant from memory."""
    if constant is constant.computation.root or not constant.shape.is_array:
        return False
    pending = [(constant, user) for user in constant.users]
    while pending:
        inst, user = pending.pop()
        if type(user.op) is Broadcast:
            pending += [(user, above) for above in user.users]
        elif not _is_plain(inst, user):
            return False
    return True


def _is_plain(number: Instruction, user: Instruction) -> bool:
    """Whether `user` multiplies floats by `number` or adds it to an array, and is not a step of a
    polynomial.
    """
    if type(user.op) not in (Add, Multiply, Subtract) or user.shape.size <= 1:
        return False
    dtype = shape_of(user).dtype
    if type(user.op) is Multiply:  # LLVM makes shifts of products of integers with some constants
        return dtype.is_float
    if not (dtype.is_float or dtype.is_integer):
        return False
    # LLVM contracts steps of polynomials, (... * x + number) * x + number, differently if the numbers are
    # constants.
    products = [o for o in user.operands if o is not number and type(o.op) is Multiply]
    above = any(type(other.op) is Multiply for other in user.users)
    return not products or not (above or any(type(o.op) is Add for p in products for o in p.operands))


def _take_out(kernel: _Kernel, numbers: Sequence[int]) -> None:
    """Replaces the constants with these numbers by parameters, and passes them as operands of the fusion."""
    fusion, body = kernel.fusion, op_of(kernel.fusion, Fusion).calls
    operands = list(fusion.operands)
    for number in numbers:
        inside = kernel.constants[number]
        operands.append(fusion.computation.add(Constant(inside.shape, kernel.literal(number))))
        if inside in body.instructions:  # False if a fusion with the same computation came before
            place = len(operands) - 1
            body.replace(inside, body.add(Parameter(inside.shape, place), name=f"param_{place}"))
            body.remove(inside)
    fusion.computation.set_operands(fusion, operands)
