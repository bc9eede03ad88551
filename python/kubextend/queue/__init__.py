"""The scheduling queue: holds pods by a scheduling gate, and decides which pods to release next.

To release a pod is to remove this gate. kube-scheduler sorts released pods by its own order, so the
queue releases only a few pods at a time. The package does not call the Kubernetes API: callers
report pods to the queue, and remove the gates of the pods that the queue names.
"""

from kubextend.queue.entry import QueueEntry, State, info_of
from kubextend.queue.gated_pod_queue import (
    FairQueuing,
    SchedulingQueue,
    Settings,
    Strategy,
)
from kubextend.queue.order import Failed, Order
from kubextend.queue.pre_enqueue import PreEnqueue
from kubextend.queue.queue_runner import QueueRunner

__all__ = [
    "Failed",
    "FairQueuing",
    "Order",
    "PreEnqueue",
    "QueueEntry",
    "QueueRunner",
    "SchedulingQueue",
    "Settings",
    "State",
    "Strategy",
    "info_of",
]
