"""What a plugin holds: its query's numbers for as long as they are believed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kubextend.framework.handle import Handle
from kubextend.prometheus.args import PrometheusArgs
from kubextend.prometheus.duration import seconds
from kubextend.prometheus.source import Query
from kubextend.prometheus.sources import Sources
from kubextend.prometheus.vector import NodeLabel, Vector

__all__ = ["NodeMetric"]

_NOTHING: Final = Vector(MappingProxyType({}))


class NodeMetric:
    """One query's numbers by node, refreshed between ``start`` and ``stop``.

    Args:
        args: whom to ask, and how long to believe it.
        promql: what to ask.
        handle: of the plugin; its plugins share sources.
        plugin: its name, for metrics.
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
        """Numbers come in from now on; returns at once."""
        self._source.start()

    def stop(self) -> None:
        """No more numbers come in; the last ones stay until they are too old."""
        self._source.stop()

    def latest(self) -> Vector:
        """The numbers that are believed now; none where the last good answer is too old."""
        return self._source.latest(self._time_to_live_s) or _NOTHING

    def by_node(self) -> Mapping[str, float]:
        """The same without the moment that they are of."""
        return self.latest().by_node
