"""TensorFlow's graphs: read without TensorFlow, and made into HLO.

    f = axla.tensorflow.load("saved_model_dir")                 called by argument names, gives a dict
    f = axla.tensorflow.load("graph.pb", feeds=["x:0"], fetches=["y:0"])

A message (`messages.py`; `reading.py` for files, `checkpoints.py`) becomes a verified `Graph` (`graph.py`,
`frames.py` for loops as TensorFlow 1 writes them); `importer.py` makes a module of it, node by node, in
scopes (`scope.py`, `regions.py`). What an operation is, and becomes, is said once, by its record
(`records.py`, `ops`). `model.py` makes functions of Python of graphs.
"""

from axla.tensorflow.clusters import flags as _flags
from axla.tensorflow.model import Function, Variables, load

__all__ = ["Function", "Variables", "load"]

_flags.take()  # before TensorFlow reads them
