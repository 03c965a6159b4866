"""The models of the section `engines`. Models are never removed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# -- convolutional networks


def resnet(n: Any, x: Any) -> Any:
    """ResNet-50 v1.5, as in torchvision."""
    x = n.highest(n.relu(n.batch_norm(n.convolution(x, 64, (7, 7), 2))), 3, 2, 1)
    for wide, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            step = 1 if number else stride
            y = n.relu(n.batch_norm(n.convolution(x, wide, (1, 1))))
            y = n.relu(n.batch_norm(n.convolution(y, wide, (3, 3), step)))
            y = n.batch_norm(n.convolution(y, 4 * wide, (1, 1)))
            if not number:
                x = n.batch_norm(n.convolution(x, 4 * wide, (1, 1), step))
            x = n.relu(x + y)
    return n.linear(n.mean(x), 1000)


def short_resnet(n: Any, x: Any) -> Any:
    """ResNet-50 with 8-bit numbers; the batch norms are folded into scales and biases."""
    x = n.short(n.relu(n.short_convolution(n.short(x), 64, (7, 7), 2)), True)
    x = n.short_highest(x, 3, 2, 1)
    for wide, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            step = 1 if number else stride
            y = n.short(n.relu(n.short_convolution(x, wide, (1, 1))), True)
            y = n.short(n.relu(n.short_convolution(y, wide, (3, 3), step)), True)
            y = n.short(n.short_convolution(y, 4 * wide, (1, 1)))
            if not number:
                x = n.short(n.short_convolution(x, 4 * wide, (1, 1), step))
            x = n.short(n.relu(n.long(x) + n.long(y)), True)
    return n.short_linear(n.short(n.mean(n.long(x)), True), 1000)


def mobilenet(n: Any, x: Any) -> Any:
    """MobileNetV2."""
    x = n.relu6(n.batch_norm(n.convolution(x, 32, (3, 3), 2)))
    for widen, wide, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            step, inner = 1 if number else stride, widen * n.channels(x)
            y = n.relu6(n.batch_norm(n.convolution(x, inner, (1, 1)))) if widen > 1 else x
            y = n.relu6(n.batch_norm(n.convolution(y, inner, (3, 3), step, inner)))
            y = n.batch_norm(n.convolution(y, wide, (1, 1)))
            x = x + y if number else y
    return n.linear(n.mean(n.relu6(n.batch_norm(n.convolution(x, 1280, (1, 1))))), 1000)


def efficientnet(n: Any, x: Any) -> Any:
    """EfficientNet-B0."""
    x = n.silu(n.batch_norm(n.convolution(x, 32, (3, 3), 2)))
    for widen, wide, count, stride, size in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    ):  # fmt: skip
        for number in range(count):
            step, before = 1 if number else stride, n.channels(x)
            inner = widen * before
            y = n.silu(n.batch_norm(n.convolution(x, inner, (1, 1)))) if widen > 1 else x
            y = n.silu(n.batch_norm(n.convolution(y, inner, (size, size), step, inner)))
            s = n.silu(n.convolution(n.mean(y, True), before // 4, (1, 1), bias=True))
            y = y * n.sigmoid(n.convolution(s, inner, (1, 1), bias=True))
            y = n.batch_norm(n.convolution(y, wide, (1, 1)))
            x = x + y if number else y
    return n.linear(n.mean(n.silu(n.batch_norm(n.convolution(x, 1280, (1, 1))))), 1000)


def unet(n: Any, x: Any) -> Any:
    """A U-Net of four levels, 32 to 512 channels, with padding and batch norm."""

    def twice(x: Any, wide: int) -> Any:
        for _ in range(2):
            x = n.relu(n.batch_norm(n.convolution(x, wide, (3, 3))))
        return x

    kept = []
    for wide in (32, 64, 128, 256):
        kept.append(twice(x, wide))
        x = n.highest(kept[-1], 2, 2, 0)
    x = twice(x, 512)
    for wide in (256, 128, 64, 32):
        x = twice(n.channels_joined([kept.pop(), n.doubled(x, wide)]), wide)
    return n.pixels(n.convolution(x, 2, (1, 1), bias=True))


def tcn(n: Any, x: Any) -> Any:
    """The temporal convolutional network of Bai et al.: eight blocks of two causal convolutions of
    width 3.
    """
    for level in range(8):
        y = x
        for _ in range(2):
            pads = ((2 << level, 0),)
            y = n.relu(n.convolution(y, 64, (3,), pads=pads, dilation=1 << level, bias=True))
        x = n.relu(x + y)
    return n.pixels(x)


# -- transformers


def encoder(n: Any, x: Any, before: bool) -> Any:
    """A transformer encoder of twelve layers of width 768. `before`: the norm is applied before each
    sublayer, else after the residual addition.
    """
    for _ in range(12):
        y = n.layer_norm(x) if before else x
        q, k, v = (n.heads(n.linear(y, 768), 12) for _ in range(3))
        x = x + n.linear(n.merged(n.attention(q, k, v)), 768)
        y = x = x if before else n.layer_norm(x)
        y = n.layer_norm(x) if before else x
        x = x + n.linear(n.gelu(n.linear(y, 3072)), 768)
        x = x if before else n.layer_norm(x)
    return x


def bert(n: Any, places: Any) -> Any:
    words, order = n.weight(30522, 768), n.weight(512, 768)
    return encoder(n, n.layer_norm(n.rows(words, places) + order[: places.shape[1]]), False)


def vit(n: Any, x: Any) -> Any:
    x = n.tokens(n.convolution(x, 768, (16, 16), 16, pads=((0, 0), (0, 0)), bias=True))
    x = n.concatenated([n.weight(1, 1, 768), x], 1) + n.weight(1, 197, 768, scale=0.1)
    return n.linear(n.layer_norm(encoder(n, x, True))[:, 0], 1000)


def gpt2(n: Any, places: Any, cache: Any) -> Any:
    """Decodes one token after those in the cache. Returns its logits, and its keys and values."""
    words, order, kept = n.weight(50257, 768, scale=0.1), n.weight(1024, 768, scale=0.1), []
    past = cache.shape[-2]
    x = n.rows(words, places) + order[past : past + 1]
    for layer in range(12):
        y = n.linear(n.layer_norm(x), 3 * 768)
        q, k, v = (n.heads(y[..., 768 * part : 768 * (part + 1)], 12) for part in range(3))
        kept.append(n.stacked([k, v]))
        k, v = (n.concatenated([cache[layer, part], new], 2) for part, new in enumerate((k, v)))
        x = x + n.linear(n.merged(n.attention(q, k, v)), 768)
        x = x + n.linear(n.gelu(n.linear(n.layer_norm(x), 3072), False), 768)
    return n.layer_norm(x) @ words.T, n.stacked(kept)


def llama(n: Any, places: Any, cache: Any) -> Any:
    """Decodes one token by eight layers of width 1024, with 16 query heads and 4 key and value heads. Returns
    its logits, and its keys and values.
    """
    words, kept = n.weight(32000, 1024), []
    past = cache.shape[-2]
    cosine = n.table(lambda _: np.tile(np.cos(past / 10000.0 ** (np.arange(32) / 32)), 2))
    sine = n.table(lambda _: np.tile(np.sin(past / 10000.0 ** (np.arange(32) / 32)), 2))

    def turned(x: Any) -> Any:
        return x * cosine + n.concatenated([-x[..., 32:], x[..., :32]], -1) * sine

    x = n.rows(words, places)
    for layer in range(8):
        y = n.rms_norm(x)
        q, k, v = (n.heads(n.linear(y, wide, False), wide // 64) for wide in (1024, 256, 256))
        q, k = turned(q), turned(k)
        kept.append(n.stacked([k, v]))
        k, v = (n.concatenated([cache[layer, part], new], 2) for part, new in enumerate((k, v)))
        y = n.attention(q.reshape(1, 4, 4, 64), k, v)  # the query heads of a group take the place of tokens
        x = x + n.linear(y.reshape(1, 1, 1024), 1024, False)
        y = n.rms_norm(x)
        x = x + n.linear(n.silu(n.linear(y, 2816, False)) * n.linear(y, 2816, False), 1024, False)
    return n.linear(n.rms_norm(x), 32000, False), n.stacked(kept)


# -- the list of models


@dataclass(frozen=True)
class Model:
    """A model: its name, a function that applies it to a `Net` and inputs, and the shapes of the inputs
    (images are height x width x channels). `words`: the elements of the first input are integers below this
    number. `recurrent`: the model has a recurrent layer, for which only torch's older ONNX exporter works.
    `short`: "bf16" if all but inputs and results are bf16, "s8" if kernels and the values between layers are
    8-bit integers.
    """

    name: str
    make: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    words: int = 0
    recurrent: bool = False
    tolerance: float = 1e-3
    short: str = ""

    @property
    def dtype(self) -> Any:
        """The type of the weights that are floats."""
        import ml_dtypes

        return ml_dtypes.bfloat16 if self.short == "bf16" else np.float32

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        found = [rng.standard_normal(shape).astype(np.float32) for shape in self.shapes]
        if self.words:
            found[0] = rng.integers(0, self.words, self.shapes[0]).astype(np.int32)
        return found


IMAGE = ((1, 224, 224, 3),)
MODELS = (
    Model("ResNet-50, batch 1", resnet, IMAGE),
    Model("ResNet-50, batch 8", resnet, ((8, 224, 224, 3),)),
    Model("MobileNetV2, batch 1", mobilenet, IMAGE),
    Model("BERT-base, 1x128", bert, ((1, 128),), 30522),
    Model("BERT-base, 8x128", bert, ((8, 128),), 30522),
    Model("GPT-2 small, a decode step with cache", gpt2, ((1, 1), (12, 2, 1, 12, 128, 64)), 50257),
    Model("LSTM, 128x512", lambda n, x: n.recurrent(x, "lstm", 512), ((1, 128, 512),), recurrent=True),
    Model("EfficientNet-B0, batch 1", efficientnet, IMAGE),
    Model("ViT-B/16, batch 1", vit, IMAGE),
    Model("U-Net, batch 1", unet, ((1, 256, 256, 3),)),
    Model("TCN, batch 1", tcn, ((1, 1024, 64),)),
    Model("GRU, 128x512", lambda n, x: n.recurrent(x, "gru", 512), ((1, 128, 512),), recurrent=True),
    Model("Llama-shaped decoder, a step with cache", llama, ((1, 1), (8, 2, 1, 4, 128, 64)), 32000),
    Model("ResNet-50 s8, batch 1", short_resnet, IMAGE, tolerance=0.1, short="s8"),
    Model("ResNet-50 bf16, batch 1", resnet, IMAGE, tolerance=0.1, short="bf16"),
    Model("BERT-base bf16, 1x128", bert, ((1, 128),), 30522, tolerance=0.1, short="bf16"),
    Model(
        "GPT-2 small bf16, a decode step with cache",
        gpt2,
        ((1, 1), (12, 2, 1, 12, 128, 64)),
        50257,
        tolerance=0.1,
        short="bf16",
    ),
)
