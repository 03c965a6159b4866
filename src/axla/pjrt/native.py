"""The emitted functions of the C API: those that are called often, or under locks of the client.

A PJRT_Buffer is an `axla.Array` to which the client owns a reference; a PJRT_Event is a RECORD with a watcher
count. Clients, devices, memories and executables are the structs below, kept by Python. Some functions are
called while another thread holds the interpreter lock and waits for a lock of the client, so they never take
the interpreter lock: all except Buffer_Destroy, Buffer_Delete and the start of a run.

Emitted functions call Python functions and preserve the pending exception, since destructors of Python
objects call the API. After the end of the interpreter, destroying functions do nothing; others fail.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import (
    ARRAY,
    AWAITED,
    CALLABLE,
    FAILED,
    FAILURE,
    LONG_RUNNING,
    MEMORY_SHIFT,
    PENDING,
    PROGRAM,
    READY,
    RECORD,
    SHAPE_INFO,
    SINGLE_RESULT,
    WATCHED,
)
from axla.codegen.straight import Ssa
from axla.core.status import Status
from axla.pjrt.structs import (
    CLIENT,
    CONTEXT,
    DEVICE,
    ERROR,
    EXECUTABLE,
    KNOWN,
    KNOWN_SHAPES,
    LAYOUT,
    MEMORY,
    MEMORY_KINDS,
    MOST_DIMENSIONS,
    SHORT,
    VIEW,
    WAITER,
)
from axla.pjrt.table import FUNCTIONS, STRUCTS
from axla.program.abi import Struct

# Functions that copy fields of a struct to fields of the same names of their arguments.
_GETTERS: dict[str, tuple[str, Struct]] = {
    **dict.fromkeys(
        ("Client_PlatformName", "Client_PlatformVersion", "Client_ProcessIndex", "Client_TopologyDescription",
         "Client_Devices", "Client_AddressableDevices", "Client_AddressableMemories"), ("client", CLIENT)),
    **dict.fromkeys(
        ("TopologyDescription_PlatformName", "TopologyDescription_PlatformVersion",
         "TopologyDescription_GetDeviceDescriptions", "TopologyDescription_Attributes",
         "TopologyDescription_Fingerprint"), ("topology", CLIENT)),
    **dict.fromkeys(
        ("DeviceDescription_Id", "DeviceDescription_ProcessIndex", "DeviceDescription_Attributes",
         "DeviceDescription_Kind", "DeviceDescription_DebugString", "DeviceDescription_ToString"),
        ("device_description", DEVICE)),
    **dict.fromkeys(
        ("Device_GetDescription", "Device_IsAddressable", "Device_LocalHardwareId",
         "Device_AddressableMemories", "Device_DefaultMemory"), ("device", DEVICE)),
    **dict.fromkeys(
        ("Memory_Id", "Memory_Kind", "Memory_Kind_Id", "Memory_DebugString", "Memory_ToString",
         "Memory_AddressableByDevices"), ("memory", MEMORY)),
    **dict.fromkeys(
        ("Executable_Name", "Executable_NumReplicas", "Executable_NumPartitions", "Executable_NumOutputs",
         "Executable_SizeOfGeneratedCodeInBytes", "Executable_Fingerprint", "Executable_OutputMemoryKinds",
         "Executable_OutputElementTypes", "Executable_OutputDimensions", "LoadedExecutable_Fingerprint",
         "LoadedExecutable_AddressableDevices", "LoadedExecutable_AddressableDeviceLogicalIds",
         "LoadedExecutable_IsDeleted"), ("executable", EXECUTABLE)),
}  # fmt: skip

_FUNCTIONS = GlueFunctions()


class Arguments:
    """The struct of arguments of a function of the API: reads and writes its fields in emitted code."""

    def __init__(self, struct: Struct, address: Ssa) -> None:
        self.struct, self.address = struct, address

    def __getitem__(self, name: str) -> Ssa:
        return self.address.get(self.struct, name)

    def __setitem__(self, name: str, value: Ssa | int) -> None:
        self.address.set(self.struct, name, value)


Body = Callable[[GlueFunction, Arguments], None]
_NATIVE: dict[str, Body] = {}


def _native(name: str) -> Callable[[Body], Body]:
    """Registers the decorated function as the body of the API function `name`."""

    def add(body: Body) -> Body:
        _NATIVE[name] = body
        return body

    return add


def emit(m: GlueModule) -> None:
    """Adds the functions of the API to a module, as `pjrt_NAME`; those without a body of their own call the
    Python function whose address is in `pjrt_python`.
    """
    for name in ("waiter_started", "waiters_pushed", "ending", "letting_go"):
        m.variable(f"pjrt_{name}", "i32")
    for name in ("devices", "memories", "waiters", "raised", "deleter"):
        m.variable(f"pjrt_{name}", "ptr", "null")
    m.variable("pjrt_python", f"[{len(FUNCTIONS)} x ptr]")
    m.variable("pjrt_ready", f"[{RECORD.size} x i8]")
    m.variable("pjrt_error_functions", f"[{STRUCTS['ErrorFunctions'].size} x i8]")
    m.variable("pjrt_layouts", f"[{LAYOUT.size * (MOST_DIMENSIONS + 1)} x i8]")
    m.variable("pjrt_known", f"[{KNOWN.size * KNOWN_SHAPES} x i8]")
    _FUNCTIONS.emit(m)
    for name, body in EXTENSIONS.items():
        f = m.function(f"pjrt_{name}", "ptr", "args:ptr", exported=True)
        body(f, Arguments(STRUCTS[name], f.params["args"]))
        f.ret(f.null())
    for name in FUNCTIONS:
        f = m.function(f"pjrt_{name}", "ptr", "args:ptr", exported=True)
        args = Arguments(FUNCTIONS[name], f.params["args"])
        if name in _GETTERS:
            getter(f, args, *_GETTERS[name])
        elif name in _NATIVE:
            _NATIVE[name](f, args)
        else:
            f.ret(_python(f, name, args))
            continue
        f.ret(f.null())


def getter(f: GlueFunction, args: Arguments, handle: str, struct: Struct) -> None:
    """Writes a body that copies fields of the struct at `handle` to the arguments of the same names."""
    found = args[handle]
    for field in args.struct.fields:
        if field.name not in ("struct_size", "extension_start", handle):
            args[field.name] = found.get(struct, field.name)


def _python(f: GlueFunction, name: str, args: Arguments) -> Ssa:
    """Emits a call of the Python function for the API function `name`; returns its result: error or null."""
    _leave_at_end(f, fails=not name.endswith("_Destroy"))
    state = f.call("i32", "PyGILState_Ensure")
    pending = _fetched(f)
    function = f.glob("pjrt_python").item(list(FUNCTIONS).index(name)).load("ptr")
    found = f.call_pointer("ptr", function, args.address)
    f.call("void", "PyErr_Restore", *(slot.load("ptr") for slot in pending))
    f.call("void", "PyGILState_Release", state)
    return found


def _leave_at_end(f: GlueFunction, *, fails: bool) -> None:
    """Emits a return (of an error if `fails`, else null) for the time after the end of the interpreter."""
    with f.if_(f.call("i32", "Py_IsInitialized").eq(0), likely=False):
        f.ret(_refusal(f, Status.CANCELLED, "the interpreter has ended") if fails else f.null())


def _fetched(f: GlueFunction) -> list[Ssa]:
    """Takes away the pending exception; returns three slots with its type, value and traceback."""
    slots = [f.slot(f.null()) for _ in range(3)]
    f.call("void", "PyErr_Fetch", *slots)
    return slots


# Errors.


@_FUNCTIONS("pjrt_error_new", "ptr", "code:i32, text:ptr, size:i64", exported=True)
def _error_new(f: GlueFunction, code: Ssa, text: Ssa, size: Ssa) -> None:
    error = f.call("ptr", "axla_allocate", size + ERROR.size)
    f.guard(error.eq(0), f.null())
    error.set(ERROR, "vtable", f.glob("pjrt_error_functions"))
    error.set(ERROR, "code", code)
    error.set(ERROR, "size", size)
    f.call("ptr", "memcpy", error.at(ERROR.size), text, size)
    f.ret(error)


@_FUNCTIONS("pjrt_error_destroy", "void", "error:ptr", exported=True)
def _error_destroy(f: GlueFunction, error: Ssa) -> None:
    f.guard(error.eq(0))
    f.call("void", "axla_free", error, error.get(ERROR, "size") + ERROR.size)


@_FUNCTIONS("pjrt_error_message", "void", "error:ptr, text:ptr, size:ptr", exported=True)
def _error_message(f: GlueFunction, error: Ssa, text: Ssa, size: Ssa) -> None:
    text.store(error.at(ERROR.size))
    size.store(error.get(ERROR, "size"))


@_FUNCTIONS("pjrt_error_code", "i32", "error:ptr", exported=True)
def _error_code(f: GlueFunction, error: Ssa) -> None:
    f.ret(error.get(ERROR, "code"))


@_FUNCTIONS("pjrt_error_payloads", "void", "error:ptr, visitor:ptr, user:ptr", exported=True)
def _error_payloads(f: GlueFunction, error: Ssa, visitor: Ssa, user: Ssa) -> None:
    """Does nothing: there are no payloads."""


def _refusal(f: GlueFunction, code: Status, text: str) -> Ssa:
    data = text.encode()
    return f.call("ptr", "pjrt_error_new", f.i32(code), f.data(data), f.i64(len(data)))


@_native("Error_Destroy")
def _destroy(f: GlueFunction, args: Arguments) -> None:
    f.call("void", "pjrt_error_destroy", args["error"])


@_native("Error_Message")
def _message(f: GlueFunction, args: Arguments) -> None:
    args["message"] = args["error"].at(ERROR.size)
    args["message_size"] = args["error"].get(ERROR, "size")


@_native("Error_GetCode")
def _get_code(f: GlueFunction, args: Arguments) -> None:
    args["code"] = args["error"].get(ERROR, "code")


@_native("Error_ForEachPayload")
@_native("Plugin_Initialize")
def _nothing(f: GlueFunction, args: Arguments) -> None:
    pass


# Events.


@_FUNCTIONS("pjrt_record_error", "ptr", "record:ptr")
def _record_error(f: GlueFunction, record: Ssa) -> None:
    """A PJRT_Error for a failed record; null for a record that has not failed."""
    f.guard(record.at(RECORD.offset("ready")).load("i32", "acquire").ne(FAILED), f.null())
    failure = record.get(RECORD, "failure")
    with f.if_(failure.eq(0), likely=False):
        f.ret(_refusal(f, Status.INTERNAL, "the run failed"))
    failure.set(FAILURE, "read", 1)
    given = (failure.get(FAILURE, name) for name in ("code", "text", "size"))
    f.ret(f.call("ptr", "pjrt_error_new", *given))


@_FUNCTIONS("pjrt_unwatch", "void", "record:ptr")
def _unwatch(f: GlueFunction, record: Ssa) -> None:
    f.guard(record.eq(f.glob("pjrt_ready")) | record.eq(0))
    f.call("void", "axla_record_unwatch", record)


@_native("Event_Destroy")
def _event_destroy(f: GlueFunction, args: Arguments) -> None:
    f.call("void", "pjrt_unwatch", args["event"])


@_native("Event_IsReady")
def _event_is_ready(f: GlueFunction, args: Arguments) -> None:
    ready = args["event"].at(RECORD.offset("ready")).load("i32", "acquire")
    args["is_ready"] = ready.gt(PENDING).cast("i8")


@_native("Event_Error")
def _event_error(f: GlueFunction, args: Arguments) -> None:
    f.ret(f.call("ptr", "pjrt_record_error", args["event"]))


@_native("Event_Await")
def _event_await(f: GlueFunction, args: Arguments) -> None:
    event = args["event"]
    ready_at = event.at(RECORD.offset("ready"))
    with f.while_loop() as loop:
        with f.if_(ready_at.load("i32", "acquire").gt(PENDING)):
            loop.leave()
        ready_at.exchange(f.i32(PENDING), f.i32(AWAITED))
        f.call("void", "futex_wait_briefly", ready_at, f.i32(AWAITED))
    f.ret(f.call("ptr", "pjrt_record_error", event))


@_native("Event_OnReady")
def _on_ready(f: GlueFunction, args: Arguments) -> None:
    """Calls the callback, which may destroy the event: at once or, if it is not ready, from a thread."""
    event, callback, user = args["event"], args["callback"], args["user_arg"]
    with f.if_(event.at(RECORD.offset("ready")).load("i32", "acquire").gt(PENDING)):
        f.call_pointer("void", callback, f.call("ptr", "pjrt_record_error", event), user)
        f.ret(f.null())
    waiter = f.call("ptr", "axla_allocate", f.i64(WAITER.size))
    with f.if_(waiter.eq(0), likely=False):
        f.ret(_refusal(f, Status.RESOURCE_EXHAUSTED, "no memory for a callback"))
    event.atomic("add", f.i32(WATCHED))
    for name, value in {"record": event, "callback": callback, "user": user}.items():
        waiter.set(WAITER, name, value)
    pushed = f.glob("pjrt_waiters_pushed")
    f.call("void", "memory_acquire")
    waiter.set(WAITER, "next", f.glob("pjrt_waiters").load("ptr"))
    f.glob("pjrt_waiters").store(waiter)
    f.call("void", "memory_release")
    pushed.atomic("add", f.i32(1))
    with f.if_(f.glob("pjrt_waiter_started").atomic("xchg", f.i32(1)).eq(0), likely=False):
        f.call("i32", "thread_start", f.glob("pjrt_waiter"), f.null())
    f.call("void", "futex_wake", pushed, f.i64(1))


@_FUNCTIONS("pjrt_waiter", "ptr", "unused:ptr", exported=True)
def _waiter(f: GlueFunction, unused: Ssa) -> None:
    """Runs the thread that calls back: checks all records when the oldest changes, at least every 10 ms."""
    waiting = f.slot(f.null())  # the list of this thread, newest first
    pushed = f.glob("pjrt_waiters_pushed")
    with f.while_loop():
        seen = pushed.load("i32", "seq_cst")
        f.call("void", "memory_acquire")
        new = f.slot(f.glob("pjrt_waiters").load("ptr"))
        f.glob("pjrt_waiters").store(f.null())
        f.call("void", "memory_release")
        f.call("void", "pjrt_prepend", new, waiting)
        oldest = f.call("ptr", "pjrt_call_back", waiting)
        with f.if_(oldest.eq(0)):
            f.call("void", "futex_wait", pushed, seen)
        with f.if_(oldest.ne(0)):
            ready_at = oldest.at(RECORD.offset("ready"))
            ready_at.exchange(f.i32(PENDING), f.i32(AWAITED))
            f.call("void", "futex_wait_briefly", ready_at, f.i32(AWAITED))
    f.ret(f.null())


@_FUNCTIONS("pjrt_prepend", "void", "new:ptr, to:ptr")
def _prepend(f: GlueFunction, new: Ssa, to: Ssa) -> None:
    """Prepends the list `new`, which must not be empty, to the list `to`."""
    at = f.slot(new)
    with f.while_loop() as loop:
        node = at.load("ptr").load("ptr")
        with f.if_(node.eq(0)):
            loop.leave()
        at.store(node)  # `next` is the first field
    at.load("ptr").store(to.load("ptr"))
    to.store(new.load("ptr"))


@_FUNCTIONS("pjrt_call_back", "ptr", "list:ptr")
def _call_back(f: GlueFunction, list_: Ssa) -> None:
    """Calls back for all ready records and removes them from the list. Returns the last record in the list,
    the oldest, that is not ready; null if there is none.
    """
    at, oldest = f.slot(list_), f.slot(f.null())
    with f.while_loop() as loop:
        place = at.load("ptr")
        node = place.load("ptr")
        with f.if_(node.eq(0)):
            loop.leave()
        record = node.get(WAITER, "record")
        with f.if_(record.at(RECORD.offset("ready")).load("i32", "acquire").le(PENDING)):
            oldest.store(record)
            at.store(node)
            loop.again()
        place.store(node.get(WAITER, "next"))
        error = f.call("ptr", "pjrt_record_error", record)
        f.call_pointer("void", node.get(WAITER, "callback"), error, node.get(WAITER, "user"))
        f.call("void", "pjrt_unwatch", record)
        f.call("void", "axla_free", node, f.i64(WAITER.size))
    f.ret(oldest.load("ptr"))


# Buffers.


@_native("Buffer_ElementType")
def _element_type(f: GlueFunction, args: Arguments) -> None:
    args["type"] = args["buffer"].get(ARRAY, "info").get(SHAPE_INFO, "element")


def _dims(name: str) -> Body:
    def body(f: GlueFunction, args: Arguments) -> None:
        info = args["buffer"].get(ARRAY, "info")
        args[name] = info.get(SHAPE_INFO, "dims")
        args["num_dims"] = info.get(SHAPE_INFO, "rank").cast("i64")

    return body


_NATIVE["Buffer_Dimensions"] = _dims("dims")
_NATIVE["Buffer_UnpaddedDimensions"] = _dims("unpadded_dims")


@_native("Buffer_DynamicDimensionIndices")
def _dynamic_dimensions(f: GlueFunction, args: Arguments) -> None:
    args["dynamic_dim_indices"] = 0
    args["num_dynamic_dims"] = 0


@_native("Buffer_OnDeviceSizeInBytes")
def _size(f: GlueFunction, args: Arguments) -> None:
    args["on_device_size_in_bytes"] = args["buffer"].get(ARRAY, "info").get(SHAPE_INFO, "bytes")


@_native("Buffer_IsOnCpu")
def _is_on_cpu(f: GlueFunction, args: Arguments) -> None:
    args["is_on_cpu"] = 1


@_native("Buffer_IsDeleted")
def _is_deleted(f: GlueFunction, args: Arguments) -> None:
    args["is_deleted"] = args["buffer"].get(ARRAY, "record").eq(0).cast("i8")


@_FUNCTIONS("pjrt_watched", "ptr", "array:ptr", exported=True)
def _watched(f: GlueFunction, array: Ssa) -> None:
    """Returns the record of an array and adds a watcher to it, since other threads may delete the array; null
    if the array is deleted. Holds the allocator's lock meanwhile, without which no record is freed.
    """
    f.call("void", "memory_acquire")
    record = array.get(ARRAY, "record")
    found = f.slot(record)
    with f.if_(record.ne(0), likely=True):
        count = record.atomic("add", f.i32(WATCHED))
        with f.if_((count & (WATCHED - 1)).eq(0), likely=False):  # it is being freed
            record.atomic("sub", f.i32(WATCHED))
            found.store(f.null())
    f.call("void", "memory_release")
    f.ret(found.load("ptr"))


@_FUNCTIONS("pjrt_note_memory", "void", "array:ptr, record:ptr")
def _note_memory(f: GlueFunction, array: Ssa, record: Ssa) -> None:
    """Stores the number of the record's memory in the array, so that later queries need no watcher."""
    device = record.get(RECORD, "device").cast("i64")
    kind = record.get(RECORD, "flags").cast("i64") >> MEMORY_SHIFT
    array.set(ARRAY, "memory", device * len(MEMORY_KINDS) + kind + 1)


def _place(name: str) -> Body:
    """Writes a query for the device or the memory (`name`) of a buffer. For a buffer that was deleted before
    its first query, the answer is the first device or memory.
    """

    def body(f: GlueFunction, args: Arguments) -> None:
        buffer = args["buffer"]
        with f.if_(buffer.get(ARRAY, "memory").eq(0), likely=False):
            record = f.call("ptr", "pjrt_watched", buffer)
            with f.if_(record.ne(0), likely=True):
                f.call("void", "pjrt_note_memory", buffer, record)
                f.call("void", "axla_record_unwatch", record)
        noted = buffer.get(ARRAY, "memory")
        number = noted - noted.ne(0).cast("i64")
        number = number.udiv(f.i64(len(MEMORY_KINDS))) if name == "device" else number
        table = f.glob("pjrt_devices" if name == "device" else "pjrt_memories").load("ptr")
        args[name] = table.item(number).load("ptr")

    return body


_NATIVE["Buffer_Device"] = _place("device")
_NATIVE["Buffer_Memory"] = _place("memory")
_DELETED = "Array has been deleted or donated."


def _alive_record(f: GlueFunction, args: Arguments) -> Ssa:
    record = f.call("ptr", "pjrt_watched", args["buffer"])
    with f.if_(record.eq(0), likely=False):
        f.ret(_refusal(f, Status.INVALID_ARGUMENT, _DELETED))
    return record


def _pointer(name: str) -> Body:
    def body(f: GlueFunction, args: Arguments) -> None:
        record = _alive_record(f, args)
        address = record.get(RECORD, "address")
        args[name] = address if name != "buffer_pointer" else address.cast("i64")
        f.call("void", "axla_record_unwatch", record)

    return body


_NATIVE["Buffer_UnsafePointer"] = _pointer("buffer_pointer")
_NATIVE["Buffer_OpaqueDeviceMemoryDataPointer"] = _pointer("device_memory_ptr")


@_native("Buffer_ReadyEvent")
def _ready_event(f: GlueFunction, args: Arguments) -> None:
    record = _alive_record(f, args)
    args["event"] = record
    with f.if_(record.at(RECORD.offset("ready")).load("i32", "acquire").eq(READY), likely=True):
        f.call("void", "axla_record_unwatch", record)
        args["event"] = f.glob("pjrt_ready")


@_native("Buffer_IncreaseExternalReferenceCount")
def _increase(f: GlueFunction, args: Arguments) -> None:
    """Keeps a buffer's memory as long as the buffer object exists, even if it is deleted or donated."""
    record, array = _alive_record(f, args), args["buffer"]
    f.call("void", "axla_record_hold", record)
    f.call("void", "axla_record_unwatch", record)
    free = array.at(ARRAY.offset("retained")).exchange(f.null(), record)
    with f.if_(free ^ 1):
        f.call("void", "axla_record_release", record)


_NATIVE["Buffer_DecreaseExternalReferenceCount"] = _nothing


@_native("Buffer_Delete")
def _delete(f: GlueFunction, args: Arguments) -> None:
    _locked(f, "axla_array_delete", args["buffer"])


@_native("Buffer_Destroy")
def _buffer_destroy(f: GlueFunction, args: Arguments) -> None:
    _let_go(f, args["buffer"])


@_native("LoadedExecutable_Destroy")
@_native("Executable_Destroy")
def _executable_destroy(f: GlueFunction, args: Arguments) -> None:
    _let_go(f, args["executable"].get(EXECUTABLE, "owner"))


@_native("LoadedExecutable_GetExecutable")
def _get_executable(f: GlueFunction, args: Arguments) -> None:
    args["executable"] = args["loaded_executable"]
    _locked(f, "Py_IncRef", args["loaded_executable"].get(EXECUTABLE, "owner"))


def _let_go(f: GlueFunction, owned: Ssa) -> None:
    """Drops a reference. A thread of the client must not wait for the interpreter lock when the interpreter
    is about to end, which would end the thread while the client waits for it.
    """
    _leave_at_end(f, fails=False)
    foreign = f.call("i32", "PyGILState_Check").eq(0)
    letting_go = f.glob("pjrt_letting_go")
    with f.if_(foreign, likely=False):
        letting_go.atomic("add", f.i32(1))
        with f.if_(f.glob("pjrt_ending").load("i32", "seq_cst").ne(0), likely=False):
            letting_go.atomic("sub", f.i32(1))
            f.ret(f.null())
    _locked(f, "Py_DecRef", owned)
    with f.if_(foreign, likely=False):
        letting_go.atomic("sub", f.i32(1))


def _locked(f: GlueFunction, name: str, argument: Ssa) -> None:
    """Calls a function under the interpreter lock, which may run arbitrary code."""
    _leave_at_end(f, fails=False)
    state = f.call("i32", "PyGILState_Ensure")
    pending = _fetched(f)
    f.call("void", name, argument)
    f.call("void", "PyErr_Restore", *(slot.load("ptr") for slot in pending))
    f.call("void", "PyGILState_Release", state)


# Runs.

_EXECUTE = "LoadedExecutable_Execute"


@_native(_EXECUTE)
def _execute(f: GlueFunction, args: Arguments) -> None:
    """Calls a program for one device if its run is short and its arguments ready; else Python runs it."""
    executable = args["executable"]
    callable_, program = executable.get(EXECUTABLE, "callable"), executable.get(EXECUTABLE, "program")
    refused = args["options"].get(STRUCTS["ExecuteOptions"], "num_non_donatable_input_indices").ne(0)
    others = args["num_devices"].ne(1) | args["execute_device"].ne(0)
    slow = f.slot((callable_.eq(0) | refused | others).cast("i32"))
    result, state = f.slot(f.null()), f.slot(f.i32(0))
    _leave_at_end(f, fails=True)
    with f.if_(slow.load("i32").eq(0), likely=True):
        arguments = args["argument_lists"].load("ptr")
        state.store(f.call("i32", "PyGILState_Ensure"))
        refused = f.call("i32", "pjrt_is_slow", program, executable, arguments, args["num_args"])
        slow.store(refused)
        with f.if_(refused.eq(0), likely=True):
            result.store(f.call("ptr", "pjrt_run", program, callable_, arguments))
            with f.if_(result.load("ptr").eq(0), likely=False):
                raised = f.call("ptr", "pjrt_raised_error")
                f.call("void", "PyGILState_Release", state.load("i32"))
                f.ret(raised)
            f.call("void", "pjrt_outputs", program, result.load("ptr"), args["output_lists"].load("ptr"))
        f.call("void", "PyGILState_Release", state.load("i32"))
    with f.unless(slow.load("i32").eq(0)):
        f.ret(_python(f, _EXECUTE, args))
    events = args["device_complete_events"]
    with f.if_(events.ne(0)):
        events.store(f.glob("pjrt_ready"))


@_FUNCTIONS("pjrt_raised_error", "ptr")
def _raised_error(f: GlueFunction) -> None:
    """A PJRT_Error for the pending exception, which is cleared."""
    slots = _fetched(f)
    f.call("void", "PyErr_NormalizeException", *slots)
    error = f.call_pointer("ptr", f.glob("pjrt_raised").load("ptr"), slots[1].load("ptr"))
    for slot in slots:
        f.call("void", "Py_DecRef", slot.load("ptr"))
    f.ret(error)


@_FUNCTIONS("pjrt_is_slow", "i32", "program:ptr, executable:ptr, arguments:ptr, count:i64")
def _is_slow(f: GlueFunction, program: Ssa, executable: Ssa, arguments: Ssa, count: Ssa) -> None:
    """Whether Python must handle a run, since it has to be queued, or refused with a message."""
    refused = program.get(PROGRAM, "parameter_count").ne(count) | program.get(PROGRAM, "handed").ne(
        program.get(PROGRAM, "ended", "acquire")
    )
    f.guard(refused | executable.get(EXECUTABLE, "is_deleted").ne(0), f.i32(1))
    with f.if_((program.get(PROGRAM, "flags") & LONG_RUNNING).ne(0)):
        # A program that never ran has 0, which becomes the largest unsigned number.
        f.guard((program.get(PROGRAM, "nanoseconds") - 1).ugt(SHORT), f.i32(1))
    with f.loop(0, count) as loop:
        record = arguments.item(loop.index).load("ptr").get(ARRAY, "record")
        f.guard(record.eq(0), f.i32(1))
        f.guard(record.at(RECORD.offset("ready")).load("i32", "acquire").ne(READY), f.i32(1))
    f.ret(f.i32(0))


@_FUNCTIONS("pjrt_run", "ptr", "program:ptr, callable:ptr, arguments:ptr")
def _run(f: GlueFunction, program: Ssa, callable_: Ssa, arguments: Ssa) -> None:
    call = callable_.get(CALLABLE, "vectorcall")
    count = program.get(PROGRAM, "parameter_count")
    with f.if_((program.get(PROGRAM, "flags") & LONG_RUNNING).eq(0), likely=True):
        f.ret(f.call_pointer("ptr", call, callable_, arguments, count, f.null()))
    begin = f.call("i64", "now")
    result = f.call_pointer("ptr", call, callable_, arguments, count, f.null())
    program.set(PROGRAM, "nanoseconds", f.call("i64", "now") - begin)
    f.ret(result)


@_FUNCTIONS("pjrt_outputs", "void", "program:ptr, result:ptr, outputs:ptr")
def _outputs(f: GlueFunction, program: Ssa, result: Ssa, outputs: Ssa) -> None:
    """Stores the arrays of a result in the client's table `outputs`. The client gets a reference to each."""
    with f.if_((program.get(PROGRAM, "flags") & SINGLE_RESULT).ne(0), likely=True):
        f.call("void", "pjrt_note_memory", result, result.get(ARRAY, "record"))
        outputs.store(result)
        f.ret()
    with f.loop(0, program.get(PROGRAM, "result_count")) as loop:
        array = f.call("ptr", "PyTuple_GetItem", result, loop.index)
        f.call("void", "Py_IncRef", array)
        f.call("void", "pjrt_note_memory", array, array.get(ARRAY, "record"))
        outputs.item(loop.index).store(array)
    f.call("void", "Py_DecRef", result)


# Arrays of the host.


@_FUNCTIONS("pjrt_known_shape", "ptr", "element:i32, dims:ptr, rank:i64, strides:ptr, count:i64")
def _known_shape(f: GlueFunction, element: Ssa, dims: Ssa, rank: Ssa, strides: Ssa, count: Ssa) -> None:
    """The KNOWN struct of the shape with `rank` sizes at the address `dims`; null if it was not registered,
    or if the elements are not dense by the `count` strides at the address `strides`.
    """
    number = f.slot(element.cast("i64"))
    with f.loop(0, rank) as loop:
        number.store(number.load("i64") * 31 + dims.item(loop.index).load("i64"))
    known = f.glob("pjrt_known").item(number.load("i64") & (KNOWN_SHAPES - 1), KNOWN.size)
    info = known.get(KNOWN, "info")
    f.guard(info.eq(0), f.null())
    same = info.get(SHAPE_INFO, "element").eq(element) & info.get(SHAPE_INFO, "rank").eq(rank.cast("i32"))
    f.guard(same ^ 1, f.null())
    with f.loop(0, rank) as loop:
        wanted = info.get(SHAPE_INFO, "dims").item(loop.index).load("i64")
        f.guard(dims.item(loop.index).load("i64").ne(wanted), f.null())
    with f.loop(0, count) as loop:
        wanted = info.get(SHAPE_INFO, "strides").item(loop.index).load("i64")
        f.guard(strides.item(loop.index).load("i64").ne(wanted), f.null())
    f.ret(known)


_FROM_HOST = "Client_BufferFromHostBuffer"


@_native(_FROM_HOST)
def _from_host(f: GlueFunction, args: Arguments) -> None:
    """Copies a host array with a known shape; arrays of other shapes are made in Python."""
    _leave_at_end(f, fails=True)
    state = f.call("i32", "PyGILState_Ensure")
    pending = _fetched(f)
    given = (args[name] for name in ("type", "dims", "num_dims", "byte_strides", "num_byte_strides"))
    known, array = f.slot(f.call("ptr", "pjrt_known_shape", *given)), f.slot(f.null())
    with f.if_(args["device_layout"].ne(0), likely=False):
        known.store(f.null())
    found = known.load("ptr")
    with f.if_(found.ne(0), likely=True):
        array.store(f.call("ptr", "axla_array_copy", *(found.get(KNOWN, n) for n in ("info", "info_object")),
                           args["data"]))  # fmt: skip
        f.call("void", "PyErr_Clear")  # an error for missing memory: Python reports it better
    made = array.load("ptr")
    with f.if_(made.ne(0), likely=True):
        number, memory, device = f.slot(f.i32(0)), args["memory"], args["device"]
        with f.if_(memory.ne(0)):
            number.store(memory.get(MEMORY, "id"))
        with f.if_(memory.eq(0) & device.ne(0)):
            number.store(device.get(DEVICE, "id") * len(MEMORY_KINDS))
        place, record = number.load("i32"), made.get(ARRAY, "record")
        owner = place.udiv(f.i32(len(MEMORY_KINDS)))
        record.set(RECORD, "device", owner)
        record.set(RECORD, "flags", (place - owner * len(MEMORY_KINDS)) << MEMORY_SHIFT)
        args["buffer"] = made
        args["done_with_host_buffer"] = f.glob("pjrt_ready")
    f.call("void", "PyErr_Restore", *(slot.load("ptr") for slot in pending))
    f.call("void", "PyGILState_Release", state)
    with f.unless(made.ne(0)):
        f.ret(_python(f, _FROM_HOST, args))


# Contexts of executions: JAX makes one for each run, with the list of the program's callbacks.


@_native("ExecuteContext_Create")
def _context_create(f: GlueFunction, args: Arguments) -> None:
    context = f.call("ptr", "axla_allocate", f.i64(CONTEXT.size))
    context.set(CONTEXT, "data", 0)
    args["context"] = context


@_native("ExecuteContext_Destroy")
def _context_destroy(f: GlueFunction, args: Arguments) -> None:
    with f.if_(args["context"].ne(0)):
        f.call("void", "axla_free", args["context"], f.i64(CONTEXT.size))


def _user_data_add(f: GlueFunction, args: Arguments) -> None:
    args["context"].set(CONTEXT, "data", args["data"])


# Views of the caller's memory.


@_FUNCTIONS("pjrt_view_release", "void", "record:ptr", exported=True)
def _view_release(f: GlueFunction, record: Ssa) -> None:
    view = record.get(RECORD, "context")
    f.call_pointer("void", view.get(VIEW, "callback"), view.get(VIEW, "pointer"), view.get(VIEW, "argument"))
    f.call("void", "axla_free", view, f.i64(VIEW.size))


@_FUNCTIONS("pjrt_view", "void", "record:ptr, callback:ptr, pointer:ptr, argument:ptr", exported=True)
def _view(f: GlueFunction, record: Ssa, callback: Ssa, pointer: Ssa, argument: Ssa) -> None:
    """Registers `void f(void *pointer, void *argument)` to be called when a record is freed."""
    view = f.call("ptr", "axla_allocate", f.i64(VIEW.size))
    for name, value in {"callback": callback, "pointer": pointer, "argument": argument}.items():
        view.set(VIEW, name, value)
    record.set(RECORD, "context", view)
    record.set(RECORD, "release", f.glob("pjrt_view_release"))


EXTENSIONS: dict[str, Body] = {"FFI_user_data_add": _user_data_add}
"""The functions of extensions, by name."""
