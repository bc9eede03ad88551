"""The four verbs of one kubextend, joined to what they need."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.handle import Activator, Binder, NodeSource, PodReader, PodSource
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profiles, WaitingPods
from kubextend.profile.run import AbandonedError, Run, current_run
from kubextend.verbs.answer import Answer, Body, QuickVerb, Verb
from kubextend.verbs.attempts import Attempts
from kubextend.verbs.bind import BindVerb, InThread
from kubextend.verbs.failures import Failures
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.in_time import InTime, OnJob
from kubextend.verbs.parked import ParkedPods, parked_before
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.readiness import Readiness
from kubextend.verbs.reasons import Reasons
from kubextend.verbs.rejected_permits import RejectedPermits
from kubextend.verbs.stores import Stores
from kubextend.verbs.unknown import UnknownNames
from kubextend.verbs.unknown_schedulers import UnknownSchedulers
from kubextend.verbs.verdict import half_of, looking_again

__all__ = ["Verbs"]

# A thread hop costs 50 to 75 us; below this size the core needs less than a millisecond or two.
_BRIEF_BYTES = 1_000_000


class Verbs:
    """Bytes of a request in, bytes of its answer out; safe to call from many threads.

    Args:
        profiles: by scheduler name.
        request_store: what full-mode requests fill.
        watched: the nodes that list and watch bring; None without access to an API.
        pods: watched pods and the ledger; None unless a plugin needs them.
        pod_reader: reads a pod that nobody else knows when it is to be bound.
        binder: posts Bindings; None without access to an API.
        activator: wakes parked pods; None without access to an API.
        ignorable: kube-scheduler was told to ignore our errors.
        score_scale: how scores are brought to the wire.
        metrics: what is counted.
        waiting_pods: where pods are found while Permit holds them.
        rejected_permits: the activator that plugins are given: what they wake is tried again. By
            default one of the verbs' own, which no plugin reaches.
        limits: threads and breakers of the plugins; None: of these verbs alone.
        not_started: names of the plugins whose ``start`` has not succeeded yet.
        http_timeout_s: when kube-scheduler gives up on a quick verb; its own default by default.
        bind_timeout_s: the same for bind; None: nobody waits.
        in_thread: runs a call that waits for the Kubernetes API.
        pool: gives the memory of large answers, which are no ``bytes`` then; None: always bytes.
        clock: seconds that only go forward.
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
        self._filter = FilterVerb(
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
        self._prioritize = PrioritizeVerb(
            profiles,
            stores,
            readiness=self.readiness,
            attempts=attempts,
            unknown_schedulers=unknown_schedulers,
            failures=failures,
            metrics=self.metrics,
            scale=score_scale,
        )
        self._preempt = PreemptVerb(
            profiles,
            stores,
            readiness=self.readiness,
            unknown_schedulers=unknown_schedulers,
            failures=failures,
            metrics=self.metrics,
            timeout_s=http_timeout_s,
        )
        self._in_time = InTime(
            self.limits,
            failures,
            metrics=self.metrics,
            timeout_s=http_timeout_s,
            ignorable=ignorable,
            clock=clock,
        )
        self._bind = BindVerb(
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
            limits=self.limits,
            timeout_s=bind_timeout_s,
            look_timeout_s=http_timeout_s,
            in_thread=in_thread,
        )

    def filter(self, body: Body) -> Body:
        """ExtenderArgs in, ExtenderFilterResult out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("filter", self._filter, body)

    def prioritize(self, body: Body) -> Body:
        """ExtenderArgs in, HostPriorityList out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("prioritize", self._prioritize, body)

    def preempt(self, body: Body) -> Body:
        """ExtenderPreemptionArgs in, ExtenderPreemptionResult out.

        Raises: WireError: the body cannot be read.
        """
        return self._counted("preempt", self._preempt, body)

    def run(self, verb: QuickVerb, body: Body) -> Body:
        """The verb of this name.

        Raises: WireError: the body cannot be read.
        """
        match verb:
            case "filter":
                return self.filter(body)
            case "prioritize":
                return self.prioritize(body)
            case "preempt":
                return self.preempt(body)

    async def bind(self, body: Body, arrived_s: float | None = None) -> Body:
        """ExtenderBindingArgs in, ExtenderBindingResult out, when the pod is bound or cannot be.

        Args:
            body: the request's.
            arrived_s: when it came, on the clock of ``time.monotonic``; None: now.

        Raises: WireError: the body cannot be read.
        """
        try:
            given = await self._bind(body, arrived_s)
        except BaseException as error:
            self._count_failure("bind", error)
            raise
        self.metrics.requests("bind", given.result).inc()
        return given.body

    @property
    def run_python(self) -> bool:
        """Whether plugins hold the interpreter while a verb runs."""
        profiles = self.profiles.by_scheduler_name.values()
        return any(profile.plugins_in_python for profile in profiles)

    def is_brief(self, verb: QuickVerb, size: int) -> bool:
        """Whether the verb may run right on the event loop: little to read, no Python in it.

        Args:
            verb: which one.
            size: of the body, in bytes.
        """
        profiles = self.profiles.by_scheduler_name.values()
        if verb == "prioritize":
            in_python = any(profile.scores_in_python for profile in profiles)
        else:
            in_python = any(profile.filters_in_python for profile in profiles)
        return not in_python and size <= _BRIEF_BYTES

    async def in_time(
        self, verb: QuickVerb, body: Body, arrived_s: float, on_job: OnJob = lambda _: None
    ) -> Body:
        """What the verb answers, from a thread, and in any case before kube-scheduler gives up.

        Args:
            verb: which one.
            body: the request's.
            arrived_s: when it came, on the clock of these verbs.
            on_job: told of each thread's work on the body.

        Raises: WireError: the body cannot be read.
        """
        work = partial(self.run, verb, body)
        return await self._in_time.answer(verb, work, arrived_s, on_job)

    def nodes_changed(self) -> None:
        """Something that plugins read changed on watched nodes; from any thread.

        Runs the filters of recently rejected pods again, so gather events before you call it.
        """
        self._parked.nodes_changed()

    def wake_due(self) -> None:
        """Pods whose time has come are activated; call it about once a second, from a thread.

        They are those that Permit rejected a while ago, those whose reasons changed while
        kube-scheduler was told the old ones, those that were rejected for what a pod had reserved
        that is not bound after all, and once those that were parked before this process knew any
        pod. Runs filters.
        """
        self._parked.look_if_expected()
        pods = [*self._rejected_permits.due(), *self._reasons.due(), *self._parked_before()]
        if pods and self._activator is not None:
            self._activator.activate(pods)

    def node_deleted(self, name: str) -> None:
        """Pods on their way to this node are not bound; from any thread, never blocks."""
        self._bind.node_deleted(name)

    def bindings_under_way(self) -> list[str]:
        """Which pods the API is asked to bind, and to which nodes; its answers are not there."""
        return self._bind.bindings_under_way()

    def nodes_listed(self) -> None:
        """A whole list of nodes is in; from any thread, never blocks."""
        self._bind.nodes_listed()

    def _parked_before(self) -> list[core.Pod]:
        """Once, as soon as they can be judged."""
        if self._pods is None or any(why() for why in self.readiness.conditions.values()):
            return []
        pods, self._pods = self._pods, None
        return parked_before(pods, self.profiles)

    def _counted(self, verb: Verb, answer: Callable[[Body], Answer], body: Body) -> Body:
        try:
            if current_run() is not None:
                given = answer(body)
            else:
                given = Run(self.limits.breakers).enter(partial(answer, body))
        except BaseException as error:
            self._count_failure(verb, error)
            raise
        self.metrics.requests(verb, given.result).inc()
        return given.body

    def _count_failure(self, verb: Verb, error: BaseException) -> None:
        if isinstance(error, AbandonedError):
            # Its request was answered and counted without it.
            return
        result = "bad_request" if isinstance(error, WireError) else "failed"
        self.metrics.requests(verb, result).inc()
