"""Reads TensorFlow graphs without TensorFlow, and converts them to HLO.

    f = axla.tensorflow.load("saved_model_dir")                 is called by argument names, returns a dict
    f = axla.tensorflow.load("graph.pb", feeds=["x:0"], fetches=["y:0"])

`reading.py` and `checkpoints.py` read files, `messages.py` decodes their messages. `graph.py` makes a
verified `Graph` of a message; `frames.py` and `branches.py` convert its TensorFlow 1 loops and branches.
`importer.py` makes an HLO module of a graph, node by node, in scopes (`scope.py`, `regions.py`). A record
declares each operation and how it is lowered to HLO (`records.py`, `ops`). `model.py` makes Python functions
of graphs.

    with axla.tensorflow.Session(graph) as session: ...         TensorFlow runs a graph with clusters
    f = axla.tensorflow.jit(f)                                  makes a function, layer or model a cluster
    print(axla.tensorflow.explain(f))                           which nodes were compiled, which not, and why

Only the modules in `clusters` import TensorFlow, and only when they are first used.
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

_flags.take()  # removes axla's flags from TF_XLA_FLAGS before TensorFlow reads the variable


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
