"""Connects kubextend's scheduling queue with the configuration, plugins and Kubernetes API.

The module ``app`` runs the queue beside the verbs; the command ``kubextend queue`` shows the queue
without running it.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from kubextend import cluster, core
from kubextend.config import Configuration
from kubextend.metrics import Family, HistogramFamily, Metrics, ScrapedGauge
from kubextend.profile import Profile, Profiles
from kubextend.profile.plugin_failures import PluginFailures
from kubextend.scheduling_queue import (
    Order,
    PreEnqueue,
    QueueEntry,
    QueueRunner,
    SchedulingQueue,
    Settings,
    Strategy,
    info_of,
)

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

__all__ = [
    "NAMESPACE_OUTSIDE_OF_A_POD",
    "QueueController",
    "lease_name",
    "new_queue",
    "queue_entries",
]

_LOGGER = logging.getLogger(__name__)

_WAIT: Final = HistogramFamily(
    "kubextend_queue_wait_seconds",
    "From a pod's creation until its gate was taken off.",
    (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 14_400, 86_400),
)
_RELEASES: Final = Family(
    "kubextend_queue_releases",
    "Patches to take a pod's gate off, by what became of them: released, gone, refused.",
    ("result",),
)
_MOST_AT_ONCE: Final = 8
"""The most patches that remove gates at a time; more would not make kube-apiserver faster."""
NAMESPACE_OUTSIDE_OF_A_POD: Final = "kube-system"
"""The namespace of the queue's Lease if neither the configuration nor a pod names one."""


def new_queue(
    config: Configuration,
    profiles: Mapping[str, Profile],
    failures: PluginFailures,
    leads: Callable[[], bool] = lambda: True,
) -> SchedulingQueue:
    """Make the scheduling queue that a configuration describes, without pods.

    Args:
        config: a configuration that turns the queue on.
        profiles: scheduler name -> profile with its plugins.
        failures: counts and logs the failures of plugins.
        leads: returns whether this replica is the one that may remove scheduling gates.
    """
    failed = partial(failures.note, consequence="the queue goes on without it")
    sorting = next(iter(profiles.values())).queue_sort[0]
    pre_enqueue = PreEnqueue(
        {name: profile.pre_enqueue for name, profile in profiles.items()},
        {name: profile.ignored for name, profile in profiles.items()},
        failed,
    )
    queue = config.queue
    settings = Settings(
        gate=queue.gate,
        scheduler_names=profiles.keys(),
        strategy=Strategy(queue.strategy),
        window=queue.window,
        max_hold_s=queue.max_hold.seconds,
        by_namespace=queue.fair_queuing == "ByNamespace",
    )
    order = Order(sorting, failed)
    return SchedulingQueue(settings, order, pre_enqueue.why_held, time.monotonic, leads)


def lease_name(config: Configuration) -> cluster.LeaseName:
    """Return namespace and name of the Lease whose holder may remove scheduling gates.

    Where a leader is elected, that replica removes them too.
    """
    lease = config.server.lease or config.queue.lease
    namespace = lease.namespace or cluster.own_namespace() or NAMESPACE_OUTSIDE_OF_A_POD
    return cluster.LeaseName(namespace, lease.name)


def queue_entries(
    config: Configuration,
    profiles: Profiles,
    pods: Iterable[core.Pod],
) -> list[QueueEntry]:
    """Return pods as entries of kubextend's scheduling queue, as ``kubextend queue`` lists them.

    kubextend's queue holds pods back by a scheduling gate; kube-scheduler has its own queue. The
    entries are those of a replica that has just started and has not removed a gate yet.

    Args:
        config: a configuration that turns the queue on.
        profiles: the profiles with their plugins.
        pods: every pod that is on no node.
    """
    queue = new_queue(config, profiles.by_scheduler_name, PluginFailures(Metrics()))
    queue.replace(pods)
    queue.look_ahead()
    return list(queue.entries())


@dataclass(frozen=True, slots=True)
class QueueController:
    """Starts and stops the parts that run the scheduling queue.

    Attributes:
        pods: lists and watches the pods that are on no node.
        runner: runs the queue on a thread.
        ungater: removes the scheduling gates of the pods that are next in the queue.
        election: decides by a Lease which replica removes scheduling gates.
        owns_election: whether the queue starts and stops the election.
    """

    METRICS: ClassVar[tuple["ScrapedGauge[QueueController]", ...]] = (
        ScrapedGauge(
            "kubextend_queue_pods",
            "Pods of the queue, by their state.",
            lambda queue: queue.counts(),
            ("state",),
        ),
        ScrapedGauge(
            "kubextend_queue_leader",
            "1 while this replica is the one that releases pods.",
            lambda queue: queue.election.may_begin,
        ),
    )

    pods: cluster.Reflector[core.PodStore]
    runner: QueueRunner
    ungater: cluster.Ungater
    election: cluster.Election
    owns_election: bool

    @classmethod
    def of(  # noqa: PLR0913  all but five by name
        cls,
        config: Configuration,
        profiles: Profiles,
        api: "Cluster",
        metrics: Metrics,
        events: cluster.EventRecorder,
        *,
        pods: cluster.Reflector[core.PodStore] | None = None,
        election: cluster.Election | None = None,
    ) -> "QueueController":
        """Make and connect the parts of the scheduling queue; start none and make no API call.

        Args:
            config: a configuration that turns the queue on.
            profiles: the profiles with their plugins.
            api: the connection to the Kubernetes API.
            metrics: gets the metrics of the queue.
            events: writes Events on pods whose gates cannot be removed.
            pods: the watch of all pods that plugins have; None: the queue has one of its own.
            election: the election of the leader of the verbs; None: the queue has one of its own.
        """

        def told(result: cluster.Ungating) -> None:
            _tell(runner, metrics, result)
            if result.why:
                _log(result)
                events.set_aside(result.pod, result.why)

        def woken() -> None:
            runner.wake()

        elects = election or cluster.Election(api, lease_name(config))
        elects.tell(woken)
        ungater = cluster.Ungater(
            api,
            config.queue.gate,
            at_once=min(config.queue.window, _MOST_AT_ONCE),
            may=lambda: elects.may_begin,
            told=told,
        )
        by_name = profiles.by_scheduler_name
        failures = PluginFailures(metrics)
        queue = new_queue(config, by_name, failures, lambda: elects.may_begin)
        runner = QueueRunner(queue, ungater.release)
        followed = cluster.follow_pending_pods(
            api,
            config.kept_parts,
            on_list=lambda pods: runner.tell(SchedulingQueue.replace, pods),
            on_pod=lambda pod: runner.tell(SchedulingQueue.observe, pod),
            on_gone=lambda uid: runner.tell(SchedulingQueue.forget, uid),
            shared=pods,
        )
        made = cls(followed, runner, ungater, elects, election is None)
        if pods is None:
            metrics.scrape(followed.METRICS, lambda: followed, resource="pending pods")
        metrics.histogram(_WAIT)
        metrics.scrape(cls.METRICS, lambda: made)
        return made

    def counts(self) -> dict[str, int]:
        """Return state of a pod in the queue -> how many pods are in it. Any thread may call."""
        return {state.value: number for state, number in self.runner.counts().items()}

    def start(self) -> None:
        """Start the queue's threads, which remove gates while this replica holds the Lease."""
        self.runner.start()
        self.pods.start()
        if self.owns_election:
            self.election.start()

    def stop(self) -> None:
        """Stop removing scheduling gates, and give up the Lease for another replica."""
        self.runner.stop()
        self.ungater.stop()
        self.pods.stop()
        if self.owns_election:
            self.election.stop()


def _tell(runner: QueueRunner, metrics: Metrics, result: cluster.Ungating) -> None:
    """Report to the queue what became of a patch that removes a scheduling gate, and count it."""
    pod, fate = result.pod, result.fate
    if fate is cluster.Fate.UNSENT:
        runner.tell(SchedulingQueue.returned, pod.uid)
    elif fate is cluster.Fate.RELEASED:
        metrics.counter(_RELEASES, "released").inc()
        metrics.histogram(_WAIT).observe(max(0.0, time.time() - info_of(pod).timestamp))
        runner.tell(SchedulingQueue.released, pod.uid)
    elif fate is cluster.Fate.GONE:
        metrics.counter(_RELEASES, "gone").inc()
        runner.tell(SchedulingQueue.forget, pod.uid)
    else:
        metrics.counter(_RELEASES, "refused").inc()
        api_fails = fate is cluster.Fate.UNANSWERED
        refused = partial(SchedulingQueue.refused, api_fails=api_fails)
        runner.tell(refused, pod.uid, result.why, result.retry_after_s)


def _log(result: cluster.Ungating) -> None:
    pod = result.pod
    name, facts = f"{pod.namespace}/{pod.name}", {"pod": f"{pod.namespace}/{pod.name}"}
    if pod.scheduling_group:
        name += f" of pod group {pod.scheduling_group}"
        facts["pod_group"] = f"{pod.namespace}/{pod.scheduling_group}"
    _LOGGER.warning("pod %s is set aside: %s", name, result.why, extra=facts)
