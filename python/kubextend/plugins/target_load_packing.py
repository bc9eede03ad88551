"""TargetLoadPacking: fill nodes up to a target of CPU use, then spread.

Source: kubernetes-sigs/scheduler-plugins pkg/trimaran/targetloadpacking
"""

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.prometheus import NodeMetric, PrometheusArgs, rounded
from kubextend.prometheus.args import Duration

__all__ = ["DefaultRequests", "TargetLoadPacking", "TargetLoadPackingArgs"]

_MAX_NODE_SCORE = 100
_MIN_NODE_SCORE = 0
_PERCENT = 100.0
_REPORTING_INTERVAL_S = 60
_MILLI = 1000
_CPU = re.compile(r"([0-9]{1,9})(m?)", re.ASCII)


def _cpu(text: str) -> str:
    if _CPU.fullmatch(text) is None:
        message = f"{text!r} is no amount of CPU: write whole CPUs as 2, or milli-CPUs as 500m"
        raise ValueError(message)
    return text


class DefaultRequests(BaseModel):
    """What a container is taken to use that names neither a request nor a limit.

    Attributes:
        cpu: in CPUs, or in milli-CPUs with an m behind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Annotated[str, AfterValidator(_cpu)] = "1000m"


class TargetLoadPackingArgs(PrometheusArgs):
    """The target, and what pods are expected to use.

    Attributes:
        target_utilization: percent of a node's CPU at which its score is best.
        default_requests_multiplier: what a container without a limit uses of its request.
        default_requests: for a container without either.
        time_range: over which use is averaged.
        query: PromQL that yields the percentage of each node's CPU in use, in place of that of
            node_exporter.
    """

    target_utilization: int = Field(default=40, gt=0, le=100)
    default_requests_multiplier: float = Field(default=1.5, ge=1, le=1000, allow_inf_nan=False)
    default_requests: DefaultRequests = DefaultRequests()
    time_range: Duration = "5m"
    query: str | None = Field(default=None, min_length=1)
    fallback_score: int = Field(default=0, ge=0, le=100)


class TargetLoadPacking:
    """Scores nodes by the CPU use that is to be expected with the pod.

    That is what Prometheus measured, what the pod is predicted to use, and the same for pods that
    came too late to be in the measurement. With no measurement a node gets the fallback score: 0,
    as upstream.

    ``capacity`` is here what the node lets pods have, as the core reads ``status.allocatable``.
    """

    name = "TargetLoadPacking"
    Args = TargetLoadPackingArgs
    needs_pods = True

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._default_milli = _milli(args.default_requests.cpu)
        self._metric = NodeMetric(args, utilization_query(args), handle, self.name)

    def start(self) -> None:
        """Prometheus is asked from now on."""
        self._metric.start()

    def stop(self) -> None:
        """Prometheus is asked no more."""
        self._metric.stop()

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """0..100, best at the target."""
        del state
        measured = self._metric.latest()
        pods = self._handle.pods()
        since = _reporting_since(measured.evaluated_at)
        # The measurement cannot know pods that are bound and did not start, or started lately.
        late = {} if pods is None else pods.started_after(nodes, since)
        of_pod = self.predicted_milli(pod)
        scores = []
        capacities = nodes.allocatable("cpu")
        for row, (node, capacity) in enumerate(zip(nodes.names, capacities, strict=True)):
            percent = measured.by_node.get(node, -1.0)
            if percent < 0 or capacity <= 0:
                scores.append(self._args.fallback_score)
                continue
            added = of_pod + sum(map(self.predicted_milli, late.get(row, ())))
            used = percent / _PERCENT * capacity
            expected = _PERCENT * (used + added) / capacity
            scores.append(target_score(expected, self._args.target_utilization))
        return scores

    def predicted_milli(self, pod: core.Pod) -> int:
        """The CPU that a pod is expected to use."""
        return sum(map(self._of_container, pod.containers)) + pod.overhead.get("cpu", 0)

    def _of_container(self, container: core.Container) -> int:
        limit = container.limits.get("cpu")
        if limit is not None:
            return limit
        request = container.requests.get("cpu")
        if request is not None:
            return rounded(request * self._args.default_requests_multiplier)
        return self._default_milli


def target_score(expected: float, target: int) -> int:
    """The score of a node whose CPU will be in use to so many percent."""
    if expected > _PERCENT:
        return _MIN_NODE_SCORE
    if expected > target:
        return rounded(target * (_PERCENT - expected) / (_PERCENT - target))
    return rounded((_MAX_NODE_SCORE - target) * expected / target + target)


def utilization_query(args: TargetLoadPackingArgs) -> str:
    """Percent of CPU in use by node, in one query for all nodes."""
    if args.query is not None:
        return args.query
    idle = f'rate(node_cpu_seconds_total{{mode="idle"}}[{args.time_range}])'
    # An idle CPU may be counted as idle for a little longer than there was time.
    return f"clamp_min(100 * (1 - avg by ({args.node_label}) ({idle})), 0)"


def _reporting_since(evaluated_at: float | None) -> str:
    """As a pod's startTime is written, so that one can be compared with the other as text."""
    window_end = int(evaluated_at or 0)
    try:
        since = datetime.fromtimestamp(window_end - _REPORTING_INTERVAL_S, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return since.strftime("%Y-%m-%dT%H:%M:%SZ")


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * _MILLI
