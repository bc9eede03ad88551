"""kubextend's Prometheus metrics: counters, histograms, and values that are read at a scrape.

The module that counts something declares the metric family beside its code, as a ``Family``, a
``HistogramFamily``, or a sequence of ``ScrapedCounter`` and ``ScrapedGauge``.
"""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from math import inf
from operator import mul
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

__all__ = [
    "Family",
    "Histogram",
    "HistogramFamily",
    "Metrics",
    "PluginRegistry",
    "ScrapedCounter",
    "ScrapedGauge",
    "exponential",
]

_LOGGER = logging.getLogger(__name__)
_MOST_WARNINGS: Final = 100
_OWN_PREFIXES: Final = ("kubextend_", "process_")

_T = TypeVar("_T")
Values: TypeAlias = float | Mapping[Any, float] | None
"""One number; value of the label, or a tuple of those of several -> number; None: no number yet."""


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the bounds that Go's ExponentialBuckets returns."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


@dataclass(frozen=True, slots=True)
class Family:
    """A family of counters, one for each combination of label values.

    Attributes:
        name: the name, without the ``_total`` that a scrape adds.
        text: the help text.
        labels: the names of the labels.
    """

    name: str
    text: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A family of histograms, one for each combination of label values.

    Attributes:
        name: the name of the family.
        text: the help text.
        bounds: the upper bounds of the buckets, ascending.
        labels: the names of the labels.
    """

    name: str
    text: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScrapedGauge(Generic[_T]):
    """A family of gauges whose numbers are read from their owner at every scrape.

    Attributes:
        name: the name of the family.
        text: the help text.
        read: returns the numbers, from what the owner returns at the scrape.
        labels: the names of the labels whose values ``read`` returns; ``Metrics.scrape`` may add
            further labels.
    """

    name: str
    text: str
    read: Callable[[_T], Values]
    labels: tuple[str, ...] = ()

    def empty(self, more_labels: Collection[str]) -> GaugeMetricFamily | CounterMetricFamily:
        """Return the family without numbers, with the labels of ``Metrics.scrape`` first."""
        return GaugeMetricFamily(self.name, self.text, labels=(*more_labels, *self.labels))


@dataclass(frozen=True, slots=True)
class ScrapedCounter(ScrapedGauge[_T]):
    """A family of counters that their owner keeps, and that are read at every scrape."""

    def empty(self, more_labels: Collection[str]) -> GaugeMetricFamily | CounterMetricFamily:
        """Return the family without numbers, with the labels of ``Metrics.scrape`` first."""
        return CounterMetricFamily(self.name, self.text, labels=(*more_labels, *self.labels))


class Histogram:
    """A histogram of numbers, at a fifth of the cost of prometheus_client's histogram.

    Args:
        bounds: the upper bounds of the buckets, ascending.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, amount: float) -> None:
        """Count an amount in its bucket. Any thread may call this method."""
        with self._lock:
            self._counts[bisect_left(self._bounds, amount)] += 1
            self._sum += amount

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return the buckets, cumulative as in Prometheus, and the sum of all counted amounts.

        A bucket is its upper bound as text and the number of amounts up to that bound; the last
        bound is ``+Inf``.
        """
        with self._lock:
            counts, total = list(self._counts), self._sum
        bounds: list[str] = [
            floatToGoString(bound)  # type: ignore[no-untyped-call]
            for bound in (*self._bounds, inf)
        ]
        return list(zip(bounds, accumulate(counts), strict=True)), total


class _HistogramCollector(Collector):
    """Collects the histograms of a family."""

    def __init__(self, family: HistogramFamily) -> None:
        self._family = family
        self._of: dict[tuple[str, ...], Histogram] = {}

    def of(self, *values: str) -> Histogram:
        """Return the histogram with these label values; the first call with them makes it."""
        found = self._of.get(values)
        return found or self._of.setdefault(values, Histogram(self._family.bounds))

    def collect(self) -> Iterator[Metric]:
        own = self._family
        family = HistogramMetricFamily(own.name, own.text, labels=own.labels)
        for values, histogram in list(self._of.items()):
            buckets, total = histogram.read()
            family.add_metric(values, buckets, total)
        yield family


class _ScrapeCollector(Collector):
    """Reads the families of all owners at a scrape; each owner is asked once for all of them."""

    def __init__(self) -> None:
        self._owners: dict[tuple[Any, ...], dict[tuple[str, ...], Callable[[], Any]]] = {}

    def add(
        self, families: Sequence[ScrapedGauge[_T]], read: Callable[[], _T], labels: dict[str, str]
    ) -> None:
        owners = self._owners.setdefault((tuple(labels), *families), {})
        owners[tuple(labels.values())] = read

    def collect(self) -> Iterator[Metric]:
        for (labels, *families), owners in list(self._owners.items()):
            answers = [(values, read()) for values, read in list(owners.items())]
            for each in families:
                family = each.empty(labels)
                for values, answer in answers:
                    numbers = each.read(answer)
                    if not isinstance(numbers, Mapping):
                        numbers = {} if numbers is None else {(): numbers}
                    for more, number in numbers.items():
                        own = (more,) if isinstance(more, str) else more
                        family.add_metric((*values, *own), number)
                yield family


class Metrics:
    """The metrics of one running kubextend, in a registry of their own.

    Attributes:
        registry: the registry of all metrics, also of plugins' own.
        plugin_registry: (plugin, profile) -> registry for the plugin's own metrics, to which every
            scrape adds the labels ``plugin`` and ``profile``.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        of_plugins = _PluginRegistries()
        self.registry.register(of_plugins)
        self.plugin_registry = of_plugins.of
        self._lock = threading.Lock()
        self._families: dict[str, Counter] = {}
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._histograms: dict[str, _HistogramCollector] = {}
        self._scraped = _ScrapeCollector()
        self.registry.register(self._scraped)

    def counter(self, family: Family, *values: str) -> Counter:
        """Return the counter of a family with these label values.

        The first call with a family adds the family to every scrape. Counters are cached, because
        prometheus_client takes as long to find a counter as to count.
        """
        key = (family.name, *values)
        found = self._counters.get(key)
        if found is None:
            with self._lock:
                if family.name not in self._families:
                    self._families[family.name] = Counter(
                        family.name, family.text, family.labels, registry=self.registry
                    )
                parent = self._families[family.name]
                found = self._counters[key] = parent.labels(*values) if values else parent
        return found

    def histogram(self, family: HistogramFamily, *values: str) -> Histogram:
        """Return the histogram of a family with these label values.

        The first call with a family adds the family to every scrape.
        """
        return self._collector(family).of(*values)

    def declare(self, *families: HistogramFamily) -> None:
        """Add families to every scrape from now on, before anything is observed."""
        for family in families:
            self._collector(family)

    def _collector(self, family: HistogramFamily) -> _HistogramCollector:
        found = self._histograms.get(family.name)
        if found is None:
            with self._lock:
                found = self._histograms.get(family.name)
                if found is None:
                    found = self._histograms[family.name] = _HistogramCollector(family)
                    self.registry.register(found)
        return found

    def scrape(
        self, families: Sequence[ScrapedGauge[_T]], read: Callable[[], _T], **labels: str
    ) -> None:
        """Read metric families from their owner at every scrape from now on.

        Args:
            families: the families.
            read: returns what the families read their numbers from; called once for each scrape,
                from any thread. A second call of this method with equal families and labels
                replaces ``read``.
            labels: labels of all numbers that are read from this owner.
        """
        self._scraped.add(families, read, labels)

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and the content type. Slow."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4


class PluginRegistry(CollectorRegistry):
    """The registry of one plugin instance; refuses the names of kubextend's own metrics."""

    def register(self, collector: Collector) -> None:
        """Add a metric, or a collector of metrics.

        Raises: ValueError: the name is used already, or begins as kubextend's own names do.
        """
        describe = getattr(collector, "describe", tuple)
        for family in describe():
            if family.name.startswith(_OWN_PREFIXES):
                message = f"{family.name}: names that begin with {_OWN_PREFIXES} are kubextend's"
                raise ValueError(message)
        super().register(collector)


class _PluginRegistries(Collector):
    """Collects the metrics of all plugin instances, with the labels ``plugin`` and ``profile``.

    Metrics of one name become one family. A plugin whose collector raises, or whose metric is of
    another type than an earlier plugin's metric of the same name, is left out and logged.
    """

    def __init__(self) -> None:
        # (plugin, profile) -> the registry of a plugin instance.
        self._registries: dict[tuple[str, str], PluginRegistry] = {}
        self._warned: set[str] = set()

    def of(self, plugin: str, profile: str) -> CollectorRegistry:
        """Return the registry of one plugin instance; the first call makes it.

        Args:
            plugin: the name of the plugin.
            profile: the name of the profile.
        """
        return self._registries.setdefault((plugin, profile), PluginRegistry())

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for (plugin, profile), registry in list(self._registries.items()):
            labels = {"plugin": plugin, "profile": profile}
            try:
                found = _writable(registry)
            except Exception as error:  # noqa: BLE001  a plugin's code
                self._warn(f"the metrics of plugin {plugin} cannot be collected: {error!r}")
                continue
            for family in found:
                merged = families.setdefault(
                    family.name,
                    Metric(family.name, family.documentation, family.type, family.unit),
                )
                if merged.type != family.type or family.name.startswith(_OWN_PREFIXES):
                    self._warn(f"the metric {family.name} of plugin {plugin} clashes with another")
                    continue
                merged.samples += [
                    sample._replace(labels={**sample.labels, **labels}) for sample in family.samples
                ]
        yield from (family for family in families.values() if family.samples)

    def _warn(self, message: str) -> None:
        """Log a warning, once for each text."""
        if message not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(message)
            _LOGGER.warning(message)


class _Families(NamedTuple):
    """Metric families that are collected already.

    Attributes:
        families: the families.
    """

    families: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.families


def _writable(registry: CollectorRegistry) -> list[Metric]:
    """Collect the metrics of a plugin, and check that they can be written as text.

    The page of all metrics would be lost with one value that cannot be written. The value of a
    label may come from a pod, so that it is escaped where UTF-8 cannot encode it.
    """
    found = list(registry.collect())
    for family in found:
        family.samples = [
            sample._replace(labels={key: _encodable(text) for key, text in sample.labels.items()})
            for sample in family.samples
        ]
    generate_latest(cast("CollectorRegistry", _Families(found)))
    return found


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
