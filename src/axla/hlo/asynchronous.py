"""Asynchronous calls: any computation in two steps, start and done, with updates between them.

HLO text writes a call of one instruction under the name of that instruction: add-start, add-update, add-done.
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
"""The thread of an entry."""


@op("async-start", operands="*operands", expensive=True, mixes_floats=True, control=True)
class AsyncStart(Beginning):
    """Begins `calls` on the operands: the value is a tuple of operands (a tuple), result and contexts."""

    shape: AnyShape
    async_execution_thread: str = MAIN
    calls: Computation = attr(always=True, default=None)
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attr(default=(), proto="output_operand_aliasing")

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape (operands, result, ...), which must fit the called computation."""
        parts = self.shape.parts
        wanted = TupleShape([o.logical for o in operands])
        if len(parts) < 2 or not isinstance(parts[0], TupleShape) or parts[0].logical is not wanted:
            self.reject("c1", f"({show(wanted)}, result, ...) is wanted, found {show(self.shape)}")
        called = accepts(self, self.calls, operands, "calls").root.shape
        if not _begins(parts[1], called):
            self.reject("c2", f"{show(parts[1])} is not {show(called)}, which calls gives")
        root = self.calls.root
        if len(self.calls.instructions) > 1 + len(self.calls.parameters) and not _is_group(self.calls):
            wanted = "a root only, or a root marked _collectives_group"
            found = f"{len(self.calls.instructions)} instructions up to {root!r}"
            self.reject("c3", f"{self.calls.name} may have parameters and {wanted}; found {found}")
        return self.shape

    @classmethod
    def samples(cls):
        """An addition that is begun."""
        x = Shape(F32)
        shape = TupleShape((TupleShape((x, x)), x, Shape(U32)))
        return [(cls(shape, calls=sample_reducer("add", F32)), (x, x))]


def _begins(part: AnyShape, whole: AnyShape) -> bool:
    """Whether `part` is a valid partial result: the whole one, nothing, or the first of several."""
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
    """A later step of an asynchronous call; its attributes repeat the start's."""

    async_execution_thread: str | None = None
    calls: Computation | None = None

    examples = [example(TupleShape((TupleShape((Shape(F32),)), Shape(F32))))]


@op("async-update", operands="operand")
class AsyncUpdate(_GoesOn):
    """A step between the start and the end of an asynchronous call; its attributes repeat the start's."""

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the shape of the start, which the operand must come from."""
        started(self, operand)
        return operand.logical

    def evaluate(self, operand):
        """Returns the value of the start: in the interpreter the call is done already."""
        return operand


@op("async-done", operands="operand")
class AsyncDone(_GoesOn):
    """The result of an asynchronous call; its attributes repeat the start's."""

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the result's shape: element 1 of the operand, which must come from the start."""
        return started(self, operand)

    def evaluate(self, operand):
        """Returns the result that the start has computed."""
        return operand[1]
