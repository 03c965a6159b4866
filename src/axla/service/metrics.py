"""Serves the counters of a server over HTTP, in the format of Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

from axla.core.errors import InvalidArgument
from axla.service.limits import NOW

_GAUGES = {*NOW, "clients"}


def text_of(counters: Mapping[str, int]) -> str:
    """The counters in the format of Prometheus: a type and a value for each."""
    lines = []
    for name, value in counters.items():
        kind, end = ("gauge", "") if name in _GAUGES else ("counter", "_total")
        lines += [f"# TYPE axla_service_{name}{end} {kind}", f"axla_service_{name}{end} {value}"]
    return "\n".join(lines) + "\n"


def serve(address: str, counters: Callable[[], Mapping[str, int]]) -> int:
    """Serves the counters at an address (HOST:PORT), in a thread; returns the port."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 2.0  # requests are answered one by one: a silent client must not block others

        def do_GET(self) -> None:
            body = text_of(counters()).encode()
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body if self.path == "/metrics" else b"see /metrics\n")

        def log_message(self, format: str, *values: object) -> None:
            """Does nothing: the server's log is for requests of its clients."""

    host, _, port = address.rpartition(":")
    try:
        server = HTTPServer((host or "127.0.0.1", int(port)), Handler)
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"axla serve: --metrics {address}: {error}; wanted HOST:PORT") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port
