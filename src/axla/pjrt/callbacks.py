"""JAX's callbacks into Python: functions that a program's custom calls refer to by number.

JAX lowers `pure_callback`, `io_callback` and `debug.print` to custom calls whose configuration is the number
of a function; the functions are passed with the run, in a list. A function takes NumPy arrays, and None for a
token, and returns a tuple of them. Those of `buffer_callback` take the memory of operands and results as
jaxlib objects, through jaxlib's own handler.
"""

from __future__ import annotations

import ctypes as c
import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from axla.custom.registry import register_custom_call, register_target, registered, unregister_custom_call
from axla.hlo.control import CustomCall
from axla.ir.graph import Module
from axla.ir.sharding import Tiling
from axla.program.abi import structure

PARTED = "xla_ffi_partitioned_python_cpu_callback"
BUFFERS = "xla_buffer_python_cpu_callback"
TARGETS = frozenset({"xla_ffi_python_cpu_callback", PARTED, BUFFERS})

_numbers = itertools.count(1)
_LIST: Any = structure("FfiLoadedHostCallbacks", items=c.c_void_p, count=c.c_size_t)


class Callbacks:
    """The callbacks of one program. The program calls them by a unique custom call target, which is
    registered as long as this object lives; executables of the program keep it. `functions` may be set before
    each run.
    """

    def __init__(self) -> None:
        self._functions: list[Callable[..., Any]] = []
        self.target = f"xla_ffi_python_cpu_callback.{next(_numbers)}"
        self.parted_target = f"{self.target}.parted"
        """The target of callbacks that are called once for each part of their operands."""
        self._register(self.target, partial(_call, self._functions))
        self._register(self.parted_target, partial(_call, self._functions))
        self._list = _LIST()
        self.buffers_target = BUFFERS
        """The target of callbacks that jaxlib's handler calls, if the handler is registered."""
        handler = registered(BUFFERS)
        if handler is not None:
            self.buffers_target = f"{BUFFERS}.{next(_numbers)}"
            keep, data = (handler.keep, self._list), c.addressof(self._list)
            register_target(replace(handler, name=self.buffers_target, keep=keep, user_data=data))
            weakref.finalize(self, unregister_custom_call, self.buffers_target).atexit = False

    def _register(self, target: str, function: Callable[..., Any]) -> None:
        register_custom_call(target, function)
        weakref.finalize(self, unregister_custom_call, target).atexit = False

    def for_parts(self, op: CustomCall, cuts: Sequence[Tiling | None]) -> CustomCall:
        """The custom call `op`, changed to call the function once for each partition, with the parts of the
        operands that belong to it. `cuts` has the tiling of each operand, None for a token.
        """
        target = f"{self.parted_target}.{next(_numbers)}"
        self._register(target, partial(_call_for_parts, self._functions, cuts))
        return replace(op, custom_call_target=target)

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The Python functions, in the order of their numbers."""
        return self._functions

    @functions.setter
    def functions(self, functions: Sequence[Callable[..., Any]]) -> None:
        """The Python functions, in the order of their numbers."""
        if list(functions) != self._functions:
            self._functions[:] = functions
            self._given = [partial(_call_with_buffers, function) for function in functions]
            self._items = (c.c_void_p * (len(functions) + 1))(*map(id, self._given))
            self._list.items, self._list.count = c.addressof(self._items), len(functions)


def attach(module: Module) -> Callbacks | None:
    """Creates the Callbacks of a module, and makes its custom calls refer to them; None for a module without
    callbacks.
    """
    found = [
        (computation, inst, inst.op)
        for computation in module.computations
        for inst in computation.instructions
        if isinstance(inst.op, CustomCall) and inst.op.custom_call_target in TARGETS
    ]
    if not found:
        return None
    callbacks = Callbacks()
    targets = {PARTED: callbacks.parted_target, BUFFERS: callbacks.buffers_target}
    for computation, inst, op in found:
        target = targets.get(op.custom_call_target, callbacks.target)
        computation.set_op(inst, replace(op, custom_call_target=target))
    return callbacks


def _call(functions: Sequence[Callable[..., Any]], *operands: Any, index: Any) -> Any:
    if not 0 <= index < len(functions):
        raise IndexError(f"the program calls callback {index}, the run has only {len(functions)}")
    found = functions[int(index)](*operands)
    return found[0] if len(found) == 1 else found


class _Context:
    """The context object for functions of `buffer_callback`. jaxlib's own object would need a stream, and
    accept only XLA's errors.
    """

    def __init__(self, context: Any) -> None:
        self.stage = context.stage

    @property
    def stream(self) -> int:
        jaxlib: Any = sys.modules["jaxlib._jax"]  # loaded, since its handler is registered
        raise jaxlib.JaxRuntimeError("UNIMPLEMENTED: XLA FFI GPU context is not available")


def _call_with_buffers(function: Callable[..., Any], context: Any, *buffers: Any) -> Any:
    return function(_Context(context), *buffers)


def _call_for_parts(
    functions: Sequence[Callable[..., Any]], cuts: Sequence[Tiling | None], *operands: Any, index: Any
) -> Any:
    count = max((len(cut.places) for cut in cuts if cut is not None), default=1)
    for partition in range(count):
        pairs = zip(operands, cuts, strict=True)
        parts = [a if cut is None else a[cut.part(a.shape, partition)] for a, cut in pairs]
        found = _call(functions, *parts, index=index)
    return found
