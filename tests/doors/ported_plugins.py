"""The door of the ports of Go plugins: a cluster of manifests, and the plugins that see it."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tests.doors.core_objects import names
from tests.doors.wire_parts import Nodes, Pods

from kubextend import core
from kubextend.framework import Handle
from kubextend.framework.handle import ClusterPorts
from kubextend.plugins import IN_TREE
from kubextend.prometheus import Query, Sources, Vector
from kubextend.testing.objects import node_store, pod_store
from kubextend.testing.stand_ins import ListedObjects

__all__ = ["Cluster", "HeldPods", "pod_of"]

_MEASURED: Final = {
    "avg_over_time((cpu)[15m:1m])": ("CPU", "AVG"),
    "stddev_over_time((cpu)[15m:1m])": ("CPU", "STD"),
    "avg_over_time((memory)[15m:1m])": ("Memory", "AVG"),
    "stddev_over_time((memory)[15m:1m])": ("Memory", "STD"),
    "cpu_now": ("CPU", "AVG"),
}
_PROMETHEUS: Final = {"prometheusAddress": "http://127.0.0.1:9"}
_LOAD: Final = _PROMETHEUS | {"cpuQuery": "cpu", "memoryQuery": "memory"}
_OUR_ARGS: Final = {
    "LoadVariationRiskBalancing": _LOAD,
    "LowRiskOverCommitment": _LOAD,
    "TargetLoadPacking": _PROMETHEUS | {"query": "cpu_now"},
}


class _Measurement(NamedTuple):
    """The numbers of one query, as a source has them from Prometheus."""

    vector: Vector

    def latest(self, _time_to_live_s: float) -> Vector:
        return self.vector


class HeldPods(dict[str, Any]):
    """The pods that Permit holds, each until a plugin allows it."""

    def gives_up(self, _uid: str) -> bool:
        return False


def pod_of(manifest: Mapping[str, Any]) -> core.Pod:
    """Return the pod of a request; ``testing.make_pod`` would keep 20,000 manifests."""
    return core.read_args(names([], manifest), watched=core.NodeStore(raw=True)).pod


class Cluster:
    """A cluster of manifests: nodes, pods, what the load watcher measured, and other objects.

    Attributes:
        names, nodes: the nodes in order.
        pods: the store of the pods.
        held: the pods that Permit holds.
    """

    def __init__(self, manifests: Mapping[str, Any]) -> None:
        self.manifests = manifests
        self.names = [node["metadata"]["name"] for node in manifests["nodes"]]
        store = node_store(manifests["nodes"])
        self.nodes, self.pods = store.select(self.names), pod_store(manifests["pods"])
        self.held = HeldPods()
        objects = manifests.get("objects", {})
        informers = ListedObjects(objects)
        for resource, found in objects.items():
            for manifest in found:
                informers.apply("ADDED", resource, manifest)
        self._ports = ClusterPorts(nodes=Nodes(store), pods=Pods(self.pods), informers=informers)

    def plugin(self, name: str, args: Mapping[str, Any]) -> Any:
        """Return the plugin of this name with these arguments of the original."""
        handle = Handle(self.held, self._ports)
        handle.shared(Sources, lambda: Sources(make=self._measurement))
        registered = IN_TREE[name]
        model = registered.args_model
        given = None if model is None else model.model_validate({**_OUR_ARGS.get(name, {}), **args})
        return registered.make(given, handle)

    def _measurement(self, query: Query) -> _Measurement:
        metrics = self.manifests["metrics"]
        by_node = {
            node: metric["value"]
            for node, measured in metrics["data"]["NodeMetricsMap"].items()
            for metric in measured["metrics"]
            if (metric["type"], metric["operator"]) == _MEASURED[query.promql]
        }
        return _Measurement(Vector(by_node, float(metrics["timestamp"])))
