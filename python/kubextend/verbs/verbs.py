"""The four verbs of one kubextend, with everything that they need."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

from kubextend import core
from kubextend.config import VerbName
from kubextend.framework.handle import Activator, Binder, NodeSource, PodReader, PodSource
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profiles, WaitingPods
from kubextend.verbs.attempts import Attempts
from kubextend.verbs.bind import BindVerb, InThread
from kubextend.verbs.deadline import Deadline
from kubextend.verbs.failures import Failures
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.parked import ParkedPods, parked_before
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.readiness import Readiness
from kubextend.verbs.reasons import Reasons
from kubextend.verbs.rejected_permits import RejectedPermits
from kubextend.verbs.stores import Stores
from kubextend.verbs.unknown import UnknownNames
from kubextend.verbs.unknown_schedulers import UnknownSchedulers
from kubextend.verbs.verb import Verb
from kubextend.verbs.verdict import half_of, looking_again

__all__ = ["Verbs"]


class Verbs:
    """The four verbs and what they share.

    Each verb may be called with the body of a request and returns the body of the answer, whatever
    time that takes; ``bind`` is to be awaited.

    Args:
        profiles: profiles by scheduler name.
        request_store: the store that full-mode requests fill.
        watched: the nodes that list and watch bring; None without access to an API.
        pods: watched pods and the ledger; None unless a plugin needs them.
        pod_reader: reads a pod to bind that neither attempts nor watched pods have.
        binder: posts Bindings; None without access to an API.
        activator: wakes parked pods; None without access to an API.
        ignorable: kube-scheduler is configured to ignore our errors.
        score_scale: how scores are scaled for kube-scheduler.
        metrics: where calls are counted.
        waiting_pods: where pods are found while Permit holds them.
        rejected_permits: the activator that plugins are given: pods that they wake are tried again.
            None: one that no plugin reaches.
        limits: threads and breakers of the plugins; None: new ones, for these verbs alone.
        not_started: returns the plugins whose ``start`` has not succeeded yet.
        http_timeout_s: when kube-scheduler gives up on a quick verb; 5 s, as by its own default.
        bind_timeout_s: when kube-scheduler gives up on bind; None: never.
        in_thread: runs a call that waits for the Kubernetes API.
        pool: gives the memory of large answers; None: every answer is ``bytes``.
        clock: monotonic seconds.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing it is joined to
        self,
        profiles: Profiles,
        *,
        request_store: core.NodeStore,
        watched: NodeSource | None = None,
        pods: PodSource | None = None,
        pod_reader: PodReader | None = None,
        binder: Binder | None = None,
        activator: Activator | None = None,
        ignorable: bool = False,
        score_scale: Literal["additive", "strict10"] = "additive",
        metrics: Metrics | None = None,
        waiting_pods: WaitingPods | None = None,
        rejected_permits: RejectedPermits | None = None,
        limits: PluginLimits | None = None,
        not_started: Callable[[], Iterable[str]] = tuple,
        http_timeout_s: float = 5.0,
        bind_timeout_s: float | None = None,
        in_thread: InThread = asyncio.to_thread,
        pool: core.BodyPool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.profiles = profiles
        self.metrics = metrics or Metrics()
        self.limits = PluginLimits() if limits is None else limits
        self.limits.breakers.add(plugin.name for plugin in profiles.plugins)
        self.metrics.watch_plugins(self.limits.breakers.health)
        failures = Failures(self.metrics)
        look_again = looking_again(self.limits, http_timeout_s)
        self._parked = ParkedPods(
            activator, metrics=self.metrics, look_again=look_again, clock=clock
        )
        self.waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
        self._activator = activator
        self._pods = None if activator is None else pods
        self._reasons = Reasons(clock)
        if rejected_permits is None:
            rejected_permits = RejectedPermits(activator, clock=clock)
        self._rejected_permits = rejected_permits
        attempts = Attempts()
        stores = Stores(request_store, watched)
        unknown_schedulers = UnknownSchedulers(profiles)
        self.readiness = Readiness(watched, pods, not_started)
        in_time = partial(
            Deadline,
            limits=self.limits,
            failures=failures,
            metrics=self.metrics,
            timeout_s=http_timeout_s,
            clock=clock,
        )
        self.filter = in_time(
            FilterVerb(
                profiles,
                stores,
                readiness=self.readiness,
                attempts=attempts,
                unknown=UnknownNames(clock),
                unknown_schedulers=unknown_schedulers,
                parked=self._parked,
                reasons=self._reasons,
                rejected_permits=self._rejected_permits,
                failures=failures,
                look_again=look_again,
                metrics=self.metrics,
                ignorable=ignorable,
                half_time=partial(half_of, http_timeout_s, self.limits.clock),
                pool=pool,
            )
        )
        self.prioritize = in_time(
            PrioritizeVerb(
                profiles,
                stores,
                readiness=self.readiness,
                attempts=attempts,
                unknown_schedulers=unknown_schedulers,
                failures=failures,
                metrics=self.metrics,
                scale=score_scale,
            )
        )
        self.preempt = in_time(
            PreemptVerb(
                profiles,
                stores,
                readiness=self.readiness,
                unknown_schedulers=unknown_schedulers,
                failures=failures,
                metrics=self.metrics,
                timeout_s=http_timeout_s,
            )
        )
        self.bind = BindVerb(
            profiles,
            stores=stores,
            readiness=self.readiness,
            unknown_schedulers=unknown_schedulers,
            attempts=attempts,
            waiting_pods=self.waiting_pods,
            rejected_permits=self._rejected_permits,
            parked=self._parked,
            binder=binder,
            pods=pods,
            pod_reader=pod_reader,
            failures=failures,
            metrics=self.metrics,
            limits=self.limits,
            timeout_s=bind_timeout_s,
            look_timeout_s=http_timeout_s,
            in_thread=in_thread,
        )

    def named(self, names: Iterable[VerbName]) -> list[Verb]:
        """Return the verbs of these names."""
        return [getattr(self, name) for name in names]

    @property
    def run_python(self) -> bool:
        """Whether plugins hold the interpreter while a verb runs."""
        profiles = self.profiles.by_scheduler_name.values()
        return any(profile.plugins_in_python for profile in profiles)

    def nodes_changed(self) -> None:
        """Look at recently rejected pods, because watched nodes changed; any thread may call.

        Runs the filters of these pods, so gather events before you call.
        """
        self._parked.nodes_changed()

    def wake_due(self) -> None:
        """Activate pods whose time has come; call this about once a second, from a thread.

        Runs filters. The pods are those
        - that Permit rejected a while ago,
        - whose reasons changed while kube-scheduler has the old ones,
        - that were rejected for the reservations of a pod that is not bound after all,
        - that were parked before this process knew any pod: once.
        """
        self._parked.look_if_expected()
        pods = [*self._rejected_permits.due(), *self._reasons.due(), *self._parked_before()]
        if pods and self._activator is not None:
            self._activator.activate(pods)

    def node_deleted(self, name: str) -> None:
        """Stop the binds to a deleted node; any thread may call, never blocks."""
        self.bind.node_deleted(name)

    def bindings_under_way(self) -> list[str]:
        """Return which pods the API is asked to bind, to which nodes, without an answer so far."""
        return self.bind.bindings_under_way()

    def nodes_listed(self) -> None:
        """Stop binds to nodes that a whole list no longer shows; any thread, never blocks."""
        self.bind.nodes_listed()

    def _parked_before(self) -> list[core.Pod]:
        """Return pods that were parked before this process, once, as soon as readiness permits."""
        if self._pods is None or any(why() for why in self.readiness.conditions.values()):
            return []
        pods, self._pods = self._pods, None
        return parked_before(pods, self.profiles)
