"""Passes: they change modules in place. Read `driver.py`, then `pipelines.py`, then `rewrite.py`."""
