"""The section `models`: cold compilation, run time and memory of whole models of the corpus.

Memory is compared in two ways. *Planned*: the bytes of arguments, results, temporaries and constants, from
axla's interface and from XLA's buffer assignment. *Resident*: the increase of the highest resident size of a
fresh process that has everything imported, by compiling and running the model (most of it is the compiler's),
and by running it alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench_lib import peers
from bench_lib.row import Effort, Row, sized, timed
from bench_lib.timing import Times, compare

HOME = Path(__file__).resolve().parents[3] / "shared" / "conformance"


def models(effort: Effort) -> Iterator[Row]:
    """Rows for each model of the corpus, whose folder is in the environment variable AXLA_CONFORMANCE."""
    found = [path for path in corpus() if effort.only in path.parent.name]
    if not found:
        raise SystemExit(f"models: no */module.hlo.txt in {_folder('models-open')}")
    _cold(found[0].read_text())  # starts both compilers
    rows = [row for path in found for row in _model(effort, path)]
    yield from _by_section(rows)


def corpus() -> list[Path]:
    """The HLO texts of the models, each in a folder of its own; none without the corpus."""
    return sorted(_folder("models-open").glob("*/module.hlo.txt"))


def _folder(name: str) -> Path:
    home = Path(os.environ.get("AXLA_CONFORMANCE") or HOME)
    return home / name if (home / name).is_dir() else HOME / name


def modules(effort: Effort) -> Iterator[Row]:
    """Rows for each module of XLA's benchmark set in the corpus, with random arguments."""
    import axla
    from axla.comparison import random_inputs

    found = [path for path in sorted(_folder("bench_hlo").glob("*.hlo")) if effort.only in path.stem]
    if not found:
        raise SystemExit(f"modules: no *.hlo in {_folder('bench_hlo')}")
    _cold(found[0].read_text())
    rows = []
    for path in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = axla.parse(path.read_text(), elided="fill")  # makes up the elided constants
        module.config = replace(module.config, aliases=(), buffer_donors=())  # arguments are used again
        text = module.to_string(print_large_constants=True)
        rows += _compared(effort, "modules", path.stem, text, random_inputs(module, 0))
    yield from _by_section(rows)


def _by_section(rows: list[Row]) -> list[Row]:
    order = list(dict.fromkeys(row.section for row in rows))
    return sorted(rows, key=lambda row: order.index(row.section))


def _compared(effort: Effort, section: str, name: str, text: str, inputs: list[np.ndarray]) -> Iterator[Row]:
    """Rows for the compilation, the run time and the planned memory of a program."""
    colds = [_cold(text) for _ in range(min(3, effort.rounds))]
    cold = Times({"axla": [a for a, _ in colds], "XLA": [b for _, b in colds]})
    yield timed(effort, f"{section}, compilation", name, cold, "XLA", goal=1.5)
    ours, theirs = peers.axla_function(text), peers.xla_function(text)
    sides = {"axla": peers.axla_call(ours, inputs), "XLA": peers.xla_call(theirs, inputs)}
    times = compare(sides, effort.rounds, effort.seconds / 2)
    yield timed(effort, f"{section}, run", name, times, "XLA", goal=1.05)
    planned = axla_planned(ours.interface), xla_planned(text)
    yield sized(effort, f"{section}, planned memory", name, planned[0], "XLA", planned[1], goal=1.0)


def _model(effort: Effort, path: Path) -> Iterator[Row]:
    name = path.parent.name
    yield from _compared(effort, "models", name, path.read_text(), model_inputs(path.parent))
    (compiled, run), (compiled_, run_) = (_resident(side, path.parent) for side in ("axla", "XLA"))
    yield sized(effort, "models, resident: compile and run", name, compiled, "XLA", compiled_, goal=1.2)
    yield sized(effort, "models, resident: run", name, run, "XLA", run_)


def model_inputs(folder: Path) -> list[np.ndarray]:
    """The recorded arguments of a model, in order."""
    with np.load(folder / "data.npz") as data:
        names = sorted((n for n in data.files if n.startswith("in")), key=lambda n: int(n[2:].lstrip("_")))
        meta = json.loads((folder / "meta.json").read_text())["args"]
        return [data[n].view(np.dtype(a["dtype"])) for n, a in zip(names, meta, strict=True)]


def _cold(text: str) -> tuple[float, float]:
    """The seconds of both compilers (axla, XLA), without a cache; XLA's do not include its parser."""
    import axla
    from axla.core import cache

    cache.clear()
    start = time.perf_counter()
    axla.compile(axla.parse(text))
    ours = time.perf_counter() - start
    stablehlo = peers.stablehlo_of(peers.xla_module(text))
    start = time.perf_counter()
    peers.xla_compile(stablehlo)
    return ours, time.perf_counter() - start


# -- memory


def axla_planned(interface) -> int:
    """The bytes of arguments, results, workspace and constants of a program."""
    shared = {alias.result for alias in interface.aliases}
    results = sum(r.bytes for number, r in enumerate(interface.results) if number not in shared)
    arguments = sum(p.bytes for p in interface.parameters)
    return arguments + results + interface.workspace_bytes + interface.constants_bytes


def xla_planned(text: str) -> int:
    """The bytes of all allocations in XLA's buffer assignment, except those on the stack of a thread."""
    compiled = peers.xla_compile(peers.stablehlo_of(peers.xla_module(text)))
    proto = compiled.get_compiled_memory_stats().serialized_buffer_assignment_proto
    allocations = [dict(_fields(body)) for number, body in _fields(proto) if number == 3]
    return sum(a.get(2, 0) for a in allocations if not a.get(3, 0))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) for the fields of a protocol buffer; the value is a number, or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            size = varint() if size is None else size
            yield tag >> 3, data[at : at + size]
            at += size


def _resident(side: str, folder: Path) -> tuple[int, int]:
    """(bytes of compiling and running, bytes of running), measured in a child process."""
    paths = f"import sys; sys.path[:0] = {sys.path[:2]!r}\nfrom bench_lib import models\n"
    code = paths + f"models.measure_resident({side!r}, {str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    compiled, run = json.loads(done.stdout)
    return compiled, run


def measure_resident(side: str, folder: str) -> None:
    """In the child process: prints the two numbers of `_resident` as JSON. A small program is compiled first,
    to start the compiler.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    text, inputs = (Path(folder) / "module.hlo.txt").read_text(), model_inputs(Path(folder))
    make, call = (
        (peers.axla_function, peers.axla_call) if side == "axla" else (peers.xla_function, peers.xla_call)
    )
    small = "HloModule m\nENTRY e {\n a = f32[64] parameter(0)\n ROOT r = f32[64] tanh(a)\n}\n"
    x = [np.ones(64, np.float32)]
    call(make(small), x)()
    start = _highest()
    function = make(text)
    run = call(function, inputs)
    if side == "XLA":
        function.lower(*inputs).compile()  # otherwise jax compiles at the first call
    before = _highest()
    for _ in range(3):
        run()
    print(json.dumps([_peak() - start, _peak() - before]))


def _highest() -> int:
    """Resets the record of the highest resident size; returns the present size in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
