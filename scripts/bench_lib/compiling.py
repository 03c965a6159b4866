"""The section `compile`: processor time of cold compilation, and of warm starts from the cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench_lib import models, peers, programs
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import Times


def compiling(effort: Effort) -> Iterator[Row]:
    """Rows for cold compilation without a cache. The time of parsing is not counted on either side."""
    texts = {b.name: b.text for b in programs.kernels()}
    texts |= {"loop, 8 carries": programs.mixed_loop(), "loop, 60 carries": programs.exp_tanh_loop(60)}
    compile_row(effort, "", "", programs.add(7).text)  # starts both compilers
    for section, found in (("compile", texts), ("compile, modules", _corpus())):
        for name, text in found.items():
            if effort.only in name:
                yield compile_row(effort, section, name, text)
    for name, make in (("GPT of 8 layers, Adam step", _gpt_step), ("4,000 instructions", _long)):
        if effort.only in name:
            yield _warm(effort, name, make())


def compile_row(effort: Effort, section: str, name: str, text: str) -> Row:
    """The row for one program: both compilers alternate, and the best time of each counts."""
    ours, theirs, size = [], [], 0
    for _ in range(min(5, effort.rounds) if len(text) < 1 << 18 else 1):
        mine, size = cold(text)
        ours.append(mine)
        stablehlo = peers.stablehlo_of(peers.xla_module(text))
        start = time.process_time()
        peers.xla_compile(stablehlo)
        theirs.append(time.process_time() - start)
    times = Times({"axla": [min(ours)], "XLA": [min(theirs)]})
    return timed(effort, section, name, times, "XLA", goal=1.5, note=f"object {size / 1024:.0f} KiB")


def cold(text: str) -> tuple[float, int]:
    """Returns the processor time from a parsed text to an executable, in seconds, and the bytes of its object
    code.
    """
    import axla
    from axla.core import cache

    cache.clear()
    module = axla.parse(text)
    start = time.process_time()
    made = axla.compile(module)
    return time.process_time() - start, made.memory().code


def _corpus() -> dict[str, str]:
    """The modules of `bench_hlo`, and the models of the corpus whose texts have all constants."""
    paths = {path.stem: path for path in sorted((models.HOME / "bench_hlo").glob("*.hlo"))}
    paths |= {path.parent.name: path for path in models.corpus()}
    texts = {name: path.read_text() for name, path in paths.items()}
    return {name: text for name, text in texts.items() if "constant({...})" not in text}


_CHILD = """
import sys, time
import axla
axla.compile(axla.parse("HloModule m\\nENTRY e { ROOT x = f32[7] parameter(0) }"))
module = axla.parse(open(sys.argv[1]).read())
start = time.process_time()
axla.compile(module)
print(time.process_time() - start)
"""


def _warm(effort: Effort, name: str, text: str) -> Row:
    """The row for processor time of compilation in fresh processes, each of which has compiled a small
    program before. It compares a process that finds the program on disk with one that does not.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.hlo"
        path.write_text(text)
        environment = os.environ | {"AXLA_CACHE_DIR": str(Path(folder) / "cache")}
        command = [sys.executable, "-c", _CHILD, str(path)]
        first, *others = [float(subprocess.check_output(command, env=environment)) for _ in range(4)]
    ratio = min(others) / first
    return Row("compile, warm", name, effort.threads, min(others), "cold", first, ratio, ratio, goal=0.05)


def _long() -> str:
    return programs.large(4_000).text


def _gpt_step(layers: int = 8, tokens: int = 64, width: int = 768, words: int = 4096) -> str:
    """The HLO text of a step of Adam for a language model."""
    import jax
    import jax.numpy as jnp

    def normal(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def loss(weights: Any, text: Any) -> Any:
        x = weights[0][text[:, :-1]]
        for qkv, out, up, down in weights[1]:
            q, k, v = (part.reshape(*x.shape[:2], 12, -1) for part in jnp.split(normal(x) @ qkv, 3, -1))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8
            scores = jax.nn.softmax(jnp.where(np.tri(x.shape[1], dtype=bool), scores, -1e9))
            x += jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape) @ out
            x += jax.nn.gelu(normal(x) @ up) @ down
        likely = jax.nn.log_softmax(normal(x) @ weights[0].T)
        return -jnp.take_along_axis(likely, text[:, 1:, None], -1).mean()

    def step(weights: Any, first: Any, second: Any, text: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, text)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
        moved = jax.tree.map(lambda w, m, v: w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
        return value, moved, first, second

    shape = jax.ShapeDtypeStruct
    sizes = (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)
    layer = tuple(shape(size, np.float32) for size in sizes)
    weights = shape((words, width), np.float32), [layer] * layers
    lowered = jax.jit(step).lower(weights, weights, weights, shape((2, tokens + 1), np.int32))
    return lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
