"""Which rights in the Kubernetes API kubextend uses: those that the rbac*.yaml of deploy/ grant."""

from collections.abc import Iterator
from typing import Final

from kubextend import cluster, queue_controller
from kubextend.cluster import LeaseName, Right
from kubextend.config import ExtenderConfiguration
from kubextend.framework.informer import Resource

__all__ = ["GENERAL_RIGHTS", "needed_rights", "used_rights"]

_NODES: Final = (Right("list", "", "nodes"), Right("watch", "", "nodes"))
_WAKES: Final = (Right("patch", "", "pods/status"),)
_PODS: Final = (Right("list", "", "pods"), Right("watch", "", "pods"))
_EVENTS: Final = tuple(Right(verb, "events.k8s.io", "events") for verb in ("create", "patch"))
_BINDS: Final = (Right("create", "", "pods/binding"), Right("get", "", "pods"))
_PATCHES_PODS: Final = Right("patch", "", "pods")
_GATE: Final = Right("remove", "kubextend.dev", "schedulinggates")
_LEASES: Final = "coordination.k8s.io", "leases"

GENERAL_RIGHTS: Final = frozenset(
    ("create", "authorization.k8s.io", resource)
    for resource in ("selfsubjectaccessreviews", "selfsubjectrulesreviews")
) | {("create", "authentication.k8s.io", "selfsubjectreviews")}
"""What Kubernetes grants everybody (the ClusterRole system:basic-user): verb, group, resource."""


def needed_rights(config: ExtenderConfiguration) -> Iterator[Right]:
    """Yield each right without which kubextend does not do what a configuration says."""
    if config.cluster is None:
        return
    yield from (*_NODES, *_WAKES)
    if config.needs_pods or config.queues:
        yield from (*_PODS, *_EVENTS)
    for resource in map(Resource.of, config.informers):
        for verb in ("list", "watch"):
            yield Right(verb, resource.group, resource.plural)
    if "bind" in config.verbs:
        yield from _BINDS
    if (lease := config.server.lease) is not None:
        namespace = lease.namespace or cluster.own_namespace() or "default"
        yield from _of_lease(LeaseName(namespace, lease.name))
        yield _PATCHES_PODS._replace(namespace=namespace)
    if config.queues:
        yield from _of_lease(queue_controller.lease_name(config))
        yield _PATCHES_PODS


def used_rights() -> frozenset[tuple[str, str, str]]:
    """Return each verb, group and resource that kubextend uses with some configuration."""
    rights = (*_NODES, *_WAKES, *_PODS, *_EVENTS, *_BINDS, _PATCHES_PODS, _GATE)
    leases = _of_lease(LeaseName("", ""))
    return frozenset((each.verb, each.group, each.resource) for each in (*rights, *leases))


def _of_lease(lease: LeaseName) -> Iterator[Right]:
    yield Right("create", *_LEASES, lease.namespace)
    for verb in ("get", "update"):
        yield Right(verb, *_LEASES, lease.namespace, lease.name)
