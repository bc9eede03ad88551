"""NetworkTraffic: a node with less network traffic has a higher score."""

import json
from collections.abc import Mapping, Sequence
from itertools import repeat

from pydantic import Field

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.plugins.measured import Measured
from kubextend.prometheus import NodeMetric, PrometheusArgs, Vector, rounded
from kubextend.prometheus.args import Duration

__all__ = ["NetworkTraffic", "NetworkTrafficArgs"]

_MAX_NODE_SCORE = 100
_UNKNOWN = -1
# No network link carries more: a larger number is wrong, and a score must fit into an int64.
_MOST_BYTES_PER_S = 2.0**62


class NetworkTrafficArgs(PrometheusArgs):
    """Arguments of NetworkTraffic: network devices, and the time over which traffic is averaged.

    Attributes:
        network_interface: a PromQL regular expression for the whole name of the network device; the
            traffic of matching devices is added up.
        time_range: the range of PromQL's ``rate``; at least two scrape intervals, better four.
    """

    network_interface: str = Field(min_length=1)
    time_range: Duration = "5m"


class NetworkTraffic(Measured):
    """Scores nodes by the bytes that they receive and send a second, counted by node_exporter.

    The score of a node is 100 - traffic * 100 / highest traffic, as in tutorials about a plugin of
    this name for kube-scheduler, but with the present traffic instead of the sum of a counter. With
    no traffic at all every node gets 100. A node for which Prometheus has no number, or a number
    below 0 or above 2**62, gets the fallback score of the arguments.
    """

    name = "NetworkTraffic"
    Args = NetworkTrafficArgs

    def __init__(self, args: NetworkTrafficArgs, handle: Handle) -> None:
        self._fallback_score = args.fallback_score
        self._metric = NodeMetric(args, traffic_query(args), handle, self.name)
        self._seen: tuple[Vector, Mapping[str, int]] = (Vector({}), {})

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return each node's traffic in bytes a second, in the order of ``nodes``; -1: unknown."""
        del state, pod
        return list(map(self._traffic().get, nodes.names, repeat(_UNKNOWN)))

    def normalize_score(
        self, state: CycleState, pod: core.Pod, scores: Sequence[int] | memoryview
    ) -> list[int]:
        """Return scores 0..100: 100 for no traffic, 0 for the highest traffic among the nodes.

        A node with unknown traffic, -1, gets the fallback score of the arguments.
        """
        del state, pod
        highest = max(max(scores, default=0), 1)
        return [
            self._fallback_score if score < 0 else _MAX_NODE_SCORE - score * 100 // highest
            for score in scores
        ]

    def _traffic(self) -> Mapping[str, int]:
        """Return the traffic by node name in whole bytes a second, as Prometheus last answered."""
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
    """Return the PromQL query for the bytes a second that each node receives and sends, summed."""
    device = f"device=~{json.dumps(args.network_interface, ensure_ascii=False)}"
    received, transmitted = (
        f"rate(node_network_{direction}_bytes_total{{{device}}}[{args.time_range}])"
        for direction in ("receive", "transmit")
    )
    return f"sum by ({args.node_label}) ({received} + {transmitted})"
