"""Keras 3 on JAX: `fit`, `evaluate` and `predict` of a network with normalisation and dropout."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from report import Timer, finish
from sklearn.datasets import load_digits

EPOCHS = 10

keras.utils.set_random_seed(0)
digits = load_digits()
images = (digits.images[..., None] / 16).astype("float32")
labels = digits.target.astype("int32")
model = keras.Sequential([
    keras.Input((8, 8, 1)),
    keras.layers.Conv2D(16, 3, padding="same"),
    keras.layers.BatchNormalization(),
    keras.layers.Activation("relu"),
    keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(64, activation="gelu"),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(10),
])  # fmt: skip
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(2e-3), loss, metrics=["accuracy"])


def learn():
    history = model.fit(images[:1500], labels[:1500], batch_size=50, epochs=EPOCHS, shuffle=False, verbose=0)
    model.evaluate(images[1500:], labels[1500:], batch_size=297, verbose=0)
    return history.history["loss"], model.predict(images[1500:1532], verbose=0)


timer = Timer()
losses, logits = timer(learn, repeats=3)
finish("keras_digits", timer, {"losses": np.array(losses), "logits": logits}, rtol=1e-2, atol=5e-2)
