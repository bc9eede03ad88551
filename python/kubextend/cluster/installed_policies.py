"""Lists the admission policies that kube-apiserver has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from kubextend.cluster.api_call import NOT_FOUND, Call, RefusedError, UnreachableError
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

CALL_S: Final = 30.0
_ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)


def list_admission(cluster: Cluster, label: str) -> list[dict[str, Any]]:
    """List the admission policies and bindings that have a label, as JSON objects. Blocks.

    Raises: ClusterError: they could not be listed, or kube-apiserver does not serve all kinds.
    """
    return [each for kind in _KINDS for each in _listed(cluster, kind, label)]


def _listed(cluster: Cluster, kind: str, label: str) -> list[dict[str, Any]]:
    resource = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    call = Call("GET", f"{_ROOT}/{resource.lower()}", CALL_S, {"labelSelector": label})
    try:
        # The entries of a list have no kind of their own.
        return [each | {"kind": kind} for each in orjson.loads(cluster.request(call))["items"]]
    except RefusedError as error:
        if error.status != NOT_FOUND:
            raise
        message = (
            f"this kube-apiserver serves no {kind} in admissionregistration.k8s.io/v1;"
            " kube-apiserver 1.36 and later do"
        )
        raise ClusterError(message, error.status) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UnreachableError(call, f"the answer is no list of {kind}") from error
