"""Clusters that TensorFlow computes itself, because axla cannot compile them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.tensorflow.clusters.cluster import Cluster
from axla.tensorflow.clusters.framework import graph_pb2, tf
from axla.tensorflow.clusters.rewriting import listed, placeholder
from axla.tensorflow.graph import Output
from axla.tensorflow.messages import encode
from axla.tensorflow.types import Proto


def in_tensorflow(cluster: Cluster, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a cluster, computed by a session of TensorFlow."""
    if cluster.session is None:
        # The session has its own threads: the kernel that waits for it occupies one of the shared threads.
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True)
        cluster.session = tf.compat.v1.Session(graph=_graph(cluster), config=config)
    fetches = [f"axla/result{number}:0" for number in range(len(cluster.outputs))]
    feeds = {f"axla/input{number}:0": value for number, value in enumerate(inputs)}
    return cluster.session.run(fetches, feeds)


def _graph(cluster: Cluster) -> Any:
    """A graph of TensorFlow with the nodes of a cluster; its inputs are placeholders."""
    nodes = cluster.graph.needed(cluster.outputs, cut=cluster.inputs)
    # Only inside functions, the name of a node may begin with an underscore.
    names = {node.name: f"of{node.name}" if node.name[0] == "_" else node.name for node in nodes}
    texts = {output: f"axla/input{number}:0" for number, output in enumerate(cluster.inputs)}

    def text(output: Output) -> str:
        return texts.get(output) or f"{names[output.node]}:{output.index}"

    written = [placeholder(f"axla/input{number}", type_) for number, type_ in enumerate(cluster.input_types)]
    for node in nodes:
        inputs = [*map(text, node.inputs), *(f"^{names[name]}" for name in node.controls)]
        given = {key: value for key, value in node.given.items() if key != "_class"}
        written.append({"name": names[node.name], "op": node.op, "input": inputs, "attr": listed(given)})
    for number, (output, type_) in enumerate(zip(cluster.outputs, cluster.result_types, strict=True)):
        attributes = listed({"T": {"type": type_}})
        name = f"axla/result{number}"
        written.append({"name": name, "op": "Identity", "input": [text(output)], "attr": attributes})
    functions = [*cluster.graph.library.messages.values()]
    message: Proto = {
        "node": written,
        "library": {"function": functions},
        "versions": {"producer": tf.version.GRAPH_DEF_VERSION},
    }
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_pb2.GraphDef.FromString(encode(message, "GraphDef")), name="")
    return graph
