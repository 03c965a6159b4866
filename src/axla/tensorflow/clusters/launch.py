"""AxlaLaunch: the operation of TensorFlow that runs a cluster."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from axla.core import locks
from axla.core.errors import AxlaError, InvalidArgument, OutOfMemory, UnsupportedError
from axla.core.python_api import incref
from axla.core.status import status_of
from axla.program.abi import FRAME
from axla.runtime.arguments import failed_call
from axla.tensorflow.clusters import capi
from axla.tensorflow.clusters.capi import api
from axla.tensorflow.clusters.cluster import Cluster, clusters, type_number
from axla.tensorflow.clusters.fallback import in_tensorflow
from axla.tensorflow.clusters.framework import context, execute, graph_pb2, ops, script_ops, tf
from axla.tensorflow.clusters.rewriting import KERNEL, PY_FUNC, ClusterCall
from axla.tensorflow.clusters.structs import CLUSTER
from axla.tensorflow.messages import encode
from axla.tensorflow.types import dtype_of

_lock = locks.new_lock()


@tf.autograph.experimental.do_not_convert
def launch(cluster: Cluster, tensors: Sequence[Any]) -> list[Any]:
    """Runs a cluster on these tensors eagerly, or adds its operation to the graph being built; returns the
    results.
    """
    way = register(cluster)
    kinds = [type_number(name) for name in cluster.input_types]
    made = [type_number(name) for name in cluster.result_types]
    if tf.executing_eagerly():
        attributes = (way.inputs, kinds, way.results, made, way.key, getattr(cluster, way.value))
        place = context.context()
        return execute.execute(way.op.encode(), len(made), list(tensors), attributes, place, cluster.name)
    graph = ops.get_default_graph()
    graph._axla_clusters = held = getattr(graph, "_axla_clusters", [])
    held.append(cluster)  # it lives as long as the graph
    message = encode({"node": [{"op": way.op, "attr": way.attributes(cluster)}]}, "GraphDef")
    attributes = dict(graph_pb2.GraphDef.FromString(message).node[0].attr)
    types = [tf.dtypes.as_dtype(number) for number in made]
    node = graph._create_op_internal(way.op, list(tensors), types, attrs=attributes, name=cluster.name)
    return list(node.outputs)


def register(cluster: Cluster) -> ClusterCall:
    """Registers the operation that runs a cluster with TensorFlow, and returns it: PyFunc if the C API is
    missing.
    """
    with _lock:
        if capi.missing():
            if not cluster.token:
                cluster.function = partial(_computed, cluster)  # TensorFlow has only a weak reference
                cluster.token = script_ops._py_funcs.insert(cluster.function).encode()
            return PY_FUNC
        _registered()
        return KERNEL


def _computed(cluster: Cluster, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a cluster; TensorFlow computes them if axla cannot compile the cluster."""
    try:
        return [np.asarray(result) for result in cluster.execute(arrays)]
    except UnsupportedError:
        if not cluster.refused:
            raise
    return in_tensorflow(cluster, arrays)


@cache
def _registered() -> None:
    call, at, op = api().tf, api().at, KERNEL.op.encode()
    builder, status = call["TF_NewOpDefinitionBuilder"](op), call["TF_NewStatus"]()
    for attribute in (b"Targs: list(type) >= 0", b"Tresults: list(type) >= 0", b"program: int"):
        call["TF_OpDefinitionBuilderAddAttr"](builder, attribute)
    call["TF_OpDefinitionBuilderAddInput"](builder, b"args: Targs")
    call["TF_OpDefinitionBuilderAddOutput"](builder, b"results: Tresults")
    call["TF_OpDefinitionBuilderSetIsStateful"](builder, True)  # it is neither folded nor left out
    unknown = c.cast(call["TF_ShapeInferenceContextSetUnknownShape"], c.c_void_p)
    call["TF_OpDefinitionBuilderSetShapeInferenceFunction"](builder, unknown)
    call["TF_RegisterOpDefinition"](builder, status)
    api().check(status, f"the operation {KERNEL.op}")
    for name in ("compiled", "executed", "failed"):
        c.c_void_p.from_address(at[f"tf_{name}"]).value = c.cast(_CALLED[name], c.c_void_p).value
    create, status = c.cast(_CALLED["created"], c.c_void_p), call["TF_NewStatus"]()
    builder = call["TF_NewKernelBuilder"](op, b"CPU", create, at["tf_compute"], at["tf_delete"])
    call["TF_RegisterKernelBuilder"](f"{KERNEL.op}Kernel".encode(), builder, status)
    api().check(status, f"the kernel of {KERNEL.op}")


# Functions that TensorFlow and the kernel call. The callers do not hold the interpreter lock.


def _created(construction: int) -> int | None:
    """Creates a kernel. `construction` is the address of TensorFlow's TF_OpKernelConstruction. Returns the
    address of the CLUSTER that the kernel runs; None if an error was reported.
    """
    call, status, number = api().tf, api().tf["TF_NewStatus"](), c.c_int64(-1)
    at = c.addressof(number)
    call["TF_OpKernelConstruction_GetAttrInt64"](construction, b"program", at, status)
    call["TF_DeleteStatus"](status)
    cluster = clusters.get(number.value)
    if cluster is None:
        error = InvalidArgument(f"{KERNEL.op}: there is no program {number.value} in this process")
        _fail("TF_OpKernelConstruction_Failure", construction, error)
        return None
    incref(cluster)  # until the kernel is deleted
    return c.addressof(cluster.struct)


def _compiled(cluster: int, place: int, tensors: int) -> int | None:
    """The address of an EXECUTABLE for new inputs, with a reference held. None if the outputs were computed
    here by TensorFlow, or an error was reported. `cluster`, `place` and `tensors` are the addresses of the
    CLUSTER, the kernel's TF_OpKernelContext, and a list of the inputs.
    """
    try:
        found = _owner(cluster)
        arrays = _arrays(tensors, found.input_types)
        try:
            return found.executable_for(arrays, tensors)
        except UnsupportedError:
            if not found.refused:
                raise
        for number, result in enumerate(in_tensorflow(found, arrays)):
            _put(place, number, type_number(found.result_types[number]), np.asarray(result, order="C"))
    except BaseException as error:
        _fail("TF_OpKernelContext_Failure", place, error)
    return None


def _put(place: int, number: int, type_: int, array: np.ndarray) -> None:
    """Copies an array to output `number`, of TensorFlow's type number `type_`, of the kernel with the context
    `place`.
    """
    call, status = api().tf, api().tf["TF_NewStatus"]()
    dims, size = (c.c_int64 * max(array.ndim, 1))(*array.shape), array.nbytes
    at = c.addressof(dims)
    tensor = call["TF_AllocateOutput"](place, number, type_, at, array.ndim, size, status)
    api().check(status, f"an output of {size} bytes")
    c.memmove(call["TF_TensorData"](tensor), array.ctypes.data, size)
    call["TF_DeleteTensor"](tensor)


def _executed(cluster: int, place: int, executable: int, tensors: int) -> None:
    """Runs an executable from Python: on another device, or while a profile is recorded. All arguments are
    addresses: `place` is that of the kernel's context, `tensors` that of a list of inputs and outputs.
    """
    try:
        found = _owner(cluster)
        arrays = _arrays(tensors, [*found.input_types, *found.result_types])
        results = found.executable_at(executable).execute(arrays[: len(found.inputs)])
        for made, result in zip(arrays[len(found.inputs) :], results, strict=True):
            np.copyto(made, np.asarray(result))
    except BaseException as error:
        _fail("TF_OpKernelContext_Failure", place, error)


def _arrays(tensors: int, types: Sequence[str]) -> list[np.ndarray]:
    handles = (c.c_void_p * len(types)).from_address(tensors) if types else ()
    return [_array(*pair) for pair in zip(handles, types, strict=True)]


def _array(tensor: int, type_: str) -> np.ndarray:
    """A tensor as an array that shares its memory."""
    call = api().tf
    dims = [call["TF_Dim"](tensor, d) for d in range(call["TF_NumDims"](tensor))]
    size = call["TF_TensorByteSize"](tensor)
    data = (c.c_char * size).from_address(call["TF_TensorData"](tensor)) if size else bytearray()
    return np.frombuffer(data, dtype_of(type_, "an input").numpy).reshape(dims)


def _failed(cluster: int, place: int, executable: int | None, frame: int | None, code: int) -> None:
    """Reports to TensorFlow that a run failed with the error code `code`. The other arguments are addresses;
    `place` is that of the kernel's context. If `executable` or `frame` is missing, the reason is that there
    was no memory for the lists of inputs and results.
    """
    found = _owner(cluster)
    try:
        if not executable or not frame:
            raise OutOfMemory(f"{found.name}: there is no memory for its lists of inputs and results")
        one = found.executable_at(executable)
        head: Any = FRAME.ctypes().from_address(frame)
        failed_call(one.loaded, code, head.error_step, head.error_detail, 0, frame)
    except BaseException as error:
        _fail("TF_OpKernelContext_Failure", place, error)


def _fail(function: str, place: int, error: Any) -> None:
    """Reports to TensorFlow that the run or the creation of a kernel has failed with `error`. `function` is
    the C function for the report, `place` its first argument, the context or the construction.
    """
    code, text = status_of(error), repr(error)
    if isinstance(error, AxlaError):
        text = str(error)
    elif isinstance(error, tf.errors.OpError):  # raised by the fallback
        code, text = error.error_code, error.message
    status = api().tf["TF_NewStatus"]()
    api().tf["TF_SetStatus"](status, code, text.encode("utf-8", "replace"))
    api().tf[function](place, status)
    api().tf["TF_DeleteStatus"](status)


def _owner(cluster: int) -> Cluster:
    return c.cast(CLUSTER.ctypes().from_address(cluster).owner, c.py_object).value


_P = c.c_void_p
_CALLED = {
    "created": c.CFUNCTYPE(_P, _P)(_created), "compiled": c.CFUNCTYPE(_P, _P, _P, _P)(_compiled),
    "executed": c.CFUNCTYPE(None, _P, _P, _P, _P)(_executed),
    "failed": c.CFUNCTYPE(None, _P, _P, _P, _P, c.c_int32)(_failed),
}  # fmt: skip
