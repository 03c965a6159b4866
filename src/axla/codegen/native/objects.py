"""Emits array records and the Python object `axla.Array`: reference counts, buffer protocol, DLPack deleters.

A record is reference-counted memory. It is independent of Python, so any thread can release it. The Array
holds one reference; each buffer view, each DLPack capsule, and each call that runs without the interpreter
lock holds one more.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import (
    ARRAY,
    AWAITED,
    EXTERNAL,
    FAILED,
    PENDING,
    READY,
    RECORD,
    SHAPE_INFO,
    WATCHED,
    fields,
)
from axla.codegen.straight import Ssa
from axla.program.abi import INTERRUPTED, Struct

BUFFER = Struct(
    "py_buffer",
    "Py_buffer of CPython.",
    *fields(
        "buf:ptr, obj:ptr, len:i64, itemsize:i64, readonly:i32, ndim:i32, format:ptr, shape:ptr, "
        "strides:ptr, suboffsets:ptr, internal:ptr"
    ),
)
_WRITABLE, _FORMAT, _ND, _STRIDES = 0x1, 0x4, 0x8, 0x18

# The first field of DLManagedTensorVersioned is the version; the offset of the deleter differs between the
# two structs.
DLPACK_CONTEXT = {"legacy": 48, "versioned": 8}
DLPACK_DELETER = {"legacy": 56, "versioned": 16}


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions of records and arrays to the module."""
    m.variable("array_type", "ptr", "null")  # the heap type
    m.variable("buffer_error", "ptr", "null")  # PyExc_BufferError
    _FUNCTIONS.emit(m)
    for kind in DLPACK_CONTEXT:
        _dlpack(m, kind)


@_FUNCTIONS("axla_record_new", "ptr", "bytes:i64", exported=True)
def _record_new(f: GlueFunction, size: Ssa) -> None:
    """Makes a record with new memory and one reference; returns null if there is no memory."""
    block = f.call("ptr", "axla_allocate", size)
    f.guard(block.eq(0), f.null())
    record = f.call("ptr", "axla_record_over", block, size)
    with f.if_(record.eq(0), likely=False):
        f.call("void", "axla_free", block, size)
    f.ret(record)


@_FUNCTIONS("axla_record_over", "ptr", "address:ptr, bytes:i64", exported=True)
def _record_over(f: GlueFunction, address: Ssa, size: Ssa) -> None:
    record = f.call("ptr", "axla_allocate", f.i64(RECORD.size))
    f.guard(record.eq(0), f.null())
    values = {"refs": 1, "ready": READY, "address": address, "bytes": size}
    for field in RECORD.fields:
        record.set(RECORD, field.name, values.get(field.name, 0))
    f.ret(record)


@_FUNCTIONS("axla_record_hold", "void", "record:ptr", exported=True)
def _record_hold(f: GlueFunction, record: Ssa) -> None:
    record.atomic("add", f.i32(1), "monotonic")


@_FUNCTIONS("axla_record_release", "void", "record:ptr", exported=True)
def _record_release(f: GlueFunction, record: Ssa) -> None:
    f.guard(record.eq(0))
    with f.if_(record.atomic("sub", f.i32(1), "acq_rel").eq(1)):
        f.call("void", "record_free", record)


@_FUNCTIONS("axla_record_unwatch", "void", "record:ptr", exported=True)
def _record_unwatch(f: GlueFunction, record: Ssa) -> None:
    with f.if_(record.atomic("sub", f.i32(WATCHED), "acq_rel").eq(WATCHED)):
        f.call("void", "record_free", record)


@_FUNCTIONS("record_free", "void", "record:ptr")
def _record_free(f: GlueFunction, record: Ssa) -> None:
    release = record.get(RECORD, "release")
    with f.if_(release.ne(0), likely=False):
        f.call_pointer("void", release, record)
    with f.if_((record.get(RECORD, "flags") & EXTERNAL).eq(0), likely=True):
        f.call("void", "axla_free", record.get(RECORD, "address"), record.get(RECORD, "bytes"))
    f.call("void", "axla_free", record, f.i64(RECORD.size))


@_FUNCTIONS("axla_record_wait", "i32", "record:ptr, until:i64", exported=True)
def _wait(f: GlueFunction, record: Ssa, until: Ssa) -> None:
    """Waits until the bytes of a record are ready, without the interpreter lock (the caller holds it).
    Returns 0 if they are ready; -1, with an exception set, if the run failed or a signal handler raised,
    which stops the run; 1 if the monotonic clock reached `until` nanoseconds (0: no limit).
    """
    ready_at = record.at(RECORD.offset("ready"))
    f.guard(ready_at.load("i32", "acquire").eq(READY), f.i32(0))
    f.call("void", "axla_record_hold", record)
    code = f.slot(f.i32(0))
    with f.while_loop() as loop:
        with f.if_(ready_at.load("i32", "acquire").gt(PENDING)):
            loop.leave()
        state = f.call("ptr", "PyEval_SaveThread")
        ready_at.exchange(f.i32(PENDING), f.i32(AWAITED))
        f.call("void", "futex_wait_briefly", ready_at, f.i32(AWAITED))
        f.call("void", "PyEval_RestoreThread", state)
        code.store(f.call("i32", "PyErr_CheckSignals"))
        with f.if_(code.load("i32").ne(0), likely=False):
            with f.if_(ready_at.load("i32", "acquire").le(PENDING)):
                record.get(RECORD, "context").store(f.i32(INTERRUPTED), "seq_cst")
            loop.leave()
        with f.if_(until.ne(0)), f.if_(f.call("i64", "now").gt(until)):
            code.store(f.i32(1))
            loop.leave()
    with f.if_(code.load("i32").eq(0)), f.if_(ready_at.load("i32", "acquire").eq(FAILED)):
        f.call("void", "Py_DecRef", f.call("ptr", "PyObject_CallNoArgs", record.get(RECORD, "context")))
        code.store(f.i32(-1))
    f.call("void", "axla_record_release", record)
    f.ret(code.load("i32"))


@_FUNCTIONS("axla_array_new", "ptr", "info:ptr, info_object:ptr, record:ptr", exported=True)
def _array_new(f: GlueFunction, info: Ssa, info_object: Ssa, record: Ssa) -> None:
    """Makes an Array of a record, whose reference it takes over; returns null with an exception set if it
    fails. `info` describes the array; `info_object` is the Python object that owns `info`.
    """
    array = f.call("ptr", "_PyObject_New", f.glob("array_type").load("ptr"))
    with f.if_(array.ne(0), likely=True):
        f.call("void", "Py_IncRef", info_object)
        for name, value in {"record": record, "info": info, "info_object": info_object}.items():
            array.set(ARRAY, name, value)
        for name in ("retained", "weakrefs", "memory"):
            array.set(ARRAY, name, 0)
        f.ret(array)
    f.call("void", "axla_record_release", record)
    f.ret(f.null())


@_FUNCTIONS("axla_array_copy", "ptr", "info:ptr, info_object:ptr, source:ptr", exported=True)
def _array_copy(f: GlueFunction, info: Ssa, info_object: Ssa, source: Ssa) -> None:
    """Makes an Array with a copy of the bytes at the address `source`; returns null with MemoryError set if
    it fails. `info` and `info_object` are as for `array_new`.
    """
    size = info.get(SHAPE_INFO, "bytes")
    record = f.call("ptr", "axla_record_new", size)
    with f.if_(record.eq(0), likely=False):
        f.ret(f.call("ptr", "PyErr_NoMemory"))
    f.call("ptr", "memcpy", record.get(RECORD, "address"), source, size)
    f.ret(f.call("ptr", "axla_array_new", info, info_object, record))


@_FUNCTIONS("array_dealloc", "void", "array:ptr", exported=True)
def _array_dealloc(f: GlueFunction, array: Ssa) -> None:
    with f.if_(array.get(ARRAY, "weakrefs").ne(0), likely=False):
        f.call("void", "PyObject_ClearWeakRefs", array)
    f.call("void", "axla_record_release", array.get(ARRAY, "record"))
    f.call("void", "axla_record_release", array.get(ARRAY, "retained"))
    f.call("void", "Py_DecRef", array.get(ARRAY, "info_object"))
    kind = array.get(ARRAY, "type")
    f.call("void", "PyObject_Free", array)
    f.call("void", "Py_DecRef", kind)  # an object of a heap type owns a reference to it


@_FUNCTIONS("array_traverse", "i32", "array:ptr, visit:ptr, context:ptr", exported=True)
def _array_traverse(f: GlueFunction, array: Ssa, visit: Ssa, context: Ssa) -> None:
    """Visits nothing. This traverse function keeps arrays out of garbage collection, to which their Python
    base class is subject.
    """
    f.ret(f.i32(0))


@_FUNCTIONS("axla_array_delete", "void", "array:ptr", exported=True)
def _array_delete(f: GlueFunction, array: Ssa) -> None:
    """Removes the memory from an Array; it is freed when no view and no run uses it any more."""
    record = array.get(ARRAY, "record")
    array.set(ARRAY, "record", 0)
    f.call("void", "axla_record_release", record)


@_FUNCTIONS("axla_array_hold", "ptr", "array:ptr, take:i32", exported=True)
def _array_hold(f: GlueFunction, array: Ssa, take: Ssa) -> None:
    """The record of an Array, with one more reference; null if the array was deleted. With `take`, the array
    loses the record, and the caller gets its reference.
    """
    record = array.get(ARRAY, "record")
    f.guard(record.eq(0), f.null())
    with f.if_(take.ne(0)):
        array.set(ARRAY, "record", 0)
        f.ret(record)
    f.call("void", "axla_record_hold", record)
    f.ret(record)


def _refuse(f: GlueFunction, view: Ssa, text: bytes) -> None:
    view.set(BUFFER, "obj", 0)
    f.call("void", "PyErr_SetString", f.glob("buffer_error").load("ptr"), f.data(text + b"\0"))
    f.ret(f.i32(-1))


@_FUNCTIONS("array_get_buffer", "i32", "array:ptr, view:ptr, flags:i32", exported=True)
def _get_buffer(f: GlueFunction, array: Ssa, view: Ssa, flags: Ssa) -> None:
    record, info = array.get(ARRAY, "record"), array.get(ARRAY, "info")
    with f.if_(record.eq(0), likely=False):
        _refuse(f, view, b"axla.Array was deleted or donated")
    with f.if_((flags & _WRITABLE).ne(0)):
        _refuse(f, view, b"axla.Array is read-only: copy it, as with np.array(x)")
    text = info.get(SHAPE_INFO, "format")
    wants_format = (flags & _FORMAT).ne(0)
    with f.if_(wants_format & text.eq(0)):
        _refuse(f, view, b"the buffer protocol has no format for this element type: use np.asarray")
    f.call("void", "axla_record_hold", record)  # another thread may delete the array during the wait
    with f.if_(f.call("i32", "axla_record_wait", record, f.i64(0)).ne(0), likely=False):
        f.call("void", "axla_record_release", record)
        view.set(BUFFER, "obj", 0)
        f.ret(f.i32(-1))
    f.call("void", "Py_IncRef", array)
    wants_dims, wants_strides = (flags & _ND).eq(_ND), (flags & _STRIDES).eq(_STRIDES)
    values: dict[str, Ssa | int] = {
        "buf": record.get(RECORD, "address"),
        "obj": array,
        "len": info.get(SHAPE_INFO, "bytes"),
        "itemsize": info.get(SHAPE_INFO, "item_bytes").cast("i64"),
        "readonly": 1,
        "ndim": f.select(wants_dims, info.get(SHAPE_INFO, "rank"), f.i32(1)),
        "format": f.select(wants_format, text, f.null()),
        "shape": f.select(wants_dims, info.get(SHAPE_INFO, "dims"), f.null()),
        "strides": f.select(wants_strides, info.get(SHAPE_INFO, "strides"), f.null()),
        "suboffsets": 0,
        "internal": record,
    }
    for name, value in values.items():
        view.set(BUFFER, name, value)
    f.ret(f.i32(0))


@_FUNCTIONS("array_release_buffer", "void", "array:ptr, view:ptr", exported=True)
def _release_buffer(f: GlueFunction, array: Ssa, view: Ssa) -> None:
    # The view's own record: the array may have been deleted since.
    f.call("void", "axla_record_release", view.get(BUFFER, "internal"))


def _dlpack(m: GlueModule, kind: str) -> None:
    """Adds functions for one of the two DLPack structs, `kind`: the deleter of exported arrays, the
    destructor of their capsules, and the release function of imported arrays.
    """
    f = m.function(f"dlpack_delete_{kind}", "void", "managed:ptr", exported=True)
    managed = f.params["managed"]
    f.call("void", "axla_record_release", managed.at(DLPACK_CONTEXT[kind]).load("ptr"))
    f.call("void", "free", managed)
    f.ret()

    # A capsule that was not consumed still has its name, and owns its tensor.
    f = m.function(f"dlpack_capsule_{kind}", "void", "capsule:ptr", exported=True)
    capsule = f.params["capsule"]
    name = f.data(b"dltensor\0" if kind == "legacy" else b"dltensor_versioned\0")
    with f.if_(f.call("i32", "PyCapsule_IsValid", capsule, name).ne(0)):
        f.call("void", f"dlpack_delete_{kind}", f.call("ptr", "PyCapsule_GetPointer", capsule, name))
    f.ret()

    f = m.function(f"dlpack_release_{kind}", "void", "record:ptr", exported=True)
    managed = f.params["record"].get(RECORD, "context")
    deleter = managed.at(DLPACK_DELETER[kind]).load("ptr")
    with f.if_(deleter.ne(0), likely=True):
        f.call_pointer("void", deleter, managed)
    f.ret()
