"""A session of TensorFlow with clusters under stress, for `scripts/soak tensorflow`.

Eight threads run one session with changing numbers of rows. Some runs fail: shapes that do not fit each
other, too little memory, sessions that are closed during a run. It asserts that results are right, that
memory does not grow, and that the number of executables stays within its bound.
"""

from __future__ import annotations

import faulthandler
import gc
import random
import threading
import time
import traceback
from typing import Any

import numpy as np
from soak_jax import resident

THREADS, MOST_ROWS = 8, 80


class Model:
    """Two clusters with an operation on strings between them."""

    def __init__(self) -> None:
        import axla.tensorflow
        import tensorflow as tf

        self.tf, v1 = tf, tf.compat.v1
        self.w = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = v1.placeholder(tf.float32, [None, None])
            self.other = v1.placeholder(tf.float32, [None, None])
            self.copies = v1.placeholder(tf.int64, [2])
            hidden = tf.nn.relu(tf.matmul(self.x, self.w, name="product") * 2 - 1)
            text = tf.strings.as_string(tf.reduce_sum(hidden))
            self.y = tf.nn.softmax(hidden + tf.cast(tf.strings.length(text) > 100, tf.float32) * 2)
            self.wrong = tf.nn.softmax(tf.tanh(tf.add(self.x, self.other, name="sum")) * 2)
            self.large = tf.tanh(tf.tile(self.x, self.copies) * 2 + 1) * 3
        self.session: Any = axla.tensorflow.Session(graph=self.graph, jit="auto")

    def once(self, chance: random.Random) -> None:
        """Makes one run and checks the results."""
        rows = chance.randint(2, MOST_ROWS)
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
        match chance.randrange(1000):
            case n if n % 20 == 1:
                given = {self.x: x, self.other: np.ones((rows + 1, 16), np.float32)}
                self.refused(self.wrong, given, self.tf.errors.InvalidArgumentError, "sum")
            case 0:  # TensorFlow waits 10 s for memory, and all threads that free tensors wait with it
                given = {self.x: x, self.copies: [1 << 14, 1 << 14]}
                self.refused(self.large, given, self.tf.errors.ResourceExhaustedError, "")
            case _:
                found = self.session.run(self.y, {self.x: x})
                hidden = np.maximum(x @ self.w * 2 - 1, 0)
                raised = np.exp(hidden - hidden.max(1, keepdims=True))
                np.testing.assert_allclose(found, raised / raised.sum(1, keepdims=True), rtol=2e-4, atol=1e-6)

    def refused(self, fetch: Any, given: Any, kind: type[Exception], node: str) -> None:
        try:
            self.session.run(fetch, given)
        except kind as error:
            assert node in str(error) and "cluster_" in str(error), error
        else:
            raise AssertionError(f"{fetch} was to fail")


def closed_in_the_middle(chance: random.Random) -> None:
    """Closes a session while threads run it: they must get errors of TensorFlow, or results."""
    model, failed = Model(), []
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            try:
                model.once(random.Random(chance.random()))
            except (model.tf.errors.OpError, RuntimeError):
                return
            except BaseException:
                failed.append(traceback.format_exc())
                return

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(chance.random())
    model.session.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a run of a session that was closed hangs"
    assert not failed, failed[0]


def soak(seconds: float) -> str:
    """Returns the report, or raises AssertionError."""
    from axla.tensorflow.clusters.cluster import MOST_EXECUTABLES

    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    model, end, failed, runs = Model(), time.monotonic() + seconds, [], [0] * THREADS

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            while time.monotonic() < end and not failed:
                model.once(chance)
                runs[number] += 1
        except BaseException:
            failed.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=[number]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    sizes, chance, closed = [], random.Random(99), 0
    while time.monotonic() < end and not failed:
        closed_in_the_middle(chance)
        closed += 1
        gc.collect()
        sizes.append(resident() >> 20)
        print(f"{end - time.monotonic():.0f} s left: {sizes[-1]} MiB, {sum(runs)} runs", flush=True)
        time.sleep(min(5, max(end - time.monotonic(), 0)))
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    clusters = [cluster for part in model.session.parts for cluster in part.clusters]
    counts = [len(cluster.executables) for cluster in clusters]
    assert max(counts) <= MOST_EXECUTABLES, counts
    third = len(sizes) // 3
    text = (
        f"{sum(runs)} runs, {closed} sessions closed in the middle; executables {counts}; memory "
        f"{', '.join(map(str, sizes[:: len(sizes) // 12 or 1]))} MiB"
    )
    assert not third or max(sizes[-third:]) < max(sizes[third : 2 * third]) * 1.1, f"memory grows: {text}"
    return text
