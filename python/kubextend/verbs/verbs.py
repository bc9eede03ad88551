"""The verbs filter, prioritize, preempt and bind, and what concerns all of them."""

from kubextend import core
from kubextend.verbs.answer_in_time import TimeLimitedVerb
from kubextend.verbs.bind import POD_DELETED, BindVerb
from kubextend.verbs.context import Context
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.request_metrics import REQUESTS
from kubextend.verbs.unplaced_pods import unschedulable_before
from kubextend.verbs.verb_interface import Verb

__all__ = ["Verbs"]


class Verbs:
    """The four verbs filter, prioritize, preempt and bind; safe to use from many threads.

    Call a verb with the body of a request, and it returns the body of the answer, without a time
    limit; ``await`` the call of ``bind``.

    Args:
        context: what all verbs share.
    """

    def __init__(self, context: Context) -> None:
        memory, cluster = context.memory, context.cluster
        self.profiles = context.profiles
        self.metrics = context.metrics
        self.limits = memory.limits
        self.limits.breakers.add(plugin.name for plugin in self.profiles.plugins)
        self.waiting_pods = memory.waiting_pods
        self.throttle = memory.throttle
        self.readiness = context.readiness
        self.pool = memory.pool
        self.decisions = memory.decisions
        self.unplaced = memory.unplaced
        self._places = memory.places
        self.metrics.scrape(memory.places.METRICS, lambda: memory.places)
        self._pods = None if cluster.activator is None else cluster.pods
        self._leader = cluster.leader
        self._looked_in_term: int | None = None
        self.filter = TimeLimitedVerb(FilterVerb(context), context)
        self.prioritize = TimeLimitedVerb(PrioritizeVerb(context), context)
        self.preempt = TimeLimitedVerb(PreemptVerb(context), context)
        self.bind = BindVerb(context)

        self._served = context.settings.served
        for verb in self._served:
            # An alert sees the first of these requests only if the counter was 0 before.
            self.metrics.counter(REQUESTS, verb, "unknown_scheduler")

    @property
    def served(self) -> list[Verb]:
        """The verbs that kube-scheduler calls, as the configuration says."""
        return [getattr(self, name) for name in self._served]

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
        term = 0 if self._leader is None else self._leader.term
        if self._pods is None or self._looked_in_term == term:
            return []
        conditions = [*self.readiness.conditions.values()]
        if self._leader is not None:
            conditions.append(self._leader.why_not)
        if any(why() for why in conditions):
            return []
        self._looked_in_term = term
        return unschedulable_before(self._pods, self.profiles)
