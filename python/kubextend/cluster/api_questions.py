"""Asks the Kubernetes API who the caller is, what the caller may do, and what the API serves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubextend.cluster.api_call import METADATA_LIST, NOT_FOUND, Call, RefusedError, parsed_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubextend.cluster.client import Cluster
    from kubextend.framework.informer import Resource

__all__ = [
    "Caller",
    "Grants",
    "Right",
    "granted",
    "is_served",
    "list_node_names",
    "missing_rights",
    "server_version",
    "who_am_i",
]

_CALL_S: Final = 10.0


class Right(NamedTuple):
    """A verb on a resource of the Kubernetes API.

    Attributes:
        verb: the verb, such as ``list``.
        group: the API group; "" for the core group.
        resource: the resource in plural, with its subresource, such as ``pods/binding``.
        namespace: the namespace; "" for all namespaces, and for resources without one.
        name: the name of the one object; "" for all objects.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the right as ``kubectl auth can-i`` takes it."""
        resource, _, sub = self.resource.partition("/")
        named = f"/{self.name}" if self.name else ""
        text = f"{self.verb} {resource}{'.' + self.group if self.group else ''}{named}"
        where = f" -n {self.namespace}" if self.namespace else ""
        return f"{text}{' --subresource=' + sub if sub else ''}{where}"


class Caller(NamedTuple):
    """The user or service account that the API takes the caller for, and the API's time.

    Attributes:
        name: the name of the user or service account.
        at: the time of kube-apiserver's clock, in whole seconds.
    """

    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Grants:
    """What the caller may do in a namespace.

    Attributes:
        rights: the rights; ``*`` stands for any verb, group or resource.
        complete: whether these are all; False if an authorizer cannot list its rules.
    """

    rights: frozenset[Right]
    complete: bool


def server_version(cluster: Cluster) -> str:
    """Return the version of kube-apiserver, such as ``v1.36.3``. Blocks.

    Raises: ClusterError: the API did not answer.
    """
    return str(_answer(cluster, Call("GET", "/version", _CALL_S))["gitVersion"])


def who_am_i(cluster: Cluster) -> Caller:
    """Return who the API takes the caller for. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    review = _created(cluster, "authentication.k8s.io", "SelfSubjectReview", {})
    at = datetime.fromisoformat(review["metadata"]["creationTimestamp"])
    return Caller(review["status"]["userInfo"]["username"], at)


def missing_rights(cluster: Cluster, rights: Iterable[Right]) -> list[Right]:
    """Return those of the rights that the caller does not have; asks once for each. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    return [right for right in rights if not _is_allowed(cluster, right)]


def granted(cluster: Cluster, namespace: str) -> Grants:
    """Return what the caller may do in a namespace and with resources of no namespace. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    kind = "SelfSubjectRulesReview"
    spec = {"namespace": namespace}
    status = _created(cluster, "authorization.k8s.io", kind, spec)["status"]
    rights = {
        Right(verb, group, resource)
        for rule in status["resourceRules"] or ()
        for verb in rule["verbs"]
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
    }
    return Grants(frozenset(rights), not status.get("incomplete"))


def is_served(cluster: Cluster, resource: Resource) -> bool:
    """Return whether the API serves a resource to list and to watch. Blocks.

    Whoever has credentials may ask (the ClusterRole system:discovery).

    Raises: ClusterError: the API refused, or did not answer.
    """
    path = resource.path.removesuffix(f"/{resource.plural}")
    try:
        found = _answer(cluster, Call("GET", path, _CALL_S))["resources"] or ()
    except RefusedError as refused:
        # The API serves no resource of this group and version.
        if refused.status == NOT_FOUND:
            return False
        raise
    verbs = {each["name"]: each["verbs"] for each in found}
    return {"list", "watch"} <= set(verbs.get(resource.plural, ()))


def list_node_names(cluster: Cluster, selector: str = "") -> frozenset[str]:
    """Return the names of the nodes whose labels match a selector; without one, of all. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    query = {"labelSelector": selector} if selector else {}
    call = Call("GET", "/api/v1/nodes", _CALL_S, query, accept=METADATA_LIST)
    items = _answer(cluster, call)["items"] or ()
    return frozenset(node["metadata"]["name"] for node in items)


def _is_allowed(cluster: Cluster, right: Right) -> bool:
    resource, _, sub = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource}
    attributes |= {"subresource": sub, "namespace": right.namespace, "name": right.name}
    spec = {"resourceAttributes": attributes}
    review = _created(cluster, "authorization.k8s.io", "SelfSubjectAccessReview", spec)
    return bool(review["status"]["allowed"])


def _created(cluster: Cluster, group: str, kind: str, spec: Mapping[str, object]) -> dict[str, Any]:
    path = f"/apis/{group}/v1/{kind.lower()}s"
    body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
    if not spec:
        del body["spec"]
    return _answer(cluster, Call("POST", path, _CALL_S, body=body))


def _answer(cluster: Cluster, call: Call) -> dict[str, Any]:
    return parsed_object(call, cluster.request(call))
