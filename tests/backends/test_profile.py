"""Profiles: what each step of a program takes, on every backend; nothing of it when none is taken."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import axla
from axla.core import trace
from axla.core.profile import Row
from axla.runtime.profiled import READINGS, without_readings
from axla.tools.main import main
from opencl_device import why_no_device

TEXT = """HloModule model
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64,64] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="square" source_file="model.py" source_line=7}
  ROOT r = (s32[], f32[64,64]) tuple(next, y)
}
test {
  p = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[64,64]) tuple(zero, x)
  loop = (s32[], f32[64,64]) while(start), condition=test, body=body
  y = f32[64,64] get-tuple-element(loop), index=1
  f0 = f32[] constant(0)
  sum = f32[64] reduce(y, f0), dimensions={1}, to_apply=add
  ROOT out = (f32[64,64], f32[64]) tuple(y, sum)
}"""  # noqa: E501
X = np.eye(64, dtype=np.float32) * np.float32(0.5)


@pytest.fixture(params=["cpu", "one-lane", "interpreter", "opencl", "remote"])
def backend(request):
    if request.param == "remote":
        request.getfixturevalue("server")
    if request.param == "opencl" and why_no_device():
        pytest.skip(why_no_device())
    return request.param


@pytest.fixture
def program(backend):
    return axla.compile(axla.parse(TEXT), backend=backend)


def bits(results) -> list[bytes]:
    return [np.asarray(array).tobytes() for array in results]


def test_calls_and_steps_are_counted(program, backend):
    plain = bits(program(X))
    with axla.profile() as p:
        for _ in range(3):
            assert bits(program(X)) == plain
        program.execute([X])
    program(X)  # not any more
    [run] = p.runs
    assert (run.program, run.backend, run.calls) == ("model", backend, 4)
    assert run.threads == {threading.current_thread().name}
    # A condition is tried once more; where two trips are one, each of its steps runs five times.
    assert {step.calls for step in run.steps if step.row.step != "profile"} <= {4, 20, 24, 40, 44}
    assert sum(step.ns for step in run.steps) == run.ns > 0
    assert p.steps == run.steps == sorted(run.steps, key=lambda step: -step.ns)


def test_kernels_of_a_loop_count_every_turn(program, backend):
    with axla.profile() as p:
        program(X)
        program(X)
    if backend == "interpreter":  # instructions of the entry: the loop is one
        [loop] = [step for step in p.steps if step.row.kind == "while"]
        assert loop.calls == 2 and loop.row.operations > 10 * 2 * 64**3
        return
    dots = [step for step in p.steps if "dot" in step.row.kind]  # two, where two trips are one
    assert sum(dot.calls for dot in dots) == 20
    for dot in dots:
        assert dot.row.bytes == 2 * 64 * 64 * 4 + 64 * 64 * 4
        assert dot.row.operations in (2 * 64**3 - 64**2, 2 * 64**3)
        assert dot.row.location == "model.py:7, in square"
        assert dot.gigaflops == dot.row.operations * dot.calls / dot.ns
        assert dot.gigabytes_per_second == dot.row.bytes * dot.calls / dot.ns


def test_times_of_steps_are_the_time_of_the_call():
    """Between readings of the clock nothing is left out. A call of some 50 ms hides Python's share of it."""
    text = """ENTRY e {
      x = f32[1024,1024] parameter(0)
      y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      z = f32[1024,1024] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[1024,1024] negate(z)
    }"""
    program = axla.compile(axla.parse(text))
    shares = []
    for _ in range(5):  # the thread may be stopped at any time, also between the call and its steps
        with axla.profile() as p:
            program(np.zeros((1024, 1024), np.float32))
            program(np.zeros((1024, 1024), np.float32))
        assert sum(step.ns for step in p.steps) == p.runs[0].ns  # with the row of the call itself
        shares.append(sum(step.ns for step in p.steps if step.row.step != "call") / p.runs[0].ns)
        if shares[-1] >= 0.95:
            break
    assert 0.95 <= max(shares) <= 1


def test_programs_compiled_within_are_measured(backend):
    with axla.profile() as p:
        program = axla.compile(axla.parse(TEXT), backend=backend)
        program(axla.device_put(X))
    assert p.runs[0].calls == 1 and len(p.steps) > 1
    kinds = {event["cat"] for event in p.events}
    assert kinds == {"compile", "call", "transfer"}


def test_without_a_profile_code_has_no_trace_of_it():
    from axla.codegen.host import host_target
    from axla.cpu.compiler import llvm_modules
    from axla.cpu.timed import timed_program
    from axla.lowering.pipeline import compile_program

    target = host_target()
    plain = llvm_modules(compile_program(axla.parse(TEXT), target), target)
    assert not any("lap" in text or "atomicrmw" in text for text in plain)
    made, rows = timed_program(axla.parse(TEXT), target)
    assert [function.name for function in made.interface.functions] == ["axla.clock", "axla.counters"]
    assert any(row.parallel is False for row in rows) and len(made.images) == len(plain)


def test_the_plain_call_comes_back():
    program = axla.compile(axla.parse(TEXT))
    before = program._native_call
    with axla.profile():
        assert program._native_call is not before
    assert program._native_call is before


def test_two_profiles_at_once_are_refused():
    with (
        axla.profile(),
        pytest.raises(axla.InvalidArgument, match="another profile is already being recorded"),
        axla.profile(),
    ):
        pass
    with axla.profile():
        pass


def test_threads_are_named():
    program = axla.compile(axla.parse(TEXT))
    with axla.profile() as p:
        calls = lambda: [program(X) for _ in range(20)]  # noqa: E731
        threads = [threading.Thread(target=calls, name=f"t{n}") for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [run] = p.runs
    assert run.threads == {"t0", "t1", "t2", "t3"} and run.calls == 80
    assert sum(step.calls for step in run.steps if "dot" in step.row.kind) == 800


def test_readings_of_the_clock_are_told_apart():
    text = "ENTRY e { x = f32[64] parameter(0)  ROOT y = f32[64] tanh(x) }"
    program = axla.compile(axla.parse(text))
    with axla.profile() as p:
        for _ in range(3):
            program(np.zeros(64, np.float32))
    calls = {step.row.step: step.calls for step in p.steps}
    assert calls.pop("profile") == 3 * len(
        calls
    )  # at the beginning and after each step; `call` is not a step


def test_a_reading_that_was_interrupted_leaves_the_sum():
    """As if the thread was stopped in the only reading of nothing: steps seem shorter than a reading."""
    short, long = Row("short", "kernel"), Row("long", "kernel")
    measured = np.array([(9000, 1), (300, 2), (50_000, 1)])
    found = list(without_readings([short, long], measured[None]))
    assert found == [(READINGS, 18_300, 4), (short, 0, 2), (long, 41_000, 1)]
    assert sum(ns for _, ns, _ in found) == measured[:, 0].sum()


def test_errors_and_donation_are_as_without():
    text = """HloModule d, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[4] parameter(0)  ROOT y = f32[4] negate(x) }"""
    program = axla.compile(axla.parse(text))
    x = axla.device_put(np.ones(4, np.float32))
    with axla.profile() as p:
        with pytest.raises(axla.InvalidArgument, match="1 arguments|0 arguments"):
            program()
        program(x)
        assert x.is_deleted
        with pytest.raises(axla.DeadlineExceeded):
            program.execute([np.ones(4, np.float32)], deadline=-1)
    assert {step.calls for step in p.steps if step.row.step not in ("call", "profile")} == {1}


def test_custom_calls_are_steps():
    axla.register_custom_call("profiled_twice", lambda x: x * 2)
    try:
        call = 'custom-call(x), custom_call_target="profiled_twice"'
        program = axla.compile(axla.parse(f"ENTRY e {{ x = f32[4] parameter(0)  ROOT c = f32[4] {call} }}"))
        with axla.profile() as p:
            assert np.asarray(program(np.ones(4, np.float32))).tolist() == [2] * 4
    finally:
        axla.unregister_custom_call("profiled_twice")
    assert [step.row.kind for step in p.steps].count("custom-call profiled_twice") == 1


def test_dynamic_sizes():
    text = "ENTRY e { x = f32[<=8] parameter(0)  ROOT y = f32[<=8] negate(x) }"
    program = axla.compile(axla.parse(text))
    with axla.profile() as p:
        assert np.asarray(program(np.ones(3, np.float32))).tolist() == [-1] * 3
    assert p.runs[0].calls == 1 and len(p.steps) > 1


def test_executables_from_bytes_are_measured_as_a_whole():
    program = axla.Executable.load(axla.compile(axla.parse(TEXT)).serialize())
    with axla.profile() as p:
        program(X)
    assert p.runs[0].calls == 1 and [step.ns for step in p.steps] == [p.runs[0].ns] != [0]


def test_text_and_trace(program, backend, tmp_path):
    with axla.profile() as p:
        program(X)
    lines = str(p).splitlines()
    assert lines[0].startswith("machine: ") and "GB/s" in lines[0] and "GFLOP/s" in lines[0]
    assert lines[2].startswith(f"model ({backend}): 1 calls, ") and len(lines) == 4 + len(p.steps)
    p.write(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["cat"] == "step"]
    assert [span["name"] for span in spans] == [step.row.step for step in p.steps]
    assert any(event.get("cat") == "call" and event["name"] == "model" for event in events)


def test_run_with_profile(tmp_path, capsys, backend):
    file = tmp_path / "model.hlo"
    file.write_text(TEXT)
    assert main(["run", str(file), "--profile", "--backend", backend]) == 0
    assert f"model ({backend}): 1 calls" in capsys.readouterr().out


def test_a_trace_of_a_whole_process(tmp_path):
    """AXLA_TRACE: compilation, transfers, calls, and steps."""
    code = f"""
import numpy as np, axla
program = axla.compile(axla.parse({TEXT!r}))
for _ in range(3):
    program(axla.device_put(np.eye(64, dtype=np.float32)))
"""
    env = {"AXLA_TRACE": str(tmp_path / "t.json"), **__import__("os").environ}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    found = {event.get("cat") for event in events}
    assert found >= {"compile", "call", "transfer", "step"}
    assert sum(event.get("cat") == "call" for event in events) == 3


def test_nothing_is_recorded_outside():
    program = axla.compile(axla.parse(TEXT))
    with trace.recording() as events:
        program(X)
    assert events == []
