"""Says on a pod what it waits for: an Event, as `kubectl describe pod` shows it.

Permit may hold the pod, or the queue has set it aside; to everybody else it looks scheduled by
nobody, with no reason. Never makes its caller wait; an Event that the API refuses is lost, and the
pod none the worse for it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import orjson

from kubextend.cluster.call import Call, UnreachableError, is_addressable
from kubextend.cluster.outbox import Letter, Letters, Outbox, OutboxStats, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubextend.cluster.client import Cluster
    from kubextend.core import Pod

CONTROLLER = "kubextend"

RATE = 20.0
BURST = 100
"""kube-scheduler writes an Event a pod too, without any limit."""
AGAIN_S = 50 * 60.0
"""The API forgets Events after an hour."""
MOST_REMEMBERED = 10_000
CALL_S = 5.0

MOST_NOTE_BYTES = 1024
MOST_NAME_CHARS = 253
MOST_INSTANCE_CHARS = 128
MOST_LISTED = 500


@dataclass(frozen=True, slots=True)
class Note:
    """What an Event says.

    Attributes:
        reason: in one word, for machines.
        action: what kubextend was about to do with the pod.
        type: ``Warning`` where somebody has to do something.
        text: a sentence.
    """

    reason: str
    action: str
    type: Literal["Normal", "Warning"]
    text: str


def waiting_on_permit(node_name: str, plugins: Sequence[str]) -> Note:
    """These plugins hold a pod that is to run on this node."""
    text = f"held for node {node_name}, waiting on permit of {', '.join(sorted(plugins))}"
    return Note("WaitingOnPermit", "Binding", "Normal", text)


def set_aside(why: str) -> Note:
    """The scheduling gate of a pod cannot be taken off."""
    return Note("SetAside", "Releasing", "Warning", why)


class EventRecorder:
    """Writes Events.

    Args:
        cluster: the API.
        rate: Events a second in the long run.
        burst: Events at once.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        rate: float = RATE,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = Outbox(
            cluster,
            Letters(TokenBucket(rate, burst, clock), 0.0, clock),
            name="kubextend-events",
            trouble="pods cannot be told what they wait for",
        )
        self._clock = clock
        self._lock = threading.Lock()
        self._told_at: OrderedDict[str, float] = OrderedDict()

    @property
    def stats(self) -> OutboxStats:
        """What became of the Events."""
        return self._outbox.stats

    def waiting(self, pod: Pod, node_name: str, plugins: Sequence[str]) -> None:
        """The pod has an Event, soon, that names these plugins; one for each set of them.

        A pod that is held again and again, on whatever node, is told no more often than the API
        forgets. Never waits, never raises.

        Args:
            pod: what is held.
            node_name: where it is to run.
            plugins: which ones hold it.
        """
        key = " ".join((pod.uid, *sorted(plugins)))
        self._write(key, pod, waiting_on_permit(node_name, plugins))

    def set_aside(self, pod: Pod, why: str) -> None:
        """The pod has an Event, soon, that says why it is not released. Never waits, never raises.

        Args:
            pod: whose gate cannot be taken off.
            why: the reason, which may differ from one time to the next; the first is said.
        """
        self._write(f"{pod.uid} set aside", pod, set_aside(why))

    def stop(self) -> None:
        """No Event is written after this."""
        self._outbox.stop()

    def _write(self, key: str, pod: Pod, note: Note) -> None:
        if not is_addressable(pod):
            self.stats.dropped += 1
        elif self._is_news(key):
            written = event(pod, note, datetime.now(UTC))
            path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"
            call = Call("POST", path, CALL_S, body=written)
            self._outbox.put(Letter.about(pod, key, lambda: call))

    def _is_news(self, key: str) -> bool:
        now = self._clock()
        with self._lock:
            told_at = self._told_at.get(key)
            if told_at is not None and now - told_at < AGAIN_S:
                return False
            self._told_at[key] = now
            self._told_at.move_to_end(key)
            if len(self._told_at) > MOST_REMEMBERED:
                self._told_at.popitem(last=False)
        return True


def list_set_aside(cluster: Cluster) -> dict[str, str]:
    """Why pods are not released, by their UID, as the last 500 Events say. Blocks.

    Raises: ClusterError: that could not be found out.
    """
    path = "/apis/events.k8s.io/v1/events"
    query = {"fieldSelector": f"reason={set_aside('').reason}", "limit": str(MOST_LISTED)}
    call = Call("GET", path, CALL_S, query)
    try:
        events = orjson.loads(cluster.request(call))["items"]
        written = [event for event in events if event.get("reportingController") == CONTROLLER]
        return {event["regarding"]["uid"]: str(event.get("note", "")) for event in written}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UnreachableError(call, "the answer is no list of Events") from error


def event(pod: Pod, note: Note, now: datetime) -> dict[str, object]:
    """The Event of events.k8s.io/v1.

    Args:
        pod: what it is about.
        note: what it says.
        now: with its time zone; part of the Event's name, as in Kubernetes' own.
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": pod.namespace, "name": _name(pod.name, now)},
        "eventTime": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": note.type,
        "reason": note.reason,
        "action": note.action,
        "note": note.text.encode()[:MOST_NOTE_BYTES].decode(errors="ignore"),
        "reportingController": CONTROLLER,
        "reportingInstance": f"{CONTROLLER}-{socket.gethostname()}"[:MOST_INSTANCE_CHARS],
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
    }


def _name(pod_name: str, now: datetime) -> str:
    moment = f".{round(now.timestamp() * 1e6):x}"
    return pod_name[: MOST_NAME_CHARS - len(moment)].rstrip("-.") + moment
