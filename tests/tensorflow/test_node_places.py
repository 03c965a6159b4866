"""Errors about nodes of graphs that are texts say the file, the line and the column."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.tensorflow import load

GRAPH = """node {
  name: "x"
  op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } } } }
}
node {
  name: "y"
  op: "%s"
  input: "x"
  input: "%s"
  attr { key: "T" value { type: DT_FLOAT } }
}
"""


@pytest.mark.parametrize(
    "op, operand, message",
    [
        ("AddV2", "q", "node 'y' (AddV2): the graph has no node 'q'"),
        ("MatMul", "x", "node 'y' (MatMul): a has shape [2], wanted a matrix"),
        ("Addd", "x", "node 'y' (Addd): neither TensorFlow's XLA nor axla supports it"),
    ],
)
def test_the_line_of_the_node_is_shown(op, operand, message, tmp_path):
    path = tmp_path / "graph.pbtxt"
    path.write_text(GRAPH % (op, operand))
    for source, file in ((path, f"{path}: "), (str(path), f"{path}: "), (GRAPH % (op, operand), "")):
        with pytest.raises(axla.AxlaError) as caught:
            load(source, feeds=["x"], fetches=["y"])(np.ones(2, np.float32))
        assert str(caught.value) == f'{file}{message} at line 8, column 3\n    name: "y"\n    ^'
