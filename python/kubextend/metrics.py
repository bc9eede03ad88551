"""kubextend's Prometheus metrics: counters, histograms, and values that are read at a scrape."""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from math import inf
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
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
    "Histogram",
    "Metrics",
    "NodeStoreStats",
    "ObjectStats",
    "PluginHealth",
    "Reflector",
    "ReflectorStats",
    "Snapshot",
    "WriteStats",
]

_LOGGER = logging.getLogger(__name__)
_MOST_WARNINGS = 100
_OWN_PREFIXES = ("kubextend_", "process_")

_MILLISECOND = 0.001
# kube-scheduler's scheduling_algorithm_duration_seconds has ExponentialBuckets(0.001, 2, 15)
# (kubernetes v1.36 pkg/scheduler/metrics/metrics.go). Five more buckets halve the millisecond,
# because most answers of a names-mode verb take less.
_VERB_SECONDS = tuple(_MILLISECOND * 2.0**power for power in range(-5, 15))
_NODES = (1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 50_000, 100_000)
_WAIT_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 14_400, 86_400)
_BODY_BYTES = tuple(1024.0 * 4.0**power for power in range(11))


class NodeStoreStats(Protocol):
    """The statistics of a store of nodes; ``core.NodeStoreStats`` implements this interface."""

    @property
    def nodes(self) -> int:
        """The number of nodes in the store."""

    @property
    def bytes(self) -> int:
        """How many bytes of node objects the store holds."""

    @property
    def hits(self) -> int:
        """How many nodes of requests the store knew by their bytes or names since the start."""

    @property
    def misses(self) -> int:
        """How many nodes of requests the store did not know since the start."""


class Snapshot(Protocol):
    """How recent the watched nodes or pods are; ``cluster.Reflector`` implements this interface."""

    @property
    def synced(self) -> bool:
        """Whether the store of nodes or pods has taken in a complete list of the Kubernetes API."""

    def age_s(self) -> float | None:
        """Return the seconds since the API last sent a page of a list or an event, or None."""


class ReflectorStats(Protocol):
    """Counts of lists and watches, as in ``cluster.reflector.ReflectorStats``."""

    @property
    def lists(self) -> int:
        """How many lists of nodes or pods the reflector began since the start."""

    @property
    def watches(self) -> int:
        """How many watches the reflector began since the start; each lasts less than a minute."""

    @property
    def events(self) -> int:
        """How many watch events the reflector's store has applied since the start."""

    @property
    def failures(self) -> int:
        """How many of the reflector's lists and watches ended in an error since the start."""


class Reflector(Snapshot, Protocol):
    """A reflector with its counts; ``cluster.Reflector`` implements this interface."""

    @property
    def stats(self) -> ReflectorStats:
        """The counts of the reflector since the start."""


class WriteStats(Protocol):
    """Counts of a queue of Kubernetes API calls; ``cluster.write_queue.WriteStats`` has them."""

    @property
    def sent(self) -> int:
        """How many of the queue's calls the Kubernetes API accepted."""

    @property
    def gone(self) -> int:
        """How many of the queue's calls were about a pod that no longer exists."""

    @property
    def failed(self) -> int:
        """How many of the queue's calls failed and were not sent again."""

    @property
    def dropped(self) -> int:
        """How many calls were dropped because the queue was full or a pod's name was not valid."""


class ObjectStats(Protocol):
    """How much an informer holds; ``cluster.object_store.ObjectStats`` implements this."""

    @property
    def objects(self) -> int:
        """The number of objects."""

    @property
    def bytes(self) -> int:
        """The bytes of the objects' JSON."""


class PluginHealth(Protocol):
    """The health of a plugin; ``profile.breaker.PluginHealth`` implements this interface."""

    @property
    def open(self) -> bool:
        """Whether the circuit breaker is open: the plugin gets no call but single probes."""

    @property
    def stuck_threads(self) -> int:
        """How many calls of the plugin hung, were abandoned, and have not returned."""


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
    """A metric family of histograms, one for each combination of label values.

    Args:
        name: the name of the metric family.
        text: the help text of the family.
        bounds: the upper bounds of the buckets, ascending.
        labels: the names of the labels.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float], *labels: str) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._labels = labels
        self._of: dict[tuple[str, ...], Histogram] = {}

    def of(self, *values: str) -> Histogram:
        """Return the histogram with these label values; the first call with them makes it."""
        found = self._of.get(values)
        return found or self._of.setdefault(values, Histogram(self._bounds))

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, histogram in list(self._of.items()):
            buckets, total = histogram.read()
            family.add_metric(values, buckets, total)
        yield family


class Metrics:
    """The metrics of one running kubextend, in a registry of their own.

    Counters with bound labels are cached: ``labels()`` costs as much as the increment.

    Attributes:
        registry: the registry of all metrics, also of plugins' own.
        duration: verb -> histogram of the seconds from the whole body to the ready response.
        nodes: verb -> histogram of the number of nodes in a call.
        body_bytes: verb -> histogram of the number of bytes of a request's body.
        requests: (verb, result of the call) -> counter of calls.
        refused: HTTP status -> counter of requests with a response other than 200.
        plugin_failures: (plugin, extension point) -> counter of failed calls.
        plugin_calls_refused: plugin -> counter of calls that its open breaker prevented.
        queue_wait: histogram of the seconds from a pod's creation until its gate was removed.
        queue_releases: result -> counter of pods whose scheduling gate was to be removed.
        plugin_registry: (plugin, profile) -> registry for the plugin's own metrics, to which every
            scrape adds the labels ``plugin`` and ``profile``.
        next_plugin_registry: (plugin, profile) -> registry for a plugin of a changed configuration,
            which no scrape collects yet.
        replace_plugin_registries: makes scrapes collect such registries, in place of others.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._stores = _StoreCollector()
        self.registry.register(self._stores)
        self._reflectors = _ReflectorCollector()
        self.registry.register(self._reflectors)
        self._informers = _InformerCollector()
        self.registry.register(self._informers)
        self._of_plugins = _PluginRegistries()
        self.registry.register(self._of_plugins)
        self.plugin_registry = self._of_plugins.of
        self.next_plugin_registry = self._of_plugins.next_of
        self.replace_plugin_registries = self._of_plugins.replace
        self._requests = Counter(
            "kubextend_verb_requests",
            "Verb calls by how they ended: ok, error (answered with Error), unknown_scheduler (no "
            "profile is for the pod), bad_request, failed.",
            ("verb", "result"),
            registry=self.registry,
        )
        self.duration = self._by_verb(
            "kubextend_verb_duration_seconds",
            "From the whole body read to the answer ready.",
            _VERB_SECONDS,
        )
        self.nodes = self._by_verb("kubextend_verb_nodes", "Nodes in a verb call.", _NODES)
        self.body_bytes = self._by_verb(
            "kubextend_request_body_bytes", "Bytes of a request body.", _BODY_BYTES
        )
        self._refused = Counter(
            "kubextend_requests_refused",
            "Requests answered with a status other than 200, by that status.",
            ("status",),
            registry=self.registry,
        )
        self._reloads = Counter(
            "kubextend_configuration_reloads",
            "Changes of the configuration file, by whether kubextend uses the new file.",
            ("result",),
            registry=self.registry,
        )
        self._plugin_failures = Counter(
            "kubextend_plugin_failures",
            "Calls of a plugin that raised or answered what it may not.",
            ("plugin", "extension_point"),
            registry=self.registry,
        )
        self._plugin_calls_refused = Counter(
            "kubextend_plugin_calls_refused",
            "Calls of a plugin that were not made, because its breaker was open.",
            ("plugin",),
            registry=self.registry,
        )
        self._waiting_pod_requests = Counter(
            "kubextend_waiting_pod_requests",
            "Requests about waiting pods that did what they asked for: list, allow, reject.",
            ("action",),
            registry=self.registry,
        )
        self.pods_woken = Counter(
            "kubextend_pods_woken",
            "Rejected pods that a later node change would let pass, and that were activated.",
            registry=self.registry,
        )
        self.guard_refusals = Counter(
            "kubextend_guard_refusals",
            "Bindings that the guard prevented: the node had no room, or nobody could tell.",
            registry=self.registry,
        )
        self.group_members = Gauge(
            "kubextend_pod_group_members",
            "Members of pod groups that filter was called for and whose places are remembered.",
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "kubextend_requests_in_flight_bytes",
            "Bytes that requests hold which are not yet answered to their end.",
            registry=self.registry,
        )
        self._certificate_reloads = Counter(
            "kubextend_certificate_reloads",
            "TLS files that were found changed, by whether they could be used: ok, error.",
            ("result",),
            registry=self.registry,
        )
        self.certificate_not_after = Gauge(
            "kubextend_certificate_not_after_seconds",
            "When the certificate of the verbs' listener ends, in seconds of Unix time; 0 without.",
            registry=self.registry,
        )
        self.failed_handshakes = Counter(
            "kubextend_tls_handshakes_failed",
            "Connections that ended because their TLS handshake failed.",
            registry=self.registry,
        )
        self._connections_refused = Counter(
            "kubextend_connections_refused",
            "Connections that were closed at once, as their listener had as many as it may.",
            ("listener",),
            registry=self.registry,
        )
        self.queue_wait = self._histograms(
            "kubextend_queue_wait_seconds",
            "From a pod's creation until its gate was taken off.",
            _WAIT_SECONDS,
        ).of()
        self._queue_releases = Counter(
            "kubextend_queue_releases",
            "Pods whose gate was to be taken off, by what became of them: released, gone, refused.",
            ("result",),
            registry=self.registry,
        )
        self.queue_releases: Callable[[str], Counter] = cache(self._queue_releases.labels)
        self.requests: Callable[[str, str], Counter] = cache(self._requests.labels)
        self.refused: Callable[[str], Counter] = cache(self._refused.labels)
        self.reloads: Callable[[str], Counter] = cache(self._reloads.labels)
        self.waiting_pod_requests: Callable[[str], Counter] = cache(
            self._waiting_pod_requests.labels
        )
        self.connections_refused: Callable[[str], Counter] = cache(self._connections_refused.labels)
        self.plugin_failures: Callable[[str, str], Counter] = cache(self._plugin_failures.labels)
        self.plugin_calls_refused: Callable[[str], Counter] = cache(
            self._plugin_calls_refused.labels
        )

    def _by_verb(self, name: str, text: str, bounds: Sequence[float]) -> Callable[[str], Histogram]:
        return self._histograms(name, text, bounds, "verb").of

    def _histograms(
        self, name: str, text: str, bounds: Sequence[float], *labels: str
    ) -> _HistogramCollector:
        histograms = _HistogramCollector(name, text, bounds, *labels)
        self.registry.register(histograms)
        return histograms

    def certificate_reload(self, loaded: bool) -> None:
        """Count a change of the server's certificate files.

        Args:
            loaded: whether the changed files could be loaded.
        """
        self._certificate_reloads.labels("ok" if loaded else "error").inc()

    def watch_store(self, store: str, stats: Callable[[], NodeStoreStats]) -> None:
        """Add the node, byte, hit and miss counts of a node store to every scrape.

        Args:
            store: the label of the store, ``watched`` or ``request``.
            stats: returns the statistics; called at every scrape, from any thread.
        """
        self._stores.add(store, stats)

    def watch_snapshot(self, snapshot: Snapshot) -> None:
        """Add to every scrape whether the watched nodes are listed, and the age of their data."""
        self.registry.register(_SnapshotCollector(snapshot))

    def watch_reflector(self, resource: str, reflector: Reflector) -> None:
        """Add the lists, watches, events, failures and age of a reflector to every scrape.

        Args:
            resource: the label of the reflector, ``nodes`` or ``pods``.
            reflector: read at every scrape, from any thread.
        """
        self._reflectors.add(resource, reflector)

    def watch_informer(self, resource: str, stats: Callable[[], ObjectStats]) -> None:
        """Add the number of an informer's objects and their bytes to every scrape.

        Args:
            resource: the label of the informer.
            stats: returns the numbers; called at every scrape, from any thread.
        """
        self._informers.add(resource, stats)

    def watch_activations(self, stats: Callable[[], WriteStats]) -> None:
        """Add to every scrape the counts of patches that make kube-scheduler retry pods, by result.

        Args:
            stats: returns the counts; called at every scrape, from any thread.
        """
        text = "Wake-ups of pods: sent, gone (with their pod), failed, dropped (never tried)."
        self.registry.register(_WriteCollector("kubextend_activations", text, stats))

    def watch_events(self, stats: Callable[[], WriteStats]) -> None:
        """Add to every scrape how many Events about pods were sent, failed or dropped.

        Args:
            stats: returns the counts; called at every scrape, from any thread.
        """
        text = "Events about pods: sent, gone (with their pod), failed, dropped (never tried)."
        self.registry.register(_WriteCollector("kubextend_held_pod_events", text, stats))

    def watch_leader(self, leads: Callable[[], bool]) -> None:
        """Add to every scrape whether this replica is the one that decides.

        Args:
            leads: returns whether it is; called at every scrape, from any thread.
        """
        text = "1 while this replica leads: it alone decides where plugins keep state."
        Gauge("kubextend_leader", text, registry=self.registry).set_function(leads)

    def watch_waiting_pods(self, count: Callable[[], int]) -> None:
        """Add to every scrape how many pods Permit plugins hold.

        Args:
            count: returns the number of held pods; called at every scrape, from any thread.
        """
        gauge = Gauge("kubextend_waiting_pods", "Pods that Permit holds.", registry=self.registry)
        gauge.set_function(count)

    def watch_plugins(self, health: Callable[[], Mapping[str, PluginHealth]]) -> None:
        """Add each plugin's circuit breaker and its number of stuck threads to every scrape.

        Args:
            health: returns name of a plugin -> health; called at every scrape, from any thread.
        """
        self.registry.register(_PluginCollector(health))

    def watch_queue(
        self, counts: Callable[[], Mapping[str, int]], leads: Callable[[], bool]
    ) -> None:
        """Add the queue's pods by state, and whether this replica is the leader, to every scrape.

        Args:
            counts: returns state -> number of pods; called at every scrape, from any thread.
            leads: returns whether this replica holds the Lease, and so is the one that removes
                scheduling gates; called at every scrape, from any thread.
        """
        self.registry.register(_QueueCollector(counts, leads))

    def render(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and the content type. Slow."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4


class _StoreCollector(Collector):
    """Collects the statistics of the node stores at each scrape."""

    def __init__(self) -> None:
        self._stores: dict[str, Callable[[], NodeStoreStats]] = {}

    def add(self, store: str, stats: Callable[[], NodeStoreStats]) -> None:
        self._stores[store] = stats

    def collect(self) -> Iterator[Metric]:
        prefix, label = "kubextend_node_store_", ["store"]
        nodes = GaugeMetricFamily(prefix + "nodes", "Nodes in the store.", labels=label)
        kept = GaugeMetricFamily(prefix + "bytes", "Bytes of node objects kept.", labels=label)
        hits = CounterMetricFamily(prefix + "hits", "Nodes that were recognised.", labels=label)
        misses = CounterMetricFamily(prefix + "misses", "Nodes not recognised.", labels=label)
        for store, read in self._stores.items():
            stats = read()
            nodes.add_metric([store], stats.nodes)
            kept.add_metric([store], stats.bytes)
            hits.add_metric([store], stats.hits)
            misses.add_metric([store], stats.misses)
        yield from (nodes, kept, hits, misses)


class _SnapshotCollector(Collector):
    """Collects at each scrape whether the nodes are listed, and the age of their data."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "kubextend_node_snapshot_synced",
            "1 once the nodes are listed.",
            value=self._snapshot.synced,
        )
        age = GaugeMetricFamily(
            "kubextend_node_snapshot_age_seconds", "Since the API last sent anything about nodes."
        )
        if (age_s := self._snapshot.age_s()) is not None:
            age.add_metric([], age_s)
        yield age


class _ReflectorCollector(Collector):
    """Collects the counts and the age of the reflectors at each scrape."""

    def __init__(self) -> None:
        self._reflectors: dict[str, Reflector] = {}

    def add(self, resource: str, reflector: Reflector) -> None:
        self._reflectors[resource] = reflector

    def collect(self) -> Iterator[Metric]:
        prefix, label = "kubextend_reflector_", ["resource"]
        lists = CounterMetricFamily(prefix + "lists", "Lists begun.", labels=label)
        watches = CounterMetricFamily(prefix + "watches", "Watches begun.", labels=label)
        events = CounterMetricFamily(prefix + "events", "Events taken in.", labels=label)
        failures = CounterMetricFamily(
            prefix + "failures", "Lists and watches that failed.", labels=label
        )
        synced = GaugeMetricFamily(prefix + "synced", "1 after the first list.", labels=label)
        age = GaugeMetricFamily(
            prefix + "age_seconds", "Since the API last sent any of the objects.", labels=label
        )
        for resource, reflector in self._reflectors.items():
            stats = reflector.stats
            lists.add_metric([resource], stats.lists)
            watches.add_metric([resource], stats.watches)
            events.add_metric([resource], stats.events)
            failures.add_metric([resource], stats.failures)
            synced.add_metric([resource], reflector.synced)
            if (age_s := reflector.age_s()) is not None:
                age.add_metric([resource], age_s)
        yield from (lists, watches, events, failures, synced, age)


class _PluginRegistry(CollectorRegistry):
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
        self._registries: dict[tuple[str, str], _PluginRegistry] = {}
        self._next: dict[tuple[str, str], _PluginRegistry] = {}
        self._warned: set[str] = set()

    def of(self, plugin: str, profile: str) -> CollectorRegistry:
        """Return the registry of one plugin instance; the first call makes it.

        Args:
            plugin: the name of the plugin.
            profile: the name of the profile.
        """
        return self._registries.setdefault((plugin, profile), _PluginRegistry())

    def next_of(self, plugin: str, profile: str) -> CollectorRegistry:
        """Return a new registry for a plugin instance that may replace the instance in use."""
        self._next[plugin, profile] = registry = _PluginRegistry()
        return registry

    def replace(self, gone: Collection[str], made: Collection[tuple[str, str]]) -> None:
        """Collect from the registries of other plugin instances from now on.

        Args:
            gone: the profiles whose instances are replaced.
            made: (plugin, profile) of each new instance, with or without a registry of ``next_of``.
        """
        kept = {key: each for key, each in self._registries.items() if key[1] not in gone}
        self._registries = kept | {key: each for key, each in self._next.items() if key in made}
        self._next = {}

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for (plugin, profile), registry in list(self._registries.items()):
            labels = {"plugin": plugin, "profile": profile}
            try:
                found = list(registry.collect())
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


class _InformerCollector(Collector):
    """Collects the numbers of objects and bytes of the informers at each scrape."""

    def __init__(self) -> None:
        self._stats: dict[str, Callable[[], ObjectStats]] = {}

    def add(self, resource: str, stats: Callable[[], ObjectStats]) -> None:
        self._stats[resource] = stats

    def collect(self) -> Iterator[Metric]:
        prefix, label = "kubextend_informer_", ["resource"]
        objects = GaugeMetricFamily(prefix + "objects", "Objects kept.", labels=label)
        kept = GaugeMetricFamily(prefix + "bytes", "Bytes of the objects' JSON.", labels=label)
        for resource, read in self._stats.items():
            stats = read()
            objects.add_metric([resource], stats.objects)
            kept.add_metric([resource], stats.bytes)
        yield from (objects, kept)


class _WriteCollector(Collector):
    """Collects the counts of a queue of API calls at each scrape."""

    def __init__(self, name: str, text: str, stats: Callable[[], WriteStats]) -> None:
        self._name = name
        self._text = text
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=["result"])
        stats = self._stats()
        family.add_metric(["sent"], stats.sent)
        family.add_metric(["gone"], stats.gone)
        family.add_metric(["failed"], stats.failed)
        family.add_metric(["dropped"], stats.dropped)
        yield family


class _PluginCollector(Collector):
    """Collects the breakers and stuck threads of the plugins at each scrape."""

    def __init__(self, health: Callable[[], Mapping[str, PluginHealth]]) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        prefix, label = "kubextend_plugin_", ["plugin"]
        breaker = GaugeMetricFamily(
            prefix + "breaker_open", "1 while the breaker is open.", labels=label
        )
        stuck = GaugeMetricFamily(
            prefix + "stuck_threads", "Calls given up that have not returned.", labels=label
        )
        for plugin, health in self._health().items():
            breaker.add_metric([plugin], health.open)
            stuck.add_metric([plugin], health.stuck_threads)
        yield from (breaker, stuck)


class _QueueCollector(Collector):
    """Collects the pods of the queue by state, and whether this replica leads, at each scrape."""

    def __init__(self, counts: Callable[[], Mapping[str, int]], leads: Callable[[], bool]) -> None:
        self._counts = counts
        self._leads = leads

    def collect(self) -> Iterator[Metric]:
        pods = GaugeMetricFamily(
            "kubextend_queue_pods", "Pods of the queue, by their state.", labels=["state"]
        )
        for state, number in self._counts().items():
            pods.add_metric([state], number)
        yield pods
        yield GaugeMetricFamily(
            "kubextend_queue_leader",
            "1 while this replica is the one that releases pods.",
            value=self._leads(),
        )
