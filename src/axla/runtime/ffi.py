"""Calls handlers of XLA's typed FFI: makes the call frames for the call sites of a program, the states that
handlers create, the table of API functions, and types registered by users.

`codegen/native/ffi.py` has the structs, and the code that runs without Python.
"""

from __future__ import annotations

import ctypes as c
import itertools
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from axla.codegen.native import ffi
from axla.codegen.native.systems import HERE
from axla.core import dtypes, locks
from axla.core.errors import AxlaError, CustomCallFailure, InvalidArgument, UnsupportedError
from axla.core.shape import AnyShape, Shape, show
from axla.core.status import Status, status_of
from axla.custom.attributes import parse_attributes
from axla.custom.registry import STAGES, CallTarget, address_of, register_custom_call
from axla.custom.site import FFI, CallSite
from axla.program import abi
from axla.runtime.callbacks import FRAME, callback, take_raised
from axla.runtime.native import native

# Numbers of element types in XLA's PrimitiveType, which protos and the FFI use.
_TOKEN = 17
_DATA_TYPES = {
    "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7, "u32": 8, "u64": 9, "f16": 10,
    "f32": 11, "f64": 12, "c64": 15, "bf16": 16, "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "s4": 21, "u4": 22,
    "f8e4m3b11fnuz": 23, "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "s2": 26, "u2": 27, "f8e4m3": 28, "f8e3m4": 29,
    "s1": 30, "u1": 31, "f4e2m1fn": 32, "f8e8m0fnu": 33,
}  # fmt: skip
_ARRAY, _DICTIONARY, _SCALAR, _STRING = 1, 2, 3, 4  # kinds of attributes
_BUFFER = 1  # the kind of all operands and results
_INSTANTIATE, _EXECUTE = 0, 3  # stages; CPUs do not use those between
_METADATA = 1  # the kind of an extension
_NEWER = 32  # additional slots in the API table, for functions of newer versions
_LARGEST_ARRAY = 1 << 28  # bytes; a short text can describe a huge array

_SCALAR_VALUE = abi.structure("XLA_FFI_Scalar", dtype=c.c_int32, value=c.c_void_p)
_ARRAY_VALUE = abi.structure("XLA_FFI_Array", dtype=c.c_int32, size=c.c_size_t, data=c.c_void_p)
_SPAN = abi.structure("XLA_FFI_ByteSpan", ptr=c.c_void_p, len=c.c_size_t)
_ATTRS: Any = ffi.ATTRS.ctypes()
_BUFFERS: Any = ffi.BUFFER.ctypes()
_CALL: Any = ffi.CALL.ctypes()
_CALL_FRAME: Any = ffi.CALL_FRAME.ctypes()
_HANDLER = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
_RUN = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64)
_DELETER = c.CFUNCTYPE(None, c.c_void_p)
_FRAME_SIZES = {
    "struct_size": ffi.CALL_FRAME.offset("future"),  # fields from `future` on are optional
    "args_struct_size": 40, "rets_struct_size": 40, "attrs_struct_size": ffi.ATTRS.size,
}  # fmt: skip


class HandlerCall:
    """A handler at one call site of a program. `address` is its entry in the function table of the
    program.
    """

    def __init__(self, site: CallSite, target: CallTarget, device: int = 0) -> None:
        """Prepares the call, and calls the handler's stage `instantiate` if it has one."""
        self.site = site
        self._device, self._user_data = device, target.user_data
        self._keep: list[Any] = [target]
        self._attributes = _attributes(site, self._keep)
        report, owner = callback(_reporter(site))
        self._keep.append(owner)
        self._report = report
        self._call = self._prepared(target.address, _EXECUTE, site.operand_leaves, site.result_leaves)
        self.address = c.addressof(self._call)
        if target.instantiate:
            first = self._prepared(target.instantiate, _INSTANTIATE, (), ())
            self._run(first)
            self._take_state(first)

    def run(self, operands: int, results: int) -> None:
        """Calls the handler outside of a program. `operands` and `results` are addresses of tables of
        pointers.
        """
        self._run(self._call, operands, results)

    def _run(self, call: Any, operands: int | None = None, results: int | None = None) -> None:
        frame = FRAME(version=abi.FRAME_VERSION, run_id=-1)
        at = c.addressof(frame)
        code = _RUN(call.code)(at, operands, results, c.addressof(call), 0)
        if code:
            raise take_raised(at) or CustomCallFailure(f"{self.site}: error code {code}", code)

    def _take_state(self, first: Any) -> None:
        """Keeps the state that the stage `instantiate` created, and lets it be freed with this object."""
        self._call.state, self._call.state_type = first.state, first.state_type
        if first.state:
            known = {number: deleter for number, deleter in _types.values()}
            if first.state_type not in known:
                raise UnsupportedError(
                    f"{self.site}: the type {first.state_type} of the handler's state is not registered: "
                    "use axla.register_ffi_type"
                )
            deleter = known[first.state_type]
            if deleter:
                weakref.finalize(self, _DELETER(deleter), first.state).atexit = False

    def _prepared(
        self, handler: int, stage: int, operands: Sequence[AnyShape], results: Sequence[AnyShape]
    ) -> Any:
        """Makes the CALL struct for a handler and a stage, with its call frame."""
        _check_version(self.site, handler)
        leaves = (*operands, *results)
        buffers = ffi.POINTERS + 8 * len(leaves)
        image = (c.c_char * (buffers + ffi.BUFFER.size * len(leaves)))()
        kinds = (c.c_int32 * (len(leaves) + 1))(*[_BUFFER] * len(leaves))
        at = c.addressof(image)
        frame = _CALL_FRAME.from_address(at + ffi.CONTEXT.size)
        for name, value in {
            **_FRAME_SIZES, "api": c.addressof(_api()), "stage": stage, "args_size": len(operands),
            "args_types": c.addressof(kinds), "rets_size": len(results), "rets_types": c.addressof(kinds),
            "attrs_size": self._attributes.size, "attrs_types": self._attributes.types,
            "attrs_names": self._attributes.names, "attrs": self._attributes.attrs,
        }.items():  # fmt: skip
            setattr(frame, name, value)
        sizes = [leaf.byte_size if isinstance(leaf, Shape) else 0 for leaf in leaves]
        aliases = {operand: result for result, operand in self.site.aliases}
        lists = (
            (c.c_int64 * (len(leaves) + 1))(*sizes),
            (c.c_int64 * (len(leaves) + 1))(*[aliases.get(n, -1) for n in range(len(operands))]),
        )
        for shape, buffer in zip(leaves, (_BUFFERS * len(leaves)).from_address(at + buffers), strict=True):
            self._describe(buffer, shape)
        call = _CALL(
            code=_addresses()["ffi_call"], handler=handler, report=self._report, image=at, bytes=len(image),
            operands=len(operands), results=len(results), sizes=c.addressof(lists[0]),
            aliases=c.addressof(lists[1]), device=self._device, user_data=self._user_data,
            moved=sum(-(-size // ffi.ALIGNMENT) * ffi.ALIGNMENT for size in sizes),
        )  # fmt: skip
        ffi.CONTEXT.ctypes().from_address(at).call = c.addressof(call)
        self._keep += (image, kinds, call, *lists)
        return call

    def _describe(self, buffer: Any, shape: AnyShape) -> None:
        """Fills an FFI buffer struct for a shape, without its address. A token is described as an array of
        rank 0.
        """
        buffer.struct_size, buffer.dtype = ffi.BUFFER.size, _TOKEN
        if isinstance(shape, Shape):
            if shape.dtype.name not in _DATA_TYPES:
                raise UnsupportedError(f"{self.site}: XLA's FFI has no element type for {show(shape)}")
            dims = (c.c_int64 * max(shape.rank, 1))(*shape.dims)
            self._keep.append(dims)
            buffer.dtype, buffer.rank = _DATA_TYPES[shape.dtype.name], shape.rank
            buffer.dims = c.addressof(dims)


def _reporter(site: CallSite) -> Callable[[int, Any, Any], int]:
    """Makes the callback for errors of a handler; it gets the error in place of operands, and raises it."""

    def called(frame: int, error: Any, results: Any) -> int:
        status, text = _read_error(c.cast(error, c.c_void_p).value or 0)
        failure = CustomCallFailure(f"{site}: {status.name}: {text}", abi.CUSTOM_CALL)
        failure.status = status
        raise failure

    return called


def _read_error(address: int) -> tuple[Status, str]:
    code = c.c_int64.from_address(address).value
    text = c.string_at(address + ffi.ERROR.size).decode("utf-8", "replace")
    return Status(code) if code in range(len(Status)) else Status.UNKNOWN, text


# Attributes.


def _attributes(site: CallSite, keep: list[Any]) -> Any:
    """The attributes of a call as an FFI dictionary struct. `keep` collects the objects whose memory it
    refers to.
    """
    try:
        return _dictionary(parse_attributes(site.config), keep)
    except AxlaError as error:
        raise UnsupportedError(f"{site}: {error}") from error


def _dictionary(values: dict[str, Any], keep: list[Any]) -> Any:
    names = sorted(values, key=_bytes)  # sorted, since handlers may use binary search
    spans = [_span(name, keep) for name in names]
    encoded = [_attribute(name, values[name], keep) for name in names]
    lists = (
        (c.c_int32 * (len(names) + 1))(*[kind for kind, _ in encoded]),
        (c.c_void_p * (len(names) + 1))(*map(c.addressof, spans)),
        (c.c_void_p * (len(names) + 1))(*[c.addressof(value) for _, value in encoded]),
    )
    keep += lists
    return _ATTRS(ffi.ATTRS.size, None, len(names), *map(c.addressof, lists))


def _attribute(name: str, value: Any, keep: list[Any]) -> tuple[int, Any]:
    """Returns (the FFI kind of an attribute, the struct with its value). `keep` collects the objects whose
    memory it refers to.
    """
    if isinstance(value, dict):
        kind, made = _DICTIONARY, _dictionary(value, keep)
    elif isinstance(value, str):
        kind, made = _STRING, _span(value, keep)
    elif isinstance(value, list):
        raise UnsupportedError(
            f"attribute {name!r} is a list; handlers only take typed arrays such as array<i64: 1, 2>"
        )
    else:
        whole = np.asarray(value)
        if whole.nbytes > _LARGEST_ARRAY:
            raise UnsupportedError(
                f"attribute {name!r} has {whole.nbytes} bytes, the limit is {_LARGEST_ARRAY}"
            )
        whole = np.ascontiguousarray(whole)
        keep.append(whole)
        dtype, at = _DATA_TYPES[dtypes.from_numpy(whole.dtype).name], whole.ctypes.data
        if isinstance(value, np.ndarray):
            kind, made = _ARRAY, _ARRAY_VALUE(dtype, whole.size, at)
        else:
            kind, made = _SCALAR, _SCALAR_VALUE(dtype, at)
    keep.append(made)
    return kind, made


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _span(text: str, keep: list[Any]) -> Any:
    data = _bytes(text)
    block = c.create_string_buffer(data)
    span = _SPAN(c.addressof(block), len(data))
    keep += (block, span)
    return span


# The API functions that handlers call.


@cache
def _addresses() -> dict[str, int]:
    """The addresses of the emitted functions, by name."""
    return native().glue.extended(ffi.emit)


@cache
def _api() -> Any:
    """The table of API functions that handlers call."""
    rare = {"XLA_FFI_Handler_Register": _register_handler, "XLA_FFI_Type_Register": _register_type}
    at = {name: c.cast(function, c.c_void_p).value for name, function in rare.items()} | _addresses()
    functions = {field.name: at[field.name] for field in ffi.API.fields if field.name.startswith("XLA_FFI_")}
    major, minor = ffi.API_VERSION
    slots = ffi.API.size // 8 + _NEWER
    table = ffi.API.ctypes().from_buffer((c.c_size_t * slots)(*[at["ffi_unknown"]] * slots))
    head = {
        "struct_size": ffi.API.size, "extension_start": None, "version_struct_size": 24,
        "version_extension_start": None, "major": major, "minor": minor, "internal_api": None,
    }  # fmt: skip
    for name, value in {**head, **functions}.items():
        setattr(table, name, value)
    return table


def _check_version(site: CallSite, handler: int) -> None:
    """Refuses a handler compiled for another major version of the FFI. Minor versions are compatible: they
    only add functions, and fields to structs whose size handlers check.
    """
    try:
        found = _version(handler)
    except AxlaError as error:
        raise UnsupportedError(f"{site}: the handler failed to report its version: {error}") from error
    if found[0] != ffi.API_VERSION[0] or found < ffi.OLDEST_VERSION:
        versions = (f"{major}.{minor}" for major, minor in (found, ffi.OLDEST_VERSION, ffi.API_VERSION))
        text = "the handler was compiled for FFI version {}, axla supports {} to {} and newer minor versions"
        raise UnsupportedError(f"{site}: {text.format(*versions)}")


@cache
def _version(handler: int) -> tuple[int, int]:
    """Returns the (major, minor) FFI version that the handler at an address was compiled for. A handler
    returns it when a call frame has the metadata extension.
    """
    metadata = ffi.METADATA.ctypes()(struct_size=ffi.METADATA.offset("traits") + 4, version_struct_size=24)
    extension = ffi.METADATA_EXTENSION.ctypes()(
        struct_size=ffi.METADATA_EXTENSION.size, type=_METADATA, metadata=c.addressof(metadata)
    )
    frame = _CALL_FRAME(
        **_FRAME_SIZES, extension_start=c.addressof(extension), api=c.addressof(_api()), stage=_EXECUTE
    )
    error = _HANDLER(handler)(c.addressof(frame))
    if error:
        status, text = _read_error(error)
        HERE.library().free(c.c_void_p(error))
        raise InvalidArgument(f"{status.name}: {text}")
    return metadata.major, metadata.minor


def _answering(function: Callable[[int], None]) -> Any:
    """Makes an API function of a Python function; its exceptions become FFI errors."""

    def called(arguments: int) -> int | None:
        try:
            function(arguments)
        except BaseException as error:  # noqa: BLE001  (C code cannot pass it on)
            make = c.CFUNCTYPE(c.c_void_p, c.c_int64, c.c_char_p)(_addresses()["ffi_error"])
            return make(status_of(error), str(error).encode())
        return None

    return _HANDLER(called)


@_answering
def _register_handler(arguments: int) -> None:
    given = ffi.HANDLER_REGISTER.ctypes().from_address(arguments)
    name, platform = (c.string_at(*pair).decode() for pair in (
        (given.name, given.name_len), (given.platform, given.platform_len)
    ))  # fmt: skip
    if platform.lower() not in ("cpu", "host"):
        raise UnsupportedError(f"handler {name!r} is for platform {platform!r}, wanted 'cpu'")
    found = {stage: getattr(given, stage) for stage in STAGES}
    register_custom_call(name, {stage: at for stage, at in found.items() if at}, api=FFI)


@_answering
def _register_type(arguments: int) -> None:
    given = ffi.TYPE_REGISTER.ctypes().from_address(arguments)
    register_ffi_type(c.string_at(given.name, given.name_len).decode(), given.type_id, given.type_info)


# Types of states: (type id, address of the deleter) by name.

_types: dict[str, tuple[int, int]] = {}
_numbers = itertools.count(1 << 32)  # far from ids that XLA may assign in this process
_lock = locks.new_lock()


def register_ffi_type(name: str, type_id: Any, type_info: Any = None) -> None:
    """Registers a type of states of handlers. `type_id` is the address of its XLA_FFI_TypeId, as an int, a
    PyCapsule or a ctypes object; an id of 0 is replaced by a new one. `type_info` is the address of its
    XLA_FFI_TypeInfo, whose deleter frees states.
    """
    where, places = f"register_ffi_type({name!r})", (address_of(type_id), address_of(type_info))
    if not places[0] or (type_info is not None and not places[1]):
        raise InvalidArgument(f"{where}: wanted two addresses, found {type_id!r}, {type_info!r}")
    identifier = c.c_int64.from_address(places[0])
    deleter = ffi.TYPE_INFO.ctypes().from_address(places[1]).deleter if places[1] else None
    with _lock:
        known = _types.get(name)
        if known is not None and known[0] != identifier.value:
            raise InvalidArgument(f"{where}: the name is already registered for type {known[0]}")
        identifier.value = identifier.value or next(_numbers)
        _types[name] = identifier.value, deleter or 0
