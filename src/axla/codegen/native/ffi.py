"""Emits calls of handlers of XLA's typed FFI, and the API functions that handlers call.

A handler takes a call frame. The runtime prepares one for each call site of a program, once, as bytes:
`ffi_call` copies them to the stack, writes the addresses of the run's arrays into the copy, and calls the
handler. So runs share no mutable data. Structs and functions are those of XLA's `ffi/api/c_api.h`, version
0.5, compatible with 0.1 to 0.4.

No function here takes the interpreter lock, except `CALL.report` after an error.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import fields
from axla.codegen.straight import Ssa
from axla.core.status import Status
from axla.program.abi import FRAME, OUT_OF_MEMORY, CField, Struct

_HEAD = "struct_size:i64, extension_start:ptr"


def _struct(name: str, text: str) -> Struct:
    """A struct of the FFI; `text` lists the fields after its header."""
    return Struct(f"XLA_FFI_{name}", "", *fields(f"{_HEAD}, {text}"))


BUFFER = _struct("Buffer", "dtype:i32, data:ptr, rank:i64, dims:ptr")
ATTRS = _struct("Attrs", "size:i64, types:ptr, names:ptr, attrs:ptr")
CALL_FRAME = _struct(
    "CallFrame",
    "api:ptr, ctx:ptr, stage:i32, args_struct_size:i64, args_extension_start:ptr, args_size:i64, "
    "args_types:ptr, args:ptr, rets_struct_size:i64, rets_extension_start:ptr, rets_size:i64, "
    "rets_types:ptr, rets:ptr, attrs_struct_size:i64, attrs_extension_start:ptr, attrs_size:i64, "
    "attrs_types:ptr, attrs_names:ptr, attrs:ptr, future:ptr",
)
METADATA = Struct(
    "XLA_FFI_Metadata",
    "",
    *fields(
        "struct_size:i64, version_struct_size:i64, version_extension_start:ptr, major:i32, minor:i32, "
        "traits:i32, state_type_id:i64"
    ),
)
METADATA_EXTENSION = Struct(
    "XLA_FFI_Metadata_Extension", "", *fields("struct_size:i64, type:i32, next:ptr, metadata:ptr")
)

CALL = Struct(
    "axla_ffi_call",
    "A handler at a call site of a loaded program; an entry of the function table has its address.",
    CField("code", "ptr", "ffi_call"),
    CField("handler", "ptr", ""),
    CField("report", "ptr", "records an error: a function with the convention `axla`"),
    CField("image", "ptr", "bytes to copy: CONTEXT, CALL_FRAME, pointers to buffers, BUFFERs"),
    CField("bytes", "i64", "size of the image"),
    CField("operands", "i64", ""),
    CField("results", "i64", ""),
    CField("sizes", "ptr", "bytes of operands and results, i64"),
    CField("aliases", "ptr", "for each operand, the number of the result in its memory, or -1; i64"),
    CField("moved", "i64", "bytes of all arrays, each at a multiple of ALIGNMENT"),
    CField("state", "ptr", "the state that the stage `instantiate` has set"),
    CField("state_type", "i64", "type of the state"),
    CField("user_data", "ptr", "user data of the target; null: none"),
    CField("device", "i32", "ordinal of the device"),
)
CONTEXT = Struct("axla_ffi_context", "The context of API calls.", *fields("call:ptr, frame:ptr"))
POINTERS = CONTEXT.size + CALL_FRAME.size
"""Where the pointers to buffers begin in an image; the buffers follow them."""
ERROR = Struct("axla_ffi_error", "An error; its text follows, and ends with 0.", *fields("code:i64"))
_FUTURE = Struct("axla_ffi_future", "", *fields("state:i32, error:ptr"))  # state 1: it is set
ALIGNMENT = 64
"""The alignment in bytes of the arrays of a handler, as on XLA's CPUs: handlers use instructions that require
it.
"""
_SMALL = 2048  # images of more bytes come from the allocator

API_VERSION = (0, 5)
OLDEST_VERSION = (0, 1)
API = Struct(
    "XLA_FFI_Api",
    "",
    *fields(
        f"{_HEAD}, version_struct_size:i64, version_extension_start:ptr, major:i32, minor:i32, "
        "internal_api:ptr"
    ),
    *fields(
        "XLA_FFI_Error_Create:ptr, XLA_FFI_Error_GetDetails:ptr, XLA_FFI_Error_Destroy:ptr, "
        "XLA_FFI_Handler_Register:ptr, XLA_FFI_Stream_Get:ptr, XLA_FFI_Type_Register:ptr, "
        "XLA_FFI_InvokeContext_Get:ptr, XLA_FFI_State_Set:ptr, XLA_FFI_State_Get:ptr, "
        "XLA_FFI_DeviceMemory_Allocate:ptr, XLA_FFI_DeviceMemory_Free:ptr, XLA_FFI_ThreadPool_Schedule:ptr, "
        "XLA_FFI_ThreadPool_NumThreads:ptr, XLA_FFI_Future_Create:ptr, XLA_FFI_Future_SetAvailable:ptr, "
        "XLA_FFI_Future_SetError:ptr, XLA_FFI_RunId_Get:ptr, XLA_FFI_DeviceOrdinal_Get:ptr, "
        "XLA_FFI_InvokeContext_FindExtension:ptr, XLA_FFI_CustomOptions_Get:ptr"
    ),
)
HANDLER_REGISTER = _struct(
    "Handler_Register_Args",
    "name:ptr, name_len:i64, platform:ptr, platform_len:i64, instantiate:ptr, prepare:ptr, initialize:ptr, "
    "execute:ptr",
)
TYPE_REGISTER = _struct("Type_Register_Args", "name:ptr, name_len:i64, type_id:ptr, type_info:ptr")
TYPE_INFO = _struct("TypeInfo", "deleter:ptr")
_OLD_STATE = _struct("State_Args_V02", "ctx:ptr, type_id:ptr, state:ptr")

_FUNCTIONS = GlueFunctions()
ARGUMENTS: dict[str, Struct] = {}
"""The structs that the functions of the API take, by their names."""


def emit(m: GlueModule) -> None:
    """Adds the functions to a module of their own, which is linked after the glue."""
    _FUNCTIONS.emit(m)


def _api(name: str, text: str, result: str = "ptr"):
    """A decorator: the body it is applied to writes the code of `XLA_FFI_{name}`. `text` declares the fields
    of the function's argument, a struct, without its header. The body receives the LLVM function, the address
    of the struct, and the struct type; it returns an error, or None.
    """
    arguments = ARGUMENTS[name] = _struct(f"{name}_Args", text)

    def add(body: Callable[[GlueFunction, Ssa, Struct], Ssa | None]) -> None:
        def write(f: GlueFunction, args: Ssa) -> None:
            error = body(f, args, arguments)
            if result == "ptr":
                f.ret(f.null() if error is None else error)

        _FUNCTIONS(f"XLA_FFI_{name}", result, "args:ptr", exported=True)(write)

    return add


def _refused(f: GlueFunction, code: Status, message: str) -> Ssa:
    """Makes an FFI error; returns its address."""
    return f.call("ptr", "ffi_error", f.i64(code), f.data(message.encode() + b"\0"))


def _context(args: Ssa, struct: Struct) -> Ssa:
    """The CALL struct of the context in a function's arguments."""
    return args.get(struct, "ctx").get(CONTEXT, "call")


# Calls of handlers.


@_FUNCTIONS(
    "ffi_call", "i32", "frame:ptr, operands:ptr, results:ptr, call:ptr, length:i64", exported=True
)  # fmt: skip
def _call(f: GlueFunction, frame: Ssa, operands: Ssa, results: Ssa, call: Ssa, length: Ssa) -> None:
    """Calls a handler for a run. This function has the signature of the functions with the calling convention
    `axla`; its opaque text, `call`, is a CALL struct.
    """
    counts = call.get(CALL, "operands"), call.get(CALL, "results")
    low = f.slot(f.i64(0))
    for count, addresses in zip(counts, (operands, results), strict=True):
        with f.loop(0, count) as loop:
            low.store(low.load("i64") | addresses.item(loop.index).load("i64"))
    with f.if_((low.load("i64") & (ALIGNMENT - 1)).ne(0), likely=False):
        f.ret(f.call("i32", "ffi_call_moved", frame, operands, results, call))
    size = call.get(CALL, "bytes")
    block = f.slot(f.space(f"[{_SMALL} x i8]", 16))
    with f.if_(size.gt(_SMALL), likely=False):
        block.store(f.call("ptr", "axla_allocate", size))
        with f.if_(block.load("ptr").eq(0), likely=False):
            frame.set(FRAME, "error_detail", size)
            f.ret(f.i32(OUT_OF_MEMORY))
    image = block.load("ptr")
    f.call("ptr", "memcpy", image, call.get(CALL, "image"), size)
    pointers = image.at(POINTERS)
    buffers = pointers.item(counts[0] + counts[1])
    called = image.at(CONTEXT.size)
    for kind, count, addresses in zip(("args", "rets"), counts, (operands, results), strict=True):
        called.set(CALL_FRAME, kind, pointers)
        with f.loop(0, count) as loop:
            buffer = buffers.item(loop.index, BUFFER.size)
            buffer.set(BUFFER, "data", addresses.item(loop.index).load("ptr"))
            pointers.item(loop.index).store(buffer)
        pointers, buffers = pointers.item(count), buffers.item(count, BUFFER.size)
    image.set(CONTEXT, "frame", frame)
    called.set(CALL_FRAME, "ctx", image)
    error = f.slot(f.call_pointer("ptr", call.get(CALL, "handler"), called))
    future = called.get(CALL_FRAME, "future")
    with f.if_(future.ne(0), likely=False):
        late = f.call("ptr", "ffi_await", future)
        with f.if_(error.load("ptr").eq(0), likely=True):
            error.store(late)
    with f.if_(size.gt(_SMALL), likely=False):
        f.call("void", "axla_free", image, size)
    f.guard(error.load("ptr").eq(0), f.i32(0))
    none = f.null()
    code = f.call_pointer("i32", call.get(CALL, "report"), frame, error.load("ptr"), none, none, f.i64(0))
    f.call("void", "free", error.load("ptr"))
    f.ret(code)


@_FUNCTIONS("ffi_call_moved", "i32", "frame:ptr, operands:ptr, results:ptr, call:ptr")
def _call_moved(f: GlueFunction, frame: Ssa, operands: Ssa, results: Ssa, call: Ssa) -> None:
    """Calls a handler with aligned copies of the arrays that are not aligned, as NumPy's often are."""
    count, others = call.get(CALL, "operands"), call.get(CALL, "results")
    sizes, aliases = call.get(CALL, "sizes"), call.get(CALL, "aliases")
    tables = _aligned((count + others) << 3)
    whole = tables + call.get(CALL, "moved")
    block = f.call("ptr", "axla_allocate", whole)
    with f.if_(block.eq(0), likely=False):
        frame.set(FRAME, "error_detail", whole)
        f.ret(f.i32(OUT_OF_MEMORY))
    given, taken = block, block.item(count)  # the tables of operands' and results' addresses
    free = f.slot(block.at(tables))
    with f.loop(0, others) as loop:
        place = _place(f, results.item(loop.index).load("ptr"), sizes.item(count + loop.index), free)
        taken.item(loop.index).store(place)
    with f.loop(0, count) as loop:
        address, size = operands.item(loop.index).load("ptr"), sizes.item(loop.index)
        alias = aliases.item(loop.index).load("i64")
        here = given.item(loop.index)
        with f.if_(alias.ge(0)):
            here.store(taken.item(alias).load("ptr"))
        with f.if_(alias.lt(0)):
            here.store(_place(f, address, size, free))
        with f.if_(here.load("ptr").ne(address)):
            f.call("ptr", "memcpy", here.load("ptr"), address, size.load("i64"))
    code = f.call("i32", "ffi_call", frame, given, taken, call, f.i64(0))
    with f.loop(0, others) as loop:
        address, place = (table.item(loop.index).load("ptr") for table in (results, taken))
        with f.if_(place.ne(address)):
            f.call("ptr", "memcpy", address, place, sizes.item(count + loop.index).load("i64"))
    f.call("void", "axla_free", block, whole)
    f.ret(code)


def _aligned(size: Ssa) -> Ssa:
    return (size + (ALIGNMENT - 1)) & -ALIGNMENT


def _place(f: GlueFunction, address: Ssa, size: Ssa, free: Ssa) -> Ssa:
    """The address of an array's data in a call of a handler: `address` if that is aligned; else the next free
    bytes, whose address `free` holds and which are then taken.
    """
    right = (address.cast("i64") & (ALIGNMENT - 1)).eq(0)
    place = f.select(right, address, free.load("ptr"))
    free.store(free.load("ptr").at(f.select(right, f.i64(0), _aligned(size.load("i64")))))
    return place


# Errors: they are blocks of `malloc`, which the receiver frees.


@_FUNCTIONS("ffi_error", "ptr", "code:i64, message:ptr", exported=True)
def _error(f: GlueFunction, code: Ssa, message: Ssa) -> None:
    bytes_ = f.call("i64", "strlen", message) + 1
    error = f.call("ptr", "malloc", bytes_ + ERROR.size)
    error.set(ERROR, "code", code)
    f.call("ptr", "memcpy", error.at(ERROR.size), message, bytes_)
    f.ret(error)


@_api("Error_Create", "message:ptr, errc:i32")
def _error_create(f: GlueFunction, args: Ssa, struct: Struct) -> Ssa:
    return f.call("ptr", "ffi_error", args.get(struct, "errc").cast("i64"), args.get(struct, "message"))


@_api("Error_GetDetails", "error:ptr, message:ptr, errc:i32", "void")
def _error_details(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    error = args.get(struct, "error")
    args.set(struct, "message", error.at(ERROR.size))
    with f.if_(args.get(struct, "struct_size").gt(struct.offset("errc"))):  # version 0.3 has no such field
        args.set(struct, "errc", error.get(ERROR, "code").cast("i32"))


@_api("Error_Destroy", "error:ptr", "void")
def _error_destroy(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    f.call("void", "free", args.get(struct, "error"))


# Functions that read the context of a handler.


@_api("Stream_Get", "ctx:ptr, stream:ptr")
def _stream(f: GlueFunction, args: Ssa, struct: Struct) -> Ssa:
    return _refused(f, Status.UNIMPLEMENTED, "CPUs have no stream")


@_api("RunId_Get", "ctx:ptr, run_id:i64")
def _run_id(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    args.set(struct, "run_id", args.get(struct, "ctx").get(CONTEXT, "frame").get(FRAME, "run_id"))


@_api("DeviceOrdinal_Get", "ctx:ptr, device_ordinal:i32")
def _device_ordinal(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    args.set(struct, "device_ordinal", _context(args, struct).get(CALL, "device"))


@_api("InvokeContext_Get", "ctx:ptr, type_id:ptr, data:ptr")
def _user_data(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    data = _context(args, struct).get(CALL, "user_data")
    with f.if_(data.eq(0), likely=False):
        f.ret(_refused(f, Status.NOT_FOUND, "the run has no user data of this type"))
    args.set(struct, "data", data)


@_api("InvokeContext_FindExtension", "ctx:ptr, extension_type:i64, extension:ptr")
def _find_extension(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    args.set(struct, "extension", 0)


@_api("CustomOptions_Get", "ctx:ptr, attrs:ptr")
def _custom_options(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    args.set(struct, "attrs", f.data(bytes(ATTRS.ctypes()(struct_size=ATTRS.size))))  # no options


@_FUNCTIONS("ffi_unknown", "ptr", "args:ptr", exported=True)
def _unknown(f: GlueFunction, args: Ssa) -> None:
    """The function in place of API functions that newer versions of the FFI have. A handler compiled for such
    a version gets an error when it calls one.
    """
    f.ret(_refused(f, Status.UNIMPLEMENTED, "the function is of a newer version of XLA's FFI"))


def _state_place(f: GlueFunction, args: Ssa, struct: Struct) -> Ssa:
    """The address of two fields in the arguments: the pointer to the type, and the state. Version 0.2 has no
    stage field before them; in later versions any stage but the first, 0, is refused.
    """
    old = args.get(struct, "struct_size").eq(_OLD_STATE.size)
    with f.if_((old ^ 1) & args.get(struct, "stage").ne(0), likely=False):
        f.ret(_refused(f, Status.FAILED_PRECONDITION, "on CPUs, only the stage `instantiate` has a state"))
    return args.at(f.select(old, f.i64(_OLD_STATE.offset("type_id")), f.i64(struct.offset("type_id"))))


@_api("State_Set", "ctx:ptr, stage:i32, type_id:ptr, state:ptr")
def _state_set(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    place, call = _state_place(f, args, struct), _context(args, struct)
    with f.if_(call.get(CALL, "state").ne(0), likely=False):
        f.ret(_refused(f, Status.ALREADY_EXISTS, "the call has a state already"))
    call.set(CALL, "state_type", place.load("ptr").load("i64"))
    call.set(CALL, "state", place.at(8).load("ptr"))


@_api("State_Get", "ctx:ptr, stage:i32, type_id:ptr, state:ptr")
def _state_get(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    place, call = _state_place(f, args, struct), _context(args, struct)
    with f.if_(call.get(CALL, "state").eq(0), likely=False):
        f.ret(
            _refused(
                f, Status.NOT_FOUND, "the call has no state: its handler of the stage `instantiate` set none"
            )
        )
    with f.if_(call.get(CALL, "state_type").ne(place.load("ptr").load("i64")), likely=False):
        f.ret(_refused(f, Status.INVALID_ARGUMENT, "the state of the call is of another type"))
    place.at(8).store(call.get(CALL, "state"))


# Memory and threads.


@_api("DeviceMemory_Allocate", "ctx:ptr, size:i64, alignment:i64, data:ptr")
def _allocate(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    with f.if_(args.get(struct, "alignment").gt(64), likely=False):
        f.ret(_refused(f, Status.INVALID_ARGUMENT, "memory is aligned to 64 bytes, not to more"))
    block = f.call("ptr", "axla_allocate", args.get(struct, "size"))
    with f.if_(block.eq(0), likely=False):
        f.ret(_refused(f, Status.RESOURCE_EXHAUSTED, "out of memory"))
    args.set(struct, "data", block)


@_api("DeviceMemory_Free", "ctx:ptr, size:i64, data:ptr")
def _free(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    f.call("void", "axla_free", args.get(struct, "data"), args.get(struct, "size"))


@_api("ThreadPool_Schedule", "ctx:ptr, task:ptr, data:ptr")
def _schedule(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    f.call("void", "axla_hand_over", args.get(struct, "task"), args.get(struct, "data"))


@_api("ThreadPool_NumThreads", "ctx:ptr, num_threads:ptr")
def _num_threads(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    args.get(struct, "num_threads").store(f.call("i64", "axla_task_threads"))


# Futures: one may be freed as soon as it is set, by the run that waits for it.


@_api("Future_Create", "future:ptr")
def _future_create(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    future = f.call("ptr", "calloc", f.i64(1), f.i64(_FUTURE.size))
    args.set(struct, "future", future)


def _settle(f: GlueFunction, future: Ssa) -> None:
    future.field(_FUTURE, "state").store(f.i32(1), "release")
    f.call("void", "futex_wake", future, f.i64(1))


@_api("Future_SetAvailable", "future:ptr")
def _future_available(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    _settle(f, args.get(struct, "future"))


@_api("Future_SetError", "future:ptr, error:ptr")
def _future_error(f: GlueFunction, args: Ssa, struct: Struct) -> None:
    future, error = args.get(struct, "future"), args.get(struct, "error")
    with f.if_(error.eq(0), likely=False):
        f.ret(_refused(f, Status.INVALID_ARGUMENT, "Future_SetError: the error is null"))
    future.set(_FUTURE, "error", error)
    _settle(f, future)


@_FUNCTIONS("ffi_await", "ptr", "future:ptr")
def _await(f: GlueFunction, future: Ssa) -> None:
    """Waits for a future and returns its error, or null. The run cannot be stopped meanwhile: the handler's
    tasks write to its memory.
    """
    with f.while_loop() as loop:
        with f.if_(future.field(_FUTURE, "state").load("i32", "acquire").ne(0)):
            loop.leave()
        f.call("void", "futex_wait", future, f.i32(0))
    error = future.get(_FUTURE, "error")
    f.call("void", "free", future)
    f.ret(error)
