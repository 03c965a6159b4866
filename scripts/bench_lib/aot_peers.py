"""The peers tfcompile and IREE, which compile StableHLO programs in a Python environment of their own.

The environment variable BENCH_PEERS is the path of a Python that has tensorflow-cpu (2.21),
iree-base-compiler and iree-base-runtime (3.13). tfcompile is run by TensorFlow's `saved_model_cli
aot_compile_cpu`; the program is one XlaCallModule op.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from axla.codegen.object_files import sizes

VARIABLE = "BENCH_PEERS"
_LIMIT = 300  # seconds that a compiler may take

_SAVED_MODEL = """
import json, sys
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

folder = sys.argv[1]
about = json.load(open(folder + "/about.json"))
program = open(folder + "/program.bc", "rb").read()

def specs(values):
    return [tf.TensorSpec(shape, tf.as_dtype(dtype), name=f"v{n}") for n, (dtype, shape) in enumerate(values)]

@tf.function(input_signature=specs(about["arguments"]), autograph=False)
def run(*arguments):
    wanted = specs(about["results"])
    found = gen_xla_ops.xla_call_module(
        args=list(arguments), version=9, module=program, Sout=[w.shape for w in wanted],
        Tout=[w.dtype for w in wanted], dim_args_spec=[], platforms=["CPU"], function_list=[],
        has_token_input_output=False, disabled_checks=[])
    return {f"r{n}": result for n, result in enumerate(found)}

module = tf.Module()
module.run = run
tf.saved_model.save(module, folder + "/saved", signatures={"serving_default": run.get_concrete_function()})
"""

_IREE = [
    "--iree-hal-target-backends=llvm-cpu", "--iree-hal-target-device=local", "--iree-input-type=stablehlo",
]  # fmt: skip
_IREE_STATIC = [
    "--iree-llvmcpu-target-triple=x86_64-linux-gnu", "--iree-llvmcpu-target-cpu=generic",
    "--iree-llvmcpu-link-embedded=false", "--iree-llvmcpu-link-static", "--output-format=vm-c",
]  # fmt: skip


class PeerFailure(Exception):
    """Raised if a peer fails; the message is the last line of its output."""


@dataclass(frozen=True)
class StableHlo:
    """A program for the peers: portable bytecode, text, and (type, sizes) of the arguments and results."""

    bytecode: bytes
    text: str
    arguments: list[tuple[str, list[int]]]
    results: list[tuple[str, list[int]]]


def recorded(folder: Path) -> StableHlo:
    """The StableHLO of a model of the corpus."""
    about = json.loads((folder / "meta.json").read_text())
    arguments, results = ([(v["dtype"], v["shape"]) for v in about[key]] for key in ("args", "results"))
    text = (folder / "module.mlir").read_text()
    return StableHlo((folder / "module.vhlo.bc").read_bytes(), text, arguments, results)


def exported(function: object, inputs: Sequence[np.ndarray]) -> StableHlo:
    """The StableHLO of a JAX function."""
    import jax
    from jax import export

    found = export.export(jax.jit(function), platforms=["cpu"])(*inputs)  # type: ignore[arg-type]
    arguments, results = (
        [(str(v.dtype), list(v.shape)) for v in values] for values in (found.in_avals, found.out_avals)
    )
    return StableHlo(found.mlir_module_serialized, str(found.mlir_module()), arguments, results)


def peers() -> Peers | str:
    """The peers, or the reason why there are none."""
    python = os.environ.get(VARIABLE)
    if not python:
        return f"{VARIABLE} is not set"
    return Peers(Path(python)) if Path(python).exists() else f"{VARIABLE}: there is no {python}"


@dataclass(frozen=True)
class Peers:
    """The compilers of an environment. A size is (bytes of code and read-only data, bytes to link or 0)."""

    python: Path

    def tfcompile(self, program: StableHlo) -> tuple[int, int]:
        """Compiles a program by tfcompile; returns its size. The first number is that of the object with the
        code; the second one includes two other objects, with constants and metadata.
        """
        with tempfile.TemporaryDirectory(prefix="axla-bench-") as name:
            folder = Path(name)
            (folder / "program.bc").write_bytes(program.bytecode)
            about = {"arguments": program.arguments, "results": program.results}
            (folder / "about.json").write_text(json.dumps(about))
            _run([str(self.python), "-c", _SAVED_MODEL, name])
            _run([
                str(self.python.parent / "saved_model_cli"), "aot_compile_cpu", "--dir", f"{name}/saved",
                "--tag_set", "serve", "--output_prefix", f"{name}/model", "--cpp_class", "Model",
                "--signature_def_key", "serving_default", "--target_triple", "x86_64-pc-linux",
            ])  # fmt: skip
            found = sizes((folder / "model.o").read_bytes())
            return found.code + found.data, sum(path.stat().st_size for path in folder.glob("model*.o"))

    def iree(self, program: StableHlo) -> tuple[int, int]:
        """Compiles a program by IREE; returns the size of the static library's object. The weights and the
        calls are in C text for IREE's runtime, which does not count.
        """
        with tempfile.TemporaryDirectory(prefix="axla-bench-") as name:
            image = Path(name) / "model.o"
            place = f"--iree-llvmcpu-static-library-output-path={image}"
            self._iree_compile(program, Path(name), [*_IREE_STATIC, place], Path(name) / "model.c")
            found = sizes(image.read_bytes())
            return found.code + found.data, 0

    def iree_seconds(self, program: StableHlo, inputs: Sequence[np.ndarray], rounds: int) -> Iterator[float]:
        """Yields the seconds of a run on one thread, by IREE's own benchmark program, for each round.

        They are processor time of the thread: a mean of wall time would contain other work of the machine.
        """
        with tempfile.TemporaryDirectory(prefix="axla-bench-") as name:
            folder, given = Path(name), []
            for number, x in enumerate(inputs):
                np.save(folder / f"{number}.npy", x)
                given.append(f"--input=@{folder / f'{number}.npy'}")
            self._iree_compile(
                program, folder, ["--iree-llvmcpu-target-cpu=host"], module := folder / "model.vmfb"
            )
            command = [
                str(self.python.parent / "iree-benchmark-module"), f"--module={module}", "--function=main",
                "--device=local-sync", "--benchmark_min_time=0.1s", "--benchmark_format=json", *given,
            ]  # fmt: skip
            for _ in range(rounds):
                text = _run(command)
                line = json.loads(text[text.index("{") :])["benchmarks"][0]
                yield line["cpu_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[line["time_unit"]]

    def _iree_compile(self, program: StableHlo, folder: Path, options: list[str], out: Path) -> None:
        (folder / "module.mlir").write_text(program.text)
        compiler = str(self.python.parent / "iree-compile")
        _run([compiler, *_IREE, *options, str(folder / "module.mlir"), "-o", str(out)])


def _run(command: list[str]) -> str:
    """Runs a command; returns its output. Raises PeerFailure if it fails."""
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": ""}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise PeerFailure(str(problem)) from problem
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if re.search(r"[Ee]rror", line)] or [done.stderr]
        raise PeerFailure(lines[-1].strip()[-200:])
    return done.stdout
