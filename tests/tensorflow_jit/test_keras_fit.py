"""Models and layers of Keras through `axla.tensorflow.jit`: training, evaluation, prediction, calls."""

import numpy as np
import pytest

import tensorflow as tf
from axla import UnsupportedError
from axla.tensorflow import explain, jit

keras = pytest.importorskip("keras")

STEPS, BATCH = 50, 16


def mlp():
    return keras.Sequential(
        [keras.Input((20,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4)]
    )


def cnn():
    return keras.Sequential(
        [
            keras.Input((12, 12, 2)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
        ]
    )


def transformer():
    given = x = keras.Input((8, 16))
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 8)(x, x))
        hidden = keras.layers.Dense(32, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(16)(hidden))
    return keras.Model(given, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D()(x)))


class Own(keras.Model):
    """A model with a call and a step of its own."""

    def __init__(self):
        super().__init__()
        self.inner, self.last = keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(4)
        self.drop = keras.layers.Dropout(0.3)

    def call(self, x, training=False):
        return self.last(self.drop(self.inner(x), training=training))

    def train_step(self, data):
        return {**super().train_step(data), "twice": self._loss_tracker.result() * 2}


SHAPES = {mlp: (20,), cnn: (12, 12, 2), transformer: (8, 16), Own: (20,)}


class Losses(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.logs = []

    def on_train_batch_end(self, batch, logs=None):
        self.logs.append(logs["loss"])


def data(make, count=STEPS * BATCH):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, *SHAPES[make])).astype(np.float32), rng.integers(0, 4, count)


def compiled(make, through_axla, jit_compile=False):
    keras.utils.set_random_seed(3)
    model = make()
    if through_axla:
        assert jit(model) is model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"], jit_compile=jit_compile)
    return model


def operations(function):
    """The operations of a ConcreteFunction, and of the functions that it calls."""
    graphs = [function.graph, *(one.graph for one in function.graph._functions.values())]
    return {operation.type for graph in graphs for operation in graph.get_operations()}


@pytest.mark.parametrize("make", [mlp, cnn, transformer])
def test_fit_evaluate_and_predict_are_as_in_tensorflow(make):
    x, y = data(make)
    found = []
    for through_axla in (False, True):
        model, losses = compiled(make, through_axla), Losses()
        model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, callbacks=[losses])
        tests = model.evaluate(x[:40], y[:40], batch_size=BATCH, verbose=0)
        found.append(losses.logs + tests)
        found.append(model.predict(x[:40], batch_size=BATCH, verbose=0))
        found.append(model(x[:5]).numpy())
    assert len(found[0]) == STEPS + 2
    for ours, theirs in zip(found[3:], found[:3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
    assert [len(step.traces) for step in (model.train_step, model.predict_step)] == [1, 2]


def test_a_model_with_a_step_of_its_own_and_random_numbers():
    x, y = data(Own, 20 * BATCH)
    found = []
    for through_axla in (False, True):  # XLA and axla draw the same numbers
        model, losses = compiled(Own, through_axla, jit_compile=not through_axla), Losses()
        history = model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, callbacks=[losses])
        found.append([*losses.logs, *history.history["twice"]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_nothing_is_left_to_tensorflow():
    model = compiled(mlp, True)
    x, y = data(mlp, 4 * BATCH)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    concrete = model.train_step.get_concrete_function((tf.constant(x[:BATCH]), tf.constant(y[:BATCH])))
    around = {"Placeholder", "ReadVariableOp", "AxlaLaunch", "AssignVariableOp", "Identity", "NoOp"}
    assert operations(concrete) == around


def test_the_last_compile_counts():
    x, y = data(mlp, 2 * BATCH)
    model = compiled(mlp, True)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(
        optimizer=keras.optimizers.SGD(0.0), loss="sparse_categorical_crossentropy", jit_compile=True
    )
    model.fit(x, y, batch_size=BATCH, verbose=0)
    for one, weight in zip(before, model.trainable_weights, strict=True):
        np.testing.assert_array_equal(one, weight)


def test_batches_of_several_sizes_and_several_steps_at_once():
    x, y = data(mlp, 5 * BATCH + 3)
    found = []
    for through_axla in (False, True):
        model = compiled(mlp, through_axla)
        model.steps_per_execution = 2
        history = model.fit(x, y, batch_size=BATCH, epochs=2, verbose=0, shuffle=False)
        found.append(history.history["loss"] + [model.train_on_batch(x[:7], y[:7])[0]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_layers():
    keras.utils.set_random_seed(0)
    x, _ = data(mlp, 6)
    layer = keras.layers.Dense(3, activation="gelu")
    wanted = layer(x)
    assert jit(layer) is layer
    for _ in range(2):
        np.testing.assert_allclose(layer(x), wanted, rtol=1e-5, atol=1e-6)
    model = keras.Sequential([keras.Input((20,)), layer, keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(x, np.ones(6), batch_size=2, verbose=0)  # a step of TensorFlow, with the layer in it
    around = tf.function(model).get_concrete_function(tf.TensorSpec([None, 20]))
    assert {"AxlaLaunch", "MatMul"} <= operations(around)
    after = keras.ops.gelu(keras.ops.matmul(x, layer.kernel) + layer.bias, approximate=False)
    np.testing.assert_allclose(layer(x), after, rtol=1e-4, atol=1e-5)
    assert np.abs(after - wanted).max() > 1e-4


def test_a_training_loop_with_a_tape_outside():
    x, y = data(Own, 5 * BATCH)
    found = []
    for through_axla in (False, True):
        keras.utils.set_random_seed(0)
        model = mlp()
        if through_axla:
            jit(model)
        optimizer, losses = keras.optimizers.Adam(), []
        for k in range(5):
            part = slice(k * BATCH, (k + 1) * BATCH)
            with tf.GradientTape() as tape:
                scores = keras.losses.sparse_categorical_crossentropy(
                    y[part], model(x[part]), from_logits=True
                )
                loss = tf.reduce_mean(scores)
            optimizer.apply_gradients(
                zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True)
            )
            losses.append(float(loss))
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_errors_name_the_operation():
    class Text(keras.layers.Layer):
        def call(self, x):
            return tf.strings.to_number(tf.strings.as_string(x))

    model = jit(keras.Sequential([keras.Input((2,)), Text(), keras.layers.Dense(1)]))
    model.compile(optimizer="sgd", loss="mse")
    with pytest.raises(UnsupportedError, match=r"AsString, .*test_keras_fit.py"):
        model.fit(np.ones([4, 2]), np.ones(4), verbose=0)


def test_what_keras_saves_is_of_tensorflow(tmp_path):
    x, _ = data(mlp, 4)
    model = compiled(mlp, True)
    wanted = model(x).numpy()
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "model.keras")(x), wanted, rtol=1e-5)
    model.export(tmp_path / "saved", verbose=False)
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(saved.serve(x), wanted, rtol=1e-5)
    assert "AxlaLaunch" not in operations(saved.signatures["serving_default"])


def test_explain_has_calls_of_layers_and_models():
    for one in (keras.layers.Dense(3), keras.Sequential([keras.layers.Dense(3)])):
        jit(one)(np.ones((2, 4), np.float32))
        (cluster,) = explain(one).clusters
        assert len(cluster.executables) == 1
        assert "MatMul" in str(explain(one))
