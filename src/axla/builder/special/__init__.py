"""Special functions composed of builder ops: Bessel, beta, gamma, zeta and inverse trigonometric and
hyperbolic functions.

`axla.ops` exports the real ones; the pass `expand/inverse_functions.py` uses those of complex numbers.
"""
