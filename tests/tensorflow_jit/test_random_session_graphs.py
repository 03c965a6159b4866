"""Random graphs that grow, with random feeds and fetches: clusters change no result of a session.

TensorFlow's own rewriting of graphs is off in both: it loses feeds of sums, and values behind conditionals.
"""

import random

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from axla.tensorflow.clusters import flags  # noqa: E402
from axla.tensorflow.clusters.session import Session  # noqa: E402

v1 = tf.compat.v1
ONE = [tf.tanh, tf.square, tf.sigmoid, tf.nn.relu, tf.identity, tf.transpose, lambda a: tf.reverse(a, [0])]
TWO = [tf.add, tf.subtract, tf.multiply, tf.maximum, lambda a, b: tf.matmul(a, b) * 0.1]
LEFT = [
    lambda a: v1.py_func(np.negative, [a], tf.float32),
    lambda a: tf.reshape(tf.strings.to_number(tf.strings.as_string(a, precision=6)), [4, 4]),
]


def grow(pick, pool, variables, count):
    """Adds operations on values of the pool to it."""
    for _ in range(count):
        kind, a, b = pick.random(), pick.choice(pool), pick.choice(pool)
        if kind < 0.45:
            made = pick.choice(ONE)(a)
        elif kind < 0.75:
            made = pick.choice(TWO)(a, b)
        elif kind < 0.85:
            made = pick.choice(LEFT)(a)
        elif kind < 0.9:
            with tf.control_dependencies([b]):
                made = tf.exp(-tf.abs(a))
        elif kind < 0.94:
            made = v1.cond(tf.reduce_sum(a) > 0, lambda a=a, b=b: tf.tanh(a + b), lambda b=b: tf.cos(b))
        elif kind < 0.97:
            made = v1.while_loop(lambda i, z: i < 2, lambda i, z, a=a: (i + 1, tf.tanh(z + a)), [0, b])[1]
        else:
            made = a + pick.choice(variables)
        made = tf.clip_by_value(made, -3.0, 3.0)
        made.set_shape([4, 4])
        pool.append(made)


@pytest.fixture(autouse=True)
def small_clusters(monkeypatch):
    monkeypatch.setattr(flags, "_taken", {"tf_xla_min_cluster_size": "1"})
    was = v1.control_flow_v2_enabled()
    yield
    (v1.enable_control_flow_v2 if was else v1.disable_control_flow_v2)()


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    (v1.enable_control_flow_v2 if seed % 2 else v1.disable_control_flow_v2)()
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default():
        inputs = [v1.placeholder(tf.float32, [4, 4]) for _ in range(2)]
        start = np.full([4, 4], 0.5, np.float32)
        variables = [v1.Variable(start, use_resource=handle) for handle in (False, True)]
        pool = list(inputs)
        grow(pick, pool, variables, 15)
        updates = [v1.assign_add(each, tf.tanh(pick.choice(pool)) * 0.1) for each in variables]
        init = v1.global_variables_initializer()
        with Session(config=config) as session, v1.Session(config=config) as plain:
            for each in (session, plain):
                each.run(init)
            for _ in range(5):
                feeds = {each: rng.normal(size=(4, 4)).astype(np.float32) for each in inputs}
                steps = [([pick.choice(updates)], dict(feeds))]
                if pick.random() < 0.4:
                    feeds[pick.choice(pool[2:])] = rng.normal(size=(4, 4)).astype(np.float32)
                steps.append((pick.sample(pool, 3), feeds))
                for step in steps:
                    for found, wanted in zip(session.run(*step), plain.run(*step), strict=True):
                        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
                grow(pick, pool, variables, pick.randrange(4))
            assert any(part.clusters for part in session.parts)
