"""The files of JAX's tests that axla runs, and their settings."""

from __future__ import annotations

from dataclasses import dataclass

TAG = "jax-v0.10.2"
SETTINGS = ("x32", "x64")
"""JAX_ENABLE_X64=0 and JAX_ENABLE_X64=1."""


@dataclass(frozen=True)
class Line:
    """Files with a common goal: a percentage for all their cases, and one for the worst file."""

    name: str
    files: tuple[str, ...]
    pooled: float = 0.0
    worst: float = 0.0
    devices: int = 0  # for all its files; 0: as many as a file requests


LINES = (
    Line(
        "numbers",
        (
            "lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test",
            "lax_numpy_indexing_test", "lax_numpy_einsum_test", "lax_control_flow_test", "lax_autodiff_test",
            "lax_vmap_test", "fft_test", "linalg_test", "random_lax_test", "nn_test", "lax_scipy_test",
        ),
        pooled=99.5, worst=97,
    ),
    Line(
        "programs",
        (
            "api_test", "array_test", "jax_jit_test", "python_callback_test", "debugging_primitives_test",
            "array_interoperability_test", "export_test", "memories_test", "svd_test", "sparse_test",
            "checkify_test",
        ),
        pooled=98.5, worst=97,
    ),
    Line(
        "devices",
        ("pmap_test", "shard_map_test", "pjit_test", "multi_device_test"),
        pooled=92, worst=85, devices=8,
    ),
)  # fmt: skip

OTHERS = "others"


def line_of(file: str) -> Line:
    return next((line for line in LINES if file in line.files), Line(OTHERS, (file,)))


def file_name(given: str) -> str:
    """The name of a test file: `api`, `api_test.py` and `tests/api_test.py` all become `api_test`."""
    name = given.rpartition("/")[2].removesuffix(".py")
    return name if name.endswith("_test") else f"{name}_test"
