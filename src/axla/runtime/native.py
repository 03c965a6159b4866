"""The native part of the runtime: the loaded glue (functions in machine code), the native Python types,
threads and limits.

`native()` creates it at its first use, which loads LLVM unless the glue is in the cache. On systems that do
not support it (`why_not`), arrays hold NumPy arrays and programs cannot run.
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from axla.codegen.native import glue, python_abi
from axla.codegen.native.memory import STATE
from axla.codegen.native.structs import ARRAY, CALLABLE
from axla.codegen.native.systems import HERE
from axla.core import limits, locks
from axla.core.errors import InternalError, InvalidArgument
from axla.core.python_api import python_function
from axla.program.abi import structure

T = TypeVar("T")
why_not = python_abi.why_not

_TP_CALL, _TP_DEALLOC, _TP_METHODS, _TP_TRAVERSE, _TP_MEMBERS = 50, 52, 64, 71, 72
_IS_COLLECTED = 1 << 14
_BF_GETBUFFER, _BF_RELEASEBUFFER = 1, 2
_NO_INSTANCES, _HAS_VECTORCALL = 1 << 7, 1 << 11
_T_OBJECT, _T_U64, _T_SSIZE, _READONLY = 16, 18, 19, 1
_METH_FASTCALL = 0x80


_SLOT = structure("PyType_Slot", slot=c.c_int, value=c.c_void_p)
_SPEC = structure(
    "PyType_Spec",
    name=c.c_char_p,
    basicsize=c.c_int,
    itemsize=c.c_int,
    flags=c.c_uint,
    slots=c.POINTER(_SLOT),
)
_MEMBER = structure(
    "PyMemberDef", name=c.c_char_p, type=c.c_int, offset=c.c_ssize_t, flags=c.c_int, doc=c.c_char_p
)
_METHOD = structure("PyMethodDef", name=c.c_char_p, function=c.c_void_p, flags=c.c_int, doc=c.c_char_p)
_keep: list[object] = []  # CPython keeps pointers to these tables


def _table(kind: Any, rows: list[tuple]) -> int:
    table = (kind * (len(rows) + 1))(*rows)
    _keep.append(table)
    return c.addressof(table)


_type_of_spec = python_function("PyType_FromSpecWithBases", c.py_object, c.c_void_p, c.py_object)


def _make_type(name: str, size: int, flags: int, slots: Sequence[tuple[int, int | None]], base: type) -> type:
    """Makes a Python heap type with native slots (slot number, address). Neither the type nor its code is
    ever freed.
    """
    rows = (_SLOT * (len(slots) + 1))(*slots)
    spec = _SPEC(name.encode(), size, 0, flags, rows)
    made = _type_of_spec(c.addressof(spec), (base,))
    _keep.extend((rows, spec, made))
    if made.__flags__ & _IS_COLLECTED:
        raise InternalError(f"type {name} is garbage collected, but its objects have no header for it")
    return made


class Native:
    """The functions of the glue that the runtime calls, and the native types."""

    def __init__(self, array_base: type) -> None:
        self.glue = g = glue.load()
        self.array_type = self._array_type(array_base)
        self.callable_type = self._callable_type()
        g.variable("array_type").value = id(self.array_type)
        g.variable("callable_type").value = id(self.callable_type)
        g.variable("buffer_error").value = id(BufferError)
        g.variable("none").value = id(None)
        g.variable("ndarray_type").value = id(np.ndarray) if python_abi.numpy_matches() else None
        self.memory = STATE.ctypes().from_address(g.addresses["memory_state"])
        self.memory.limit, self.memory.cache_limit = limits.memory_limit(), limits.cache_limit()
        self.threads = g.variable("pool_threads", c.c_int64)
        self.threads.value = limits.thread_count()
        g.variable("main_thread", c.c_uint64).value = threading.main_thread().ident or 0
        self._functions()
        self._survive_fork()

    def _functions(self) -> None:
        f = self.glue.function
        self.record_new = f("axla_record_new", c.c_void_p, c.c_int64)
        self.record_over = f("axla_record_over", c.c_void_p, c.c_void_p, c.c_int64)
        self.record_hold = f("axla_record_hold", None, c.c_void_p)
        self.record_release = f("axla_record_release", None, c.c_void_p)
        self.record_wait = f("axla_record_wait", c.c_int32, c.c_void_p, c.c_int64)
        self.record_publish = f("record_publish", None, c.c_void_p, c.c_int32, c.py_object)
        self.array_hold = f("axla_array_hold", c.c_void_p, c.py_object, c.c_int32)
        self.queue_hand_over = f("queue_hand_over", c.c_int32, c.c_void_p, c.c_void_p, c.py_object)
        self.task_claim = f("task_claim", c.c_int32, c.c_void_p)
        self.may_run = f("may_run", c.c_int32, c.c_void_p)
        # It runs without the GIL.
        sleep = c.CFUNCTYPE(None, c.c_void_p, c.c_int32)
        self.sleep_briefly = sleep(self.glue.addresses["futex_wait_briefly"])
        self.array_new = f("axla_array_new", c.py_object, c.c_void_p, c.py_object, c.c_void_p)
        self.array_copy = f("axla_array_copy", c.py_object, c.c_void_p, c.py_object, c.c_void_p)
        self.array_delete = f("axla_array_delete", None, c.py_object)
        self.callable_new = f("axla_callable_new", c.py_object, c.c_void_p, c.py_object)
        self.cancel = f("axla_cancel", c.c_int64, c.c_void_p, c.c_int32)
        self.trim = f("axla_trim", None)

    def keep(self, **functions: object) -> None:
        """Stores Python functions in the glue's variables of these names, so that native code can call
        them.
        """
        _keep.append(functions)
        for name, function in functions.items():
            self.glue.variable(name).value = id(function)

    def _array_type(self, base: type) -> type:
        at = self.glue.addresses
        if base.__basicsize__ != ARRAY.offset("record"):
            raise InternalError("the Python base class of Array must not have fields")
        rows = [
            (b"__weaklistoffset__", _T_SSIZE, ARRAY.offset("weakrefs"), _READONLY, None),
            (b"_record", _T_U64, ARRAY.offset("record"), _READONLY, None),
            (b"_info", _T_OBJECT, ARRAY.offset("info_object"), _READONLY, None),
        ]
        slots = [
            (_TP_DEALLOC, at["array_dealloc"]),
            (_TP_TRAVERSE, at["array_traverse"]),
            (_BF_GETBUFFER, at["array_get_buffer"]),
            (_BF_RELEASEBUFFER, at["array_release_buffer"]),
            (_TP_MEMBERS, _table(_MEMBER, rows)),
        ]
        return _make_type("axla.Array", ARRAY.size, _NO_INSTANCES, slots, base)

    def _callable_type(self) -> type:
        at = self.glue.addresses
        rows = [(b"__vectorcalloffset__", _T_SSIZE, CALLABLE.offset("vectorcall"), _READONLY, None)]
        methods = [(b"with_flag", at["callable_with_flag"], _METH_FASTCALL, None)]
        slots = [
            (_TP_DEALLOC, at["callable_dealloc"]),
            (_TP_CALL, c.cast(c.pythonapi.PyVectorcall_Call, c.c_void_p).value),
            (_TP_MEMBERS, _table(_MEMBER, rows)),
            (_TP_METHODS, _table(_METHOD, methods)),
        ]
        flags = _NO_INSTANCES | _HAS_VECTORCALL
        return _make_type("axla.runtime.Callable", CALLABLE.size, flags, slots, object)

    def _survive_fork(self) -> None:
        """Registers fork handlers. A fork copies only its own thread. So locks must be free at that moment,
        and the child has no worker threads.
        """
        at = self.glue.addresses
        HERE.at_fork([at[f"axla_fork_{when}"] for when in ("before", "parent", "child")])


def set_num_threads(count: int) -> None:
    """Sets the number of threads, including the caller's, that a parallel loop may use. Results do not depend
    on it.
    """
    if not isinstance(count, int) or not 1 <= count <= limits.MOST_THREADS:
        raise InvalidArgument(f"set_num_threads: wanted 1 to {limits.MOST_THREADS}, found {count!r}")
    native().threads.value = count


def num_threads() -> int:
    """The number of threads, including the caller's, that a parallel loop may use."""
    return native().threads.value


_array_class: type = object


def array_class(cls: type[T]) -> type[T]:
    """A decorator: the class becomes the base class of the native type of arrays."""
    global _array_class
    _array_class = cls
    return cls


_native: Native | None = None
_lock = locks.new_lock()


def native() -> Native:
    """Returns the native runtime of this process. UnsupportedError if the system does not support it."""
    global _native
    if _native is None:
        with _lock:
            if _native is None:
                _native = Native(_array_class)
    return _native
