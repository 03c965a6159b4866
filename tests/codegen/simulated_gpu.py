"""Runs kernels written for a GPU on this machine: a Python thread per GPU thread, block after block.

The LLVM text is the target's own. Only the words that exist on a GPU alone are replaced: the calling
convention, the address space of shared memory, and the intrinsics, which become calls of the functions below.
They follow the PTX manual's definition of `shfl.sync`; a shuffle or barrier that not all threads reach fails
by its timeout.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Sequence

import llvmlite.binding as binding
import numpy as np

from axla.codegen import llvm
from axla.codegen.host import host_target
from axla.kernels.plan import Plan

WARP = 32
TIMEOUT = 20.0
_numbers = itertools.count()


class _Block:
    """The threads that run now, and where they meet."""

    def __init__(self, number: int, threads: int):
        self.number = number
        self.everyone = threading.Barrier(threads, timeout=TIMEOUT)
        sizes = [min(WARP, threads - first) for first in range(0, threads, WARP)]
        self.warps = [threading.Barrier(size, timeout=TIMEOUT) for size in sizes]
        self.words = [0] * threads
        self.members = [(1 << size) - 1 for size in sizes]
        self.errors: list[BaseException] = []


class _Here(threading.local):
    """The block and number of the GPU thread that a Python thread plays."""

    block: _Block
    thread: int


_here = _Here()


def _reported(body: Callable[..., int]) -> Callable[..., int]:
    """ctypes swallows exceptions of callbacks: they are kept for the one who started the block."""

    def call(*args: int) -> int:
        try:
            return body(*args)
        except BaseException as error:
            _here.block.errors.append(error)
            return 0

    return call


def _shuffle(source: Callable[[int, int, int], int], members: int, word: int, lane: int, bounds: int) -> int:
    block, thread = _here.block, _here.thread
    warp, own = divmod(thread, WARP)
    assert members & 0xFFFFFFFF == block.members[warp], "a shuffle names threads that do not exist"
    block.words[thread] = word
    block.warps[warp].wait()
    segment = bounds >> 8 & 31
    last = own & segment | bounds & 31 & ~segment
    wanted = source(own, lane, segment)
    found = block.words[warp * WARP + (wanted if wanted <= last else own)]
    block.warps[warp].wait()
    return found


def _barrier(number: int) -> int:
    _here.block.everyone.wait()
    return 0


def _down(*args: int) -> int:
    return _shuffle(lambda own, lane, segment: own + lane, *args)


def _idx(*args: int) -> int:
    return _shuffle(lambda own, lane, segment: own & segment | lane & ~segment, *args)


_WORD, _NOTHING = ctypes.c_int32, ctypes.CFUNCTYPE(ctypes.c_int32)
_MOVE = ctypes.CFUNCTYPE(_WORD, _WORD, _WORD, _WORD, _WORD)
FUNCTIONS = {
    "read.ptx.sreg.tid.x": _NOTHING(_reported(lambda: _here.thread)),
    "read.ptx.sreg.ctaid.x": _NOTHING(_reported(lambda: _here.block.number)),
    "shfl.sync.down.i32": _MOVE(_reported(_down)),
    "shfl.sync.idx.i32": _MOVE(_reported(_idx)),
    "barrier.cta.sync.aligned.all": ctypes.CFUNCTYPE(_WORD, _WORD)(_reported(_barrier)),
}


def _host_text(text: str) -> str:
    text = re.sub(r"addrspacecast \(ptr addrspace\(3\) (@\S+) to ptr\)", r"\1", text)
    text = text.replace("addrspace(3) ", "").replace("ptx_kernel ", "")
    return text.replace("@llvm.nvvm.", "@nvvm.")


def run(text: str, plan: Plan, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Launches the phases of a plan; `outputs` are written."""
    image = llvm.emit_object(_host_text(text), host_target())
    with llvm.LOCK:
        jit = binding.create_lljit_compiler()
        builder = binding.JITLibraryBuilder().add_object_img(image)
        for name, function in FUNCTIONS.items():
            builder.import_symbol(f"nvvm.{name}", ctypes.cast(function, ctypes.c_void_p).value)
        for phase in plan.phases:
            builder.export_symbol(phase.symbol)
        library = builder.link(jit, f"simulated{next(_numbers)}")
    scratch = np.full(max(plan.scratch_bytes, 8), 0xFF, np.uint8)
    addresses = [array.ctypes.data for array in (*inputs, *outputs, scratch)]
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(addresses))
    for phase in plan.phases:
        kernel = kind(library[phase.symbol])
        for number in range(phase.count):
            _run_block(_Block(number, phase.threads), phase.threads, lambda kernel=kernel: kernel(*addresses))


def _run_block(block: _Block, threads: int, kernel: Callable[[], None]) -> None:
    def play(number: int) -> None:
        _here.block, _here.thread = block, number
        kernel()

    players = [threading.Thread(target=play, args=(number,)) for number in range(threads)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    if block.errors:
        raise block.errors[0]
