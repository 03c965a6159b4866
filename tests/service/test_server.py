"""A server and its clients: limits, what ends a session, shutdown, the log."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.core.status import Status, status_of
from axla.service import messages
from axla.service.messages import NUMBERS, VERSION
from axla.service.transport import HEADER, Closed, SocketTransport
from sample_modules import FOREVER
from service_server import ENVIRONMENT, SQUARE, X, compiled, counters, lines, started, until

LARGE = (
    "HloModule large\nENTRY e { x = f32[] parameter(0)\n  ROOT y = f32[SIZE] broadcast(x), dimensions={} }"
)


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A server with tight limits."""
    limits = {"memory": "256M", "message": "1M", "arrays": 20, "programs": 3, "seconds": 5, "clients": 8}
    given = [f"--{name}={value}" for name, value in limits.items()]
    with started(tmp_path_factory.mktemp("tight"), *given, "--log", "json") as found:
        yield found


@pytest.fixture
def client(process):
    made = axla.connect(process.address)
    yield made
    made.backend.close()


def first_message(address, **hello):
    """A connection that has said something, and the answer."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(address.removeprefix("unix:"))
    transport = SocketTransport(sock)
    transport.send(0, NUMBERS["Hello"], messages.encode("Hello", {"version": VERSION, **hello}))
    return transport, transport.receive(30)


def worker_of(process, client):
    """The process that serves a client."""
    session = client.backend.link.welcome["session"]
    until(lambda: lines(process, session=session, event="begins"))
    return lines(process, session=session, event="begins")[0]["pid"]


def ends_with(client, program, kind, status, match):
    with pytest.raises(kind, match=match) as caught:
        program(X)
    assert status_of(caught.value) == status
    with pytest.raises(kind, match=match):  # what comes afterwards fails likewise
        client.device_put(X)


# Programs and arrays.


def test_results_stay_on_the_server(client):
    program, value = compiled(client), client.device_put(X)
    for _ in range(2):
        value = program(value)
    assert value.elsewhere and value.tolist() == [1, 16, 81]
    with axla.profile() as profile:
        program(value)
    assert [run.backend for run in profile.runs] == ["remote"] and "multiply" in program.as_text(
        "llvm"
    ) + program.as_text()


def test_arrays_of_two_servers_and_of_this_process(client, process):
    other = axla.connect(process.address)
    value = compiled(client)(other.device_put(X))
    assert compiled(other)(value).tolist() == [1, 16, 81]
    assert axla.compile(axla.parse(SQUARE))(value).tolist() == [1, 16, 81]
    other.backend.close()


def test_large_arrays_there_and_back(client):
    values = np.random.default_rng(0).random((3000, 3001))
    array = client.device_put(values)
    np.testing.assert_array_equal(array.to_numpy(), values)


def test_errors_have_the_lines_of_the_client(client, tmp_path):
    file = tmp_path / "model.hlo"
    file.write_text(SQUARE.replace("multiply(x, x)", 'custom-call(x), custom_call_target="mine"'))
    with pytest.raises(axla.UnsupportedError, match=r"model.hlo.*own custom calls, found 'mine'"):
        axla.compile(axla.parse(file), backend=client)


@pytest.mark.parametrize("flag", ["cache_dir", "opencl"])
def test_flags_of_the_server_are_refused(client, flag):
    with pytest.raises(axla.UnsupportedError, match=f"only the server can set the flag {flag}"):
        compiled(client, flags={flag: "/tmp/x"})


def test_flags_of_the_client_go_with_its_programs(client):
    module = axla.parse("HloModule m\nENTRY e { x = f32[3] parameter(0)\n  ROOT y = f32[3] subtract(x, x) }")
    for fast in (False, True):
        with flags.override(fast_math=fast, num_threads=1):  # which is the server's
            program = axla.compile(module, backend=client)
        assert ("subtract" in program.as_text("optimized")) is not fast


def test_dumps_come_to_the_client(client, tmp_path):
    with flags.override(dump_to=str(tmp_path / "dumps"), dump_hlo_as_dot=True):
        compiled(client)
    names = [path.name for path in (tmp_path / "dumps").iterdir()]
    assert any(name.endswith(".dot") for name in names)


def test_a_fork_does_not_use_the_connection_of_its_parent(client):
    program = compiled(client)
    pid = os.fork()
    if pid == 0:
        try:
            program(X)
        except axla.AxlaError as error:
            os._exit(7 if "not in a fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert program(X).tolist() == [1, 4, 9]


# Limits of what is asked for.


def test_memory(client):
    with pytest.raises(axla.OutOfMemory, match="this client may use"):
        client.device_put(np.zeros(300 << 20, np.uint8))
    with pytest.raises(axla.OutOfMemory, match="a run of large takes"):
        compiled(client, LARGE.replace("SIZE", str(100 << 20)))(np.float32(1))
    assert compiled(client)(X).tolist() == [1, 4, 9]


def test_numbers_of_arrays_and_programs(client):
    kept = [client.device_put(X) for _ in range(20)]
    with pytest.raises(axla.OutOfMemory, match="may have 20 arrays"):
        client.device_put(X)
    del kept
    programs = [compiled(client) for _ in range(3)]
    with pytest.raises(axla.OutOfMemory, match="may have 3 programs"):
        compiled(client)
    del programs
    assert compiled(client)(X).tolist() == [1, 4, 9]


def test_a_message_that_is_too_long(client):
    text = "ENTRY e { ROOT c = f32[400000] constant({" + ", ".join(["1"] * 400000) + "}) }"
    with pytest.raises(axla.InvalidArgument, match="a message of 16.* bytes; at most 1048576"):
        compiled(client, text)
    assert compiled(client)(X).tolist() == [1, 4, 9]


def test_a_message_that_is_too_long_for_the_server_ends_the_session(client):
    with contextlib.suppress(Closed):
        client.backend.link.transport.send(5, NUMBERS["Text"], bytes(2 << 20))
    with pytest.raises(axla.AxlaError, match="a message of 2097152 bytes; at most 1048576|lost"):
        compiled(client)


def test_no_more_clients_than_there_may_be(tmp_path):
    with started(tmp_path, "--clients", "2", "--log", "none") as process:
        found = [axla.connect(process.address) for _ in range(2)]
        with pytest.raises(axla.OutOfMemory, match="there are already 2 clients"):
            axla.connect(process.address)
        found.pop().backend.close()

        def comes() -> bool:
            with contextlib.suppress(axla.OutOfMemory):
                found.append(axla.connect(process.address))
            return len(found) == 2

        until(comes)
        assert compiled(found[1])(X).tolist() == [1, 4, 9]
        assert process.text() == ""


# What ends a session.


def test_a_request_that_takes_too_long(client, process):
    program = compiled(client, FOREVER)
    with pytest.raises(axla.DeadlineExceeded, match="longer than the 5 s of this server"):
        program(np.int32(0))
    session = client.backend.link.welcome["session"]
    until(lambda: lines(process, session=session, event="ends", status="DEADLINE_EXCEEDED"))


def test_a_worker_that_is_killed(client, process):
    other = axla.connect(process.address)
    mine, theirs, value = compiled(client), compiled(other), client.device_put(X)
    os.kill(worker_of(process, client), signal.SIGKILL)
    ends_with(client, mine, axla.RuntimeFailure, Status.UNAVAILABLE, "ended by SIGKILL")
    with pytest.raises(axla.RuntimeFailure, match="SIGKILL"):
        value.to_numpy()
    assert theirs(X).tolist() == [1, 4, 9]
    other.backend.close()


def test_a_profile_of_others_when_a_server_has_gone(tmp_path):
    with started(tmp_path) as server:
        program = compiled(axla.connect(server.address))
        server.kill()
    here = axla.compile(axla.parse(SQUARE))
    with axla.profile() as profile:
        here(X)
    assert [run.program for run in profile.runs] == ["square"]
    del program


def test_a_worker_that_takes_too_much_memory(tmp_path):
    """Compiling takes memory that nobody can foresee."""
    module = axla.parse(LARGE.replace("SIZE", "8"))
    with started(tmp_path, "--memory", "2M", "--log", "json") as process:
        client = axla.connect(process.address)
        with pytest.raises(axla.OutOfMemory, match="bytes are in use; the limit of this server is 2097152"):
            while True:
                axla.compile(module, backend=client)
        until(lambda: lines(process, event="ends", status="RESOURCE_EXHAUSTED"))


def test_a_client_that_goes_takes_its_worker_with_it(process):
    client = axla.connect(process.address)
    compiled(client)(X)
    pid = worker_of(process, client)
    client.backend.close()
    until(lambda: not Path(f"/proc/{pid}").exists())
    until(lambda: lines(process, session=client.backend.link.welcome["session"], event="ends"))


def test_a_killed_client_takes_its_worker_with_it(process):
    code = f"""import axla, os
client = axla.connect({process.address!r})
print(client.backend.link.welcome["session"], flush=True)
os.kill(os.getpid(), 9)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    session = done.stdout.strip()
    until(lambda: lines(process, session=session, event="ends"))


def test_a_killed_server_takes_its_workers_with_it(tmp_path):
    with started(tmp_path, "--log", "json") as process:
        client = axla.connect(process.address)
        program, pid = compiled(client), worker_of(process, client)
        process.kill()
        process.wait()
        until(
            lambda: (
                not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
            )
        )
        with pytest.raises(axla.RuntimeFailure, match="connection to the server is lost") as caught:
            program(X)
        assert status_of(caught.value) == Status.UNAVAILABLE
    with pytest.raises(axla.RuntimeFailure, match="there is no server"):
        axla.connect(process.address)
    with started(tmp_path) as process:  # the socket that is left is in nobody's way
        assert compiled(axla.connect(process.address))(X).tolist() == [1, 4, 9]


def test_shutdown_ends_requests_first(tmp_path):
    with started(tmp_path, "--drain=1", "--log=json", "--metrics=127.0.0.1:0") as process:
        client, other = axla.connect(process.address), axla.connect(process.address)
        program, errors = compiled(client, FOREVER), []

        def run():
            try:
                program(np.int32(0))
            except axla.AxlaError as error:
                errors.append(error)

        runner = threading.Thread(target=run)
        runner.start()
        until(lambda: counters(process)["executions_total"])
        process.send_signal(signal.SIGTERM)
        with pytest.raises(axla.AxlaError, match="shut|lost"):
            while True:
                compiled(other)
        runner.join()
        assert process.wait(30) == 0
        assert "shut down" in str(errors[0]) and status_of(errors[0]) == Status.UNAVAILABLE
        assert lines(process, event="shutdown")


# Who may come in.


def test_what_is_no_first_message(process):
    for data in (b"GET / HTTP/1.1\r\n\r\n" * 20, HEADER.pack(1 << 30, 0, 0), HEADER.pack(2, 0, 5) + b"ab"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(process.address.removeprefix("unix:"))
        sock.send(data)
        _, kind, body = SocketTransport(sock).receive(30)
        assert kind == NUMBERS["Failed"] and "service" in str(messages.error_of(messages.decode(kind, body)))


def test_another_version_and_another_backend(process):
    for hello, said in (({"version": 99}, "has protocol version 99"), ({"backend": "tpu"}, "there are cpu")):
        _, (_, kind, body) = first_message(process.address, **hello)
        assert kind == NUMBERS["Failed"] and said in str(messages.error_of(messages.decode(kind, body)))


def test_tokens(tmp_path):
    (tmp_path / "tokens").write_text("secret\nother\n")
    with started(tmp_path, "--token-file", str(tmp_path / "tokens")) as process:
        for wrong in ("", "secre", "secret\n"):
            with pytest.raises(axla.InvalidArgument, match="the token is missing or wrong"):
                axla.connect(process.address, token=wrong)
        assert compiled(axla.connect(process.address, token="other"))(X).tolist() == [1, 4, 9]
        assert "UNAUTHENTICATED" in process.text() and "secret" not in process.text()


def test_the_socket_is_its_owners(process):
    assert os.stat(process.address.removeprefix("unix:")).st_mode & 0o777 == 0o600


def test_addresses_that_are_none(tmp_path):
    for wrong in ("", "nowhere", 3, None):
        with pytest.raises(axla.InvalidArgument, match="wanted unix:/path"):
            axla.connect(wrong)  # type: ignore[arg-type]
    with pytest.raises(axla.RuntimeFailure, match="no server at unix:/nowhere"):
        axla.connect("unix:/nowhere")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "silent"))
    listener.listen()
    with pytest.raises(axla.DeadlineExceeded, match="has not answered in 0.05 s"):
        axla.connect(f"unix:{tmp_path}/silent", timeout=0.05)


# The log.


def test_a_line_for_each_request(client, process):
    session = client.backend.link.welcome["session"]
    program = compiled(client)
    program(X)
    with pytest.raises(axla.AxlaError):
        compiled(client, LARGE.replace("SIZE", str(100 << 20)))(np.float32(1))
    until(lambda: lines(process, session=session, request="Execute", status="RESOURCE_EXHAUSTED"))
    until(lambda: len(lines(process, session=session, request="Compile")) == 2)
    (line,) = [line for line in lines(process, session=session, request="Execute") if "status" not in line]
    assert line["program"] == "square" and line["ms"] >= 0


def test_nothing_comes_from_the_working_directory(tmp_path):
    (tmp_path / "numpy.py").write_text("raise SystemExit('the working directory is not to be imported from')")
    with started(tmp_path, within=("env", "-C", str(tmp_path))) as server:
        assert compiled(axla.connect(server.address))(X).tolist() == [1, 4, 9]
