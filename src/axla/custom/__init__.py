"""Custom calls: functions that a program calls by name.

Read `site.py` first (a call as data), then `registry.py` (registration by users), `callables.py` (Python
functions), `built_in.py` (axla's own targets), `attributes.py` (typed attributes of FFI calls). For the
linear algebra that JAX calls: `plan.py` (a plan of library calls), `routines.py` (makes plans), `library.py`
(runs a plan on NumPy arrays), `lapack.py` (addresses of routines), `tridiagonal.py`. Data between a running
program and its process: `feeds.py` (infeed, outfeed and channels), `mailbox.py` (values sent but not yet
received), `probes.py` (recorded values).
"""
