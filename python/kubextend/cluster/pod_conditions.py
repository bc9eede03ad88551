"""Sets conditions in the status of pods; a thread sends the patches at a limited rate.

A patch is lost if the API refuses the patch for good, if the patch fails four times in a row, or if
more than 10,000 patches wait.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from kubextend.cluster.api_call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.write_queue import TokenBucket, WaitingWrites, Write, WriteQueue, WriteStats

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

POD_INTERVAL_S: Final = 1.0
"""Seconds between two patches of one pod. kube-scheduler's own backoff begins at one second, so
more frequent patches have no effect."""
CALL_S: Final = 5.0


class Condition(NamedTuple):
    """A condition of a pod without its times.

    Attributes:
        type: the type, of which a pod has one condition.
        status: ``True`` or ``False``.
        reason: one word in CamelCase.
        message: a sentence for people.
    """

    type: str
    status: Literal["True", "False"]
    reason: str
    message: str


class PodConditions:
    """Sets conditions in the status of pods: the base of the classes that decide which.

    Args:
        cluster: the connection to the Kubernetes API.
        clock: returns the present time in monotonic seconds.

    Attributes:
        rate: the highest mean number of patches a second.
        burst: how many patches may be sent without a pause.
        thread: the name of the thread.
        trouble: the log line's words for failing patches, such as "pods cannot be woken".
    """

    rate: ClassVar[float]
    burst: ClassVar[int]
    thread: ClassVar[str]
    trouble: ClassVar[str]

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        writes = WaitingWrites(TokenBucket(self.rate, self.burst, clock), POD_INTERVAL_S, clock)
        self._queue = WriteQueue(cluster, writes, name=self.thread, trouble=self.trouble)

    @property
    def stats(self) -> WriteStats:
        """How many patches were sent, refused or dropped since the start."""
        return self._queue.stats

    def stop(self) -> None:
        """Stop sending patches, and drop the patches that are still queued."""
        self._queue.stop()

    def _set(
        self, pod: Pod, condition: Callable[[], Condition | None], pause_s: float = 0.0
    ) -> None:
        """Queue a patch of a pod's status, unless a patch of the pod is queued; never wait.

        Args:
            pod: the pod; a pod that no URL can address is counted as dropped.
            condition: returns the condition to set, or None if it is not to be set any more; called
                before each attempt.
            pause_s: the least seconds until the patch is sent.
        """
        if not is_addressable(pod):
            self.stats.dropped += 1
            return
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._queue.put(
            Write.about(pod, pod.uid, partial(_call, path, pod.uid, condition)), pause_s
        )


def _call(path: str, uid: str, make: Callable[[], Condition | None]) -> Call | None:
    condition = make()
    if condition is None:
        return None
    body = patch(uid, condition, datetime.now(UTC))
    return Call("PATCH", path, CALL_S, body=body, content_type=STRATEGIC_MERGE)


def patch(uid: str, condition: Condition, now: datetime) -> dict[str, object]:
    """Return the patch of ``pods/status`` that sets a condition.

    Args:
        uid: UID of the pod; the API refuses the patch for another pod of the same name.
        condition: the condition.
        now: the present time, with its time zone.
    """
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [{**condition._asdict(), "lastTransitionTime": moment}]
    return {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
