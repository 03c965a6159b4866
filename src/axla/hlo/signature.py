"""Checks of the parameters and results of computations that ops call, and sample computations."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import DType
from axla.core.shape import AnyShape, Shape
from axla.hlo.family import show
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Module
from axla.ir.op import OPS, Op
from axla.ir.structure import Parameter


def require_computation(self: Op, called: Computation | None, what: str = "to_apply") -> Computation:
    """Returns `called`; rejects the op if it is None or has no root. `what` is the attribute that names the
    computation.
    """
    if called is None or not called.has_root:
        self.reject("called", f"{what} must name a computation with a root")
    return called


def _with_parameters(
    self: Op, called: Computation | None, count: int, what: str
) -> tuple[Computation, list[AnyShape]]:
    """The computation `called`, the attribute `what` of the op, and the shapes of its parameters. Rejects a
    computation that does not have `count` parameters.
    """
    found = require_computation(self, called, what)
    shapes = [p.shape for p in found.parameters]
    if len(shapes) != count:
        self.reject("called", f"{what} {found.name} has {len(shapes)} parameters, {count} are wanted")
    return found, shapes


def accepts(
    self: Op, called: Computation | None, parameters: Sequence[AnyShape], what: str = "to_apply"
) -> Computation:
    """Returns the computation `called`, the attribute `what` of the op. Rejects a computation whose
    parameters do not have exactly the shapes `parameters`, up to layout.
    """
    found, shapes = _with_parameters(self, called, len(parameters), what)
    for number, (shape, wanted) in enumerate(zip(shapes, parameters, strict=True)):
        if shape.logical is not wanted.logical:
            message = f"parameter {number} of {what} {found.name} is {show(shape)}, {show(wanted)} is wanted"
            self.reject("called", message)
    return found


def returns(self: Op, called: Computation, result: AnyShape, what: str = "to_apply") -> None:
    """Rejects the computation `called`, the attribute `what` of the op, if its result does not have the shape
    `result`, up to layout.
    """
    if called.root.shape.logical is not result.logical:
        message = f"{what} {called.name} returns {show(called.root.shape)}, {show(result)} is wanted"
        self.reject("called", message)


def compatible(a: DType, b: DType) -> bool:
    """Whether two element types are the same, or both are floats."""
    return a is b or (a.is_float and b.is_float)


def accepts_scalars(
    self: Op, called: Computation | None, parameters: Sequence[DType], results: Sequence[DType]
) -> list[DType]:
    """The element types of the results of a computation on scalars. Rejects a computation that does not take
    scalars of the types `parameters` and return scalars of the types `results`.

    A float type may stand in for another one here; where XLA is stricter, the verifier is as well.
    """
    found, shapes = _with_parameters(self, called, len(parameters), "to_apply")
    for number, (shape, wanted) in enumerate(zip(shapes, parameters, strict=True)):
        if not isinstance(shape, Shape) or shape.rank or not compatible(shape.dtype, wanted):
            message = f"parameter {number} of to_apply {found.name} is {show(shape)}, {wanted}[] is wanted"
            self.reject("called", message)
    root = found.root.shape
    parts = list(root.elements) if root.is_tuple else [root]
    right = len(parts) == len(results) and all(
        isinstance(p, Shape) and not p.rank and compatible(p.dtype, wanted)
        for p, wanted in zip(parts, results, strict=True)
    )
    if not right:
        wanted = ", ".join(f"{d}[]" for d in results)
        self.reject("called", f"to_apply {found.name} returns {show(root)}, ({wanted}) is wanted")
    return [p.dtype for p in parts]


def sample_of(name: str, op: Op, dtype: DType) -> Computation:
    """A sample computation, in a module of its own, that applies an op to scalars."""
    computation = Module("samples").add_computation(name, entry=True)
    count = range(len(op.operand_names))
    operands = [computation.add(Parameter(Shape(dtype), n), name="xy"[n]) for n in count]
    computation.set_root(computation.add(op, operands))
    return computation


def sample_reducer(opcode: str, dtype: DType) -> Computation:
    """A sample computation, in a module of its own, that applies a binary op to two scalars."""
    return sample_of(opcode, OPS[opcode](), dtype)


def sample_comparison(direction: str, dtype: DType) -> Computation:
    """A sample computation, in a module of its own, that compares two scalars."""
    return sample_of("compare", OPS["compare"](Direction(direction)), dtype)  # type: ignore[call-arg]
