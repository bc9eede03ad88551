"""What kubextend remembers between two calls of kube-scheduler."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from kubextend import core
from kubextend.framework.handle import ClusterPorts
from kubextend.metrics import Metrics, ScrapedCounter, ScrapedGauge
from kubextend.profile import PluginLimits, WaitingPods
from kubextend.verbs.bind_answer_throttle import AnswerThrottle
from kubextend.verbs.decision_records import Decisions
from kubextend.verbs.filter_outside_request import looking_again
from kubextend.verbs.group_places import GroupPlaces
from kubextend.verbs.unknown_node_ages import UnknownNames
from kubextend.verbs.unplaced_pods import UnplacedPods

__all__ = ["NODE_STORE", "Memory"]

# Scraped with the label ``store``: ``watched`` or ``request``.
NODE_STORE: Final[tuple[ScrapedGauge[core.NodeStoreStats], ...]] = (
    ScrapedGauge("kubextend_node_store_nodes", "Nodes in the store.", lambda stats: stats.nodes),
    ScrapedGauge(
        "kubextend_node_store_bytes", "Bytes of node objects kept.", lambda stats: stats.bytes
    ),
    ScrapedCounter(
        "kubextend_node_store_hits", "Nodes that were recognised.", lambda stats: stats.hits
    ),
    ScrapedCounter(
        "kubextend_node_store_misses", "Nodes not recognised.", lambda stats: stats.misses
    ),
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What the verbs remember between calls.

    Attributes:
        request_store: the nodes that came as whole objects in requests (``nodeCacheCapable:
            false``).
        limits: the threads on which plugins run, and the circuit breakers of plugins.
        unplaced: the pods that are on no node yet; makes kube-scheduler try a pod again if a plugin
            asks for that.
        places: the nodes that filter kept for members of pod groups.
        unknown: when each unknown node name was first seen.
        waiting_pods: the pods that Permit holds.
        binding: UID -> node of each pod whose binding cycle runs.
        clock: returns monotonic seconds, at the speed of the event loop's clock.
        pool: reusable buffers for large answers; None: each answer is a new ``bytes``.
        throttle: spreads the answers about pods that Permit held and rejected over time.
        decisions: what the verbs decided about each pod lately, for people who ask why.
    """

    request_store: core.RequestStore
    limits: PluginLimits
    unplaced: UnplacedPods
    places: GroupPlaces
    unknown: UnknownNames
    waiting_pods: WaitingPods
    clock: Callable[[], float]
    binding: dict[str, str] = field(default_factory=dict)
    pool: core.BodyPool | None = None
    throttle: AnswerThrottle = field(default_factory=AnswerThrottle)
    decisions: Decisions = field(default_factory=Decisions)

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
        """Return a ``Memory`` that holds nothing yet.

        Args:
            cluster: has the activator, which makes kube-scheduler try pods again.
            metrics: counts the calls of plugins, and the pods that are to be tried again.
            look_again_s: for how many seconds filters may run for one pod outside of a request.
            limits: threads and circuit breakers of the plugins; None: new ones.
            waiting_pods: the pods that Permit holds; None: a new, empty object without a limit.
            clock: returns monotonic seconds, at the speed of the event loop's clock.
        """
        limits = PluginLimits(clock, metrics) if limits is None else limits
        look_again = looking_again(limits, look_again_s)
        return cls(
            request_store=core.RequestStore(),
            limits=limits,
            unplaced=UnplacedPods(
                cluster.activator, metrics=metrics, look_again=look_again, clock=clock
            ),
            places=GroupPlaces(clock),
            unknown=UnknownNames(clock),
            waiting_pods=WaitingPods() if waiting_pods is None else waiting_pods,
            clock=clock,
            throttle=AnswerThrottle(clock),
        )
