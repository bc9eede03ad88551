"""The numbers of a plugin's query, for as long as they are believed."""

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
    """One query's numbers by node, refreshed between ``start`` and ``stop``.

    Args:
        args: where to query, and how long to believe the numbers.
        promql: the query.
        handle: the plugin's Handle; its plugins share sources.
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
        """Begin to refresh the numbers; returns at once."""
        self._source.start()

    def stop(self) -> None:
        """Stop refreshing; the last numbers stay until they are too old."""
        self._source.stop()

    def latest(self) -> Vector:
        """Return the numbers that are believed now; none where the last good answer is too old."""
        return self._source.latest(self._time_to_live_s) or _NOTHING

    def by_node(self) -> Mapping[str, float]:
        """Return the numbers that are believed now, without the time of their evaluation."""
        return self.latest().by_node
