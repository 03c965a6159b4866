"""Backends: they compile modules and run them.

    axla.backends.names()                    cpu, one-lane, interpreter, and those of installed packages
    axla.backends.get("cpu").capabilities    what it supports, and what it refuses and why
    axla.backends.register("mine", make)     a name for `backend=` and `--backend`; make() gives a Backend

A package adds one by an entry point of the group `axla.backends`, whose object is called without arguments.
`axla.Client(name)` has the backend's devices; `axla.compile(module, backend=name)` uses a client of its own.
"""

from axla.backends.devices import Device, Memory
from axla.backends.executable import Executable, MemoryStats
from axla.backends.interface import BACKENDS, Backend, Capabilities, Client, effects
from axla.backends.options import CompileOptions, ExecuteOptions

get, names, register, unregister = BACKENDS.get, BACKENDS.names, BACKENDS.register, BACKENDS.unregister

__all__ = [
    "Backend", "Capabilities", "Client", "CompileOptions", "Device", "Executable", "ExecuteOptions", "Memory",
    "MemoryStats", "effects", "get", "names", "register", "unregister",
]  # fmt: skip
