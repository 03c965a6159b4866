"""A GPU for the driver of CUDA: fake_cuda.c is its library, the machine executes its kernels."""

from __future__ import annotations

import ctypes as c
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

import axla
from axla.device import cuda
from axla.device.driver import Driver, Pool
from axla.device.executable import CudaBackend
from ptx.machine import Kernels
from ptx.memory import Memory
from ptx.text import PtxError

SOURCE = Path(__file__).with_name("fake_cuda.c")
_KINDS = {
    "fake_allocate": c.CFUNCTYPE(c.c_uint64, c.c_uint64),
    "fake_free": c.CFUNCTYPE(None, c.c_uint64),
    "fake_load": c.CFUNCTYPE(c.c_uint64, c.c_char_p, c.c_void_p, c.c_uint64),
    "fake_unload": c.CFUNCTYPE(None, c.c_uint64),
    "fake_find": c.CFUNCTYPE(c.c_uint64, c.c_uint64, c.c_char_p),
    "fake_launch": c.CFUNCTYPE(c.c_int, c.c_uint64, c.c_uint32, c.c_uint32, c.c_void_p, c.c_uint64),
}


_GPUS: list[FakeGpu] = []
"""All that were made: their libraries call them until the process ends."""


class FakeGpu:
    """The library, built in a folder, with memory of so many bytes."""

    def __init__(self, folder: Path, size: int = 64 << 20) -> None:
        self.file = folder / "libcuda.so.1"
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-o", str(self.file), str(SOURCE)], check=True, timeout=60
        )
        self.lib = cuda.library(str(self.file))
        self.memory = Memory(size, 16 << 20)
        self.number("fake_base").value, self.number("fake_size").value = self.memory.base, size
        _GPUS.append(self)
        self.errors: list[Exception] = []
        self._modules: dict[int, Kernels] = {}
        self._kernels: list[tuple[Kernels, str]] = []
        self._loads = 0
        self.launches = 0
        self._keep = []
        for name, kind in _KINDS.items():
            function = kind(getattr(self, name.replace("fake", "")))
            self._keep.append(function)
            c.c_void_p.in_dll(self.lib, name).value = c.cast(function, c.c_void_p).value

    def int(self, name: str) -> c.c_int:
        """A number of the library that says what it is: fake_major..."""
        return c.c_int.in_dll(self.lib, name)

    def number(self, name: str) -> c.c_int64:
        """A number of the library: fake_live..."""
        return c.c_int64.in_dll(self.lib, name)

    def fail(self, call: int, code: int, *, lost: bool = False) -> None:
        """Makes that call of the library from now on give an error; after it, if the device is lost, all."""
        self.int("fake_code").value, self.int("fake_lost").value = code, lost
        self.number("fake_fail_at").value = self.number("fake_calls").value + call

    def reset(self) -> None:
        """The device works again."""
        self.lib.fake_reset()
        self.errors.clear()

    @property
    def live(self) -> int:
        """Allocations, events and modules that nobody has given back."""
        return self.number("fake_live").value

    def _caught(self, act: Callable[[], int], failed: int) -> int:
        try:
            return act()
        except Exception as error:
            self.errors.append(error)
            return failed

    def _allocate(self, size: int) -> int:
        return self.memory.allocate(size) or 0

    def _free(self, address: int) -> None:
        self.memory.free(address)

    def _load(self, text: bytes, log: int, room: int) -> int:
        try:
            loaded = Kernels(text.decode(), self.memory)
            for name in loaded.names:
                loaded.ready(name)
        except PtxError as error:
            said = str(error).encode()[: room - 1] + b"\0"
            c.memmove(log, said, len(said))
            return 0
        self._loads += 1
        self._modules[self._loads] = loaded
        return self._loads

    def _unload(self, module: int) -> None:
        self._modules.pop(module).close()

    def _find(self, module: int, name: bytes) -> int:
        if name.decode() not in self._modules[module].names:
            return 0
        self._kernels.append((self._modules[module], name.decode()))
        return len(self._kernels)

    def _launch(self, kernel: int, blocks: int, threads: int, data: int, size: int) -> int:
        def act() -> int:
            kernels, name = self._kernels[kernel - 1]
            self.launches += 1
            arguments = np.frombuffer((c.c_char * size).from_address(data), np.uint64)
            kernels.launch(name, blocks, threads, arguments.tolist())
            return 0

        return self._caught(act, 1)


class ExactPool(Pool):
    """Memory of exactly the sizes that are asked for: who reads or writes beyond is found out."""

    def take(self, size: int) -> int:
        return self._driver.allocate(max(size, 1))

    def give(self, address: int, size: int) -> None:
        self._driver.free(address)


class ExactCuda(cuda.Cuda):
    @cached_property
    def pool(self) -> Pool:
        return ExactPool(self)


class FakeCudaBackend(CudaBackend):
    """The backend `cuda` on a fake GPU."""

    name = "ptx"
    about = "the machine of the tests, which executes PTX"

    def __init__(self, gpu: FakeGpu, driver: type[cuda.Cuda] = ExactCuda) -> None:
        super().__init__()
        self.gpu, self._driver = gpu, driver

    def opened(self, number: int) -> Driver:
        return self._driver(cuda.library(str(self.gpu.file)), number)


def register(size: int = 512 << 20) -> FakeCudaBackend:
    """Makes `backend="ptx"` a fake GPU of this process."""
    folder = tempfile.TemporaryDirectory()
    found = FakeCudaBackend(FakeGpu(Path(folder.name), size))
    folder.cleanup()  # (the library is loaded)
    axla.backends.register("ptx", lambda: found)
    return found
