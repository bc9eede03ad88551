"""kubextend's Prometheus metrics: counters, histograms, and values that are read at a scrape."""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, repeat
from math import inf
from operator import mul
from typing import Final, NamedTuple, Protocol, cast

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
    "PluginCallMetrics",
    "PluginHealth",
    "Reflector",
    "ReflectorStats",
    "Snapshot",
    "ThreadUse",
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


def _exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the bounds that Go's ExponentialBuckets returns."""
    return tuple(accumulate(repeat(factor, count - 1), mul, initial=start))


# kube-scheduler's plugin_execution_duration_seconds has ExponentialBuckets(0.00001, 1.5, 20), up to
# 22 ms (kubernetes v1.37 pkg/scheduler/metrics/metrics.go). Nine more buckets double the 22 ms: a
# plugin handles all nodes in one call here, and may be written in Python.
_PLUGIN_SECONDS = _exponential(0.00001, 1.5, 20)
_PLUGIN_SECONDS += _exponential(2 * _PLUGIN_SECONDS[-1], 2, 9)
# framework_extension_point_duration_seconds has 12 of these buckets there, up to 0.2 s.
_POINT_SECONDS = _exponential(0.0001, 2, 18)
# permit_wait_duration_seconds has 15 of these there, up to 16 s; Permit may hold a pod for 15 min.
_PERMIT_SECONDS = _exponential(_MILLISECOND, 2, 21)
_API_SECONDS = _exponential(_MILLISECOND, 2, 15)
_LAG_SECONDS = _exponential(_MILLISECOND, 2, 13)
_NODES = (1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 50_000, 100_000)
# The reasons of a plugin that have a label value of their own; all others are "other".
_MOST_REASONS: Final = 20
_MOST_REASON_CHARS: Final = 100
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


class ThreadUse(NamedTuple):
    """How many threads of a pool work now.

    Attributes:
        busy: how many threads run a call; abandoned threads do not count.
        most: the most threads that run calls at a time.
        waiting: how many calls wait for a thread.
    """

    busy: int
    most: int
    waiting: int


class PluginCallMetrics:
    """How long the calls of plugins took, and which plugins rejected pods for which reasons.

    The labels of the durations are those of kube-scheduler's metrics, and the status is Success or
    Error: Error if the plugin raised, hung or returned a wrong value.
    """

    def __init__(self) -> None:
        self._plugins = _HistogramCollector(
            "kubextend_plugin_execution_duration_seconds",
            "Time of a plugin's calls at an extension point, for one request.",
            _PLUGIN_SECONDS,
            *("plugin", "extension_point", "status"),
        )
        self._points = _HistogramCollector(
            "kubextend_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point, for one request.",
            _POINT_SECONDS,
            *("extension_point", "status", "profile"),
        )
        self._permit_waits = _HistogramCollector(
            "kubextend_permit_wait_duration_seconds",
            "From the moment Permit plugins hold a pod until they have decided, by the result.",
            _PERMIT_SECONDS,
            "result",
        )
        self._rejections = _RejectionCollector()
        self.plugin: Callable[[str, str, str], Histogram] = self._plugins.of
        self.point: Callable[[str, str, str], Histogram] = self._points.of
        self.permit_wait: Callable[[str], Histogram] = self._permit_waits.of

    def rejected(self, plugin: str, extension_point: str, reason: str) -> None:
        """Count a request in which a plugin rejected the pod, or nodes for the pod.

        Args:
            plugin: the name of the plugin.
            extension_point: the framework's name of the point, such as ``Filter``.
            reason: the reason of the plugin's Status.
        """
        self._rejections.count(plugin, extension_point, reason)

    def register(self, registry: CollectorRegistry) -> None:
        """Add these metrics to a registry."""
        for collector in (self._plugins, self._points, self._permit_waits, self._rejections):
            registry.register(collector)


class _RejectionCollector(Collector):
    """Counts rejections by plugin, extension point and reason.

    A plugin may put the name of a pod into its reasons, so the reasons have a limit: beyond it,
    every further reason of a plugin counts as "other".
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, str], int] = {}
        self._reasons: dict[str, set[str]] = {}

    def count(self, plugin: str, extension_point: str, reason: str) -> None:
        key = (plugin, extension_point, reason)
        with self._lock:
            if key not in self._counts:
                key = (plugin, extension_point, self._shown(plugin, reason))
            self._counts[key] = self._counts.get(key, 0) + 1

    def _shown(self, plugin: str, reason: str) -> str:
        """Return the label value of a reason; the caller holds the lock."""
        shown = reason[:_MOST_REASON_CHARS]
        reasons = self._reasons.setdefault(plugin, set())
        if shown not in reasons and len(reasons) >= _MOST_REASONS:
            return "other"
        reasons.add(shown)
        return shown

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "kubextend_plugin_rejections",
            "Requests in which a plugin rejected the pod or nodes, by reason.",
            labels=["plugin", "extension_point", "reason"],
        )
        with self._lock:
            counts = dict(self._counts)
        for labels, number in counts.items():
            family.add_metric(labels, number)
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
        plugin_calls: the durations of plugins' calls, and the rejections by plugins.
        attempts: (verb, profile, result) -> counter of attempts that the verb decided.
        binding_seconds: result -> histogram of the seconds of a Binding's calls of the API.
        loop_lag: histogram of the seconds by which the event loop was late.
        logins_refused: status -> counter of callers whose credentials were refused.
        configuration_sha256: the hash of the configuration in use; empty until one is told.
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
        self.requests = self._counters(
            "kubextend_verb_requests",
            "Verb calls by how they ended: ok, error (answered with Error), unknown_scheduler (no "
            "profile is for the pod), bad_request, failed.",
            "verb",
            "result",
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
        self.refused = self._counters(
            "kubextend_requests_refused",
            "Requests answered with a status other than 200, by that status.",
            "status",
        )
        self.reloads = self._counters(
            "kubextend_configuration_reloads",
            "Changes of the configuration file, by whether kubextend uses the new file.",
            "result",
        )
        self.plugin_failures = self._counters(
            "kubextend_plugin_failures",
            "Calls of a plugin that raised or answered what it may not.",
            "plugin",
            "extension_point",
        )
        self.plugin_calls_refused = self._counters(
            "kubextend_plugin_calls_refused",
            "Calls of a plugin that were not made, because its breaker was open.",
            "plugin",
        )
        self.plugin_calls = PluginCallMetrics()
        self.plugin_calls.register(self.registry)
        self.attempts = self._counters(
            "kubextend_attempts",
            "Attempts by what a verb decided. filter: feasible, unschedulable, error; bind: bound, "
            "rejected, error.",
            "verb",
            "profile",
            "result",
        )
        self.binding_seconds = self._histograms(
            "kubextend_binding_api_duration_seconds",
            "From the call of the Kubernetes API that binds a pod to its result, with all retries.",
            _API_SECONDS,
            "result",
        ).of
        self.loop_lag = self._histograms(
            "kubextend_event_loop_lag_seconds",
            "How late the event loop was to run a task that was due.",
            _LAG_SECONDS,
        ).of()
        self.logins_refused = self._counters(
            "kubextend_logins_refused",
            "Callers of the pages for people whose token or certificate was refused, by status.",
            "status",
        )
        self._threads = _ThreadCollector()
        self._connections = _ConnectionCollector()
        self._health = _HealthCollector()
        for collector in (self._threads, self._connections, self._health):
            self.registry.register(collector)
        self.waiting_pod_requests = self._counters(
            "kubextend_waiting_pod_requests",
            "Requests about waiting pods that did what they asked for: list, allow, reject.",
            "action",
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
        self.configuration_sha256 = ""
        self._configuration = Gauge(
            "kubextend_configuration_info",
            "1, with a hash of the configuration that runs.",
            ("sha256",),
            registry=self.registry,
        )
        self.configuration_refused = Gauge(
            "kubextend_configuration_refused",
            "1 if the configuration file was refused as it is now, and an older one is in use.",
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "kubextend_requests_in_flight_bytes",
            "Bytes that requests hold which are not yet answered to their end.",
            registry=self.registry,
        )
        self.in_flight_limit = Gauge(
            "kubextend_requests_in_flight_limit_bytes",
            "The most bytes that requests may hold: server.maxInFlightBytes.",
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
        self.connections_refused = self._counters(
            "kubextend_connections_refused",
            "Connections that were closed at once, as their listener had as many as it may.",
            "listener",
        )
        self.queue_wait = self._histograms(
            "kubextend_queue_wait_seconds",
            "From a pod's creation until its gate was taken off.",
            _WAIT_SECONDS,
        ).of()
        self.queue_releases = self._counters(
            "kubextend_queue_releases",
            "Pods whose gate was to be taken off, by what became of them: released, gone, refused.",
            "result",
        )
        # A rate of a counter that is not there before its first event does not show that event.
        for result in ("ok", "error"):
            self._certificate_reloads.labels(result)

    def _counters(self, name: str, text: str, *labels: str) -> Callable[..., Counter]:
        """Return a function that returns the counter for the values of the labels."""
        return cache(Counter(name, text, labels, registry=self.registry).labels)

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

    def describe(self, version: str, python: str) -> None:
        """Add to every scrape the version of kubextend, and that of Python."""
        build = Gauge(
            "kubextend_build_info",
            "1, with the versions of kubextend and of Python.",
            ("version", "python"),
            registry=self.registry,
        )
        build.labels(version, python).set(1)

    def configured(self, sha256: str) -> None:
        """Show the hash of the configuration in use; replicas with one configuration have one."""
        self.configuration_sha256 = sha256
        self._configuration.clear()
        self._configuration.labels(sha256).set(1)

    def watch_threads(self, pool: str, use: Callable[[], ThreadUse]) -> None:
        """Add to every scrape how many threads of a pool work, and how many calls wait for one.

        Args:
            pool: the label of the pool.
            use: returns the numbers; called at every scrape, from any thread.
        """
        self._threads.add(pool, use)

    def watch_connections(self, listener: str, count: Callable[[], int], most: int) -> None:
        """Add the open connections of a listener, and their limit, to every scrape.

        Args:
            listener: the label of the listener.
            count: returns the number of open connections; called at every scrape, from any thread.
            most: the most connections that may be open.
        """
        self._connections.add(listener, count, most)

    def note_health(self, checks: Iterable[tuple[str, str, bool]]) -> None:
        """Set what the next scrapes say about the conditions of the probes.

        Args:
            checks: the probe, livez or readyz, the name of a condition, and whether it holds.
        """
        self._health.checks = list(checks)

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

    def watch_marks(self, stats: Callable[[], WriteStats]) -> None:
        """Add to every scrape how many held pods were marked for an autoscaler, by result.

        Args:
            stats: returns the counts; called at every scrape, from any thread.
        """
        text = "Marks of held pods: sent, gone (with their pod), failed, dropped (never tried)."
        self.registry.register(_WriteCollector("kubextend_held_pod_marks", text, stats))

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


class _ThreadCollector(Collector):
    """Collects at each scrape how many threads of each pool work."""

    def __init__(self) -> None:
        self._pools: dict[str, Callable[[], ThreadUse]] = {}

    def add(self, pool: str, use: Callable[[], ThreadUse]) -> None:
        self._pools[pool] = use

    def collect(self) -> Iterator[Metric]:
        prefix, label = "kubextend_threads_", ["pool"]
        busy = GaugeMetricFamily(prefix + "busy", "Threads that run a call.", labels=label)
        most = GaugeMetricFamily(prefix + "limit", "The most threads that run.", labels=label)
        waiting = GaugeMetricFamily(
            prefix + "waiting_calls", "Calls that wait for a thread.", labels=label
        )
        for pool, read in self._pools.items():
            use = read()
            busy.add_metric([pool], use.busy)
            most.add_metric([pool], use.most)
            waiting.add_metric([pool], use.waiting)
        yield from (busy, most, waiting)


class _ConnectionCollector(Collector):
    """Collects the open connections of each listener at each scrape."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Callable[[], int], int]] = {}

    def add(self, listener: str, count: Callable[[], int], most: int) -> None:
        self._listeners[listener] = (count, most)

    def collect(self) -> Iterator[Metric]:
        label = ["listener"]
        now = GaugeMetricFamily("kubextend_connections", "Open connections.", labels=label)
        limit = GaugeMetricFamily(
            "kubextend_connections_limit", "The most connections that may be open.", labels=label
        )
        for listener, (count, most) in self._listeners.items():
            now.add_metric([listener], count())
            limit.add_metric([listener], most)
        yield from (now, limit)


class _HealthCollector(Collector):
    """Collects the conditions of the probes at each scrape, as kubernetes_healthcheck does.

    Attributes:
        checks: the probe, the name of a condition, and whether the condition holds.
    """

    def __init__(self) -> None:
        self.checks: list[tuple[str, str, bool]] = []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "kubextend_healthcheck",
            "1 while a condition of the probe livez or readyz holds.",
            labels=["type", "name"],
        )
        for probe, name, holds in self.checks:
            family.add_metric([probe, name], holds)
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
