"""Counts how long the calls of plugins take, and which plugins reject pods for which reasons.

The labels of the durations are those of kube-scheduler's metrics, and the status is Success or
Error: Error if the plugin raised, hung or returned a wrong value.
"""

import threading
from typing import Final

from kubextend.metrics import (
    Histogram,
    HistogramFamily,
    Metrics,
    ScrapedCounter,
    exponential,
)

__all__ = ["PluginCallMetrics"]

# The reasons of a plugin that have a label value of their own; all others are "other".
_MOST_REASONS: Final = 20
_MOST_REASON_CHARS: Final = 100

# kube-scheduler's plugin_execution_duration_seconds has ExponentialBuckets(0.00001, 1.5, 20), up to
# 22 ms (kubernetes v1.37 pkg/scheduler/metrics/metrics.go). Nine more buckets double the 22 ms: a
# plugin handles all nodes in one call here, and may be written in Python.
_SECONDS = exponential(0.00001, 1.5, 20)
_PLUGIN: Final = HistogramFamily(
    "kubextend_plugin_execution_duration_seconds",
    "Time of a plugin's calls at an extension point, for one request.",
    _SECONDS + exponential(2 * _SECONDS[-1], 2, 9),
    ("plugin", "extension_point", "status"),
)
# framework_extension_point_duration_seconds has 12 of these buckets there, up to 0.2 s.
_POINT: Final = HistogramFamily(
    "kubextend_framework_extension_point_duration_seconds",
    "Time of all plugins of an extension point, for one request.",
    exponential(0.0001, 2, 18),
    ("extension_point", "status", "profile"),
)
# permit_wait_duration_seconds has 15 of these there, up to 16 s; Permit may hold a pod for 15 min.
_PERMIT_WAIT: Final = HistogramFamily(
    "kubextend_permit_wait_duration_seconds",
    "From the moment Permit plugins hold a pod until they have decided, by the result.",
    exponential(0.001, 2, 21),
    ("result",),
)
_REJECTIONS: Final[tuple[ScrapedCounter[dict[tuple[str, ...], int]]]] = (
    ScrapedCounter(
        "kubextend_plugin_rejections",
        "Requests in which a plugin rejected the pod or nodes, by reason.",
        lambda counts: counts,
        ("plugin", "extension_point", "reason"),
    ),
)


class PluginCallMetrics:
    """Counts the calls of plugins and their rejections; any thread may call.

    A plugin may put the name of a pod into its reasons, so the reasons have a limit: beyond it,
    every further reason of a plugin counts as "other".

    Args:
        metrics: gets the metric families.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], int] = {}
        self._reasons: dict[str, set[str]] = {}
        metrics.declare(_PLUGIN, _POINT, _PERMIT_WAIT)
        metrics.scrape(_REJECTIONS, self._rejections)

    def plugin(self, plugin: str, extension_point: str, status: str) -> Histogram:
        """Return the histogram of the seconds of a plugin's calls at an extension point."""
        return self._metrics.histogram(_PLUGIN, plugin, extension_point, status)

    def point(self, extension_point: str, status: str, profile: str) -> Histogram:
        """Return the histogram of the seconds of all plugins at an extension point."""
        return self._metrics.histogram(_POINT, extension_point, status, profile)

    def permit_wait(self, result: str) -> Histogram:
        """Return the histogram of the seconds for which Permit plugins held pods."""
        return self._metrics.histogram(_PERMIT_WAIT, result)

    def rejected(self, plugin: str, extension_point: str, reason: str) -> None:
        """Count a request in which a plugin rejected the pod, or nodes for the pod.

        Args:
            plugin: the name of the plugin.
            extension_point: the framework's name of the point, such as ``Filter``.
            reason: the reason of the plugin's Status.
        """
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

    def _rejections(self) -> dict[tuple[str, ...], int]:
        with self._lock:
            return dict(self._counts)
