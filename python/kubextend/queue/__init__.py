"""The scheduling queue: pods behind our scheduling gate, and the order in which it is taken off.

kube-scheduler sorts what is released by its own order, so only a few pods are released at a time.
Knows nothing of the Kubernetes API: pods are told to it, and a function releases them.
"""

from kubextend.queue.entry import QueueEntry, State, info_of
from kubextend.queue.gatekeeper import Gatekeeper
from kubextend.queue.order import Failed, Order
from kubextend.queue.runner import QueueRunner
from kubextend.queue.scheduling_queue import SchedulingQueue, Settings, Strategy

__all__ = [
    "Failed",
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
