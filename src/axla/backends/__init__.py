"""The backends, which compile modules and run them.

    axla.backends.names()                    cpu, one-lane, interpreter, and those of installed packages
    axla.backends.get("cpu").capabilities    what it supports, and what it refuses and why
    axla.backends.register("mine", make)     a name for `backend=` and `--backend`; make() returns a Backend

Another package adds a backend with an entry point of the group `axla.backends`: a function that returns a
Backend. `axla.Client(name)` has the devices of a backend; `axla.compile(module, backend=name)` uses the
backend's own client.
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
