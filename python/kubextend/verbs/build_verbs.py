"""Makes the verbs that a configuration describes, with their profiles and plugins."""

from collections.abc import Callable, Iterable

from kubextend.config import Configuration
from kubextend.framework.handle import NO_CLUSTER, ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, WaitingPods
from kubextend.verbs.context import Context
from kubextend.verbs.verbs import Verbs

__all__ = ["build_verbs", "waiting_pods_of"]


def build_verbs(
    config: Configuration,
    ports: ClusterPorts = NO_CLUSTER,
    *,
    metrics: Metrics | None = None,
    limits: PluginLimits | None = None,
    waiting_pods: WaitingPods | None = None,
    not_started: Callable[[], Iterable[str]] = tuple,
) -> Verbs:
    """Make the extender verbs that a configuration enables, without a server around them.

    Args:
        config: a loaded and checked configuration.
        ports: the objects by which verbs and plugins reach the cluster.
        metrics: where calls are counted; None: new metrics.
        limits: threads, circuit breakers and the clock of the plugins; None: new ones.
        waiting_pods: the pods that Permit holds; None: no pod so far.
        not_started: returns the plugins whose ``start`` has not succeeded yet.

    Raises: KubextendError: a plugin cannot be made.
    """
    metrics = metrics or Metrics()
    limits = limits or PluginLimits(metrics=metrics)
    held = waiting_pods_of(config) if waiting_pods is None else waiting_pods
    return Verbs(Context(config, ports, metrics, limits, held, not_started))


def waiting_pods_of(config: Configuration) -> WaitingPods:
    """Return a ``WaitingPods`` that holds no pod yet, with the limits of a configuration."""
    extender = config.extender
    return WaitingPods(
        extender.permit_max_wait.seconds,
        extender.max_held_pods,
        extender.max_held_pods_per_namespace,
    )
