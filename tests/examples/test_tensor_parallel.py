"""examples/tensor_parallel.py: parts of the weights give what the whole gives."""

import math

import numpy as np
import pytest

import axla


def test_parts_give_what_the_whole_gives(example):
    cut = example("tensor_parallel")
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((5, 6)).astype(np.float32), cut.random_weights(6, 8, 7, rng)
    first, first_bias, second, second_bias = (w.astype(np.float64) for w in weights)
    hidden = x @ first + first_bias
    hidden *= 0.5 * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2)))
    for devices in (1, 2, 4):
        found, _ = cut.compute(x, weights, devices, repeats=2)
        np.testing.assert_allclose(found, hidden @ second + second_bias, rtol=1e-5, atol=1e-5)


def test_partitions_are_the_same_on_the_interpreter(example):
    cut = example("tensor_parallel")
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((3, 4)).astype(np.float32), cut.random_weights(4, 8, 4, rng)
    module = cut.build_network(3, 4, 8, 4, 4).module
    rows = [[x, *own] for own in cut.parts(weights, 4)]
    on_cpu, wanted = (
        axla.compile(module, backend=backend, num_partitions=4).execute_replicated(rows)
        for backend in ("cpu", "interpreter")
    )
    for (found,), (value,) in zip(on_cpu, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(value), rtol=1e-5, atol=1e-6)


def test_the_script_compares_with_one_device(example, capsys):
    apart = example("tensor_parallel").main(["--hidden", "64", "--inputs", "16", "--rows", "16"])
    assert list(apart) == [2, 4] and max(apart.values()) < 1e-5
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(SystemExit):
        example("tensor_parallel").main(["--hidden", "65"])
