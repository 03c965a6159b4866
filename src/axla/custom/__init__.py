"""Custom calls: what a program may call by name, and how.

Read `site.py` first (a call as data), then `registry.py` (what users register), `callables.py` (Python
functions), `built_in.py` (targets that axla itself serves), `attributes.py` (typed attributes of FFI calls).
Linear algebra that JAX calls: `routines.py` (plans of library calls), `plan.py` (such a plan),
`library.py` (runs a plan on NumPy arrays), `lapack.py` (where the routines are), `tridiagonal.py`.
What else goes between a running program and its process: `feeds.py` (infeed and outfeed), `mailbox.py` (sent
and not yet received), `probes.py` (recorded values).
"""
