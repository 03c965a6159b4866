"""Fourier transforms are generated code: their objects need nothing, on machines of every kind."""

from __future__ import annotations

import pytest

from axla.aot.objects import compile_object
from axla.codegen.object_files import symbols
from axla.target.names import TARGETS, target
from axla.text.parser import parse_hlo

# Kind, operand, result, lengths: smooth, prime, and several of both.
TRANSFORMS = """HloModule m
ENTRY e {{
  x = {complex}[2,12] parameter(0)
  y = {real}[2,17] parameter(1)
  z = {complex}[2,3,5,4] parameter(2)
  a = {complex}[2,12] fft(x), fft_type=FFT, fft_length={{12}}
  b = {complex}[2,9] fft(y), fft_type=RFFT, fft_length={{17}}
  c = {real}[2,3,5,7] fft(z), fft_type=IRFFT, fft_length={{3,5,7}}
  d = {complex}[2,3,5,4] fft(z), fft_type=IFFT, fft_length={{5,4}}
  e = {complex}[2,12] fft(x), fft_type=IFFT, fft_length={{12}}
  ROOT t = ({complex}[2,12], {complex}[2,9], {real}[2,3,5,7], {complex}[2,3,5,4], {complex}[2,12])
    tuple(a, b, c, d, e)
}}"""


@pytest.mark.parametrize("machine", TARGETS)
def test_transforms_need_nothing(machine):
    real, complex_ = ("f64", "c128") if target(machine).has_double else ("f32", "c64")
    text = TRANSFORMS.format(real=real, complex=complex_)
    code = compile_object(parse_hlo(text), target(machine))
    assert not symbols(code.image).needed
