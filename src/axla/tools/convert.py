"""axla convert: writes a program in another format.

axla convert f.hlo f.pb            HLO text to an HloModuleProto
axla convert m.hlo.pb m.hlo        what XLA dumps (an HloProto) to HLO text
axla convert s.snapshot s.pbtxt    a snapshot to the text format; the program only
axla convert --to=stablehlo f.hlo -

The formats follow from the file names, or from --from and --to; `-` is standard input or output. Without
--from, the format that is read is detected from the content. StableHLO with sizes `?` is converted to
StableHLO as it is, and needs --arg-types for other formats. Between snapshots and HloProtos, arguments,
results and XLA's buffer assignment are kept. A file is written as a whole or not at all.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axla.api import contents, parse, stablehlo
from axla.core.errors import InvalidArgument
from axla.core.files import replace_file
from axla.proto import Snapshot, looks_like_proto, read_snapshot, to_proto, to_text_proto
from axla.text import parse_hlo
from axla.tools.source import add_sizes, sizes_of


def _text_proto(snapshot: Snapshot) -> str:
    return to_text_proto(snapshot.module, "hlo", buffer_assignment=snapshot.buffer_assignment)


def _hlo_proto(snapshot: Snapshot) -> bytes:
    return to_proto(snapshot.module, "hlo", buffer_assignment=snapshot.buffer_assignment)


def _stablehlo(snapshot: Snapshot) -> str:
    from axla.stablehlo import export_text
    from axla.stablehlo.modules import DynamicModule

    module = snapshot.module
    return module.to_string() if isinstance(module, DynamicModule) else export_text(module)


def _hlo(snapshot: Snapshot) -> str:
    _ = snapshot.module.entry  # raises an error if sizes are not known: there is no HLO then
    return snapshot.module.to_string(print_large_constants=True) + "\n"


WRITERS: dict[str, Callable[[Snapshot], str | bytes]] = {
    "hlo": _hlo,
    "proto": lambda s: to_proto(s.module),
    "hloproto": _hlo_proto,
    "textproto": _text_proto,
    "snapshot": Snapshot.to_proto,
    "stablehlo": _stablehlo,
}
"""The writer of each format: HLO text, HloModuleProto, HloProto, HloProto in the text format, HloSnapshot,
StableHLO text.
"""

EXTENSIONS = {
    ".snapshot.pb": "snapshot", ".hlo_snapshot.pb": "snapshot", ".snapshot": "snapshot",
    ".hlo.pb": "hloproto", ".pb": "proto", ".pbtxt": "textproto", ".textproto": "textproto",
    ".hlo": "hlo", ".hlo.txt": "hlo", ".txt": "hlo",
    ".mlir": "stablehlo", ".mlirbc": "stablehlo", ".bc": "stablehlo",
}  # fmt: skip
"""The formats of suffixes; the longest one that a name ends with counts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla convert`."""
    parser.add_argument("source", metavar="A", help="the file to read; `-` is standard input")
    parser.add_argument("target", metavar="B", help="the file to write; `-` is standard output")
    parser.add_argument("--from", dest="source_format", choices=WRITERS, help="the format of A")
    parser.add_argument("--to", dest="target_format", choices=WRITERS, help="the format of B")
    add_sizes(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla convert`; returns its exit status."""
    name = options.target_format or format_of(options.target)
    if name is None:
        raise InvalidArgument(
            f"{options.target}: the name does not say which format to write; use --to={'|'.join(WRITERS)}"
        )
    if options.target.endswith((".mlirbc", ".bc")) and options.target_format is None:
        raise InvalidArgument(f"{options.target}: StableHLO is written as text (.mlir), not as bytecode")
    content = sys.stdin.buffer.read() if options.source == "-" else Path(options.source).read_bytes()
    try:
        snapshot = read_content(content, options.source_format, sizes_of(options))
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{options.source}: not UTF-8 text (byte {error.start})") from None
    result = WRITERS[name](snapshot)
    write_whole(options.target, result.encode() if isinstance(result, str) else result)
    return 0


def format_of(file: str) -> str | None:
    """The format for the suffix of a file name; None if the suffix is not known."""
    endings = [ending for ending in EXTENSIONS if file.endswith(ending)]
    return EXTENSIONS[max(endings, key=len)] if endings else None


def read_content(content: bytes, name: str | None, sizes: dict[str, Any]) -> Snapshot:
    """Reads the program in a file's content, in the format `name`, or, if `name` is None, in the detected
    format. `sizes` are those of a program with `?`.
    """
    if any(value is not None for value in sizes.values()):
        return Snapshot(parse(content, **sizes))
    if name == "hlo":
        return Snapshot(parse_hlo(content.decode()))
    if name == "textproto":
        return read_snapshot(content.decode())
    if name in ("proto", "hloproto", "snapshot"):
        return read_snapshot(content)
    if name is None:
        if looks_like_proto(content):
            return read_snapshot(content)
        text = content.decode("utf-8", "ignore")
        if looks_like_proto(text):
            return read_snapshot(content.decode())
    if name == "stablehlo" and stablehlo(contents(content)) is None:
        raise InvalidArgument("--from=stablehlo: the content is not StableHLO")
    return Snapshot(parse(content))


def write_whole(file: str, content: bytes) -> None:
    """Writes a whole file, or leaves the old file if that fails."""
    if file == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.exists(file) and not os.path.isfile(file):  # a device or a pipe cannot be replaced
        Path(file).write_bytes(content)
        return
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
    mask = os.umask(0)
    os.umask(mask)
    replace_file(file, content, 0o666 & ~mask)
