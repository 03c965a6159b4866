"""A block that is being filled with the operations of a computation, and the functions of a program.

Where HLO has tuples, StableHLO has several values: the value of an instruction is a *tree*, which is an
`mlir.Value` or a Python tuple of trees. A leaf without a value, such as the context of an asynchronous
operation, is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from axla.core.dtypes import DType
from axla.core.errors import AxlaError, UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape, array
from axla.ir.graph import Computation, Extra, Instruction, Module, SourceLocation
from axla.ir.structure import Parameter
from axla.ir.traverse import callers, schedule_of
from axla.stablehlo import mlir
from axla.stablehlo.building import I32, Builder, number
from axla.stablehlo.text.attributes import Attributes
from axla.stablehlo.types import dense_of, type_of

Tree = Any  # mlir.Value | tuple[Tree, ...] | None
ExportRule = Callable[["ExportScope", Instruction, Any], Tree]
"""Adds operations for an instruction with the given op; returns its value."""
DEEPEST = 24
"""The most levels of nested regions; computations below them become functions that are called."""
_OTHER_RESULTS = frozenset({"infeed", "outfeed", "recv", "recv-done", "send", "send-done"})
SHARDY = {"xla.sdy.sharding": "sdy.sharding", "xla.sdy.sharding_rule": "sdy.sharding_rule"}


def flat(tree: Tree) -> Iterator[Any]:
    """The leaves of a tree. The recursion is as deep as the nesting of shapes, which is bounded."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from flat(part)
    else:
        yield tree


def parsed(text: str) -> Any:
    """Parses a text as an MLIR attribute; None if it is not one."""
    try:
        return Attributes(text).attribute()
    except AxlaError:
        return None


def location_of(place: SourceLocation | None) -> mlir.Location | None:
    """Converts a source location to an MLIR location: a name, with a file and line inside."""
    if place is None:
        return None
    file = mlir.FileLocation(place.source_file, place.source_line, 0) if place.source_file else None
    return mlir.NameLocation(place.op_name, file) if place.op_name else file


def carried(extra: Extra) -> dict[str, Any]:
    """The sharding and the frontend attributes of an instruction, as discardable attributes."""
    found: dict[str, Any] = {"mhlo.sharding": f"{{{extra.sharding}}}"} if extra.sharding else {}
    frontend = {}
    for name, value in extra.frontend_attributes:
        attribute = parsed(value) if name in SHARDY else None
        if attribute is not None:
            found[SHARDY[name]] = attribute
        elif not name.startswith("composite."):
            frontend[name] = value
    return found | ({"mhlo.frontend_attributes": frontend} if frontend else {})


class Exporter:
    """One export of a module: the state that all blocks share."""

    def __init__(self, module: Module, rules: Mapping[str, ExportRule]) -> None:
        self.module = module
        self.rules = rules
        self.types: dict[AnyShape, mlir.Type] = {}
        self.functions: list[mlir.Operation] = []
        self.callers = {c: len(users) for c, users in callers(module).items()}
        self._names: dict[Computation, str] = {module.entry: "main"}
        self._wanted: list[Computation] = []

    def type(self, shape: AnyShape) -> mlir.Type:
        """The MLIR type of a shape. Equal shapes have the same object, since the printer identifies types by
        object.
        """
        shape = shape.logical
        found = self.types.get(shape)
        if found is None:
            found = self.types[shape] = type_of(shape)
        return found

    def leaf_types(self, shape: AnyShape) -> list[mlir.Type]:
        """The MLIR types of the leaves (arrays and tokens) of a shape."""
        return [self.type(leaf) for leaf in shape.leaves()]

    def symbol(self, computation: Computation) -> mlir.SymbolRef:
        """The name of the function that a computation becomes. At the first call the function is scheduled
        for export.
        """
        name = self._names.get(computation)
        if name is None:
            name = computation.name if computation.name != "main" else "main.called"
            taken = set(self._names.values())
            while name in taken:
                name += ".called"
            self._names[computation] = name
            self._wanted.append(computation)
        return mlir.SymbolRef(name)

    def run(self, entry: mlir.Operation) -> list[mlir.Operation]:
        """Exports all functions that are called, each once; returns them after `entry`."""
        self.functions.append(entry)
        while self._wanted:
            self.functions.append(self.function(self._wanted.pop(), sym_visibility="private"))
        return self.functions

    def opened(
        self, computation: Computation, places: list[mlir.Location] | None = None, depth: int = 0
    ) -> tuple[ExportScope, list[Tree]]:
        """Makes the scope of a new block, at the nesting level `depth`, with an argument for each leaf of the
        parameters. `places` are the locations of the arguments. Returns the scope, and the arguments as a
        tree for each parameter.
        """
        shapes = [p.shape for p in computation.parameters]
        scope = ExportScope(self, mlir.Block([t for s in shapes for t in self.leaf_types(s)], places), depth)
        leaves = iter(scope.block.arguments)
        return scope, [scope.tree(s, leaves) for s in shapes]

    def function(
        self, computation: Computation, places: list[mlir.Location] | None = None, **attributes: Any
    ) -> mlir.Operation:
        """Exports a computation as a function, whose arguments and results are the leaves of tuples. `places`
        are the locations of the arguments, `attributes` more attributes of the function.
        """
        scope, arguments = self.opened(computation, places)
        results = scope.fill(computation, arguments)
        scope.emit("func.return", results, ())
        types = [tuple(value.type for value in values) for values in (scope.block.arguments, results)]
        said = {"function_type": mlir.FunctionType(*types), "sym_name": self._names[computation]} | attributes
        return mlir.Operation("func.func", [], (), said, [mlir.Region([scope.block])])


class ExportScope(Builder):
    """Fills a block with the operations of one computation; `values` has the tree of each instruction."""

    def __init__(self, exporter: Exporter, block: mlir.Block, depth: int = 0) -> None:
        super().__init__(block)
        self.exporter = exporter
        self.values: dict[Instruction, Tree] = {}
        self.depth = depth
        self._carried: dict[str, Any] = {}

    def fill(self, computation: Computation, arguments: Sequence[Tree]) -> list[mlir.Value]:
        """Adds the operations of a computation to the block; returns the leaves of its root."""
        rules = self.exporter.rules
        for parameter, tree in zip(computation.parameters, arguments, strict=True):
            self.values[parameter] = tree
        for inst in schedule_of(computation):
            if isinstance(inst.op, Parameter):
                continue
            rule, extra = rules.get(inst.opcode), inst.extra
            self.location = location_of(extra.location)
            plain = not (extra.sharding or extra.frontend_attributes)
            self._carried = {} if plain else carried(extra)
            single = isinstance(inst.shape, TupleShape) and inst.shape.leaf_count < 2
            if single or inst.opcode in _OTHER_RESULTS:
                # The sharding has an entry for each leaf, but the operation has other results.
                self._carried.pop("mhlo.sharding", None)
            try:
                if rule is None:
                    raise UnsupportedError("StableHLO has no operation for this op")
                self.values[inst] = rule(self, inst, inst.op)
            except UnsupportedError as error:
                if error.placed:
                    raise
                found = UnsupportedError(f"{inst.opcode} %{inst.name}: {error.message}")
                found.placed = True
                raise found from None
        self.location, self._carried = None, {}
        return self.leaves(computation.root)

    # Values.

    def one(self, inst: Instruction) -> mlir.Value:
        """The value of an instruction that is not a tuple."""
        return self.values[inst] or self.leaves(inst)[0]

    def ones(self, inst: Instruction) -> list[mlir.Value]:
        """The values of an instruction's operands, none of which is a tuple."""
        values = self.values
        return [values[o] or self.one(o) for o in inst.operands]

    def leaves(self, inst: Instruction) -> list[mlir.Value]:
        """The values of all leaves of an instruction; a missing value becomes zero."""
        found = zip(flat(self.values[inst]), inst.shape.leaves(), strict=True)
        return [self.zero(shape) if value is None else value for value, shape in found]

    def zero(self, shape: AnyShape) -> mlir.Value:
        """Adds a constant of zeros, or a token."""
        if isinstance(shape, Shape):
            return self.constant(Literal.full(shape.with_dims(shape.dims), np.zeros((), shape.dtype.numpy)))
        return self.make("create_token", (), self.exporter.type(shape))

    def constant(self, literal: Literal) -> mlir.Value:
        """Adds a constant with the value of a literal."""
        return self.make("constant", (), self.exporter.type(literal.shape), {"value": dense_of(literal)})

    def tree(self, shape: AnyShape, leaves: Iterator[mlir.Value | None]) -> Tree:
        """Makes a tree with the structure of a shape from a sequence of leaves."""
        if isinstance(shape, TupleShape):
            return tuple([self.tree(e, leaves) for e in shape.elements])
        return next(leaves)

    def packed(self, tree: Tree, shape: AnyShape) -> mlir.Value:
        """Makes one value of a tree: of a tuple by StableHLO's `tuple`; a missing leaf becomes zero."""
        if not isinstance(shape, TupleShape):
            return self.zero(shape) if tree is None else tree
        parts = [self.packed(t, s) for t, s in zip(tree, shape.elements, strict=True)]
        return self.make("tuple", parts, self.exporter.type(shape))

    def unpacked(self, value: mlir.Value, shape: AnyShape) -> Tree:
        """The tree of a value: the elements of a tuple, nested like the shape, or else the value itself."""
        if not isinstance(shape, TupleShape):
            return value
        types = map(self.exporter.type, shape.elements)
        parts = [
            self.make("get_tuple_element", (value,), t, {"index": number(n, I32)})
            for n, t in enumerate(types)
        ]
        return tuple([self.unpacked(p, s) for p, s in zip(parts, shape.elements, strict=True)])

    # Operations.

    def place(self, operation: mlir.Operation) -> None:
        """Appends an operation, with the location and the attributes of the current instruction."""
        if operation.name not in ("stablehlo.constant", "stablehlo.get_tuple_element"):
            operation.attributes = operation.attributes | self._carried
        super().place(operation)

    def add(
        self, name: str, operands: Sequence[mlir.Value], shape: AnyShape,
        attributes: dict[str, Any] | None = None, regions: list[mlir.Region] | None = None,
    ) -> Tree:  # fmt: skip
        """Appends an operation with a result for each leaf of a shape; returns the results as a tree."""
        found = self.emit(name, operands, self.exporter.leaf_types(shape), attributes, regions)
        return self.tree(shape, iter(found))

    def converted(self, value: mlir.Value, shape: AnyShape, wanted: DType) -> mlir.Value:
        """Converts a value, whose HLO shape is `shape`, to the element type `wanted`."""
        if array(shape).dtype is wanted:
            return value
        return self.add("stablehlo.convert", (value,), array(shape).with_dtype(wanted))

    def call(self, computation: Computation, operands: Sequence[mlir.Value]) -> Tree:
        """Adds a call of the function that a computation becomes; returns its results as a tree."""
        callee = {"callee": self.exporter.symbol(computation)}
        return self.add("func.call", operands, computation.root.shape, callee)

    # Regions.

    def region(self, computation: Computation) -> mlir.Region:
        """Exports a computation as a region with an argument for each leaf of the parameters; it uses no
        outer values.
        """
        inner, arguments = self.exporter.opened(computation, depth=self.depth + 1)
        return inner._returning(computation, arguments)

    def branch(self, computation: Computation, argument: Tree) -> mlir.Region:
        """Exports a computation as a region without arguments; `argument`, an outer value, replaces the
        parameter.
        """
        return ExportScope(self.exporter, mlir.Block(), self.depth + 1)._returning(computation, [argument])

    def _returning(self, computation: Computation, arguments: Sequence[Tree]) -> mlir.Region:
        shared = self.exporter.callers[computation] > 1 and any(
            inst.op.computation_fields for inst in computation.instructions
        )
        if shared or self.depth > DEEPEST:
            results = list(flat(self.call(computation, [v for a in arguments for v in flat(a)])))
        else:
            results = self.fill(computation, arguments)
        self.emit("stablehlo.return", results, ())
        return mlir.Region([self.block])
