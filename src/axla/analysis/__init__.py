"""Analyses of modules: functions that take a graph and return frozen results. No function here changes a
module.

Inputs are instructions, computations and modules. Results are tiny values and scalar regions (`regions.py`),
live intervals (`dataflow.py`), memory (`buffers.py`), trip counts (`trip_count.py`) and costs (`cost.py`).
Kernel kinds and access patterns, which they need, are in `kernels/kinds.py` and `kernels/access.py`.
"""
