"""Fusion: decides which instructions become one kernel (`plan.py`, with the rules in `rules.py`), and makes
the kernels (`fuse.py`).
"""
