"""The public functions `parse`, `compile` and `device_put`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from axla.core.collector import collector_paused
from axla.core.errors import InvalidArgument, ParseError
from axla.core.regex import ascii_regex, regex
from axla.ir.graph import Module
from axla.ir.places import located

if TYPE_CHECKING:
    from axla.backends import Client, Executable
    from axla.stablehlo.mlir import Source

_MLIR = ascii_regex(
    r"""(?:\s|//[^\n]*+)*+(?:module\b|func\.func\b|sdy\.mesh\b|"[\w.]+"[ ]*\(|[#!][\w$.]+[ ]*=)"""
)
_GRAPH_DEF = regex(r"\s*node\s*\{\s*name\s*:|\n[\s\S]{1,3}\n[\s\S][\w./\-]+\x12[\s\S][A-Z]\w+")
_PATH = regex(r"[^\n\s{}()=]*\.(?:hlo|mlir|mlirbc|vhlo\.bc|pb|pbtxt|txt|hlo\.txt)")
_BYTECODE = b"ML\xefR"
_MACHINE_CODE = (b"axla-executable ", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def parse(
    source: str | bytes | os.PathLike[str], *, arg_types: Sequence[Any] | None = None,
    dim_args: Sequence[int] | None = None, elided: str = "keep",
) -> Module:  # fmt: skip
    """Parses a program: HLO text, an HLO proto (wire or text format), StableHLO text or bytecode. The content
    decides which format it is.

    StableHLO whose entry function has sizes `?` becomes a DynamicModule, which `compile` takes with the types
    of its arguments. With `dim_args` or `arg_types` it is specialised at once: `dim_args` are values of the
    first arguments, which are then no longer arguments; `arg_types` (`"tensor<3x4xf32>"`, a Shape, an array)
    are the types of the others.

    HLO text with constants `{...}`, as JAX's `compiled.as_text()` writes it, does not run. With elided="fill"
    such constants get the meaningless numbers that XLA's parser gives them, and a warning is issued.

    `str` and `bytes` are content; a path object is opened, and errors name the file. Raises ParseError for
    malformed content, with line, column and a caret (in bytecode, the byte offset), and VerifyError or
    UnsupportedError, with the operation.
    """
    file = os.fsdecode(source) if isinstance(source, os.PathLike) else ""
    with located(file), collector_paused():
        module = _parsed(contents(source), file, arg_types, dim_args, elided)
    module.file = file
    return module


def _parsed(content: str | bytes, file: str, arg_types: Any, dim_args: Any, elided: str) -> Module:
    from axla.text import parse_hlo

    if isinstance(content, str) and content.startswith("HloModule") and arg_types is dim_args is None:
        return parse_hlo(content, elided=elided, file=file)
    from axla import proto

    is_proto = proto.looks_like_proto(content)
    program = None if is_proto else stablehlo(content)
    if program is not None:
        from axla.stablehlo.modules import DynamicModule, entry_of, import_source, is_symbolic

        if arg_types is None and dim_args is None and is_symbolic(program, entry_of(program)):
            return DynamicModule(program, entry_of(program))
        return import_source(program, arg_types=arg_types, dim_args=dim_args)
    if arg_types is not None or dim_args is not None:
        raise InvalidArgument("parse: arg_types and dim_args are for StableHLO only, found another format")
    if is_proto:
        return proto.read(content)
    _refuse_path(content)
    if is_graph_def(content):
        raise ParseError(
            "parse: this is a TensorFlow GraphDef, wanted HLO: axla.tensorflow.load(source, feeds=[...], "
            "fetches=[...]) makes a function of it, axla.aot.compile and axla tfcompile make libraries"
        )
    if isinstance(content, bytes):
        try:
            return proto.read(content)
        except ParseError as error:
            message = f"parse: the content is not UTF-8 text, not StableHLO bytecode, and {error.message}"
        raise ParseError(message)
    return parse_hlo(content, elided=elided, file=file)


def _refuse_path(content: str | bytes) -> None:
    """Raises ParseError if a `str` looks like the name of a file: it must be the program itself."""
    if isinstance(content, str) and len(content) < 4096 and _PATH.fullmatch(content):
        there = "" if os.path.exists(content) else ", which does not exist"
        raise ParseError(
            f"parse: {content!r} looks like the name of a file{there}; a str is read as a "
            f"program: parse(pathlib.Path({content!r})) opens a file"
        )


def is_graph_def(content: str | bytes) -> bool:
    """Whether a content is a TensorFlow GraphDef, as text or as a binary message."""
    start = content[:4096]
    return _GRAPH_DEF.match(start if isinstance(start, str) else start.decode("latin-1")) is not None


def contents(source: str | bytes | os.PathLike[str]) -> str | bytes:
    """Reads a program from text, bytes or a file: returns text, or the bytes of a proto or of bytecode."""
    if isinstance(source, str):
        return source
    if isinstance(source, os.PathLike):
        with open(source, "rb") as file:
            source = file.read()
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    from axla.proto import looks_like_proto

    if isinstance(source, bytes) and source.startswith(_MACHINE_CODE):
        raise InvalidArgument(
            "parse: source is a serialised executable or a pickle: these hold code, and are not read as "
            "programs; wanted HLO or StableHLO. Executable.load takes what Executable.serialize returned"
        )
    if isinstance(source, bytes) and not source.startswith(_BYTECODE) and not looks_like_proto(source):
        with contextlib.suppress(UnicodeDecodeError):
            return source.decode()
    if not isinstance(source, bytes):
        raise InvalidArgument(f"parse: source must be str, bytes or a path, found {type(source).__name__}")
    return source


def stablehlo(content: str | bytes) -> Source | None:
    """Parses and verifies StableHLO text or bytecode; returns None for any other content."""
    if isinstance(content, bytes):
        if not content.startswith(_BYTECODE):
            return None
        from axla.stablehlo.bytecode import read

        source = read(content)
    elif _MLIR.match(content) is None:
        return None
    else:
        from axla.stablehlo.text import parse as parse_mlir

        source = parse_mlir(content)
    from axla.stablehlo.verify import verify

    verify(source)
    return source


def compile(  # noqa: A001
    module: Module, *, backend: str | Client = "cpu", target_cpu: str | None = None,
    target_features: Sequence[str] | None = None,
    donate: Sequence[int] = (), num_replicas: int | None = None, num_partitions: int | None = None,
    device_assignment: Any = None, arg_types: Any = None, dim_args: Any = None, replicas: str | None = None,
    flags: Any = (), constant: Any = (),
) -> Executable:  # fmt: skip
    """Compiles a module to a callable program; `module` is not changed. `backend` is a name (`axla backends`
    lists them) or a Client. `donate` lists the parameter leaves whose memory results may use. `arg_types` and
    `dim_args` are the sizes of a module with `?`, as in `parse`. The program runs on `num_replicas` times
    `num_partitions` participants, by default the numbers in the module's header. With replicas="first" only
    the first participant runs, and a collective returns what it returns in a group of one. `flags` apply to
    this compilation only.

    `constant`: parameters with the same value in every run, as pairs (or a mapping) of a number or name and
    an array. They are no longer arguments, and `donate` does not count them. What depends on them alone is
    computed once, and matrix products get them in the layout that they read. Writable arrays are copied.

    Raises VerifyError for an invalid module, UnsupportedError for what the backend does not support,
    CompileError for infeeds or outfeeds without a total order.
    """
    from axla.backends import Client, CompileOptions, get

    client = backend if isinstance(backend, Client) else get(backend).client
    bound, lent = not isinstance(constant, tuple) or bool(constant), []
    with collector_paused():
        if isinstance(module, Module) and bound:
            from axla.backends.binding import with_lent_constants
            from axla.backends.prepare import has_whole_arrays, specialized
            from axla.ir.verify import verify

            module = specialized(module, arg_types, dim_args)
            verify(module)
            module, lent = with_lent_constants(module, constant)
            arg_types = dim_args = None
            if not client.backend.copies_constants or has_whole_arrays(module):
                for literal in lent:
                    literal.keep()
        options: Any = (
            donate, num_replicas, num_partitions, device_assignment, replicas, target_cpu, target_features,
            arg_types, dim_args, flags,
        )  # fmt: skip
        made = client.compile(module, CompileOptions(*options))
        for literal in lent:
            literal.keep()
        return made


def device_put(array: Any, device: Any = None) -> Any:
    """Copies an array to a device, as an `axla.Array`. `array` is a NumPy array, anything that NumPy converts
    to one, or an `axla.Array` of another device. `device` is a device of a client or the number of a `cpu`
    device; the default is the first `cpu` device.

    Raises InvalidArgument if `array` is not an array, or if the device does not exist or belongs to another
    process.
    """
    from axla.core.profile import transfer
    from axla.runtime.array import device_put as put

    if device is not None:
        from axla.backends import get

        put = partial(get("cpu").client.device_put, device=device)
    return transfer(put, array)
