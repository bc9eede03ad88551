"""NodeMetric: the latest numbers of a plugin's Prometheus query by node, with a maximum age."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kubextend.framework.handle import Handle
from kubextend.prometheus.args import PrometheusArgs
from kubextend.prometheus.promql_duration import seconds
from kubextend.prometheus.source import Query
from kubextend.prometheus.sources import Sources
from kubextend.prometheus.vector import NodeLabel, Vector

__all__ = ["NodeMetric"]

_NOTHING: Final = Vector(MappingProxyType({}))


class NodeMetric:
    """The numbers of one Prometheus query by node, refreshed between ``start`` and ``stop``.

    Args:
        args: the address, the intervals and the maximum age of the numbers.
        promql: the query in PromQL.
        handle: the plugin's Handle; plugins with equal queries share one ``Source``.
        plugin: the name of the plugin, for metrics.
    """

    def __init__(self, args: PrometheusArgs, promql: str, handle: Handle, plugin: str) -> None:
        self._time_to_live_s = seconds(args.time_to_live)
        query = Query(
            args.prometheus_address,
            promql,
            NodeLabel(args.node_label, args.node_pattern),
            interval_s=seconds(args.refresh_interval),
            timeout_s=seconds(args.timeout),
            bearer_token_file=args.bearer_token_file,
            ca_file=args.ca_file,
        )
        self._source = Sources.of(handle).source(query, plugin)

    def start(self) -> None:
        """Start querying Prometheus in the background, without waiting for the first response."""
        self._source.start()

    def stop(self) -> None:
        """Stop querying Prometheus; the last numbers are used until they are too old."""
        self._source.stop()

    def latest(self) -> Vector:
        """Return the last successful query's numbers by node, with their time; empty if too old."""
        return self._source.latest(self._time_to_live_s) or _NOTHING

    def by_node(self) -> Mapping[str, float]:
        """Return the last successful query's number of each node by name; empty if too old."""
        return self.latest().by_node
