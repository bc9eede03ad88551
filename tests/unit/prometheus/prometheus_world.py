"""What the tests of the metric provider are made of: answers as Prometheus writes them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle, PodSource
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
    """An answer with one series a node, its number as Prometheus would write it."""
    return answer(*(series(str(value), instance=node) for node, value in values.items()))


class Clock:
    """Seconds that go forward when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Scripted:
    """Answers with what it was given last, or fails with it."""

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


class World:
    """A Handle whose sources ask one ``Scripted`` and are refreshed by hand."""

    def __init__(self, pods: PodSource | None = None) -> None:
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
        """What Prometheus says from now on, and is asked for once."""
        self.prometheus.says = body
        for source in self.sources:
            source.refresh()


def args_of(model: type[_Args], **given: object) -> _Args:
    """As a pluginConfig entry has them."""
    return model.model_validate({"prometheusAddress": ADDRESS} | given)


def pod_of(body: Mapping[str, Any] = POD) -> core.Pod:
    request = {"Pod": body, "Nodes": None, "NodeNames": []}
    pod = core.read_args(json.dumps(request).encode(), core.NodeStore()).pod
    assert pod is not None
    return pod


def nodes_of(names: Sequence[str], cpu: str = "4") -> core.Nodes:
    items = [
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu}}} for name in names
    ]
    store = core.NodeStore()
    body = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": items}
    store.replace(json.dumps(body).encode())
    request = {"Pod": POD, "Nodes": None, "NodeNames": list(names)}
    nodes = core.read_args(json.dumps(request).encode(), store).nodes
    assert nodes is not None
    return nodes


def scores_of(plugin: Any, names: Sequence[str], pod: core.Pod | None = None) -> dict[str, int]:
    """By node, after NormalizeScore and the profile's own checks."""
    profile = Profile("default-scheduler", score=[(plugin, 1)])
    nodes = nodes_of(names)
    scores = profile.run_score_plugin(plugin, CycleState(), pod or pod_of(), nodes)
    return dict(zip(names, scores, strict=True))
