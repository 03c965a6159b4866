"""axla doctor: shows what is installed here, and checks that it works.

It lists the machine, versions, features of the CPU, flags that are set, packages with entry points, the
cache, and for each backend whether a small program has the same results as on the interpreter. Exit code 1: a
backend that is available has other results, or fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator

import axla
from axla.core.errors import AxlaError, UnsupportedError
from axla.tools.colours import GREEN, RED, YELLOW, painted

PROGRAM = """HloModule doctor
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[37,20] parameter(0)
  w = f32[20,9] parameter(1)
  d = f32[37,9] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[37,9] tanh(d)
  z = f32[] constant(0)
  ROOT r = f32[9] reduce(t, z), dimensions={0}, to_apply=sum
}
"""
PACKAGES = ("numpy", "ml_dtypes", "llvmlite", "scipy", "jax", "jaxlib", "tensorflow", "grpcio", "mpi4py")
GROUPS = ("axla.backends", "axla.ops", "axla.kernels", "axla.passes", "jax_plugins")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla doctor`."""
    parser.add_argument("--no-check", action="store_true", help="do not run a test program")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla doctor`; returns its exit status."""
    for title, lines in (("machine", machine()), ("versions", versions()), ("flags", flags()),
                         ("entry points", entry_points()), ("cache", cache())):  # fmt: skip
        print(title)
        print("".join(f"  {line}\n" for line in lines), end="")
    if options.no_check:
        return 0
    print("backends")
    failed = False
    for name, kind, text in checks():
        colour = {"ok": GREEN, "not here": YELLOW}.get(kind, RED)
        print(f"  {name:12} {painted(kind, colour, sys.stdout)}{f': {text}' if text else ''}", flush=True)
        failed |= kind == "WRONG"
    return int(failed)


def machine() -> list[str]:
    """Lines about the system, the CPU, cores and memory."""
    from axla.codegen.host import host_target
    from axla.core.limits import memory_limit, thread_count

    try:
        host = host_target()
        has = " ".join(sorted(f[1:] for f in host.features if f.startswith("+")))
        cpu = f"target {host.name}, {host.vector_bytes * 8}-bit vectors: {has}"
    except AxlaError as error:
        cpu = str(error)
    return [
        f"{platform.system()} {platform.release()}, {platform.machine()}", cpu,
        f"{thread_count()} threads, {memory_limit() >> 20} MiB of memory",
    ]  # fmt: skip


def versions() -> list[str]:
    """Lines with the versions of axla, Python, and optional packages."""
    from importlib import metadata

    found = [f"axla {axla.__version__}, in {os.path.dirname(axla.__file__)}"]
    found.append(f"Python {platform.python_version()}, {sys.executable}")
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name}: not installed")
    return found


def flags() -> list[str]:
    """Lines with the flags that are set; the token of a service is not shown."""
    from axla.core import flags as known

    told = [f"{n}={v}" for n, v in sorted(os.environ.items()) if n.startswith(("AXLA_", "XLA_FLAGS"))]
    told = [line for line in told if not line.startswith("AXLA_SERVICE_TOKEN")]
    try:
        current = known.current()
    except AxlaError as error:
        return [*told, str(error)]
    changed = [n for n, f in known.FIELDS.items() if getattr(current, n) != f.default]
    return [*told, f"not as by default: {', '.join(changed) or 'none'}"]


def entry_points() -> list[str]:
    """Lines with the entry points of installed packages."""
    from axla.core.plugins import installed
    from axla.passes.added import load_installed

    told = [
        f"{group}: {name} = {entry.value}{f' of {entry.dist.name}' if entry.dist else ''}"
        for group in GROUPS for name, entry in installed(group).items()
    ]  # fmt: skip
    try:
        load_installed()
    except AxlaError as error:
        told.append(str(error))
    return told or ["none"]


def cache() -> list[str]:
    """Lines with the folders of compiled programs, and their sizes."""
    from axla.core import cache as kept

    found = []
    for kind in kept.KINDS:
        folder = kept.directory(kind)
        if folder is None:
            return ["none on disk"]
        sizes = [size for _, size, _ in kept.entries(kind)]
        found.append(f"{folder}: {len(sizes)} entries, {sum(sizes)} bytes")
    return found


def checks() -> Iterator[tuple[str, str, str]]:
    """Yields for each backend its name, "ok", "not here" or "WRONG", and details."""
    from axla import backends
    from axla.comparison import check

    for name in backends.names():
        start = time.perf_counter()
        try:
            report = check(PROGRAM, name)
        except UnsupportedError as error:
            yield name, "not here", str(error).partition("\n")[0]
        except AxlaError as error:
            kind = "not here" if name == "remote" else "WRONG"
            yield name, kind, str(error).partition("\n")[0]
        except Exception as error:
            yield name, "WRONG", f"{type(error).__name__}: {error}"
        else:
            largest = max(output.largest for output in report.outputs)
            took = time.perf_counter() - start
            yield name, "ok", f"compiled and ran in {took:.2f} s, largest difference {largest:.2g}"
