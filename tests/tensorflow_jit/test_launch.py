"""AxlaLaunch: clusters run by TensorFlow's executors."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorflow as tf
from axla.tensorflow.clusters import cluster as clusters
from axla.tensorflow.clusters.cluster import Cluster
from axla.tensorflow.clusters.launch import launch
from axla.tensorflow.graph import Output, graph_of
from axla.tensorflow.messages import decode


def cluster_of(function, *specs, name="cluster_0"):
    """A cluster of what a function of TensorFlow computes."""
    traced = tf.function(function, autograph=False).get_concrete_function(*specs)
    graph = graph_of(decode(traced.graph.as_graph_def().SerializeToString(), "GraphDef"))
    inputs = [Output(tensor.op.name, 0) for tensor in traced.inputs]
    outputs = [Output(tensor.op.name, tensor.value_index) for tensor in traced.outputs]
    return Cluster(name, graph, inputs, outputs)


def floats(*dims):
    return tf.TensorSpec(dims, tf.float32)


X, Y = np.arange(6, dtype=np.float32), np.full(6, 0.5, np.float32)


def test_results_are_those_of_tensorflow_eagerly_in_functions_and_in_sessions():
    cluster = cluster_of(lambda x, y: (x * y + 1, tf.reduce_sum(x)), floats(None), floats(None))
    wanted = [X * Y + 1, X.sum()]
    for found, value in zip(launch(cluster, [tf.constant(X), tf.constant(Y)]), wanted, strict=True):
        np.testing.assert_array_equal(found, value)

    @tf.function
    def around(x, y):
        return launch(cluster, [x * 2, y])

    np.testing.assert_array_equal(around(X, Y)[0], X * 2 * Y + 1)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None])
        made = launch(cluster, [x, x])
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(made, {x: X})[0], X * X + 1)


def test_one_executable_for_each_choice_of_shapes():
    cluster = cluster_of(lambda x: tf.sqrt(x), floats(None))
    for size in (3, 4, 0, 3, 4):
        np.testing.assert_array_equal(launch(cluster, [tf.ones(size)])[0], np.ones(size))
    assert len(cluster.executables) == 3


def test_a_value_that_shapes_depend_on_is_part_of_the_choice():
    cluster = cluster_of(lambda x, n: tf.reshape(x, n), floats(None), tf.TensorSpec([None], tf.int32))
    for dims in ([2, 3], [3, 2], [2, 3], [6]):
        (found,) = launch(cluster, [tf.constant(X), tf.constant(dims)])
        np.testing.assert_array_equal(found, X.reshape(dims))
    assert cluster.constant == {1} and len(cluster.executables) == 3


def test_a_value_that_a_loop_needs_for_its_shapes():
    def body(x, n):
        return tf.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.reduce_sum(tf.fill(n, x))), (0, x)
        )

    cluster = cluster_of(body, floats(), tf.TensorSpec([1], tf.int32))
    assert float(launch(cluster, [tf.constant(2.0), tf.constant([5])])[1]) == 32.0


@pytest.mark.parametrize(
    "dtype", [tf.bool, tf.int8, tf.uint16, tf.int64, tf.half, tf.bfloat16, tf.float64, tf.complex64]
)
def test_types(dtype):
    cluster = cluster_of(lambda x: tf.reverse(x, [0]), tf.TensorSpec([None], dtype))
    given = tf.cast(tf.constant([0, 1, 1, 0, 1]), dtype)
    (found,) = launch(cluster, [given])
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, given.numpy()[::-1])


def test_inputs_that_are_not_aligned():
    cluster = cluster_of(lambda x: x * 2, floats(None))
    whole = tf.range(1000, dtype=tf.float32)

    @tf.function
    def part(x):
        rows = tf.reshape(x, [8, 125])  # row 1 shares memory with the whole, 500 bytes behind its begin
        return launch(cluster, [rows[1]])[0]

    np.testing.assert_array_equal(part(whole), np.arange(125, 250) * 2)


def test_no_inputs_and_no_results():
    cluster = cluster_of(lambda: tf.range(5) * 2)
    np.testing.assert_array_equal(launch(cluster, [])[0], np.arange(5) * 2)
    many = cluster_of(lambda *values: tf.add_n(values), *[floats(2)] * 300)
    np.testing.assert_array_equal(launch(many, [tf.ones(2)] * 300)[0], [300, 300])


def test_errors_are_those_of_tensorflow_with_the_node():
    cluster = cluster_of(lambda x, y: tf.add(x, y, name="sum"), floats(None), floats(None))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"node 'sum' \(AddV2\).*\[3\], \[4\]"):
        launch(cluster, [tf.ones(3), tf.ones(4)])
    where = cluster_of(lambda x: tf.where(x), floats(None))
    with pytest.raises(tf.errors.UnimplementedError, match="not known before the program has run"):
        launch(where, [tf.ones(3)])
    graph = tf.Graph()
    with graph.as_default():
        made = launch(cluster, [tf.ones(3), tf.ones(4)])
    with (
        tf.compat.v1.Session(graph=graph) as session,
        pytest.raises(tf.errors.InvalidArgumentError) as caught,
    ):
        session.run(made)
    assert "{{node cluster_0}}" in str(caught.value)


def test_a_program_of_another_process():
    cluster = cluster_of(lambda x: -x, floats(2))
    graph = tf.Graph()
    with graph.as_default():
        (made,) = launch(cluster, [tf.ones(2)])
    node = graph.as_graph_def().node[-1]
    node.attr["program"].i = 1 << 40
    other = tf.Graph()
    with other.as_default():
        tf.ones(2, name=graph.as_graph_def().node[0].name)
        tf.import_graph_def(tf.compat.v1.GraphDef(node=[*graph.as_graph_def().node[:-1], node]), name="again")
    with (
        tf.compat.v1.Session(graph=other) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="there is no program 1099511627776"),
    ):
        session.run(f"again/{made.name}")


def test_executables_are_bounded(monkeypatch):
    monkeypatch.setattr(clusters, "MOST_EXECUTABLES", 3)
    cluster = cluster_of(lambda x: x + 1, floats(None))
    for size in (1, 2, 3, 1, 4, 1, 5, 1):
        np.testing.assert_array_equal(launch(cluster, [tf.zeros(size)])[0], np.ones(size))
    sizes = [one.compiled.interface.parameters[0].shape.dims[0] for one in cluster.executables]
    assert sorted(sizes) == [1, 4, 5]


def test_an_executable_is_held_before_others_find_it(monkeypatch):
    cluster, add, uses = cluster_of(lambda x: x + 1, floats(None)), Cluster._add, []

    def added(self, made):
        uses.append(made.struct.uses)
        add(self, made)

    monkeypatch.setattr(Cluster, "_add", added)
    launch(cluster, [tf.zeros(2)])
    assert uses == [1] and cluster.executables[0].struct.uses == 0


def test_executables_that_run_are_not_freed():
    cluster = cluster_of(lambda x: x + 1, floats(None))
    for size in (1, 2, 3):
        launch(cluster, [tf.zeros(size)])
    runs = cluster.executables[1]
    runs.struct.uses += 1
    cluster.free()
    assert cluster.executables == [runs]
    for size in (1, 2):
        np.testing.assert_array_equal(launch(cluster, [tf.zeros(size)])[0], np.ones(size))
    assert len(cluster.executables) == 2
    runs.struct.uses -= 1
    cluster.free()
    assert not cluster.executables


def test_a_cluster_goes_with_its_graph():
    graph = tf.Graph()
    with graph.as_default():
        cluster = cluster_of(lambda x: x + 1, floats(2))
        (made,) = launch(cluster, [tf.zeros(2)])
    number = cluster.number
    del cluster
    gc.collect()
    with tf.compat.v1.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(made), [1, 1])
    del graph, made, session
    gc.collect()
    assert number not in clusters.clusters


def test_threads_with_shapes_of_their_own():
    cluster, wrong = cluster_of(lambda x: tf.cumsum(x), floats(None)), []

    def work(seed):
        for size in np.random.default_rng(seed).integers(1, 12, 60):
            found = launch(cluster, [tf.ones(size)])[0].numpy()
            if not np.array_equal(found, np.arange(1, size + 1)):
                wrong.append((size, found))

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(cluster.executables) == 11


def test_threads_that_begin_at_once():
    program = """
import threading
import tensorflow as tf
import axla.tensorflow

go, found = threading.Barrier(8), []

def work():
    go.wait()
    found.append(float(axla.tensorflow.jit(lambda x: x * 2)(tf.constant(3.0))))

threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(found)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str([6.0] * 8), done.stderr[-2000:]
