"""Reports on graphs: which operations run in which cluster, which do not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.ir.dot_graph import dot_graph
from axla.tensorflow.clusters import capi
from axla.tensorflow.clusters.cluster import Cluster
from axla.tensorflow.clusters.functions import Jitted
from axla.tensorflow.clusters.rewriting import ClusterDecision
from axla.tensorflow.clusters.session import Session
from axla.tensorflow.clusters.traced import places


@dataclass(frozen=True, slots=True)
class Report:
    """A report that can be printed. `clusters` has the clusters, `decisions` one for each operation."""

    clusters: Sequence[Cluster]
    decisions: Sequence[ClusterDecision]

    @property
    def outside(self) -> list[ClusterDecision]:
        """The operations that TensorFlow runs."""
        return [one for one in self.decisions if not one.cluster]

    def __str__(self) -> str:
        lines = [f"{missing}: PyFunc runs clusters"] if (missing := capi.missing()) else []
        for cluster in self.clusters:
            counts = Counter(node.op for node in cluster.graph.nodes.values())
            kinds = ", ".join(f"{count} {op}" if count > 1 else op for op, count in counts.most_common())
            lines.append(f"{cluster.name}: {kinds}")
            lines += [f"    compiled for {_given(one)}" for one in cluster.executables]
        if self.outside:
            lines += ["left to TensorFlow:", *(f"    {_line(one)}" for one in self.outside)]
        return "\n".join(lines)

    def write_pictures(self, folder: str | Path) -> list[Path]:
        """Writes the HLO of each cluster, for each combination of shapes, as a Graphviz graph."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        found = []
        for cluster in self.clusters:
            for number, one in enumerate(cluster.executables):
                found.append(Path(folder, f"{cluster.name}_{cluster.number}_{number}.dot"))
                found[-1].write_text(dot_graph(one.module), encoding="utf-8")
        return found


def _given(executable: Any) -> str:
    shapes = [spec.shape.to_string(layout=False) for spec in executable.compiled.interface.parameters]
    known = [f"input {n} with its value" for n in sorted(executable.constant)]
    return ", ".join([*shapes, *known]) or "no inputs"


def _line(decision: ClusterDecision) -> str:
    where = f" of function '{decision.function}'" if decision.function else ""
    return f"{decision.node}{where}: {decision.reason}"


def explain(target: Any) -> Report:
    """A report on the clusters of a session, or of a function, layer or model returned by `jit`, that have
    run so far. InvalidArgument for anything else.
    """
    if isinstance(target, Session):
        clusters = [cluster for part in target.parts for cluster in part.clusters]
        found = {f"{d.node.name}@{d.function}": d for part in target.parts for d in part.decisions}
        known = places(target.graph)
        for place, decision in found.items():
            decision.node.place = known.get(place, "")
        return Report([*dict.fromkeys(clusters)], [*found.values()])
    inside = getattr(target, "__dict__", {}).values()  # the call of a layer, the steps of a model
    jitted = [one for one in (target, *inside) if isinstance(one, Jitted)]
    if not jitted:
        raise InvalidArgument(f"explain: found {type(target).__name__}, wanted a Session or a result of jit")
    clusters = [traced.cluster for one in jitted for traced in one.traces]
    nodes = [(node, cluster.name) for cluster in clusters for node in cluster.graph.nodes.values()]
    return Report(clusters, [ClusterDecision(node, "", name, "") for node, name in nodes])
