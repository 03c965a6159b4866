"""Special functions in terms of XLA's ops: Bessel, beta, gamma, zeta and inverse error functions.

`axla.ops` exports them; the pass `expand/inverse_functions.py` uses them too.
"""
