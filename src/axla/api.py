"""The verbs: parse, compile, device_put, check."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.shape import ProgramShape
from axla.ir.graph import Module

if TYPE_CHECKING:
    from axla.interpreter.executable import InterpretedExecutable
    from axla.runtime.executable import Executable

BACKENDS = ("cpu", "one-lane", "interpreter")


def parse(source: str | bytes | os.PathLike[str]) -> Module:
    """The module of HLO text. `str` and `bytes` are content; a path object is opened.

    Raises ParseError for text that is not HLO, with line, column and a caret.
    """
    from axla.text import parse_hlo

    if isinstance(source, os.PathLike):
        source = Path(source).read_bytes()
    if isinstance(source, bytes):
        try:
            source = source.decode()
        except UnicodeDecodeError as error:
            raise UnsupportedError(
                f"parse: the content is not UTF-8 text (byte {error.start}); HLO text is what is read so far"
            ) from None
    if not isinstance(source, str):
        raise InvalidArgument(f"parse: source must be str, bytes or a path, found {type(source).__name__}")
    return parse_hlo(source)


def compile(  # noqa: A001
    module: Module, *, backend: str = "cpu", target_cpu: str | None = None, target_features: Sequence[str] | None = None,
    donate: Sequence[int] = (), num_replicas: int = 1, num_partitions: int = 1, device_assignment: Any = None,
    arg_types: Any = None, dim_args: Any = None,
) -> Executable | InterpretedExecutable:  # fmt: skip
    """A callable program. `module` is not changed. `donate`: parameter leaves whose memory results may take over.

    Raises VerifyError for an invalid module, UnsupportedError for what the backend does not do.
    """
    from axla.ir.clone import clone_module
    from axla.ir.verify import verify

    if backend not in BACKENDS:
        raise InvalidArgument(f"compile: backend={backend!r}; there are {', '.join(BACKENDS)}")
    if num_replicas != 1 or num_partitions != 1 or device_assignment is not None:
        raise UnsupportedError("compile: one replica and one partition is what runs so far")
    if arg_types is not None or dim_args is not None:
        raise UnsupportedError("compile: arg_types and dim_args belong to StableHLO with symbolic sizes, not read so far")
    verify(module)
    if backend == "interpreter":
        from axla.interpreter.executable import InterpretedExecutable

        return InterpretedExecutable(module)
    from axla.codegen.target import cpu_target, host_target, one_lane_target
    from axla.cpu.compiler import compile_module
    from axla.cpu.donation import donate_parameters
    from axla.runtime.executable import Executable

    work = clone_module(module)
    # Arrays of the runtime are row-major; an entry layout says how bytes lie in a program that C calls.
    shape = work.entry.program_shape
    work.set_config(
        entry_layout=ProgramShape(tuple(s.logical for s in shape.parameters), shape.result.logical, shape.names)
    )
    if donate:
        donate_parameters(work, donate)
    target = one_lane_target() if backend == "one-lane" else host_target()
    if target_cpu is not None:
        target = cpu_target(target_cpu, target.triple)
    if target_features is not None:
        from dataclasses import replace

        target = replace(target, features=frozenset(target_features))
    compiled = compile_module(work, target)
    return Executable(compiled.images, compiled.interface, compiled.constants)


def device_put(array: Any) -> Any:
    """The value of a NumPy array (or anything NumPy takes) as an `axla.Array`."""
    from axla.runtime.array import device_put as put

    return put(array)
