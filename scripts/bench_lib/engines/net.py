"""The layers that models are written in. Each exists twice, in JAX and in torch (`torch_net`), and uses the
same random weights.

Short layers compute with 8-bit integers: kernels have a scale per feature, values between layers have a scale
per tensor, and biases are integers in units of the product of both scales.

Images are NHWC in JAX and NCHW in torch, sequences NWC and NCW. Weights are stored in the order of their use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Short:
    """8-bit integers in units of `scale`. `positive`: none is negative."""

    values: Any
    scale: Any
    positive: bool


class Net:
    """The evaluation of a model on inputs. Layers take their weights from `weights`, in order; if `drawn` is
    given, they draw random weights and append them to it, floats as `dtype`.
    """

    def __init__(
        self, weights: Sequence[Any], drawn: list[np.ndarray] | None = None, dtype: Any = np.float32
    ):
        self._weights, self._drawn, self._dtype, self._place = weights, drawn, dtype, 0

    def weight(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Any:
        return self.table(lambda rng: mean + scale * rng.standard_normal(shape))

    def table(self, make: Callable[[np.random.Generator], np.ndarray]) -> Any:
        if self._drawn is not None:
            found = np.asarray(make(np.random.default_rng(len(self._drawn))))
            self._drawn.append(found.astype(self._dtype) if found.dtype.kind == "f" else found)
            return jnp.asarray(self._drawn[-1])
        self._place += 1
        return self._weights[self._place - 1]

    def linear(self, x: Any, wide: int, bias: bool = True) -> Any:
        kernel = self.weight(x.shape[-1], wide, scale=x.shape[-1] ** -0.5)
        found = x @ kernel
        return found + self.weight(wide, scale=0.1) if bias else found

    def batch_norm(self, x: Any) -> Any:
        """Batch norm in inference, with fixed mean and variance."""
        count = self.channels(x)
        scale, shift, mean = (self.weight(count, scale=0.1, mean=m) for m in (1, 0, 0))
        return self.normalized(x, scale, shift, mean, abs(self.weight(count, scale=0.1, mean=1)))

    def convolution(
        self, x: Any, wide: int, kernel: tuple[int, ...], stride: int = 1, groups: int = 1,
        pads: Pads | None = None, dilation: int = 1, bias: bool = False,
    ) -> Any:  # fmt: skip
        inner = self.channels(x) // groups
        scale = (2 / (inner * math.prod(kernel))) ** 0.5
        weights = self.weight(*kernel, inner, wide, scale=scale)
        found = self.convolved(
            x, weights, stride, groups, pads or tuple((k // 2, k // 2) for k in kernel), dilation
        )
        return self.shifted(found, self.weight(wide, scale=0.1)) if bias else found

    def layer_norm(self, x: Any) -> Any:
        wide = x.shape[-1]
        return self.layer_normalized(x, self.weight(wide, scale=0.1, mean=1), self.weight(wide, scale=0.1))

    def heads(self, x: Any, count: int) -> Any:
        """Reshapes batch x tokens x width to batch x heads x tokens x width of a head."""
        return self.transposed(x.reshape(x.shape[0], x.shape[1], count, -1))

    def merged(self, x: Any) -> Any:
        return self.transposed(x).reshape(x.shape[0], x.shape[2], -1)

    def short(self, x: Any, positive: bool = False) -> Short:
        """Rounds to 8 bits. The scale maps the largest absolute value, which the random inputs of the model
        give, to 127.
        """
        scale = self.table(lambda _: np.max(np.abs(x), initial=1e-6) / 127)
        return Short(self.rounded(x, scale, positive), scale, positive)

    def short_convolution(self, x: Short, wide: int, kernel: tuple[int, ...], stride: int = 1) -> Any:
        weights, shift, scale = self.short_weights(*kernel, self.channels(x.values), wide)
        pads = tuple((k // 2, k // 2) for k in kernel)
        return self.short_convolved(x, weights, shift, scale, stride, pads)

    def short_linear(self, x: Short, wide: int) -> Any:
        return self.short_product(x, *self.short_weights(x.values.shape[-1], wide))

    def short_weights(self, *shape: int) -> tuple[Any, Any, Any]:
        """A kernel, a bias, and a scale for each feature."""
        kernel = self.table(lambda rng: rng.integers(-127, 128, shape, np.int8))
        shift = self.table(lambda rng: rng.integers(-3000, 3000, shape[-1:], np.int32))
        size = (2 / math.prod(shape[:-1])) ** 0.5 / 73
        return kernel, shift, self.weight(*shape[-1:], scale=0.1 * size, mean=size)

    # The methods below differ between JAX and torch.


class JaxNet(Net):
    """Layers as users of JAX write them."""

    def channels(self, x: Any) -> int:
        return x.shape[-1]

    def convolved(self, x: Any, w: Any, stride: int, groups: int, pads: Pads, dilation: int) -> Any:
        rank = len(pads)
        numbers = ("NHWC", "HWIO", "NHWC") if rank == 2 else ("NWC", "WIO", "NWC")
        return lax.conv_general_dilated(
            x, w, (stride,) * rank, pads, rhs_dilation=(dilation,) * rank, dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip

    def shifted(self, x: Any, b: Any) -> Any:
        return x + b

    def short_convolved(self, x: Short, w: Any, shift: Any, scale: Any, stride: int, pads: Pads) -> Any:
        found = lax.conv_general_dilated(
            x.values, w, (stride,) * 2, pads, dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=jnp.int32,
        )  # fmt: skip
        return (found + shift).astype(jnp.float32) * (x.scale * scale)

    def short_product(self, x: Short, w: Any, shift: Any, scale: Any) -> Any:
        found = jnp.matmul(x.values, w, preferred_element_type=jnp.int32)
        return (found + shift).astype(jnp.float32) * (x.scale * scale)

    def rounded(self, x: Any, scale: Any, positive: bool) -> Any:
        return jnp.clip(jnp.round(x * (1 / scale)), -128, 127).astype(jnp.int8)

    def short_highest(self, x: Short, size: int, stride: int, pad: int) -> Short:
        return replace(x, values=self.highest(x.values, size, stride, pad))

    def long(self, x: Short) -> Any:
        return x.values.astype(jnp.float32) * x.scale

    def normalized(self, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        wide = x.astype(jnp.float32)
        return ((wide - mean) * (lax.rsqrt(variance + 1e-5) * scale) + shift).astype(x.dtype)

    def layer_normalized(self, x: Any, scale: Any, shift: Any) -> Any:
        wide = x.astype(jnp.float32)
        mean = jnp.mean(wide, -1, keepdims=True)
        variance = jnp.mean(jnp.square(wide - mean), -1, keepdims=True)
        return ((wide - mean) * lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype)

    def rms_norm(self, x: Any) -> Any:
        scale = self.weight(x.shape[-1], scale=0.1, mean=1)
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        scores = jnp.matmul(q, k.swapaxes(-1, -2), preferred_element_type=jnp.float32)
        scores = jax.nn.softmax(scores * np.float32(q.shape[-1] ** -0.5), -1)
        return scores.astype(q.dtype) @ v

    def doubled(self, x: Any, wide: int) -> Any:
        """A transposed convolution with a 2x2 window and stride 2."""
        w = self.weight(2, 2, x.shape[-1], wide, scale=x.shape[-1] ** -0.5)
        return lax.conv_transpose(x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def highest(self, x: Any, size: int, stride: int, pad: int) -> Any:
        edge = ((0, 0), (pad, pad), (pad, pad), (0, 0))
        least = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
        return lax.reduce_window(
            x, x.dtype.type(least), lax.max, (1, size, size, 1), (1, stride, stride, 1), edge
        )

    def mean(self, x: Any, keep: bool = False) -> Any:
        return jnp.mean(x, (1, 2), keepdims=keep)

    def concatenated(self, parts: Sequence[Any], axis: int) -> Any:
        return jnp.concatenate(parts, axis)

    def channels_joined(self, parts: Sequence[Any]) -> Any:
        return jnp.concatenate(parts, -1)

    def tokens(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1, x.shape[-1])

    def pixels(self, x: Any) -> Any:
        """Converts an image or a sequence to NHWC or NWC."""
        return x

    def transposed(self, x: Any) -> Any:
        return x.swapaxes(1, 2)

    def rows(self, table: Any, places: Any) -> Any:
        return table[places]

    def stacked(self, parts: Sequence[Any]) -> Any:
        return jnp.stack(parts)

    def recurrent(self, x: Any, kind: str, size: int) -> Any:
        """An LSTM or a GRU over batch x steps x width, as torch defines them, with zeros as the initial
        state.
        """
        gates = 4 if kind == "lstm" else 3
        into, kept = (self.weight(gates * size, n, scale=n**-0.5) for n in (x.shape[-1], size))
        b_in, b_kept = (self.weight(gates * size, scale=0.1) for _ in range(2))
        given = (x @ into.T + b_in).swapaxes(0, 1)
        zero = jnp.zeros((x.shape[0], size), jnp.float32)
        sigmoid = jax.nn.sigmoid

        def lstm(carry: Any, now: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(now + h @ kept.T + b_kept, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
            h = sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        def gru(h: Any, now: Any) -> Any:
            r, z, n = jnp.split(now, 3, -1)
            r_, z_, n_ = jnp.split(h @ kept.T + b_kept, 3, -1)
            n, z = jnp.tanh(n + sigmoid(r + r_) * n_), sigmoid(z + z_)
            h = (1 - z) * n + z * h
            return h, h

        steps = lax.scan(lstm, (zero, zero), given) if kind == "lstm" else lax.scan(gru, zero, given)
        return steps[1].swapaxes(0, 1)

    def relu(self, x: Any) -> Any:
        return jax.nn.relu(x)

    def relu6(self, x: Any) -> Any:
        return jax.nn.relu6(x)

    def silu(self, x: Any) -> Any:
        return jax.nn.silu(x)

    def sigmoid(self, x: Any) -> Any:
        return jax.nn.sigmoid(x)

    def tanh(self, x: Any) -> Any:
        return jnp.tanh(x)

    def gelu(self, x: Any, exact: bool = True) -> Any:
        return jax.nn.gelu(x, approximate=not exact)
