"""Profiles and timelines of clusters."""

import itertools
import json

import numpy as np
from test_launch import X, cluster_of, floats

import axla
import tensorflow as tf
from axla.tensorflow.clusters.launch import launch
from axla.tensorflow.clusters.timeline import timeline


def test_a_profile_has_the_steps_of_clusters_and_results_are_the_same():
    cluster = cluster_of(lambda x, y: (tf.linalg.matvec(x, y), y[:0]), floats(None, None), floats(None))
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    with axla.profile() as profile:
        product, empty = launch(cluster, [tf.constant(x), tf.constant(X)])
    np.testing.assert_array_equal(product, x @ X)
    assert empty.shape == (0,)
    (run,) = profile.runs
    assert (run.program, run.calls) == ("cluster_0", 1)
    assert any(step.row.kind != "call" for step in run.steps)
    launch(cluster, [tf.constant(x), tf.constant(X)])
    assert run.calls == 1


def test_a_constant_input_while_a_profile_is_taken():
    cluster = cluster_of(lambda x, n: tf.reshape(x, n), floats(None), tf.TensorSpec([None], tf.int32))
    with axla.profile():
        np.testing.assert_array_equal(
            launch(cluster, [tf.constant(X), tf.constant([3, 2])])[0], X.reshape(3, 2)
        )


def test_a_timeline_has_operations_and_steps_by_one_clock():
    cluster = cluster_of(lambda x: tf.sin(x) + 1, floats(None))
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        made = launch(cluster, [x])
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    with axla.profile() as profile, tf.compat.v1.Session(graph=graph) as session:
        session.run(made, {x: X}, options=options, run_metadata=metadata)
    events = json.loads(timeline(metadata, profile))["traceEvents"]
    (outer,) = [e for e in events if e.get("name", "").startswith("AxlaLaunch")]
    (call,) = [e for e in events if e.get("cat") == "call"]
    # TensorFlow's times are of whole microseconds.
    assert outer["ts"] - 5 <= call["ts"] and call["ts"] + call["dur"] <= outer["ts"] + outer["dur"] + 5
    assert outer["name"] == "AxlaLaunch cluster_0"
    steps = [e for e in events if e.get("cat") == "step"]
    assert steps and all(outer["ts"] - 5 <= e["ts"] <= outer["ts"] + outer["dur"] + 5 for e in steps)


def test_a_timeline_has_only_what_ran_within_its_step():
    cluster = cluster_of(lambda x: tf.sin(x) + 1, floats(None))
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        made = launch(cluster, [x])
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    with axla.profile() as profile, tf.compat.v1.Session(graph=graph) as session:
        session.run(made, {x: X})  # compiles
        session.run(made, {x: X[:2]})  # another program
        session.run(made, {x: X}, options=options, run_metadata=metadata)
    events = json.loads(timeline(metadata, profile))["traceEvents"]
    length = max(e["ts"] + e.get("dur", 0) for e in events if e.get("cat") == "Op")
    assert all(0 <= e["ts"] <= length for e in events if "ts" in e)
    assert not [e for e in events if e.get("cat") == "compile"]
    assert len([e for e in events if e.get("cat") == "call"]) == 1
    names = [e["args"]["name"] for e in events if e.get("name") == "thread_name"]
    assert names == ["cluster_0: steps, mean of 2 calls"]


def test_steps_of_a_timeline_do_not_overlap_in_whole_nanoseconds():
    cluster = cluster_of(lambda x: tf.reduce_sum(tf.sin(x) @ tf.cos(x)), floats(8, 8))
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [8, 8])
        made = launch(cluster, [x])
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    with axla.profile() as profile, tf.compat.v1.Session(graph=graph) as session:
        for _ in range(3):
            session.run(made, {x: np.ones((8, 8))}, options=options, run_metadata=metadata)
    events = json.loads(timeline(metadata, profile))["traceEvents"]
    steps = [(round(e["ts"] * 1e3), round(e["dur"] * 1e3)) for e in events if e.get("cat") == "step"]
    assert len(steps) > 2
    for (begin, length), (after, _) in itertools.pairwise(steps):
        assert begin + length == after
