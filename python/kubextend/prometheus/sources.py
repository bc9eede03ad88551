"""All ``Source`` objects of a process, one for each Prometheus query, and their metrics."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kubextend.framework.handle import Handle
from kubextend.prometheus.source import Query, Source
from kubextend.prometheus.vector import DROPPED

__all__ = ["Sources"]

_PREFIX = "kubextend_prometheus_"


class Sources(Collector):
    """Gives plugins with equal queries one common ``Source`` of Prometheus results.

    Args:
        registry: the registry for the metrics of the sources; None: no metrics.
        make: makes the source of a query.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        make: Callable[[Query], Source] = Source,
    ) -> None:
        self._make = make
        self._sources: dict[Query, tuple[str, Source]] = {}
        if registry is not None:
            registry.register(self)

    @classmethod
    def of(cls, handle: Handle) -> "Sources":
        """Return the one ``Sources`` that all plugins share through their Handles."""
        return handle.shared(cls, lambda: cls(handle.common_metrics))

    def source(self, query: Query, plugin: str) -> Source:
        """Return the ``Source`` of a query; the first call with the query makes the ``Source``.

        Args:
            query: the query.
            plugin: the name of the plugin that asks; labels the metrics of a new source.
        """
        if query not in self._sources:
            self._sources[query] = (self._new_name(plugin), self._make(query))
        return self._sources[query][1]

    def __iter__(self) -> Iterator[tuple[str, Source]]:
        """Yield the name and the ``Source`` of each query."""
        return iter(list(self._sources.values()))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all sources; prometheus_client calls this method at each scrape."""
        by = ["source"]
        info = GaugeMetricFamily(
            _PREFIX + "source_info", "Query of a source.", labels=["source", "address", "query"]
        )
        age = GaugeMetricFamily(
            _PREFIX + "answer_age_seconds", "Since the last successful query was sent.", labels=by
        )
        nodes = GaugeMetricFamily(
            _PREFIX + "nodes", "Nodes with a number in the last successful query.", labels=by
        )
        refreshes = CounterMetricFamily(
            _PREFIX + "refreshes", "Queries by how they ended: ok, failed.", labels=[*by, "result"]
        )
        dropped = CounterMetricFamily(
            _PREFIX + "dropped_series", "Series left out, by reason.", labels=[*by, "reason"]
        )
        # A plugin may be made while a scrape is under way.
        for name, source in list(self._sources.values()):
            info.add_metric([name, source.query.address, source.query.promql], 1)
            if (age_s := source.age_s()) is not None:
                age.add_metric([name], age_s)
            nodes.add_metric([name], source.nodes())
            for result, count in source.refreshes.items():
                refreshes.add_metric([name, result], count)
            for reason in DROPPED:
                dropped.add_metric([name, reason], source.dropped[reason])
        yield from (info, age, nodes, refreshes, dropped)

    def _new_name(self, plugin: str) -> str:
        taken = {name for name, _ in self._sources.values()}
        names = (plugin, *(f"{plugin}-{count}" for count in range(2, len(taken) + 2)))
        return next(name for name in names if name not in taken)
