"""Makes Python functions callable from compiled programs. An exception of such a function is stored until the
run has stopped.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from axla.core.errors import Cancelled
from axla.program import abi

_CALLBACK = c.CFUNCTYPE(
    c.c_int32, c.c_void_p, c.POINTER(c.c_void_p), c.POINTER(c.c_void_p), c.c_void_p, c.c_int64
)
FRAME: Any = abi.FRAME.ctypes()

grids: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""The runs of several participants (`axla.runtime.grid`), by their run ids."""

raised: dict[int, BaseException] = {}
"""The last exception of a callback in each run, by the address of the run's call frame."""


class Stopped(Cancelled):
    """Raised in a callback that was waiting when its run was cancelled. `code` is the reason."""


def take_raised(frame: int) -> BaseException | None:
    """Removes and returns the stored exception of the custom call that just failed in the run with this call
    frame. None if that was a native function.
    """
    return raised.pop(frame, None)


def callback(function: Callable[[int, Any, Any], int]) -> tuple[int, Any]:
    """Returns (address, owner) of a C function that calls `function(frame, operands, results)`. The address
    is valid while the owner is referenced. Exceptions are stored for the run.
    """

    def called(frame: int, ins: Any, outs: Any, opaque: int, length: int) -> int:
        try:
            return function(frame, ins, outs)
        except Stopped as stopped:
            return stopped.code
        except BaseException as error:  # noqa: BLE001  (C code cannot pass it on)
            raised[frame] = error
            grid = grids.get(FRAME.from_address(frame).run_id)
            if grid is not None:  # before the error code stops the other participants
                grid.failed(error)
            return abi.CUSTOM_CALL

    made = _CALLBACK(called)
    address = c.cast(made, c.c_void_p).value
    assert address is not None
    return address, made
