"""Jobs of neural networks: convolutions, pooling, attention. Images are NHWC in axla, as in JAX; torch gets
the same bytes as channels_last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench_lib.libraries.job import F, jax, jnp, job, lax, normal, torch


def planes(x: Any) -> Any:
    """A view of an NHWC array with torch's order of axes, NCHW."""
    return x.permute(0, 3, 1, 2)


def pixels(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def convolution(
    name: str, source: str, image: tuple[int, ...], kernel: tuple[int, ...], stride: int = 1, groups: int = 1,
    onnx: bool = True,
) -> None:  # fmt: skip
    """Adds a job: a convolution with zero padding and a kernel in HWIO."""
    pad = kernel[0] // 2
    out = [-(-size // stride) for size in image[1:3]]
    numbers = ("NHWC", "HWIO", "NHWC")

    def ours(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=numbers,
            feature_group_count=groups,
        )  # fmt: skip

    def theirs(x: Any, w: Any) -> Any:
        return pixels(F.conv2d(planes(x), w.permute(3, 2, 0, 1), stride=stride, padding=pad, groups=groups))

    job(f"convolution {name}", source, normal(image, kernel), ours, torch=theirs, onnx=onnx,
        flops=2 * image[0] * int(np.prod(out)) * int(np.prod(kernel)))  # fmt: skip


def gradient(of: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The gradient of a 3x3 convolution with respect to its image (`of` is 0) or its kernel (1), given that
    of the result. Returns the functions for axla and for torch.
    """

    def plain(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def ours(x: Any, w: Any, g: Any) -> Any:
        return jax.vjp(plain, x, w)[1](g)[of]

    def theirs(x: Any, w: Any, g: Any) -> Any:
        x, w = planes(x), w.permute(3, 2, 0, 1)
        if of == 0:
            return pixels(torch.nn.grad.conv2d_input(x.shape, w, planes(g), padding=1))
        return torch.nn.grad.conv2d_weight(x, w.shape, planes(g), padding=1).permute(2, 3, 1, 0)

    return ours, theirs


def attention(causal: bool) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Attention over heads x tokens x width. Returns the functions for axla, which writes out the formula,
    and for torch.
    """

    def ours(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        if causal:
            n = q.shape[-2]
            scores = jnp.where(jnp.arange(n)[:, None] >= jnp.arange(n)[None], scores, -jnp.inf)
        return jax.nn.softmax(scores, -1) @ v

    return ours, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


RESNET = "ResNet-50 (torchvision)"
convolution("7x7/2, 3 to 64 at 224", RESNET, (1, 224, 224, 3), (7, 7, 3, 64), 2)
convolution("3x3, 64 to 64 at 56", RESNET, (1, 56, 56, 64), (3, 3, 64, 64))
convolution("1x1, 256 to 64 at 56", RESNET, (1, 56, 56, 256), (1, 1, 256, 64))
convolution("3x3, 512 to 512 at 7", "issue 21; " + RESNET, (1, 7, 7, 512), (3, 3, 512, 512))
convolution("3x3/2, 512 to 512 at 14", "issue 21; " + RESNET, (1, 14, 14, 512), (3, 3, 512, 512), 2)
convolution("1x1, 512 to 2048 at 7", "issue 21; " + RESNET, (1, 7, 7, 512), (1, 1, 512, 2048))
convolution("1x1, 2048 to 512 at 7", "issue 21; " + RESNET, (1, 7, 7, 2048), (1, 1, 2048, 512))
convolution("3x3 in 32 groups, 128 at 56", "ResNeXt-50", (1, 56, 56, 128), (3, 3, 4, 128), 1, 32)
convolution(
    "3x3 of each channel, 32 at 112", "issue 21; MobileNetV2", (1, 112, 112, 32), (3, 3, 1, 32), 1, 32
)
convolution(
    "3x3 of each channel, 576 at 14", "issue 21; MobileNetV2", (1, 14, 14, 576), (3, 3, 1, 576), 1, 576
)
convolution("5x5 of each channel, 240 at 28", "EfficientNet-B0", (1, 28, 28, 240), (5, 5, 1, 240), 1, 240)


def dilated(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(
        x, w, (1,), ((16, 0),), rhs_dilation=(8,), dimension_numbers=("NWC", "WIO", "NWC")
    )


job(
    "convolution of 1024 steps, dilated",
    "TCN",
    normal((1, 1024, 64), (3, 64, 64)),
    dilated,
    flops=2 * 1024 * 3 * 64 * 64,
    onnx=True,
    torch=lambda x, w: F.conv1d(F.pad(x.transpose(1, 2), (16, 0)), w.permute(2, 1, 0), dilation=8).transpose(
        1, 2
    ),
)
for place, what in enumerate(("image", "kernel")):
    by_axla, by_torch = gradient(place)
    job(
        f"gradient by the {what}, 3x3, 64 at 56",
        "training of ResNet-50; issue 21",
        normal((8, 56, 56, 64), (3, 3, 64, 64), (8, 56, 56, 64)),
        by_axla,
        torch=by_torch,
        flops=2 * 8 * 56 * 56 * 9 * 64 * 64,
        tolerance=1e-3,
    )
job(
    "maximum of 3x3/2, 64 at 112",
    RESNET,
    normal((1, 112, 112, 64)),
    lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
    ),
    torch=lambda x: pixels(F.max_pool2d(planes(x), 3, 2, 1)),
    onnx=True,
)
job(
    "batch norm and relu, 8x56x56x64",
    RESNET,
    normal((8, 56, 56, 64), (64,), (64,)),
    lambda x, s, b: jax.nn.relu(x * s + b),
    onnx=True,
    torch=lambda x, s, b: F.relu(x * s + b),
)
for heads, tokens, masked in ((12, 128, False), (12, 1024, True)):
    by_axla, by_torch = attention(masked)
    job(
        f"attention, {heads} heads, {tokens} tokens" + ", causal" * masked,
        "GPT-2" if masked else "BERT",
        normal(*[(1, heads, tokens, 64)] * 3),
        by_axla,
        torch=by_torch,
        onnx=True,
        flops=4 * heads * tokens * tokens * 64 / (2 if masked else 1),
    )
