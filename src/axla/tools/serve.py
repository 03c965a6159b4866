"""axla serve: runs programs for other processes, each client in a process of its own.

    axla serve --socket $XDG_RUNTIME_DIR/axla.sock
    axla serve --socket PATH --backend cpu --backend opencl --memory 8G --seconds 60 --log json
    axla serve --listen 0.0.0.0:8470 --certificate certificate.pem --key key.pem --token-file tokens

A client is `axla.connect("unix:PATH")` or `axla.connect("HOST:PORT")`; with AXLA_SERVICE=unix:PATH in the
environment also `--backend remote` of the other commands. --listen needs grpcio, which axla[service]
installs. At SIGTERM or Ctrl-C, the server ends after the requests that are running; a second signal ends it
at once. docs/service.md has the limits, the log, the counters, and what happens when something breaks.
"""

from __future__ import annotations

import argparse
import re
import signal
from pathlib import Path

from axla.core.errors import InvalidArgument

_LIMITS = {
    "clients": "at once", "memory": "bytes of one client", "message": "bytes of a message, as a program",
    "arrays": "of one client", "programs": "of one client", "calls": "requests of one client at once",
    "seconds": "of one request", "processor-seconds": "of one client; 0: no limit",
}  # fmt: skip
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla serve`."""
    from axla.service.limits import ClientLimits

    add = parser.add_argument
    add("--socket", metavar="PATH", help="listen on a unix socket, which only its owner can open")
    add("--listen", metavar="HOST:PORT", help="listen for gRPC; port 0: a free port, which the log names")
    add("--certificate", metavar="FILE", default="", help="the server's certificate, for TLS")
    add("--key", metavar="FILE", default="", help="the private key of the certificate")
    add("--token-file", metavar="FILE", help="a file of tokens, one per line; clients must send one")
    add("--backend", action="append", metavar="NAME", help="repeatable; the first is the default (cpu)")
    for name, about in _LIMITS.items():
        default = getattr(ClientLimits, name.replace("-", "_"))
        about = f"limit: {about} (default: {text(default)})"
        add(f"--{name}", default=default, type=number, metavar="N", help=about)
    add("--drain", type=float, default=30.0, metavar="SECONDS", help="wait for open requests (default: 30)")
    add("--log", choices=("text", "json", "none"), default="text", help="format of the log (default: text)")
    add("--metrics", metavar="HOST:PORT", help="serve counters for Prometheus there, at /metrics")


def number(text: str) -> float:
    """Parses a number of bytes such as 500M or 4G."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text.upper())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}, wanted a number, as 60, 500M or 4G")
    value = float(match[1]) * _UNITS[match[2]]
    return int(value) if value.is_integer() else value


def text(value: float) -> str:
    """A number of bytes as text in the form that `number` parses, such as 4G."""
    unit = next((unit for unit, size in reversed(_UNITS.items()) if value and value % size == 0), "")
    return f"{value / _UNITS[unit]:g}{unit}"


def execute(options: argparse.Namespace) -> int:
    """Runs `axla serve`; returns its exit status."""
    from axla.service.limits import ClientLimits
    from axla.service.supervisor import Settings, Supervisor

    if not (options.socket or options.listen) or bool(options.certificate) != bool(options.key):
        what = "wanted --socket PATH or --listen HOST:PORT, and --certificate only with --key"
        raise InvalidArgument(f"axla serve: {what}")
    names = [name.replace("-", "_") for name in _LIMITS]
    limits = ClientLimits(**{name: getattr(options, name) for name in names})
    tokens = Path(options.token_file).read_text("utf-8").split() if options.token_file else []
    if options.token_file and not tokens:
        raise InvalidArgument(f"axla serve: the file of tokens {options.token_file!r} is empty")
    given = tuple(options.backend or ("cpu",)), limits, tuple(tokens), options.log, options.drain
    supervisor, listener = Supervisor(Settings(*given)), None
    if options.socket:
        supervisor.listen(options.socket)
    if options.listen:
        from axla.service.over_grpc import Listener

        files = options.certificate, options.key
        listener = Listener(
            options.listen, supervisor.greet, limits, *files, guarded=bool(tokens), note=supervisor.note
        )  # fmt: skip
        supervisor.note("listens", port=listener.port)
    if options.metrics:
        from axla.service.metrics import serve

        supervisor.note("metrics", port=serve(options.metrics, supervisor.counters))
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: supervisor.stop())
    supervisor.run()
    if listener is not None:
        listener.stop()
    return 0
