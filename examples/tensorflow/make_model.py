"""Makes the SavedModel of this example, a small network that says in which quadrant a point lies.

python make_model.py [FOLDER]     needs TensorFlow
"""

import shutil
import sys
from pathlib import Path

import tensorflow as tf


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        tf.random.set_seed(1)
        self.w1 = tf.Variable(tf.random.normal([2, 8]), name="w1")
        self.b1 = tf.Variable(tf.zeros([8]), name="b1")
        self.w2 = tf.Variable(tf.random.normal([8, 4]), name="w2")
        self.b2 = tf.Variable(tf.zeros([4]), name="b2")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def scores(self, x):
        return {"scores": tf.nn.softmax(self.logits(x))}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, "x"),
            tf.TensorSpec([None], tf.int32, "quadrant"),
        ]
    )
    def train(self, x, quadrant):
        """A step of training."""
        weights = [self.w1, self.b1, self.w2, self.b2]
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(quadrant, self.logits(x))
            loss = tf.reduce_mean(losses)
        for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.5 * slope)
        return {"loss": loss}

    def logits(self, x):
        return tf.tanh(x @ self.w1 + self.b1) @ self.w2 + self.b2


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("model")
    network = Network()
    for _ in range(500):
        x = tf.random.uniform([64, 2], -1, 1)
        left, below = tf.cast(x[:, 0] < 0, tf.int32), tf.cast(x[:, 1] < 0, tf.int32)
        network.train(x, 3 * below + left - 2 * left * below)
    signatures = {"serving_default": network.scores, "train": network.train}
    shutil.rmtree(folder, ignore_errors=True)
    tf.saved_model.save(network, str(folder), signatures, tf.saved_model.SaveOptions(save_debug_info=False))
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    shutil.rmtree(folder / "assets", ignore_errors=True)


if __name__ == "__main__":
    main()
