"""Elementwise functions of floats and complex numbers; `tables` lists them by opcode."""

from axla.codegen.math import (  # noqa: F401  importing them fills the tables
    basic,
    complex,
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometry,
    logarithm,
    power,
    remainder,
    root,
    trigonometry,
)  # fmt: skip
