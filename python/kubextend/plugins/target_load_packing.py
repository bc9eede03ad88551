"""TargetLoadPacking: fills nodes up to a target of CPU use, then spreads pods over the nodes.

Source: kubernetes-sigs/scheduler-plugins pkg/trimaran/targetloadpacking
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kubextend import core
from kubextend.errors import TruncatedPodError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.plugins.measured import Measured
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
    """The assumed CPU use of a container that has neither a request nor a limit.

    Attributes:
        cpu: whole CPUs such as ``2``, or milli-CPUs such as ``500m``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Annotated[str, AfterValidator(_cpu)] = "1000m"


class TargetLoadPackingArgs(PrometheusArgs):
    """Arguments of TargetLoadPacking: the target of CPU use, and the expected CPU use of pods.

    Attributes:
        target_utilization: percent of a node's CPU in use at which the node's score is best.
        default_requests_multiplier: the expected CPU use of a container without a limit, as a
            multiple of its request.
        default_requests: the expected CPU use of a container without request and limit.
        time_range: the time over which the CPU use is averaged.
        query: PromQL that yields the percentage of each node's CPU in use, instead of the query for
            node_exporter.
        fallback_score: the score 0..100 of a node without a measurement.
    """

    target_utilization: int = Field(default=40, gt=0, le=100)
    default_requests_multiplier: float = Field(default=1.5, ge=1, le=1000, allow_inf_nan=False)
    default_requests: DefaultRequests = DefaultRequests()
    time_range: Duration = "5m"
    query: str | None = Field(default=None, min_length=1)
    fallback_score: int = Field(default=0, ge=0, le=100)


class TargetLoadPacking(Measured):
    """Scores nodes by the CPU use that is expected once the pod runs on the node.

    The expected use is the sum of the node's use that Prometheus measured, the predicted use of the
    pod, and the predicted use of the node's pods that the measurement lacks: those that started
    later than 60 s before the measurement or have not started. A node without a measurement gets
    the fallback score: 0 by default, as in kubernetes-sigs/scheduler-plugins.

    A node's capacity is its allocatable CPU, from ``status.allocatable``.
    """

    name = "TargetLoadPacking"
    Args = TargetLoadPackingArgs
    needs_pods = True

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._default_milli = _milli(args.default_requests.cpu)
        self._metric = NodeMetric(args, utilization_query(args), handle, self.name)
        # By UID, the generation and the predicted use of the pods that the last measurement lacks.
        self._seen: dict[str, tuple[int, int]] = {}

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return a score 0..100 for each node, highest where the expected CPU use is the target."""
        del state
        measured = self._metric.latest()
        pods = self._handle.pods()
        since = _reporting_since(measured.evaluated_at)
        # The measurement lacks pods that are bound and did not start, or started lately.
        late = {} if pods is None else pods.started_after(nodes, since)
        of_pod = self.predicted_milli(pod)
        of_late = self._predicted(late)
        scores = []
        capacities = nodes.allocatable("cpu")
        for row, (node, capacity) in enumerate(zip(nodes.names, capacities, strict=True)):
            percent = measured.by_node.get(node, -1.0)
            if percent < 0 or capacity <= 0:
                scores.append(self._args.fallback_score)
                continue
            added = of_pod + of_late.get(row, 0)
            used = percent / _PERCENT * capacity
            expected = _PERCENT * (used + added) / capacity
            scores.append(target_score(expected, self._args.target_utilization))
        return scores

    def _predicted(self, late: Mapping[int, Sequence[core.Pod]]) -> dict[int, int]:
        """Return the milli-CPUs that the pods of each row are expected to use together.

        A pod may have thousands of containers, so each pod is looked at once, and again after a
        change of its spec.
        """
        known, seen = self._seen, dict[str, tuple[int, int]]()
        sums: dict[int, int] = {}
        for row, pods in late.items():
            for pod in pods:
                uid, generation = pod.uid, pod.generation
                kept = known.get(uid)
                if kept is None or kept[0] != generation:
                    kept = (generation, self.predicted_milli(pod))
                seen[uid] = kept
                sums[row] = sums.get(row, 0) + kept[1]
        self._seen = seen
        return sums

    def predicted_milli(self, pod: core.Pod) -> int:
        """Return the milli-CPUs that a pod is expected to use.

        The result is the sum over the pod's containers, its sidecars and its overhead, or the pod's
        CPU request if the pod store does not keep the containers because they are too large.
        """
        try:
            sidecars = [each for each in pod.init_containers if each.sidecar]
            running = sum(map(self._of_container, [*pod.containers, *sidecars]))
            return running + pod.overhead.get("cpu", 0)
        except TruncatedPodError:
            return pod.request("cpu")

    def _of_container(self, container: core.Container) -> int:
        limit = container.limits.get("cpu")
        if limit is not None:
            return limit
        request = container.requests.get("cpu")
        if request is not None:
            return rounded(request * self._args.default_requests_multiplier)
        return self._default_milli


def target_score(expected: float, target: int) -> int:
    """Return the score 0..100 of a node, from its expected CPU use and the target, in percent."""
    if expected > _PERCENT:
        return _MIN_NODE_SCORE
    if expected > target:
        return rounded(target * (_PERCENT - expected) / (_PERCENT - target))
    return rounded((_MAX_NODE_SCORE - target) * expected / target + target)


def utilization_query(args: TargetLoadPackingArgs) -> str:
    """Return the PromQL query for the percentage of each node's CPU in use."""
    if args.query is not None:
        return args.query
    idle = f'rate(node_cpu_seconds_total{{mode="idle"}}[{args.time_range}])'
    # An idle CPU may count as idle for a little longer than the range.
    return f"clamp_min(100 * (1 - avg by ({args.node_label}) ({idle})), 0)"


def _reporting_since(evaluated_at: float | None) -> str:
    """Return the time 60 s before a measurement, in the format of a pod's status.startTime.

    Pods that started later may be missing in the measurement.

    Args:
        evaluated_at: when Prometheus measured, in seconds of Unix time; None counts as 0.

    Returns: the text, such as ``2030-01-01T00:00:00Z``; empty if the time is out of range.
    """
    window_end = int(evaluated_at or 0)
    try:
        since = datetime.fromtimestamp(window_end - _REPORTING_INTERVAL_S, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return since.strftime("%Y-%m-%dT%H:%M:%SZ")


def _milli(cpu: str) -> int:
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * _MILLI
