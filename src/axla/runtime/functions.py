"""Makes the function table of a loaded program: the addresses of the functions that its custom calls call.

A native function is called at its own address. A Python function gets an address for each of its call sites,
that of a callback which makes NumPy arrays of the operands and takes the GIL. If the function raises an
exception, the program stops with an error code, and the exception is raised then.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from axla.codegen.native import collectives
from axla.core.errors import CustomCallFailure, RuntimeFailure, UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.custom.built_in import BUILT_IN
from axla.custom.callables import PythonCall
from axla.custom.feeds import current
from axla.custom.lapack import routine_address
from axla.custom.mailbox import Mailbox, mailbox_of
from axla.custom.registry import CallTarget, find_target, in_libraries, registered
from axla.custom.site import (
    COLLECTIVE,
    FFI,
    LIBRARY,
    PYTHON,
    REPORT,
    CallSite,
    TableFunction,
    from_memory_order,
    in_memory_order,
)  # fmt: skip
from axla.program import abi
from axla.runtime.callbacks import FRAME, Stopped, callback, grids
from axla.runtime.ffi import HandlerCall
from axla.runtime.native import native


def resolve_functions(
    functions: Sequence[TableFunction], given: Mapping[str, int] | None, device: int = 0
) -> tuple[list[int], list[Any]]:
    """Returns (addresses for the function table of a program on a device, objects that must exist as long as
    the functions are called). `given` maps names of functions to addresses that replace them.
    """
    addresses: list[int] = []
    keep: list[Any] = []
    for function in functions:
        address, owner = _resolve(function, given or {}, device)
        addresses.append(address)
        keep.append(owner)
    return addresses, keep


@cache
def engine_functions() -> dict[str, int]:
    """The addresses of this process's functions for collectives, by name: `axla_collective` and those that it
    calls.
    """
    return native().glue.extended(collectives.emit)


def _resolve(function: TableFunction, given: Mapping[str, int], device: int) -> tuple[int, Any]:
    if function.api == COLLECTIVE:
        return given.get(function.name) or engine_functions()["axla_collective"], None
    if function.api == LIBRARY:
        return routine_address(function.name), None
    if function.api == REPORT:
        assert function.site is not None
        return callback(_reporter(function.site))
    if function.name in given:
        return given[function.name], None
    target = _target(function)
    if target.api != function.api:
        raise UnsupportedError(
            f"custom call target {function.name!r} is registered with api={target.api!r}; the program was "
            f"compiled for api={function.api!r}"
        )
    if target.api == PYTHON:
        assert target.function is not None and function.site is not None
        return callback(_caller(PythonCall(target.function, function.site)))
    if target.api == FFI:
        assert function.site is not None
        call = HandlerCall(function.site, target, device)
        return call.address, call
    return target.address, target


def _target(function: TableFunction) -> CallTarget:
    if function.site is not None:
        return find_target(function.site)
    found = registered(function.name) or in_libraries(function.name)
    if found is None:
        raise UnsupportedError(
            f"custom call target {function.name!r} is not registered: use axla.register_custom_call"
        )
    return found


def _caller(call: PythonCall) -> Callable[[int, Any, Any], int]:
    """Makes the callback for a Python function at one call site."""
    operands, results = call.site.operand_leaves, call.site.result_leaves
    waits = call.function in BUILT_IN.values()

    def called(frame: int, ins: Any, outs: Any) -> int:
        if waits:
            _enter(frame)
        # Operands are copied: the function may keep them, but their memory is the program's.
        found = call([
            from_memory_order(_array(ins[n], s).copy(), s) if isinstance(s, Shape) else None
            for n, s in enumerate(operands)
        ])  # fmt: skip
        for n, (shape, value) in enumerate(zip(results, found, strict=True)):
            if isinstance(shape, Shape):
                assert value is not None
                _array(outs[n], shape)[...] = in_memory_order(value, shape)
        return abi.OK

    return called


device_of: dict[int, int] = {}
"""The device of each run of one participant, by `run_id`, if it is not device 0."""


def _enter(frame: int) -> None:
    """Sets the participant, device and mailbox of a run in `current`, for functions that are called in this
    thread.
    """
    head = FRAME.from_address(frame)
    flag = c.c_int32.from_address(head.cancel) if head.cancel else c.c_int32(0)

    grid = grids.get(head.run_id) if head.peers else None

    def check() -> None:
        if flag.value:
            raise Stopped("the run was cancelled", flag.value)

    current.check = check
    if grid is None:
        mailbox = mailbox_of(head.run_id)
        current.participant, current.device = 0, device_of.get(head.run_id, 0)
        current.send, current.receive = mailbox.send, partial(_taken, mailbox)
        return
    number = current.participant = head.replica * grid.partitions + head.partition
    current.device = grid.devices[number]
    current.send = grid.mailbox.send
    current.receive = lambda address, where: grid.receive(number, address, where, check)


def _taken(mailbox: Mailbox, address: Any, where: str) -> Any:
    """The value that the only participant of a run sent to itself. Raises RuntimeFailure if there is none."""
    if not mailbox.has(address):
        raise RuntimeFailure(f"the only replica waits {where}")
    return mailbox.take(address, current.check)


def _array(address: int | None, shape: AnyShape) -> np.ndarray:
    """The array at an address; its dimensions are those of `shape` in memory order."""
    dims = [shape.dims[d] for d in reversed(shape.layout.minor_to_major)]
    if not shape.byte_size:
        return np.empty(dims, shape.dtype.numpy)
    assert address
    memory: Any = (c.c_char * shape.byte_size).from_address(address)
    return np.ndarray(dims, shape.dtype.numpy, buffer=memory)


def _reporter(site: CallSite) -> Callable[[int, Any, Any], int]:
    """Makes the callback for a failed status of a custom call; it gets the status in place of operands, and
    raises it.
    """

    def called(frame: int, status: Any, outs: Any) -> int:
        address = c.cast(status, c.c_void_p).value
        assert address
        raise CustomCallFailure(f"{site}: {abi.status_message(address)}", abi.CUSTOM_CALL)

    return called
