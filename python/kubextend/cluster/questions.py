"""Asks the Kubernetes API, once each: rights of the caller, version, time, nodes, policies."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubextend.cluster.api_call import (
    METADATA_LIST,
    NOT_FOUND,
    Call,
    RefusedError,
    UnreachableError,
    parsed_object,
)
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kubextend.cluster.client import Cluster

_CALL_S: Final = 10.0
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_POLICIES: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


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


def server_version(cluster: Cluster) -> str:
    """Return the version of kube-apiserver, such as ``v1.36.3``. Blocks.

    Raises: ClusterError: the API did not answer.
    """
    return str(_answer(cluster, Call("GET", "/version", _CALL_S))["gitVersion"])


def api_time(cluster: Cluster) -> datetime:
    """Return the time of kube-apiserver's clock, in whole seconds. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    review = _created(cluster, "authentication.k8s.io", "SelfSubjectReview", {})
    return datetime.fromisoformat(review["metadata"]["creationTimestamp"])


def missing_rights(cluster: Cluster, rights: Iterable[Right]) -> list[Right]:
    """Return those of the rights that the caller does not have; asks once for each. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    return [right for right in rights if not _is_allowed(cluster, right)]


def list_node_names(cluster: Cluster, selector: str = "") -> frozenset[str]:
    """Return the names of the nodes whose labels match a selector; without one, of all. Blocks.

    Raises: ClusterError: the API refused, or did not answer.
    """
    query = {"labelSelector": selector} if selector else {}
    call = Call("GET", "/api/v1/nodes", _CALL_S, query, accept=METADATA_LIST)
    items = _answer(cluster, call)["items"] or ()
    return frozenset(node["metadata"]["name"] for node in items)


def list_admission(cluster: Cluster, label: str) -> list[dict[str, Any]]:
    """List the admission policies and bindings that have a label, as JSON objects. Blocks.

    Raises: ClusterError: they could not be listed, or kube-apiserver does not serve all kinds.
    """
    kinds = [(f"{kind[:-1]}ies", kind) for kind in _POLICIES]
    kinds += [(f"{kind}Bindings", f"{kind}Binding") for kind in _POLICIES]
    return [each for plural, kind in kinds for each in _listed(cluster, plural, kind, label)]


def _listed(cluster: Cluster, plural: str, kind: str, label: str) -> list[dict[str, Any]]:
    call = Call("GET", f"/apis/{_ADMISSION}/{plural.lower()}", _CALL_S, {"labelSelector": label})
    try:
        # The entries of a list have no kind of their own.
        return [each | {"kind": kind} for each in _answer(cluster, call)["items"]]
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise
        message = f"this kube-apiserver serves no {kind} in {_ADMISSION}; 1.36 and later do"
        raise ClusterError(message, error.status) from error
    except (KeyError, TypeError) as error:
        raise UnreachableError(call, f"the answer is no list of {kind}") from error


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
