"""Helpers of the tests of kubextend.prometheus: answers of Prometheus, a Handle, scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from tests.doors import core_objects

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.profile import Profile, WaitingPods
from kubextend.prometheus import PrometheusError, Query, Source, Sources

ADDRESS = "http://prometheus.test:9090"
AT = 1_800_000_000.0
"""2027-01-15T08:00:00Z"""

POD = {"metadata": {"name": "pod", "namespace": "ml", "uid": "uid"}, "spec": {}}

_Args = TypeVar("_Args", bound=BaseModel)


def series(value: object, /, at: float = AT, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [at, value]}


def answer(*result: object) -> bytes:
    data = {"resultType": "vector", "result": list(result)}
    return json.dumps({"status": "success", "data": data}).encode()


def numbers(values: Mapping[str, object]) -> bytes:
    """Return an answer of Prometheus with one series for each node, and its number as text."""
    return answer(*(series(str(value), instance=node) for node, value in values.items()))


class Clock:
    """A clock in seconds that a test moves by setting ``now``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """A stand-in for Prometheus that answers each query with ``says``, or raises ``says``."""

    def __init__(self, says: bytes | Exception = b"") -> None:
        self.says = says
        self.asked: list[str] = []
        self.interrupted = 0

    def query(self, promql: str, timeout_s: float) -> bytes:
        assert timeout_s > 0
        self.asked.append(promql)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def interrupt(self) -> None:
        self.interrupted += 1


@dataclass
class Watched:
    """Pods that a watch would have brought."""

    store: core.PodStore = field(default_factory=core.PodStore)
    synced: bool = True

    def list(self, *pods: Mapping[str, Any]) -> None:
        """Show these pods, and no others."""
        self.store.replace(core_objects.listed([dict(each) for each in pods]))


class World:
    """A Handle whose metric sources query one ``Scripted``, when a test refreshes them."""

    def __init__(self, pods: Watched | None = None) -> None:
        self.prometheus = Scripted(PrometheusError("not asked for yet"))
        self.clock = Clock()
        self.sources: list[Source] = []
        self.handle = Handle(WaitingPods(), ClusterPorts(pods=pods))
        self.handle.shared(Sources, lambda: Sources(make=self._source))

    def _source(self, query: Query) -> Source:
        source = Source(query, self.prometheus, self.clock)
        self.sources.append(source)
        return source

    def says(self, body: bytes | Exception) -> None:
        """Set what Prometheus answers or raises from now on, and refresh every source once."""
        self.prometheus.says = body
        for source in self.sources:
            source.refresh()


def handle_with_metrics() -> Handle:
    """Return a Handle of a process of its own, with a registry for metrics."""
    return Handle(WaitingPods(), common_metrics=CollectorRegistry())


def args_of(model: type[_Args], **given: object) -> _Args:
    """Return the Args of a plugin, read from the fields of a pluginConfig entry."""
    return model.model_validate({"prometheusAddress": ADDRESS} | given)


def pod_of(body: Mapping[str, Any] = POD) -> core.Pod:
    return core_objects.read(dict(body))


def nodes_of(names: Sequence[str], cpu: str = "4") -> core.Nodes:
    store = core_objects.node_store(*(core_objects.node_with_room(name, cpu=cpu) for name in names))
    nodes = core.read_args(core_objects.names(names, POD), watched=store).nodes
    assert nodes is not None
    return nodes


def scores_of(plugin: Any, names: Sequence[str], pod: core.Pod | None = None) -> dict[str, int]:
    """Return a plugin's scores by node name, after NormalizeScore and the profile's checks."""
    profile = Profile("default-scheduler", score=[(plugin, 1)])
    nodes = nodes_of(names)
    scores, _ = profile.run_score_plugin(plugin, CycleState(), pod or pod_of(), nodes)
    return dict(zip(names, scores, strict=True))
