"""The client of XLA's first documents under its public name; see `axla.compatibility.client`."""

from axla.compatibility.client import (
    Client,
    ClientLibrary,
    Computation,
    ExecutionHandle,
    GlobalData,
    LocalClient,
)

__all__ = ["Client", "ClientLibrary", "Computation", "ExecutionHandle", "GlobalData", "LocalClient"]
