"""The transport between machines: gRPC, with a stream of bytes in each direction. It needs no protobuf
package.

In the server, a relay passes messages to the worker through a socket, and pieces of arrays through shared
memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from axla.core.errors import AxlaError, InvalidArgument, UnsupportedError, missing
from axla.service import messages
from axla.service.limits import ClientLimits
from axla.service.messages import NUMBERS, PIECE
from axla.service.transport import HEADER, PIECE_BYTES, BadMessage, Closed, SocketTransport, Transport, whole

try:
    import grpc
except ImportError:
    raise UnsupportedError(missing("a service over gRPC", "grpcio", "service")) from None

_SERVICE, _METHOD = "axla.Service", "Session"
_OPTIONS = [("grpc.enable_retries", 0), ("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)]
_REASON_SECONDS = 2.0
_MORE = 8
"""The number of streams that are open in addition to the limit of clients: on them, the server tells clients
why they are refused.
"""


def _receiving(most: int) -> list[tuple[str, int]]:
    return [*_OPTIONS, ("grpc.max_receive_message_length", most)]


class GrpcTransport(Transport):
    """The client's end of the transport. Each gRPC message is one message of the service."""

    def __init__(self, address: str, root_certificate: str = "") -> None:
        super().__init__()
        if root_certificate:
            try:
                trusted = grpc.ssl_channel_credentials(Path(root_certificate).read_bytes())
            except OSError as error:
                raise InvalidArgument(f"connect: root_certificate: {error}") from None
            self._channel = grpc.secure_channel(address, trusted, _receiving(-1))
        else:
            self._channel = grpc.insecure_channel(address, _receiving(-1))
        self._out = queue.SimpleQueue[bytes | None]()
        self._stream = self._channel.stream_stream(f"/{_SERVICE}/{_METHOD}")(iter(self._out.get, None))
        self._next: Future[bytes] | None = None
        self._pool = ThreadPoolExecutor(1, "axla-grpc")

    def send(self, call: int, kind: int, *body: Any) -> None:
        """Queues a message for the stream; a thread of gRPC sends it."""
        self._out.put(whole(call, kind, *body))

    def receive(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """Receives the next message, as `Transport.receive` does. Without a timeout the calling thread waits
        itself; else a helper thread waits, and goes on waiting after the timeout.
        """
        try:
            if timeout is None and self._next is None:
                data = next(self._stream)
            else:
                self._next = self._next or self._pool.submit(next, self._stream)
                data = self._next.result(timeout)
                self._next = None
        except TimeoutError:
            return None
        except (StopIteration, RuntimeError, ValueError):
            raise Closed("the server has ended the stream") from None
        except grpc.RpcError as error:
            call: Any = error
            said = {"code": call.code().value[0], "message": call.details() or ""}
            own = said["message"].startswith("service: ")
            raise Closed(said["message"], messages.error_of(said) if own else None) from None
        if len(data) < HEADER.size:
            raise BadMessage(f"service: a message of {len(data)} bytes is too short for its header")
        size, number, kind = HEADER.unpack_from(data)
        body: Any = memoryview(data)[HEADER.size :]
        if size != len(body):
            raise BadMessage(f"service: a header says {size} bytes, found {len(body)}")
        return number, kind, body if kind == PIECE else bytes(body)

    def close(self) -> None:
        """Ends the stream and closes the channel."""
        self._out.put(None)
        self._channel.close()


class Listener:
    """The server's end of the transport. Clients are then handled like those that connect by a socket."""

    def __init__(
        self, address: str, greet: Callable[[socket.socket], None], limits: ClientLimits,
        certificate: str = "", key: str = "", guarded: bool = False, note: Callable[..., None] = print,
    ) -> None:  # fmt: skip
        """Begins to listen at an address. `greet` gets a socket for each client. `certificate` and `key` are
        files for TLS. `guarded` is whether clients must present a token. `note(event, **facts)` writes to the
        log.
        """
        host, _, port = address.rpartition(":")
        if not port.isdigit() or not host:
            raise InvalidArgument(f"axla serve: --listen {address}: wanted HOST:PORT")
        if not (_is_loopback(host) or (certificate and guarded)):
            raise InvalidArgument(
                f"axla serve: {host} is open to other machines: wanted --certificate, --key and --token-file"
            )
        _use_few_arenas()
        self._note = note
        self._greet, self._most, clients = greet, limits.message, limits.clients + _MORE
        options = _receiving(max(limits.message, 2 * PIECE_BYTES) + HEADER.size)
        pool = ThreadPoolExecutor(clients, "axla-grpc")
        self._server = grpc.server(pool, options=options, maximum_concurrent_rpcs=clients)
        handlers = {_METHOD: grpc.stream_stream_rpc_method_handler(self._relay)}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, handlers)])
        try:
            if certificate:
                pair = Path(key).read_bytes(), Path(certificate).read_bytes()
                self.port = self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
            else:
                self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise InvalidArgument(f"axla serve: cannot listen at {address}: {error}") from None
        self._server.start()

    def stop(self) -> None:
        """Accepts no more clients, and ends the streams of connected ones. They were already told the
        reason.
        """
        self._server.stop(_REASON_SECONDS).wait()

    def _pass_on(self, requests: Iterator[bytes], transport: SocketTransport, context: Any) -> None:
        """Passes a client's requests to its worker, until one of the two is gone or the client sends
        malformed data.
        """
        # gRPC reports both in the same way.
        said = f"the client ended the stream, or sent a message of more than {self._most} bytes"
        try:
            for data in requests:
                transport.pass_on(data)
        except Closed:
            said = ""  # the worker has ended; its supervisor logs that
        except grpc.RpcError:
            pass
        except (BadMessage, struct.error, ValueError) as error:
            said = str(error)[:300]
        if said:
            self._note("stream", client=context.peer(), message=said)
        transport.close()

    def _relay(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Yields the worker's messages to a client. A thread passes the client's messages to the worker."""
        mine, theirs = socket.socketpair()
        self._greet(theirs)
        transport, reasons = SocketTransport(mine), None
        transport.awake = 0.0  # no polling: threads of other clients need the GIL
        context.add_callback(transport.close)
        threading.Thread(target=self._pass_on, args=[requests, transport, context], daemon=True).start()
        with contextlib.ExitStack() as ends, contextlib.suppress(OSError, Closed):
            ends.callback(transport.unshare)  # also if gRPC closes this generator
            ends.callback(mine.close)
            first, reasons = transport.receive_first(_FIRST_SECONDS)
            transport.most = self._most
            data = whole(*first) if first is not None else None
            while data is not None:
                yield data
                data = transport.receive_whole()
        if reasons is not None:
            with reasons, contextlib.suppress(OSError, AxlaError):
                reasons.settimeout(_REASON_SECONDS)
                if said := reasons.recv(1 << 16):
                    why = messages.decode(NUMBERS["Failed"], said)
                    context.abort(_CODES[why.get("code", 2)], why.get("message", ""))
        _give_back()


_LIBRARY = ctypes.CDLL(None)
_give_back = partial(getattr(_LIBRARY, "malloc_trim", int), 0)
"""Returns freed memory of messages to the system, since each thread of gRPC keeps much of it."""
_use_few_arenas = partial(getattr(_LIBRARY, "mallopt", max), -8, 2)
"""Makes all threads allocate from two arenas (M_ARENA_MAX of glibc), so that they share freed memory."""
_FIRST_SECONDS = 60.0
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"
