"""The four verbs of one kubextend, with everything that they need."""

from kubextend import core
from kubextend.verbs.bind import BindVerb
from kubextend.verbs.context import Context
from kubextend.verbs.deadline import Deadline
from kubextend.verbs.filter import FilterVerb
from kubextend.verbs.preempt import PreemptVerb
from kubextend.verbs.prioritize import PrioritizeVerb
from kubextend.verbs.unplaced_pods import unschedulable_before
from kubextend.verbs.verb import Verb

__all__ = ["Verbs"]


class Verbs:
    """The four verbs and what they share; safe from many threads.

    Each verb may be called with the body of a request and returns the body of the answer, whatever
    time that takes; ``bind`` is to be awaited.

    Args:
        context: what every verb decides with.
    """

    def __init__(self, context: Context) -> None:
        memory, cluster = context.memory, context.cluster
        self.profiles = context.profiles
        self.metrics = context.metrics
        self.limits = memory.limits
        self.limits.breakers.add(plugin.name for plugin in self.profiles.plugins)
        self.metrics.watch_plugins(self.limits.breakers.health)
        self.waiting_pods = memory.waiting_pods
        self.readiness = context.readiness
        self.pool = memory.pool
        self.unplaced = memory.unplaced
        self._pods = None if cluster.activator is None else cluster.pods
        self.filter = Deadline(FilterVerb(context), context)
        self.prioritize = Deadline(PrioritizeVerb(context), context)
        self.preempt = Deadline(PreemptVerb(context), context)
        self.bind = BindVerb(context)

        self._served = context.settings.served

    @property
    def served(self) -> list[Verb]:
        """The verbs that kube-scheduler calls."""
        return [getattr(self, name) for name in self._served]

    @property
    def run_python(self) -> bool:
        """Whether plugins hold the interpreter while a verb runs."""
        profiles = self.profiles.by_scheduler_name.values()
        return any(profile.plugins_in_python for profile in profiles)

    def nodes_changed(self) -> None:
        """Look at recently rejected pods, because watched nodes changed; any thread may call.

        Runs the filters of these pods, so gather events before you call.
        """
        self.unplaced.nodes_changed()

    def wake_due(self) -> None:
        """Activate pods whose time has come; call this about once a second, from a thread.

        Runs filters. The pods are those of ``UnplacedPods.wake_due`` and, once, those that were
        unschedulable before this process knew any pod.
        """
        self.unplaced.wake_due()
        self.unplaced.activate(self._unschedulable_before())

    def node_deleted(self, name: str) -> None:
        """Stop the binds to a deleted node; any thread may call, never blocks."""
        self.bind.node_deleted(name)

    def bindings_under_way(self) -> list[str]:
        """Return which pods the API is asked to bind, to which nodes, without an answer so far."""
        return self.bind.bindings_under_way()

    def nodes_listed(self) -> None:
        """Stop binds to nodes that a whole list no longer shows; any thread, never blocks."""
        self.bind.nodes_listed()

    def _unschedulable_before(self) -> list[core.Pod]:
        """Return the pods of an earlier process, once, as soon as readiness permits."""
        if self._pods is None or any(why() for why in self.readiness.conditions.values()):
            return []
        pods, self._pods = self._pods, None
        return unschedulable_before(pods, self.profiles)
