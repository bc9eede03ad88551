"""What kubextend remembers between two calls of kube-scheduler."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from kubextend import core
from kubextend.framework.handle import ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, WaitingPods
from kubextend.verbs.attempts import Attempts
from kubextend.verbs.parked_pods import ParkedPods
from kubextend.verbs.reasons import Reasons
from kubextend.verbs.refilter import looking_again
from kubextend.verbs.rejected_permits import RejectedPermits
from kubextend.verbs.unknown_names import UnknownNames

__all__ = ["Memory"]


@dataclass(frozen=True, slots=True)
class Memory:
    """What the verbs remember between calls.

    Attributes:
        request_store: the nodes that full-mode requests brought.
        limits: the threads of the plugins, and their breakers.
        attempts: where filter leaves the CycleState for prioritize and bind.
        unknown: since when node names are unknown.
        parked: pods that were rejected on every node a moment ago.
        reasons: keeps the reasons that kube-scheduler reads from changing all the time.
        waiting_pods: where pods are found while Permit holds them.
        rejected_permits: pods that Permit rejected, and that are not tried again yet. Plugins
            activate pods through it.
        clock: monotonic seconds, as fast as the clock of the event loop.
        pool: gives the memory of large answers; None: every answer is ``bytes``.
    """

    request_store: core.NodeStore
    limits: PluginLimits
    attempts: Attempts
    unknown: UnknownNames
    parked: ParkedPods
    reasons: Reasons
    waiting_pods: WaitingPods
    rejected_permits: RejectedPermits
    clock: Callable[[], float]
    pool: core.BodyPool | None = None

    @classmethod
    def of(
        cls,
        cluster: ClusterPorts,
        metrics: Metrics,
        *,
        look_again_s: float,
        limits: PluginLimits | None = None,
        waiting_pods: WaitingPods | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Self:
        """Return an empty memory.

        Args:
            cluster: what wakes pods.
            metrics: where woken pods are counted.
            look_again_s: how long filters may look at one pod outside of a request.
            limits: threads and breakers of the plugins; None: new ones.
            waiting_pods: the pods that Permit holds; None: none, and no bound on them.
            clock: monotonic seconds, as fast as the clock of the event loop.
        """
        limits = PluginLimits() if limits is None else limits
        look_again = looking_again(limits, look_again_s)
        return cls(
            request_store=core.NodeStore(),
            limits=limits,
            attempts=Attempts(),
            unknown=UnknownNames(clock),
            parked=ParkedPods(
                cluster.activator, metrics=metrics, look_again=look_again, clock=clock
            ),
            reasons=Reasons(clock),
            waiting_pods=WaitingPods() if waiting_pods is None else waiting_pods,
            rejected_permits=RejectedPermits(cluster.activator, clock=clock),
            clock=clock,
        )
