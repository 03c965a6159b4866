"""Sessions of TensorFlow 1 that run clusters.

A session has a graph of its own. At the first run of each combination of feeds, fetches and targets it adds
the rewritten nodes (`rewriting.py`), and lets TensorFlow run them. So variables, queues and tables are
TensorFlow's, and keep their values when the user's graph grows.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, UnsupportedError, choices
from axla.tensorflow.clusters import capi, flags
from axla.tensorflow.clusters.cluster import Cluster
from axla.tensorflow.clusters.framework import client, context, graph_pb2, importer, op_def_registry, tf
from axla.tensorflow.clusters.launch import register
from axla.tensorflow.clusters.rewriting import KERNEL, PY_FUNC, Mode, Rewriter, RunPart
from axla.tensorflow.clusters.traced import place_of
from axla.tensorflow.messages import decode, encode
from axla.tensorflow.types import Proto

_NODE = re.compile(r"node '[^']+' \(\w+\)")
"""Matches the name of a node in an error message of a cluster."""
_MODES: tuple[Mode, ...] = ("auto", "scope", "off")


jit_scope = tf.xla.experimental.jit_scope
"""`with jit_scope():` marks the operations created inside to be compiled; `jit_scope(compile_ops=False)`
marks them not to be.
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """The parts of the session's graph that run for some feeds, fetches and targets; an entry of `feeds` is
    None if it is not needed. `owners` are the user's tensors and operations.
    """

    feeds: list[Any]
    fetches: list[Any]
    targets: list[Any]
    clusters: list[Cluster]
    owners: Sequence[Any]


class Session(tf.compat.v1.Session):
    """A session of TensorFlow in which clusters run as programs of axla; used like `tf.compat.v1.Session`,
    but for the order of its arguments and for `partial_run`, which is refused.

    `jit`: "auto" forms clusters wherever they can be, "scope" of nodes that are marked for it (`jit_scope`),
    "off" of none. By default it is what `global_jit_level` of `config` says (ON_1, ON_2: "auto", OFF:
    "scope"), else --tf_xla_auto_jit in TF_XLA_FLAGS, else "auto". Nodes that are placed on XLA_CPU or
    XLA_GPU are always in a cluster.
    """

    _session = None  # __del__ needs it if __init__ fails

    def __init__(
        self, graph: Any = None, jit: Mode | None = None, config: Any = None, target: str = ""
    ) -> None:
        held = tf.compat.v1.ConfigProto()
        held.CopyFrom(context.context().config if config is None else config)
        options = held.graph_options.optimizer_options
        self.mode = _mode(jit, options.global_jit_level)
        options.global_jit_level = options.OFF
        if target and self.mode != "off":
            raise InvalidArgument(f"target is '{target}', wanted '', as clusters run in this process")
        if not isinstance(graph, tf.Graph | None):
            raise InvalidArgument(f"graph is a {type(graph).__name__}, wanted a tf.Graph")
        super().__init__(target, tf.Graph(), held)
        self._inner, self._graph = self._graph, graph or tf.compat.v1.get_default_graph()
        way = PY_FUNC if capi.missing() else KERNEL
        self._rewriter = Rewriter(_cluster, self.mode, flags.current().min_cluster_size, _definition, way)
        self._parts: dict[tuple[object, ...], RunPart] = {}
        self._steps: dict[tuple[object, ...], _Step] = {}
        self._read, self._rewriting = -1, threading.Lock()

    @property
    def parts(self) -> list[RunPart]:
        """The rewritten graphs: for each combination of feeds, fetches and targets the last one."""
        return list(self._parts.values())

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
        """A function that takes values for `feed_list` and returns the values of `fetches`."""
        return super().make_callable(fetches, feed_list or [], accept_options)

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Raises UnsupportedError: clusters run whole steps."""
        raise UnsupportedError("partial_run: a session with clusters runs whole steps only")

    def _make_callable_from_options(self, callable_options: Any) -> Any:
        raise UnsupportedError("callables from CallableOptions are not supported: use make_callable")

    def _extend_graph(self) -> None:
        """Does nothing: `_step` has extended the graph."""

    def _do_run(
        self, handle: Any, target_list: Any, fetch_list: Any, feed_dict: Any, options: Any, run_metadata: Any
    ) -> Any:
        step = self._step([key.deref() for key in feed_dict], fetch_list, target_list)
        feeds = {key: v for key, v in zip(step.feeds, feed_dict.values(), strict=True) if key is not None}
        try:
            found = super()._do_run(handle, step.targets, step.fetches, feeds, options, run_metadata)
        except tf.errors.OpError as error:
            raise self._placed(error) from None
        if any(cluster.refused for cluster in step.clusters):
            with self._rewriting:  # the next run leaves out nodes that cannot be compiled
                self._steps.clear()
                self._rewriter.bodies.clear()
        return found

    def _placed(self, error: Any) -> Any:
        """An error of a cluster, with the operation of the user's graph and the line that created it."""
        name = "".join(_NODE.findall(error.message)[:1])
        try:
            operation = self._graph.get_operation_by_name(name.split("'")[1])
        except (IndexError, KeyError):  # no node is named, or the node is in a function
            return error
        message = error.message.replace(name, name + place_of(operation), 1)
        return type(error)(operation.node_def, operation, message)

    def _step(self, feeds: Sequence[Any], fetches: Sequence[Any], targets: Sequence[Any]) -> _Step:
        owners = (*feeds, None, *fetches, None, *targets)
        key = (self._graph.version, *map(id, owners))
        step = self._steps.get(key)
        if step is None:
            with self._rewriting:
                step = self._steps.get(key) or self._made(feeds, fetches, targets, owners)
                self._steps[key] = step
        return step

    def _made(self, feeds: Any, fetches: Any, targets: Any, owners: Sequence[Any]) -> _Step:
        """The step for these feeds, fetches and targets, whose nodes are added to the session's graph.
        `owners` are the user's tensors and operations that the step belongs to.
        """
        if self._read != self._graph.version:
            flags.dump("before_mark_for_compilation", lambda: str(self._graph.as_graph_def()))
            self._read = self._graph.version
            self._steps.clear()  # they belong to the old graph
            self._rewriter.read(self._graph.as_graph_def().SerializeToString())
        names = [[each.name for each in side] for side in (feeds, fetches, targets)]
        part = self._rewriter.part(*names)
        self._add(part.graph)
        key = tuple(map(tuple, names))
        self._parts.pop(key, None)
        self._parts[key] = part
        flags.dump("build_xla_ops", lambda: str(self._inner.as_graph_def()))
        find = self._inner.get_tensor_by_name
        return _Step(
            [find(name).ref() if name else None for name in part.feeds],
            [find(name) for name in part.fetches],
            [self._inner.get_operation_by_name(name) for name in part.targets],
            part.clusters,
            owners,
        )

    def _add(self, graph: Proto) -> None:
        """Adds nodes and functions to the session's graph."""
        new = {node["name"] for node in graph.get("node", ())}
        texts = dict.fromkeys(text for node in graph.get("node", ()) for text in node["input"])
        old = {text: self._known(text) for text in texts if _node_of(text) not in new}
        added = graph_pb2.GraphDef.FromString(encode(graph, "GraphDef"))
        for node in (*added.node, *(n for each in added.library.function for n in each.node_def)):
            node.attr.pop("_XlaCompile", None)  # TensorFlow would compile nodes left to it
        with self._inner.as_default():
            importer._import_graph_def_internal(added, old, validate_colocation_constraints=False, name="")
        with self._inner._session_run_lock():
            client.ExtendSession(self._session)

    def _known(self, text: str) -> Any:
        """The tensor of an older node that a new node names as input `text`; for `^node`, any tensor that
        waits for this node.
        """
        if not text.startswith("^"):
            return self._inner.get_tensor_by_name(text)
        node = self._inner.get_operation_by_name(text[1:])
        if node.outputs:
            return node.outputs[0]
        name = self._rewriter.free(f"{node.name}/done")
        with self._inner.as_default(), self._inner.control_dependencies([node]):
            return tf.constant(0, name=name)


def _node_of(text: str) -> str:
    return text[1:] if text.startswith("^") else text.rpartition(":")[0]


def _mode(jit: Mode | None, level: int) -> Mode:
    if jit is not None and jit not in _MODES:
        raise InvalidArgument(f"jit is {jit!r}; {choices(_MODES, jit)}")
    found = flags.current()
    return jit or ("auto" if (level or found.auto_jit) >= 0 and found.cpu_global_jit else "scope")


def _cluster(*parts: Any) -> Cluster:
    cluster = Cluster(*parts)
    register(cluster)
    return cluster


def _definition(op: str) -> Proto | None:
    """The OpDef of an operation of TensorFlow."""
    found = op_def_registry.get(op)
    return None if found is None else decode(found.SerializeToString(), "OpDef")
