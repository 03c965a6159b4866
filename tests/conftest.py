"""Settings for all tests: modules are verified after each pass, and `tests/hlo/**/*.hlo` are collected as
tests.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("AXLA_VERIFY", "1")
os.environ["AXLA_CACHE_DIR"] = ""  # no compilation uses the cache
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode halves the start of hundreds of child processes
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs like this
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Disables the garbage collector during the collection, and excludes modules and tests from later
    collections, since they stay to the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_addoption(parser):
    parser.addoption("--bless", action="store_true", help="rewrite the expected output of exact-output tests")


def pytest_collect_file(parent, file_path):
    if file_path.suffix != ".hlo" or HERE / "hlo" not in file_path.parents:
        return None
    from hlo_tests import HloFile

    return HloFile.from_parent(parent, path=file_path)


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Any]:
    """A server for the backend `remote`. If grpcio is installed, it listens for gRPC too."""
    from service_server import started

    listen = "127.0.0.1:0" if importlib.util.find_spec("grpc") else ""
    with started(tmp_path_factory.mktemp("service"), listen=listen) as process:
        os.environ["AXLA_SERVICE"] = process.address
        yield process
        del os.environ["AXLA_SERVICE"]


@pytest.fixture(scope="session")
def grpc_server(server) -> Iterator[Any]:
    """The server of `server`, with the backend `remote-grpc` for its gRPC address."""
    pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")
    from axla import backends
    from axla.service.link import opened
    from axla.service.remote import RemoteBackend

    class OverGrpc(RemoteBackend):
        name = "remote-grpc"

    backends.register("remote-grpc", lambda: OverGrpc(opened(server.grpc)))
    yield server
    backends.unregister("remote-grpc")
