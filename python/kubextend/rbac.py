"""Writes the Role and ClusterRole that a configuration needs, for ``kubextend check --rbac``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import yaml

from kubextend.config import ExtenderConfiguration
from kubextend.errors import KubextendError
from kubextend.framework.informer import Resource

__all__ = ["roles"]

_Rule: TypeAlias = dict[str, Any]

_RBAC: Final = {"apiVersion": "rbac.authorization.k8s.io/v1"}
_NAME: Final = "kubextend"
_OWN_NAMESPACE: Final = "kubextend-system"
_BINDING: Final = f"""\
# Grant these rights to the service account of kubextend, here in the namespace {_OWN_NAMESPACE}:
#   kubectl create clusterrolebinding {_NAME} --clusterrole={_NAME} \\
#     --serviceaccount={_OWN_NAMESPACE}:{_NAME}
"""
_ROLE_BINDING: Final = f"""\
#   kubectl create rolebinding {_NAME} -n {{namespace}} --role={_NAME} \\
#     --serviceaccount={_OWN_NAMESPACE}:{_NAME}
"""


def roles(config: ExtenderConfiguration) -> str:
    """Return a YAML document for each role that kubextend needs with a configuration.

    Args:
        config: a loaded and checked configuration.

    Raises: KubextendError: the configuration does not use the Kubernetes API.
    """
    if config.cluster is None:
        message = "this configuration needs no rights: it does not use the Kubernetes API"
        raise KubextendError(message)
    documents = [_role("ClusterRole", {"name": _NAME}, [*_of_verbs(config), *_of_plugins(config)])]
    head = _BINDING
    for namespace, rules in _in_namespaces(config).items():
        head += _ROLE_BINDING.format(namespace=namespace)
        documents.append(_role("Role", {"name": _NAME, "namespace": namespace}, rules))
    return head + "---\n".join(documents)


def _of_verbs(config: ExtenderConfiguration) -> Iterator[_Rule]:
    """Yield the rights that kubextend itself needs in the whole cluster."""
    yield _rule("", "nodes", "list", "watch")
    if config.needs_pods or config.queues:
        yield _rule("", "pods", "list", "watch")
    yield _rule("", "pods/status", "patch")
    yield _rule("events.k8s.io", "events", "create", "patch")
    if "bind" in config.verbs:
        yield _rule("", "pods/binding", "create")
        yield _rule("", "pods", "get")
    if config.queues:
        yield _rule("", "pods", "patch")
        gate = _rule("kubextend.dev", "schedulinggates", "remove")
        yield {**gate, "resourceNames": [config.queue.gate]}


def _of_plugins(config: ExtenderConfiguration) -> Iterator[_Rule]:
    """Yield the rights to list and watch what the enabled plugins name in ``informers``."""
    for name in config.informers:
        resource = Resource.of(name)
        yield _rule(resource.group, resource.plural, "list", "watch")


def _in_namespaces(config: ExtenderConfiguration) -> dict[str, list[_Rule]]:
    """Return the rights to hold Leases and to label the leader's pod, by namespace."""
    rules: dict[str, list[_Rule]] = {}
    for lease in (config.server.lease, config.queue.lease if config.queues else None):
        if lease is not None:
            held = _rule("coordination.k8s.io", "leases", "get", "update")
            rules.setdefault(lease.namespace or _OWN_NAMESPACE, []).extend(
                [
                    _rule("coordination.k8s.io", "leases", "create"),
                    {**held, "resourceNames": [lease.name]},
                ]
            )
    if config.server.lease is not None:
        rules.setdefault(_OWN_NAMESPACE, []).append(_rule("", "pods", "patch"))
    return rules


def _rule(group: str, resource: str, *verbs: str) -> _Rule:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _role(kind: str, names: dict[str, str], rules: Sequence[_Rule]) -> str:
    document = {**_RBAC, "kind": kind, "metadata": names, "rules": list(rules)}
    text: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None)
    return text
