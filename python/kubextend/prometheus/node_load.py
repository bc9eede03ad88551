"""NodeLoad: the average and the deviation of the CPU and memory in use on each node.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/trimaran/resourcestats.go
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import Field

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.handle import Handle
from kubextend.prometheus.args import Duration, PrometheusArgs
from kubextend.prometheus.metric import NodeMetric

__all__ = ["RESOURCES", "Load", "Loads", "NodeLoad", "NodeLoadArgs", "pod_limits", "pod_requests"]

RESOURCES: Final = ("cpu", "memory")
"""The measured resources, in the order of ``Loads``."""

_PERCENT = 100


class NodeLoadArgs(PrometheusArgs):
    """The arguments common to plugins that score nodes by the use of CPU and memory over time.

    Attributes:
        time_range: the time over which averages and deviations are computed.
        resolution: the time between two of the numbers from which they are computed.
        cpu_query: PromQL that yields the percentage of each node's CPU in use at a moment, instead
            of the query for node_exporter.
        memory_query: PromQL that yields the percentage of each node's memory in use at a moment,
            instead of the query for node_exporter.
        fallback_score: the score 0..100 of a node without a measurement.
    """

    time_range: Duration = "15m"
    resolution: Duration = "1m"
    cpu_query: str | None = Field(default=None, min_length=1)
    memory_query: str | None = Field(default=None, min_length=1)
    fallback_score: int = Field(default=0, ge=0, le=100)


class Load(NamedTuple):
    """The measured use of a resource of one node.

    Attributes:
        average: the average use, in percent of the node's capacity.
        deviation: the standard deviation of the use, in percent of the capacity.
    """

    average: float
    deviation: float

    def shares(self, capacity: int, added: int = 0) -> tuple[float, float]:
        """Return the average use and its deviation as shares 0..1 of a capacity.

        Args:
            capacity: the capacity of the node; if it is 0, the shares are 0.
            added: an amount that is added to the average use.
        """
        if capacity <= 0:
            return 0.0, 0.0
        # The operations and their order are those of scheduler-plugins: scores are rounded.
        used = min(max(self.average * capacity / _PERCENT, 0.0), capacity)
        deviation = min(max(self.deviation * capacity / _PERCENT, 0.0), capacity)
        return min((used + added) / capacity, 1.0), deviation / capacity


class Loads:
    """The latest measurements of all nodes."""

    def __init__(self, numbers: Mapping[tuple[str, str], Mapping[str, float]]) -> None:
        self._numbers = numbers

    def of(self, node: str, resource: str) -> Load | None:
        """Return the measured use of a resource of a node; None if nothing is measured."""
        average = self._numbers[resource, "avg"].get(node)
        deviation = self._numbers[resource, "stddev"].get(node)
        if average is None and deviation is None:
            return None
        return Load(average or 0.0, deviation or 0.0)

    def any_of(self, node: str) -> bool:
        """Return whether anything is measured of a node."""
        return any(node in numbers for numbers in self._numbers.values())


class NodeLoad:
    """The measurements of Prometheus of all nodes, refreshed between ``start`` and ``stop``.

    Args:
        args: the queries, and the address, the intervals and the maximum age of the numbers.
        handle: the plugin's Handle.
        plugin: the name of the plugin, for metrics.
    """

    def __init__(self, args: NodeLoadArgs, handle: Handle, plugin: str) -> None:
        over = f"[{args.time_range}:{args.resolution}]"
        self._metrics = {
            (resource, how): NodeMetric(args, f"{how}_over_time(({query}){over})", handle, plugin)
            for resource, query in zip(RESOURCES, (_cpu(args), _memory(args)), strict=True)
            for how in ("avg", "stddev")
        }

    def start(self) -> None:
        """Begin to query Prometheus in the background."""
        for metric in self._metrics.values():
            metric.start()

    def stop(self) -> None:
        """Stop the queries to Prometheus."""
        for metric in self._metrics.values():
            metric.stop()

    def latest(self) -> Loads:
        """Return the measurements of the last successful queries that are not too old."""
        return Loads({key: metric.by_node() for key, metric in self._metrics.items()})


def pod_requests(pod: core.Pod) -> tuple[int, int]:
    """Return the milli-CPUs and the bytes of memory that a pod requests."""
    return pod.request("cpu"), pod.request("memory")


def pod_limits(pod: core.Pod) -> tuple[int, int]:
    """Return the limits of milli-CPUs and bytes of memory of a pod, each at least its request."""
    cpu, memory = pod_requests(pod)
    try:
        return max(cpu, _limit(pod, "cpu")), max(memory, _limit(pod, "memory"))
    except TruncatedPodError:
        return cpu, memory


def _limit(pod: core.Pod, resource: str) -> int:
    """Return the highest sum of the limits of containers that run at one time, and the overhead."""
    sidecars = most = 0
    for each in pod.init_containers:
        limit = each.limits.get(resource, 0)
        most = max(most, sidecars + limit)
        sidecars += limit if each.sidecar else 0
    running = sidecars + sum(each.limits.get(resource, 0) for each in pod.containers)
    return max(most, running) + pod.overhead.get(resource, 0)


def _cpu(args: NodeLoadArgs) -> str:
    if args.cpu_query is not None:
        return args.cpu_query
    idle = f'rate(node_cpu_seconds_total{{mode="idle"}}[{args.resolution}])'
    return f"100 * (1 - avg by ({args.node_label}) ({idle}))"


def _memory(args: NodeLoadArgs) -> str:
    if args.memory_query is not None:
        return args.memory_query
    free = "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
    return f"100 * (1 - max by ({args.node_label}) ({free}))"
