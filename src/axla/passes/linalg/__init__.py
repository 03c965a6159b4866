"""LAPACK's routines as programs: what stands for a call of them where there is no library to call.

Read `../matrix.py` first (what all are written in), then `reflectors.py` (QR, Hessenberg and tridiagonal
forms), `elimination.py` (LU, tridiagonal systems), `jacobi.py` (singular values, symmetric eigenvalues),
`schur.py` and `eigenvectors.py` (general eigenvalues), `routines.py` (what each target takes and gives) and
`expander.py` (the pass).

All are loops whose number of rounds depends on sizes: code does not grow with the matrices.
"""
