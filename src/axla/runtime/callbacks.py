"""Python functions at addresses that compiled programs call; their exceptions are kept until the run has
stopped.
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
"""The runs of several participants (`axla.runtime.grid`), by their numbers."""

raised: dict[int, BaseException] = {}
"""The exceptions that callbacks raised last, by the address of the run's frame."""


class Stopped(Cancelled):
    """Raised when the run was to stop while a call waited; `code` is the reason."""


def take_raised(frame: int) -> BaseException | None:
    """The exception of the custom call that just failed in a run, once; None for a native function."""
    return raised.pop(frame, None)


def callback(function: Callable[[int, Any, Any], int]) -> tuple[int, Any]:
    """The address of a function of a frame, operands and results; its exceptions are kept for the run."""

    def called(frame: int, ins: Any, outs: Any, opaque: int, length: int) -> int:
        try:
            return function(frame, ins, outs)
        except Stopped as stopped:
            return stopped.code
        except BaseException as error:  # noqa: BLE001  (C code cannot pass it on)
            raised[frame] = error
            grid = grids.get(FRAME.from_address(frame).run_id)
            if grid is not None:  # before others are stopped
                grid.failed(error)
            return abi.CUSTOM_CALL

    made = _CALLBACK(called)
    address = c.cast(made, c.c_void_p).value
    assert address is not None
    return address, made
