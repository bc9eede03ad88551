"""A call to the Kubernetes API, and the ways in which it fails; independent of the client."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubextend.core import Pod

NOT_FOUND = 404
CONFLICT = 409
GONE = 410
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Accepts any name of the API, and no text that could leave its own part of the path."""

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
"""Lists such as conditions and gates merge by key: entries that a patch does not name stay."""


def is_addressable(pod: Pod) -> bool:
    """Return whether the pod's names fit into a path, and a UID tells it from its successor."""
    return bool(pod.uid and NAME.fullmatch(pod.namespace) and NAME.fullmatch(pod.name))


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the API.

    Attributes:
        method: the HTTP method.
        path: the absolute path, each part already quoted.
        timeout_s: the longest silence; connecting gets at most five seconds of it.
        query: parameters of the URL.
        body: sent as JSON.
        content_type: the content type of the body.
        accept: the content types of an answer.
        most_bytes: bound on the answer; a longer one is not read to its end. None: no bound.
    """

    method: str
    path: str
    timeout_s: float
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    most_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class UnreachableError(ClusterError):
    """No whole answer came: whether the call took effect is unknown."""

    def __init__(self, call: Call, reason: object) -> None:
        super().__init__(f"{call}: {' '.join(str(reason).split())}")


class TooLongError(ClusterError):
    """The answer is longer than its reader accepts."""

    def __init__(self, call: Call, most_bytes: int) -> None:
        super().__init__(f"{call}: the answer is longer than {most_bytes} bytes")


class RefusedError(ClusterError):
    """The API answered, but not with success.

    Attributes:
        status: the HTTP status, or the code of a watch's ERROR event.
        reason: the message of the API's Status object, else the HTTP reason.
        retry_after_s: the seconds that the answer asked to wait; None where it did not ask.
    """

    status: int

    def __init__(
        self, call: Call, status: int, reason: str, retry_after_s: float | None = None
    ) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(f"{call}: {status} {reason}", status)

    @property
    def passes(self) -> bool:
        """Whether the same call may succeed later: after an overload, or a fault of the API."""
        return self.status == TOO_MANY_REQUESTS or self.status >= SERVER_ERROR
