"""Analyses of modules: functions from graphs to frozen results. Nothing here changes a module.

Takes instructions, computations and modules; gives kernel kinds (`kernels.py`, read it first), tiny values
and scalar regions (`regions.py`), access patterns (`access.py`), orders of execution and live ranges
(`liveness.py`), memory (`buffers.py`) and trip counts (`trip_count.py`).
"""
