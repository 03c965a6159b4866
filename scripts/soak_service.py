"""A server under attack: `scripts/soak service` starts `axla serve` and eight clients, each in a process.

Four good clients use the socket and two use gRPC: they compile, run, keep arrays on the server, and check
every result. A hostile client on each transport makes random attacks from ATTACKS, and prints, for each
breach, the line that the log of the server must have. Meanwhile the memory of the supervisor is measured; at
the end its descriptors, threads and processes, its counters against its log, and its exit code are checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from soak_runs import Failed, expected, program_text

import axla
from axla import proto
from axla.service import messages
from axla.service.link import Link, opened
from axla.service.messages import NUMBERS, VERSION
from axla.service.transport import HEADER, Closed, SocketTransport, whole

TOKEN = "soak"
MESSAGE, MEMORY, SECONDS, CLIENTS = 4 << 20, 512 << 20, 10, 16
"""The limits of the server: bytes of a message, bytes of memory, seconds of a request, clients."""
FREE = 1 << 20
"""The first of the numbers of calls that a link does not use."""
SQUARE = "HloModule square\nENTRY e { x = f32[3] parameter(0)\n  ROOT y = f32[3] multiply(x, x) }"
LARGE = "ENTRY e { x = f32[] parameter(0)\n  ROOT y = f32[268435456] broadcast(x), dimensions={} }"
FOREVER = """HloModule forever
body { x = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT y = s32[] add(x, one) }
always { x = s32[] parameter(0)
  ROOT t = pred[] constant(true) }
ENTRY e { x = s32[] parameter(0)
  ROOT w = s32[] while(x), condition=always, body=body }"""
FORGED = '\n{"time": 1, "session": "s0", "event": "forged"}\n\x1b[2J'
STRANGE = 'ENTRY e { x = f32[] parameter(0)\n  ROOT y = f32[] custom-call(x), custom_call_target="mine" }'
TRACE = f"""ENTRY e {{ x = f32[] parameter(0)
  t = token[] custom-call(x), custom_call_target="axla.trace", custom_call_has_side_effect=true,
    backend_config={json.dumps(FORGED)}
  ROOT y = f32[] add(x, x) }}"""
X = np.float32([1, 2, 3])


# The server.


class Server(subprocess.Popen):
    """A process of `axla serve` with a socket and gRPC."""

    addresses: tuple[str, str]
    log: Path
    metrics: int

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the log. Raises Failed if one is invalid."""
        text = self.log.read_text()
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            raise Failed(f"a line of the log is none: {error}: {text[-3000:]}") from None

    def counters(self) -> dict[str, int]:
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=30).read().decode()
        found = re.findall(r"^axla_service_(\w+?)(?:_total)? (\d+)$", text, re.M)
        return {name: int(value) for name, value in found}


@contextlib.contextmanager
def started(**limits: Any) -> Iterator[Server]:
    """Starts a server, and stops it at the end. Raises Failed if its exit code is not 0."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokens").write_text(TOKEN)
        path, log = f"{folder}/socket", Path(folder, "log")
        command = [sys.executable, "-m", "axla", "serve", "--socket", path, "--listen", "127.0.0.1:0"]
        command += ["--token-file", f"{folder}/tokens", "--log", "json", "--metrics", "127.0.0.1:0"]
        command += [f"--{name}={value}" for name, value in limits.items()]
        paths = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": paths, "AXLA_CACHE_DIR": "", "TMPDIR": folder}
        with log.open("ab") as file:
            server = Server(command, stderr=file, env=environment, stdin=subprocess.DEVNULL)
        server.log, ports = log, {}
        try:
            while len(ports) < 2:
                if server.poll() is not None:
                    raise Failed(log.read_text())
                time.sleep(0.05)
                ports = {line["event"]: line["port"] for line in server.lines() if "port" in line}
            server.addresses, server.metrics = (
                (f"unix:{path}", f"127.0.0.1:{ports['listens']}"),
                ports["metrics"],
            )
            yield server
            server.send_signal(signal.SIGTERM)
            if server.wait(60):
                raise Failed(f"the server ended with {server.returncode}: {log.read_text()[-2000:]}")
        finally:
            server.kill()
            server.wait()


def state_of(process: int) -> tuple[float, int, int, int]:
    """(MiB of private memory, descriptors, threads, zombie processes). Memory of files and of the shared
    windows of streams is not counted.
    """
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    memory = int(found[1]) / 1024 if found else 0.0
    threads, zombies = os.listdir(f"/proc/{process}/task"), 0
    for child in children(process):
        with contextlib.suppress(OSError):
            zombies += Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return memory, len(os.listdir(f"/proc/{process}/fd")), len(threads), zombies


def children(process: int) -> list[str]:
    """The ids of the processes that a process has started."""
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += file.read_text().split()
    return found


# Good clients.


class Good:
    """A client that checks its results."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self.random, self.done = address, random.Random(seed), Counter[str]()
        self.values, self.slowest = np.random.default_rng(seed), 0.0
        self.client, self.program = self.connected()

    def connected(self) -> tuple[Any, Any]:
        """Connects to the server, which may be full for a while."""
        end = time.monotonic() + 120
        while True:
            try:
                client = axla.connect(self.address, token=TOKEN, timeout=60)
                return client, axla.compile(axla.parse(SQUARE), backend=client)
            except axla.OutOfMemory:
                self.done["full"] += 1
                if time.monotonic() > end:
                    raise
            except axla.RuntimeFailure as error:  # from gRPC: it has no free stream
                if "Concurrent" not in str(error) or time.monotonic() > end:
                    raise
                self.done["full"] += 1
            time.sleep(0.2)

    def work(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin, kind = time.monotonic(), self.random.choice([self.call, self.call, self.compile, self.copy,
                self.chain, self.fail, self.inside])  # fmt: skip
            kind()
            self.slowest = max(self.slowest, time.monotonic() - begin)
            self.done[kind.__name__] += 1
            if self.random.random() < 0.01:
                self.client.backend.close()
                self.client, self.program = self.connected()

    def check(self, found: Any, wanted: Any) -> None:
        if not np.array_equal(np.asarray(found), wanted):
            raise Failed(f"{found}, wanted {wanted}")

    def call(self) -> None:
        for n in range(20):
            self.check(self.program(X + n), (X + n) ** 2)

    def compile(self) -> None:
        number = self.random.randrange(1000)
        program = axla.compile(axla.parse(program_text(number)), backend=self.client)
        n, m = number % 13 + 2, number % 7 + 3
        x = np.linspace(-1, 1, n * m, dtype=np.float32).reshape(n, m)
        for a, e in zip(program(x), expected(number, x), strict=True):
            if not np.allclose(np.asarray(a), e, rtol=1e-4, atol=1e-3):
                raise Failed(f"program {number} gives {np.asarray(a)}, wanted {e}")

    def copy(self) -> None:
        values = self.values.integers(0, 255, self.random.choice([0, 1, 1000, 3 << 20]), np.uint8)
        self.check(self.client.device_put(values), values)

    def chain(self) -> None:
        """Runs a program several times on its own results, before these are ready."""
        value, wanted = self.client.device_put(X), X
        for _ in range(5):
            (value,) = self.program.execute([value], asynchronous=True)
            wanted = wanted * wanted
        self.check(value, wanted)

    def fail(self) -> None:
        try:
            self.program(X[:2])
        except axla.InvalidArgument:
            return
        raise Failed("an argument of another shape was taken")

    def inside(self) -> None:
        self.check("multiply" in self.program.as_text("optimized"), True)


# Hostile clients.


class Hostile:
    """A client that breaks rules. `wanted` counts the lines that the log must have, each as facts in JSON."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self.random, self.done = address, random.Random(seed), Counter[str]()
        self.wanted = Counter[str]()
        self.socket = address.startswith("unix:")

    def work(self, seconds: float) -> None:
        end, left = time.monotonic() + seconds, list[Callable[[], None]]()
        while time.monotonic() < end:
            left = left or self.random.sample(ATTACKS, len(ATTACKS))
            attack = left.pop()
            with contextlib.suppress(
                Closed, axla.AxlaError, OSError
            ):  # of connections: the server is full, or has ended the session
                attack(self)
                self.done[attack.__name__] += 1

    def want(self, link: Link | None = None, **facts: Any) -> None:
        if link is not None:
            facts["session"] = link.welcome["session"]
        self.wanted[json.dumps(facts, sort_keys=True)] += 1

    @contextlib.contextmanager
    def session(self) -> Iterator[Link]:
        link = opened(self.address, token=TOKEN, timeout=60)
        self.want(link, event="begins")
        self.want(link, event="ends")
        try:
            yield link
        finally:
            link.close()

    def client(self, link: Link) -> Any:
        from axla.service.remote import RemoteBackend

        return RemoteBackend(link).client

    def raw(self, link: Link, data: bytes) -> None:
        """Sends bytes that may not be a message."""
        transport: Any = link.transport
        transport.socket.sendall(data) if self.socket else transport._out.put(data)

    def lost(self, link: Link) -> None:
        """Waits until the server has ended the session."""
        with contextlib.suppress(axla.AxlaError):
            while True:
                link.call("Text", {"program": 1 << 40})

    # The attacks.

    def oversize(self) -> None:
        with self.session() as link:
            if self.socket:
                self.raw(link, HEADER.pack(self.random.randrange(MESSAGE + 1, 1 << 32), 1, 7))
                self.want(link, request="message", status="INVALID_ARGUMENT")
            else:
                self.raw(link, whole(1, 7, bytes(MESSAGE + (1 << 20))))
                self.want(event="stream")
            self.lost(link)

    def no_messages(self) -> None:
        """Sends random bytes. Over gRPC, a message always has its real length."""
        with self.session() as link:
            data = bytearray(self.random.randbytes(self.random.randrange(9, 5000)))
            data[:4] = b"\xff\xff\xff\xff"
            self.raw(link, bytes(data))
            self.want(
                **(
                    {"session": link.welcome["session"], "request": "message"}
                    if self.socket
                    else {"event": "stream"}
                )
            )
            self.lost(link)

    def malformed(self) -> None:
        """Sends bodies that are not protocol buffers, or that name objects which do not exist."""
        with self.session() as link:
            for kind in ("Compile", "Execute", "Parallel", "Put", "Get", "Text", "Cancel", "Profile"):
                body = self.random.randbytes(self.random.randrange(1, 300)) + b"\xff"
                link.transport.send(FREE, NUMBERS[kind], body)
                self.want(link, request=kind, status="INVALID_ARGUMENT")
            for kind in (90, 255):
                link.transport.send(FREE, kind, b"")
                self.want(link, request=f"kind {kind}", status="INVALID_ARGUMENT")
            self.synchronise(link)

    def synchronise(self, link: Link) -> None:
        """Waits until the server has read everything that was sent."""
        with contextlib.suppress(axla.InvalidArgument):
            link.call("Text", {"program": 1 << 40})

    def bomb(self) -> None:
        """Sends protocol buffers that need many times their size in memory."""
        nested = b""
        for _ in range(3000):
            nested = b"\x1a" + proto.wire.number_bytes(len(nested)) + nested
        with self.session() as link:
            for module in (
                nested,
                b"\x1a\x00" * (MESSAGE // 2 - 100),
                b"\x22" + proto.wire.number_bytes(MESSAGE - 100) + b"\1" * (MESSAGE - 100),
            ):
                for number in range(3):
                    body = messages.encode("Compile", {"program": number + 1, "module": module})
                    link.transport.send(FREE + number, NUMBERS["Compile"], body[:MESSAGE])
            self.lost_or_done(link)

    def lost_or_done(self, link: Link) -> None:
        with contextlib.suppress(axla.AxlaError):
            link.call("Text", {"program": 1 << 40})

    def half(self) -> None:
        """Sends a part of a message or of an array, and no more."""
        with self.session() as link:
            if self.random.random() < 0.5 and self.socket:
                self.raw(link, HEADER.pack(1000, 1, 7) + b"half")
            else:
                link.transport.send(
                    FREE, NUMBERS["Put"], messages.encode("Put", {"array": 1, "dtype": "f32", "dims": [1000]})
                )
            time.sleep(self.random.random())

    def disconnect(self) -> None:
        """Disconnects during a request."""
        with self.session() as link:
            client = self.client(link)
            request = {
                "program": 1,
                "module": proto.to_proto(axla.parse(program_text(self.random.randrange(1000)))),
            }
            link.transport.send(FREE, NUMBERS["Compile"], messages.encode("Compile", request))
            with contextlib.suppress(axla.AxlaError):
                axla.compile(axla.parse(SQUARE), backend=client).execute([X], asynchronous=True)
            time.sleep(self.random.random() * 0.2)

    def flood(self) -> None:
        """Sends many requests, and never reads the answers."""
        with self.session() as link:
            if self.socket:
                link.transport.stuck = self._give_up
            with contextlib.suppress(StopIteration):
                for number in range(5000):
                    link.transport.send(
                        FREE + number % 50, NUMBERS["Text"], messages.encode("Text", {"program": 1})
                    )
            self.want(link, request="Text", status="INVALID_ARGUMENT")
            time.sleep(0.5)

    def _give_up(self) -> None:
        raise StopIteration

    def come_and_go(self) -> None:
        """Makes connections that send nothing or half a message, or that close before they are served."""
        made = []
        for _ in range(30):
            if not self.socket:
                with contextlib.suppress(axla.AxlaError):
                    opened(self.address, token=TOKEN, timeout=0.001)
                continue
            connection = socket.socket(socket.AF_UNIX)
            made.append(connection)
            connection.settimeout(5)
            connection.connect(self.address.removeprefix("unix:"))
            hello = messages.encode("Hello", {"version": VERSION, "token": TOKEN})
            data = HEADER.pack(len(hello), 0, NUMBERS["Hello"]) + hello
            connection.send(data[: self.random.choice([1, 8, 12, len(data)])])
        for connection in made:
            connection.close()
        if self.socket:
            self.want(event="refused")

    def silent(self) -> None:
        """Makes a connection that never sends its first message: the server must end it."""
        if not self.socket:
            return
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(self.address.removeprefix("unix:"))
            connection.send(b"\1")
            SocketTransport(connection).receive(60)
            self.want(event="refused")

    def wrong_token(self) -> None:
        with contextlib.suppress(axla.InvalidArgument):
            opened(self.address, token="wrong", timeout=60)
            raise Failed("a wrong token was taken")
        self.want(event="refused", status="UNAUTHENTICATED")

    def forever(self) -> None:
        with self.session() as link:
            program = axla.compile(axla.parse(FOREVER), backend=self.client(link))
            with contextlib.suppress(axla.DeadlineExceeded):
                program(np.int32(0))
            self.want(link, event="ends", status="DEADLINE_EXCEEDED")

    def crash(self) -> None:
        """Makes the worker crash: LLVM ends a process that compiles for this CPU without the feature
        64bit.
        """
        with self.session() as link:
            with contextlib.suppress(axla.RuntimeFailure):
                axla.compile(axla.parse(SQUARE), backend=self.client(link), target_features=("-64bit",))
            self.want(link, event="ends", status="UNAVAILABLE")

    def memory(self) -> None:
        with self.session() as link:
            client = self.client(link)
            with contextlib.suppress(axla.OutOfMemory):
                client.device_put(np.empty(MEMORY + 1, np.uint8))
            self.want(link, request="Put", status="RESOURCE_EXHAUSTED")
            program = axla.compile(axla.parse(LARGE), backend=client)
            with contextlib.suppress(axla.OutOfMemory):
                program(np.float32(1))
            self.want(link, request="Execute", status="RESOURCE_EXHAUSTED")

    def eat(self) -> None:
        """Uses memory that is not counted in advance: that for reading programs."""
        body = messages.encode("Compile", {"program": 1, "module": b"\x1a\x00" * (MESSAGE // 2 - 100)})
        with self.session() as link:
            for number in range(12):
                with contextlib.suppress(Closed):
                    link.transport.send(FREE + number, NUMBERS["Compile"], body)
            with contextlib.suppress(axla.AxlaError):
                link.until(lambda: link._lost, 60)
            self.lost_or_done(link)
            if not isinstance(link._lost, axla.OutOfMemory | axla.DeadlineExceeded):
                raise Failed(f"a client could eat memory: {link._lost}")
            self.want(link, event="ends", status=messages.code_of(link._lost).name)

    def forge(self) -> None:
        """Sends texts that look like lines of the log."""
        with self.session() as link:
            client = self.client(link)
            data = proto.to_proto(axla.parse(SQUARE)).replace(b"square", FORGED[:6].encode())
            link.transport.send(
                FREE, NUMBERS["Compile"], messages.encode("Compile", {"program": 9, "module": data})
            )
            axla.compile(axla.parse(TRACE), backend=client)(np.float32(1))
            module = proto.to_proto(axla.parse(STRANGE))
            link.transport.send(
                FREE + 1, NUMBERS["Compile"], messages.encode("Compile", {"program": 8, "module": module})
            )
            self.want(link, request="Compile", status="UNIMPLEMENTED")
            self.synchronise(link)
            time.sleep(0.5)

    def scribble(self) -> None:
        """Writes into the shared memory while the server reads it."""
        with self.session() as link:
            if not self.socket:
                return
            transport: Any = link.transport
            over = threading.Event()

            def write() -> None:
                while not over.is_set():
                    transport._mine[:] = self.random.randrange(256)

            writer = threading.Thread(target=write)
            writer.start()
            with contextlib.suppress(axla.AxlaError):
                self.client(link).device_put(np.zeros(5 << 20, np.uint8)).to_numpy()
            over.set()
            writer.join()


ATTACKS = (
    Hostile.oversize, Hostile.no_messages, Hostile.malformed, Hostile.bomb, Hostile.half, Hostile.disconnect,
    Hostile.flood, Hostile.come_and_go, Hostile.silent, Hostile.wrong_token, Hostile.forever, Hostile.crash,
    Hostile.memory, Hostile.eat, Hostile.forge, Hostile.scribble,
)  # fmt: skip


# The processes.


def client(kind: str, address: str, seconds: float, seed: int) -> None:
    """Runs a client process; prints what it did."""
    threads, errors, works = [], [], []

    def run(number: int) -> None:
        try:
            work = (Good if kind == "good" else Hostile)(address, seed * 10 + number)
            works.append(work)
            work.work(seconds)
        except BaseException:
            errors.append(traceback.format_exc())

    for number in range(1 if kind == "good" else 3):
        threads.append(threading.Thread(target=run, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    report = {"errors": errors, "done": sum((w.done for w in works), Counter())}
    if kind == "good":
        report["slowest"] = max((w.slowest for w in works), default=0.0)
    else:
        report["wanted"] = sum((w.wanted for w in works), Counter())
    print(json.dumps(report), flush=True)
    os._exit(0)


def soak(seconds: float = 60.0) -> str:
    """Returns the report; raises Failed at the first failure."""
    limits = {
        "message": MESSAGE,
        "memory": MEMORY,
        "seconds": min(SECONDS, max(seconds / 6, 4)),
        "clients": CLIENTS,
        "drain": 20,
    }
    with started(**limits) as server:
        while server.counters()["clients"] or len(children(server.pid)) != 1:
            time.sleep(0.1)
        for address in server.addresses:  # gRPC makes its threads and descriptors with the first stream
            Good(address, 0).client.backend.close()
        time.sleep(1)
        before = state_of(server.pid)
        socket_, grpc = server.addresses
        clients = [("good", socket_)] * 4 + [("good", grpc)] * 2 + [("hostile", socket_), ("hostile", grpc)]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, kind, address, str(seconds), str(seed)], stdout=subprocess.PIPE,
                text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            for seed, (kind, address) in enumerate(clients)
        ]  # fmt: skip
        samples, begin = [], time.monotonic()
        while any(process.poll() is None for process in processes):
            time.sleep(min(1.0, seconds / 20))
            samples.append(state_of(server.pid))
            if server.poll() is not None or time.monotonic() > begin + seconds + 180:
                for process in processes:
                    process.kill()
                raise Failed(f"the server has ended, or a client does not: {server.log.read_text()[-3000:]}")
            if len(samples) % 30 == 0:
                print(
                    f"  {time.monotonic() - begin:.0f} s: {samples[-1][0]:.1f} MiB, {samples[-1][1:]}",
                    flush=True,
                )
        reports = [json.loads(process.stdout.read()) for process in processes if process.stdout]
        errors = [error for report in reports for error in report["errors"]]
        if errors:
            raise Failed("\n".join(errors[:3]))
        text = checked(server, seconds, [r for r in reports if "wanted" in r], before, samples)
        good = [r for r in reports if "wanted" not in r]
        done = sum((Counter(r["done"]) for r in good), Counter())
        slowest = max(r["slowest"] for r in good)
    return f"{seconds:.0f} s; good clients: {dict(done)}, the slowest of these took {slowest:.1f} s; {text}"


def checked(server: Server, seconds: float, hostile: list[Any], before: Any, samples: list[Any]) -> str:
    """Checks the breaches of the hostile clients against the log, the counters and the state of the server.

    The growth of the memory is checked only in runs of 30 seconds or more; in shorter runs the first large
    arrays hide it.
    """
    end = time.monotonic() + 60
    while server.counters()["clients"] or len(children(server.pid)) != 1:
        if time.monotonic() > end:
            raise Failed(f"sessions stay: {server.counters()}, {children(server.pid)}")
        time.sleep(0.1)
    while state_of(server.pid)[1] > before[1] + 5 and time.monotonic() < end:  # gRPC still closes connections
        time.sleep(0.1)
    after, lines = state_of(server.pid), server.lines()
    missing = []
    for text, count in sum((Counter(r["wanted"]) for r in hostile), Counter()).items():
        facts = json.loads(text).items()
        there = sum(1 for line in lines if facts <= line.items())
        if there < count:
            session = [line for line in lines if line["session"] == json.loads(text).get("session")]
            missing.append(f"{there} lines with {text}, wanted {count}: {session}")
    if missing:
        raise Failed("; ".join(missing[:5]))
    if any(
        line["session"] != "server" and not re.fullmatch(r"s\d+", line["session"]) for line in lines
    ) or any(line.get("event") == "forged" for line in lines):
        raise Failed("a line of the log was forged")
    counters, breaches = server.counters(), ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
    ends = [line for line in lines if line.get("event") == "ends"]
    counts = {
        "sessions": sum(line.get("event") == "begins" for line in lines),
        "refused": sum(line.get("event") == "refused" for line in lines),
        "breaches": sum(line.get("status") in breaches for line in ends),
        "lost": sum(line.get("status") == "UNAVAILABLE" for line in ends),
    }
    if any(counters[name] != count for name, count in counts.items()) or len(ends) != counts["sessions"]:
        raise Failed(f"the counters {counters}, and in the log {counts}, {len(ends)} ends")
    if after[3] or after[1] > before[1] + 5 or after[2] > before[2] + 30:
        files = [os.readlink(file) for file in Path(f"/proc/{server.pid}/fd").iterdir()]
        raise Failed(f"MiB, descriptors, threads, zombies: {before} before, {after} afterwards: {files}")
    quarter = len(samples) // 4 or 1
    middle = [float(np.median([s[0] for s in samples[n * quarter : (n + 1) * quarter]])) for n in range(4)]
    kept = 16  # MiB: the messages of one direction, which the allocator keeps after the first large array
    if seconds >= 30 and max(middle[2:]) > max(middle[:2]) * 1.1 + kept:
        raise Failed(f"memory of the supervisor grows: {middle} MiB in its four quarters")
    attacks = sum((Counter(r["done"]) for r in hostile), Counter())
    memory = ", ".join(f"{most:.1f}" for most in middle)
    wanted = sum(sum(r["wanted"].values()) for r in hostile)
    return (
        f"hostile clients: {dict(attacks)}; all {wanted} lines that they want are among {len(lines)} of the "
        f"log; counters as in the log: {counts}; memory of the supervisor: {memory} MiB in the four quarters "
        f"(median), at most {max(s[0] for s in samples):.1f}; MiB, descriptors, threads, zombies: {before} "
        f"before, {after} afterwards"
    )


if __name__ == "__main__":
    client(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
