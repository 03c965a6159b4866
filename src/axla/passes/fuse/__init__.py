"""Fusion: which instructions become one kernel (`plan.py`, the rules in `rules.py`), and making it so
(`fuse.py`).
"""
