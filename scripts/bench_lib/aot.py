"""The section `aot`: programs compiled ahead of time, compared with axla's JIT, tfcompile and IREE.

Time: the same C loop calls the machine code of both sides, in one process, on one thread, so that Python has
no part in the difference. Each side makes its call frame as its callers do: P_run makes one on the stack; the
JIT's entry gets one from its caller, with the `parallel_for` of the runtime.

Sizes: machine code and read-only data that are linked, without unwinding tables. The environment variable
BENCH_PEERS names a Python that has tensorflow-cpu and iree-base-compiler; without it there are no peers.
"""

from __future__ import annotations

import ctypes as c
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench_lib import aot_peers, peers
from bench_lib.aot_peers import Peers, StableHlo
from bench_lib.models import corpus, model_inputs
from bench_lib.row import Effort, Row, sized, timed
from bench_lib.small_models import small_models
from bench_lib.timing import Times, compare

SPEED, CODE, FILES, EACH = "aot, run", "aot, code and tables", "aot, bytes to link", "aot, code and tables of"
GOAL = 1.1
MODELS = ("MLP", "LeNet", "LSTM", "GPT")  # models for one input; they must reach the goal
RECORDED = ("lenet_forward", "gpt_forward")  # models of the corpus that tfcompile and IREE support

MATMUL = """HloModule matmul
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[3,2] parameter(1)
  ROOT z = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

# The C loops that call the machine code. The caller sets the fields of the frame once, as runs do not change
# them.
LOOPS = """
#include <stdint.h>
int32_t model_run(void *args, void *results, void *workspace);
int32_t time_object(int64_t count, void *args, void *results, void *workspace) {
  int32_t bad = 0;
  for (int64_t i = 0; i < count; i++) bad |= model_run(args, results, workspace);
  return bad;
}
int32_t time_entry(int64_t count, int32_t (*entry)(void *), void *frame) {
  int32_t bad = 0;
  for (int64_t i = 0; i < count; i++) bad |= entry(frame);
  return bad;
}
"""


@dataclass(frozen=True)
class Model:
    """A program, as HLO text or a JAX function, and the arguments of its timed runs."""

    name: str
    program: Any
    inputs: Sequence[np.ndarray]
    folder: Path | None = None  # its folder, if it is from the corpus

    def library(self, target: str) -> Any:
        """Compiles the program ahead of time, for a target."""
        from axla.aot.compiling import library_of
        from axla.aot.options import Options

        example = tuple(self.inputs) if callable(self.program) else None
        return library_of(self.program, example, Options(target=target))[0]

    def stablehlo(self) -> StableHlo:
        """The program as StableHLO, for the peers."""
        if self.folder is not None:
            return aot_peers.recorded(self.folder)
        return aot_peers.exported(self.program, self.inputs)


def aot(effort: Effort) -> Iterator[Row]:
    """Yields the rows of times and of sizes; none with several threads, as this code is called on one."""
    if effort.threads != 1:
        return
    models = _models()
    wanted = [model for model in models if effort.only in model.name]
    for model in wanted:
        yield from _speed(effort, model)
    sizes = [*_limits(effort, {model.name: model for model in wanted}), *_beside_peers(effort, wanted)]
    yield from sorted(sizes, key=lambda row: row.section)
    yield from _targets(effort, wanted)


def _models() -> list[Model]:
    """A matrix product, models for one input that contain their weights, and the models of the corpus, if it
    is present.
    """
    ones = [np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)]
    found = [Model("matmul", MATMUL, ones)]
    found += [Model(name, f, inputs) for name, (f, inputs) in small_models().items()]
    for path in corpus():
        folder = path.parent
        found.append(Model(folder.name, path.read_text(), model_inputs(folder), folder))
    return found


# -- time


def _speed(effort: Effort, model: Model) -> Iterator[Row]:
    library = model.library("native")
    function = library.functions[0]
    if function.variables:
        return  # runs change its state, so the two sides would compute different results
    loops = peers.c_library(LOOPS, library.image)
    if loops is None:
        print("aot: no C compiler; no times", file=sys.stderr)
        return
    ours, ours_results = object_side(loops, function, model.inputs)
    theirs, theirs_results = _jit_side(loops, function, model.inputs)
    ours(1)
    theirs(1)
    _check(model, ours_results, theirs_results)
    count = _count(theirs)
    sides = {"axla": lambda: ours(count), "JIT": lambda: theirs(count)}
    times = _per_run(compare(sides, effort.rounds, effort.seconds), count)
    yield timed(effort, SPEED, model.name, times, "JIT", goal=GOAL if model.name in MODELS else None)
    others = aot_peers.peers()
    if isinstance(others, Peers) and (model.name in MODELS or model.name in RECORDED):
        yield _beside_iree(effort, model, others, lambda: ours(count), count)


def _per_run(times: Times, count: int) -> Times:
    return Times({side: [t / count for t in found] for side, found in times.rounds.items()})


def _beside_iree(effort: Effort, model: Model, found: Peers, ours: Callable[[], None], count: int) -> Row:
    """The row against IREE, timed by IREE's own benchmark program, whose runs alternate with axla's."""
    rounds: dict[str, list[float]] = {"axla": [], "IREE": []}
    try:
        for seconds in found.iree_seconds(model.stablehlo(), model.inputs, min(5, effort.rounds)):
            rounds["IREE"].append(seconds)
            rounds["axla"] += compare({"axla": ours}, 1, effort.seconds).rounds["axla"]
    except aot_peers.PeerFailure as failure:
        return Row(SPEED, model.name, 1, None, "IREE", note=str(failure))
    rounds["axla"] = [seconds / count for seconds in rounds["axla"]]
    return timed(effort, SPEED, model.name, Times(rounds), "IREE")


def _check(model: Model, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
    """Raises AssertionError unless results have equal bits. If the JIT calls LAPACK, they must only be
    near.
    """
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if "lapack" in model.name:
            peers.check(model.name, a.view(np.float32), b.view(np.float32), 1e-3)
        elif a.tobytes() != b.tobytes():
            raise AssertionError(f"{model.name}: result {number} of the object is not the JIT's")


def _buffers(sizes: Sequence[int]) -> list[np.ndarray]:
    """Memory for arrays of these sizes in bytes, at addresses that are multiples of 64."""
    found = []
    for size in sizes:
        room = np.zeros(size + 64, np.uint8)
        start = -room.ctypes.data % 64
        found.append(room[start : start + size])
    return found


class _Memory:
    """The memory that the runs of a side read and write, and its addresses for C."""

    def __init__(self, function: Any, inputs: Sequence[np.ndarray], workspace_bytes: int) -> None:
        self.arguments = _buffers([value.bytes for value in function.arguments])
        self.results = _buffers([value.bytes for value in function.results])
        [self.workspace] = _buffers([workspace_bytes])
        for array, x in zip(self.arguments, inputs, strict=True):
            array[:] = np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8)
        self._tables = [_pointers(arrays) for arrays in (self.arguments, self.results)]
        self.places = (*map(c.addressof, self._tables), self.workspace.ctypes.data)


def _pointers(arrays: Sequence[np.ndarray]) -> Any:
    return (c.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _called(loop: Any, *places: int) -> Callable[[int], None]:
    """Returns a function that makes `count` runs by the C function `loop`, whose arguments are `count` and
    the addresses `places`. It raises AssertionError if a run fails.
    """
    loop.restype, loop.argtypes = c.c_int32, [c.c_int64, *[c.c_void_p] * len(places)]

    def call(count: int) -> None:
        if code := loop(count, *places):
            raise AssertionError(f"a run gave {code}")

    return call


def object_side(loops: Any, function: Any, inputs: Sequence[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    memory = _Memory(function, inputs, function.workspace_bytes)
    call = _called(loops.time_object, *memory.places)
    return lambda count, kept=memory: call(count), memory.results


def _jit_side(loops: Any, function: Any, inputs: Sequence[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
    """The code of `axla.compile`, called as the runtime calls it. Returns a function that makes a number of
    runs, and the results in memory.
    """
    from axla.codegen.native.structs import PROGRAM
    from axla.cpu.compiler import compile_module
    from axla.ir.clone import clone_module
    from axla.program import abi
    from axla.runtime.native import native, set_num_threads
    from axla.runtime.program import LoadedProgram

    set_num_threads(1)
    made = compile_module(clone_module(function.module))
    loaded = LoadedProgram(made.images, made.interface, made.constants, None)
    program = PROGRAM.ctypes().from_address(loaded.address)
    memory = _Memory(function, inputs, made.interface.workspace_bytes)
    arguments, results, workspace = memory.places
    flag = c.c_int32(0)
    frame = abi.FRAME.ctypes()(
        version=abi.FRAME_VERSION, arguments=arguments, results=results, workspace=workspace,
        constants=program.constants, functions=program.functions, cancel=c.addressof(flag),
        parallel_for=native().glue.addresses["axla_parallel_for"],
    )  # fmt: skip
    call = _called(loops.time_entry, program.entry, c.addressof(frame))
    return lambda count, kept=(loaded, memory, flag, frame): call(count), memory.results


def _count(call: Callable[[int], None]) -> int:
    """The number of runs that take about half a millisecond."""
    count = 1
    while count < 1 << 20:
        start = time.perf_counter()
        call(count)
        if time.perf_counter() - start > 2.5e-4:
            break
        count *= 2
    return count


# -- sizes


def _limits(effort: Effort, models: dict[str, Model]) -> Iterator[Row]:
    """Rows for the sizes of objects that have a limit."""
    if "matmul" in models:
        image = models["matmul"].library("x86-64").image
        yield sized(effort, FILES, "matmul, object", len(image), "limit", 2560, goal=1)
    if "MLP" in models:
        library, weights = models["MLP"].library("x86-64"), 4 * (784 * 128 + 128 + 128 * 10 + 10)
        code, most = _code(library), 10 << 10
        yield sized(effort, CODE, "MLP, code", code, "limit", most, goal=1)
        limit = int(most + 1.01 * weights)
        yield sized(effort, FILES, "MLP, object", len(library.image), "limit", limit, goal=1)


def _code(library: Any) -> int:
    from axla.codegen.object_files import sizes

    return sizes(library.image).code


def _loaded(library: Any) -> int:
    """The bytes of code and read-only data, without constants."""
    from axla.codegen.object_files import sizes

    found = sizes(library.image)
    return found.code + found.data - len(library.constants)


def _beside_peers(effort: Effort, models: Sequence[Model]) -> Iterator[Row]:
    """Rows for the sizes of the same StableHLO, compiled by axla and the peers for the x86-64 baseline."""
    found = aot_peers.peers()
    if isinstance(found, str):
        print(f"aot: sizes without peers: {found}", file=sys.stderr)
        return
    for model in models:
        if model.name not in ("MLP", *RECORDED):
            continue
        library = model.library("x86-64")
        stablehlo = model.stablehlo()
        for name, measure in (("tfcompile", Peers.tfcompile), ("IREE", Peers.iree)):
            try:
                code, files = measure(found, stablehlo)
            except aot_peers.PeerFailure as failure:
                yield Row(CODE, model.name, 1, _loaded(library), name, note=f"{name}: {failure}", unit="B")
                continue
            yield sized(effort, CODE, model.name, _loaded(library), name, code)
            if files:
                yield sized(effort, FILES, model.name, len(library.image), name, files)


def _targets(effort: Effort, models: Sequence[Model]) -> Iterator[Row]:
    """Rows for the sizes of code and read-only data on every target."""
    from axla.core.errors import UnsupportedError
    from axla.target.names import TARGETS

    targets = list(TARGETS) if effort.rounds > 5 else ["aarch64", "cortex-m4f"]
    for model in models:
        if model.name not in ("matmul", *MODELS):
            continue
        for target in targets:
            try:
                size, note = _loaded(model.library(target)), ""
            except UnsupportedError as refusal:
                size, note = None, str(refusal)
            yield Row(f"{EACH} {model.name}", target, 1, size, note=note, unit="B")
