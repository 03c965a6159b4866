"""Asynchronous calls: async-start begins a call of any computation, async-done ends it, and async-update may
come between them.

HLO text writes an asynchronous call of a single instruction under the opcode of that instruction: add-start,
add-update, add-done.
"""

from __future__ import annotations

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, U32
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.collective import started
from axla.hlo.family import show
from axla.hlo.signature import accepts, sample_reducer
from axla.ir.attributes import OutputAlias
from axla.ir.families import Beginning
from axla.ir.graph import Computation
from axla.ir.op import Op, attr, example, op

MAIN = "main"
"""The name of the thread on which the entry computation runs."""


@op("async-start", operands="*operands", expensive=True, mixes_floats=True, control=True)
class AsyncStart(Beginning):
    """Starts a call of the computation `calls` with the operands. The value is a tuple: a tuple of the
    operands, the result, and any number of contexts.
    """

    shape: AnyShape
    async_execution_thread: str = MAIN
    calls: Computation = attr(always=True, default=None)
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attr(default=(), proto="output_operand_aliasing")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape ((operands...), result, ...). Operands and result must have the shapes
        of the parameters and the root of `calls`.
        """
        parts = self.shape.parts
        wanted = TupleShape([o.logical for o in operands])
        if len(parts) < 2 or not isinstance(parts[0], TupleShape) or parts[0].logical is not wanted:
            self.reject("c1", f"({show(wanted)}, result, ...) is wanted, found {show(self.shape)}")
        called = accepts(self, self.calls, operands, "calls").root.shape
        if not _begins(parts[1], called):
            self.reject("c2", f"the result is {show(parts[1])}, but calls returns {show(called)}")
        root = self.calls.root
        if len(self.calls.instructions) > 1 + len(self.calls.parameters) and not _is_group(self.calls):
            wanted = "a root only, or a root marked _collectives_group"
            found = f"{len(self.calls.instructions)} instructions up to {root!r}"
            self.reject("c3", f"{self.calls.name} may have parameters and {wanted}; found {found}")
        return self.shape

    @classmethod
    def samples(cls):
        """An asynchronous call of an addition."""
        x = Shape(F32)
        shape = TupleShape((TupleShape((x, x)), x, Shape(U32)))
        return [(cls(shape, calls=sample_reducer("add", F32)), (x, x))]


def _begins(part: AnyShape, whole: AnyShape) -> bool:
    """Whether `part` may be declared as the result of a call that returns `whole`: the whole shape, an empty
    tuple, or a tuple of its first elements.
    """
    if part.logical is whole.logical:
        return True
    if not isinstance(part, TupleShape):
        return False
    first = whole.parts[: len(part.elements)] if isinstance(whole, TupleShape) else ()
    return [s.logical for s in part.elements] == [s.logical for s in first]


def _is_group(computation: Computation) -> bool:
    return any(name == "_collectives_group" for name, _ in computation.root.extra.frontend_attributes)


@dataclass(frozen=True)
class _GoesOn(Op):
    """The base of async-update and async-done. Their attributes repeat those of the async-start."""

    async_execution_thread: str | None = None
    calls: Computation | None = None

    examples = [example(TupleShape((TupleShape((Shape(F32),)), Shape(F32))))]


@op("async-update", operands="operand")
class AsyncUpdate(_GoesOn):
    """An intermediate step of an asynchronous call, with the value of its operand, an async-start or
    async-update. Its attributes repeat those of the async-start.
    """

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the operand's shape, which must be the tuple of an async-start."""
        started(self, operand)
        return operand.logical

    def evaluate(self, operand):
        """Returns the operand: the interpreter has already run the call at its start."""
        return operand


@op("async-done", operands="operand")
class AsyncDone(_GoesOn):
    """Waits for an asynchronous call to end; the value is its result. Its attributes repeat those of the
    async-start.
    """

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the shape of the result: element 1 of the operand, which must be the tuple of an
        async-start.
        """
        return started(self, operand)

    def evaluate(self, operand):
        """Returns the result, element 1 of the operand: the interpreter has already run the call at its
        start.
        """
        return operand[1]
