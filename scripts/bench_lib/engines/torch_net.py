"""The layers of `Net` in torch. This file imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers the operations
import torch.nn.functional as F

from bench_lib.engines.net import Net, Pads, Short

_SHORT = torch.ops.quantized_decomposed
"""The operations for 8-bit numbers that torch.compile and the ONNX exporter of torch support."""


class TorchNet(Net):
    """Layers as users of torch write them."""

    def channels(self, x: Any) -> int:
        return x.shape[1]

    def convolved(self, x: Any, w: Any, stride: int, groups: int, pads: Pads, dilation: int) -> Any:
        w = w.permute(*range(w.ndim - 1, w.ndim - 3, -1), *range(w.ndim - 2))
        if all(low == high for low, high in pads):
            pad = tuple(low for low, _ in pads)
        else:
            x, pad = F.pad(x, [n for pair in reversed(pads) for n in pair]), 0
        run = F.conv2d if len(pads) == 2 else F.conv1d
        return run(x, w, None, stride, pad, dilation, groups)

    def shifted(self, x: Any, b: Any) -> Any:
        return x + b.reshape(1, -1, *[1] * (x.ndim - 2))

    def short_convolved(self, x: Short, w: Any, shift: Any, scale: Any, stride: int, pads: Pads) -> Any:
        kernel, bias = self._long(w.permute(3, 2, 0, 1), scale), self._long(shift, scale * x.scale)
        return F.conv2d(self.long(x), kernel, bias, stride, tuple(low for low, _ in pads))

    def short_product(self, x: Short, w: Any, shift: Any, scale: Any) -> Any:
        return F.linear(self.long(x), self._long(w.T, scale), self._long(shift, scale * x.scale))

    def _long(self, values: Any, scale: Any) -> Any:
        """Converts 8-bit weights to floats. Each feature, in the first dimension, has a scale."""
        limits, zero = torch.iinfo(values.dtype), torch.zeros(len(scale), dtype=torch.int64)
        return _SHORT.dequantize_per_channel(values, scale, zero, 0, limits.min, limits.max, values.dtype)

    def rounded(self, x: Any, scale: Any, positive: bool) -> Any:
        # Unsigned bytes, since engines multiply them with signed kernels.
        return _SHORT.quantize_per_tensor(x, scale, 0 if positive else 128, 0, 255, torch.uint8)

    def short_highest(self, x: Short, size: int, stride: int, pad: int) -> Short:
        found = self.highest(self.long(x), size, stride, pad)
        return replace(x, values=self.rounded(found, x.scale, x.positive))

    def long(self, x: Short) -> Any:
        zero = 0 if x.positive else 128
        return _SHORT.dequantize_per_tensor(x.values, x.scale, zero, 0, 255, torch.uint8)

    def normalized(self, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        return F.batch_norm(x, mean, variance, scale, shift, False, 0.0, 1e-5)

    def layer_normalized(self, x: Any, scale: Any, shift: Any) -> Any:
        return F.layer_norm(x, (x.shape[-1],), scale, shift, 1e-5)

    def rms_norm(self, x: Any) -> Any:
        return F.rms_norm(x, (x.shape[-1],), self.weight(x.shape[-1], scale=0.1, mean=1), 1e-5)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    def doubled(self, x: Any, wide: int) -> Any:
        w = self.weight(2, 2, x.shape[1], wide, scale=x.shape[1] ** -0.5)
        return F.conv_transpose2d(x, w.flip(0, 1).permute(2, 3, 0, 1), stride=2)

    def highest(self, x: Any, size: int, stride: int, pad: int) -> Any:
        return F.max_pool2d(x, size, stride, pad)

    def mean(self, x: Any, keep: bool = False) -> Any:
        return x.mean((2, 3), keepdim=keep)

    def concatenated(self, parts: Sequence[Any], axis: int) -> Any:
        return torch.cat(parts, axis)

    def channels_joined(self, parts: Sequence[Any]) -> Any:
        return torch.cat(parts, 1)

    def tokens(self, x: Any) -> Any:
        return x.flatten(2).transpose(1, 2)

    def pixels(self, x: Any) -> Any:
        return x.movedim(1, -1)

    def transposed(self, x: Any) -> Any:
        return x.transpose(1, 2)

    def rows(self, table: Any, places: Any) -> Any:
        return F.embedding(places, table)

    def stacked(self, parts: Sequence[Any]) -> Any:
        return torch.stack(parts)

    def recurrent(self, x: Any, kind: str, size: int) -> Any:
        gates = 4 if kind == "lstm" else 3
        shapes = ((gates * size, x.shape[-1]), (gates * size, size), (gates * size,), (gates * size,))
        weights = [
            self.weight(*shape, scale=0.1 if len(shape) == 1 else shape[1] ** -0.5) for shape in shapes
        ]
        zero = torch.zeros(1, x.shape[0], size)
        state = [zero, zero] if kind == "lstm" else zero
        run = torch.lstm if kind == "lstm" else torch.gru
        return run(x, state, weights, True, 1, 0.0, False, False, True)[0]

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def relu6(self, x: Any) -> Any:
        return F.relu6(x)

    def silu(self, x: Any) -> Any:
        return F.silu(x)

    def sigmoid(self, x: Any) -> Any:
        return torch.sigmoid(x)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def gelu(self, x: Any, exact: bool = True) -> Any:
        return F.gelu(x, approximate="none" if exact else "tanh")
