"""Measures the limits of the machine: bytes copied, and floating-point operations in registers, per
second.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench_lib import peers

FMA = """
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef TYPE V __attribute__((vector_size(BYTES)));
double run(long trips) {
  V x[12], a, b;
  for (int i = 0; i < 12; i++) x[i] = (V){0} + (TYPE)i;
  a = (V){0} + (TYPE)0.5; b = (V){0} + (TYPE)0.25;
  for (long n = 0; n < trips; n++)
    _Pragma("GCC unroll 12")
    for (int i = 0; i < 12; i++) x[i] = x[i] * a + b;
  TYPE total = 0;
  for (int i = 0; i < 12; i++) total += x[i][0];
  return total < 0 ? 0 : 12 * 2 * (double)(BYTES / sizeof(TYPE));  // operations of a trip
}
"""


@functools.cache
def copied(size: int, threads: int) -> float:
    """The seconds of a copy in which the bytes read and written are `size` together."""
    count = max(1, size // 2 // threads)
    pairs = [(np.ones(count, np.uint8), np.zeros(count, np.uint8)) for _ in range(threads)]
    repeats = max(1, (1 << 22) // size)

    def copy(pair: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(repeats):
            np.copyto(pair[1], pair[0])

    return _fastest(copy, pairs) / repeats


@functools.cache
def multiplied(double: bool, threads: int) -> float | None:
    """The floating-point operations per second; None without a C compiler."""
    kind = "double" if double else "float"
    run = peers.c_function(f"#define TYPE {kind}\n{FMA}", "run", "-O3", "-march=native", "-ffp-contract=fast")
    if run is None:
        return None
    run.restype = ctypes.c_double
    trips = 1 << 20
    return threads * trips * run(1) / _fastest(run, [trips] * threads)


def _fastest(call: Callable, arguments: Sequence) -> float:
    """The seconds of the fastest of several rounds, in which each thread makes one call."""
    found = []
    with ThreadPoolExecutor(len(arguments)) as pool:
        for _ in range(12):
            start = time.perf_counter()
            list(pool.map(call, arguments))
            found.append(time.perf_counter() - start)
    return min(found[2:])
