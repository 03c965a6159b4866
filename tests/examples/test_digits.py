"""examples/digits.py: the gradients are right, backends agree, it learns, it draws."""

import numpy as np
import pytest

import axla
from axla import XlaBuilder, ops
from axla.core.dtypes import F32
from axla.core.shape import Shape
from axla.interpreter import evaluate
from service_server import REMOTE, with_server

LAYERS = [(64, 10), (64, 24, 10)]


def loss_and_gradients(digits, layers, x, targets, parameters):
    b = XlaBuilder("gradients")
    weights = [ops.Parameter(b, k, s) for k, s in enumerate(digits.parameter_shapes(layers))]
    loss, gradients = digits.loss_and_gradients(b, ops.Constant(b, x), ops.Constant(b, targets), weights)
    loss, *gradients = evaluate(b.build(ops.Tuple(b, [loss, *gradients])).module, parameters).elements
    return float(loss.array), [g.array for g in gradients]


@pytest.mark.parametrize("layers", LAYERS, ids=["softmax", "network"])
def test_gradients_agree_with_differences(example, layers):
    digits = example("digits")
    rng = np.random.default_rng(0)
    x = rng.random((8, 64), np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 8)]
    parameters = digits.initial_parameters(layers, rng)
    _, gradients = loss_and_gradients(digits, layers, x, targets, parameters)
    for gradient, shape in zip(gradients, digits.parameter_shapes(layers), strict=True):
        assert gradient.shape == shape.dims
    # Along the gradient the loss changes by its squared length.
    length = sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients)
    step = 1e-3
    ahead = [(p + step * g).astype(np.float32) for p, g in zip(parameters, gradients, strict=True)]
    behind = [(p - step * g).astype(np.float32) for p, g in zip(parameters, gradients, strict=True)]
    change = loss_and_gradients(digits, layers, x, targets, ahead)[0]
    change -= loss_and_gradients(digits, layers, x, targets, behind)[0]
    assert change / (2 * step) == pytest.approx(length, rel=5e-3)


@pytest.mark.parametrize("layers", LAYERS, ids=["softmax", "network"])
def test_an_epoch_is_the_same_on_cpu_and_interpreter(example, layers):
    digits = example("digits")
    rng = np.random.default_rng(1)
    images = rng.random((100, 64), np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 100)]
    weights = digits.initial_parameters(layers, rng)
    order = rng.permutation(100).astype(np.int32)
    arguments = [images, targets, order, np.float32(0.1), *weights, *[np.zeros_like(w) for w in weights]]
    module = digits.build_epoch(layers, 100).module
    found = axla.compile(module).execute([axla.device_put(a) for a in arguments])
    expected = axla.compile(module, backend="interpreter").execute(arguments)
    assert len(found) == 2 * len(weights) + 1
    for a, b in zip(found, expected, strict=True):
        assert np.allclose(np.asarray(a), b, rtol=1e-4, atol=1e-6)


def test_predict_is_the_argmax(example):
    digits = example("digits")
    rng = np.random.default_rng(2)
    images, weights = rng.random((7, 64), np.float32), digits.initial_parameters((64, 10), rng)
    images[3] = 0  # all logits equal: the first one
    module = digits.build_predict((64, 10), 7).module
    expected = (images @ weights[0] + weights[1]).argmax(1)
    for backend in ("interpreter", "cpu"):
        [found] = axla.compile(module, backend=backend).execute([images, *weights])
        assert np.asarray(found).tolist() == expected.tolist()


def test_the_network_learns_the_digits_and_the_picture_is_drawn(example, tmp_path, capsys):
    pytest.importorskip("sklearn", reason="scikit-learn holds the digits")
    pytest.importorskip("matplotlib", reason="matplotlib draws the picture")
    trained = example("digits").main(["--epochs", "15", "--out", str(tmp_path)])
    assert trained["network"].test_accuracy[-1] > 0.95
    assert trained["softmax"].test_accuracy[-1] > 0.93
    assert trained["network"].losses[-1] < 0.1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("network: epoch") for line in lines) == 15
    picture = (tmp_path / "digits.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


@pytest.fixture(params=REMOTE)
def remote(request):
    return with_server(request)


def test_losses_on_a_server_are_those_of_cpu(example, remote):
    digits = example("digits")
    rng = np.random.default_rng(3)
    images, classes = rng.random((250, 64), np.float32), rng.integers(0, 10, 250).astype(np.int32)
    data = digits.Data(images[:200], classes[:200], images[200:], classes[200:])
    found, wanted = (
        digits.train("network", (64, 24, 10), data, 4, 0.1, name, seed=1) for name in (remote, "cpu")
    )
    assert found.losses == wanted.losses and wanted.losses[-1] < wanted.losses[0]
    assert found.test_accuracy == wanted.test_accuracy
    for one, other in zip(found.parameters, wanted.parameters, strict=True):
        assert one.elsewhere and np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_parameters_are_donated(example):
    digits = example("digits")
    config = digits.build_epoch((64, 10), 50).module.config
    assert [(a.output, a.parameter) for a in config.aliases] == [((k,), 4 + k) for k in range(4)]
    assert digits.parameter_shapes((64, 10))[0] is Shape(F32, (64, 10))
