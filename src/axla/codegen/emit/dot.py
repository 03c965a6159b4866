"""The dot emitter: the matrix multiplication generator with the kernel's elementwise work as its epilogue."""

from __future__ import annotations

from axla.analysis.kernel_kinds import DotKind
from axla.codegen.array import Array
from axla.codegen.element import Elements, accumulation_type, reshape_index
from axla.codegen.emit import gemm
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.index import Index
from axla.codegen.kernel import KernelTask, KernelWriter, Phase, Plan, output_shapes
from axla.codegen.value import Value, Values
from axla.core.shape import Shape
from axla.target.machine import Target


def _kind(task: KernelTask) -> DotKind:
    assert isinstance(task.kind, DotKind)
    return task.kind


def multiplies(kind: DotKind, target: Target) -> bool:
    """Whether the multiplication generator takes a dot: numbers of one type; others are loops."""
    if not target.blocks_products:
        return False
    lhs, rhs = (o.shape for o in kind.hero.operands)
    result = kind.hero.shape
    assert isinstance(lhs, Shape) and isinstance(rhs, Shape) and isinstance(result, Shape)
    small_integer = result.dtype.is_integer and result.dtype.bits < 8
    return lhs.dtype is rhs.dtype and not lhs.dtype.is_pred and not small_integer and not result.dtype.is_pred


def _spec(task: KernelTask) -> gemm.GemmSpec:
    kind = _kind(task)
    lhs, rhs = (o.shape for o in kind.hero.operands)
    result = kind.hero.shape
    assert isinstance(lhs, Shape) and isinstance(rhs, Shape) and isinstance(result, Shape)
    return gemm.GemmSpec(
        dtype=lhs.dtype, accumulator=accumulation_type(result.dtype), result=result.dtype, batch=kind.batch,
        m=kind.m,
        n=kind.n, k=kind.k, lhs_transposed=kind.lhs_transposed, rhs_transposed=kind.rhs_transposed,
    )  # fmt: skip


def plan(task: KernelTask, target: Target) -> Plan:
    """How a dot kernel is called: the calls of the multiplication's plan."""
    found = gemm.plan(_spec(task), target)
    phases = tuple(
        Phase(task.name + call.suffix, call.count, call.grain, call.count > call.grain)
        for call in found.kernels
    )
    return Plan(phases, found.scratch_bytes)


def emit(module: Module, task: KernelTask, target: Target) -> None:
    """Writes the kernels of a `DotKind`: the multiplication's own, and where they need it, for each a door
    that orders its arguments.
    """
    spec = _spec(task)
    found = gemm.plan(spec, target)
    hero = _kind(task).hero
    only_dot = len(task.roots) == 1 and task.roots[0] is hero
    # The kernel of a dot of its parameters in their order already has the multiplication's arguments.
    needs_door = not only_dot or hero.operands != tuple(task.computation.parameters)
    inner = f"{task.name}.gemm" if needs_door else task.name
    gemm.emit(module, inner, spec, found, target, None if only_dot else _Epilogue(task, target))
    for call in found.kernels:
        module.enclose(inner + call.suffix)
        if needs_door:
            _door(module, task, target, task.name + call.suffix, inner + call.suffix)


_FIRST = 4
"""The multiplication's own arguments: lhs, rhs, out, scratch. The kernel's follow."""


def _door(module: Module, task: KernelTask, target: Target, name: str, callee: str) -> None:
    """Calls `callee` with arguments [lhs, rhs, output 0, scratch, kernel arguments...]."""
    k = KernelWriter(module, task, target, name)
    f, kind = k.f, _kind(task)
    parameters = task.computation.parameters
    lhs, rhs = (k.inputs[parameters.index(o)].pointer for o in kind.hero.operands)
    own = [a.pointer for a in (*k.inputs, *k.outputs)]
    pointers = [lhs, rhs, k.outputs[0].pointer, k.scratch(), *own]
    args = f.effect("ptr", f"alloca [{len(pointers)} x ptr], align 8")
    for number, pointer in enumerate(pointers):
        f.store(pointer, f.gep("ptr", args, f.index(number)), 8)
    code = f.call("i32", callee, (f.params["frame"], args, f.params["begin"], f.params["end"]), effect=True)
    f.ret(code)


class _Epilogue:
    """The store of the multiplication: binds the hero to the finished sum and stores every root."""

    def __init__(self, task: KernelTask, target: Target):
        self.task = task
        self.target = target

    def __call__(self, f: Function, total: Value, batch: Ssa, row: Ssa, col: Ssa, lanes: int) -> None:
        task, kind = self.task, _kind(self.task)
        values = Values(f, self.target)
        computation = task.computation
        shared = {i for _, i in task.in_place}
        e = Elements(values, lanes)
        for number, parameter in enumerate(computation.parameters):
            shape = parameter.shape
            assert isinstance(shape, Shape)
            e.bind(parameter, self._array(f, values, number, shape, number not in shared))
        hero_shape = kind.hero.shape
        assert isinstance(hero_shape, Shape)
        e.bind(kind.hero, values.convert(total, hero_shape.dtype))
        along_rows = kind.n == 1
        at = (
            Index(f, batch, limit=kind.batch),
            Index(f, row, 1 if along_rows else 0, lanes, limit=kind.m),
            Index(f, col, 0 if along_rows else 1, lanes, limit=kind.n),
        )
        space = (kind.batch, kind.m, kind.n)
        found = []
        for number, (root, shape) in enumerate(zip(task.roots, output_shapes(computation), strict=True)):
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
