"""Knows which rights in the Kubernetes API kubextend needs, and writes them as roles.

The rights are those that the rbac*.yaml of deploy/ grant, and those to read what plugins name in
``informers``.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import yaml

from kubextend.cluster import Right
from kubextend.config import Configuration
from kubextend.errors import KubextendError
from kubextend.framework.informer import Resource

__all__ = ["needed_rights", "roles"]

_Rule: TypeAlias = dict[str, Any]

_ALWAYS: Final = (
    Right("list", "", "nodes"),
    Right("watch", "", "nodes"),
    Right("patch", "", "pods/status"),
    Right("create", "events.k8s.io", "events"),
    Right("obey", "kubextend.dev", "podlimits"),
)
_PODS: Final = (Right("list", "", "pods"), Right("watch", "", "pods"))
_BIND: Final = (Right("create", "", "pods/binding"), Right("get", "", "pods"))
_PATCH_PODS: Final = Right("patch", "", "pods")
_GATE: Final = Right("remove", "kubextend.dev", "schedulinggates")
_LEASE: Final = tuple(
    Right(verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "update")
)

_RBAC: Final = {"apiVersion": "rbac.authorization.k8s.io/v1"}
_NAME: Final = "kubextend"
_USUAL_NAMESPACE: Final = "kubextend-system"
_LIMITS: Final = """\
# First apply deploy/service/limits.yaml: with the rights to patch pods and their status somebody
# could change labels and more, and the policy of that file leaves of them what kubextend changes.
# It holds for every account with the right obey, below, that may not update all pods.
"""
_BINDING: Final = f"""\
# Grant these rights to the service account of kubextend, here {_NAME} in the namespace {{own}};
# with deploy/second-scheduler the account is kubextend-scheduler:
#   kubectl create clusterrolebinding {_NAME} --clusterrole={_NAME} \\
#     --serviceaccount={{own}}:{_NAME}
"""
_ROLE_BINDING: Final = f"""\
#   kubectl create rolebinding {_NAME} -n {{namespace}} --role={_NAME} \\
#     --serviceaccount={{own}}:{_NAME}
"""
_QUEUE_LEASE: Final = """\
# The Role in {own} is right for a kubextend in a pod of that namespace. In a static pod, or outside
# of a pod, kubextend has the queue's Lease in kube-system: set queue.lease.namespace there.
"""


def needed_rights(config: Configuration, own_namespace: str) -> list[Right]:
    """Return each right without which kubextend does not do what a configuration says, once.

    Args:
        config: a loaded and checked configuration.
        own_namespace: the namespace of kubextend's pod, and of Leases without a namespace.
    """
    if config.cluster is None:
        return []
    rights = [*_in_cluster(config), *_of_informers(config), *_in_namespaces(config, own_namespace)]
    return list(dict.fromkeys(rights))


def roles(config: Configuration, own_namespace: str | None = None) -> str:
    """Return a YAML document for each role that kubextend needs with a configuration.

    Args:
        config: a loaded and checked configuration.
        own_namespace: the namespace of kubextend's pod; None if it is not known. Then the roles are
            for kubextend-system, and a comment says where else the Lease of the queue may be.

    Raises: KubextendError: the configuration does not use the Kubernetes API.
    """
    if config.cluster is None:
        message = "this configuration needs no rights: it does not use the Kubernetes API"
        raise KubextendError(message)
    own = own_namespace or _USUAL_NAMESPACE
    by_namespace: dict[str, list[Right]] = {}
    for right in needed_rights(config, own):
        by_namespace.setdefault(right.namespace, []).append(right)
    head, documents = _LIMITS + _BINDING.format(own=own), []
    for namespace, rights in by_namespace.items():
        names = {"name": _NAME}
        if namespace:
            names["namespace"] = namespace
            head += _ROLE_BINDING.format(namespace=namespace, own=own)
        documents.append(_role("Role" if namespace else "ClusterRole", names, _rules(rights)))
    lease = config.server.lease or config.queue.lease
    if own_namespace is None and config.queues and lease.namespace is None:
        head += _QUEUE_LEASE.format(own=own)
    return head + "---\n".join(documents)


def _in_cluster(config: Configuration) -> Iterator[Right]:
    """Yield the rights that kubextend itself needs in the whole cluster."""
    yield from _ALWAYS
    if config.needs_pods or config.queues:
        yield from _PODS
    if "bind" in config.verbs:
        yield from _BIND
    if config.queues:
        yield _PATCH_PODS
        yield _GATE._replace(name=config.queue.gate)


def _of_informers(config: Configuration) -> Iterator[Right]:
    """Yield the rights to list and watch what the enabled plugins name in ``informers``."""
    for resource in map(Resource.of, config.informers):
        for verb in ("list", "watch"):
            yield Right(verb, resource.group, resource.plural)


def _in_namespaces(config: Configuration, own_namespace: str) -> Iterator[Right]:
    """Yield the rights to hold Leases, and to label the leader's pod, which is kubextend's own."""
    lease = config.server.lease or (config.queue.lease if config.queues else None)
    if lease is not None:
        for right in _LEASE:
            # A role cannot limit create to one name.
            name = "" if right.verb == "create" else lease.name
            yield right._replace(namespace=lease.namespace or own_namespace, name=name)
    if config.server.lease is not None:
        yield _PATCH_PODS._replace(namespace=own_namespace)


def _rules(rights: Iterable[Right]) -> list[_Rule]:
    """Return the rules of a role that grants rights, one for each resource and name."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": granted}
        | ({"resourceNames": [name]} if name else {})
        for (group, resource, name), granted in verbs.items()
    ]


def _role(kind: str, names: dict[str, str], rules: list[_Rule]) -> str:
    document = {**_RBAC, "kind": kind, "metadata": names, "rules": rules}
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None)
    return text
