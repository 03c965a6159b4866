"""TensorFlow's graphs: read without TensorFlow, and made into HLO.

    f = axla.tensorflow.load("saved_model_dir")                 called by argument names, gives a dict
    f = axla.tensorflow.load("graph.pb", feeds=["x:0"], fetches=["y:0"])

A message (`messages.py`; `reading.py` for files, `checkpoints.py`) becomes a verified `Graph` (`graph.py`,
`frames.py` for loops as TensorFlow 1 writes them); `importer.py` makes a module of it, node by node, in
scopes (`scope.py`, `regions.py`). What an operation is, and becomes, is said once, by its record
(`records.py`, `ops`). `model.py` makes functions of Python of graphs.

    with axla.tensorflow.Session(graph) as session: ...         TensorFlow runs it, with clusters (`clusters`)
    f = axla.tensorflow.jit(f)                                  a function, layer or model is one cluster
    print(axla.tensorflow.explain(f))                           what was compiled, what not, and why

Only what is in `clusters` imports TensorFlow, and only when it is first used.
"""

import typing as _typing

from axla.core.errors import missing as _missing
from axla.tensorflow.clusters import flags as _flags
from axla.tensorflow.model import Function, Variables, load

if _typing.TYPE_CHECKING:
    from axla.tensorflow.clusters.functions import jit
    from axla.tensorflow.clusters.report import explain
    from axla.tensorflow.clusters.session import Session, jit_scope
    from axla.tensorflow.clusters.timeline import timeline

_HOMES = {
    "Session": "session", "explain": "report", "jit": "functions", "jit_scope": "session",
    "timeline": "timeline",
}  # fmt: skip

__all__ = ["Function", "Session", "Variables", "explain", "jit", "jit_scope", "load", "timeline"]

_flags.take()  # before TensorFlow reads them


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'axla.tensorflow' has no attribute {name!r}")
    try:
        found = getattr(import_module(f"axla.tensorflow.clusters.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tensorflow":
            raise
        raise ImportError(_missing(f"axla.tensorflow.{name}", "TensorFlow", "tensorflow")) from error
    globals()[name] = found
    return found
