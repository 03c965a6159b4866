"""Start-up: the processor time of fresh processes, best of five. The cache is off; bytecode files exist."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

from bench_lib.row import Effort, Row

_MEASURED = """
import numpy, time
start = time.process_time()
{body}
print(time.process_time() - start)
"""
_X = "numpy.ones(16, numpy.float32)"
_AXLA = f"""
import axla
text = '''HloModule small
ENTRY small {{
  x = f32[16] parameter(0)
  y = f32[16] parameter(1)
  sum = f32[16] add(x, y)
  ROOT product = f32[16] multiply(sum, x)
}}'''
program = axla.compile(axla.parse(text))
numpy.asarray(program({_X}, {_X}))
"""
_JAX = f"""
import jax
numpy.asarray(jax.jit(lambda x, y: (x + y) * x)({_X}, {_X}))
"""
_LLVM = """
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
machine.emit_object(llvm.parse_assembly("define i32 @f(i32 %x) { ret i32 %x }"))
"""
TIMES = 5


def startup(effort: Effort) -> Iterator[Row]:
    """Rows for the time and memory that a process needs until a small program has run once, without those of
    `import numpy`.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"AXLA_CACHE_DIR": "", "JAX_PLATFORMS": "cpu"}
    bodies = {"axla": _AXLA, "JAX": _JAX, "LLVM": _LLVM}
    found: dict[str, list[float]] = {name: [] for name in (*bodies, "numpy", "help")}
    for _ in range(TIMES + 1):  # the first process writes bytecode files
        for name, body in bodies.items():
            command = [sys.executable, "-c", _MEASURED.format(body=body)]
            found[name].append(float(subprocess.check_output(command, env=environment)))
        found["numpy"].append(_seconds(["-c", "import numpy"], environment))
        found["help"].append(_seconds(["-m", "axla", "--help"], environment))
    best = {name: min(seconds[1:]) for name, seconds in found.items()}
    ours, numpy, theirs = best["axla"], best["numpy"], best["JAX"]
    rows = (
        (
            "import, compile, first call",
            ours,
            "JAX",
            theirs,
            f"goal 0.35 s; LLVM alone {best['LLVM']:.2f} s",
        ),
        ("import, compile, first call", ours, "NumPy", numpy, "NumPy: its import, and Python's start"),
        ("axla --help", best["help"], "NumPy", numpy, "goal 0.1 s, with Python's start"),
    )
    for name, seconds, peer, other, note in rows:
        if effort.only in name:
            ratio = seconds / other
            yield Row("startup", name, effort.threads, seconds, peer, other, ratio, ratio, note=note)


def _seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """The processor time of a Python process, from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.check_output([sys.executable, *arguments], env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
