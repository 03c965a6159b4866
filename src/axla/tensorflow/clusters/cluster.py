"""Clusters: parts of graphs that run inside TensorFlow, with their executables."""

from __future__ import annotations

import ctypes as c
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from axla import api
from axla.core import locks
from axla.core.errors import UnsupportedError
from axla.core.profile import watch
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.ir.traverse import needed_first
from axla.tensorflow.clusters import capi, flags
from axla.tensorflow.clusters.structs import CLUSTER, EXECUTABLE, INPUT, OUTPUT
from axla.tensorflow.graph import Graph, Output
from axla.tensorflow.importer import import_graph
from axla.tensorflow.messages import ENUMS
from axla.tensorflow.scope import DependsOnArguments, parameters_of
from axla.tensorflow.types import dtype_of

MOST_EXECUTABLES = 64
"""The largest number of executables of a cluster; one more replaces the one that was not used for the longest
time.
"""

_MOST_SIZES = 64  # the largest number of elements of an input that may hold sizes or axes

_numbers = itertools.count(1)
clusters: WeakValueDictionary[int, Cluster] = WeakValueDictionary()
"""The clusters of this process, by their numbers."""


class ClusterExecutable:
    """The compiled program of a cluster, for certain input shapes and values of inputs that must be
    constant.
    """

    def __init__(self, cluster: Cluster, given: Sequence[Shape | np.ndarray]) -> None:
        """`given`: the shapes of inputs, or the values of constant ones."""
        self.module, self.given = cluster.imported(given), given
        flags.picture(self.module, sum(isinstance(one, np.ndarray) for one in given))
        self.compiled: Any = api.compile(self.module, backend=cluster.backend)
        interface = self.compiled.interface
        for output, spec in zip(cluster.outputs, interface.results, strict=True):
            if spec.shape.is_dynamic:
                node = cluster.graph.nodes[output.node]
                while node.op == "Identity":
                    node = cluster.graph.nodes[node.inputs[0].node]
                why = "the size of its result is not known before the program has run"
                error = DependsOnArguments(f"{node}: {why}")
                error.parameters = self._sizes(given) if not cluster.falls_back else set()
                raise error
        self.struct: Any = EXECUTABLE.ctypes()()
        if cluster.backend == "cpu":
            self.loaded = self.compiled._loaded
            self.struct.program = self.loaded.address
        self._keep: list[Any] = []
        self.constant = {n for n, one in enumerate(given) if not isinstance(one, Shape)}
        parameters = [n for n, one in enumerate(given) if isinstance(one, Shape)]
        self.struct.parameters = self._kept((c.c_int64 * max(len(parameters), 1))(*parameters))
        inputs = (INPUT.ctypes() * max(len(given), 1))()
        for one, place in zip(given, inputs, strict=False):
            dims = one.dims if isinstance(one, Shape) else one.shape
            place.rank, place.dims = len(dims), self._numbers(dims)
            if isinstance(one, np.ndarray):
                place.value, place.bytes = self._kept(c.create_string_buffer(one.tobytes())), one.nbytes
        self.struct.inputs = self._kept(inputs)
        outputs = (OUTPUT.ctypes() * max(len(cluster.result_types), 1))()
        for number, (spec, type_) in enumerate(zip(interface.results, cluster.result_types, strict=True)):
            place, dims = outputs[number], spec.shape.dims
            place.rank, place.dims, place.bytes = len(dims), self._numbers(dims), spec.shape.byte_size
            place.type = type_number(type_)
        self.struct.outputs = self._kept(outputs)

    def fits(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether the executable was compiled for inputs like these."""
        return all(
            array.shape == one.dims if isinstance(one, Shape) else np.array_equal(array, one)
            for array, one in zip(arrays, self.given, strict=True)
        )

    def execute(self, arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        """The results for inputs of the cluster."""
        return self.compiled.execute([array for n, array in enumerate(arrays) if n not in self.constant])

    def _sizes(self, given: Sequence[Shape | np.ndarray]) -> set[int]:
        """The numbers of the inputs from which dynamic sizes are computed; none if one of these inputs may be
        data, as it is not a small array of integers.
        """
        found = needed_first([self.module.entry.root], lambda inst: inst.operands)
        numbers = parameters_of(inst.operands[1] for inst in found if inst.opcode == "set-dimension-size")
        shapes = [one for one in given if isinstance(one, Shape)]
        return numbers if all(_says_sizes(shapes[number]) for number in numbers) else set()

    def _kept(self, memory: Any) -> int:
        self._keep.append(memory)
        return c.addressof(memory)

    def _numbers(self, values: Sequence[int]) -> int:
        return self._kept((c.c_int64 * max(len(values), 1))(*values))


class Cluster:
    """A part of a graph that runs as one operation of TensorFlow. It is compiled on first use for each
    combination of input shapes, and of values of inputs that the compiler must know.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        inputs: Sequence[Output],
        outputs: Sequence[Output],
        backend: str = "cpu",
    ) -> None:
        """The results are `outputs` of the graph, computed from `inputs`, which are outputs of nodes too."""
        self.name, self.graph, self.backend = name, graph, backend
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.input_types = [_type(graph, output) for output in inputs]
        self.result_types = [_type(graph, output) for output in outputs]
        self.number = next(_numbers)
        self.constant: set[int] = set()
        """The numbers of the inputs whose values the compiler must know, as far as found so far."""
        self.falls_back, self.refused, self.session = False, "", None
        """`falls_back`: whether TensorFlow computes the cluster, in `session`, if it cannot be compiled;
        `refused`: why it could not be compiled, or "".
        """
        self.function: Any = None
        self.token = b""
        """For PyFunc: the Python function that it calls, and the token by which it finds the function."""
        self.executables: list[ClusterExecutable] = []
        self._lock = locks.new_lock()
        self._table = (c.c_void_p * MOST_EXECUTABLES)()
        self.struct: Any = CLUSTER.ctypes()(inputs=len(inputs), outputs=len(outputs), owner=id(self))
        self.struct.executables = c.addressof(self._table)
        clusters[self.number] = self
        self.profiling(None)
        watch(self)

    def profiling(self, profile: Any) -> None:
        """Sets whether Python runs the programs: while a profile is recorded, as Python measures them, and
        always for other backends than the CPU.
        """
        self.struct.in_python = profile is not None or self.backend != "cpu"

    def imported(self, given: Sequence[Shape | np.ndarray]) -> Module:
        """The module of the cluster for inputs with these shapes or constant values."""
        pairs = [*zip(self.inputs, given, strict=True)]
        feeds = [(output, one) for output, one in pairs if isinstance(one, Shape)]
        constants = {output: one for output, one in pairs if isinstance(one, np.ndarray)}
        options: Any = {"constants": constants, "name": self.name, "with_state": False}
        return import_graph(self.graph, feeds, self.outputs, **options).module

    def executable_for(self, arrays: Sequence[np.ndarray], tensors: int) -> int:
        """The address of the executable for these inputs, with a reference held; it is compiled if it does
        not exist. The inputs are given as arrays, and as TensorFlow's tensors: `tensors` is the address of a
        list of them.
        """
        with self._lock:
            found = capi.api().find(c.addressof(self.struct), tensors)
            return found or c.addressof(self._new(arrays, uses=1).struct)

    def execute(self, arrays: Sequence[np.ndarray]) -> Sequence[Any]:
        """Runs the cluster from Python, where there is no kernel."""
        with self._lock:
            found = next((one for one in self.executables if one.fits(arrays)), None)
            found = found or self._new(arrays, uses=0)
            self._used(found)
        return found.execute(arrays)

    def _new(self, arrays: Sequence[np.ndarray], uses: int) -> ClusterExecutable:
        if self.refused:
            raise UnsupportedError(self.refused)
        try:
            made = self._compiled(arrays)
        except UnsupportedError as error:
            self.refused = error.message if self.falls_back else ""
            raise
        made.struct.uses = uses  # before kernels find it
        self._add(made)
        return made

    def executable_at(self, address: int) -> ClusterExecutable:
        """The executable whose EXECUTABLE struct is at an address."""
        return next(one for one in [*self.executables] if c.addressof(one.struct) == address)

    def _compiled(self, arrays: Sequence[np.ndarray]) -> ClusterExecutable:
        while True:
            types = map(dtype_of, self.input_types, self.input_types)
            given = [
                array if number in self.constant else Shape(dtype, array.shape)
                for number, (array, dtype) in enumerate(zip(arrays, types, strict=True))
            ]
            try:
                return ClusterExecutable(self, given)
            except UnsupportedError as error:
                found = self._to_know(error, given)
                if not found:
                    raise
                self.constant |= found

    def _to_know(self, error: BaseException | None, given: Sequence[Any]) -> set[int]:
        """The numbers of the inputs whose values an import needs to know, if that is why it raised `error`;
        none if the error has another cause. `given` has the shape of each input, or its value if it is
        constant.
        """
        while error is not None and not isinstance(error, DependsOnArguments):
            error = error.__cause__
        shapes = [n for n, one in enumerate(given) if isinstance(one, Shape)]
        if error is None or error.parameters is None:  # in a loop or a branch: any input that may hold sizes
            sizes = {n for n in shapes if error is not None and _says_sizes(given[n])}
            return {n for n in sizes if not given[n].dims} or sizes  # scalars first, as vectors may be data
        return {shapes[number] for number in error.parameters}

    def _add(self, made: ClusterExecutable) -> None:
        with self._locked():
            if len(self.executables) == MOST_EXECUTABLES:
                unused = [one for one in self.executables if not one.struct.uses]
                if not unused:
                    raise UnsupportedError(f"{self.name}: its {MOST_EXECUTABLES} executables are all in use")
                self.executables.remove(min(unused, key=lambda one: one.struct.last))
            self._set([*self.executables, made])
            self._used(made)

    def _used(self, executable: ClusterExecutable) -> None:
        self.struct.clock += 1
        executable.struct.last = self.struct.clock

    def free(self) -> None:
        """Frees the executables that are not running, unless one is being compiled."""
        if self._lock.acquire(blocking=False):
            try:
                with self._locked():
                    self._set([one for one in self.executables if one.struct.uses])
            finally:
                self._lock.release()

    def _set(self, executables: list[ClusterExecutable]) -> None:
        self._table[: len(executables)] = [c.addressof(one.struct) for one in executables]
        self.executables, self.struct.count = executables, len(executables)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Within this context, kernels cannot read the list of executables."""
        if capi.missing():
            yield
            return
        capi.api().lock(c.addressof(self.struct))
        try:
            yield
        finally:
            capi.api().unlock(c.addressof(self.struct))


def type_number(name: str) -> int:
    """The number of a type in TensorFlow's DataType."""
    return ENUMS["DataType"].numbers[name]


def _says_sizes(shape: Any) -> bool:
    return shape.dtype.is_integer and shape.size <= _MOST_SIZES


def _type(graph: Graph, output: Output) -> str:
    types = graph.nodes[output.node].types
    if types is None:
        raise UnsupportedError(f"{graph.nodes[output.node]}: the types of its outputs are not known")
    return types[output.index]
