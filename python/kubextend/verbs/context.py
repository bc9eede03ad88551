"""What all verbs share: configuration, profiles, cluster, metrics, and what is remembered."""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

from kubextend import core
from kubextend.config import Configuration
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.metrics import Metrics, ScrapedCounter, ScrapedGauge
from kubextend.profile import PluginLimits, Profile, WaitingPods
from kubextend.verbs.answer import Body
from kubextend.verbs.bind_answer_throttle import AnswerThrottle
from kubextend.verbs.bind_room_check import Guard
from kubextend.verbs.decision_records import Decisions
from kubextend.verbs.filter_outside_request import looking_again
from kubextend.verbs.group_places import GroupPlaces
from kubextend.verbs.make_profiles import make_profiles
from kubextend.verbs.readiness import Readiness
from kubextend.verbs.reasons import SentReasons
from kubextend.verbs.unknown_node_ages import UnknownNames
from kubextend.verbs.unknown_schedulers import UnknownSchedulers
from kubextend.verbs.unplaced_pods import UnplacedPods

__all__ = ["NODE_STORE", "Context"]

# To read this much takes about a millisecond.
_LARGE_BODY_BYTES: Final = 1_000_000
# The event loop would wait behind the threads that read many bodies side by side.
_READING_A_LARGE_BODY: Final = threading.Lock()

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


class Context:
    """What all verbs share, and what they remember between calls.

    Args:
        config: how kube-scheduler calls the verbs, the parts of nodes to keep, limits of memory.
        ports: the nodes, pods, binder, activator and client of the cluster.
        metrics: counts calls of verbs, failures of plugins, and pods that are to be tried again.
        limits: the threads on which plugins run, and the circuit breakers of plugins.
        waiting_pods: the pods that Permit holds.
        not_started: returns the plugins whose ``start`` has not succeeded yet.

    Attributes:
        handle: the Handle from which those of the plugins are made.
        profiles: profiles by scheduler name.
        clock: returns monotonic seconds, at the speed of the event loop's clock.
        failures: counts and logs the failures of plugins.
        readiness: decides whether a verb may call plugins now.
        unknown_schedulers: says which pods are rejected for their schedulerName, and logs it.
        guard: looks for room on a node right before a pod is bound there; None: nothing does.
            Without access to an API there is no guard, and bind binds nothing.
        request_store: the nodes that came as whole objects in requests (``nodeCacheCapable:
            false``).
        unplaced: the pods that are on no node yet; makes kube-scheduler try a pod again if a plugin
            asks for that.
        places: the nodes that filter kept for members of pod groups.
        binding: UID -> node of each pod whose binding cycle runs.
        unknown: when each unknown node name was first seen.
        sent: the reasons that kube-scheduler got for pods that fit nowhere.
        throttle: spreads the answers about pods that Permit held and rejected over time.
        decisions: what the verbs decided about each pod lately, for people who ask why.
        pool: reusable buffers for large answers.

    Raises: KubextendError: a plugin cannot be made.
    """

    def __init__(
        self,
        config: Configuration,
        ports: ClusterPorts,
        metrics: Metrics,
        limits: PluginLimits,
        waiting_pods: WaitingPods,
        not_started: Callable[[], Iterable[str]],
    ) -> None:
        self.config, self.cluster, self.metrics = config, ports, metrics
        self.limits, self.failures, self.waiting_pods = limits, limits.failures, waiting_pods
        self.clock = clock = limits.clock
        look_again = looking_again(limits, config.extender.http_timeout.seconds)
        self.unplaced = UnplacedPods(
            ports.activator, metrics=metrics, look_again=look_again, clock=clock
        )
        self.handle = Handle(
            waiting_pods,
            replace(ports, activator=self.unplaced),
            configuration=config,
            registries=lambda owner: metrics.plugin_registry(owner.plugin, owner.profile),
            common_metrics=metrics.registry,
        )
        self.profiles = make_profiles(config, self.handle)
        self.readiness = Readiness(ports, self.profiles, not_started)
        self.unknown_schedulers = UnknownSchedulers(self.profiles)
        self.guard: Guard | None = None
        if config.guard.resources and ports.nodes is not None and ports.pods is not None:
            self.guard = Guard(ports.nodes, ports.pods, metrics)
        self.request_store = core.RequestStore(**config.kept_parts)
        self._watched = None if ports.nodes is None else ports.nodes.store
        self.places = GroupPlaces(clock)
        self.binding: dict[str, str] = {}
        self.unknown = UnknownNames(clock)
        self.sent = SentReasons(clock)
        self.throttle = AnswerThrottle(clock)
        self.decisions = Decisions(config.server.decisions.max_pods)
        # No request counts memory that waits for the next one, so that it has a limit of its own.
        self.pool = core.BodyPool(max_idle_bytes=config.server.max_in_flight_bytes // 2)
        metrics.scrape(NODE_STORE, self.request_store.stats, store="request")

    def read_args(self, body: Body) -> core.ExtenderArgs:
        """Read the body of a filter or prioritize request; a large one may wait for others.

        Raises: WireError: the body cannot be read.
        """
        with _turn_of(body):
            return core.read_args(body, self.request_store, watched=self._watched)

    def read_preemption_args(self, body: Body) -> core.PreemptionArgs:
        """Read the body of a preempt request, which always has names of nodes, not whole nodes.

        A large body may wait for others.

        Raises: WireError: the body cannot be read.
        """
        with _turn_of(body):
            return core.read_preemption_args(body, self.request_store, watched=self._watched)

    def nodes_named(self, *names: str) -> core.Nodes:
        """Return nodes by name: watched nodes or, without a watch, nodes that requests brought."""
        store = self.request_store if self._watched is None else self._watched
        return store.select(names)

    def watched_node(self, name: str) -> core.NodeInfo | None:
        """Return a node as the watch shows it now; None: the watch shows no node of this name."""
        return None if self._watched is None else self._watched.get(name)

    def judging(self, profile: Profile, pod: core.Pod) -> Profile:
        """Return the profile with which filter and preempt judge nodes for a pod.

        While the pod's binding cycle runs, for example while Permit holds the pod, the pod counts
        on its node already, and its plugins must not see it there: a new kube-scheduler may ask
        about the pod while the bind request of the old one is still open.

        Source: kubernetes v1.36 pkg/scheduler/backend/cache/cache.go, which a pod enters when it is
        assumed, after its filters have run
        """
        node = self.binding.get(pod.uid)
        if node is None:
            return profile

        def others() -> core.PodSnapshot | None:
            pods = profile.pods()
            return None if pods is None else pods.before([(node, [pod.uid])])

        return replace(profile, pods=others)


def _turn_of(body: Body) -> AbstractContextManager[object]:
    """Return a context in which a body may be read: of the large ones, one after the other.

    None of them is read later for it, on average: those that are read side by side all end late.
    """
    return _READING_A_LARGE_BODY if len(body) > _LARGE_BODY_BYTES else nullcontext()
