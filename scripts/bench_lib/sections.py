"""The sections of the benchmark. Each yields rows, one per program and peer."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench_lib import peers, programs
from bench_lib.aot import aot
from bench_lib.callers import callers
from bench_lib.compiling import cold, compile_row, compiling
from bench_lib.devices import devices
from bench_lib.models import models, modules
from bench_lib.op_section import every_op
from bench_lib.opencl import opencl
from bench_lib.register_loops import register_loops
from bench_lib.row import Effort, Row, timed
from bench_lib.startup import startup
from bench_lib.timing import Times, compare


def kernels(effort: Effort) -> Iterator[Row]:
    """Rows for programs on arrays of common sizes."""
    for program in programs.kernels():
        if effort.only not in program.name:
            continue
        inputs = program.inputs()
        ours = peers.axla_call(peers.axla_function(program.text), inputs)
        function = peers.xla_function(program.text)
        theirs = peers.xla_call(function, inputs)
        peers.check(program.name, ours(), theirs(), program.tolerance)
        times = compare({"axla": ours, "XLA": theirs}, effort.rounds, effort.seconds)
        yield timed(effort, "kernels", program.name, times, "XLA", goal=1.2)


def loops(effort: Effort) -> Iterator[Row]:
    """Rows for loops on scalars; seconds are those of one trip."""
    for name, text, inputs, goal in (
        ("8 carries, xorshift and f32", programs.mixed_loop(), _mixed_state(), 1.5),
        (
            "60 carries, exp and tanh",
            programs.exp_tanh_loop(60),
            [np.float32(0.01 * k) for k in range(60)],
            0.3,
        ),
    ):
        if effort.only not in name:
            continue
        ours, theirs = peers.axla_function(text), peers.xla_function(text)
        few = np.int32(100)
        checked = ours(few, *inputs), theirs(few, *inputs)
        peers.check(name, *checked, 1e-4)
        mixed = name.startswith("8")
        sides = {
            "axla": (peers.axla_call(ours, [np.int32(trips := 200_000 if mixed else 5_000), *inputs]), trips),
            "XLA": (peers.xla_call(theirs, [few * np.int32(5), *inputs]), 500),
        }
        if mixed and (c := _c_loop(1_000_000, ours, inputs)) is not None:
            sides["C -O2"] = (c, 1_000_000)
        times = compare({side: call for side, (call, _) in sides.items()}, effort.rounds, effort.seconds)
        per_trip = Times({side: [t / sides[side][1] for t in times.rounds[side]] for side in sides})
        for peer in list(sides)[1:]:
            wanted = goal if (peer == "XLA") != mixed else None
            yield timed(effort, "loops", name, per_trip, peer, goal=wanted)
    yield from register_loops(effort)


def _mixed_state() -> list[Any]:
    return [
        *(np.uint32(0x9E3779B9 * (k + 1) & 0xFFFFFFFF) for k in range(4)),
        *(np.float32(0.1 * k) for k in range(4)),
    ]


def _c_loop(trips: int, ours: Callable, inputs: list[Any]) -> Callable[[], Any] | None:
    function = peers.c_function(programs.LOOP_C, "loop")
    if function is None:
        return None
    u, f = np.array(inputs[:4], np.uint32), np.array(inputs[4:], np.float32)
    few_u, few_f = u.copy(), f.copy()
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (few_u, few_f)]
    function(100, *pointers)
    peers.check("C", [np.asarray(x) for x in ours(np.int32(100), *inputs)], [*few_u, *few_f], 1e-4)
    places = [ctypes.c_void_p(x.ctypes.data) for x in (u, f)]
    keep = (u, f, few_u, few_f)
    return lambda keep=keep: function(trips, *places)


def calls(effort: Effort) -> Iterator[Row]:
    """Rows for a call of a compiled addition of 64 floats, from Python to Python."""
    program = programs.add(64)
    inputs = program.inputs()
    function = peers.axla_function(program.text)
    theirs = peers.xla_call(peers.xla_function(program.text), inputs)
    arrays = peers.axla_call(function, inputs)
    peers.check("add", arrays(), theirs(), 0)
    for name, ours, goal in (("axla.Array", arrays, 1e-6), ("NumPy arrays", lambda: function(*inputs), 2e-6)):
        times = compare({"axla": ours, "XLA": theirs}, effort.rounds, min(0.05, effort.seconds))
        note = f"goal {goal * 1e6:.0f} us"
        yield timed(effort, "calls", f"add of f32[64], {name}", times, "XLA", note=note)


def large(effort: Effort) -> Iterator[Row]:
    """Rows for a module of 10,000 instructions, and for one of twice the size."""
    import axla
    from axla.codegen.host import host_target
    from axla.lowering.pipeline import optimize

    small = programs.large(10_000)
    compile_row(effort, "", "", programs.add(9).text)
    start = time.perf_counter()
    module = axla.parse(small.text)
    optimize(module, host_target())
    yield Row(
        "large",
        "10,000 instructions: parse and passes",
        effort.threads,
        time.perf_counter() - start,
        note="goal 2 s",
    )
    first = compile_row(effort, "large", small.name, small.text)
    yield first
    twice = programs.large(20_000)
    seconds, size = cold(twice.text)
    yield Row(
        "large", "twice the size", effort.threads, seconds, "10,000:", first.ours,
        seconds / (first.ours or 1), goal=2.4, note=f"object {size / 1024:.0f} KiB",
    )  # fmt: skip


def cliffs(effort: Effort) -> Iterator[Row]:
    """Rows for small JAX programs as users write them. Loads JAX, and LAPACK with its threads."""
    from bench_lib.cliffs.measure import survey

    return survey(effort)


def library_peers(effort: Effort) -> Iterator[Row]:
    """Rows for jobs for which there are good libraries; each compares with the best one."""
    from bench_lib.libraries.measure import library_peers

    return library_peers(effort)


def engines(effort: Effort) -> Iterator[Row]:
    """Rows for whole models by axla and by inference engines; each compares with the best engine."""
    from bench_lib.engines.measure import engines

    return engines(effort)


SECTIONS: dict[str, Callable[[Effort], Iterator[Row]]] = {
    "kernels": kernels, "loops": loops, "calls": calls, "compile": compiling, "large": large,
    "ops": every_op, "models": models, "modules": modules, "aot": aot, "devices": devices,
    "opencl": opencl, "cliffs": cliffs, "startup": startup, "callers": callers,
    "peers": library_peers, "engines": engines,
}  # fmt: skip
