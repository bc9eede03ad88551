"""Queries one number for each node from Prometheus in the background, for use by plugins.

Plugins read the numbers of the last successful query from memory. Only the thread of a ``Source``,
which repeats one query, waits for Prometheus.
"""

from kubextend.prometheus.args import PrometheusArgs
from kubextend.prometheus.endpoint import Endpoint, PrometheusError
from kubextend.prometheus.metric import NodeMetric
from kubextend.prometheus.promql_duration import seconds
from kubextend.prometheus.rounding import rounded
from kubextend.prometheus.source import Query, Source
from kubextend.prometheus.sources import Sources
from kubextend.prometheus.vector import NodeLabel, Vector, read_vector

__all__ = [
    "Endpoint",
    "NodeLabel",
    "NodeMetric",
    "PrometheusArgs",
    "PrometheusError",
    "Query",
    "Source",
    "Sources",
    "Vector",
    "read_vector",
    "rounded",
    "seconds",
]
