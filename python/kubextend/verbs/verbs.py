"""The verbs filter, prioritize, preempt and bind, and what concerns all of them."""

from typing import Any, TypeAlias

from kubextend import core
from kubextend.verbs.answer_in_time import TimedVerb
from kubextend.verbs.bind import POD_DELETED, BindVerb
from kubextend.verbs.context import Context
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.request_metrics import REQUESTS
from kubextend.verbs.unplaced_pods import unschedulable_before

__all__ = ["Verb", "Verbs"]

Verb: TypeAlias = TimedVerb[Any] | BindVerb
"""A verb as the HTTP server calls it."""


class Verbs:
    """The four verbs filter, prioritize, preempt and bind; safe to use from many threads.

    Call a verb with the body of a request, and it returns the body of the answer, without a time
    limit; ``await`` the call of ``bind``.

    Args:
        context: what all verbs share.
    """

    def __init__(self, context: Context) -> None:
        self.handle, self.readiness = context.handle, context.readiness
        self.profiles, self.metrics = context.profiles, context.metrics
        self.limits, self.waiting_pods = context.limits, context.waiting_pods
        self.throttle, self.pool = context.throttle, context.pool
        self.decisions, self.unplaced = context.decisions, context.unplaced
        self._places, self._cluster = context.places, context.cluster
        self._looked_in_term: int | None = None
        self.filter = FilterVerb(context, in_python=self.profiles.filter_in_python)
        self.prioritize = PrioritizeVerb(context, in_python=self.profiles.score_in_python)
        self.preempt = PreemptVerb(context, in_python=self.profiles.filter_in_python)
        self.bind = BindVerb(context)
        self.served: list[Verb] = [getattr(self, name) for name in context.config.verbs]
        """The verbs that kube-scheduler calls, as the configuration says."""

        self.limits.breakers.add(plugin.name for plugin in self.profiles.plugins)
        self.metrics.scrape(context.places.METRICS, lambda: context.places)
        for verb in self.served:
            # An alert sees the first of these requests only if the counter was 0 before.
            self.metrics.counter(REQUESTS, verb.name, "unknown_scheduler")

    @property
    def run_python(self) -> bool:
        """Whether any profile has plugins that run Python code, which holds the interpreter."""
        profiles = self.profiles.by_scheduler_name.values()
        return any(profile.plugins_in_python for profile in profiles)

    def nodes_changed(self) -> None:
        """Make kube-scheduler retry rejected pods that may pass because watched nodes changed.

        The call runs the filters for these pods, so gather events before the call. Any thread may
        call this method.
        """
        self.unplaced.nodes_changed()

    def wake_due(self) -> None:
        """Make kube-scheduler retry pods that are due; call this once a second, on a thread.

        The call runs filters. The first call after all nodes and pods are listed and all plugins
        are started also makes kube-scheduler retry pods that an earlier process left unschedulable.
        Where a leader is elected, the first call of each of the replica's terms does so.
        """
        self._places.forget_old()
        self.unplaced.wake_due()
        self.unplaced.activate(self._unschedulable_before())

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or gone; any thread may call, never waits."""
        self._places.forget(uid)
        self.unplaced.forget(uid)
        self.throttle.forget(uid)

    def pod_deleted(self, uid: str) -> None:
        """End a deleted pod's wait in Permit, and forget the pod. Any thread may call; never waits.

        Call this after the watched pods lack the pod: a bind that is under way looks there.
        """
        self.waiting_pods.send_back(uid, POD_DELETED)
        self.forget(uid)
        self.decisions.forget(uid)

    def cease_to_lead(self, why: str) -> None:
        """Fail all binding cycles and forget all unbound pods; any thread may call.

        Another replica decides about these pods from now on.
        """
        self.bind.give_up(why)
        self.unplaced.forget_all()
        self._places.forget_all()

    def _unschedulable_before(self) -> list[core.Pod]:
        """Return pods that an earlier process left unschedulable, at the first call when ready.

        Ready means that all nodes and pods are listed, all plugins are started, and this replica
        leads where a leader is elected. Other calls return an empty list.
        """
        pods, leader = self._cluster.pods, self._cluster.leader
        term = 0 if leader is None else leader.term
        if pods is None or self._cluster.activator is None or self._looked_in_term == term:
            return []
        conditions = self.readiness.conditions.values()
        if any(why() for why in conditions) or (leader is not None and leader.why_not()):
            return []
        self._looked_in_term = term
        return unschedulable_before(pods, self.profiles)
