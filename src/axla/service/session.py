"""Handles the requests of one client in a worker. Programs and arrays have numbers, and runs are executed in
order.

One thread reads requests (`ClientSession.serve`). It executes short programs itself, since switching threads
would take as long. It hands other work to other threads: asynchronous runs to a single one, in order, the
rest to a pool.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from axla import proto
from axla.backends.executable import Executable
from axla.backends.interface import Backend, Client
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core import flags
from axla.core.dataclass import dataclass
from axla.core.dtypes import from_numpy
from axla.core.errors import Cancelled, InvalidArgument, OutOfMemory, UnsupportedError
from axla.core.profile import Profile
from axla.core.shape import Shape
from axla.custom.built_in import BUILT_IN
from axla.custom.feeds import Feed
from axla.custom.routines import TARGETS
from axla.ir.graph import Instruction, Module
from axla.program import packed
from axla.program.abi import CANCELLED
from axla.runtime.array import Array, new_array
from axla.service import messages
from axla.service.limits import ClientLimits, Page, temporary_name
from axla.service.messages import NUMBERS, Message
from axla.service.transport import BadMessage, Closed, Transport

INLINE_BYTES = 1 << 16
"""Results, or arguments, that have at most this number of bytes together are part of the message of a run."""
OF_SERVER = {
    "cache_dir", "cuda", "dump_to", "host_device_count", "num_threads", "opencl", "service",
    "service_certificate", "timings", "trace",
}  # fmt: skip
"""Flags that clients may not set: they name files of the server, or use resources of other clients."""
_THREADS, _POLL = 16, 0.02
_ANSWERS = {"Compile": "Compiled", "Execute": "Executed", "Parallel": "Rows", "Profile": "Steps"}
_REQUESTS = ("Compile", "Execute", "Parallel", "Put", "Get", "Text", "Cancel", "Profile")
_Log = Callable[[str, str, float, BaseException | None], None]


def refuse_custom_calls(module: Module) -> None:
    """Raises UnsupportedError for a custom call that is not built into axla, since it would run code of the
    client.
    """
    for inst in (inst for computation in module.computations for inst in computation.instructions):
        target = getattr(inst.op, "custom_call_target", None) if inst.opcode == "custom-call" else None
        if target is not None and target not in BUILT_IN and target not in TARGETS:
            raise UnsupportedError(f"{inst!r}: a server runs only axla's own custom calls, found {target!r}")


class Slots(dict[int, Any]):
    """The arrays or programs of a client by their numbers, which the client assigns. A value is a Future
    until it is computed.
    """

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most = what, most

    def check(self, numbers: range) -> None:
        """Raises an error if one of these new numbers is in use, or if there would be more values than the
        limit.
        """
        if len(self) + len(numbers) > self.most:
            raise OutOfMemory(f"service: a client may have {self.most} {self.what}s; release some")
        if numbers and (numbers[0] < 1 or any(number in self for number in numbers)):
            raise InvalidArgument(f"service: number {numbers[0]} for a {self.what} is in use, or less than 1")

    def __missing__(self, number: int) -> Any:
        raise InvalidArgument(f"service: {self.what} {number} does not exist, or was released")


class ServedProgram:
    """An executable of the client. If `stops` changes, its runs that have not begun are cancelled."""

    def __init__(self, made: Executable) -> None:
        self.made, self.face, self.stops = made, made.interface, 0
        self.profile: Profile | None = None
        self.dynamic = self.face.is_dynamic
        self.plain = made.counts == (1, 1) and made.device_ids == [0]
        self.short = self.plain and not self.face.long_running
        self.result_bytes = sum(spec.bytes for spec in self.face.results) * len(made.devices)
        self.needs = self.result_bytes + self.face.workspace_bytes

    def run(self, values: list[Any], rows: int, options: ExecuteOptions) -> list[Array]:
        """Runs the program on its devices. `values` are the arguments of all devices, one device after the
        other, and so are the results.
        """
        if self.plain:
            return self.made.execute(values, deadline=options.deadline, asynchronous=options.asynchronous)
        each = len(self.face.parameters)
        split = [values[n * each : (n + 1) * each] for n in range(rows)]
        return [array for row in self.made.execute_replicated(split, options) for array in row]


class OpenRequest:
    """A request in progress: its kind, start time (in ns) and subject for the log. `ordered` is whether its
    next step must be executed in the order of requests.
    """

    __slots__ = ("call", "kind", "begin", "subject", "ordered")

    def __init__(self, call: int, kind: str) -> None:
        self.call, self.kind, self.begin = call, kind, time.monotonic_ns()
        self.subject, self.ordered = "", False


RequestStep = Callable[[], Any]
"""A function that returns the answer to a request, or the next step of the request for another thread, or
None if another step answers.
"""


class ClientSession:
    """The session of one client: its arrays, programs and requests."""

    def __init__(
        self, transport: Transport, backend: Backend, limits: ClientLimits, page: Page, log: _Log
    ) -> None:
        self.transport, self.backend, self.limits, self.page, self.log = transport, backend, limits, page, log
        self.arrays, self.programs = Slots("array", limits.arrays), Slots("program", limits.programs)
        self.draining = False
        self._on_host = type(backend).device_put is Backend.device_put
        """Whether all arrays are in the memory of this process."""
        self._pool = ThreadPoolExecutor(_THREADS, "axla-call")
        self._lane = ThreadPoolExecutor(1, "axla-run")
        self._handlers = {NUMBERS[name]: getattr(self, f"_{name.lower()}") for name in _REQUESTS}
        self._clients: dict[int, Client] = {}
        self._active: dict[int, int] = {}  # number of a call -> its start time
        self._arriving: dict[int, Arriving] = {}
        self._asked: dict[int, Future[Message]] = {}
        self._questions = itertools.count(1)
        self._bytes = 0
        self._changed = threading.Condition()

    def is_busy(self) -> bool:
        """Whether any request is in progress."""
        return bool(self._active)

    # Messages.

    def serve(self) -> None:
        """Handles requests until the client disconnects or sends malformed data."""
        self.transport.most = self.limits.message
        try:
            while (message := self.transport.receive()) is not None:
                self._handle(*message)
        except Closed:
            pass
        except BadMessage as error:
            self.page.add("failures")
            self.log("message", "", 0.0, error)
            self._answer(0, "Failed", messages.failed(error))
        self.transport.close()

    def _handle(self, call: int, kind: int, body: bytes) -> None:
        if kind == messages.PIECE:
            return self._piece(call, body)
        if kind == messages.CREDIT:
            self.transport.credit(body)
            with self._changed:
                self._changed.notify_all()
            return None
        if call in self._asked and kind not in self._handlers:
            return self._told(call, kind, body)
        request = OpenRequest(call, messages.KINDS[kind] if kind in self._handlers else f"kind {kind}")
        self.page.add("requests")
        self.page.add("bytes_in", len(body))
        self._do(request, partial(self._begin, request, kind, body))
        return None

    def _begin(self, request: OpenRequest, kind: int, body: bytes) -> Any:
        handler = self._handlers.get(kind)
        if handler is None:
            raise InvalidArgument(f"service: a message of kind {kind} is not a request")
        if request.call in self._active or len(self._active) >= self.limits.calls:
            raise OutOfMemory(
                f"service: {len(self._active)} requests are in progress, or number {request.call} is in use"
            )
        if self.draining:
            raise messages.unavailable("service: the server is shutting down and accepts no more requests")
        with self._changed:
            self._active[request.call] = request.begin
            if len(self._active) == 1:
                self.page.set("oldest", request.begin)
        message = messages.decode(kind, body)
        if request.kind != "Execute":  # "Execute" looks up its arguments first
            self._release(message)
        try:
            return handler(request, message)
        finally:
            self._release(message)

    def _do(self, request: OpenRequest, step: RequestStep) -> None:
        """Executes a step of a request. If there is a next step, hands it to another thread, else sends the
        answer.
        """
        error: BaseException | None = None
        try:
            answer = step()
            if callable(answer):
                where, request.ordered = self._lane if request.ordered else self._pool, False
                where.submit(self._do, request, answer)
                return
            if answer is None:
                return
        except BaseException as caught:  # noqa: BLE001  (whatever it is, the client gets it)
            answer, error = messages.failed(caught), caught
            self.page.add("failures")
            self._log(request, error)  # logged first: when the client disconnects, this process ends
        self._answer(
            request.call, "Failed" if error is not None else _ANSWERS.get(request.kind, "Done"), answer
        )
        with self._changed:  # so that no request is missing from the page, which the time limit is based on
            if self._active.get(request.call) == request.begin:
                del self._active[request.call]
                self.page.set("oldest", min(self._active.values(), default=0))
        if error is None:
            self._log(request, None)

    def _log(self, request: OpenRequest, error: BaseException | None) -> None:
        self.log(request.kind, request.subject, (time.monotonic_ns() - request.begin) / 1e9, error)

    def _answer(self, call: int, name: str, answer: Message) -> None:
        body = messages.encode(name, answer)
        if len(body) > self.limits.message:
            name, body = (
                "Failed",
                messages.encode("Failed", messages.failed(OutOfMemory("service: the answer is too long"))),
            )
        self.page.add("bytes_out", len(body))
        try:
            self.transport.send(call, NUMBERS[name], body)
        except Closed:
            self.transport.close()

    # Arrays.

    def _check_memory(self, size: int, about: str) -> None:
        """Raises OutOfMemory if `size` more bytes would exceed the client's limit. `about` says what they are
        for.
        """
        if self._bytes + size > self.limits.memory:
            raise OutOfMemory(
                f"service: {about} takes {size} bytes; {self._bytes} of the {self.limits.memory} bytes that "
                "this client may use are in use"
            )

    def _count(self, change: int) -> None:
        with self._changed:
            self._bytes += change
        self.page.set("array_bytes", max(self._bytes, 0))
        self.page.set("arrays", len(self.arrays))
        self.page.set("programs", len(self.programs))

    def _settle(self, number: int, future: Future, array: Array) -> None:
        """Makes a computed array available under its number, to requests that wait for it and later ones,
        unless the client has released the number.
        """
        future.set_result(array)
        with self._changed:
            if dict.get(self.arrays, number) is future:  # the number may have been reused
                self.arrays[number] = array

    def _release(self, message: Message) -> None:
        """Releases the arrays and programs that the client no longer needs, as a message lists them."""
        for number in message.get("released", ()):
            with self._changed:
                value = self.arrays.pop(number, None)
            if isinstance(value, Future):
                value.add_done_callback(lambda done: done.exception() or self._count(-done.result().nbytes))
            elif value is not None:
                self._count(-value.nbytes)
        for number in message.get("dropped", ()):
            self.programs.pop(number, None)

    def _client(self, devices: int) -> Client:
        """A client object of the backend with this number of devices; 0 is as many as programs need."""
        if devices not in self._clients:
            self._clients[devices] = Client(self.backend, devices or None)
        return self._clients[devices]

    def _put(self, request: OpenRequest, message: Message) -> Any:
        """Creates an array, whose bytes arrive later in pieces."""
        number, dims = message.get("array", 0), messages.checked_dims(message.get("dims", ()))
        kind, device = messages.dtype_named(message.get("dtype", "")), message.get("device", 0)
        size = kind.itemsize * math.prod(dims)
        self._check_memory(size, f"an array of {list(dims)}")
        self.arrays.check(range(number, number + 1))
        place = self._client(device + 1).device(device)
        array, values = new_array(Shape(from_numpy(kind), dims), device)
        self.arrays[number] = future = Future()
        self._count(size)

        def made() -> Message:
            try:
                found = array if self._on_host else self.backend.device_put(array, place)
            except BaseException as error:
                self._count(-size)
                future.set_exception(error)
                raise
            self._settle(number, future, found)
            return {"number": size}

        if not size:
            return made
        self._arriving[request.call] = Arriving(request, values.reshape(-1).view(np.uint8), made)
        return None

    def _piece(self, call: int, body: bytes) -> None:
        found = self._arriving.get(call)
        if found is None:  # the array was refused
            self.transport.take(body, None)
            return
        size = self.transport.take(body, found.into, found.at)
        found.at += size
        self.page.add("bytes_in", size)
        if found.at == found.into.size:
            del self._arriving[call]
            if self._on_host:  # not in the pool, whose threads may all wait for this array
                self._do(found.request, found.made)
            else:
                self._pool.submit(self._do, found.request, found.made)

    def _get(self, request: OpenRequest, message: Message) -> RequestStep:
        """Sends the bytes of an array to the client."""
        value = self.arrays[message.get("array", 0)]

        def give() -> Message:
            array = np.ascontiguousarray(_there(value))
            self.transport.give(request.call, array.reshape(-1).view(np.uint8), self._wait)
            self.page.add("bytes_out", array.nbytes)
            return {"number": array.nbytes}

        return give

    def _wait(self, until: Callable[[], object]) -> None:
        with self._changed:
            while not until():
                self._changed.wait(1.0)

    # Programs.

    def _compile(self, request: OpenRequest, message: Message) -> RequestStep:
        number = message.get("program", 0)
        self.programs.check(range(number, number + 1))

        def compiled() -> Message:
            made, files = self._compiled(message)
            self.programs.check(range(number, number + 1))
            self.programs[number] = ServedProgram(made)
            self._count(0)
            self.page.add("compilations")
            request.subject = made.name
            face = replace(made.interface, functions=(), messages=())
            return {
                "interface": packed.encode(packed.Packed((), face, b"")), "stages": list(made.stages),
                "code_bytes": made.memory().code, "dumps": messages.entries(files),
                "host_steps": messages.entries(made.host_steps),
            }  # fmt: skip

        return compiled

    def _compiled(self, message: Message) -> tuple[Executable, dict[str, str]]:
        """Compiles the module in a request. Returns (executable, dump files by name, if they were
        requested).
        """
        module = self._module(message.get("module", b""))
        options = CompileOptions.from_proto(message.get("options", b""))
        for name, _ in options.flags:
            if name in OF_SERVER:
                raise UnsupportedError(f"compile: only the server can set the flag {name}, not a client")
        client = self._client(message.get("devices", 0))
        if not message.get("dump"):
            return client.compile(module, options), {}
        try:
            with tempfile.TemporaryDirectory(prefix=temporary_name(os.getpid())) as folder:
                with flags.override(dump_to=folder):
                    made = client.compile(module, options)
                files = sorted(Path(folder).iterdir())
                return made, {f.name: f.read_bytes().decode("utf-8", "surrogateescape") for f in files}
        except OSError as error:
            raise messages.unavailable(f"service: the server cannot write dumps: {error}") from error

    def _module(self, data: bytes) -> Module:
        module = proto.read(data)
        refuse_custom_calls(module)
        return module

    def _program(self, request: OpenRequest, message: Message) -> ServedProgram:
        found = self.programs[message.get("program", 0)]
        request.subject = found.face.name
        return found

    def _execute(self, request: OpenRequest, message: Message) -> Any:
        program = self._program(request, message)
        self.page.add("executions")
        rows, first, face = message.get("rows", 1), message.get("results", 0), program.face
        if rows != len(program.made.device_ids):
            raise InvalidArgument(
                f"{face.name}: {rows} rows of arguments, wanted {len(program.made.device_ids)}"
            )
        numbers = range(first, first + rows * len(face.results))
        self.arrays.check(numbers)
        given = self._arguments(program, rows, message)
        options = ExecuteOptions(message.get("deadline"), (), bool(message.get("asynchronous")))
        alone = len(self._active) == 1 and not any(isinstance(array, Future) for array in given)
        here = alone and program.short and program.profile is None
        short = here and not options.asynchronous  # its results are not requested before its answer
        futures: list[Future] = [Future() for _ in numbers] if not short else []
        self.arrays.update(zip(numbers, futures, strict=False))
        request.ordered, stops = options.asynchronous, program.stops

        def run() -> Any:
            try:
                values = [array.result() if isinstance(array, Future) else array for array in given]
                if program.stops != stops:
                    raise Cancelled(f"{face.name}: the run was cancelled before it began", CANCELLED)
                self._check_memory(program.needs, f"a run of {face.name}")
                if not here:  # other requests may begin meanwhile
                    self._count(program.needs)
                try:
                    found = program.run(values, rows, options)
                finally:
                    if not here:
                        self._count(-program.needs)
            except BaseException as error:
                for future in futures:
                    future.set_exception(error)
                raise
            self._count(sum(array.nbytes for array in found))
            for number, future, array in zip(numbers, futures, found, strict=False):
                self._settle(number, future, array)
            if short:
                self.arrays.update(zip(numbers, found, strict=True))
            answer = partial(self._executed, program, found)
            return answer() if all(array.is_ready() for array in found) else answer

        return run() if here else run

    def _arguments(self, program: ServedProgram, rows: int, message: Message) -> list[Any]:
        """The arguments of a run in order: arrays that the message refers to by number, or that it
        contains.
        """
        specs, dynamic = program.face.parameters * rows, program.dynamic
        numbers, data = message.get("arguments", ()), message.get("data", ())
        if len(numbers) != len(specs) or sum(not number for number in numbers) != len(data):
            raise InvalidArgument(
                f"service: found {len(numbers)} arguments, wanted {len(specs)}; {len(data)} with data"
            )
        left, sizes = iter(data), iter(message.get("sizes", ()))
        found = []
        for number, spec in zip(numbers, specs, strict=True):
            if number:
                found.append(self.arrays[number])
                continue
            dims = tuple(itertools.islice(sizes, spec.shape.rank)) if dynamic else spec.shape.dims
            found.append(messages.array_of(next(left), spec.shape.dtype.name, dims))
        return found

    def _executed(self, program: ServedProgram, found: list[Array]) -> Message:
        """The answer to a run: the sizes of dynamic results, and the values of small results, which the
        client then need not request.
        """
        answer: Message = {}
        if program.result_bytes <= INLINE_BYTES and not any(array.elsewhere for array in found):
            answer["data"] = [np.asarray(array).tobytes() for array in found]
        else:
            for array in found:
                array.block_until_ready()
        if program.dynamic:
            answer["sizes"] = [d for array in found for d in array.shape]
        return answer

    def _parallel(self, request: OpenRequest, message: Message) -> RequestStep:
        """Runs several programs at the same time, each on a device of its own."""
        given = [self.arrays[number] for number in message.get("arguments", ())]
        first = message.get("results", 0)
        self.page.add("executions")

        def run() -> Message:
            modules = [self._module(data) for data in message.get("modules", ())]
            results = [leaf for module in modules for leaf in arrays_of(module.entry.root)]
            self._check_memory(sum(shape.byte_size for shape in results), "a run of several programs")
            self.arrays.check(range(first, first + len(results)))
            left = iter(given)
            rows = [[_there(a) for a in itertools.islice(left, leaves_of(m))] for m in modules]
            found = self.backend.execute_parallel(modules, rows, message.get("deadline"))
            arrays = [array for row in found for array in row]
            self.arrays.update(enumerate(arrays, first))
            self._count(sum(array.nbytes for array in arrays))
            return {"row": [{"sizes": [d for a in row for d in (a.ndim, *a.shape)]} for row in found]}

        return run

    def _cancel(self, request: OpenRequest, message: Message) -> Message:
        program = self._program(request, message)
        program.stops += 1
        return {"number": program.made.cancel()}

    def _text(self, request: OpenRequest, message: Message) -> RequestStep:
        program = self._program(request, message)
        return lambda: {"text": program.made.as_text(message.get("stage", "optimized"))}

    def _profile(self, request: OpenRequest, message: Message) -> Message:
        """Starts measuring a program, or stops and returns the measurements."""
        program, before = self._program(request, message), None
        before, program.profile = program.profile, Profile() if message.get("begin") else None
        program.made.profiling(program.profile)
        counts = [c for run in (before.runs if before else ()) for c in run.counts()]
        return {"step": [{"row": asdict(row), "ns": ns, "calls": calls} for row, ns, calls in counts]}

    # Requests to the client.

    def _told(self, call: int, kind: int, body: bytes) -> None:
        """Handles the client's answer to a request of this session."""
        future = self._asked.pop(call)
        try:
            message = messages.decode(kind, body)
            if kind == NUMBERS["Failed"]:
                raise messages.error_of(message)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(message)

    def ask(self, kind: str, message: Message, check: Callable[[], None] = lambda: None) -> Message:
        """Sends a request to the client and returns its answer. `check` is called while waiting, and raises
        an exception to stop waiting.
        """
        number, future = next(self._questions), Future[Message]()
        self._asked[number] = future
        self.transport.send(number, NUMBERS[kind], messages.encode(kind, message))
        try:
            while not future.done():
                check()
                wait([future], _POLL)
        except BaseException:
            self._asked.pop(number, None)
            self.transport.send(0, NUMBERS["Stop"], messages.encode("Stop", {"call": number}))
            raise
        return future.result()


@dataclass(slots=True)
class Arriving:
    """An array whose bytes are being received: `at` bytes are in `into`; `made` is the next step once it is
    complete.
    """

    request: OpenRequest
    into: np.ndarray
    made: RequestStep
    at: int = 0


class ClientFeed(Feed):
    """A feed of the worker. It takes its values from, and adds them to, the client's feed of the same device
    and channel.
    """

    session: ClientSession

    def _take(self, timeout: float, check: Callable[[], None]) -> Any:
        answer = self.session.ask("Take", self._where() | {"timeout": timeout}, check)
        return messages.value_of(answer.get("value", {}))

    def _add(self, value: Any) -> None:
        self.session.ask("Give", self._where() | {"value": messages.tree_of(value)})

    def _where(self) -> Message:
        device, feed, channel = self.place
        return {"device": device, "feed": feed} | ({} if channel is None else {"channel": channel})


def _there(value: Any) -> Any:
    """Returns an array after waiting for the run that computes it. The value may be a Future of the array."""
    array = value.result() if isinstance(value, Future) else value
    return array.block_until_ready()


def arrays_of(inst: Instruction) -> list[Shape]:
    """The array shapes in the result of an instruction."""
    return [leaf for leaf in inst.shape.leaves() if isinstance(leaf, Shape)]


def leaves_of(module: Module) -> int:
    """The number of arrays that the module's parameters consist of."""
    return sum(len(arrays_of(parameter)) for parameter in module.entry.parameters)
