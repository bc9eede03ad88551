"""What every verb decides with."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from kubextend.config import VerbName
from kubextend.framework.handle import NO_CLUSTER, ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.verbs.failures import Failures
from kubextend.verbs.memory import Memory
from kubextend.verbs.node_stores import Stores
from kubextend.verbs.readiness import Readiness
from kubextend.verbs.refilter import GoesOn, half_of
from kubextend.verbs.unknown_schedulers import UnknownSchedulers

__all__ = ["Context", "ExtenderSettings"]


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """What kube-scheduler's entry for this extender says, and how scores are scaled for it.

    Attributes:
        served: the verbs that kube-scheduler calls.
        ignorable: kube-scheduler ignores our Errors, so a failing plugin has to reject instead.
        score_scale: how ``core.weigh`` scales the sum of the scores.
        http_timeout_s: when kube-scheduler gives up on every verb but bind.
        bind_timeout_s: when kube-scheduler gives up on bind; None: never.
    """

    served: Sequence[VerbName] = get_args(VerbName)
    ignorable: bool = False
    score_scale: Literal["additive", "strict10"] = "additive"
    http_timeout_s: float = 5.0
    bind_timeout_s: float | None = None


@dataclass(frozen=True)
class Context:
    """What every verb decides with.

    Attributes:
        profiles: profiles by scheduler name.
        memory: what is remembered between calls.
        cluster: what the cluster offers.
        settings: how kube-scheduler calls the verbs.
        metrics: where calls are counted.
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
        """Where the nodes of a request come from."""
        return Stores(self.memory.request_store, self.cluster.nodes)

    @cached_property
    def readiness(self) -> Readiness:
        """Whether plugins may be asked."""
        return Readiness(self.cluster.nodes, self.cluster.pods, self.not_started)

    @cached_property
    def failures(self) -> Failures:
        """Told of every plugin that failed."""
        return Failures(self.metrics)

    def half_time(self) -> GoesOn:
        """Return what is True until half of kube-scheduler's timeout is over, from now on."""
        return half_of(self.settings.http_timeout_s, self.memory.limits.clock)

    @cached_property
    def unknown_schedulers(self) -> UnknownSchedulers:
        """Counts pods whose scheduler has no profile."""
        return UnknownSchedulers(self.profiles)
