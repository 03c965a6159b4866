"""Runs one random module on backends and compares with the interpreter."""

from __future__ import annotations

import numpy as np

import axla.api as axla
from axla.core.shape import Shape

# Relative to the largest finite element: order of summation and fused kernels move the last bits.
TOLERANCE = {"f64": 1e-11, "f32": 2e-4, "f16": 2e-2, "bf16": 1e-1}


def inputs_of(module, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    found = []
    for parameter in module.entry.parameters:
        shape = parameter.shape
        assert isinstance(shape, Shape)
        raw = rng.random(shape.dims) * 4 - 1.5
        if shape.dtype.is_unsigned:
            raw = np.abs(raw) * 3
        found.append(np.asarray(raw).astype(shape.dtype.numpy))
    return found


def differences_donated(text: str, seed: int) -> list[str]:
    """What differs when every parameter is donated: to memory that is taken, and to memory that is kept."""
    module = axla.parse(text)
    inputs = inputs_of(module, seed)
    wanted = axla.compile(module, backend="interpreter").execute(inputs)
    program = axla.compile(module, donate=range(len(inputs)))
    found = []
    for kept in (False, True):
        arrays = [axla.device_put(x) for x in inputs]
        views = [np.asarray(a) for a in arrays] if kept else []
        results = program.execute(arrays)
        for number, (a, b) in enumerate(zip(results, wanted, strict=True)):
            message = compare(np.asarray(a), b)
            if message:
                found.append(f"{'kept' if kept else 'taken'} memory, output {number}: {message}")
        for number, (view, x) in enumerate(zip(views, inputs, strict=False)):
            if not np.array_equal(view, x):
                found.append(f"parameter {number} was changed under a view of it")
    return found


def differences(text: str, seed: int, backends=("cpu", "one-lane")) -> list[str]:
    """What differs from the interpreter, as text; empty when all agree."""
    module = axla.parse(text)
    inputs = inputs_of(module, seed)
    wanted = axla.compile(module, backend="interpreter").execute(inputs)
    found = []
    for backend in backends:
        results = axla.compile(module, backend=backend).execute(inputs)
        for number, (a, b) in enumerate(zip(results, wanted, strict=True)):
            message = compare(np.asarray(a), b)
            if message:
                found.append(f"{backend}, output {number}: {message}")
    return found


def compare(actual: np.ndarray, wanted: np.ndarray) -> str:
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return f"{actual.dtype}{actual.shape}, wanted {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind in "iub":
        bad = actual != wanted
    else:
        name = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}[wanted.dtype.name]
        a, b = actual.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(b)
        scale = max(1.0, float(np.abs(b[finite]).max()) if finite.any() else 1.0)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.isfinite(a) & finite & (np.abs(a - b) <= TOLERANCE[name] * scale)
        bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} differ, first at {at}: {actual[at]} for {wanted[at]}"
