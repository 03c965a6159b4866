"""Calls functions in a child process, which may crash or hang: `Apart`.

One child serves many calls. It is started when it is first needed, and again after it has died. It runs
`main`, and reads requests, `u64 length | pickle`, from its standard input. Only its parent process sends
requests.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import pickle
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, BinaryIO

from axla.core.errors import AxlaError

_VALUE, _ERROR, _STAGE = 0, 1, 2


class Ended(AxlaError):
    """A child process died or was stopped. `how` is "SIGSEGV", "exit status 3", "hang"...; `stage` is the
    last stage that its call reported, `frames` are the active Python functions, innermost first, and `words`
    is the last line that it wrote.
    """

    def __init__(self, how: str, stage: str = "", frames: tuple[str, ...] = (), words: str = "") -> None:
        super().__init__(f"{how}{f', {stage}' if stage else ''}{f': {words}' if words else ''}")
        self.how, self.stage, self.frames, self.words = how, stage, frames, words


class Apart:
    """A child process that calls functions, for at most `seconds` each. `environment` is added to this
    process's environment; the child runs the files `load` first (see `plugins.load_files`).
    """

    def __init__(
        self, seconds: float = 60.0, environment: Mapping[str, str] | None = None, load: Sequence[str] = ()
    ) -> None:
        self.seconds = seconds
        self._environment = dict(environment or {})
        self._load = tuple(load)
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._stage = ""
        self._is_new = True
        atexit.register(self.close)

    @property
    def last_stage(self) -> str:
        """The last stage that the last call reported."""
        return self._stage

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls an importable function in the child; returns its result or raises its exception. Raises Ended
        if the child died, or was stopped after the time limit. A call is repeated in a new child if an older
        one died: earlier calls may have damaged its memory.
        """
        process = self._running()
        is_new, self._is_new = self._is_new, False
        assert process.stdin is not None
        self._stage = ""
        request = pickle.dumps((function, arguments, self.seconds))
        stop_at = time.monotonic() + self.seconds + 2.0  # before that, the child reports its stack and exits
        try:
            process.stdin.write(struct.pack("<Q", len(request)) + request)
            process.stdin.flush()
            while True:
                kind, size = struct.unpack("<BQ", self._exactly(9, stop_at))
                answer = self._exactly(size, stop_at)
                if kind != _STAGE:
                    break
                self._stage = answer.decode()
        except (EOFError, BrokenPipeError):
            ended = self._ended("")
            if is_new or ended.how == "hang":
                raise ended from None
            return self.call(function, *arguments)
        except TimeoutError:
            raise self._ended("hang") from None
        except BaseException:  # an unread answer must not be taken for that of the next call
            self.close()
            raise
        value = pickle.loads(answer)
        if kind == _ERROR:
            raise value
        return value

    def close(self) -> None:
        """Stops the child; the next call starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *raised: object) -> None:
        atexit.unregister(self.close)
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._is_new = True
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        paths = os.pathsep.join(path for path in sys.path if path)  # -P leaves out the current folder
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from axla.tools.apart import main; main()", *self._load],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths, **self._environment},
        )  # fmt: skip
        return self._process

    def _exactly(self, size: int, stop_at: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        descriptor, found = self._process.stdout.fileno(), bytearray()
        while len(found) < size:
            left = stop_at - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            piece = os.read(descriptor, min(size - len(found), 1 << 20))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)

    def _ended(self, how: str) -> Ended:
        """Stops the child if it still runs; returns the error for its end. `how` is the reason for stopping
        it, "" if the child ended by itself.
        """
        process, said = self._process, self._said
        assert process is not None and said is not None
        if how:
            process.kill()
        code = process.wait()
        said.seek(0)
        words = said.read().decode("utf-8", "replace")
        timed_out = "Timeout (" in words
        if not how and timed_out:
            how = "hang"
        how = how or (signal.Signals(-code).name if code < 0 else f"exit status {code}")
        frames = tuple(re.findall(r'^  File "(?!<)(?:.*/)?([^"]+)", line \d+ in (\S+)', words, re.M))
        lines = [line for line in words.splitlines() if line.strip()]
        last = "" if how == "hang" or "Fatal Python error" in words else (lines[-1] if lines else "")
        llvm = next((line for line in lines if "LLVM ERROR" in line), "")
        stage = self._stage
        self.close()
        return Ended(how, stage, tuple(f"{file}:{name}" for file, name in frames), llvm or last)


_answers: BinaryIO | None = None


def stage(name: str) -> None:
    """Sends the name of a call's current stage to the parent; has no effect outside of a child."""
    if _answers is not None:
        _send(_STAGE, name.encode())


def _send(kind: int, data: bytes) -> None:
    assert _answers is not None
    _answers.write(struct.pack("<BQ", kind, len(data)) + data)
    _answers.flush()


def _end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _serve(requests: BinaryIO, load: Sequence[str]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    faulthandler.enable()
    wrong: Exception | None = None
    if load:
        from axla.tools.plugins import load_files

        try:
            load_files(load)
        except Exception as error:
            wrong = error
    while head := requests.read(8):
        function, arguments, seconds = pickle.loads(requests.read(*struct.unpack("<Q", head)))
        if wrong is not None:
            _send(_ERROR, _pickled(wrong))
            continue
        faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            kind, data = _VALUE, pickle.dumps(function(*arguments))
        except Exception as error:  # the parent raises it
            kind, data = _ERROR, _pickled(error)
        faulthandler.cancel_dump_traceback_later()
        _send(kind, data)


def _pickled(error: Exception) -> bytes:
    """Pickles an exception; one that cannot be pickled is replaced by a RuntimeError with its message."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


def main() -> None:
    """The main function of the child process."""
    global _answers
    _answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what programs print must not be read as an answer
    _serve(sys.stdin.buffer, sys.argv[1:])
