"""Code generation in a child process, because LLVM ends the process where it cannot select an instruction.

One child serves many modules. It is started when first needed, and again after it has died; the cause of its
death is the reason in a CompileError. `python -m axla.codegen.child` is the child: it reads requests from its
standard input, `u64 length | pickle of (function, text, target, level, space)`, and answers with `u8 kind |
u64 length | bytes`.

`space`, if not None, is the mark and the size of a space for constants in the object. The child cuts this
space out, and the parent inserts the constants there. The answer is then `u64 offset | object without the
space`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import IO, BinaryIO

from axla.core import locks
from axla.core.errors import CompileError, InvalidArgument
from axla.target.machine import Target

_OBJECT, _ERROR = 0, 1


class Child:
    """A process that turns LLVM modules into object files; it is started at the first request."""

    def __init__(self) -> None:
        self._lock = locks.new_lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # id of the process that started it; a fork starts another child
        self._said: IO[bytes] | None = None
        self._heard = 0  # bytes of `_said` that were read

    def emit_object(self, text: str, target: Target, *, level: int = 2) -> bytes:
        """The object file of an LLVM module; raises CompileError with target and reason when LLVM fails."""
        return self._answer(text, target, level, None)

    def emit_assembly(self, text: str, target: Target, *, level: int = 2) -> str:
        """The assembly text of an LLVM module."""
        return self._answer(text, target, level, None, emit="emit_assembly").decode()

    def data_layout(self, target: Target) -> str:
        """LLVM's data layout of a target: sizes, alignment, byte order."""
        return self._answer("", target, 2, None, emit="data_layout").decode()

    def emit_filled(
        self, text: str, target: Target, mark: bytes, contents: bytes, *, level: int = 2
    ) -> bytes:
        """The object of an LLVM module, with `contents` in the space that the module marks with `mark`."""
        answer = self._answer(text, target, level, (mark, len(contents)))
        (at,) = struct.unpack_from("<Q", answer)
        rest = memoryview(answer)[8:]
        return b"".join((rest[:at], contents, rest[at:]))

    def _answer(
        self,
        text: str,
        target: Target,
        level: int,
        space: tuple[bytes, int] | None,
        emit: str = "emit_object",
    ) -> bytes:
        request = pickle.dumps((emit, text, target, level, space))
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(struct.pack("<Q", len(request)) + request)
                process.stdin.flush()
                kind, size = struct.unpack("<BQ", _exactly(process.stdout, 9))
                answer = _exactly(process.stdout, size)
            except (EOFError, BrokenPipeError):
                self._complain(target)
                raise CompileError(f"target {target.name}: LLVM failed: {self._last_words()}") from None
            except BaseException:  # an answer that was not read must not count as the next one
                self._stop()
                raise
            self._complain(target)
            if _is_spirv(target) and not hasattr(os, "fork"):
                self._stop()
        if kind == _ERROR:
            raise CompileError(f"target {target.name}: {answer.decode('utf-8', 'replace')}")
        return answer

    def close(self) -> None:
        """Ends the process; the next request starts another one."""
        with self._lock:
            if self._owner == os.getpid():
                self._stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        if self._owner == os.getpid():
            self._stop()
        self._heard = 0
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "axla.codegen.child"],  # -P: no module from the working directory
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        self._owner = os.getpid()
        return self._process

    def _complain(self, target: Target) -> None:
        """Raises InvalidArgument for a CPU or feature that LLVM does not know, which LLVM itself only warns
        about.
        """
        assert self._said is not None
        if not hasattr(os, "pread"):
            return  # Windows
        said = os.pread(self._said.fileno(), 1 << 16, self._heard)  # the child uses the file position
        self._heard += len(said)
        lines = said.decode("utf-8", "replace").splitlines()
        found = next((line for line in lines if "is not a recognized" in line), "")
        if found:
            self._stop()  # LLVM warns once per process: the next request needs another one
            raise InvalidArgument(f"target {target.name}: {found.partition(' for this')[0]}")

    def _last_words(self) -> str:
        """The last message of a child that died: LLVM's, or else the signal or exit status of the process."""
        assert self._process is not None and self._said is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").splitlines()
        self._stop()
        found = next((line for line in lines if "LLVM ERROR" in line), "")
        if found:
            return found.removeprefix("LLVM ERROR: ")
        end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return f"{end}{': ' + lines[-1] if lines else ''}"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            process.kill()
            process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None


def _exactly(file: IO[bytes], size: int) -> bytes:
    """Reads `size` bytes from a pipe; raises EOFError if it ends before."""
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


CHILD = Child()
"""The child that serves this process."""
atexit.register(CHILD.close)


def _end_with_parent() -> None:
    """Ends this process when its parent has ended: LLVM might work for minutes on results that nothing
    reads.
    """
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests until there are no more, or until the parent has ended."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            (size,) = struct.unpack("<Q", _exactly(requests, 8))
        except EOFError:
            return
        emit, text, target, level, space = pickle.loads(_exactly(requests, size))
        work = partial(_answer, answers, emit, text, target, level, space)
        if _is_spirv(target) and hasattr(os, "fork"):
            _apart(work)
        else:
            work()


def _answer(
    answers: BinaryIO, emit: str, text: str, target: Target, level: int, space: tuple[bytes, int] | None
) -> None:
    """Writes the result of the function `emit` of `codegen.llvm` for a module (an object or assembly text, in
    parts) or an error.
    """
    from axla.codegen import llvm

    try:
        made = getattr(llvm, emit)(text, target, level=level)
        image = made.encode() if isinstance(made, str) else made
        kind, parts = _OBJECT, [memoryview(image)] if space is None else _without_space(image, *space)
    except Exception as error:  # the parent reports every error
        kind, parts = _ERROR, [memoryview(str(error).encode())]
    answers.write(struct.pack("<BQ", kind, sum(map(len, parts))))
    for part in parts:
        answers.write(part)
    answers.flush()


def _is_spirv(target: Target) -> bool:
    """Whether a target is a SPIR-V device, for which LLVM keeps state of earlier modules."""
    return target.triple.startswith("spirv")


def _apart(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process: LLVM for SPIR-V keeps references to types of earlier modules that no
    longer exist.
    """
    from axla.codegen import llvm

    llvm.initialise()
    fork = os.fork()
    if not fork:
        work()
        os._exit(0)
    _, status = os.waitpid(fork, 0)
    if status:
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _without_space(image: bytes, mark: bytes, size: int) -> list[memoryview]:
    """Cuts the space for constants, of `size` bytes from `mark` on, out of an object. Returns its offset as
    u64, the part of the object before it, and the part after it.
    """
    at = image.find(mark)
    if at < 0 or image.find(mark, at + size) >= 0:
        raise CompileError("the object does not contain the space for constants exactly once")
    data = memoryview(image)
    return [memoryview(struct.pack("<Q", at)), data[:at], data[at + size :]]


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
