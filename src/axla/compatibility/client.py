"""The client of XLA's documents: data goes to a device, computations run on it, literals come back.

    client = ClientLibrary.ClientLibraryOrDie()
    builder = ComputationBuilder(client, "axpy")
    ...
    data = client.TransferToServer(literal)
    result = client.ExecuteAndTransfer(builder.Build(), [data])

Server and client are one process here. Methods have their documented CamelCase names and snake_case ones;
where a C++ method returns a StatusOr, they return the value or raise an AxlaError.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from axla import backends
from axla.builder.computation import XlaComputation
from axla.builder.values import instance, integer, items, text, tuples
from axla.compatibility.computation_builder import snake_case
from axla.core import locks
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.literal import Literal
from axla.core.shape import AnyShape, ProgramShape, Shape, TupleShape
from axla.custom.feeds import feeds, leaves_of
from axla.ir.graph import Module

Computation = XlaComputation
"""The result of a builder, under its name in the documents of 2017."""


class GlobalData:
    """Data on a device: a shape, and one array per leaf of the shape. The arrays are released with the last
    reference to the data, or by `Unregister`.
    """

    __slots__ = ("_shape", "_leaves")

    def __init__(self, shape: AnyShape, leaves: Sequence[Any]) -> None:
        self._shape = shape
        self._leaves: list[Any] | None = list(leaves)

    @property
    def shape(self) -> AnyShape:
        """The shape of the data, an array or a tuple."""
        return self._shape

    @property
    def leaves(self) -> list[Any]:
        """The arrays, in the order of the shape's leaves."""
        if self._leaves is None:
            raise InvalidArgument(f"global data of {self._shape.to_string(layout=False)} was unregistered")
        return self._leaves

    def release(self) -> None:
        """Drops the arrays; using the data afterwards is an error."""
        self._leaves = None

    def __repr__(self) -> str:
        gone = ", unregistered" if self._leaves is None else ""
        return f"<GlobalData {self._shape.to_string(layout=False)}{gone}>"


class ExecutionHandle:
    """A computation that was started, for `WaitForExecution`."""

    __slots__ = ("computation", "data")

    def __init__(self, computation: XlaComputation, data: GlobalData) -> None:
        self.computation = computation
        self.data: GlobalData | None = data

    def __repr__(self) -> str:
        return f"<ExecutionHandle of {self.computation.name}>"


class Client:
    """Runs computations on one backend; compiles each of them once."""

    def __init__(self, backend: str = "cpu") -> None:
        self.device_client = backends.Client(text(backend, "Client: backend"))
        self.backend = backend
        self._compiled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._lock = locks.new_lock()

    # Data.

    def TransferToServer(self, literal: object) -> GlobalData:
        """A copy of a literal, or of a value that NumPy converts to an array, on the device."""
        value = _literal(literal)
        put = self.device_client.device_put
        return GlobalData(value.shape, [put(leaf.array) for leaf in value.leaves() if leaf.shape.is_array])

    def TransferInProcess(self, value: object) -> Any:
        """Converts a literal to data of the device, or data of the device to a literal, by sharing memory
        instead of copying.

        NumPy memory that is shared with the device must not be written to as long as the data is used.
        """
        if isinstance(value, GlobalData):
            return _joined(value.shape, iter([_view(leaf) for leaf in value.leaves]))
        shared = _literal(value)
        return GlobalData(shared.shape, [leaf.array for leaf in shared.leaves() if leaf.shape.is_array])

    TransferToServerInProcess = TransferInProcess
    TransferFromServerInProcess = TransferInProcess

    def Transfer(self, data: GlobalData, shape_with_layout: AnyShape | None = None) -> Literal:
        """A copy of the data, as a literal; in the layout of a shape, when one is given."""
        copies = iter([np.array(leaf) for leaf in instance(GlobalData, data, "Transfer").leaves])
        return _with_layout(_joined(data.shape, copies), shape_with_layout)

    def TransferToInfeed(self, literal: object, replica_id: int = 0) -> None:
        """Puts a literal at the end of the infeed queue of the device with the number `replica_id`."""
        feeds(integer(replica_id, "replica_id")).infeed.put(_parts(_literal(literal)))

    def TransferFromOutfeed(
        self, shape_with_layout: AnyShape, replica_id: int = 0, timeout: float | None = None
    ) -> Literal:
        """Takes the oldest value, of the shape `shape_with_layout`, from the outfeed queue of the device with
        the number `replica_id`; waits up to `timeout` seconds for one.
        """
        instance(AnyShape, shape_with_layout, "TransferFromOutfeed", "a shape")
        value = feeds(integer(replica_id, "replica_id")).outfeed.get(timeout)
        leaves = leaves_of("TransferFromOutfeed", shape_with_layout, value)
        return _with_layout(_joined(shape_with_layout.logical, iter(leaves)), shape_with_layout)

    def GetShape(self, data: GlobalData) -> AnyShape:
        """The shape of data on the device."""
        return instance(GlobalData, data, "GetShape").shape

    def Unregister(self, data: GlobalData) -> None:
        """Releases the data at once."""
        instance(GlobalData, data, "Unregister").release()

    def DeconstructTuple(self, data: GlobalData) -> list[GlobalData]:
        """The elements of the tuple `data`, as data that shares the memory of the tuple."""
        whole = self.GetShape(data)
        if not isinstance(whole, TupleShape):
            raise InvalidArgument(f"DeconstructTuple: found {data!r}, wanted a tuple")
        leaves = iter(data.leaves)
        parts = []
        for shape in whole.elements:
            count = sum(1 for leaf in shape.leaves() if leaf.is_array)
            parts.append(GlobalData(shape, [next(leaves) for _ in range(count)]))
        return parts

    # Computations.

    def GetComputationShape(self, computation: XlaComputation) -> ProgramShape:
        """The shapes of a computation's parameters and result."""
        return instance(XlaComputation, computation, "the computation").program_shape

    def Compile(self, computation: XlaComputation | Module) -> Any:
        """The executable of a computation; compiled once as long as the computation lives."""
        module = computation.module if isinstance(computation, XlaComputation) else computation
        instance(Module, module, "Compile", "the result of a builder's Build")
        with self._lock:
            found = self._compiled.get(computation)
            if found is None:
                found = self._compiled[computation] = self.device_client.compile(module)
            return found

    def Execute(
        self, computation: XlaComputation, arguments: Sequence[GlobalData] = (),
        shape_with_output_layout: AnyShape | None = None,
    ) -> GlobalData:  # fmt: skip
        """Runs a computation on data of the device; the result stays on the device, in the layout of
        `shape_with_output_layout` if it is given.
        """
        return self._execute(computation, arguments, shape_with_output_layout, asynchronous=False)

    def ExecuteAsync(
        self, computation: XlaComputation, arguments: Sequence[GlobalData] = (),
        shape_with_output_layout: AnyShape | None = None,
    ) -> ExecutionHandle:  # fmt: skip
        """Starts a computation like `Execute`; returns before it is done, if the backend has queues.
        `WaitForExecution` returns its result, or raises its error.
        """
        data = self._execute(computation, arguments, shape_with_output_layout, asynchronous=True)
        return ExecutionHandle(computation, data)

    def WaitForExecution(self, computation: XlaComputation, execution: ExecutionHandle) -> GlobalData:
        """The result of a computation that `ExecuteAsync` started; once for each handle."""
        handle = instance(ExecutionHandle, execution, "WaitForExecution", "a result of ExecuteAsync")
        data, handle.data = handle.data, None
        if data is None:
            raise InvalidArgument(f"WaitForExecution: {handle!r} was waited for already")
        if handle.computation is not computation:
            handle.data = data
            raise InvalidArgument(f"WaitForExecution: {handle!r} is of another computation")
        for leaf in data.leaves:
            leaf.block_until_ready()
        return data

    def _execute(
        self, computation: XlaComputation, arguments: Sequence[GlobalData],
        shape_with_output_layout: AnyShape | None, *, asynchronous: bool,
    ) -> GlobalData:  # fmt: skip
        shape, arguments = self.GetComputationShape(computation), items(arguments, "Execute: arguments")
        self._check(computation, shape, arguments)
        if (
            shape_with_output_layout is not None
            and instance(AnyShape, shape_with_output_layout, "Execute").logical is not shape.result.logical
        ):
            raise ShapeError(
                f"Execute: the result is {shape.result.to_string(layout=False)}, "
                f"not {shape_with_output_layout.to_string(layout=False)}"
            )
        inputs = [leaf for data in arguments for leaf in data.leaves]
        leaves = self.Compile(computation).execute(inputs, asynchronous=asynchronous)
        return GlobalData(_actual(shape_with_output_layout or shape.result.logical, iter(leaves)), leaves)

    def _check(
        self, computation: XlaComputation, shape: ProgramShape, arguments: Sequence[GlobalData]
    ) -> None:  # fmt: skip
        name, wanted = computation.name, shape.parameters
        if len(arguments) != len(wanted):
            raise InvalidArgument(f"Execute {name}: found {len(arguments)} arguments, wanted {len(wanted)}")
        for number, (data, parameter) in enumerate(zip(arguments, wanted, strict=True)):
            label = f"Execute {name}, parameter {number} ({shape.names[number]})"
            if not isinstance(data, GlobalData):
                raise InvalidArgument(
                    f"{label}: found {type(data).__name__}, wanted GlobalData; use TransferToServer"
                )
            if not _admits(parameter, data.shape):
                found = data.shape.to_string(layout=False)
                raise InvalidArgument(f"{label}: found {found}, wanted {parameter.to_string(layout=False)}")

    def ExecuteAndTransfer(
        self, computation: XlaComputation, arguments: Sequence[GlobalData] = (),
        shape_with_layout: AnyShape | None = None,
    ) -> Literal:  # fmt: skip
        """Runs a computation and returns its result as a literal."""
        data = self.Execute(computation, arguments)
        # Nothing else refers to the result, so the literal can use its memory.
        return _with_layout(self.TransferInProcess(data), shape_with_layout)

    def ExecuteParallel(
        self, computations: Sequence[tuple[XlaComputation, Sequence[GlobalData]]]
    ) -> list[GlobalData]:
        """Runs several computations at once, each on a device of its own; returns their results in order.

        The computations may send data to each other, and take part in the same collectives: each is a
        replica.
        """
        calls = tuples(computations, "ExecuteParallel", "(computation, arguments)", *[lambda v, _: v] * 2)
        if len(calls) == 1:
            return [self.Execute(*calls[0])]
        shapes = [self.GetComputationShape(computation) for computation, _ in calls]
        rows = [items(arguments, "ExecuteParallel: arguments") for _, arguments in calls]
        for (computation, _), shape, row in zip(calls, shapes, rows, strict=True):
            self._check(computation, shape, row)
        modules = [computation.module for computation, _ in calls]
        inputs = [[leaf for data in row for leaf in data.leaves] for row in rows]
        found = self.device_client.backend.execute_parallel(modules, inputs)
        return [GlobalData(s.result.logical, leaves) for s, leaves in zip(shapes, found, strict=True)]

    def ComputeConstant(self, computation: XlaComputation) -> Literal:
        """The result of a computation without parameters."""
        return self.ExecuteAndTransfer(computation)

    def __repr__(self) -> str:
        return f"Client({self.backend!r})"


class LocalClient(Client):
    """A client whose devices are in this process, as the devices of all clients here are."""

    def platform(self) -> str:
        """The name of the backend."""
        return self.backend

    def device_count(self) -> int:
        """The number of devices of the backend in this process."""
        return len(self.device_client.devices)


class ClientLibrary:
    """The clients of this process, one per backend."""

    _clients: dict[str, LocalClient] = {}
    _lock = locks.new_lock()

    @classmethod
    def GetOrCreateLocalClient(cls, backend: str = "cpu") -> LocalClient:
        """Returns the client of a backend; later calls return the same client."""
        with cls._lock:
            if text(backend, "backend") not in cls._clients:
                cls._clients[backend] = LocalClient(backend)
            return cls._clients[backend]

    # The names in XLA's C++ and in its first documents.
    LocalClientOrDie = GetOrCreateLocalClient
    ClientLibraryOrDie = GetOrCreateLocalClient

    @classmethod
    def DestroyLocalInstances(cls) -> None:
        """Forgets all clients; a program that they compiled is freed with the last reference to it."""
        with cls._lock:
            cls._clients.clear()


def _literal(value: object) -> Literal:
    try:
        return Literal.of(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"TransferToServer: found {type(value).__name__}, wanted a literal ({error})"
        ) from None


def _parts(literal: Literal) -> Any:
    if literal.shape.is_tuple:
        return tuple(_parts(part) for part in literal.elements)
    return literal.array


def _view(leaf: Any) -> np.ndarray:
    view = np.asarray(leaf).view()
    view.flags.writeable = False
    return view


def _joined(shape: AnyShape, leaves: Any) -> Literal:
    """A literal of a shape, made of the next arrays of the iterator `leaves`, one for each array of the
    shape. (It is recursive, as tuples nest only a few levels.)
    """
    if isinstance(shape, TupleShape):
        return Literal(shape, elements=[_joined(element, leaves) for element in shape.elements])
    return Literal(shape, next(leaves)) if isinstance(shape, Shape) else Literal(shape)


def _admits(wanted: AnyShape, found: AnyShape) -> bool:
    """Whether a parameter of the shape `wanted` accepts data of the shape `found`: a dynamic dimension
    accepts sizes up to its bound.
    """
    if isinstance(wanted, TupleShape) and isinstance(found, TupleShape):
        return len(wanted.elements) == len(found.elements) and all(
            map(_admits, wanted.elements, found.elements)
        )
    if isinstance(wanted, Shape) and isinstance(found, Shape):
        return wanted.dtype is found.dtype and wanted.admits(found.dims)
    return wanted is found


def _actual(shape: AnyShape, leaves: Iterator[Any]) -> AnyShape:
    """The shape with the actual sizes of dynamic dimensions: those of the next arrays of `leaves`, one for
    each array of the shape.
    """
    if isinstance(shape, TupleShape):
        return TupleShape([_actual(element, leaves) for element in shape.elements])
    if not isinstance(shape, Shape):
        return shape
    array = next(leaves)
    return Shape(shape.dtype, array.shape, (), shape.layout) if shape.is_dynamic else shape


def _with_layout(literal: Literal, shape: AnyShape | None) -> Literal:
    if shape is None:
        return literal
    if instance(AnyShape, shape, "the layout", "a shape").logical is not literal.shape.logical:
        raise ShapeError(
            f"Transfer: the data is {literal.shape.to_string(layout=False)}, not "
            f"{shape.to_string(layout=False)}"
        )
    if isinstance(shape, TupleShape):
        parts = [_with_layout(part, s) for part, s in zip(literal.elements, shape.elements, strict=True)]
        return Literal(shape, elements=parts)
    return Literal(shape, literal.array) if isinstance(shape, Shape) else literal


for _class in (Client, LocalClient, ClientLibrary):
    for _name, _method in list(vars(_class).items()):
        if _name[0].isupper():
            setattr(_class, snake_case(_name), _method)
