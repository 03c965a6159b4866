"""Packages are built with the C compilers of their machines and run there: each self-test compares with
what was recorded, in memory that is as bad as the header allows (`strict_memory.h`). `scripts/test-aot`
brings the machines; those in TEST_AOT_TARGETS have to be there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from package_machines import MACHINES, build, run_test
from test_targets import HARD, LOOP, MATHS

import axla.aot
import axla.jax
from axla.codegen.object_files import symbols
from axla.ir.graph import Module
from axla.target.names import TARGETS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from conformance_lib.corpora import corpus  # noqa: E402

WANTED = os.environ.get("TEST_AOT_TARGETS", "").split()
FEW = ("x86-64", "aarch64", "wasm32")  # what models run on when no targets are named, each on one machine
OTHERS = {*MACHINES} - {*TARGETS} - {"s390x-linux-gnu"}
LINKED = [name for name, machines in MACHINES.items() if not machines[0].runs]
RUN = [(name, k) for name, machines in MACHINES.items() if name not in LINKED for k in range(len(machines))]
MODELS = (
    "gp_regression_lapack", "gpt_forward", "lenet_forward", "lstm_forward", "mlp_adam_train",
    "mnist_softmax_train", "sort_topk_hist",
)  # fmt: skip

pytestmark = pytest.mark.cc


def mlp() -> Module:
    """784-128-10 with weights inside."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(5)
    w1, w2 = (rng.normal(0, 0.05, shape).astype(np.float32) for shape in ((784, 128), (128, 10)))

    def predict(x):
        return {"logits": jax.nn.softmax(jax.nn.relu(x @ w1 + 0.1) @ w2)}

    return axla.jax.to_module(predict, jax.ShapeDtypeStruct((1, 784), "float32"))


def scaled_sines() -> Module:
    """A loop that carries a small argument in registers, and has a kernel read it."""
    jax = pytest.importorskip("jax")

    def function(s, x):
        return jax.lax.fori_loop(0, 3, lambda i, x: jax.numpy.sin(x) * s, x)

    return axla.jax.to_module(function, *(jax.ShapeDtypeStruct((n,), "float32") for n in (1, 40)))


def quantized() -> Module:
    """Results of small types: temporaries of f32 would fit into their memory."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def function(s):
        y = jnp.sort(jnp.outer(s, s), axis=0)
        small = jnp.tile(jnp.round(y * 127).astype("int8"), (4, 1))
        return small, jnp.cumsum(y, axis=1).astype("bfloat16").repeat(2, axis=0), jnp.sort(y + 1, axis=1)

    return axla.jax.to_module(function, jax.ShapeDtypeStruct((24,), "float32"))


PROGRAMS = {
    "mlp": mlp, "hard": lambda: HARD, "maths": lambda: MATHS, "loop": lambda: LOOP, "sines": scaled_sines,
    "quantized": quantized,
}  # fmt: skip


def runs_there(program, target: str, machine: int, folder: Path, **options) -> None:
    """Compiles a program, checks that its object needs nothing, and runs its self-test."""
    if WANTED and target not in WANTED:
        pytest.skip(f"TEST_AOT_TARGETS names {' '.join(WANTED)}")
    if not WANTED and target in OTHERS:
        pytest.skip("s390x stands for other triples unless TEST_AOT_TARGETS names targets")
    package = axla.aot.compile(program, out=folder, target=target, name="model", **options)
    apart = {"model_weights"} if options.get("weights") == "separate" else set()
    assert symbols(package.library.image).needed <= apart
    run_test(folder, "model", target, MACHINES[target][machine])


def turn(name: str, names, machines: list[tuple[str, int]], target: str, machine: int, each: int) -> None:
    """Without named targets, one in `each` machines runs a program, and every machine runs one in `each`."""
    if not WANTED and ([*names].index(name) + machines.index((target, machine))) % each:
        pytest.skip("the turn of other machines: scripts/test-aot has every program on those it names")


@pytest.mark.parametrize("target, machine", RUN)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(tmp_path, name, target, machine):
    turn(name, PROGRAMS, RUN, target, machine, 2)
    runs_there(PROGRAMS[name](), target, machine, tmp_path)


@pytest.mark.corpus
@pytest.mark.parametrize("target, machine", RUN)
@pytest.mark.parametrize("name", MODELS)
def test_models(tmp_path, name, target, machine):
    if not WANTED and target not in FEW:
        pytest.skip(f"models run on {', '.join(FEW)} unless TEST_AOT_TARGETS names targets")
    few = [pair for pair in RUN if pair[0] in FEW]
    if target in FEW:
        turn(name, MODELS, few, target, machine, len(few))
    models = corpus("models-open")
    if models is None:
        pytest.skip("the models are not at hand")
    runs_there(models / name / "module.vhlo.bc", target, machine, tmp_path)


@pytest.mark.parametrize("target, machine", RUN)
def test_twins_of_tfcompiles_programs(tmp_path, target, machine):
    """Their self-tests, one program after the other; what C++ says of them is in test_twins.py."""
    if target not in WANTED:
        pytest.skip("twenty programs each: TEST_AOT_TARGETS has to name the target")
    pytest.importorskip("jax")
    from tfcompile_twins import TWINS

    for name, twin in TWINS.items():
        program, args = twin.make()
        runs_there(program, target, machine, tmp_path / name, args=args, **twin.options)


@pytest.mark.parametrize("target", LINKED)
def test_links(tmp_path, target):
    """Whole programs link for machines that cannot be run here."""
    if target not in WANTED:
        pytest.skip("linking with zig takes minutes the first time: TEST_AOT_TARGETS has to name the target")
    runs_there(PROGRAMS["maths"](), target, 0, tmp_path)


@pytest.mark.parametrize("target", ["x86-64", "aarch64", "cortex-m4f", "wasm32"])
def test_a_wrong_result_is_noticed(tmp_path, target):
    axla.aot.compile(HARD, out=tmp_path, target=target, name="model")
    source = tmp_path / "model_test.c"
    text = source.read_text()
    begin = text.index("data[] = {") + len("data[] = {")
    end = text.index("}", begin)
    numbers = text[begin:end].strip().rstrip(",").split(",")
    numbers[-1] = "0x55"  # the exponent of the last number
    source.write_text(text[:begin] + ",".join(numbers) + text[end:])
    with pytest.raises(AssertionError):
        run_test(tmp_path, "model", target, MACHINES[target][0])


def test_the_compilers_warn_of_nothing(tmp_path):
    """`build` is strict: a program with a warning is refused."""
    (tmp_path / "warns.c").write_text("int main(void) { int unused; return 0; }\n")
    with pytest.raises(subprocess.CalledProcessError):
        build(tmp_path, ["warns.c"], "x86-64", MACHINES["x86-64"][0])
