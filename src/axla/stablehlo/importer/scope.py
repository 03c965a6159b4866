"""ImportScope fills a computation with the operations of a block; ModuleImport is one import: a source with
the computations made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import DType
from axla.core.errors import AxlaError, ShapeError, UnsupportedError, VerifyError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape, array
from axla.hlo import Broadcast, Convert
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction, Module
from axla.ir.op import Op
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.stablehlo import mlir
from axla.stablehlo.importer.origin import Origins
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text.printer import type_text
from axla.stablehlo.types import literal_of, shape_of

Lowered = Instruction | Sequence[Instruction] | None
"""The result of importing an operation: its value, or the tuple of its values, or a list of its values."""
ImportRule = Callable[["ImportScope", mlir.Operation], Lowered]
"""Adds instructions for an operation to a scope; returns its result."""

RETURNS = frozenset({"func.return", "stablehlo.return", "mhlo.return", "sdy.return"})
CONSTANT = "stablehlo.constant"
DEEPEST = 100  # levels of nested regions


class ImportScope:
    """Fills one computation; `values` has the instruction of each MLIR value. Tuple elements are extracted on
    first use: `tuples` has tuple-shaped instructions whose elements are the results of an operation, or the
    arguments of a block.
    """

    __slots__ = ("importer", "computation", "values", "tuples", "extra", "_name")

    def __init__(self, importer: ModuleImport, computation: Computation) -> None:
        self.importer = importer
        self.computation = computation
        self.values: dict[mlir.Value, Instruction] = {}
        self.tuples: dict[mlir.Operation | mlir.Block, tuple[Instruction, Extra, str]] = {}
        self.extra: Extra = NO_EXTRA
        self._name = ""

    # Operations.

    def fill(self, block: mlir.Block) -> list[Instruction]:
        """Imports the operations of a block; returns the operands of its return."""
        importer = self.importer
        rules, origin = importer.rules, importer.origins.of
        if not block.operations or block.operations[-1].name not in RETURNS:
            raise VerifyError("a region must end with a return")
        *operations, last = block.operations
        importer.depth += 1
        if importer.depth > DEEPEST:
            raise UnsupportedError(f"regions are nested more than {DEEPEST} deep")
        operation = last
        try:
            for operation in operations:
                rule = rules.get(operation.name)
                if rule is None:
                    raise UnsupportedError(f"HLO has no op for this operation{_why_not(operation.name)}")
                self.extra, self._name = origin(operation.location, operation.attributes)
                self.bind(operation, rule(self, operation))
            operation = last
            found = self.operands(last)
        except AxlaError as error:
            raise placed(error, operation) from None
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            # The source was not verified before.
            raise placed(VerifyError(f"malformed operands or attributes: {error!r}"), operation) from error
        importer.depth -= 1
        return found

    def bind(self, operation: mlir.Operation, outcome: Lowered) -> None:
        """Binds the results of an operation to the instructions that its rule returned."""
        results = operation.results
        if isinstance(outcome, Instruction):
            if len(results) == 1:
                self._define(results[0], outcome)
            elif results:
                # A sharding belongs to the tuple, not to its elements.
                extra = replace(self.extra, sharding=None) if self.extra.sharding else self.extra
                self.tuples[operation] = (outcome, extra, self._name)
            return
        found = outcome or ()
        if len(found) != len(results):
            raise VerifyError(f"it returns {len(found)} values, but its type has {len(results)}")
        for value, inst in zip(results, found, strict=True):
            self._define(value, inst)

    def _define(self, value: mlir.Value, inst: Instruction) -> None:
        written = self.importer.shape(value.type)
        if inst.shape is not written and not _agree(inst.shape, written):
            found = inst.shape.to_string(layout=False)
            raise VerifyError(f"its result is {found}, but the written type is {type_text(value.type)}")
        self.values[value] = inst

    # Values.

    def value(self, value: mlir.Value) -> Instruction:
        """The instruction of a value. An element of a tuple is extracted; a constant from an outer region is
        copied.
        """
        found = self.values.get(value)
        if found is not None:
            return found
        owner = value.owner
        whole = self.tuples.get(owner)
        if whole is not None:
            inst, extra, name = whole
            found = self.computation.add(GetTupleElement(value.index), (inst,), extra=extra, stem=name)
            self._define(value, found)
            return found
        if isinstance(owner, mlir.Operation) and owner.name == CONSTANT:
            found = self.values[value] = self.constant(owner.attributes.get("value"), value.type)
            return found
        what = f"of {owner.name}" if isinstance(owner, mlir.Operation) else "argument of a block"
        place = position_of(owner) if isinstance(owner, mlir.Operation) else ""
        raise UnsupportedError(
            f"its region uses an outer value ({what}{place}); only outer constants can be used here"
        )

    def operands(self, operation: mlir.Operation, count: int | None = None) -> list[Instruction]:
        """The instructions of the operands. Raises VerifyError if there are not `count` operands."""
        given = operation.operands
        if count is not None and len(given) != count:
            raise VerifyError(f"{count} operands are wanted, found {len(given)}")
        values = self.values
        return [values.get(v) or self.value(v) for v in given]

    def shape(self, operation: mlir.Operation, number: int = 0) -> Shape:
        """The shape of a result, which must be an array; raises VerifyError for any other type."""
        found = self.importer.shape(operation.results[number].type)
        if not isinstance(found, Shape):
            raise VerifyError(f"result {number} must be a tensor, found {found.to_string(layout=False)}")
        return found

    def whole_shape(self, operation: mlir.Operation) -> AnyShape:
        """The shape of the only result, or the tuple of all results."""
        return whole(self.shapes(operation))

    def shapes(self, operation: mlir.Operation) -> list[AnyShape]:
        """The shapes of the results of an operation."""
        return [self.importer.shape(r.type) for r in operation.results]

    # Instructions.

    def add(
        self, op: Op, operands: Sequence[Instruction] = (), shape: AnyShape | None = None, *,
        extra: Extra | None = None,
    ) -> Instruction:  # fmt: skip
        """Adds an instruction, by default with the metadata of the current operation."""
        extra = self.extra if extra is None else extra
        return self.computation.add(op, operands, shape, stem=self._name, extra=extra)

    def tuple(self, values: Sequence[Instruction], *, named: bool = True) -> Instruction:
        """Adds a tuple of the values; a single value is returned as it is. If `named`, the tuple has the
        metadata of the current operation.
        """
        if len(values) == 1:
            return values[0]
        return self.add(Tuple(), values) if named else self.computation.add(Tuple(), values)

    def parts(self, value: Instruction, count: int) -> list[Instruction]:
        """Extracts the first `count` elements of a tuple."""
        return [self.add(GetTupleElement(n), (value,)) for n in range(count)]

    def constant(self, attribute: mlir.Attribute, type_: mlir.Type) -> Instruction:
        """Adds a constant; if all elements are equal, it is a broadcast scalar."""
        literal = literal_of(attribute, self.importer.source.resources)
        shape = self.importer.shape(type_)
        if literal.shape is shape:
            return self.computation.add(Constant(shape, literal), (), shape)
        if not isinstance(literal.shape, Shape) or not isinstance(shape, Shape) or literal.shape.rank:
            raise VerifyError(f"a constant of {literal.shape} cannot be {type_text(type_)}")
        if literal.shape.dtype is not shape.dtype:
            raise VerifyError(f"a constant of {literal.shape.dtype} cannot be {type_text(type_)}")
        scalar = self.computation.add(Constant(literal.shape, literal), (), literal.shape)
        return self.computation.add(Broadcast(shape, ()), (scalar,), shape)

    def scalar(self, value: object, like: Shape) -> Instruction:
        """Adds a constant with the element type of `like`, broadcast to its shape."""
        literal = Literal.scalar(like.dtype, value)
        inst = self.computation.add(Constant(literal.shape, literal), (), literal.shape)
        return inst if not like.dims else self.add(Broadcast(like, ()), (inst,))

    def converted(self, operand: Instruction, dtype: DType) -> Instruction:
        """Converts an operand to the element type `dtype`, a wider one; an operand of this type is returned
        as it is.
        """
        shape = array(operand.shape)
        return operand if shape.dtype is dtype else self.add(Convert(shape.with_dtype(dtype)), (operand,))

    # Regions.

    def region(self, operation: mlir.Operation, number: int = 0) -> Computation:
        """Imports a region that uses no outer values, as a computation with a parameter for each argument."""
        return self.importer.plain(operation.regions[number].blocks[0])

    def closed(
        self, operation: mlir.Operation, number: int, state: Sequence[mlir.Value], *, passed: bool = False
    ) -> Computation:
        """Imports a region as a computation with one parameter: the region's arguments and the outer values
        in `state`, which are also results if `passed`.
        """
        block = operation.regions[number].blocks[0]
        inner = self.importer.carrying(block, self, state)
        results = inner.fill(block) + [inner.value(v) for v in (state if passed else ())]
        # A single result is the whole state, which is not wrapped in a tuple then.
        inner.computation.set_root(inner.tuple(results, named=False))
        return inner.computation

    def captured(self, operation: mlir.Operation, numbers: Iterable[int]) -> list[mlir.Value]:
        """The outer values, except constants, that the regions with these numbers use."""
        found: dict[mlir.Value, None] = {}
        for number in numbers:
            found |= self.importer.captures.get(id(operation.regions[number]), {})
        return list(found)

    def composed(self, function: Callable[..., XlaOp], operands: Sequence[Instruction]) -> Instruction:
        """Adds the instructions of a function that is composed of builder operations; returns its result. The
        function is built once for operands of equal shapes.
        """
        shapes = tuple(o.shape for o in operands)
        body = self.importer.compositions.get((function, shapes))
        if body is None:
            builder = XlaBuilder(function.__name__)
            function(*[builder.parameter(n, s) for n, s in enumerate(shapes)])
            body = self.importer.compositions[function, shapes] = builder.build().entry
        copies = dict(zip(body.parameters, operands, strict=True))
        for inst in body.instructions:
            if inst not in copies:
                copies[inst] = self.add(inst.op, [copies[o] for o in inst.operands], inst.shape)
        return copies[body.root]


class ModuleImport:
    """One import: a source, the module made from it, and the state that its computations share."""

    def __init__(self, source: mlir.Source, rules: Mapping[str, ImportRule], name: str) -> None:
        self.source = source
        self.partitions = count(source.module.attributes, "mhlo.num_partitions")
        self.rules = rules
        self.origins = Origins()
        self.module = Module(name)
        self.computations: dict[str, Computation] = {}  # by the names of the functions
        # The outer values that a region uses, by the identity of the region.
        self.captures: dict[int, dict[mlir.Value, None]] = {}
        # By the function that composes operations and the operand shapes.
        self.compositions: dict[Any, Computation] = {}
        self.depth = 0  # levels of the regions being imported
        self._shapes: dict[int, AnyShape] = {}  # by the identity of a type, which the source keeps alive
        self._regions = 0

    def shape(self, type_: mlir.Type) -> AnyShape:
        """The shape of an MLIR type; each type object is converted once."""
        found = self._shapes.get(id(type_))
        if found is None:
            found = self._shapes[id(type_)] = shape_of(type_)
        return found

    # Regions.

    def plain(
        self, block: mlir.Block, computation: Computation | None = None, attributes: Any = None
    ) -> Computation:
        """Imports a region, or a function, as a computation with a parameter for each argument; `attributes`
        may have the attributes of the arguments.
        """
        computation = self._region() if computation is None else computation
        scope, count = ImportScope(self, computation), len(block.arguments)
        said = attributes if isinstance(attributes, tuple) and len(attributes) == count else ({},) * count
        places = block.locations or [None] * count
        for number, value in enumerate(block.arguments):
            extra, name = self.origins.of(places[number], said[number])
            shape = self.shape(value.type)
            op, stem = Parameter(shape, number), name or f"Arg_{number}"
            scope.values[value] = computation.add(op, (), shape, stem=stem, extra=extra)
        computation.set_root(scope.tuple(scope.fill(block), named=False))
        return computation

    def _region(self) -> Computation:
        self._regions += 1
        return self.module.add_computation(f"region_{self._regions - 1}")

    def carrying(self, block: mlir.Block, outer: ImportScope, state: Sequence[mlir.Value]) -> ImportScope:
        """Makes the scope of a region with one parameter, which has the region's arguments and the values in
        `state`. These are values of the scope `outer`, in which the region is.
        """
        computation = self._region()
        shapes = [self.shape(a.type) for a in block.arguments] + [outer.value(v).shape for v in state]
        scope = ImportScope(self, computation)
        stem = "arg_tuple" if len(shapes) > 1 else "Arg_" if shapes else "arg_empty_tuple"
        shape = whole(shapes)
        parameter = computation.add(Parameter(shape, 0), (), shape, stem=stem)
        if len(shapes) == 1:
            scope.values[(*block.arguments, *state)[0]] = parameter
            return scope
        scope.tuples[block] = (parameter, NO_EXTRA, "")
        first = len(block.arguments)
        for number, value in enumerate(state):
            scope.values[value] = computation.add(GetTupleElement(first + number), (parameter,))
        return scope


def count(attributes: dict[str, Any], name: str) -> int:
    """The number of replicas or partitions in an attribute; 1 if it is missing."""
    found = attributes.get(name)
    return max(1, found.value) if isinstance(found, mlir.IntegerAttr) else 1


def whole(shapes: Sequence[AnyShape]) -> AnyShape:
    """The only shape, or the tuple shape of all."""
    return shapes[0] if len(shapes) == 1 else TupleShape(shapes)


def _agree(found: AnyShape, written: AnyShape) -> bool:
    """Whether shapes agree except for layouts and dynamic dimensions."""
    if isinstance(found, Shape) and isinstance(written, Shape):
        return found.dtype is written.dtype and found.dims == written.dims
    return found.logical is written.logical


def _why_not(name: str) -> str:
    record = OPERATIONS.get(name)
    return f": {record.why_not}" if record is not None and record.why_not else ""


def position_of(operation: mlir.Operation) -> str:
    """The position of an operation for messages, such as " at line 3, column 5"; "" if it is unknown."""
    line, column = operation.position
    return f" at line {line}, column {column}" if line else ""


def placed(error: AxlaError, operation: mlir.Operation) -> AxlaError:
    """An error with the name and position of the operation in its message. An error that has the position of
    an inner operation already is returned as it is.
    """
    if error.placed:
        return error
    kind = VerifyError if isinstance(error, ShapeError) else type(error)
    if kind not in (VerifyError, UnsupportedError):
        return error
    message = f"{operation.name}{position_of(operation)}: {error.message}"
    found = kind(message)
    found.placed = True
    return found
