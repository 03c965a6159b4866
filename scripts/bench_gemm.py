"""Times matrix products against jaxlib's XLA:CPU: one process per thread count, both in turn, medians.

    python scripts/bench_gemm.py [repeats]

Ours are bare kernels run through the thread pool, XLA's are calls of a jitted function on device arrays.
"""

from __future__ import annotations

import ctypes
import math
import os
import statistics
import subprocess
import sys
import time

SHAPES = (
    (128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (128, 768, 3072), (128, 3072, 768),
    (256, 256, 256), (777, 333, 555), (8192, 64, 64), (1, 3072, 768),
)  # fmt: skip
GOAL = SHAPES[:4]


def aligned(dims, dtype="float32"):
    import numpy as np

    size = math.prod(dims) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(dims)


def ours(dims, lhs, rhs, threads):
    """A function that runs our kernel, and the compile time of its LLVM module in ms."""
    import llvmlite.binding as binding

    from axla.codegen import llvm
    from axla.codegen.emit import gemm
    from axla.codegen.function import Module
    from axla.codegen.native import glue
    from axla.codegen.target import host_target
    from axla.core.dtypes import F32
    from axla.program.abi import FRAME

    target = host_target()
    spec = gemm.GemmSpec(F32, F32, F32, 1, *dims)
    found = gemm.plan(spec, target, fused_store=False)
    module = Module(target.index_type)
    gemm.emit(module, "product", spec, found, target)
    start = time.process_time()
    image = llvm.emit_object(module.text(), target)
    took = (time.process_time() - start) * 1e3
    jit = binding.create_lljit_compiler()
    library = binding.JITLibraryBuilder().add_object_img(image).export_symbol("product").link(jit, "product")
    native = glue.load()
    native.variable("pool_threads", ctypes.c_int64).value = threads
    out, scratch = aligned((spec.m, spec.n)), aligned((found.scratch_bytes + 64,), "uint8")
    buffers = (lhs, rhs, out, scratch)
    args = (ctypes.c_void_p * 4)(*[buffer.ctypes.data for buffer in buffers])
    never = ctypes.c_int32(0)
    frame = FRAME.ctypes()(cancel=ctypes.addressof(never))
    call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    parallel_for = call(native.addresses["axla_parallel_for"])
    (kernel,) = found.kernels
    parameters = (ctypes.addressof(frame), library["product"], args, kernel.count, kernel.grain)

    def run(keep=(jit, library, buffers, frame, never)):
        return parallel_for(*parameters)

    return run, took, out


def measure(threads: int, repeats: int) -> None:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    import jax
    import numpy as np

    product = jax.jit(lambda a, b: a @ b)
    ratios = []
    for m, n, k in SHAPES:
        rng = np.random.default_rng(0)
        lhs, rhs = aligned((m, k)), aligned((k, n))
        lhs[:], rhs[:] = rng.standard_normal(lhs.shape), rng.standard_normal(rhs.shape)
        run, took, out = ours((m, n, k), lhs, rhs, threads)
        a, b = jax.device_put(lhs), jax.device_put(rhs)
        np.testing.assert_allclose(product(a, b), [run(), out][1], rtol=1e-3, atol=1e-3)
        times = ([], [])
        inner = max(1, int(5e7 / (m * n * k)))
        for _ in range(repeats):
            for side, call in enumerate((run, lambda a=a, b=b: product(a, b).block_until_ready())):
                call()
                start = time.perf_counter()
                for _ in range(inner):
                    call()
                times[side].append((time.perf_counter() - start) / inner)
        mine, theirs = (statistics.median(side) for side in times)
        if (m, n, k) in GOAL:
            ratios.append(mine / theirs)
        speed = 2e-9 * m * n * k / mine
        best = min(times[0]) / min(times[1])
        print(
            f"{threads} thread(s) {m}x{n}x{k}: {mine * 1e6:8.0f} us ({speed:5.1f} GFLOP/s), ",
            f"XLA {theirs * 1e6:8.0f} us, ratio {mine / theirs:.2f} (best {best:.2f}), LLVM {took:.0f} ms",
            flush=True,
        )
    print(f"{threads} thread(s): geometric mean of the first four {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    if len(sys.argv) > 2:
        measure(int(sys.argv[2]), repeats)
    else:
        for threads in (1, 2):
            subprocess.run([sys.executable, __file__, str(repeats), str(threads)], check=True)
