"""Custom calls: what a program may call by name, and how.

Read `site.py` first (a call as data), then `registry.py` (what users register), `callables.py` (Python
functions), `routines.py` (the linear algebra that JAX emits, as plans of library calls), `library.py` (runs a
plan on NumPy arrays) and `lapack.py` (where the routines are).
"""
