"""A call to the Kubernetes API, and the errors of calls; imports no Kubernetes client library."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubextend.core import Pod

UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
GONE = 410
INVALID = 422
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500
GATEWAY = frozenset({502, 503, 504})
"""Statuses of what stands before the API, which may have nothing behind it for a moment."""

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""A pattern that matches every valid name of a Kubernetes object, and no text with ``/`` or ``?``:
these would change the path of the request."""

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
"""Content type of a patch that merges lists such as conditions and scheduling gates by key: list
entries that the patch does not name stay."""

NOBODY = re.compile(r'User \\?"(system:anonymous)?\\?"')
"""Whom kube-apiserver names in a 403 if a request had no credentials.
Source: k8s.io/apiserver v0.36 pkg/endpoints/handlers/responsewriters/errors.go"""

ONLY_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Value of an Accept header that asks the API to answer with an object's metadata only."""

METADATA_LIST = ONLY_METADATA.replace("Metadata;", "MetadataList;")
"""Value of an Accept header that asks the API to list the metadata of objects only."""


def is_addressable(pod: Pod) -> bool:
    """Return whether a URL can address the pod: it has a UID, and a valid namespace and name."""
    return bool(pod.uid and NAME.fullmatch(pod.namespace) and NAME.fullmatch(pod.name))


def check_names(doing: str, **names: str) -> None:
    """Check that names of objects can be part of a URL.

    Args:
        doing: what cannot be done with other names, for the message.
        names: the kind of each object -> its name.

    Raises: ClusterError: a name is none.
    """
    for kind, name in names.items():
        if not NAME.fullmatch(name):
            message = f"cannot {doing}: {name!r} is no name of a {kind}"
            raise ClusterError(message)


def parsed_object(call: Call, body: bytes) -> dict[str, Any]:
    """Return the JSON object that the API answered to a call.

    Raises: UnreachableError: the answer is no JSON object, so it does not come from the API.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UnreachableError(call, error) from error
    if not isinstance(found, dict):
        raise UnreachableError(call, "the answer is no object")
    return found


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to the Kubernetes API.

    Attributes:
        method: the HTTP method.
        path: the absolute path, each part already quoted.
        timeout_s: the most seconds without a byte from the API; connecting may take 5 s at most.
        query: parameters of the URL.
        body: a JSON object to send; None means no body.
        content_type: the content type of the request's body.
        accept: the content types that the response may have.
        right: the right that the caller needs, such as ``get on pods``, for error messages.
    """

    method: str
    path: str
    timeout_s: float
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    right: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class UnreachableError(ClusterError):
    """The Kubernetes API sent no complete response: whether the call took effect is unknown."""

    def __init__(self, call: Call, reason: object) -> None:
        super().__init__(f"{call}: {' '.join(str(reason).split())}")


class NoCredentialsError(UnreachableError):
    """A call was not sent, as no credentials came out of those that are configured."""

    def __init__(self, why: str) -> None:
        ClusterError.__init__(self, why)


class RefusedError(ClusterError):
    """The Kubernetes API answered a call with an error instead of success.

    Attributes:
        status: the HTTP status, or the code of a watch's ERROR event; 401 also for a 403 that a
            call without credentials got.
        reason: the message of the API's Status object, or the HTTP reason phrase if there is no
            Status; with the right to grant if that is what is missing.
        retry_after_s: seconds of the Retry-After header; None without that header.
    """

    status: int

    def __init__(
        self, call: Call, status: int, reason: str, retry_after_s: float | None = None
    ) -> None:
        if status == FORBIDDEN and NOBODY.search(reason):
            # No right is missing, but the credentials are.
            status = UNAUTHORIZED
        elif status == FORBIDDEN and call.right:
            reason += f"; grant {call.right}"
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(f"{call}: {status} {reason}", status)

    @property
    def passes(self) -> bool:
        """Whether the call may succeed if repeated later: the status is 401, 429, 500 or more."""
        return self.status in {UNAUTHORIZED, TOO_MANY_REQUESTS} or self.status >= SERVER_ERROR

    @property
    def is_of_another_pod(self) -> bool:
        """Whether another pod has the name of the pod that a patch with a UID is for."""
        return self.status == INVALID and "metadata.uid" in str(self)
