"""A scope: an HLO computation that is being built from the nodes of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from time import monotonic
from typing import Any, NoReturn

import numpy as np

import axla.ops as ops
from axla.builder.metadata import OpMetadata
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import AxlaError, DeadlineExceeded, OutOfMemory, UnsupportedError, VerifyError
from axla.core.shape import Shape
from axla.interpreter import evaluate
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Parameter
from axla.ir.traverse import needed_first
from axla.tensorflow.attributes import Callee, called_by
from axla.tensorflow.branches import functional
from axla.tensorflow.graph import Graph, Node, Output
from axla.tensorflow.records import lowerings, types_of
from axla.tensorflow.types import DTYPES, dtype_of
from axla.tensorflow.values import MISSING, VARIABLES, GraphValue, Reference, Resource, Variable

DEEPEST = 60
"""The largest depth of nested function calls."""
MOST_NODES = 50_000
"""The number of nodes that one import may add, besides ten times the number of nodes of the graph. Functions
that call functions can multiply nodes.
"""
_MOST_STEPS, _MOST_BYTES, _MOST_SECONDS, _MOST_NUMBERS = 1_000_000, 1 << 28, 20.0, 1 << 22
"""Limits of the interpreter: steps for one constant, bytes of one value, seconds for all constants. The last
is the largest number of elements of a constant array that lowering functions handle in Python.
"""


@dataclass(slots=True, eq=False)
class Import:
    """One import of a graph: what its scopes share. `initial`: by name of a variable, its value at the start
    of the program, or its shape if it is a parameter; `resources`: those that nodes name, by kind and name.
    """

    initial: Mapping[str, Shape | np.ndarray] = field(default_factory=dict)
    resources: dict[tuple[str, str], Resource] = field(default_factory=dict)
    known: dict[Instruction, np.ndarray] = field(default_factory=dict)
    varying: set[Instruction] = field(default_factory=set)
    depth: int = 0
    nodes: int = 0
    seconds: float = _MOST_SECONDS
    partial: bool = False
    checkpoint: Mapping[str, np.ndarray] = field(default_factory=dict)

    def resource(self, kind: type[Resource], name: str, **more: Any) -> Any:
        """The resource of this kind and name; created with the fields `more` if it does not exist yet."""
        return self.resources.setdefault((kind.__name__, name), kind(name, **more))

    def variable(self, node: Node) -> Variable | None:
        """The variable that a node names; None for other nodes."""
        if node.op not in VARIABLES:
            return None
        dtype, shape = node.attributes["dtype"], node.attributes["shape"]
        return self.resource(VARIABLES[node.op], variable_name(node), dtype=dtype, shape=shape)


def variable_name(node: Node) -> str:
    """The name of a node's variable: the attribute `shared_name`, or the name of the node."""
    return node.attributes.get("shared_name") or node.name


class DependsOnArguments(UnsupportedError):
    """Raised for a value that must be constant but depends on arguments. `parameters`: the numbers of the
    parameters that it depends on, None if unknown.
    """

    parameters: set[int] | None = None


def parameters_of(values: Iterable[Instruction]) -> set[int]:
    """The numbers of the parameters on which values of a computation depend."""
    found = needed_first(values, lambda inst: inst.operands)
    return {inst.op.parameter_number for inst in found if isinstance(inst.op, Parameter)}


class Scope:
    """A builder of a computation, and the contents of resources at this point of the program. `outer` is the
    enclosing scope.
    """

    def __init__(self, importer: Import, builder: XlaBuilder, outer: Scope | None = None) -> None:
        self.importer, self.builder, self.outer = importer, builder, outer
        self.state: dict[Resource, GraphValue] = {}
        self.entered: dict[Resource, GraphValue] = {}
        """The state at the beginning of a region."""
        self.parameters: list[Variable] = []
        """The variables that are parameters of the program, in order; their parameters follow those for
        feeds.
        """
        self.begun: dict[Resource, XlaOp] = {}
        """The values that variables have when the program begins."""
        self.first = 0
        """The number of the parameter for the first variable in `parameters`."""

    def inner(self, name: str) -> Scope:
        """A scope for a computation that this scope calls."""
        return Scope(self.importer, self.builder.sub_builder(name), self)

    # Graphs.

    def run(
        self, graph: Graph, outputs: Sequence[Output], given: Mapping[Output, GraphValue],
        targets: Iterable[str] = (),
    ) -> list[GraphValue]:  # fmt: skip
        """Adds the nodes of a graph that `outputs` and `targets` need; returns the values of the outputs.
        `given` has the values of outputs that are not computed, such as arguments.
        """
        importer = self.importer
        importer.depth += 1
        if importer.depth > DEEPEST:
            raise UnsupportedError(f"function '{graph.name}': calls are nested more than {DEEPEST} deep")
        values = dict(given)
        graph = functional(graph, outputs, list(targets), given)
        needed = graph.needed(outputs, targets, given)
        importer.nodes += len(needed)
        if importer.nodes > MOST_NODES + 10 * graph.library.nodes:
            raise UnsupportedError(f"function '{graph.name}': there are too many nodes, {importer.nodes}")
        for node in needed:
            if all(Output(node.name, place) in given for place in range(len(node.types or ()) or 1)):
                continue
            operands = [self._value(source, values) for source in node.inputs]
            add = self._tried if importer.partial else self.add
            found = add(node, operands, graph)
            for index, value in enumerate(found):
                values.setdefault(Output(node.name, index), value)
        importer.depth -= 1
        return [self._value(output, values) for output in outputs]

    def _value(self, output: Output, values: Mapping[Output, GraphValue]) -> GraphValue:
        if output not in values and not self.importer.partial:
            raise VerifyError(f"'{output}' has no value: its node has no such output")
        return values.get(output, MISSING)

    def _tried(self, node: Node, operands: list[GraphValue], graph: Graph) -> list[GraphValue]:
        """Adds a node; returns its outputs, or none if it is not supported or an operand is missing. A node
        that calls functions is always added: they add as many of their nodes as possible.
        """
        if any(value is MISSING for value in operands) and not called_by(node.attributes):
            return []
        depth = self.importer.depth
        try:
            return self.add(node, operands, graph)
        except UnsupportedError:
            self.importer.depth = depth
            return []

    def call(self, graph: Graph, arguments: Sequence[GraphValue]) -> list[GraphValue]:
        """Adds the body of a function, for these arguments; returns its results."""
        if len(arguments) != len(graph.arguments):
            wanted = len(graph.arguments)
            raise VerifyError(f"function '{graph.name}' takes {wanted} arguments, found {len(arguments)}")
        given = {}
        for (name, type_), value in zip(graph.arguments, arguments, strict=True):
            if isinstance(value, XlaOp) and value.dtype is not DTYPES.get(type_):
                message = f"argument '{name}' is {type_}, found {value.dtype.name}"
                raise VerifyError(f"function '{graph.name}': {message}")
            given[Output(name, 0)] = value
        return self.run(graph, graph.results, given, graph.controls)

    def add(self, node: Node, operands: list[GraphValue], graph: Graph) -> list[GraphValue]:
        """Adds the lowering of a node; returns its outputs."""
        self.builder.set_op_metadata(OpMetadata(node.op, node.name))
        try:
            return self._added(node, operands, graph)
        except AxlaError as error:
            if error.placed:
                raise
            placed = type(error)(f"{node}: {error.message}")
            placed.placed = True
            raise placed from error

    def _added(self, node: Node, operands: list[GraphValue], graph: Graph) -> list[GraphValue]:
        if node.record is None:
            if node.op in graph.library.messages:
                return self.call(graph.library.function(Callee(node.op, node.given), str(node)), operands)
            raise UnsupportedError("neither TensorFlow's XLA nor axla supports it")
        function = lowerings().get(node.op)
        if function is None and node.record.counterpart is None:
            raise UnsupportedError(node.record.why_not or "it has no counterpart in HLO")
        call = OpCall(self, node, graph)
        operands = self._dereferenced(node, operands)
        try:
            if function is None:
                return call.outputs(call.counterpart(operands))
            found = function(call, *call.grouped(operands))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if any(isinstance(value, np.ndarray) for value in operands):
                raise UnsupportedError("the operation is not supported for strings") from error
            raise VerifyError(f"its attributes or inputs do not fit the operation ({error!r})") from error
        return call.outputs(found)

    def _dereferenced(self, node: Node, operands: list[GraphValue]) -> list[GraphValue]:
        """The operands, with references replaced by values where a node takes no reference; functions take
        both.
        """
        if node.record is None or not any(isinstance(value, Reference) for value in operands):
            return operands
        if called_by(node.attributes):
            return operands
        wanted = types_of(node.record.operands, node.attributes, str(node))
        pairs = zip(operands, wanted, strict=True)
        return [self.read(v) if isinstance(v, Reference) and not ref else v for v, (_, _, ref) in pairs]

    # Constants and resources.

    def constant(self, value: np.ndarray) -> XlaOp:
        """A constant; an array with all strides 0, which repeats one element, becomes a broadcast scalar."""
        if value.size > 1 and not any(value.strides):
            scalar = self.constant(np.asarray(value.reshape(-1)[0]))
            found = ops.Broadcast(scalar, value.shape)
        else:
            found = self.builder.constant(np.ascontiguousarray(value).reshape(value.shape))
        self.importer.known[found.instruction] = value
        return found

    def known(self, value: XlaOp) -> np.ndarray | None:
        """The value of an array that depends on constants only; None for others."""
        known, inst = self.importer.known, value.instruction
        if inst not in known:
            if self._varies(inst) or not self.builder.is_constant(value):
                return None
            known[inst] = self._evaluated(self.builder.build_constant_subgraph(value).module)
        return known[inst]

    def _varies(self, root: Instruction) -> bool:
        """Whether an array depends on a parameter; a positive answer is cached."""
        seen, stack, varying = {root}, [root], self.importer.varying
        while stack:
            inst = stack.pop()
            if inst in varying or inst.opcode == "parameter":
                varying.add(root)
                return True
            fresh = [source for source in inst.operands if source not in seen]
            seen.update(fresh)
            stack += fresh
        return False

    def _evaluated(self, module: Module) -> np.ndarray:
        """The value of a constant expression; UnsupportedError where computing it takes too long."""
        importer, begin = self.importer, monotonic()
        limits = {"step_limit": _MOST_STEPS, "deadline": importer.seconds, "memory_limit": _MOST_BYTES}
        try:
            return np.asarray(evaluate(module, **limits).array)
        except (DeadlineExceeded, OutOfMemory) as error:
            message = f"a constant value is too expensive to compute: {error.message}"
            raise UnsupportedError(message) from None
        finally:
            importer.seconds -= monotonic() - begin

    def read(self, variable: Resource) -> GraphValue:
        """The contents of a resource; VerifyError where it has none."""
        if variable not in self.state:
            initial = self.importer.initial.get(variable.name)
            if self.outer is not None or initial is None or not isinstance(variable, Variable):
                raise VerifyError(f"'{variable.name}' has no value here: none was given or assigned")
            self.state[variable] = self.begun[variable] = self._begin(variable, initial)
        return self.state[variable]

    def _begin(self, variable: Variable, initial: Shape | np.ndarray) -> XlaOp:
        """The initial value of a variable: a constant, or a parameter."""
        if isinstance(initial, np.ndarray):
            return self.constant(initial)
        self.parameters.append(variable)
        return ops.Parameter(self.builder, self.first + len(self.parameters) - 1, initial, variable.name)

    def has(self, variable: Resource) -> bool:
        """Whether a resource has contents."""
        return variable in self.state or (self.outer is None and variable.name in self.importer.initial)


class OpCall:
    """The node that is being added, as lowering functions see it. `call["T"]` is its attribute `T`."""

    def __init__(self, scope: Scope, node: Node, graph: Graph) -> None:
        self.scope, self.node, self.graph = scope, node, graph
        self.builder, self.attributes = scope.builder, node.attributes

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def dtype(self, name: str) -> DType:
        """The element type in an attribute of kind type."""
        return dtype_of(self.attributes[name], f"attribute {name!r}")

    def fail(self, message: str) -> NoReturn:
        """Raises VerifyError about this node."""
        raise VerifyError(message)

    def constant(self, value: XlaOp, what: str) -> np.ndarray:
        """The values of an operand that must be known at compile time. Raises UnsupportedError, which names
        the operand as `what`, if they depend on arguments.
        """
        found = self.scope.known(value)
        if found is None:
            error = DependsOnArguments(f"{what} depends on arguments of the program, and must be constant")
            if self.scope.outer is None:
                error.parameters = parameters_of([value.instruction])
            raise error
        self.numbers(found.size)
        return found

    def integers(self, value: XlaOp, what: str) -> tuple[int, ...]:
        """The elements of a constant scalar or vector, which messages name `what`."""
        found = self.constant(value, what)
        if found.ndim > 1:
            self.fail(f"{what} has shape {list(found.shape)}, wanted a vector")
        return tuple(int(number) for number in found.reshape(-1))

    def integer(self, value: XlaOp, what: str) -> int:
        """The value of a constant with one element, which messages name `what`."""
        numbers = self.integers(value, what)
        if len(numbers) != 1:
            self.fail(f"{what} has {len(numbers)} elements, wanted one")
        return numbers[0]

    def numbers(self, count: int) -> np.ndarray:
        """The numbers 0...count - 1; UnsupportedError if these are more than an import may create."""
        if count > _MOST_NUMBERS:
            raise UnsupportedError(f"{count} elements are too many, an import handles {_MOST_NUMBERS}")
        return np.arange(count)

    def axis(self, number: int, rank: int, what: str = "axis") -> int:
        """Converts the number of a dimension, which counts from the end if it is negative, to one from 0 to
        rank - 1. VerifyError for a number out of range.
        """
        if not -rank <= number < rank:
            self.fail(f"{what} is {number}, wanted a number from {-rank} to {rank - 1}")
        return number % rank

    def function(self, name: str) -> Graph:
        """The function in an attribute of kind func."""
        return self.graph.library.function(self.attributes[name], "it")

    def grouped(self, operands: Sequence[GraphValue]) -> list[Any]:
        """The operands grouped as the record declares: a list for an operand that has several values."""
        record = self.node.record
        assert record is not None
        found: list[Any] = []
        rest = list(operands)
        for value in record.operands:
            count, star, kind = value.kind.lstrip("&").rpartition("*")
            types = self.attributes.get(kind)
            if not star and not isinstance(types, tuple):
                found.append(rest.pop(0))
                continue
            size = self.attributes[count] if star else len(types or ())
            found.append(rest[:size])
            rest = rest[size:]
        return found

    def counterpart(self, operands: Sequence[GraphValue]) -> GraphValue:
        """Applies the function of `axla.ops` named by the record, with operands broadcast to one shape."""
        assert self.node.record is not None and self.node.record.counterpart is not None
        (name,) = self.node.record.counterpart or (self.node.op,)
        return getattr(ops, name)(*matched(*operands))

    def outputs(self, found: Any) -> list[GraphValue]:
        """The outputs of the node, from the result of its lowering function: a tuple has several, NumPy
        arrays become constants. Their number and types must be those of the record.
        """
        values = list(found) if isinstance(found, list | tuple) else [] if found is None else [found]
        if isinstance(found, XlaOp) and found.shape.is_tuple:
            values = list(found)
        types = self.node.types or ()
        if len(values) != len(types):
            self.fail(f"its lowering returns {len(values)} values, its record declares {len(types)}")
        for number, type_ in enumerate(types):
            value = values[number]
            wanted = DTYPES.get(type_)
            if isinstance(value, np.ndarray | np.generic) and wanted is not None:
                value = values[number] = self.scope.constant(np.asarray(value))
            if isinstance(value, XlaOp) and wanted is not None and value.dtype is not wanted:
                self.fail(f"result {number} is {value.dtype.name}, its attributes declare {wanted.name}")
        return values


def matched(*values: XlaOp) -> list[XlaOp]:
    """Arrays broadcast to a common shape, as in NumPy; VerifyError where that is not possible."""
    if len({value.dims for value in values}) == 1:
        return list(values)
    dims = common_dims(*(value.dims for value in values))
    return [spread(value, dims) for value in values]


def common_dims(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape of NumPy's broadcasting; VerifyError where there is none."""
    try:
        return np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        found = ", ".join(str(list(shape)) for shape in shapes)
        raise VerifyError(f"shapes {found} cannot be broadcast to one") from None


def spread(value: XlaOp, dims: Sequence[int]) -> XlaOp:
    """An array broadcast to a shape, as in NumPy."""
    if value.dims == tuple(dims):
        return value
    first = len(dims) - len(value.dims)
    kept = [d for d, size in enumerate(value.dims) if size == dims[first + d]]
    squeezed = ops.Reshape(value, [value.dims[d] for d in kept])
    return ops.BroadcastInDim(squeezed, tuple(dims), [first + d for d in kept])
