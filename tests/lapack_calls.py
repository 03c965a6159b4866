"""Calls of LAPACK in HLO as JAX writes them, and helpers to check their results."""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import from_numpy

LETTERS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def as_text(dtype, dims, *, matrix: bool) -> str:
    """A shape as JAX writes it: matrices are column-major, batch dimensions are outermost."""
    order = list(range(len(dims)))[::-1]
    if matrix:
        order[:2] = order[1::-1]
    name = from_numpy(np.dtype(dtype)).name
    layout = f"{{{','.join(map(str, order))}}}" if order else ""
    return f"{name}[{','.join(map(str, dims))}]{layout}"


def text_of(target, operands, results, config="", aliases="") -> str:
    """The HLO text of one call. An operand is (array, whether it has matrices), a result ((type, sizes),
    whether it has matrices).
    """
    lines, names, limits = [], [], []
    for number, (array, matrix) in enumerate(operands):
        lines.append(f"p{number} = {as_text(array.dtype, array.shape, matrix=False)} parameter({number})")
        names.append(f"p{number}")
        limits.append(as_text(array.dtype, array.shape, matrix=matrix))
    shapes = [as_text(dtype, dims, matrix=matrix) for (dtype, dims), matrix in results]
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    lines.append(
        f'ROOT r = {result} custom-call({", ".join(names)}), custom_call_target="{target}", '
        f"operand_layout_constraints={{{', '.join(limits)}}}, {aliases}"
        f"api_version=API_VERSION_TYPED_FFI, backend_config={{{config}}}"
    )
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


def attributes(**values) -> str:
    return ", ".join(f"{name} = {ord(value)} : ui8" for name, value in values.items())


def random(letter, *dims, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(dims)
    if letter in "cz":
        x = x + 1j * generator.standard_normal(dims)
    return x.astype(LETTERS[letter])


def h(x):
    return x.swapaxes(-1, -2).conj()


def real_of(letter):
    return np.zeros(0, LETTERS[letter]).real.dtype.type


def close(found, wanted):
    size = max(wanted.shape[-2:] if wanted.ndim > 1 else wanted.shape or (1,), default=1)
    eps = np.finfo(np.result_type(found.dtype, np.float32) if found.dtype != np.float64 else np.float64).eps
    scale = np.abs(wanted).max() if wanted.size else 1
    np.testing.assert_allclose(found, wanted, rtol=0, atol=30 * size * eps * max(scale, 1))


def product_of_reflectors(reflectors, tau, first=0):
    """The unitary matrix whose Householder reflectors LAPACK stores in columns, below the diagonal, or
    `first` rows further down.
    """
    rows = len(reflectors)
    whole = np.eye(rows, dtype=reflectors.dtype)
    for i, factor in enumerate(tau):
        v = np.zeros(rows, reflectors.dtype)
        v[i + first], v[i + first + 1 :] = 1, reflectors[i + first + 1 :, i]
        whole = whole @ (np.eye(rows, dtype=v.dtype) - factor * np.outer(v, v.conj()))
    return whole
