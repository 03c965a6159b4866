"""The suite that every backend must pass, future ones too."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import axla
from axla.runtime.serialized import Fingerprint, pack, unpack
from sample_modules import FOREVER

STEP = """
HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY step {
  weights = f32[3] parameter(0)
  change = f32[3] parameter(1)
  sum = f32[3] add(weights, change)
  twice = f32[3] add(change, change)
  ROOT both = (f32[3], f32[3]) tuple(sum, twice)
}"""
NESTED = """
HloModule nested
ENTRY nested {
  p = (f32[2], (s32[], f32[])) parameter(0)
  a = f32[2] get-tuple-element(p), index=0
  t = (s32[], f32[]) get-tuple-element(p), index=1
  n = s32[] get-tuple-element(t), index=0
  x = f32[] get-tuple-element(t), index=1
  xs = f32[2] broadcast(x), dimensions={}
  y = f32[2] add(a, xs)
  inner = (f32[2]) tuple(y)
  ROOT r = (s32[], (f32[2])) tuple(n, inner)
}"""
SCALAR = "HloModule scalar\nENTRY e { p = s32[] parameter(0)\n  ROOT r = s32[] multiply(p, p) }"
BOUNDED = "HloModule m\nENTRY e { p = f32[<=4] parameter(0)\n  ROOT a = f32[<=4] add(p, p) }"
TOTAL = """
HloModule total
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), to_apply=add }"""
COUNTED = """
HloModule counted, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY counted {
  weights = f32[3] parameter(0)
  momentum = f32[3] parameter(1)
  count = s32[] parameter(2)
  real = f32[] convert(count)
  factor = f32[3] broadcast(real), dimensions={}
  change = f32[3] multiply(momentum, factor)
  sum = f32[3] add(weights, change)
  ROOT both = (f32[3], f32[3]) tuple(sum, change)
}"""
PAIR = """
HloModule pair
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  difference = f32[3] subtract(y, x)
  sum = f32[3] add(difference, x)
  ROOT r = f32[3] all-reduce(sum), to_apply=add }"""
FED = """
HloModule fed
ENTRY e { t = token[] after-all()
  fed = (f32[2], token[]) infeed(t)
  x = f32[2] get-tuple-element(fed), index=0
  after = token[] get-tuple-element(fed), index=1
  out = token[] outfeed(x, after)
  ROOT r = f32[2] multiply(x, x) }"""
W, C = np.float32([1, 2, 3]), np.float32([4, 4, 8])


@pytest.fixture(scope="module")
def kept() -> dict:
    """The executables of this file by backend, text and options."""
    return {}


@pytest.fixture
def compiled(backend, kept):
    """Compiles a text on the backend, once."""

    def compiled(text: str, **options):
        key = (backend, text, repr(options))
        if key not in kept:
            kept[key] = axla.compile(axla.parse(text), backend=backend, **options)
        return kept[key]

    return compiled


def arrays(results):
    assert all(isinstance(r, axla.Array) for r in results)
    return [np.asarray(r).tolist() for r in results]


# Calls.


def test_leaves_in_leaves_out(compiled):
    step = compiled(STEP)
    assert arrays(step.execute([W, C])) == [[5, 6, 11], [8, 8, 16]]
    assert arrays(step(W, C)) == [[5, 6, 11], [8, 8, 16]]
    assert isinstance(step(W, C), tuple)
    assert step.name == "step" and repr(step) == "<Executable step: 2 -> 2 arrays>"


def test_nested_arguments_and_results(compiled):
    program = compiled(NESTED)
    n, (y,) = program((np.float32([1, 2]), (np.int32(5), np.float32(10))))
    assert int(n) == 5 and y.tolist() == [11, 12]
    with pytest.raises(axla.InvalidArgument, match=r"argument 0\[1\]: wanted a tuple of 2, found 1 values"):
        program((np.float32([1, 2]), (np.int32(5),)))
    with pytest.raises(axla.InvalidArgument, match="0 arguments, wanted 1"):
        program()


def test_arrays_lists_and_python_scalars(compiled):
    square = compiled(SCALAR)
    for seven in (7, np.int32(7), np.array(7, np.int32), axla.device_put(np.int32(7))):
        assert square(seven).item() == 49


def test_results_are_arguments_of_the_next_run(compiled):
    step, value = compiled(STEP), C
    for _ in range(3):
        _, value = step.execute([W, value])
    assert value.tolist() == [32, 32, 64]


def test_sizes_up_to_a_bound(compiled):
    double = compiled(BOUNDED)
    assert double(np.float32([1, 2])).tolist() == [2, 4]
    with pytest.raises(axla.InvalidArgument, match="dimension 0 has size 5, its bound is 4"):
        double(np.zeros(5, np.float32))


WRONG = {
    "none": (list, "0 arguments, wanted 3.*parameter weights is missing"),
    "too few": (lambda: [W, C], "2 arguments, wanted 3.*parameter count is missing"),
    "too many": (lambda: [W, C, 1, W], "4 arguments, wanted 3.*argument 3 is one too many"),
    "shape": (lambda: [W, C[:2], 1], r"parameter 1 \(momentum\): wanted f32\[3\], found float32\[2\]"),
    "rank": (lambda: [W.reshape(1, 3), C, 1], r"\(weights\): wanted f32\[3\], found float32\[1, 3\]"),
    "type": (lambda: [W, C.astype(np.float64), 1], r"\(momentum\): wanted f32\[3\], found float64"),
    "unsigned": (lambda: [W, C, np.uint32(1)], r"\(count\): wanted s32.*found uint32"),
    "object": (lambda: [object(), C, 1], r"parameter 0 \(weights\)"),
    "none value": (lambda: [None, C, 1], r"parameter 0 \(weights\)"),
    "text": (lambda: [W, C, "three"], r"parameter 2 \(count\)"),
    "ragged": (lambda: [[[1], [1, 2]], C, 1], r"parameter 0 \(weights\): not an array"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_have_the_same_messages(compiled, case):
    arguments, message = WRONG[case]
    step = compiled(COUNTED)
    for call in (step.execute, lambda given: step(*given), lambda given: step.execute_replicated([given])):
        with pytest.raises(axla.InvalidArgument, match=message):
            call(arguments())
    given = [axla.device_put(W), axla.device_put(C), np.int32(2)]
    assert arrays(step.execute(given)) == [[9, 10, 19], [8, 8, 16]]  # nothing is left half done


def test_a_deadline(compiled):
    with pytest.raises(axla.DeadlineExceeded):
        compiled(FOREVER).execute([np.int32(1)], deadline=0.05)
    with pytest.raises(axla.DeadlineExceeded, match="had passed before the run"):
        compiled(STEP).execute([W, C], deadline=0)
    assert arrays(compiled(STEP).execute([W, C], deadline=100))[0] == [5, 6, 11]


def test_runs_that_may_go_on_after_the_call(compiled):
    step, value = compiled(STEP), axla.device_put(C)
    for _ in range(3):
        _, value = step.execute([W, value], asynchronous=True)
    assert value.block_until_ready().is_ready() and value.tolist() == [32, 32, 64]
    with pytest.raises(axla.DeadlineExceeded):
        (found,) = compiled(FOREVER).execute([np.int32(1)], deadline=0.05, asynchronous=True)
        found.block_until_ready()


def test_cancel(compiled):
    program, failures = compiled(FOREVER), []

    def run():
        try:
            program(np.int32(1))
        except axla.AxlaError as error:
            failures.append(error)

    assert program.cancel() == 0
    runner = threading.Thread(target=run)
    runner.start()
    while runner.is_alive() and not program.cancel():
        runner.join(0.001)
    runner.join()
    (error,) = failures
    assert isinstance(error, axla.Cancelled) and "cancelled" in str(error)
    assert program.cancel() == 0


def test_several_threads_at_once(compiled):
    step, found = compiled(STEP), []

    def run(k):
        for _ in range(20):
            found.append(arrays(step.execute([W + k, C]))[0] == (W + k + C).tolist())

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


# Donation.


def test_aliased_arrays_are_donated_and_numpy_is_not(compiled):
    step, weights, change = compiled(STEP), axla.device_put(W), axla.device_put(C)
    assert arrays(step.execute([weights, change]))[0] == [5, 6, 11]
    assert weights.is_deleted and not change.is_deleted
    with pytest.raises(axla.InvalidArgument, match=r"parameter 0 \(weights\).*deleted or donated"):
        step.execute([weights, change])
    mine = W.copy()
    step.execute([mine, change])
    assert mine.tolist() == W.tolist()


def test_donation_at_compile_time(compiled):
    text = STEP.replace(", input_output_alias={ {0}: (0, {}, may-alias) }", "")
    for donate in ((), (1,)):
        weights, change = axla.device_put(W), axla.device_put(C)
        assert arrays(compiled(text, donate=donate).execute([weights, change]))[0] == [5, 6, 11]
        assert (weights.is_deleted, change.is_deleted) == (False, bool(donate))
    with pytest.raises(axla.InvalidArgument, match="donate names parameter 7; there are 2"):
        compiled(text, donate=[7])


def test_donation_of_one_run(compiled):
    step, weights, change = compiled(STEP), axla.device_put(W), axla.device_put(C)
    with pytest.raises(axla.InvalidArgument, match=r"\(change\): only an Array can be donated, not ndarray"):
        step.execute([W, C], donate=[1])
    with pytest.raises(axla.InvalidArgument, match="donate names parameter 2; there are 2"):
        step.execute([weights, change], donate=[2])
    with pytest.raises(axla.InvalidArgument, match="wanted f32"):
        step.execute([W[:2], change], donate=[1])
    assert not weights.is_deleted and not change.is_deleted  # nothing began
    step.execute([weights, change], donate=[1])
    assert weights.is_deleted and change.is_deleted


def test_an_array_is_donated_once(compiled):
    weights = axla.device_put(W)
    with pytest.raises(axla.InvalidArgument, match=r"parameter 1 \(change\): the array is also donated"):
        compiled(STEP).execute([weights, weights])
    assert not weights.is_deleted


def test_a_failed_run_has_taken_what_was_donated(compiled):
    start = axla.device_put(np.int32(1))
    with pytest.raises(axla.DeadlineExceeded):
        compiled(FOREVER).execute([start], deadline=0.05, donate=[0])
    assert start.is_deleted
    start, aliased = axla.device_put(np.int32(1)), "forever, input_output_alias={ {}: (0, {}, may-alias) }"
    with pytest.raises(axla.DeadlineExceeded):
        compiled(FOREVER.replace("forever", aliased)).execute([start], deadline=0.05)
    assert start.is_deleted


# Replicas.


def test_replicas_of_one_device(compiled):
    step = compiled(STEP)
    assert (step.num_replicas, step.num_partitions, len(step.devices)) == (1, 1, 1)
    (row,) = step.execute_replicated([[W, C]])
    assert arrays(row) == [[5, 6, 11], [8, 8, 16]]
    (row,) = step.execute_replicated([[W, C]], axla.backends.ExecuteOptions(deadline=100))
    assert arrays(row)[0] == [5, 6, 11]
    for rows in ([], [[W, C], [W, C]]):
        with pytest.raises(axla.InvalidArgument, match="inputs of 1 devices are wanted"):
            step.execute_replicated(rows)


def test_several_participants_run_or_are_refused_with_a_reason(backend, compiled):
    able = axla.backends.get(backend).capabilities
    if able.participants < 2:
        with pytest.raises(axla.UnsupportedError, match=re.escape(able.refused["participants"])):
            compiled(TOTAL, num_replicas=2)
        return
    program = compiled(TOTAL, num_replicas=2, device_assignment=[[0], [1]])
    assert [d.id for d in program.devices] == [0, 1]
    found = program.execute_replicated([[W[:2]], [C[:2]]])
    assert [(row[0].tolist(), row[0].device) for row in found] == [([5, 6], 0), ([5, 6], 1)]
    with pytest.raises(
        axla.InvalidArgument, match="it is for 2 replicas of 1 partitions: call execute_replicated"
    ):
        program.execute([W[:2]])
    with pytest.raises(axla.UnsupportedError, match=re.escape(able.refused["participants"])):
        compiled(TOTAL, num_replicas=able.participants + 1)


def test_the_first_participant_alone(compiled):
    assert compiled(TOTAL, replicas="first")(W[:2]).tolist() == [1, 2]


# Texts, numbers, bytes.


def test_texts_of_all_stages(backend, compiled):
    step = compiled(STEP)
    texts = {stage: step.as_text(stage) for stage in step.stages}
    assert all(texts.values()) and {"hlo", "optimized"} <= texts.keys()
    assert axla.parse(texts["hlo"]).to_string() == axla.parse(STEP).to_string()
    assert step.as_text() == texts["optimized"]
    axla.parse(texts["optimized"])
    with pytest.raises(axla.InvalidArgument, match="stage 'optimised'; there are .*did you mean optimized"):
        step.as_text("optimised")


def test_a_module_that_was_changed_has_no_text(backend):
    module = axla.parse(STEP)
    step = axla.compile(module, backend=backend)
    module.entry.add(module.entry.root.op, module.entry.root.operands)
    with pytest.raises(axla.InvalidArgument, match="its module was changed after it was compiled"):
        step.as_text("hlo")
    assert arrays(step(W, C))[0] == [5, 6, 11]


def test_cost_and_memory(compiled):
    step = compiled(STEP)
    assert step.cost().operations == 6 and step.cost().exact
    memory = step.memory()
    assert (memory.arguments, memory.results, memory.aliased) == (24, 24, 12)
    assert memory.temporaries >= 0 and memory.constants >= 0 and memory.code >= 0


@pytest.mark.parametrize(
    "again", [lambda p: axla.Executable.load(p.serialize()), lambda p: pickle.loads(pickle.dumps(p))]
)
def test_executables_as_bytes(backend, compiled, again, refused):
    step = compiled(STEP, flags={"xla_backend_optimization_level": 1})
    if "serialize" in refused:
        with pytest.raises(axla.UnsupportedError, match="step: .*cannot be serialized"):
            again(step)
        return
    other = again(step)
    assert arrays(other.execute([W, C])) == [[5, 6, 11], [8, 8, 16]]
    assert arrays(other(W, C)) == [[5, 6, 11], [8, 8, 16]]
    assert other.options == step.options and other.client is axla.backends.get(backend).client
    weights = axla.device_put(W)
    other.execute([weights, C])
    assert weights.is_deleted  # aliases are kept
    assert other.memory() == step.memory()


def test_programs_of_given_sizes(backend, refused):
    text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    program = axla.compile(axla.parse(text), backend=backend, arg_types=[W])
    assert program(W).tolist() == W.tolist()
    if "serialize" in refused:
        return
    assert axla.Executable.load(program.serialize())(W).tolist() == W.tolist()


def test_bytes_that_are_no_executable(backend, compiled, refused):
    if "load" in refused:
        data = axla.compile(axla.parse(STEP), backend="interpreter").serialize()
        data = pack(unpack(data)[0], Fingerprint.of(None, backend))
        with pytest.raises(axla.UnsupportedError, match=f"{backend}: .*loads no executables"):
            axla.Client(backend).load(data)
        return
    client, data = axla.Client(backend), compiled(STEP).serialize()
    assert client.load(data).client is client
    for wrong in (b"", b"HloModule m", data[:30], data[:-7], data.replace(backend.encode(), b"nobody", 1)):
        with pytest.raises(axla.AxlaError):
            client.load(wrong)
    other = next(name for name in ("cpu", "interpreter") if name != backend)
    with pytest.raises(axla.InvalidArgument, match=f"an executable of '{backend}', wanted '{other}'"):
        axla.Client(other).load(data)
    with pytest.raises(axla.AxlaError):
        axla.parse(data)


def test_every_byte_of_an_executable_is_under_its_digest(backend, compiled, refused):
    if "serialize" in refused:
        return
    data = compiled(STEP).serialize()
    for at in (*range(len(data))[:: max(1, len(data) // 40)], data.index(b"\n") - 40, len(data) - 1):
        wrong = bytearray(data)
        wrong[at] ^= 1
        with pytest.raises(axla.AxlaError):
            axla.Executable.load(bytes(wrong))


CALLING = """
HloModule calling
ENTRY e { p = f32[3] parameter(0)
  ROOT r = f32[3] custom-call(p), custom_call_target="test.of_the_suite" }"""


def test_custom_calls_of_the_client(backend, refused):
    axla.register_custom_call("test.of_the_suite", lambda x: x + 1)
    try:
        if "custom calls" in refused:
            with pytest.raises(axla.UnsupportedError, match="r = .*custom calls.*'test.of_the_suite'"):
                axla.compile(axla.parse(CALLING), backend=backend)
            return
        if "custom-call" not in axla.backends.get(backend).capabilities.ops or backend == "c-source":
            return
        assert axla.compile(axla.parse(CALLING), backend=backend)(W).tolist() == [2, 3, 4]
    finally:
        axla.unregister_custom_call("test.of_the_suite")


# Clients and devices.


def test_a_program_runs_on_the_devices_that_its_assignment_names(backend, refused):
    client = axla.Client(backend, devices=4)
    if not client.backend.any_devices:
        with pytest.raises(axla.UnsupportedError, match="supports only the first devices in order"):
            client.compile(axla.parse(STEP), device_assignment=[[1]])
        return
    step = client.compile(axla.parse(STEP), device_assignment=[[2]])
    assert [d.id for d in step.devices] == [2]
    for found in (step(W, C), step.execute([W, C]), step.execute_replicated([[W, C]])[0]):
        assert arrays(found) == [[5, 6, 11], [8, 8, 16]] and {a.device for a in found} == {2}
    with pytest.raises(axla.InvalidArgument, match="1 arguments, wanted 2"):
        step.execute([W])
    for result in step.execute([W, C], asynchronous=True):
        assert result.block_until_ready().device == 2
    with pytest.raises(axla.DeadlineExceeded):
        client.compile(axla.parse(FOREVER), device_assignment=[[3]]).execute([np.int32(1)], deadline=0.05)
    given = client.device_put(W, client.devices[2])
    donating = client.compile(axla.parse(STEP), device_assignment=[[2]], donate=[0])
    assert arrays(donating.execute([given, C]))[0] == [5, 6, 11] and given.is_deleted
    if "load" not in refused:
        again = axla.Executable.load(step.serialize(), client)
        assert [d.id for d in again.devices] == [2] and again(W, C)[0].device == 2
        with pytest.raises(axla.InvalidArgument, match="no device 2|needs devices 0 to 2"):
            axla.Executable.load(step.serialize(), axla.Client(backend, devices=2))
    if client.backend.capabilities.participants < 2:
        return
    total = client.compile(axla.parse(TOTAL), num_replicas=2, device_assignment=[[3], [1]])
    found = total.execute_replicated([[W[:2]], [C[:2]]])
    assert [(row[0].tolist(), row[0].device) for row in found] == [([5, 6], 3), ([5, 6], 1)]
    if "load" in refused:
        return
    again = axla.Executable.load(total.serialize(), client)
    assert (again.num_replicas, [d.id for d in again.devices]) == (2, [3, 1])
    assert again.execute_replicated([[W[:2]], [C[:2]]])[1][0].tolist() == [5, 6]
    assert again.execute_replicated([[W[:2]], [C[:2]]])[1][0].device == 1
    with pytest.raises(axla.InvalidArgument, match="needs devices 0 to 3"):
        axla.Executable.load(total.serialize(), axla.Client(backend, devices=2))


def test_feeds_are_those_of_the_device(backend):
    client = axla.Client(backend, devices=4)
    if not client.backend.any_devices:
        return
    devices = [3, 1][: client.backend.capabilities.participants]
    places = [[number] for number in devices]
    program = client.compile(axla.parse(FED), num_replicas=len(devices), device_assignment=places)
    for number in devices:
        axla.feeds(number).infeed.put(np.float32([number, 10]))
    try:
        found = program.execute_replicated([[]] * len(devices))
        assert arrays([row[0] for row in found]) == [[n * n, 100] for n in devices]
        assert [axla.feeds(n).outfeed.get(1.0).tolist() for n in devices] == [[n, 10] for n in devices]
    finally:
        for number in devices:
            axla.feeds(number).infeed.clear()
            axla.feeds(number).outfeed.clear()


@pytest.mark.parametrize("devices", [2, 3])
def test_who_passes_a_wrong_argument_is_named_and_nothing_is_donated(backend, devices):
    if axla.backends.get(backend).capabilities.participants < devices:
        return
    program = axla.compile(axla.parse(PAIR), backend=backend, num_replicas=devices, donate=[0])
    kept = [[axla.device_put(W), C] for _ in range(devices)]
    cases = [
        ([W[:2], C], r"parameter 0 \(x\) of participant 1: wanted f32\[3\], found float32\[2\]"),
        ([W], r"1 arguments, wanted 2 \(x, y\): parameter y is missing"),
        ([kept[0][0], C], r"parameter 0 \(x\) of participant 1: donated twice, also as parameter 0 \(x\)"),
        (
            [axla.device_put(W), kept[0][0]],
            r"parameter 1 \(y\) of participant 1: the array is also donated, as parameter 0 \(x\)",
        ),
    ]
    for wrong, message in cases:
        with pytest.raises(axla.InvalidArgument, match=message):
            program.execute_replicated([kept[0], wrong, *kept[2:]])
        assert not any(row[0].is_deleted for row in kept)
    found = program.execute_replicated(kept)
    assert [arrays(row) for row in found] == [[[4 * devices, 4 * devices, 8 * devices]]] * devices
    assert all(row[0].is_deleted for row in kept)


def test_one_array_may_be_an_argument_of_all(backend):
    if axla.backends.get(backend).capabilities.participants < 2:
        return
    program = axla.compile(axla.parse(PAIR), backend=backend, num_replicas=2)
    same, other = axla.device_put(W), program.client.device_put(C, program.devices[1])
    found = program.execute_replicated([[same, other], [same, C]])
    assert [row[0].tolist() for row in found] == [[8, 8, 16]] * 2
    assert (same.device, other.device, *(row[0].device for row in found)) == (0, 1, 0, 1)


def test_a_client_has_devices(backend):
    client = axla.Client(backend, devices=3)
    assert [(d.id, d.local_id, d.process_index) for d in client.devices] == [(k, k, 0) for k in range(3)]
    memories = [m for d in client.devices for m in d.memories]
    assert len({m.id for m in memories}) == len(memories)
    first = client.devices[0]
    assert first.default_memory.kind == "device" and str(first) == f"{first.kind}:0"
    assert client.device(2) is client.devices[2] and client.local_devices == client.devices
    assert client.default_device_assignment(1, 3) == ((0, 1, 2),)
    for number in (3, -1):
        with pytest.raises(axla.InvalidArgument, match=f"no device {number}; there are 0 to 2"):
            client.device(number)
    assert client.device_put(W).device == 0
    there = client.device_put(client.device_put(W), client.devices[2])
    assert there.tolist() == W.tolist() and there.device == 2
    with pytest.raises(axla.InvalidArgument, match="wanted a number from 1 to 4096"):
        axla.Client(backend, devices=0)


def test_device_put_copies_to_a_device():
    client = axla.Client("cpu", devices=3)
    first = axla.device_put(W)
    for device in (client.devices[2], client.devices[0]):
        for source in (W, first, client.device_put(W, 1)):
            copy = axla.device_put(source, device)
            assert copy.device == device.id and copy.tolist() == W.tolist()
    assert axla.device_put(W, 0).device == 0
    first.delete()
    with pytest.raises(axla.InvalidArgument, match="deleted"):
        axla.device_put(first, client.devices[1])
    for wrong in (9999, -1, "cpu:0"):
        with pytest.raises(axla.InvalidArgument, match=f"no device {wrong!r}; there are 0 to"):
            axla.device_put(W, wrong)
    elsewhere = axla.backends.Device(5, 0, 1, "cpu", client.devices[0].memories)
    with pytest.raises(axla.InvalidArgument, match="cpu:5 is in another process, 1"):
        axla.device_put(W, elsewhere)


def test_the_flag_says_how_many_devices_there_are(backend):
    code = (
        "import axla; clients = axla.backends.get('cpu').client, axla.Client('cpu')\n"
        "assert all([d.id for d in c.devices] == [0, 1, 2, 3] for c in clients)\n"
        "assert axla.device_put([1.0], 3).device == 3\n"
    )
    flags = "--xla_force_host_platform_device_count=4"
    if backend == "cpu":
        environment = {**os.environ, "XLA_FLAGS": flags}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
    with axla.core.flags.override(host_device_count=4):
        assert len(axla.Client(backend).devices) == 4 and len(axla.Client(backend, devices=2).devices) == 2


def test_a_client_compiles(backend):
    client = axla.Client(backend, devices=1)
    options = axla.CompileOptions(donate=(1,))
    for given in (options, options.to_proto()):
        step = client.compile(axla.parse(STEP), given)
        assert step.client is client and step.options == options and step.devices == client.devices
    assert axla.compile(axla.parse(STEP), backend=client).client is client
    assert client.compile(axla.parse(STEP), options, donate=()).options == axla.CompileOptions()
    with pytest.raises(axla.InvalidArgument, match="no option 'donat'.*did you mean donate"):
        client.compile(axla.parse(STEP), donat=[1])
    with pytest.raises(axla.InvalidArgument, match="needs devices 0 to 4"):
        client.compile(axla.parse(STEP), device_assignment=[[4]])
    with pytest.raises(axla.InvalidArgument, match="needs devices -1 to -1"):
        client.compile(axla.parse(STEP), device_assignment=[[-1]])
    with pytest.raises(axla.InvalidArgument, match="has 1 replicas of 2 partitions, wanted 1 of 1 for step"):
        client.compile(axla.parse(STEP), device_assignment=[[0, 1]])
    for wrong in (3, b"\xff\xff", "cpu"):
        with pytest.raises(axla.AxlaError):
            client.compile(axla.parse(STEP), wrong)
    with pytest.raises(axla.InvalidArgument, match="wanted a Module"):
        client.compile(STEP)


def test_what_the_capabilities_exclude_is_refused(backend, compiled):
    able = axla.backends.get(backend).capabilities
    text = "HloModule m\nENTRY e { p = f32[3] parameter(0)\n  ROOT r = f32[3] sine(p) }"
    if "sine" in able.ops:
        np.testing.assert_allclose(compiled(text)(W), np.sin(W), rtol=1e-5)
    else:
        with pytest.raises(
            axla.UnsupportedError, match=f"sine.*{backend} does not run sine: {able.refused['sine']}"
        ):
            compiled(text)
    assert "add" in able.ops and "f32" in able.element_types and able.participants >= 1


def test_check_and_xla_client_take_the_name(backend):
    from axla.xla_client import make_cpu_client

    assert axla.check(STEP, backend).backend == backend
    client = make_cpu_client(backend)
    assert client.platform == backend
    executable = client.compile(axla.parse(STEP), axla.CompileOptions(donate=(1,)))
    assert arrays(executable.execute([W, C]))[0] == [5, 6, 11]
