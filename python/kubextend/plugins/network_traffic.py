"""NetworkTraffic: the less a node's network carries, the better."""

import json
from collections.abc import Mapping, Sequence
from itertools import repeat

from pydantic import Field

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.prometheus import NodeMetric, PrometheusArgs, Vector, rounded
from kubextend.prometheus.args import Duration

__all__ = ["NetworkTraffic", "NetworkTrafficArgs"]

_MAX_NODE_SCORE = 100
_UNKNOWN = -1
# No link carries as much; what says so is broken, and the score must stay an int64.
_MOST_BYTES_PER_S = 2.0**62


class NetworkTrafficArgs(PrometheusArgs):
    """Which traffic is looked at.

    Attributes:
        network_interface: a regular expression, as PromQL has it, for the whole name of the
            network device; the devices that match are added up.
        time_range: over which the rate is taken; at least two scrapes long, better four.
    """

    network_interface: str = Field(min_length=1)
    time_range: Duration = "5m"


class NetworkTraffic:
    """Scores nodes by the bytes that they receive and transmit a second, as node_exporter counts.

    The score is that of the known NetworkTraffic tutorials, 100 - traffic * 100 / highest, on the
    traffic of now instead of the sum of a counter. With no traffic at all every node gets 100. A
    node without a believable number gets the fallback score.
    """

    name = "NetworkTraffic"
    Args = NetworkTrafficArgs

    def __init__(self, args: NetworkTrafficArgs, handle: Handle) -> None:
        self._fallback_score = args.fallback_score
        self._metric = NodeMetric(args, traffic_query(args), handle, self.name)
        self._seen: tuple[Vector, Mapping[str, int]] = (Vector({}), {})

    def start(self) -> None:
        """Prometheus is asked from now on."""
        self._metric.start()

    def stop(self) -> None:
        """Prometheus is asked no more."""
        self._metric.stop()

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Bytes a second of every node, -1 where they are not known."""
        del state, pod
        return list(map(self._traffic().get, nodes.names, repeat(_UNKNOWN)))

    def normalize_score(
        self, state: CycleState, pod: core.Pod, scores: Sequence[int] | memoryview
    ) -> list[int]:
        """100 for no traffic, 0 for the highest among these nodes."""
        del state, pod
        highest = max(max(scores, default=0), 1)
        return [
            self._fallback_score if score < 0 else _MAX_NODE_SCORE - score * 100 // highest
            for score in scores
        ]

    def _traffic(self) -> Mapping[str, int]:
        """Whole numbers, made once of each answer and not in every verb."""
        seen = self._seen
        answer = self._metric.latest()
        if seen[0] is not answer:
            seen = self._seen = (answer, _whole(answer.by_node))
        return seen[1]


def _whole(traffic: Mapping[str, float]) -> dict[str, int]:
    return {
        node: rounded(value) for node, value in traffic.items() if 0 <= value <= _MOST_BYTES_PER_S
    }


def traffic_query(args: NetworkTrafficArgs) -> str:
    """Received and transmitted bytes a second by node, in one query for all nodes."""
    device = f"device=~{json.dumps(args.network_interface, ensure_ascii=False)}"
    received, transmitted = (
        f"rate(node_network_{direction}_bytes_total{{{device}}}[{args.time_range}])"
        for direction in ("receive", "transmit")
    )
    return f"sum by ({args.node_label}) ({received} + {transmitted})"
