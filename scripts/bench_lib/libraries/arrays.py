"""Jobs on arrays: scans, elementwise functions, reductions, sorts, data movement, transforms, random
numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench_lib.libraries.job import F, jax, jnp, job, lax, normal, special, torch, with_indices

M = 1 << 20
SQUARE, WIDE = (1024, 1024), (4096, 1024)


def near_one():
    return ((1 + 1e-6 * np.random.default_rng(0).standard_normal(M)).astype(np.float32),)


def distinct(*shape: int, dtype: Any = np.float32):
    return lambda: (np.random.default_rng(0).permutation(int(np.prod(shape))).astype(dtype).reshape(shape),)


def whole(low: int, high: int, dtype: Any):
    rng = np.random.default_rng(0)
    return lambda: (rng.integers(low, high, M).astype(dtype), rng.integers(1, 1 << 30, M).astype(dtype))


def numba_scan(x):
    found = np.empty_like(x)
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
        found[i] = total
    return found


def numba_highest(x):
    found = np.empty_like(x)
    highest = x[0]
    for i in range(x.size):
        highest = max(highest, x[i])
        found[i] = highest
    return found


def numba_count(x):
    found = np.zeros(256, np.int32)
    for i in x:
        found[i] += 1
    return found


def numba_add_rows(x, i):
    found = np.zeros((4096, 256), np.float32)
    for n in range(i.size):
        found[i[n]] += x[n]
    return found


def torch_spread(x):
    found = torch.zeros(2047 + 2, 2047 + 2)
    found[1:-1:2, 1:-1:2] = x
    return found


def numpy_spread(x):
    found = np.zeros((2049, 2049), np.float32)
    found[1:-1:2, 1:-1:2] = x
    return found


# -- scans
job(
    "cumsum of 1M",
    "issue 21; torch.cumsum, np.cumsum",
    normal((M,)),
    lambda x: jnp.cumsum(x),
    tolerance=1e-3,
    numpy=np.cumsum,
    torch=lambda x: torch.cumsum(x, 0),
    numba=numba_scan,
)
job(
    "cumsum of rows, 1024x1024",
    "issue 21",
    normal(SQUARE),
    lambda x: jnp.cumsum(x, 1),
    numpy=lambda x: np.cumsum(x, 1),
    torch=lambda x: torch.cumsum(x, 1),
)
job(
    "cumsum of columns, 1024x1024",
    "integral images (cv2.integral)",
    normal(SQUARE),
    lambda x: jnp.cumsum(x, 0),
    numpy=lambda x: np.cumsum(x, 0),
    torch=lambda x: torch.cumsum(x, 0),
)
job(
    "cumprod of 1M",
    "NeRF's transmittance (torch.cumprod)",
    near_one,
    lambda x: jnp.cumprod(x),
    tolerance=3e-2,  # a million roundings add up
    numpy=np.cumprod,
    torch=lambda x: torch.cumprod(x, 0),
)
job(
    "cummax of 1M",
    "drawdown of prices (pandas cummax)",
    normal((M,)),
    lambda x: lax.cummax(x),
    numpy=np.maximum.accumulate,
    torch=lambda x: torch.cummax(x, 0)[0],
    numba=numba_highest,
)
job(
    "cummax of rows, 1024x1024",
    "the same, of many series",
    normal(SQUARE),
    lambda x: lax.cummax(x, 1),
    numpy=lambda x: np.maximum.accumulate(x, 1),
    torch=lambda x: torch.cummax(x, 1)[0],
)

# -- elementwise functions
job(
    "exp of 1M",
    "torch's benchmarks/operator_benchmark, unary",
    normal((M,)),
    lambda x: jnp.exp(x),
    numpy=np.exp,
    torch=lambda x: torch.exp(x),
    onnx=True,
)
job(
    "erf of 1M",
    "operator_benchmark, unary",
    normal((M,)),
    lambda x: lax.erf(x),
    scipy=lambda x: special.erf(x),
    torch=lambda x: torch.erf(x),
    onnx=True,
)
job(
    "erfc of 1M",
    "scipy.special.erfc; option prices",
    normal((M,)),
    lambda x: lax.erfc(x),
    scipy=lambda x: special.erfc(x),
    torch=lambda x: torch.erfc(x),
)
job(
    "bias and exact gelu, 4096x1024",
    "issue 21; BERT's feed-forward layer",
    normal(WIDE, WIDE[1:]),
    lambda x, b: jax.nn.gelu(x + b, approximate=False),
    torch=lambda x, b: F.gelu(x + b),
    onnx=True,
)
job(
    "bias and tanh gelu, 4096x1024",
    "bench kernels; GPT-2's feed-forward layer",
    normal(WIDE, WIDE[1:]),
    lambda x, b: jax.nn.gelu(x + b),
    torch=lambda x, b: F.gelu(x + b, approximate="tanh"),
    onnx=True,
)
job(
    "s64 division of 1M",
    "issue 21; timestamps // period",
    whole(-1 << 60, 1 << 60, np.int64),
    lambda a, b: lax.div(a, b),
    torch=lambda a, b: torch.div(a, b, rounding_mode="trunc"),
)
job(
    "s32 floor division of 1M",
    "issue 21; x // y of NumPy",
    whole(-1 << 30, 1 << 30, np.int32),
    lambda a, b: a // b,
    numpy=np.floor_divide,
    torch=lambda a, b: torch.div(a, b, rounding_mode="floor"),
    numba=lambda a, b: a // b,
)
job(
    "f64 division of s32 by s32, 1M",
    "issue 21; x / y of NumPy",
    whole(-1 << 30, 1 << 30, np.int32),
    lambda a, b: a.astype(jnp.float64) / b.astype(jnp.float64),
    numpy=np.true_divide,
    torch=lambda a, b: a.double() / b.double(),
    numba=lambda a, b: a / b,
)

# -- reductions
job(
    "softmax of rows, 4096x1024",
    "bench kernels",
    normal(WIDE),
    lambda x: jax.nn.softmax(x, 1),
    scipy=lambda x: special.softmax(x, 1),
    torch=lambda x: F.softmax(x, 1),
    onnx=True,
)
job(
    "log softmax, 128x50257",
    "GPT-2's logits",
    normal((128, 50257)),
    lambda x: jax.nn.log_softmax(x, 1),
    scipy=lambda x: special.log_softmax(x, 1),
    torch=lambda x: F.log_softmax(x, 1),
    onnx=True,
)
job(
    "layer norm of rows, 4096x1024",
    "bench kernels",
    normal(WIDE, WIDE[1:], WIDE[1:]),
    lambda x, s, b: jax.nn.standardize(x, epsilon=1e-5) * s + b,
    torch=lambda x, s, b: F.layer_norm(x, (1024,), s, b),
    onnx=True,
)
job(
    "RMS norm of rows, 4096x1024",
    "Llama",
    normal(WIDE, WIDE[1:]),
    lambda x, s: x * lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1e-5) * s,
    torch=lambda x, s: F.rms_norm(x, (1024,), s, 1e-5),
)
job(
    "sum of columns, 4096x1024",
    "bench kernels; gradient of a bias",
    normal(WIDE),
    lambda x: jnp.sum(x, 0),
    tolerance=1e-3,
    numpy=lambda x: np.sum(x, 0),
    torch=lambda x: torch.sum(x, 0),
    onnx=True,
)
job(
    "sum of rows, 4096x1024",
    "bench kernels",
    normal(WIDE),
    lambda x: jnp.sum(x, 1),
    tolerance=1e-3,
    numpy=lambda x: np.sum(x, 1),
    torch=lambda x: torch.sum(x, 1),
    onnx=True,
)
job(
    "sum over the middle, 64x256x64",
    "pooling of tokens",
    normal((64, 256, 64)),
    lambda x: jnp.sum(x, 1),
    tolerance=1e-3,
    numpy=lambda x: np.sum(x, 1),
    torch=lambda x: torch.sum(x, 1),
    onnx=True,
)
job(
    "maximum of columns, 1024x1024",
    "issue 21, reductions over major axes",
    normal(SQUARE),
    lambda x: jnp.max(x, 0),
    numpy=lambda x: np.max(x, 0),
    torch=lambda x: torch.amax(x, 0),
    onnx=True,
)
job(
    "argmax of rows, 1024x1024",
    "classes of a batch",
    normal(SQUARE),
    lambda x: jnp.argmax(x, 1),
    numpy=lambda x: np.argmax(x, 1),
    torch=lambda x: torch.argmax(x, 1),
    onnx=True,
    view=lambda x: np.asarray(x).astype(int),
)

# -- sorts and searches
job(
    "sort of 1M",
    "issue 21; numpy's benchmarks/bench_function_base",
    normal((M,)),
    lambda x: jnp.sort(x),
    numpy=np.sort,
    torch=lambda x: torch.sort(x)[0],
)
job(
    "sort of 1M s32",
    "the same",
    distinct(M, dtype=np.int32),
    lambda x: jnp.sort(x),
    numpy=np.sort,
    torch=lambda x: torch.sort(x)[0],
)
job(
    "sort of rows, 1024x1024",
    "ranks of a batch",
    normal(SQUARE),
    lambda x: jnp.sort(x, 1),
    numpy=lambda x: np.sort(x, 1),
    torch=lambda x: torch.sort(x, 1)[0],
)
job(
    "argsort of 1M",
    "bench_function_base",
    distinct(M),
    lambda x: jnp.argsort(x),
    numpy=np.argsort,
    torch=lambda x: torch.argsort(x),
    view=lambda x: np.asarray(x).astype(int),
)
job(
    "top 50 of 50257, 8 rows",
    "sampling of GPT-2",
    distinct(8, 50257),
    lambda x: lax.top_k(x, 50)[0],
    torch=lambda x: torch.topk(x, 50)[0],
    numpy=lambda x: -np.sort(np.partition(-x, 49, 1)[:, :50], 1),
    onnx=True,
)
job(
    "top 50 of 1M, approximate",
    "nearest neighbours (approx_max_k)",
    distinct(M),
    lambda x: lax.approx_max_k(x, 50)[0],
    torch=lambda x: torch.topk(x, 50)[0],
    onnx=True,
    view=None,
)

# -- data movement
job(
    "transpose, 4096x4096",
    "bench kernels",
    normal((4096, 4096)),
    lambda x: x.T,
    numpy=lambda x: np.ascontiguousarray(x.T),
    torch=lambda x: x.t().contiguous(),
)
job(
    "transpose of heads, 8x128x12x64",
    "attention: heads before tokens",
    normal((8, 128, 12, 64)),
    lambda x: x.transpose(0, 2, 1, 3),
    numpy=lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)),
    torch=lambda x: x.permute(0, 2, 1, 3).contiguous(),
)
job(
    "interior padding, 1024x1024",
    "issue 21; a transposed convolution's input",
    normal(SQUARE),
    lambda x: lax.pad(x, jnp.float32(0), ((1, 1, 1), (1, 1, 1))),
    numpy=numpy_spread,
    torch=torch_spread,
)
job(
    "gather of 4096 rows of 768",
    "BERT's embeddings",
    with_indices(30522, 4096, (30522, 768)),
    lambda x, i: x[i],
    numpy=lambda x, i: x[i],
    torch=lambda x, i: F.embedding(i, x),
    onnx=True,
)
job(
    "sum of 8192 rows into 4096",
    "gradient of an embedding",
    with_indices(4096, 8192, (8192, 256)),
    lambda x, i: jnp.zeros((4096, 256), jnp.float32).at[i].add(x),
    numba=numba_add_rows,
    torch=lambda x, i: torch.zeros(4096, 256).index_add_(0, i, x),
)
job(
    "histogram of 1M in 256",
    "np.bincount",
    with_indices(256, M),
    lambda x: jnp.zeros(256, jnp.int32).at[x].add(1),
    numpy=lambda x: np.bincount(x, minlength=256),
    torch=lambda x: torch.bincount(x, minlength=256),
    numba=numba_count,
    view=lambda x: np.asarray(x).astype(int),
)

# -- transforms and random numbers
job(
    "FFT of 256 rows of 4096",
    "spectrograms (scipy.fft)",
    normal((256, 4096)),
    lambda x: jnp.fft.rfft(x),
    numpy=lambda x: np.fft.rfft(x),
    torch=lambda x: torch.fft.rfft(x),
    flops=256 * 2.5 * 4096 * 12,
)
job(
    "2-D FFT, 512x512",
    "filters of images",
    normal((512, 512)),
    lambda x: jnp.fft.rfft2(x),
    numpy=lambda x: np.fft.rfft2(x),
    torch=lambda x: torch.fft.rfft2(x),
    flops=2.5 * 512 * 512 * 18,
)
job(
    "1M normal numbers",
    "jax.random.normal; rng.standard_normal",
    lambda: (np.array([0, 7], np.uint32),),
    lambda k: jax.random.normal(k, (M,), jnp.float32),
    view=None,
    numpy=lambda k: np.random.default_rng(7).standard_normal(M, np.float32),
    torch=lambda k: torch.randn(M),
)
job(
    "1M uniform numbers",
    "jax.random.uniform; rng.random",
    lambda: (np.array([0, 7], np.uint32),),
    lambda k: jax.random.uniform(k, (M,), jnp.float32),
    view=None,
    numpy=lambda k: np.random.default_rng(7).random(M, np.float32),
    torch=lambda k: torch.rand(M),
)
