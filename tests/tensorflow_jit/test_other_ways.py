"""Clusters that Python runs: on other devices, and where TensorFlow has no C API."""

import numpy as np
import pytest

import axla.tensorflow
import tensorflow as tf
from axla.core.errors import UnsupportedError
from axla.tensorflow.clusters import capi, rewriting
from axla.tensorflow.clusters.session import Session

v1 = tf.compat.v1
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(capi, "missing", lambda: "TensorFlow 9 has no TF_RegisterOpDefinition in its C API")


def chain(x):
    return tf.sqrt(tf.abs(x * 2 - 1) + 1)


def chain_of(x):
    return np.sqrt(np.abs(x * 2 - 1) + 1)


def test_a_session_without_the_c_api(no_kernel):
    @tf.function(autograph=False)
    def turns(x):
        return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, chain(s)), (0, x))[1]

    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None])
        text = tf.strings.as_string(tf.reduce_sum(chain(x)))
        y, z = chain(x) + tf.cast(tf.strings.length(text), tf.float32), turns(x)
    with Session(graph=graph) as session:
        for size in (4, 2, 4):
            found, turned = session.run([y, z], {x: X[:size]})
            np.testing.assert_allclose(found, chain_of(X[:size]) + 8, rtol=1e-6)
            np.testing.assert_allclose(turned, chain_of(chain_of(chain_of(X[:size]))), rtol=1e-6)
        report = axla.tensorflow.explain(session)
        assert str(report).startswith("TensorFlow 9 has no TF_RegisterOpDefinition in its C API: PyFunc runs")
        assert {len(cluster.executables) for cluster in report.clusters if cluster.executables} == {2}
        kinds = {operation.type for operation in session._inner.get_operations()}
        assert "PyFunc" in kinds and "AxlaLaunch" not in kinds


def test_a_function_without_the_c_api(no_kernel):
    weight = tf.Variable([2.0, 3.0])

    @axla.tensorflow.jit
    def loss(x):
        return tf.reduce_sum(tf.square(weight * x))

    for _ in range(3):
        with tf.GradientTape() as tape:
            found = loss(tf.constant([1.0, 2.0]))
        assert found == 40
    np.testing.assert_array_equal(tape.gradient(found, weight), [4, 24])
    alone = axla.tensorflow.jit(lambda x: (x * 2, tf.reduce_sum(x)))
    for _ in range(3):
        np.testing.assert_array_equal(alone(X)[0], X * 2)
    graph = tf.Graph()
    with graph.as_default():
        made = alone(tf.constant(X))
    with v1.Session(graph=graph) as session:
        assert session.run(made[1]) == X.sum()


def test_errors_without_the_c_api(no_kernel):
    with tf.Graph().as_default():
        x, y = (v1.placeholder(tf.float32, [None]) for _ in range(2))
        z = chain(tf.add(x, y, name="sum"))
        with Session() as session, pytest.raises(tf.errors.OpError, match="'sum'"):
            session.run(z, {x: X, y: X[:3]})


def test_what_no_program_can_be_made_of_without_the_c_api(no_kernel):
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None])
        n = v1.placeholder(tf.int32, [])
        y = tf.range(tf.cast(tf.reduce_sum(tf.sqrt(x)), tf.int32) + n) * 2 + 1
    with Session(graph=graph) as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y, {x: [1, 4], n: 2}), [1, 3, 5, 7, 9])


def test_clusters_on_a_gpu(monkeypatch):
    monkeypatch.setattr(rewriting, "GPU", "interpreter")
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None])
        with tf.device("/device:XLA_GPU:0"):
            y = chain(x)
        z = chain(x + 1)
        with Session() as session:
            for size in (4, 2):
                found, others = session.run([y, z], {x: X[:size]})
                np.testing.assert_allclose(found, chain_of(X[:size]), rtol=1e-6)
                np.testing.assert_allclose(others, chain_of(X[:size] + 1), rtol=1e-6)
            clusters = axla.tensorflow.explain(session).clusters
            assert sorted(cluster.backend for cluster in clusters) == ["cpu", "interpreter"]


def test_no_gpu(monkeypatch):
    monkeypatch.setenv("AXLA_CUDA", "/no/libcuda.so")
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None])
        with tf.device("/device:XLA_GPU:0"):
            y = tf.add(x, 1.0, name="placed")
        with Session() as session, pytest.raises(UnsupportedError, match="'placed/y'.*XLA_GPU:0; no CUDA"):
            session.run(y, {x: X})
