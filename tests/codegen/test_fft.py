"""Fourier transforms in generated code against the interpreter: kinds, lengths with all factors, several
axes.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla

SMOOTH = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 20, 26, 60, 64, 128, 210, 1001]
PRIME = [17, 34, 37, 97]
SEVERAL = [(4, 6), (5, 7), (16, 33), (4, 8, 8), (3, 1, 5), (1, 1), (70, 40), (17, 5), (5, 34)]


def transform(
    kind: str, batch: tuple[int, ...], lengths: tuple[int, ...], double: bool
) -> tuple[str, np.ndarray]:
    """The text of a transform, and its argument."""
    real, whole = ("f64", "c128") if double else ("f32", "c64")
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    given = (*batch, *(half if kind == "IRFFT" else lengths))
    result = (*batch, *(half if kind == "RFFT" else lengths))
    types = real if kind == "RFFT" else whole, real if kind == "IRFFT" else whole

    def show(dims: tuple[int, ...]) -> str:
        return ",".join(map(str, dims))

    text = f"""HloModule transform
    ENTRY main {{
      x = {types[0]}[{show(given)}] parameter(0)
      ROOT y = {types[1]}[{show(result)}] fft(x), fft_type={kind}, fft_length={{{show(lengths)}}}
    }}"""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(given)
    if kind != "RFFT":
        x = x + 1j * rng.standard_normal(given)
        return text, x.astype(np.complex128 if double else np.complex64)
    return text, x.astype(np.float64 if double else np.float32)


def check(kind: str, batch: tuple[int, ...], lengths: tuple[int, ...], double: bool) -> None:
    text, x = transform(kind, batch, lengths, double)
    wanted = np.asarray(axla.compile(axla.parse(text), backend="interpreter").execute([x])[0])
    for backend in ("cpu", "one-lane"):
        found = np.asarray(axla.compile(axla.parse(text), backend=backend).execute([x])[0])
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        error = np.max(np.abs(found - wanted)) / np.max(np.abs(wanted))
        assert error < (2e-14 if double else 2e-6), (backend, kind, lengths, error)


@pytest.mark.parametrize(
    "kind, part", [("FFT", (0, 1)), ("IFFT", (0, 3)), ("RFFT", (0, 2)), ("IRFFT", (1, 2))]
)
def test_lengths(kind, part):
    """All lengths forwards; the other kinds share its steps."""
    for length in (*SMOOTH, *PRIME)[part[0] :: part[1]]:
        check(kind, (3,), (length,), double=length % 3 == 0)


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_several_axes(kind):
    for number, lengths in enumerate(SEVERAL):
        batches = kind in ("FFT", "IRFFT")
        check(kind, (2,) if batches else (), lengths, double=number % 2 == batches)


def test_many_lines_are_cut_into_pieces():
    check("FFT", (300,), (256,), double=False)
    check("RFFT", (40,), (64, 50), double=False)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
def test_no_lines(kind):
    text, x = transform(kind, (0,), (8,), double=False)
    for backend in ("cpu", "one-lane"):
        found = np.asarray(axla.compile(axla.parse(text), backend=backend).execute([x])[0])
        assert not found.size
