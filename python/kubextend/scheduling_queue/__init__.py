"""The scheduling queue: holds pods by a scheduling gate, and decides which pods to release next.

To release a pod is to remove this gate. kube-scheduler sorts released pods by its own order, so the
queue releases only a few pods at a time. The package does not call the Kubernetes API: callers
report pods to the queue, and remove the gates of the pods that the queue names.
"""

from kubextend.scheduling_queue.gated_pods import SchedulingQueue
from kubextend.scheduling_queue.item import QueueEntry, State, info_of
from kubextend.scheduling_queue.order import Failed, Order
from kubextend.scheduling_queue.pre_enqueue import PreEnqueue
from kubextend.scheduling_queue.runner import QueueRunner
from kubextend.scheduling_queue.settings import Settings, Strategy

__all__ = [
    "Failed",
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
