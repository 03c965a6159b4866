"""LAPACK routines as HLO programs, which replace calls of LAPACK if the library is missing.

Read `../matrix.py` first (the operations used), then `reflectors.py` (QR, Hessenberg and tridiagonal forms),
`elimination.py` (LU, tridiagonal systems), `jacobi.py` (singular values, symmetric eigenvalues), `divide.py`
(the same for larger matrices), `schur.py` and `eigenvectors.py` (general eigenvalues), `small.py` (batches of
small matrices), `routines.py` (arguments and results of each call) and `expander.py` (the pass).

All are loops whose trip counts depend on sizes, so the code does not grow with the matrices.
"""
