"""The scheduling queue: pods behind our scheduling gate, and the order in which they lose it.

kube-scheduler sorts released pods by its own order, so the queue releases only a few at a time. The
queue knows nothing of the Kubernetes API: callers tell it of pods, and a function releases them.
"""

from kubextend.queue.entry import QueueEntry, State, info_of
from kubextend.queue.gatekeeper import Gatekeeper
from kubextend.queue.order import Failed, Order
from kubextend.queue.queue_runner import QueueRunner
from kubextend.queue.scheduling_queue import (
    FairQueuing,
    SchedulingQueue,
    Settings,
    Strategy,
)

__all__ = [
    "Failed",
    "FairQueuing",
    "Gatekeeper",
    "Order",
    "QueueEntry",
    "QueueRunner",
    "SchedulingQueue",
    "Settings",
    "State",
    "Strategy",
    "info_of",
]
