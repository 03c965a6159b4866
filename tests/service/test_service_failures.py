"""Failures and misuse: of the process, the disk, the clock, the client."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.core.status import Status, status_of
from axla.service import messages
from axla.service.limits import ClientLimits, Page
from axla.service.messages import NUMBERS, VERSION
from axla.service.session import ClientSession, Slots
from axla.service.transport import HEADER, SocketTransport
from sample_modules import FOREVER
from service_server import SQUARE, X, compiled, counters, lines, started, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are watched as Linux has them")
LINE = '\n{"time": 1, "session": "s0", "event": "forged"}\n\x1b[2J'


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    limits = ["--arrays=20", "--memory=256M", "--seconds=5", "--metrics=127.0.0.1:0", "--log=json"]
    with started(tmp_path_factory.mktemp("failures"), *limits) as found:
        yield found


@pytest.fixture
def client(process):
    made = axla.connect(process.address)
    yield made
    made.backend.close()


def session_of(client):
    return client.backend.link.welcome["session"]


def worker_of(process, client):
    found = until(lambda: lines(process, session=session_of(client), event="begins"))
    return found[0]["pid"]


def children(pid):
    """The processes that a process has started."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def is_there(pid):
    """Whether a process is there, and not only its exit code."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def hello(process, **fields):
    """A connection that has sent its first message."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(process.address.removeprefix("unix:"))
    body = messages.encode("Hello", {"version": VERSION, **fields})
    connection.send(HEADER.pack(len(body), 0, NUMBERS["Hello"]) + body)
    return connection


# Processes that end.


def test_a_worker_whose_llvm_ends_it(process, client):
    before = counters(process)["lost_total"]
    with pytest.raises(axla.RuntimeFailure, match="ended") as caught:  # LLVM: no 64-bit code on this CPU
        compiled(client, target_features=("-64bit",))
    assert status_of(caught.value) == Status.UNAVAILABLE
    (line,) = until(lambda: lines(process, session=session_of(client), event="ends"))
    assert "LLVM ERROR" in line["printed"] and line["status"] == "UNAVAILABLE"
    assert counters(process)["lost_total"] == before + 1


def test_a_worker_that_is_aborted_takes_what_it_has_started_with_it(tmp_path):
    """LLVM compiles long programs in a process of its own; here all are long."""
    (tmp_path / "sitecustomize.py").write_text("import axla.cpu.compiler as c\nc.LONG_TEXT = 1\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with started(tmp_path, "--log=json", PYTHONPATH=paths) as process:
        client, errors = axla.connect(process.address), []

        def compiles():
            try:
                compiled(client)
            except axla.AxlaError as error:
                errors.append(error)

        pid, thread = worker_of(process, client), threading.Thread(target=compiles)
        thread.start()
        (helper,) = until(lambda: children(pid))
        os.kill(helper, signal.SIGSTOP)  # it would be a while
        os.kill(pid, signal.SIGABRT)
        thread.join()
        assert "ended by SIGABRT" in str(errors[0])
        until(lambda: not is_there(helper))
        assert all(map(is_there, children(process.pid)))  # no zombies


def test_a_worker_that_is_killed_before_it_has_a_client(process):
    axla.connect(process.address).backend.close()  # where none was ever ready, the server would give up
    for _ in range(5):
        for child in until(lambda: children(process.pid)):
            if not lines(process, event="begins", pid=child):
                os.kill(child, signal.SIGKILL)
                until(lambda child=child: not Path(f"/proc/{child}").exists())  # the server knows
    other = axla.connect(process.address)
    assert compiled(other)(X).tolist() == [1, 4, 9]
    assert lines(process, event="worker", session="server")
    other.backend.close()


def test_a_client_that_goes_before_its_turn_takes_no_worker(process):
    before = counters(process)["sessions_total"]
    for _ in range(30):
        hello(process).close()
    until(lambda: counters(process)["clients"] == 0)
    other = axla.connect(process.address)
    assert compiled(other)(X).tolist() == [1, 4, 9]
    other.backend.close()
    assert counters(process)["sessions_total"] < before + 15
    ends = [line for line in lines(process, event="ends") if int(line["session"][1:]) > before]
    assert not [line for line in ends if "message" in line]


def test_signals_end_the_server_at_the_second_at_once(tmp_path):
    options = "--drain=600", "--seconds=600", "--log=json", "--metrics=127.0.0.1:0"
    with started(tmp_path, *options) as process:
        program, errors = compiled(axla.connect(process.address), FOREVER), []

        def run():
            try:
                program(np.int32(0))
            except axla.AxlaError as error:
                errors.append(error)

        runner = threading.Thread(target=run)
        runner.start()
        until(lambda: counters(process)["executions_total"])
        process.send_signal(signal.SIGTERM)
        until(lambda: "shutdown" in process.text())
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        runner.join()
        assert "shut down" in str(errors[0]) and status_of(errors[0]) == Status.UNAVAILABLE


def test_a_backend_that_does_not_run_here_ends_the_server(tmp_path):
    said = pytest.raises(
        RuntimeError, match="processes do not start: axla serve: the backend opencl does not"
    )
    with said, started(tmp_path, "--backend=opencl", AXLA_OPENCL="/nowhere") as process:
        process.wait(60)
        raise RuntimeError(process.text())


# Disk and clock.


def test_a_full_disk(tmp_path):
    """No log, no cache, no dumps; programs go on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = 'mount -t tmpfs -o size=64k,nr_inodes=9 none "$0" && mkdir "$0"/cache && chmod 700 "$0"/cache'
    fill += ' && { head -c 1M /dev/zero > "$0"/fill; : ; } 2>/dev/null'
    within = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    try:
        subprocess.run([*within, fill, str(disk)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    fill += ' && exec "$@" 2>>"$0"/fill'
    places = {"AXLA_CACHE_DIR": str(disk / "cache"), "TMPDIR": str(disk)}
    with started(tmp_path, within=(*within, fill, str(disk)), **places) as process:
        client = axla.connect(process.address)
        assert compiled(client)(X).tolist() == [1, 4, 9]
        with flags.override(dump_to=str(tmp_path / "dumps")), contextlib.suppress(axla.RuntimeFailure):
            compiled(client, SQUARE.replace("square", "other"))
        assert compiled(client, SQUARE.replace("multiply", "add"))(X).tolist() == [2, 4, 6]
        client.backend.close()
    assert process.returncode == 0 and process.text() == ""


def test_a_log_that_takes_no_lines(tmp_path):
    within = ("sh", "-c", 'exec "$0" "$@" 2>/dev/full')
    with started(tmp_path, within=within) as process:
        assert compiled(axla.connect(process.address))(X).tolist() == [1, 4, 9]
    assert process.returncode == 0


def test_a_clock_that_jumps(tmp_path):
    """Limits are of time that goes by, whatever the clock says."""
    (tmp_path / "sitecustomize.py").write_text(
        "import itertools, time\n"
        "real, jumps = time.time, itertools.cycle([0, 1e9, -1e9, 3e8])\n"
        "time.time = lambda: real() + next(jumps)\n"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with started(tmp_path, "--seconds=1", "--log=json", PYTHONPATH=paths) as process:
        client = axla.connect(process.address)
        program = compiled(client)
        for n in range(50):
            assert program(X + n).tolist() == ((X + n) ** 2).tolist()
        with pytest.raises(axla.DeadlineExceeded, match="before the program ended"):
            compiled(client, FOREVER).execute([np.int32(0)], deadline=0.05)
        with pytest.raises(axla.DeadlineExceeded, match="longer than the 1 s"):
            compiled(client, FOREVER)(np.int32(0))
        times = [line["time"] for line in lines(process)]
        assert max(times) - min(times) > 1e8  # it does jump


# Limits.


def test_the_system_limits_a_worker(process, client):
    found = Path(f"/proc/{worker_of(process, client)}/limits").read_text()
    limits = {m[1].strip(): m[2] for m in re.finditer(r"^(Max .*?)  +(\S+) ", found, re.M)}
    assert limits["Max open files"] == "256" and limits["Max core file size"] == "0"
    assert 2 * (256 << 20) < int(limits["Max address space"]) < 64 << 30
    assert Path(f"/proc/{worker_of(process, client)}/oom_score_adj").read_text().strip() == "500"


def test_processor_time(tmp_path):
    with started(tmp_path, "--processor-seconds=0.5", "--log=json", "--metrics=127.0.0.1:0") as process:
        program = compiled(axla.connect(process.address), FOREVER)
        with pytest.raises(axla.OutOfMemory, match="this client has used up its processor time"):
            program(np.int32(0))
        until(lambda: lines(process, event="ends", status="RESOURCE_EXHAUSTED"))
        assert counters(process)["breaches_total"] == 1 and counters(process)["lost_total"] == 0


def test_the_time_of_a_request_begins_before_it_is_read(process):
    """Reading a request takes a hundred times the memory of its bytes, and time."""
    client = axla.connect(process.address)
    body = messages.encode("Compile", {"program": 1, "module": b"\x1a\x00" * (8 << 20)})
    for number in range(8):
        with contextlib.suppress(Exception):
            client.backend.link.transport.send(1000 + number, NUMBERS["Compile"], body)
    with pytest.raises(axla.RuntimeFailure, match="longer than the 5 s|bytes are in use"):
        while True:
            compiled(client)(X)
    found = until(lambda: lines(process, session=session_of(client), event="ends"))
    assert found[0]["status"] in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")


def test_counters_after_breaches(process):
    until(lambda: counters(process)["refused_total"])  # whoever asked whether the server is there
    before = counters(process)
    client = axla.connect(process.address)
    with pytest.raises(axla.DeadlineExceeded):
        compiled(client, FOREVER)(np.int32(0))
    with pytest.raises(axla.InvalidArgument):
        axla.connect(process.address, backend="tpu")
    until(lambda: lines(process, session=session_of(client), event="ends"))
    after = counters(process)
    changes = {
        name: after[f"{name}_total"] - before[f"{name}_total"] for name in ("breaches", "lost", "refused")
    }
    assert changes == {"breaches": 1, "lost": 0, "refused": 1}


# Clients.


def test_silent_clients_are_in_nobodys_way(process):
    silent = []
    for _ in range(100):
        silent.append(socket.socket(socket.AF_UNIX))
        silent[-1].connect(process.address.removeprefix("unix:"))
        silent[-1].send(b"\1")
    client = axla.connect(process.address)
    assert compiled(client)(X).tolist() == [1, 4, 9]
    _, kind, body = SocketTransport(silent[0]).receive(30)
    assert kind == NUMBERS["Failed"] and "too many clients" in messages.decode(kind, body)["message"]
    _, kind, body = SocketTransport(silent[-1]).receive(30)
    assert (
        kind == NUMBERS["Failed"]
        and "the first message did not arrive within 5 s" in messages.decode(kind, body)["message"]
    )
    for connection in silent:
        connection.close()
    client.backend.close()


def test_many_that_come_and_go_leave_nothing(process):
    def state():
        return len(os.listdir(f"/proc/{process.pid}/fd")), len(os.listdir(f"/proc/{process.pid}/task"))

    until(lambda: counters(process)["clients"] == 0 and len(children(process.pid)) == 1)
    before, refused = state(), counters(process)["refused_total"]
    for number in range(600):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(process.address.removeprefix("unix:"))
        connection.send(b"GET / HTTP/1.1\r\n\r\n"[: number % 19])
        connection.close()
    until(lambda: counters(process)["refused_total"] >= refused + 600)
    until(lambda: state() <= before)


def test_texts_of_clients_are_no_lines_of_the_log(process, client):
    from axla import proto

    trace = f"""ENTRY e {{ x = f32[] parameter(0)
  t = token[] custom-call(x), custom_call_target="axla.trace", custom_call_has_side_effect=true,
    backend_config={json.dumps(LINE)}
  ROOT y = f32[] add(x, x) }}"""
    assert compiled(client, trace)(np.float32(1)) == 2  # prints
    named = proto.read(proto.to_proto(axla.parse(SQUARE)).replace(b"square", LINE[:6].encode()))
    axla.compile(named, backend=client)(X)
    link = client.backend.link
    with pytest.raises(axla.AxlaError):
        link.call("Put", {"array": 1 << 40, "dtype": LINE, "dims": [1]})
    with pytest.raises(axla.InvalidArgument):
        axla.connect(process.address, backend=LINE)
    until(lambda: lines(process, session=session_of(client), program="___tim"))
    assert not lines(process, event="forged") and "\x1b" not in process.text()
    assert {line["session"] for line in lines(process)} <= {"server", *(f"s{n}" for n in range(1000))}


def test_results_of_runs_that_fail_are_nobodys(client):
    program = compiled(client, FOREVER)
    for _ in range(25):  # more than the arrays that there may be
        with pytest.raises(axla.DeadlineExceeded):
            program.execute([np.int32(0)], deadline=0.001)


def test_runs_at_once_take_no_more_than_there_is(client):
    """Each fits, and all do not: the error comes instead of the end of the session."""
    text = "ENTRY e { x = f32[] parameter(0)\n  ROOT y = f32[10000000] broadcast(x), dimensions={} }"
    program = compiled(client, text)
    kept, errors = [], []
    for n in range(12):
        (value,) = program.execute([np.float32(n)], asynchronous=True)
        kept.append(value)
    for n, value in enumerate(kept):
        try:
            value.block_until_ready()
        except axla.OutOfMemory as error:
            errors.append(n)
            assert "a run of" in str(error) and "this client may use" in str(error)
    assert errors == list(range(6, 12))
    kept.clear()
    assert compiled(client)(X).tolist() == [1, 4, 9]


# Numbers that are used again.


@pytest.fixture
def session():
    ends = socket.socketpair()
    backend = axla.backends.get("interpreter")
    made = ClientSession(SocketTransport(ends[0]), backend, ClientLimits(), Page(), lambda *facts: None)
    yield made
    for end in ends:
        end.close()


def test_an_array_that_was_released_does_not_come_back(session):
    array = axla.Client("interpreter").device_put(X)
    run: Future = Future()
    session.arrays[5] = run
    session._count(array.nbytes)
    session._release({"released": [5]})
    session._settle(5, run, array)
    assert 5 not in session.arrays and session._bytes == 0
    other: Future = Future()  # the number is used again, while the first run goes on
    session.arrays[5] = other
    session._settle(5, run := Future(), array)
    assert dict.get(session.arrays, 5) is other and run.done()


def test_slots_refuse_what_is_there():
    slots = Slots("array", 3)
    slots[2] = 1
    for numbers in (range(2, 3), range(1, 3), range(1)):
        with pytest.raises(axla.InvalidArgument, match="is in use, or less than 1"):
            slots.check(numbers)
    with pytest.raises(axla.OutOfMemory, match="a client may have 3 arrays"):
        slots.check(range(5, 8))


# Over gRPC.


def test_who_reads_no_answers_over_grpc_does_not_hold_the_end(tmp_path):
    pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")
    with started(tmp_path, "--drain=1", listen="127.0.0.1:0") as process:
        client = axla.connect(process.grpc)
        array = client.device_put(np.zeros(64 << 20, np.uint8))
        link = client.backend.link
        for number in range(4):
            body = messages.encode("Get", {"array": array.number})
            link.transport.send(1000 + number, NUMBERS["Get"], body)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        link.close()


def test_messages_that_break_off_over_grpc_are_logged(tmp_path):
    pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")
    with started(tmp_path, "--log=json", "--message=1M", listen="127.0.0.1:0") as process:
        for data in (HEADER.pack(9, 1, 7) + b"half", bytes(5 << 20), b"\0"):
            before = len(lines(process, event="stream"))
            client = axla.connect(process.grpc)
            link = client.backend.link
            link.transport._out.put(data)
            until(lambda before=before: len(lines(process, event="stream")) > before)
            link.close()
        found = [line["message"] for line in lines(process, event="stream")]
        assert "a header says 9 bytes, found 4" in found[0] and "more than" in found[1]


def test_clients_that_go_while_arrays_come_over_grpc_leave_no_window(tmp_path):
    pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")

    def windows():
        found = []
        for file in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since the folder was read
                found.append(os.readlink(file))
        return [link for link in found if "axla-window" in link]

    def read(array):
        with contextlib.suppress(axla.AxlaError):
            np.asarray(array)

    with started(tmp_path, listen="127.0.0.1:0") as process:
        for _ in range(6):
            client = axla.connect(process.grpc)
            reader = threading.Thread(target=read, args=[client.device_put(np.ones(1 << 21))])
            reader.start()
            until(lambda link=client.backend.link, of=reader: link._calls or not of.is_alive())
            client.backend.link.close()
            reader.join()
        until(lambda: not windows())
