"""ApproxTopK: exact on CPUs; its sizes are XLA's."""

import random

import numpy as np
import pytest

from axla.builder import XlaBuilder, ops
from axla.core.dtypes import F32, S32
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.interpreter import evaluate


def best(x, **options):
    b = XlaBuilder("f")
    sub = b.sub_builder("greater")
    one, other, *_ = [ops.Parameter(sub, n, Shape(t)) for n, t in enumerate([F32, F32, S32, S32])]
    greater = sub.build(one > other)
    places = np.broadcast_to(np.arange(x.shape[-1], dtype=np.int32), x.shape)
    given = {"top_k": 3, "reduction_dim": -1, "comparator": greater, **options}
    inits = [np.float32(-np.inf), np.int32(-1)]
    ops.ApproxTopK(b, [ops.Constant(b, x), places], inits, **given)
    return [leaf.array for leaf in evaluate(b.build().module, []).elements]


def test_the_best_are_all_found():
    x = np.random.default_rng(0).standard_normal((4, 300)).astype(np.float32)
    values, places = best(x, recall_target=0.5)
    order = np.argsort(-x, axis=-1)[:, :3]
    assert np.array_equal(places, order)
    assert np.array_equal(values, np.take_along_axis(x, order, -1))


def test_more_are_left_for_who_aggregates_later():
    x = np.random.default_rng(0).standard_normal((2, 1000)).astype(np.float32)
    values, _ = best(x, recall_target=0.9, aggregate_to_topk=False)
    size, _ = ops.ApproxTopKReductionOutputSize(1000, 2, 3, 0.9, False)
    assert values.shape == (2, size) and 3 < size < 1000
    assert np.array_equal(values, -np.sort(-x, axis=-1)[:, :size])


def test_sizes_are_those_of_xla():
    xla = pytest.importorskip("jaxlib._jax", reason="jaxlib is not installed")
    rng = random.Random(3)
    for _ in range(2000):
        size = int(2 ** rng.uniform(0, 22))
        given = (
            size, rng.randint(1, 3), rng.choice([1, 2, 3, 10, 50, 100, 1000]),
            rng.choice([0.5, 0.8, 0.9, 0.95, 0.99, 1.0]), rng.random() < 0.1,
            rng.choice([-1, size, 2 * size, 8 * size]),
        )  # fmt: skip
        assert ops.ApproxTopKReductionOutputSize(*given) == xla.approx_top_k_reduction_output_size(*given), (
            given
        )


@pytest.mark.parametrize("options, message", [
    ({"top_k": 0}, "found top_k=0, wanted 1 to 8"), ({"top_k": 9}, "found top_k=9, wanted 1 to 8"),
    ({"recall_target": 0.0, "aggregate_to_topk": False}, "found recall_target=0.0"),
    ({"reduction_input_size_override": 4, "aggregate_to_topk": False}, "input_size_override=4 is less"),
])  # fmt: skip
def test_refused(options, message):
    with pytest.raises(InvalidArgument, match=message):
        best(np.zeros((2, 8), np.float32), **options)
