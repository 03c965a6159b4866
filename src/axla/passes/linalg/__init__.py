"""LAPACK's routines as HLO programs, which replace calls of them where there is no library.

Read `../matrix.py` first (the operations used), then `reflectors.py` (QR, Hessenberg and tridiagonal forms),
`elimination.py` (LU, tridiagonal systems), `jacobi.py` (singular values, symmetric eigenvalues), `schur.py`
and `eigenvectors.py` (general eigenvalues), `routines.py` (arguments and results of each call) and
`expander.py` (the pass).

All are loops whose trip counts depend on sizes: code does not grow with the matrices.
"""
