"""Converts an executable to bytes and back. The bytes are a header, and a payload that the backend writes.

**Loading runs the machine code inside.** Load only bytes that you made yourself, or that come from people
whom you trust to run programs here: `unpack` detects damage and foreign machines, but not malicious code.
Readers of programs (`axla.parse`, `axla run`) refuse these bytes. They contain no pickle.

    axla-executable 1
  digest of the rest  length of the fingerprint  fingerprint (JSON)  payload
"""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import asdict
from hashlib import blake2b
from typing import Any, NoReturn

from axla.codegen.native import systems
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.runtime.cpu_features import refuse_foreign
from axla.target.machine import Target

MAGIC = b"axla-executable "
FORMAT = 1
_HEAD = MAGIC + b"%d\n" % FORMAT
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The versions, options and machine with which a program was compiled. `options` is a CompileOptionsProto
    in hexadecimal; `features` are LLVM's names. `triple`, `cpu` and `features` are empty if the payload has
    no machine code.
    """

    axla: str
    llvm: str
    backend: str
    options: str = ""
    replicas: int = 1
    partitions: int = 1
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target | None, backend: str, *more: Any) -> Fingerprint:
        """The fingerprint of a program compiled in this process. `target` is the machine that code was
        generated for; None if there is no machine code. `more` has options, replicas and partitions.
        """
        machine = (target.triple, target.cpu, tuple(sorted(target.features))) if target is not None else ()
        return cls(*versions(), backend, *more, *machine)


def pack(payload: bytes, fingerprint: Fingerprint) -> bytes:
    """The bytes of an executable, which `unpack` reads."""
    head = json.dumps(asdict(fingerprint)).encode()
    body = len(head).to_bytes(8, "little") + head + payload
    return _HEAD + blake2b(body, digest_size=_DIGEST).digest() + body


def unpack(data: bytes) -> tuple[bytes, Fingerprint]:
    """Returns (payload, fingerprint) that were given to `pack`. The payload may have machine code, which runs
    when it is loaded.

    Raises InvalidArgument for bytes that are not a complete serialised executable, and UnsupportedError for
    machine code of another version of axla or LLVM, or for another machine.
    """
    if not is_serialized(data):
        _refuse("the bytes do not begin like one")
    line, _, rest = bytes(data).partition(b"\n")
    if line + b"\n" != _HEAD:
        version = line[len(MAGIC) :][:20].decode("utf-8", "replace")
        raise UnsupportedError(f"serialised executable: found format {version!r}, wanted {str(FORMAT)!r}")
    digest, body = rest[:_DIGEST], rest[_DIGEST:]
    if blake2b(body, digest_size=_DIGEST).digest() != digest:
        _refuse("it is damaged or not complete: its digest does not match")
    try:
        length = int.from_bytes(body[:8], "little")
        found = json.loads(body[8 : 8 + length])
        fingerprint = Fingerprint(**{**found, "features": tuple(found["features"])})
        bytes.fromhex(fingerprint.options)
        if fingerprint.triple:
            _check(fingerprint)
        return body[8 + length :], fingerprint
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _refuse(f"its header is invalid ({error})")


def is_serialized(data: object) -> bool:
    """Whether data begins like the bytes of a serialised executable."""
    return isinstance(data, bytes | bytearray | memoryview) and bytes(data[: len(MAGIC)]) == MAGIC


def _refuse(what: str) -> NoReturn:
    raise InvalidArgument(f"serialised executable: {what}")


@functools.cache
def versions() -> tuple[str, str]:
    """Returns the versions of (axla, llvmlite), without importing llvmlite."""
    from importlib.metadata import PackageNotFoundError, version

    own = sys.modules["axla"].__version__
    try:
        return own, version("llvmlite")
    except PackageNotFoundError:
        return own, "none"


def _check(found: Fingerprint) -> None:
    for what, value, wanted in zip(("axla", "LLVM"), (found.axla, found.llvm), versions(), strict=True):
        if value != wanted:
            raise UnsupportedError(f"serialised executable: made by {what} {value}, wanted {what} {wanted}")
    if not systems.runs(found.triple):
        here = f"{systems.machine()} {sys.platform}"
        raise UnsupportedError(f"serialised executable: compiled for {found.triple}, this machine is {here}")
    refuse_foreign(found.cpu, found.features, False)
