"""JAX on axla under stress: `scripts/soak jax` starts processes that run this file.

Each process has eight threads that compile, run, donate, delete, call back into Python and raise. The first
process runs to the end of the time and prints the memory that it holds; the others end earlier, while the
threads work.

A process that is late prints the stacks of its threads repeatedly: if the process is only slow, they change.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback
import warnings

THREADS = 8
LATE, DEADLINE = 60, 300
"""The seconds after its time after which a process is late, and after which it hangs."""


def resident() -> int:
    """The resident memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Work:
    """The random work of one thread."""

    def __init__(self, seed: int) -> None:
        import jax
        import jax.numpy as jnp
        import numpy as np

        self.jax, self.jnp, self.np = jax, jnp, np
        self.random = random.Random(seed)
        self.add = jax.jit(lambda x, y: x + y)
        self.step = jax.jit(lambda x: x * 0.5 + 1, donate_argnums=0)
        self.long = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, x: x @ x / 64, x))
        self.host = jax.jit(lambda x: jax.pure_callback(np.tanh, x, x))
        self.wrong = jax.jit(lambda x: jax.pure_callback(self._raise, x, x))
        self.kept = [jnp.ones((64, 64))]

    def _raise(self, x):
        raise ValueError("as it should")

    def once(self) -> None:
        jnp, np = self.jnp, self.np
        x = self.random.choice(self.kept)
        match self.random.randrange(9):
            case 0:
                scale = self.random.random()
                assert self.jax.jit(lambda x: (x * scale).sum())(x).shape == ()
            case 1:
                self.kept.append(self.add(x, x) * 0.5)
            case 2:
                y = self.step(jnp.array(x))
                np.testing.assert_allclose(y[0, 0], x[0, 0] * 0.5 + 1, rtol=1e-4)
            case 3:
                y = self.long(x)
                y.delete() if self.random.random() < 0.3 else self.kept.append(y)
            case 4:
                np.testing.assert_allclose(self.host(x)[1], np.tanh(np.asarray(x))[1], rtol=1e-4)
            case 5:
                try:
                    self.wrong(x).block_until_ready()
                except Exception as error:
                    assert "as it should" in str(error), error
                else:
                    raise AssertionError("a callback raised, and nobody knows")
            case 6:
                np.asarray(x)
                del self.kept[:-2]
                self.kept.append(jnp.ones((64, 64)))
            case 7:
                y = jnp.array(x)
                y.delete()
                with contextlib.suppress(RuntimeError):
                    self.add(y, x)
                    raise AssertionError("an array that was deleted was read")
            case 8:
                x.is_ready()
                self.jax.device_put(np.ones((3, 5))).block_until_ready()


def child(seconds: float, seed: int, whole: bool) -> None:
    """Runs the work of a process. If not `whole`, it ends at a random moment, as soon as each thread has
    finished its current operation. (A thread that is killed inside jaxlib by the end of the interpreter
    aborts the process, with stock JAX too.)
    """
    faulthandler.dump_traceback_later(seconds + LATE, repeat=True)
    warnings.filterwarnings("ignore", "os.fork")  # JAX warns of children that use it; these do not
    import jax

    logging.getLogger("jax").setLevel(logging.CRITICAL)  # it logs the exceptions of callbacks
    over = threading.Event()
    end = time.monotonic() + seconds
    works = [Work(seed + n) for n in range(THREADS)]

    def run(work: Work) -> None:
        try:
            while time.monotonic() < end and not over.is_set():
                work.once()
                if work.random.random() < 0.002:
                    jax.clear_caches()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    if not whole:
        time.sleep(seconds * random.Random(seed).random())
        fork = os.fork()
        if fork == 0:
            os._exit(0)
        _, status = os.waitpid(fork, 0)
        over.set()
        sys.exit(os.waitstatus_to_exitcode(status))
    sizes, first = [], time.monotonic()
    while time.monotonic() < end:
        time.sleep(min(10, max(end - time.monotonic(), 0)))
        gc.collect()
        sizes.append(resident() >> 20)
        print(f"{time.monotonic() - first:.0f} s: {sizes[-1]} MiB", flush=True)
    for thread in threads:
        thread.join()
    print("sizes", *sizes)


def native_stacks(process: subprocess.Popen) -> str:
    """The native stacks of a process, if there is a debugger."""
    if shutil.which("gdb") is None:
        return "(no gdb, no native stacks)"
    arguments = ["gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt"]
    return subprocess.run(arguments, capture_output=True, text=True, check=False).stdout


def output(process: subprocess.Popen, name: str, seconds: float) -> str:
    """The output of a process, which must end with status 0 within `seconds`."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        stacks = native_stacks(process)
        process.kill()
        raise AssertionError(f"{name} hangs:\n{stacks}") from None
    assert process.returncode == 0, f"{name} gave {process.returncode}"
    return out


def soak(seconds: float) -> str:
    """Runs one process for the whole time, and others that end earlier. Returns the report, or raises
    AssertionError.
    """
    environment = {**os.environ, "JAX_PLATFORMS": "axla"}

    def start(length: float, seed: int, kind: str) -> subprocess.Popen:
        arguments = [sys.executable, __file__, kind, str(length), str(seed)]
        return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)

    whole = start(seconds, 0, "whole")
    begin, slowest, ended = time.monotonic(), 0.0, 0
    try:
        while time.monotonic() < begin + seconds and whole.poll() is None:
            name, now = f"the process of seed {ended + 1}, which ends in the middle,", time.monotonic()
            output(start(5, ended + 1, "part"), name, 5 + DEADLINE)
            slowest = max(slowest, time.monotonic() - now)
            ended += 1
        left = max(begin + seconds - time.monotonic(), 0)
        out = output(whole, f"the process of {seconds} s", left + DEADLINE)
    finally:
        whole.kill()
    sizes = [int(size) for size in out.splitlines()[-1].split()[1:]]
    middle, last = sizes[len(sizes) // 3 :][: len(sizes) // 3], sizes[-(len(sizes) // 3 or 1) :]
    text = (
        f"{ended} processes ended in the middle, the slowest after {slowest:.0f} s; "
        f"memory in time {', '.join(map(str, sizes[:: len(sizes) // 12 or 1]))} MiB, most {max(sizes)}"
    )
    assert not middle or max(last) < max(middle) * 1.1, f"memory grows: {text}: {sizes}"
    return text


if __name__ == "__main__":
    child(float(sys.argv[2]), int(sys.argv[3]), sys.argv[1] == "whole")
