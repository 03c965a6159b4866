"""The client that XLA's first documents describe; see `axla.compatibility.client`."""

from axla.compatibility.client import (
    Client,
    ClientLibrary,
    Computation,
    ExecutionHandle,
    GlobalData,
    LocalClient,
)

__all__ = ["Client", "ClientLibrary", "Computation", "ExecutionHandle", "GlobalData", "LocalClient"]
