"""What all verbs share: profiles, memory, the cluster, settings and metrics."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from kubextend import core
from kubextend.config import VerbName
from kubextend.framework.handle import NO_CLUSTER, ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.profile.plugin_failures import PluginFailures
from kubextend.verbs.bind_room_check import Guard
from kubextend.verbs.filter_outside_request import GoesOn, half_of
from kubextend.verbs.kept_between_calls import Memory
from kubextend.verbs.node_stores import Stores
from kubextend.verbs.readiness import Readiness
from kubextend.verbs.unknown_schedulers import UnknownSchedulers

__all__ = ["Context", "ExtenderSettings"]


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The settings of kube-scheduler's entry for this extender, and how scores are scaled.

    Attributes:
        served: the names of the verbs, such as ``filter``, that kube-scheduler calls.
        ignorable: whether kube-scheduler ignores Errors of this extender, so that a failing plugin
            has to reject nodes instead.
        last_filter: whether kube-scheduler calls no other extender's filter after this one's.
        preempt_groups: whether preempt has an ignorable entry of its own, so that it may abstain.
        score_scale: how ``core.weigh`` scales the sum of the scores.
        http_timeout_s: the seconds after which kube-scheduler gives up on every verb but bind.
        bind_timeout_s: the seconds after which kube-scheduler gives up on bind; None: never.
        guards_resources: whether bind looks again for room on the node.
    """

    served: Sequence[VerbName] = get_args(VerbName)
    ignorable: bool = False
    last_filter: bool = False
    preempt_groups: bool = False
    score_scale: Literal["additive", "strict10"] = "additive"
    http_timeout_s: float = 5.0
    bind_timeout_s: float | None = None
    guards_resources: bool = False


@dataclass(frozen=True)
class Context:
    """What all verbs share: profiles, memory, the cluster, settings and metrics.

    Attributes:
        profiles: profiles by scheduler name.
        memory: what the verbs remember between calls.
        cluster: the nodes, pods, binder, activator and client of the cluster.
        settings: how kube-scheduler calls the verbs.
        metrics: counts calls of verbs and failures of plugins.
        not_started: returns the plugins whose ``start`` has not succeeded yet.
    """

    profiles: Profiles
    memory: Memory
    cluster: ClusterPorts = NO_CLUSTER
    settings: ExtenderSettings = ExtenderSettings()
    metrics: Metrics = field(default_factory=Metrics)
    not_started: Callable[[], Iterable[str]] = tuple

    @cached_property
    def stores(self) -> Stores:
        """The stores of nodes in which verbs look up the nodes of a request."""
        return Stores(self.memory.request_store, self.cluster.nodes)

    @cached_property
    def readiness(self) -> Readiness:
        """The object that decides whether a verb may call plugins now."""
        profiles = self.profiles.by_scheduler_name.values()
        informers = (name for profile in profiles for name in profile.informers)
        return Readiness(self.cluster, informers, self.not_started)

    @cached_property
    def guard(self) -> Guard | None:
        """Looks for room on a node right before a pod is bound there; None: nothing does.

        Without access to an API there is no guard, and bind binds nothing.
        """
        nodes, pods = self.cluster.nodes, self.cluster.pods
        if not self.settings.guards_resources or nodes is None or pods is None:
            return None
        return Guard(nodes, pods, self.metrics)

    @property
    def failures(self) -> PluginFailures:
        """The object that counts and logs the failures of plugins."""
        return self.memory.limits.failures

    def judging(self, profile: Profile, pod: core.Pod) -> Profile:
        """Return the profile with which filter and preempt judge nodes for a pod.

        While the pod's binding cycle runs, for example while Permit holds the pod, the pod counts
        on its node already, and its plugins must not see it there: a new kube-scheduler may ask
        about the pod while the bind request of the old one is still open.

        Source: kubernetes v1.36 pkg/scheduler/backend/cache/cache.go, which a pod enters when it is
        assumed, after its filters have run
        """
        node = self.memory.binding.get(pod.uid)
        if node is None:
            return profile

        def others() -> core.PodSnapshot | None:
            pods = profile.pods()
            return None if pods is None else pods.before([(node, [pod.uid])])

        return replace(profile, pods=others)

    def half_time(self) -> GoesOn:
        """Return a function that returns True for half of kube-scheduler's timeout from now on."""
        return half_of(self.settings.http_timeout_s, self.memory.limits.clock)

    @cached_property
    def unknown_schedulers(self) -> UnknownSchedulers:
        """The object that says which pods are rejected for their schedulerName, and logs it."""
        return UnknownSchedulers(self.profiles)
