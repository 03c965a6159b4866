"""The tutorial of the document "Using JIT compilation": softmax regression on handwritten digits.

    python mnist_softmax.py --xla=false      TensorFlow alone
    python mnist_softmax.py                  the session compiles what it can
    python mnist_softmax.py --scope          the loss and its gradient are compiled, by jit_scope

The last step of training is written as a timeline, timeline.ctf.json, for chrome://tracing or Perfetto. With
`TF_XLA_FLAGS=--xla_generate_hlo_graph=.*` in the environment each cluster is drawn too. The digits are those
of scikit-learn: 1,797 images of 8 x 8 pixels, nothing is downloaded.
"""

import argparse
import contextlib

import numpy as np
from sklearn.datasets import load_digits

import axla.tensorflow  # takes its flags out of TF_XLA_FLAGS before TensorFlow reads them

import tensorflow.compat.v1 as tf  # isort: skip

STEPS, BATCH = 400, 100


def model(scope):
    """Placeholders for images and labels, the loss, the step of training and the accuracy."""
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    w = tf.get_variable("w", [64, 10], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [10], initializer=tf.zeros_initializer())
    with scope():
        y = tf.matmul(x, w) + b
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=y))
        step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), labels), tf.float32))
    return x, labels, loss, step, right


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--xla", default="true", choices=("true", "false"), help="compile (true)")
    parser.add_argument("--scope", action="store_true", help="compile what is inside of jit_scope only")
    parser.add_argument("--timeline", default="timeline.ctf.json", help="where the timeline is written")
    options = parser.parse_args(arguments)
    images, digits = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)

    jit = "off" if options.xla == "false" else "scope" if options.scope else "auto"
    with tf.Graph().as_default() as graph:
        x, labels, loss, step, right = model(
            axla.tensorflow.jit_scope if options.scope else contextlib.nullcontext
        )
        start = tf.global_variables_initializer()
    losses = []
    with axla.tensorflow.Session(graph=graph, jit=jit) as session:
        session.run(start)
        for number in range(STEPS):
            rows = np.arange(number * BATCH, (number + 1) * BATCH) % 1500
            feed = {x: images[rows], labels: digits[rows]}
            if number < STEPS - 1:
                losses.append(session.run([loss, step], feed)[0])
        metadata = tf.RunMetadata()
        full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with axla.profile() as profile:
            session.run([loss, step], feed)  # compiles a second time, with clocks
            losses.append(session.run([loss, step], feed, options=full, run_metadata=metadata)[0])
        with open(options.timeline, "w") as file:
            file.write(axla.tensorflow.timeline(metadata, profile))
        accuracy = session.run(right, {x: images[1500:], labels: digits[1500:]})
    print(
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {accuracy:.3f}, timeline in {options.timeline}"
    )
    return losses


if __name__ == "__main__":
    main()
