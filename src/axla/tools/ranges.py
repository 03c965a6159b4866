"""Tests whether the ranges of a program's parallel loops depend on each other, without threads or chance.

Each range runs with the memory as it was before its loop; afterwards, what all ranges wrote is put together.
So the results are different if a range reads what another one writes. Ranges that write the same byte are
found, too. They may do this if the byte gets its last value at once; if it has other values meanwhile, they
race.
"""

from __future__ import annotations

import ctypes as c
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from axla.codegen import llvm
from axla.codegen.host import host_target
from axla.codegen.native.image import Image
from axla.core.errors import DeadlineExceeded, RuntimeFailure, UnsupportedError
from axla.core.literal import aligned_memory
from axla.program import abi
from axla.program.packed import Packed
from axla.runtime.program import ENTRY
from axla.target.machine import aligned

LARGEST = 1 << 22
"""The most bytes of results and workspace, which are copied for every range."""
WATCHED = 0.1
"""The seconds of processor time for which the bytes that two ranges write are watched."""
_REPEAT = """define void @repeat(ptr %run, ptr %frame, ptr %args, i64 %begin, i64 %end, ptr %done) {
  br label %loop
loop:
  %code = call i32 %run(ptr %frame, ptr %args, i64 %begin, i64 %end)
  %seen = load volatile i8, ptr %done
  %go_on = icmp eq i8 %seen, 0
  br i1 %go_on, label %loop, label %end_of_loop
end_of_loop:
  ret void
}"""
"""Native code that runs a range until a byte is set: a loop in Python would spend hardly any time in the
range.
"""

_RANGE = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64)
_PARALLEL_FOR = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64)
Run = Callable[..., int]
"""`run(begin, end)` runs a range; `run(begin, end, done)` runs it again and again until the byte `done` is
set.
"""


@cache
def _repeat() -> tuple[Callable[..., None], Image]:
    image = Image([("repeat", llvm.emit_object(_REPEAT, host_target()))], ["repeat"])
    pointers = (c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64, c.c_void_p)
    return c.CFUNCTYPE(None, *pointers)(image.addresses["repeat"]), image


def call(
    program: Packed, arguments: Sequence[int], results: Sequence[int], constants: int, workspace: int,
    ranges: Callable[[Run, int, int], int], deadline: float,
) -> None:  # fmt: skip
    """Runs a program that calls no functions. `arguments`, `results`, `constants` and `workspace` are the
    addresses of its memory. `ranges(run, count, grain)` is called to run the ranges of each parallel loop,
    and returns its return code.
    """
    image = Image([("program", image) for image in program.images], [ENTRY])
    cancel = (c.c_int32 * 2)()

    @_PARALLEL_FOR
    def parallel_for(frame: int, kernel: int, args: int, count: int, grain: int) -> int:
        if not count:  # the program only asks whether to continue
            return cancel[0]
        function = _RANGE(kernel)

        def run(begin: int, end: int, done: int = 0) -> int:
            if done:
                _repeat()[0](kernel, frame, args, begin, end, done)
            return cancel[0] or function(frame, args, begin, end)

        return ranges(run, count, grain)

    frame = abi.FRAME.ctypes()()
    frame.version, frame.rng_state = abi.FRAME_VERSION, abi.RNG_SEED
    tables = [(c.c_void_p * max(len(row), 1))(*row) for row in (arguments, results)]
    frame.arguments, frame.results = map(c.addressof, tables)
    frame.constants, frame.workspace = constants, workspace
    frame.parallel_for = c.cast(parallel_for, c.c_void_p).value
    frame.cancel = c.addressof(cancel)
    timer = threading.Timer(deadline, lambda: cancel.__setitem__(0, abi.DEADLINE))
    timer.start()
    code = c.CFUNCTYPE(c.c_int32, c.c_void_p)(image.addresses[ENTRY])(c.addressof(frame))
    timer.cancel()
    if code == abi.DEADLINE:
        raise DeadlineExceeded(f"the program took more than {deadline} s")
    if code:
        raise RuntimeFailure(f"the program returned the error code {code}")


def run_apart(program: Packed, inputs: Sequence[bytes], deadline: float = 30.0) -> tuple[list[bytes], str]:
    """Runs a program with the bytes of the `inputs` so that no range sees what another range of its loop
    writes. `deadline` is the limit in seconds. Returns the results, and a text that names a loop whose ranges
    race ("" if there is none). Raises UnsupportedError for programs that call functions or have unknown
    sizes, and for large ones.
    """
    face = program.interface.of_code()
    becomes = {alias.result: alias.parameter for alias in face.aliases}
    sizes = [*(len(data) for data in inputs), *(spec.bytes for spec in face.results), face.workspace_bytes]
    if face.functions or program.interface.is_dynamic or sum(sizes) > LARGEST:
        raise UnsupportedError("ranges: the program has functions, unknown sizes, or too much memory")
    places = np.cumsum([0, *(aligned(size) + 64 for size in sizes)])
    memory = np.frombuffer(aligned_memory(int(places[-1])), np.uint8)
    memory[:] = 0x7F
    addresses = [memory.ctypes.data + int(place) for place in places]
    for place, data in zip(places, inputs, strict=False):
        memory[place : place + len(data)] = np.frombuffer(data, np.uint8)
    arguments, results = addresses[: len(inputs)], addresses[len(inputs) : -2]
    results = [arguments[becomes[n]] if n in becomes else address for n, address in enumerate(results)]
    segment = program.constants or b""
    constants = np.frombuffer(aligned_memory(len(segment) + 64), np.uint8)
    constants[:] = 0
    constants[: len(segment)] = np.frombuffer(segment, np.uint8)
    found: list[str] = []

    def ranges(run: Run, count: int, grain: int) -> int:
        before, merged, owned = memory.copy(), memory.copy(), np.zeros(len(memory), bool)
        for begin in range(0, count, grain):
            memory[:] = before
            code = run(begin, min(begin + grain, count))
            if code:
                return code
            changed = memory != before
            both = np.nonzero(changed & owned)[0]
            end = min(begin + grain, count)
            if len(both) and not found and _wavers(run, begin, end, memory, both, merged[both]):
                found.append(f"a loop of {count} by {grain}: range {begin} and one before it write the same")
            owned |= changed
            merged[changed] = memory[changed]
        memory[:] = merged
        return 0

    call(program, arguments, results, constants.ctypes.data, addresses[-2], ranges, deadline)
    offsets = [address - memory.ctypes.data for address in results]
    return [
        memory[at : at + spec.bytes].tobytes() for at, spec in zip(offsets, face.results, strict=True)
    ], "".join(found[:1])


def _wavers(
    run: Run, begin: int, end: int, memory: np.ndarray, places: np.ndarray, right: np.ndarray
) -> bool:  # fmt: skip
    """Runs the range from `begin` to `end` again and again; returns whether any of the bytes at the indices
    `places` of `memory` has another value than in `right` at any moment.
    """
    done = np.zeros(1, np.uint8)
    thread = threading.Thread(target=run, args=(begin, end, done.ctypes.data))
    thread.start()
    stop_at, wrong = time.process_time() + WATCHED, False
    while not wrong and time.process_time() < stop_at:
        wrong = bool((memory[places] != right).any())
    done[0] = 1
    thread.join()
    return wrong
