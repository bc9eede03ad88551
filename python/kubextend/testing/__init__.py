"""Helpers for tests of plugins: pods and nodes, a cluster with a clock, a conformance test.

The helpers need no cluster and no server. The helpers run the code that answers kube-scheduler:
they pass requests as bytes to the verbs (filter, prioritize, preempt and bind), and read the
answers.
"""

from kubextend.testing.agreement import assert_same_answers
from kubextend.testing.cluster import Cluster, FilterResult, Outcome
from kubextend.testing.conformance import Violation, conformance, violations
from kubextend.testing.objects import (
    NodesLike,
    PodLike,
    make_node,
    make_nodes,
    make_pod,
    node_manifest,
    pod_manifest,
)
from kubextend.testing.one_plugin import run_binding_cycle, run_filter, run_score
from kubextend.testing.queue_order import queue_order
from kubextend.testing.stand_ins import Activations, Bindings, make_handle

__all__ = [
    "Activations",
    "Bindings",
    "Cluster",
    "FilterResult",
    "NodesLike",
    "Outcome",
    "PodLike",
    "Violation",
    "assert_same_answers",
    "conformance",
    "make_handle",
    "make_node",
    "make_nodes",
    "make_pod",
    "node_manifest",
    "pod_manifest",
    "queue_order",
    "run_binding_cycle",
    "run_filter",
    "run_score",
    "violations",
]
