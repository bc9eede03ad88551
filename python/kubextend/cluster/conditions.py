"""Sets conditions in the status of pods: to wake them, and to mark those that Permit holds.

kube-scheduler tries an unschedulable pod again when the pod is updated. The condition of a wake-up
stays on the pod, so it says nothing but when kubextend asked: to take it away would be another
update.

A held pod is on no node yet, and an autoscaler of nodes takes the held pod's node for empty.
Autoscalers count the pods whose condition ``PodScheduled`` is False with the reason
``Unschedulable``. ``status.nominatedNodeName`` is never set: Karpenter does not count a pod that
has one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

from kubextend.cluster.api_call import STRATEGIC_MERGE, Call, is_addressable
from kubextend.cluster.events import waiting_on_permit
from kubextend.cluster.outbox import Topic, Write, writes_counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kubextend.cluster.outbox import Outbox
    from kubextend.core import Pod

HELD_S: Final = 2.0
"""Seconds for which a pod is held before it is marked: most groups are complete earlier."""
CALL_S: Final = 5.0


class Condition(NamedTuple):
    """A condition of a pod without its time.

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


class _Conditions:
    """Patches the status of pods by an outbox."""

    topic: ClassVar[Topic]

    def __init__(self, outbox: Outbox) -> None:
        self.stats = outbox.stats[self.topic]
        self._outbox = outbox

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
        make = partial(_call, path, pod.uid, condition)
        self._outbox.put(Write(self.topic, pod.namespace, pod.uid, make), pause_s)


def _call(path: str, uid: str, make: Callable[[], Condition | None]) -> Call | None:
    """Return the patch that sets a condition; the API refuses it for a pod with another UID."""
    if (condition := make()) is None:
        return None
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [{**condition._asdict(), "lastTransitionTime": moment}]
    body = {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
    return Call("PATCH", path, CALL_S, body=body, content_type=STRATEGIC_MERGE)


class Activator(_Conditions):
    """Makes kube-scheduler try unschedulable pods again, by patches of the status of the pods."""

    METRICS: ClassVar = writes_counted("kubextend_activations", "Wake-ups of pods")

    topic = Topic.WAKE_UP

    def activate(self, pods: Iterable[Pod]) -> None:
        """Queue a patch of each pod's status that makes kube-scheduler try the pod again.

        The call never waits. A pod whose patch is already queued is patched once.
        """
        for pod in pods:
            self._set(pod, _activated)


def _activated() -> Condition:
    # The time makes each patch an update of the pod.
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    message = f"kubextend asked kube-scheduler at {moment} to try this pod again"
    return Condition("kubextend.dev/Activated", "True", "AskedToTryAgain", message)


class WaitingPodMarker(_Conditions):
    """Sets the condition ``PodScheduled`` of held pods to False, with the reason Unschedulable.

    A Binding sets the condition to True again, and kube-scheduler replaces it after a rejection.
    """

    METRICS: ClassVar = writes_counted("kubextend_held_pod_marks", "Marks of held pods")

    topic = Topic.MARK

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(outbox)
        self._marks: dict[str, Condition] = {}

    def hold(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """Queue the mark of a pod whose wait in Permit begins; never wait.

        Args:
            pod: the pod that is held.
            node_name: the node that the pod is to run on.
            plugins: names of the plugins that hold the pod.
        """
        message = waiting_on_permit(node_name, plugins).text
        self._marks[pod.uid] = Condition("PodScheduled", "False", "Unschedulable", message)
        self._set(pod, partial(self._marks.get, pod.uid), HELD_S)

    def release(self, uid: str) -> None:
        """Forget a pod whose wait in Permit has ended: its mark is not sent any more."""
        self._marks.pop(uid, None)
