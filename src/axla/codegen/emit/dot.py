"""The dot emitter: the matrix multiplication generator with the kernel's elementwise work as its epilogue."""

from __future__ import annotations

from axla.codegen.array import Array
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit import gemm
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value, Values
from axla.core.shape import Shape
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.kernels.access import kernel_roots
from axla.kernels.dot import DotPlan
from axla.program.kernels import Kernel, output_shapes
from axla.target.machine import Target


def emit(module: Module, kernel: Kernel, target: Target) -> None:
    """Writes the kernel of a `DotPlan`: the multiplication's own, and where it needs it, a door that orders
    its arguments.
    """
    plan = kernel.plan
    assert isinstance(plan, DotPlan)
    hero = kernel.named()[plan.hero]
    only_dot = kernel_roots(kernel.computation) == (hero,)
    # The kernel of a dot of its parameters in their order already has the multiplication's arguments.
    needs_door = not only_dot or hero.operands != tuple(kernel.computation.parameters)
    [symbol] = kernel.symbols
    inner = f"{symbol}.gemm" if needs_door else symbol
    epilogue = None if only_dot else _Epilogue(kernel, plan, hero, target)
    gemm.emit(module, inner, plan.product, plan.cut, target, epilogue)
    module.enclose(inner)
    if needs_door:
        _door(KernelWriter(module, kernel, target), hero, inner)


_FIRST = 4
"""The multiplication's own arguments: lhs, rhs, out, scratch. The kernel's follow."""


def _door(k: KernelWriter, hero: Instruction, callee: str) -> None:
    """Calls `callee` with arguments [lhs, rhs, output 0, scratch, kernel arguments...]."""
    f, parameters = k.f, k.kernel.computation.parameters
    lhs, rhs = (k.inputs[parameters.index(o)].pointer for o in hero.operands)
    own = [a.pointer for a in (*k.inputs, *k.outputs)]
    pointers = [lhs, rhs, k.outputs[0].pointer, k.scratch(), *own]
    args = f.effect("ptr", f"alloca [{len(pointers)} x ptr], align 8")
    for number, pointer in enumerate(pointers):
        f.store(pointer, f.gep("ptr", args, f.index(number)), 8)
    code = f.call("i32", callee, f.params["frame"], args, f.params["begin"], f.params["end"], effect=True)
    f.ret(code)


class _Epilogue:
    """The store of the multiplication: binds the hero to the finished sum and stores every root."""

    def __init__(self, kernel: Kernel, plan: DotPlan, hero: Instruction, target: Target):
        self.kernel, self.product, self.hero, self.target = kernel, plan.product, hero, target

    def __call__(self, f: Function, total: Value, batch: Ssa, row: Ssa, col: Ssa, lanes: int) -> None:
        product, computation = self.product, self.kernel.computation
        values = Values(f, self.target)
        shared = {i for _, i in self.kernel.in_place}
        e = Elements(values, lanes)
        for number, parameter in enumerate(computation.parameters):
            e.bind(parameter, self._array(f, values, number, shape_of(parameter), number not in shared))
        e.bind(self.hero, values.convert(total, product.result))
        along_rows = product.n == 1
        at = (
            Index(f, batch, limit=product.batch),
            Index(f, row, 1 if along_rows else 0, lanes, limit=product.m),
            Index(f, col, 0 if along_rows else 1, lanes, limit=product.n),
        )
        space = (product.batch, product.m, product.n)
        found = []
        roots = zip(kernel_roots(computation), output_shapes(computation), strict=True)
        for number, (root, shape) in enumerate(roots):
            here = reshape_index(at, space, shape.dims)
            output = self._array(f, values, len(computation.parameters) + number, shape, False)
            found.append((output, here, values.splat(e(root, here), lanes)))
        for output, here, value in found:
            output.store(here, value)

    def _array(self, f: Function, values: Values, slot: int, shape: Shape, readonly: bool) -> Array:
        address = f.gep("ptr", f.params["args"], f.const("i64", _FIRST + slot))
        return Array(
            values, f.load("ptr", address, 8, readonly=True), shape.dtype, shape.dims, readonly=readonly
        )
