"""TensorFlow's graphs: read without TensorFlow, and made into HLO.

A message (`messages.py`) becomes a verified `Graph` (`graph.py`, `frames.py` for loops as TensorFlow 1 writes
them); `importer.py` makes a module of it, node by node, in scopes (`scope.py`, `regions.py`). What an
operation is, and becomes, is said once, by its record (`records.py`, `ops`).
"""
