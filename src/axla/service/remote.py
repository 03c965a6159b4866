"""The backend `remote`: its devices, programs and arrays are on a server."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from axla import proto
from axla.api import parse
from axla.backends.devices import Device
from axla.backends.executable import Executable, MemoryStats
from axla.backends.interface import Backend, Capabilities, Client
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core import flags, trace
from axla.core.dtypes import from_numpy
from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError
from axla.core.profile import Profile, Row
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.ir.places import located
from axla.program import packed
from axla.program.interface import ValueSpec
from axla.runtime.arguments import converted
from axla.runtime.array import Array, DistantArray
from axla.service.link import Link, PendingRequest, opened
from axla.service.messages import Message, array_of, table
from axla.service.session import INLINE_BYTES, OF_SERVER, refuse_custom_calls

_TOKEN, _PLAIN = "AXLA_SERVICE_TOKEN", flags.Flags()
_ASKING = {"infeed", "outfeed", "send", "recv"}


def connect(
    address: str, *, backend: str = "", token: str = "", timeout: float = 30.0, root_certificate: str = ""
) -> Client:  # fmt: skip
    """Connects to a server (`axla serve`), and returns a client with the server's devices. `axla.compile` and
    `axla.check` accept it as their backend. `address` is "unix:/path" or "host:port".

    `backend` is one that the server offers, by default its first; `token` is needed if the server requires
    one. `root_certificate` is the certificate file of the authority that signed the server's certificate, for
    TLS.

    Raises RuntimeFailure with the status UNAVAILABLE if there is no server, DeadlineExceeded if it does not
    answer within `timeout` seconds.
    """
    link = opened(address, backend=backend, token=token, timeout=timeout, root_certificate=root_certificate)
    return RemoteBackend(link).client


def from_environment() -> RemoteBackend:
    """Makes the backend `remote` for the server that the flag `service` names."""
    address = flags.current().service
    if not address:
        raise UnsupportedError(
            "AXLA_SERVICE is empty; set it to unix:/path or host:port, or use axla.connect"
        )
    root = flags.current().service_certificate
    return RemoteBackend(opened(address, token=os.environ.get(_TOKEN, ""), root_certificate=root))


class RemoteBackend(Backend):
    """A backend of a server, used through one connection. Its arrays and programs are lost when the session
    ends.
    """

    name = "remote"

    def __init__(self, link: Link) -> None:
        self.link = link
        said = link.welcome
        refused = table(said.get("refused", ()))
        self.about = f"the backend {said.get('backend')} of a server: {said.get('about')}"
        self.device_kind = said.get("device_kind", "device")
        self.memory_kinds = tuple(said.get("memory_kinds", ("device",)))
        self.any_devices = bool(said.get("any_devices"))
        self.capabilities = Capabilities(said.get("participants", 1), refused)

    def close(self) -> None:
        """Ends the session with the server."""
        self.link.close()

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Sends the module to the server, which compiles it. The flags that differ from their defaults are
        sent, too. The server's dumps are written to this process's `dump_to`. UnsupportedError for custom
        calls.
        """
        number, now = self.link.handles(), flags.current()
        given = {name: getattr(now, name) for name in flags.FIELDS if name not in OF_SERVER}
        mine = {name: v for name, v in given.items() if v != getattr(_PLAIN, name)} | dict(options.flags)
        mine.pop("dump_to", None)  # dumps come with the answer
        # The sizes of the module are known already, so the options for them are left out.
        told = replace(options, flags=(*mine.items(),), arg_types=None, dim_args=None)
        request = {
            "program": number, "module": proto.to_proto(module), "options": told.to_proto(),
            "devices": _count(client), "dump": bool(now.dump_to), **self.link.take_released(),
        }  # fmt: skip
        with located(module.file, module), trace.span(module.name, "compile"):
            refuse_custom_calls(module)
            answer = self.link.call("Compile", request)
        _write_dumps(table(answer.get("dumps", ())))
        return RemoteExecutable(self.link, number, answer, client=client, module=module, options=options)

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Raises UnsupportedError: a server accepts no machine code."""
        raise UnsupportedError(f"{self.name}: a server accepts no machine code, so it loads no executables")

    def device_put(self, array: Any, device: Device) -> Array:
        """Copies an array-like to a device of the server."""
        return put(self.link, array, device.id)

    def execute_parallel(
        self, modules: Sequence[Module], rows: Sequence[Sequence[Any]], deadline: float | None = None
    ) -> list[list[Array]]:  # fmt: skip
        """Runs the modules on the server at the same time, each with its own row of arguments, for at most
        `deadline` seconds. Arguments that are not on the server are copied there.
        """
        for module in modules:
            refuse_custom_calls(module)
        given = [_there(self.link, array) for row in rows for array in row]
        count = sum(1 for m in modules for leaf in m.entry.root.shape.leaves() if isinstance(leaf, Shape))
        first = self.link.handles(max(count, 1))
        request: Message = {
            "modules": [proto.to_proto(module) for module in modules], "arguments": [a.number for a in given],
            "results": first,
        }  # fmt: skip
        if deadline is not None:
            request["deadline"] = deadline
        answer = self.link.call("Parallel", request)
        found, number = [], first
        for device, (module, row) in enumerate(zip(modules, answer.get("row", ()), strict=True)):
            sizes, arrays = iter(row.get("sizes", ())), []
            for shape in (leaf for leaf in module.entry.root.shape.leaves() if isinstance(leaf, Shape)):
                actual = Shape(shape.dtype, tuple(next(sizes) for _ in range(next(sizes))))
                arrays.append(RemoteArray.of(self.link, number, actual, device))
                number += 1
            found.append(arrays)
        return found


class RemoteHandle:
    """The number of an array or program on the server. When this object is freed, the number is added to
    `gone`, and the server then releases it.
    """

    __slots__ = ("number", "_gone")

    def __init__(self, number: int, gone: deque[int]) -> None:
        self.number, self._gone = number, gone

    def __del__(self) -> None:
        self._gone.append(self.number)


class RemoteArray(DistantArray):
    """An array on a server. The first read copies its values to this process."""

    __slots__ = ("link",)

    link: Link

    @classmethod
    def of(
        cls, link: Link, number: int, shape: Shape, ordinal: int, run: PendingRequest | None = None
    ) -> RemoteArray:
        """Makes the object for array `number` of the server. `run` is the request that computes it."""
        made = cls(shape, RemoteHandle(number, link.released), ordinal, run)
        made.link = link
        return made

    @property
    def number(self) -> int:
        """The array's number on the server; InvalidArgument if the array is deleted."""
        return self._head("to a server").number

    def keep(self, values: np.ndarray) -> None:
        """Stores the values of the array, which came with an answer."""
        self._values = values

    def _read(self, place: RemoteHandle, values: np.ndarray) -> None:
        into = values.reshape(-1).view(np.uint8)
        self.link.call("Get", {"array": place.number, **self.link.take_released()}, into)


def put(link: Link, array: Any, ordinal: int = 0) -> RemoteArray:
    """Copies an array-like to a device of a server, given by its ordinal."""
    try:
        source = array.to_numpy() if isinstance(array, Array) else np.asarray(array)
        dtype = from_numpy(source.dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"device_put: {error}") from error
    number, flat = link.handles(), np.ascontiguousarray(source, dtype.numpy)
    request = {"array": number, "dtype": dtype.name, "dims": list(source.shape), "device": ordinal}
    call = link.start("Put", request | link.take_released())
    link.give(call, flat.reshape(-1).view(np.uint8))
    call.answer()
    return RemoteArray.of(link, number, Shape(dtype, source.shape), ordinal)


def _there(link: Link, array: Any) -> RemoteArray:
    """Returns `array` if it is on the server, else a copy there."""
    return array if isinstance(array, RemoteArray) and array.link is link else put(link, array)


class RemoteExecutable(Executable):
    """A compiled program on a server."""

    __slots__ = ("link", "_handle", "_said", "_asks", "_rows", "_dynamic")

    def __init__(self, link: Link, number: int, said: Message, **more: Any) -> None:
        interface = packed.decode(said.get("interface", b"")).interface
        super().__init__(interface, **more)
        self.link, self._handle, self._said = link, RemoteHandle(number, link.dropped), said
        self._rows: list[tuple[Row, int, int]] = []
        self._dynamic = interface.is_dynamic
        module = self._module
        self._asks = module is not None and any(
            inst.opcode.partition("-")[0] in _ASKING for c in module.computations for inst in c.instructions
        )

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that the server can show with `as_text`."""
        return tuple(self._said.get("stages", ()))

    @property
    def host_steps(self) -> Mapping[str, str]:
        """The steps that the server's host runs because its device cannot, each with the reason."""
        return table(self._said.get("host_steps", ()))

    def cancel(self) -> int:
        """Stops the runs in progress, which raise Cancelled; returns their number."""
        return self.link.call("Cancel", {"program": self._handle.number}).get("number", 0)

    def memory(self) -> MemoryStats:
        """The bytes that a run and the executable use. The size of the code is the one reported by the
        server.
        """
        return replace(super().memory(), code=self._said.get("code_bytes", 0))

    # Runs.

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        return self._sent([inputs], options)[0]

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        return self._sent(rows, options)

    def _sent(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        """Makes the server run the program. `rows` has the arguments for each device; returns the results of
        each device.
        """
        face, link, answer = self.interface, self.link, Message()
        given = [converted(face, row, n, here=False) for n, row in enumerate(rows)]
        request: Message = {"program": self._handle.number}
        if len(rows) > 1:
            request["rows"] = len(rows)
        copies = self._arguments(request, given)
        first = request["results"] = link.handles(len(face.results) * len(rows))
        if options.deadline is not None:
            request["deadline"] = options.deadline
        if options.asynchronous:
            request["asynchronous"] = True
        for array in [row[index] for row in given for index in face.donated]:
            if isinstance(array, Array):
                array.delete()
        del copies
        call = link.start("Execute", request | link.take_released(), f"a run of {face.name} on a server")
        going = options.asynchronous and not self._dynamic  # dynamic sizes need the answer
        if not going:
            try:
                answer = call.answer()
            except BaseException as error:  # the results are released
                link.released.extend(range(first, first + len(face.results) * len(rows)))
                if isinstance(error, KeyboardInterrupt):
                    self.cancel()
                raise
        elif self._asks:
            threading.Thread(target=call.wait, daemon=True).start()
        link.bound()
        return self._results(first, len(rows), answer, call if going else None)

    def _arguments(self, request: Message, given: list[list[Any]]) -> list[RemoteArray]:
        """Writes the arguments into a request: the numbers of arrays on the server, and the values of small
        arrays. Returns the arrays that it copied to the server.
        """
        numbers, data, sizes, copies = [], [], [], []
        link, inline = self.link, 0
        for row, device in zip(given, self.device_ids, strict=True):
            for array in row:
                if isinstance(array, RemoteArray) and array.link is link:
                    numbers.append(array.number)
                    continue
                values = np.asarray(array)
                inline += values.nbytes
                if inline > INLINE_BYTES:
                    inline -= values.nbytes
                    copies.append(put(link, values, device))
                    numbers.append(copies[-1].number)
                    continue
                numbers.append(0)
                data.append(values.tobytes())
                sizes += values.shape if self._dynamic else ()
        request["arguments"] = numbers
        if data:
            request["data"] = data
        if sizes:
            request["sizes"] = sizes
        return copies

    def _results(
        self, first: int, rows: int, answer: Message, run: PendingRequest | None
    ) -> list[list[Array]]:
        sizes, data = iter(answer.get("sizes", ())), answer.get("data")
        link, number, found = self.link, first, []
        for device in self.device_ids[:rows]:
            arrays: list[Array] = []
            for spec in self.interface.results:
                shape = _actual(spec, sizes) if self._dynamic else spec.shape.logical
                made = RemoteArray.of(link, number, shape, device, run)
                if data is not None:
                    made.keep(array_of(data[number - first], shape.dtype.name, shape.dims))
                arrays.append(made)
                number += 1
            found.append(arrays)
        return found

    # Texts, numbers, bytes.

    def _text(self, stage: str) -> str:
        if stage == "hlo":
            return super()._text(stage)
        self._source()
        return self.link.call("Text", {"program": self._handle.number, "stage": stage}).get("text", "")

    def _optimized(self) -> Module:
        return parse(self._text("optimized"))

    def _payload(self) -> bytes:
        raise UnsupportedError(
            f"{self.name}: a server returns no machine code, so its programs cannot be serialized"
        )

    def profiling(self, profile: Profile | None) -> None:
        """Starts recording to a profile; None stops it. The server measures steps, this process measures
        whole calls.
        """
        with contextlib.suppress(AxlaError):  # if the session has ended, the next call reports it
            self._profiling(profile)

    def _profiling(self, profile: Profile | None) -> None:
        if self._counted is not None:  # stops measuring on the server, and gets its results
            said = self.link.call("Profile", {"program": self._handle.number})
            self._rows.extend(
                (Row(**step.get("row", {})), step["ns"], step["calls"]) for step in said.get("step", ())
            )
            self._counted = None
        if profile is not None:
            self.link.call("Profile", {"program": self._handle.number, "begin": True})
            self._rows = []
            backend = self.client.backend_name if self.client is not None else ""
            self._counted = profile.run(self.name, backend, self._rows.__iter__)


def _actual(spec: ValueSpec, sizes: Any) -> Shape:
    return Shape(spec.shape.dtype, tuple(next(sizes) for _ in spec.shape.dims))


def _count(client: Client) -> int:
    """The number of devices that a client was created with; 0 if it has as many as programs need."""
    return 0 if client._grows else len(client.devices)


def _write_dumps(files: Mapping[str, str]) -> None:
    """Writes dump files of the server to this process's dump folder."""
    folder = flags.current().dump_to
    for name, text in files.items():
        if folder == "-":
            print(text)
        elif os.path.basename(name) == name:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
