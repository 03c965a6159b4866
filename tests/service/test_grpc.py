"""Clients over gRPC: the backend, arrays in pieces, certificates, tokens, addresses; and the counters."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc", reason="grpcio (axla[service]) is not installed")

import axla
from axla.core.status import Status, status_of
from axla.service.messages import NUMBERS
from axla.service.over_grpc import GrpcTransport
from axla.service.transport import Closed
from sample_modules import FOREVER
from service_server import SQUARE, X, compiled, started


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    limits = ["--message", "1M", "--seconds", "5", "--metrics", "127.0.0.1:0"]
    with started(tmp_path_factory.mktemp("grpc"), *limits, listen="127.0.0.1:0") as found:
        yield found


@pytest.fixture
def client(process):
    made = axla.connect(process.grpc)
    yield made
    made.backend.close()


def test_programs_and_arrays(client):
    program = compiled(client)
    assert program(X).tolist() == [1, 4, 9]
    values = np.random.default_rng(0).random((1500, 2001))
    array = client.device_put(values)
    np.testing.assert_array_equal(array.to_numpy(), values)
    (found,) = program.execute([client.device_put(X)], asynchronous=True)
    assert found.block_until_ready(30).tolist() == [1, 4, 9]


def test_several_clients_and_both_ways(process):
    others = [axla.connect(address) for address in (process.grpc, process.address, process.grpc)]
    programs = [compiled(other) for other in others]
    for n in range(20):
        assert [program(X + n).tolist() for program in programs] == [((X + n) ** 2).tolist()] * 3
    for other in others:
        other.backend.close()


def test_errors_arrive_as_their_class(client):
    with pytest.raises(axla.InvalidArgument, match=r"parameter 0 \(x\)"):
        compiled(client)(X[:2])
    with pytest.raises(axla.UnsupportedError, match="only the server can set the flag opencl"):
        axla.compile(axla.parse(SQUARE), backend=client, flags={"opencl": "/tmp/x"})
    with pytest.raises(axla.DeadlineExceeded):
        compiled(client, FOREVER).execute([np.int32(0)], deadline=0.05)


def test_why_a_session_has_ended(client):
    with pytest.raises(axla.DeadlineExceeded, match="longer than the 5 s of this server"):
        compiled(client, FOREVER)(np.int32(0))


def test_a_worker_that_is_killed(process, client):
    program = compiled(client)
    session = client.backend.link.welcome["session"]
    pid = int(re.search(rf'{session} event="begins".* pid=(\d+)', process.text())[1])
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(axla.RuntimeFailure, match="ended by SIGKILL") as caught:
        program(X)
    assert status_of(caught.value) == Status.UNAVAILABLE


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"\1\0\0\0\0\0\0\0\0", os.urandom(300), bytes(2 << 20)])
def test_messages_that_are_none(process, data):
    transport = GrpcTransport(process.grpc)
    transport._out.put(data)
    with pytest.raises(Closed):
        while (message := transport.receive(30)) is not None:
            assert message[1] == NUMBERS["Failed"]
    transport.close()
    other = axla.connect(process.grpc)
    assert compiled(other)(X).tolist() == [1, 4, 9]
    other.backend.close()


def test_counters(process, client):
    compiled(client)(X)
    port = re.search(r'event="metrics" port=(\d+)', process.text())[1]
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(found["axla_service_executions_total"]) >= 1 and int(found["axla_service_clients"]) >= 1
    assert "# TYPE axla_service_requests_total counter" in text and "# TYPE axla_service_arrays gauge" in text


# Who may come in.


AUTHORITY = """
[ca]
default_ca = here
[here]
database = index
new_certs_dir = .
serial = serial
default_md = sha256
policy = names
copy_extensions = copy
[names]
commonName = supplied
"""


def certificate(folder: Path, first: str = "20200101", last: str = "20600101") -> tuple[list[str], str]:
    """Options with a key and a certificate for this machine, which signs itself; the certificate's file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    folder.mkdir(exist_ok=True)
    for name, text in (("authority", AUTHORITY), ("index", ""), ("serial", "01")):
        (folder / name).write_text(text)
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    for command in (
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout key "
        f"-out request -addext {names}",
        "ca -batch -notext -config authority -selfsign -keyfile key -in request -out certificate "
        f"-startdate {first}000000Z -enddate {last}000000Z",
    ):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True, cwd=folder)
    file = str(folder / "certificate")
    return ["--certificate", file, "--key", str(folder / "key")], file


def test_certificates_and_tokens(tmp_path):
    (tmp_path / "tokens").write_text("secret")
    options, root = certificate(tmp_path / "mine")
    options += ["--token-file", str(tmp_path / "tokens")]
    with started(tmp_path, *options, listen="127.0.0.1:0") as process:
        client = axla.connect(process.grpc, token="secret", root_certificate=root)
        assert compiled(client)(X).tolist() == [1, 4, 9]
        with pytest.raises(axla.InvalidArgument, match="token is missing or wrong"):
            axla.connect(process.grpc, token="wrong", root_certificate=root)
        for other in ("", certificate(tmp_path / "other")[1]):  # no TLS where it is demanded; not our server
            with pytest.raises(axla.RuntimeFailure, match="there is no server") as caught:
                axla.connect(process.grpc, token="secret", root_certificate=other)
            assert status_of(caught.value) == Status.UNAVAILABLE


def test_an_expired_certificate(tmp_path):
    options, root = certificate(tmp_path / "mine", last="20200102")
    with started(tmp_path, *options, listen="127.0.0.1:0") as process:
        with pytest.raises(axla.RuntimeFailure, match="there is no server"):
            axla.connect(process.grpc, root_certificate=root)
        assert compiled(axla.connect(process.address))(X).tolist() == [1, 4, 9]  # the socket has none


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:0", "example.org:0", "[::]:0"])
def test_addresses_of_others_want_certificate_and_token(tmp_path, address):
    said = pytest.raises(RuntimeError, match="is open to other machines: wanted --certificate")
    with said, started(tmp_path, listen=address):
        pass


def test_a_server_that_has_gone(tmp_path):
    with started(tmp_path, listen="127.0.0.1:0") as process:
        client = axla.connect(process.grpc)
        program = compiled(client)
        process.kill()
        process.wait()
        with pytest.raises(axla.RuntimeFailure) as caught:
            program(X)
        assert status_of(caught.value) == Status.UNAVAILABLE
    with pytest.raises(axla.AxlaError, match="there is no server|has not answered"):
        axla.connect(process.grpc, timeout=5)
