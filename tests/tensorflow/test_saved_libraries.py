"""SavedModels as libraries: axla.aot.compile and axla compile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import axla
import axla.aot
import axla.tensorflow
from axla.aot.library import Role
from axla.tools.main import main

MODEL = Path(__file__).resolve().parents[2] / "examples" / "tensorflow" / "model"
X = np.float32([[0.5, -0.25], [-1, 1], [0.75, 0.5]])


def test_a_signature_gives_what_load_gives(tmp_path, monkeypatch):
    monkeypatch.chdir(MODEL.parent)  # so that the name alone is the folder
    package = axla.aot.compile("model", (X,), name="Quadrant", out=tmp_path / "lib")
    assert package.library.functions[0].signature == "(scores: f32[3,4]) = Quadrant(x: f32[3,2])"
    wanted = axla.tensorflow.load(MODEL)(x=X)["scores"]
    np.testing.assert_allclose(package.load()(X), wanted, rtol=1e-5)
    assert not (tmp_path / "lib" / "Quadrant_variables.safetensors").exists()


def test_variables_that_a_signature_writes_stay_variables(tmp_path):
    args = (np.arange(3, dtype=np.int32), X)
    package = axla.aot.compile(MODEL, args, signature="train", name="Train", out=tmp_path / "lib")
    [function] = package.library.functions
    assert [v.name for v in function.variables] == ["w1", "b1", "w2", "b2"]
    assert all(v.role is Role.VARIABLE for v in function.variables)
    model = package.load()["Train"]
    model.load_variables(tmp_path / "lib" / "Train_variables.safetensors")
    step = axla.tensorflow.load(MODEL, signature="train")
    for _ in range(3):
        wanted = step(quadrant=args[0], x=X)["loss"]
        np.testing.assert_allclose(model(*args), wanted, rtol=1e-4)


def test_variables_by_name_are_kept(tmp_path):
    package = axla.aot.compile(MODEL, (X,), variables=["w1", "b1"], name="Kept", out=tmp_path / "lib")
    [function] = package.library.functions
    assert [(v.name, v.role) for v in function.variables] == [
        ("w1", Role.CONSTANT_VARIABLE), ("b1", Role.CONSTANT_VARIABLE),
    ]  # fmt: skip
    found = axla.aot.read_safetensors(tmp_path / "lib" / "Kept_variables.safetensors")
    np.testing.assert_array_equal(found["w1"], axla.tensorflow.load(MODEL).variables["w1"])


def test_weights_in_a_file(tmp_path):
    package = axla.aot.compile(MODEL, (X,), weights="file", name="Q", out=tmp_path / "lib")
    wanted = axla.tensorflow.load(MODEL)(x=X)["scores"]
    np.testing.assert_allclose(package.load()(X), wanted, rtol=1e-5)


@pytest.mark.parametrize("target", ["wasm32", "cortex-m4f", "aarch64"])
def test_from_the_shell_for_other_machines(tmp_path, target, capsys):
    words = ["compile", str(MODEL), "-o", str(tmp_path / "lib"), "--name", "Q", "--rows", "1,4"]
    assert main([*words, "--arg-types", "f32[rows,2]", "--target", target]) == 0
    header = (tmp_path / "lib" / "Q.h").read_text()
    assert "Q_1_run(" in header and "Q_4_run(" in header and "Q_run_batch(" in header
    assert (tmp_path / "lib" / "Q.rs").is_file()


def test_a_model_with_a_configuration(tmp_path):
    config = """
    feed { id { node_name: "serving_default_x" } shape { dim { size: 3 } dim { size: 2 } } name: "class" }
    fetch { id { node_name: "StatefulPartitionedCall" } name: "scores" }
    """
    package = axla.aot.compile(MODEL, config=config, name="Q", out=tmp_path / "lib")
    np.testing.assert_allclose(package.load()(X), axla.tensorflow.load(MODEL)(x=X)["scores"], rtol=1e-5)
    text = (tmp_path / "lib" / "Q.hpp").read_text()
    assert "float *arg_class_data()" in text and '"class"' in text


@pytest.mark.parametrize("options, message", [
    ({}, r"sizes of argument x: f32\[\?,2\] are open: .*--arg-types"),
    ({"args": (X, X)}, r"args: found 2 for 1 arguments: x: f32\[\?,2\]"),
    ({"args": (X[:, :1],)}, "found"),
    ({"args": (X.astype(complex),)}, "found an array of complex128"),
    ({"args": (X,), "signature": "tain"}, "no signature 'tain'; .* did you mean train"),
    ({"args": (X,), "operations": ["nothing"]}, "operations: there is no node 'nothing'"),
    ({"args": (X,), "freeze_checkpoint": "m"}, "freeze_checkpoint: freeze_... options need a config"),
    ({"signature": "train", "config": "fetch {}"}, "signature: freeze_... options need a config, signature"),
    ({"args": (X,), "variables": ["w9"]}, "no argument is called 'w9'"),
])  # fmt: skip
def test_what_does_not_fit_is_said(tmp_path, options, message):
    args = options.pop("args", None)
    with pytest.raises(axla.AxlaError, match=message):
        axla.aot.compile(MODEL, args, out=tmp_path / "lib", **options)
    assert not (tmp_path / "lib").exists()


def test_a_loaded_function_is_refused(tmp_path):
    with pytest.raises(axla.InvalidArgument, match="give its file or folder"):
        axla.aot.compile(axla.tensorflow.load(MODEL), (X,), out=tmp_path / "lib")


def test_a_model_of_keras_is_refused_with_a_hint(tmp_path):
    (tmp_path / "m.keras").write_bytes(b"PK\x03\x04")
    with pytest.raises(axla.UnsupportedError, match="model.export"):
        axla.aot.compile(tmp_path / "m.keras", out=tmp_path / "lib")
